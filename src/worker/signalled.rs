//! Which containers podkeeper has signalled so that their ends are not their own, in files of the run directory. The status file names them, too, but is written a
//! moment after the signal: a podkeeper that is killed in between would leave a container that has ended by it, and the next
//! one would take that for the container's own end.
//!
//! Never here: a decision; what is older than the status file.

use std::fs;
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

    /// Ids of the containers that earlier daemons have signalled. Where there are too many, nobody forgets what others remove.
    #[must_use]
    pub fn earlier(&self) -> Set<String> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let all: Set<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
        if all.len() > limits::SIGNALLED {
            _ = fs::remove_dir_all(&self.0);
        }
        all
    }

    /// Notes that a container gets a signal now. Where there is no room for it, the status file has to do.
    pub(super) fn note(&self, id: &str) {
        if let Some(file) = self.file(id) {
            _ = fs::File::create(&file).or_else(|_| {
                fs::create_dir(&self.0)?;
                fs::File::create(&file)
            });
        }
    }

    /// Forgets a container that is being removed, or had ended before its signal.
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
        signalled.note(&a);
        fs::remove_dir_all(run_dir.join(DIRECTORY)).unwrap();
        for id in [&a, &b] {
            signalled.note(id);
        }
        assert_eq!(Signalled::new(&run_dir).earlier(), [a.clone(), b.clone()].into());
        signalled.forget(&a);
        assert_eq!(signalled.earlier(), [b].into());
        for id in ["", "..", "a/b"] {
            signalled.note(id);
        }
        (0..limits::SIGNALLED).for_each(|n| signalled.note(&format!("{n}")));
        assert_eq!(signalled.earlier().len(), limits::SIGNALLED + 1, "they count once more");
        assert!(signalled.earlier().is_empty());
        fs::remove_dir_all(&run_dir).unwrap();
    }
}
