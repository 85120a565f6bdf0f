//! Where Docker's files are. After each connection another engine with another root directory may answer, so
//! podkeeper asks again; until the engine answers, the last known directory stays in use.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Docker's root directory, absolute. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct EngineRoot(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    root: Option<PathBuf>,
    /// The engine that answers now has told its root directory.
    is_asked: bool,
}

impl EngineRoot {
    /// `None` until an engine has told it.
    #[must_use]
    pub fn get(&self) -> Option<PathBuf> {
        self.known().root.clone()
    }

    /// Whether the engine that answers now has to be asked.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.known().is_asked
    }

    /// Stores the directory that the engine told. A path that is not absolute is ignored.
    pub fn tell(&self, root: &str) {
        let mut known = self.known();
        known.is_asked = true;
        if Path::new(root).is_absolute() {
            known.root = Some(PathBuf::from(root));
        }
    }

    /// The connection to the engine is lost.
    pub fn lost(&self) {
        self.known().is_asked = false;
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_is_asked() {
        let root = EngineRoot::default();
        assert_eq!((root.get(), root.is_due()), (None, true));
        root.tell("/a");
        assert_eq!((root.get(), root.is_due()), (Some("/a".into()), false));
        root.lost();
        assert_eq!((root.get(), root.is_due()), (Some("/a".into()), true), "nobody has said otherwise");
        root.tell("/b");
        assert_eq!(root.get(), Some("/b".into()));
        root.tell("");
        assert_eq!((root.get(), root.is_due()), (Some("/b".into()), false));
    }
}
