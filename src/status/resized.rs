//! The file of sizes that no sandbox tells: those that pods got in place, after their sandboxes were made, for a label of a
//! container cannot change; and those of pods whose last edit has no room, for a drain takes the sandbox. After a boot such a
//! pod is made anew with the sizes that it had (upstream `pkg/kubelet/allocation/state/state_checkpoint.go`). It is below the
//! root directory, because the run directory does not survive a boot, and it is there only while there are such pods.
//!
//! Never here: which sizes these are.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::base::table::Table;
use crate::base::{durable, limits, regular};

/// Sizes that a pod had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Had {
    /// `manifest::hash::shape` of the pod: one of another shape is another pod.
    pub shape: String,
    /// See `pod::sizes::text`.
    pub sizes: String,
}

/// By the name of the pod, `NAMESPACE/NAME`: its UID may be another one after a boot.
pub type Resized = Table<String, Had>;

/// Name of the file below the root directory.
pub const NAME: &str = "resized";

/// What the file tells. A file that cannot be read, or is none, tells nothing: each pod has those of its sandbox then.
#[must_use]
pub fn read(root_dir: &Path) -> Resized {
    let path = root_dir.join(NAME);
    let text = match regular::read_text(&path, limits::RESIZED_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Table::new(),
        Err(error) => {
            log::warn!(
                "{}: cannot be read: {error}; resized pods count with their first sizes",
                path.display()
            );
            return Table::new();
        }
    };
    serde_json::from_str(&text).unwrap_or_else(|error| {
        log::warn!("{}: {error}; resized pods count with their first sizes", path.display());
        Table::new()
    })
}

/// The file, as it was written last.
#[derive(Debug, Default)]
pub struct Written {
    /// `None`: an earlier daemon may have written something else.
    sizes: Option<Resized>,
    has_failed: bool,
}

impl Written {
    /// Whether the file is not as it should be, since it could not be written.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Writes the file if something has changed. A failure is told once, and the next call tries again.
    pub fn keep(&mut self, root_dir: &Path, sizes: &Resized) {
        if self.sizes.as_ref() == Some(sizes) {
            return;
        }
        let path = root_dir.join(NAME);
        match write(&path, sizes) {
            Ok(()) => {
                self.sizes = Some(sizes.clone());
                self.has_failed = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    let then = "after a boot, pods may get the sizes that they had before a resize";
                    log::warn!("{}: cannot be written: {error}; {then}", path.display());
                }
            }
        }
    }
}

fn write(path: &Path, sizes: &Resized) -> io::Result<()> {
    if sizes.is_empty() {
        return durable::remove(path);
    }
    let text = serde_json::to_vec(sizes)?;
    if text.len() > limits::RESIZED_BYTES {
        return Err(io::Error::other(format!("more than {} bytes", limits::RESIZED_BYTES)));
    }
    durable::write(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::scratch;

    #[test]
    fn the_file_is_there_only_while_it_says_something_and_is_read_again() {
        let dir = scratch("resized");
        let path = dir.join(NAME);
        let mut written = Written::default();
        let none = Resized::new();
        written.keep(&dir, &none);
        assert!(!path.exists());
        let had = Had { shape: "s".to_owned(), sizes: r#"{"app":{}}"#.to_owned() };
        let one = Table::from([("default/a".to_owned(), had)]);
        written.keep(&dir, &one);
        assert_eq!(read(&dir), one);
        let time = path.metadata().unwrap().modified().unwrap();
        written.keep(&dir, &one);
        assert_eq!(path.metadata().unwrap().modified().unwrap(), time, "it is written when it changes");
        // What an earlier daemon wrote is replaced, and garbage tells nothing.
        let mut next = Written::default();
        next.keep(&dir, &none);
        assert!(!path.exists() && read(&dir).is_empty());
        std::fs::write(&path, "[").unwrap();
        assert!(read(&dir).is_empty());
        // A directory that is not there is told, and tried again.
        next.keep(&dir.join("nowhere"), &one);
        assert!(next.has_failed());
        next.keep(&dir, &one);
        assert!(!next.has_failed());
        assert_eq!(read(&dir), one);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
