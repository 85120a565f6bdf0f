//! The version of a pod that an earlier daemon ran, while a newer one waits for its start: it runs on, or ends, as it would
//! have without the restart. Its manifest is gone, and the status file has what it was.
//!
//! Never here: a version that its source may not have any more.

use std::sync::Arc;

use crate::daemon::turn::Turn;
use crate::machine::Wish;
use crate::pod::{DesiredPod, PodKey, Source};

impl Turn {
    /// Gives the running version to a worker, unless one has it already.
    pub(super) fn attend_earlier(&mut self, key: &PodKey) {
        let Some(earlier) = self.unattended(key) else { return };
        let pod = self.with_names(Arc::new(earlier));
        if let Some(entry) = self.entries.get_mut(key) {
            entry.desired = Some(Arc::clone(&pod));
            self.wish(key, Wish::Run(pod));
        }
    }

    fn unattended(&self, key: &PodKey) -> Option<DesiredPod> {
        let entry = self.entries.get(key)?;
        let waits = &entry.held()?.pod;
        let earlier = self.node.earlier.get(key).filter(|it| it.uid != waits.uid)?;
        // One that was being stopped is stopped; of one that is not written down nothing is known.
        let is_stopped = entry.worker.is_some() || self.is_unfinished(key, &earlier.uid);
        if is_stopped || earlier.spec.containers.is_empty() || !self.runs(key, &earlier.uid) {
            return None;
        }
        let policy = self.config.policy.of(earlier.source);
        policy.check(&earlier.metadata, &earlier.spec).ok()?;
        if earlier.source != Source::Api {
            policy.permits(earlier).ok()?;
        }
        let mut pod = DesiredPod::clone(earlier);
        let found = self.docker.found.get(key)?.iter().find(|c| c.uid == pod.uid)?;
        pod.written.clone_from(&found.manifest.written);
        pod.shape.clone_from(&found.manifest.shape);
        pod.ceiling = self.config.policy.max_priority(pod.source);
        Some(pod)
    }
}
