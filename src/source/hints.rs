//! What was heard of files between two scans, and which file names count at all. Pure.

use std::collections::BTreeSet;

use crate::base::limits;

/// What was heard since the last look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Something may be different.
    pub look: bool,
    /// File names whose writer finished, or that were moved here whole.
    pub written: BTreeSet<String>,
    /// File names that were seen to be deleted or moved away.
    pub deleted: BTreeSet<String>,
}

impl Hints {
    /// There is a reason to look.
    #[must_use]
    pub fn any(&self) -> bool {
        self.look || !self.written.is_empty() || !self.deleted.is_empty()
    }

    /// A file is whole.
    pub fn finished(&mut self, name: &str) {
        self.deleted.remove(name);
        remember(&mut self.written, name, &mut self.look);
    }

    /// A file is gone.
    pub fn gone(&mut self, name: &str) {
        self.written.remove(name);
        remember(&mut self.deleted, name, &mut self.look);
    }
}

/// Past the bound names are forgotten: then it is a hint like any other.
fn remember(names: &mut BTreeSet<String>, name: &str, look: &mut bool) {
    if names.len() < limits::MANIFEST_FILES {
        names.insert(name.to_owned());
    } else {
        *look = true;
    }
}

/// The file name counts as a manifest: an allow list, so that backups, swap files and editors' temporary
/// files are nobody's pods (kubernetes/kubernetes#136962). Case counts.
#[must_use]
pub fn is_manifest_name(name: &str) -> bool {
    let suffix = [".yaml", ".yml", ".json"].iter().any(|s| name.ends_with(s));
    suffix && !name.starts_with('.')
}
