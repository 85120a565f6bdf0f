//! The last statuses of pods that have ended here, while their source lists them: an API server may hear of them late.
//!
//! Never here: the status of a pod that comes back.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::base::table::Table;
use crate::daemon::turn::Turn;
use crate::daemon::turn::entry::{Blocked, WorkerStatus};
use crate::manifest::static_pod::CONFIG_SOURCE;
use crate::pod::{PodKey, Source};

impl Turn {
    /// Keeps the last status of a pod of which nothing runs any more, if its source has deleted it, or if its server makes
    /// another pod in its place: its exit codes are told with the reason why it was stopped.
    pub(super) fn keep_last(&mut self, key: &PodKey, last: WorkerStatus) {
        if self.is_deleted(key, &last.pod.uid) {
            self.ended.insert(key.clone(), last);
            return;
        }
        let blocked = self.entries.get_mut(key).and_then(|entry| entry.blocked.as_mut());
        let is_its = |it: &&mut Blocked| it.pod().source == Source::Api && it.pod().uid == last.pod.uid;
        let Some(blocked) = blocked.filter(is_its) else { return };
        if let Some(status) = blocked.take_ends(&last.status) {
            // It may be deleted before its server has heard of its end.
            self.ended.insert(key.clone(), WorkerStatus { status, leaving: None, ..last });
        }
    }

    /// Forgets those whose source lists them no more.
    pub(super) fn forget_last(&mut self) {
        let merge = &self.merge;
        self.ended.retain(|key, last| merge.get(key).is_some_and(|pod| pod.uid == last.pod.uid));
        if merge.ready(Source::Api) {
            self.node.ends_earlier.retain(|uid, _| merge.pods().any(|pod| pod.uid == *uid));
        }
    }

    /// Gives the status of a deleted pod of which nothing is left the ends that an earlier daemon knew.
    pub(in crate::daemon::turn) fn take_ends_earlier(&self, uid: &str, status: &mut PodStatus) {
        if let Some(ended) = self.node.ends_earlier.get(uid) {
            copy_ends(ended, status);
        }
    }

    /// Those of an earlier daemon that this one has to tell the next, because their server has told nothing yet.
    pub(in crate::daemon::turn) fn untold_ends(&self) -> impl Iterator<Item = Pod> {
        let merge = &self.merge;
        let untold = self.node.ends_earlier.iter().filter(|_| !merge.ready(Source::Api));
        untold.filter(|(uid, _)| !merge.pods().any(|pod| pod.uid == **uid)).map(|(uid, status)| {
            let metadata = ObjectMeta { uid: Some(uid.clone()), ..ObjectMeta::default() };
            Pod { metadata, status: Some(status.clone()), spec: None }
        })
    }

    /// The same pod, with the ends of its containers that were told with its last status.
    pub(in crate::daemon::turn) fn with_ends(&self, mut blocked: Blocked) -> Blocked {
        let pod = blocked.pod();
        if pod.source != Source::Api {
            return blocked;
        }
        let ended = self.ended.get(&pod.key).filter(|ended| ended.pod.uid == pod.uid);
        let ended = ended.map(|ended| &*ended.status).or_else(|| self.node.ends_earlier.get(&pod.uid));
        if let Some(ended) = ended {
            _ = blocked.take_ends(ended);
        }
        blocked
    }
}

/// How the containers of those pods of the API server ended that had failed for good under an earlier daemon, or were deleted,
/// by UID. What it had of a daemon before it comes without a spec.
pub(in crate::daemon::turn) fn ends_of(earlier: &[Pod]) -> Table<String, PodStatus> {
    let is_local = |pod: &&Pod| {
        let source = pod.metadata.annotations.as_ref().and_then(|all| all.get(CONFIG_SOURCE));
        source.is_some_and(|source| source != Source::Api.as_str())
    };
    let known = earlier.iter().filter(|pod| !is_local(pod)).filter_map(|pod| {
        let status = pod.status.as_ref()?;
        let is_deleted = pod.metadata.deletion_timestamp.is_some() || pod.spec.is_none();
        if status.phase.as_deref() != Some("Failed") && !is_deleted {
            return None;
        }
        let ended = |all: &Option<Vec<ContainerStatus>>| {
            all.iter().flatten().all(|it| it.state.as_ref().is_some_and(|state| state.terminated.is_some()))
        };
        let has_any = status.container_statuses.as_ref().is_some_and(|all| !all.is_empty());
        let has_ended = has_any && ended(&status.container_statuses);
        if !has_ended {
            return None;
        }
        let mut ends = PodStatus { phase: status.phase.clone(), ..PodStatus::default() };
        copy_ends(status, &mut ends);
        Some((pod.metadata.uid.clone()?, ends))
    });
    known.collect()
}

/// Shows the containers of a pod as they are in this status.
pub(in crate::daemon::turn) fn copy_ends(of: &PodStatus, shown: &mut PodStatus) {
    shown.container_statuses.clone_from(&of.container_statuses);
    shown.init_container_statuses.clone_from(&of.init_container_statuses);
    shown.ephemeral_container_statuses.clone_from(&of.ephemeral_container_statuses);
}
