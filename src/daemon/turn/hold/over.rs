//! Pods that have ended for good: they need no room, no port and no other pod, and their containers stay, for logs and exit
//! codes. A worker tells so of its pod; before it does, Docker's list shows it, so that a daemon that starts refuses no
//! pod, and stops none, for one that has ended.

use std::sync::Arc;

use crate::base::clock::Now;
use crate::daemon::turn::Turn;
use crate::daemon::turn::admission::{Reason, Rejection};
use crate::daemon::turn::entry::Entry;
use crate::plan::actions::{self, Probes, SandboxAction};
use crate::plan::{Observed, Owned};
use crate::pod::{DesiredPod, PodKey};

/// Whether a pod has ended for good, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// It has not, or nothing is known.
    No,
    /// Docker's list shows only containers that need not run again. Its worker has told nothing yet, and may know better.
    Listed,
    /// Its worker says so.
    Told,
}

impl Over {
    /// Whether a refusal does not count: the pod needs nothing of what is lacking.
    pub(super) fn excuses(self, rejection: &Rejection) -> bool {
        self != Over::No && (rejection.is_for_want_of_room() || rejection.reason == Reason::NodePorts)
    }
}

impl Turn {
    /// Whether this version of a pod has ended for good.
    pub(super) fn over(&self, pod: &DesiredPod) -> Over {
        let entry = self.entries.get(&pod.key);
        if entry.is_some_and(|entry| entry.is_over() && entry.wants(&pod.uid)) {
            return Over::Told;
        }
        let has_told = entry.and_then(Entry::status).is_some_and(|status| status.pod.uid == pod.uid);
        if !has_told && self.is_listed_as_over(pod) { Over::Listed } else { Over::No }
    }

    fn is_listed_as_over(&self, pod: &DesiredPod) -> bool {
        let Some(all) = self.found_of(&pod.key) else { return false };
        let own = || all.iter().filter(|container| container.uid == pod.uid);
        let mut containers = own().filter(|container| !container.is_sandbox()).peekable();
        let is_dead = |container: &Owned| container.state.is_dead();
        if containers.peek().is_none() || !containers.all(is_dead) {
            return false;
        }
        let is_past = own().any(|sandbox| {
            let deadline = sandbox.kept().and_then(|kept| kept.deadline.as_ref());
            deadline.is_some_and(|deadline| deadline.passed)
        });
        let observed = Observed { all };
        is_past || actions::compute(pod, &observed, &Probes::default()).sandbox == SandboxAction::Finish
    }

    /// Gives a pod to its worker that holds nothing, as Docker's list shows it. A sandbox that runs still has its ports.
    pub(super) fn run_listed_as_over(&mut self, pod: Arc<DesiredPod>) {
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        self.run(pod);
        let runs = self.runs(&key, &uid);
        if let Some(worker) = self.entries.get_mut(&key).and_then(|entry| entry.worker.as_mut()) {
            worker.listed_as_over = Some(uid).filter(|_| !runs);
        }
    }

    /// Takes the first status of a pod into account that was listed as over: when it goes on, it is judged like others.
    pub(in crate::daemon::turn) fn judge_listed_as_over(&mut self, key: &PodKey, now: &Now) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(worker) = entry.worker.as_mut() else { return };
        let listed = worker.listed_as_over.take();
        if let (Some(uid), Some(pod)) = (listed, entry.desired.clone())
            && pod.uid == uid
            && !entry.is_over()
        {
            // What Docker listed is not believed again.
            self.docker.doubt(key);
            self.additions(vec![Arc::clone(&pod)], now);
        }
    }
}
