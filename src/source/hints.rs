//! Hints about files between two scans, and the names of files that count. Pure.

use crate::base::limits;
use crate::base::table::Set;

/// Events since the last scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Something may be different.
    pub look: bool,
    /// Names of files whose writer finished, or that were moved here complete.
    pub written: Set<String>,
    /// Names of files that were seen to be deleted or moved away.
    pub deleted: Set<String>,
}

impl Hints {
    /// Whether there is a reason to scan.
    #[must_use]
    pub fn any(&self) -> bool {
        self.look || !self.written.is_empty() || !self.deleted.is_empty()
    }

    /// Notes that a file is complete.
    pub fn finished(&mut self, name: &str) {
        self.deleted.remove(name);
        remember(&mut self.written, name, &mut self.look);
    }

    /// Notes that a file is gone.
    pub fn gone(&mut self, name: &str) {
        self.written.remove(name);
        remember(&mut self.deleted, name, &mut self.look);
    }
}

/// Past the bound names are dropped: then it is a hint without a name.
fn remember(names: &mut Set<String>, name: &str, look: &mut bool) {
    if names.len() < limits::MANIFEST_FILES {
        names.insert(name.to_owned());
    } else {
        *look = true;
    }
}

/// Whether a file of this name is a manifest. It is an allow list, so that backups, swap files and editors' temporary
/// files are not pods (kubernetes/kubernetes#136962). Case counts.
#[must_use]
pub fn is_manifest_name(name: &str) -> bool {
    let suffix = [".yaml", ".yml", ".json"].iter().any(|s| name.ends_with(s));
    suffix && !name.starts_with('.')
}
