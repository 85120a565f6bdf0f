//! What other threads learn of the node while pods run: a machine is told of it before each of its steps, and reads
//! nothing by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cgroup::Parents;
use crate::image::grants::Grants;
use crate::machine::NodeFacts;

/// Where it is kept. None of it is ever held for longer than a copy takes.
#[derive(Debug, Clone)]
pub struct NodeCells {
    /// How cgroups of pods are named.
    pub cgroups: Parents,
    /// Docker mounts recursively read-only where that is asked for, as far as it said last.
    pub recursive_mounts: Arc<AtomicBool>,
    /// Whose secrets brought which image.
    pub grants: Arc<Grants>,
}

impl NodeCells {
    /// As it is now.
    #[must_use]
    pub fn facts(&self) -> NodeFacts {
        NodeFacts {
            cgroups: self.cgroups.get(),
            recursive_mounts: self.recursive_mounts.load(Ordering::Relaxed),
            grants: self.grants.known(),
        }
    }

    /// What has changed since `told`, which is brought up to date.
    pub(super) fn news(&self, told: &mut NodeFacts) -> Option<NodeFacts> {
        let facts = self.facts();
        (facts != *told).then(|| {
            told.clone_from(&facts);
            facts
        })
    }
}
