//! The last reports of a machine: equal ones are not sent again.

pub(super) mod dead;
pub(super) mod freed;
pub(super) mod logs;
pub(super) mod out;
pub(super) mod publish;
pub(super) mod tell;

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;

use crate::base::table::{Set, Table};
use crate::pod::object::Objects;
use crate::pod::{DesiredPod, is_final};
use crate::pod_logs::ContainerLogs;
use crate::runtime::DockerState;

/// The last reports of each kind.
#[derive(Debug, Default)]
pub(super) struct LastReported {
    /// The last computed status of this life of the pod.
    pub status: Option<Arc<PodStatus>>,
    /// The last reported status, whether the pod was being stopped, and the pod.
    pub reported: Option<(Arc<PodStatus>, bool, Arc<DesiredPod>)>,
    /// The last reported containers.
    pub seen: (Table<String, DockerState>, Set<String>),
    /// Earlier objects: containers that were made of them show their Secrets' values still.
    pub objects: Vec<Arc<Objects>>,
    /// The last set of logs.
    pub logs: ContainerLogs,
    /// UIDs of which something is left, or was when it was looked last.
    pub uids: Set<String>,
    /// That the pod is spared is not sent yet.
    pub spared: bool,
    /// The report that nothing runs any more was sent.
    pub terminated: bool,
    /// Dead instances of each container.
    pub dead: Vec<u32>,
    /// The report that nothing is left was sent, with this number of wishes.
    pub gone: Option<u64>,
}

impl LastReported {
    /// Whether the pod has ended for good, by its status.
    pub fn has_ended(&self) -> bool {
        self.status.as_deref().is_some_and(has_ended)
    }

    /// Notes that something is wanted or runs: the reports of the end are sent again after that.
    pub fn not_over(&mut self) {
        (self.terminated, self.gone) = (false, None);
    }

    /// Number of remembered items.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.seen.0.len() + self.logs.len()
    }
}

/// Whether the phase is a terminal one.
pub(super) fn has_ended(status: &PodStatus) -> bool {
    is_final(status.phase.as_deref())
}
