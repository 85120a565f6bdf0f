//! The last statuses of pods that have ended here, while their source lists them: an API server may hear of them late.
//!
//! Never here: the status of a pod that comes back.

use crate::daemon::turn::Turn;
use crate::daemon::turn::entry::{Blocked, WorkerStatus};
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

    /// The same pod, with the ends of its containers that were told with its last status.
    pub(in crate::daemon::turn) fn with_ends(&self, mut blocked: Blocked) -> Blocked {
        let pod = blocked.pod();
        let ended = self.ended.get(&pod.key).filter(|ended| ended.pod.uid == pod.uid);
        if let Some(ended) = ended.filter(|_| pod.source == Source::Api) {
            _ = blocked.take_ends(&ended.status);
        }
        blocked
    }
}
