//! Whether volumes are still wanted. A set-up may take minutes, and a pod be gone meanwhile: it ends early then, so that
//! pods that come and go pile up no threads and mounts.

use std::sync::{Arc, Weak};

/// Held while volumes are wanted; dropping it ends their set-up.
#[derive(Debug, Default)]
pub struct Interest(Arc<()>);

impl Interest {
    /// For the order of a set-up.
    #[must_use]
    pub fn of_an_order(&self) -> Wanted {
        Wanted(Arc::downgrade(&self.0))
    }
}

/// Part of the order of a set-up.
#[derive(Debug, Clone)]
pub struct Wanted(Weak<()>);

impl Wanted {
    /// Whether the volumes are not wanted any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl PartialEq for Wanted {
    fn eq(&self, other: &Wanted) -> bool {
        self.0.ptr_eq(&other.0)
    }
}
