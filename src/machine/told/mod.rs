//! What a machine told last: the same is not told again.

pub(super) mod dead;
pub(super) mod logs;
pub(super) mod out;
pub(super) mod publish;
pub(super) mod tell;

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;

use crate::base::table::Table;
use crate::pod::{DesiredPod, is_final};
use crate::pod_logs::ContainerLogs;
use crate::runtime::DockerState;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LastReported {
    /// The status of this life of the pod, as it was computed last.
    pub status: Option<Arc<PodStatus>>,
    /// The status that was told last, whether the pod was being stopped, and which pod that was.
    pub reported: Option<(Arc<PodStatus>, bool, Arc<DesiredPod>)>,
    /// What was seen in Docker.
    pub seen: Table<String, DockerState>,
    /// Logs that are to be found by name.
    pub logs: ContainerLogs,
    /// That nothing runs any more.
    pub terminated: bool,
    /// Dead instances of each container.
    pub dead: Vec<u32>,
    /// That nothing is left, after so many wishes.
    pub gone: Option<u64>,
}

impl LastReported {
    /// The pod has ended for good, as its status says.
    pub fn has_ended(&self) -> bool {
        self.status.as_deref().is_some_and(has_ended)
    }

    /// Something is wanted or runs: what is told at the end is told again then.
    pub fn not_over(&mut self) {
        (self.terminated, self.gone) = (false, None);
    }

    /// How many things it remembers.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.seen.len() + self.logs.len()
    }
}

/// Its phase is a terminal one.
pub(super) fn has_ended(status: &PodStatus) -> bool {
    is_final(status.phase.as_deref())
}
