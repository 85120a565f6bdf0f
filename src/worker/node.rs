//! Data about the node that other threads update while pods run: a machine gets the changes before each of its
//! steps, and reads nothing by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::container_records::ContainerRecords;
use super::judged::Judged;
use crate::cgroup::Parents;
use crate::image::grants::Grants;
use crate::machine::NodeFacts;

/// The shared cells of these data. Each is locked only for the time of a copy.
#[derive(Debug, Clone)]
pub struct NodeCells {
    /// The naming of pods' cgroups.
    pub cgroups: Parents,
    /// Whether Docker can mount recursively read-only, by its last answer.
    pub recursive_mounts: Arc<AtomicBool>,
    /// The secrets that brought each image.
    pub grants: Arc<Grants>,
    /// The bytes of all containers' labels.
    pub container_records: ContainerRecords,
    /// Images that were refused.
    pub judged: Judged,
}

impl NodeCells {
    /// The current data.
    #[must_use]
    pub fn facts(&self) -> NodeFacts {
        NodeFacts {
            cgroups: self.cgroups.get(),
            recursive_mounts: self.recursive_mounts.load(Ordering::Relaxed),
            grants: self.grants.known(),
        }
    }

    /// The data if they have changed since `told`, which is updated.
    pub(super) fn news(&self, told: &mut NodeFacts) -> Option<NodeFacts> {
        let facts = self.facts();
        (facts != *told).then(|| {
            told.clone_from(&facts);
            facts
        })
    }
}
