//! Which containers podkeeper has signalled, in files of the run directory. The status file names them, too, but is written a
//! moment after the signal: a podkeeper that is killed in between would leave a container that has ended by it, and the next
//! one would take that for the container's own end.
//!
//! Never here: a decision; what is older than the status file.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::limits;
use crate::base::table::Set;

/// Name of the directory in the run directory.
const DIRECTORY: &str = "signalled";

/// The files of one daemon. Clones share them.
#[derive(Debug, Clone)]
pub struct Signalled(Arc<Path>);

impl Signalled {
    /// The files in this run directory; none are made yet.
    #[must_use]
    pub fn new(run_dir: &Path) -> Signalled {
        Signalled(run_dir.join(DIRECTORY).into())
    }

    /// Ids of the containers that earlier daemons have signalled. Files that the status file has outlived are removed.
    #[must_use]
    pub fn earlier(&self) -> Set<String> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten().take(limits::SIGNALLED);
        let read = files.filter_map(|file| {
            let age = file.metadata().and_then(|data| data.modified()).ok()?.elapsed().unwrap_or_default();
            if age > limits::SIGNALLED_FOR {
                _ = fs::remove_file(file.path());
            }
            file.file_name().into_string().ok()
        });
        read.collect()
    }

    /// Notes that a container gets a signal now. Returns the file if that is the first one. Where there is no room for it, the
    /// status file has to do.
    pub(super) fn note(&self, id: &str) -> Option<PathBuf> {
        let file = self.file(id)?;
        let make = || fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
        let made = make().or_else(|error| match error.kind() {
            ErrorKind::NotFound => fs::create_dir_all(&self.0).and_then(|()| make()),
            _ => Err(error),
        });
        made.is_ok().then_some(file)
    }

    /// Forgets a container that is being removed.
    pub(super) fn forget(&self, id: &str) {
        if let Some(file) = self.file(id) {
            _ = fs::remove_file(file);
        }
    }

    fn file(&self, id: &str) -> Option<PathBuf> {
        let is_one_name = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_one_name.then(|| self.0.join(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::scratch;

    #[test]
    fn what_was_signalled_is_known_to_the_next_daemon() {
        let run_dir = scratch("signalled");
        let signalled = Signalled::new(&run_dir);
        assert!(signalled.earlier().is_empty(), "there is no directory");
        let [a, b] = ["a1".repeat(32), "b2".repeat(32)];
        assert!(signalled.note(&a).is_some());
        assert_eq!(signalled.note(&a), None, "only the first time");
        fs::remove_dir_all(run_dir.join(DIRECTORY)).unwrap();
        for id in [&a, &b] {
            assert!(signalled.note(id).is_some(), "the directory was lost");
        }
        assert_eq!(Signalled::new(&run_dir).earlier(), [a.clone(), b.clone()].into());
        signalled.forget(&a);
        assert_eq!(signalled.earlier(), [b.clone()].into());
        let old = std::time::SystemTime::now() - 2 * limits::SIGNALLED_FOR;
        fs::File::open(run_dir.join(DIRECTORY).join(&b)).unwrap().set_modified(old).unwrap();
        assert_eq!(signalled.earlier(), [b].into(), "it counts once more");
        assert!(signalled.earlier().is_empty());
        for id in ["", "..", "a/b"] {
            assert_eq!(signalled.note(id), None);
        }
        fs::remove_dir_all(&run_dir).unwrap();
    }
}
