//! Pods that have ended for good: they need no room, no port and no other pod, and their containers stay, for logs and exit
//! codes. A worker tells so of its pod; before it does, Docker's list shows it, so that a daemon that starts refuses no
//! pod, and stops none, for one that has ended.
//!
//! Never here: a belief in what was seen before the pod was stopped. Its containers may be gone by now, and then it runs
//! anew, and needs everything.

use std::sync::Arc;

use super::Why;
use crate::base::clock::Now;
use crate::daemon::turn::Turn;
use crate::daemon::turn::admission::Room;
use crate::daemon::turn::entry::{Blocked, Entry};
use crate::machine::{StopOrder, Wish};
use crate::plan::actions::{self, Probes, SandboxAction};
use crate::plan::{Observed, Owned};
use crate::pod::{DesiredPod, PodKey, Source};

/// Whether a pod has ended for good, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// It has not, or nothing is known.
    No,
    /// Docker's list shows only containers that need not run again. Its worker, which may know better, has told nothing yet.
    Listed,
    /// Its worker says so.
    Told,
}

impl Over {
    /// What admission has to look at.
    pub(super) fn room(self) -> Room {
        if self == Over::No { Room::Counts } else { Room::NotNeeded }
    }
}

impl Turn {
    /// Whether this version of a pod has ended for good.
    pub(super) fn over(&self, pod: &DesiredPod) -> Over {
        let entry = self.entries.get(&pod.key);
        let Some(worker) = entry.and_then(|entry| entry.worker.as_ref()) else {
            return if self.is_listed_as_over(pod) { Over::Listed } else { Over::No };
        };
        // One of another source with the same UID begins anew, unless it is the same manifest.
        let is_same = worker.uids.get(&pod.uid).is_some_and(|owner| owner.is(pod));
        let wants = |entry: &Entry| entry.desired.as_ref().is_some_and(|old| old.uid == pod.uid);
        let Some(entry) = entry.filter(|entry| is_same && wants(entry) && !worker.has_stopped) else {
            return Over::No;
        };
        let is_listed = worker.status.is_none() && worker.listed_as_over.as_ref() == Some(&pod.uid);
        match (entry.is_over(), is_listed) {
            (true, _) => Over::Told,
            (false, true) => Over::Listed,
            (false, false) => Over::No,
        }
    }

    pub(super) fn is_listed_as_over(&self, pod: &DesiredPod) -> bool {
        // Events that Docker has told since make the list uncertain, its old ones too, and so does the loss of Docker. The
        // worker tells whether it is right; until then only room is not asked for.
        let Some(all) = self.docker.found.get(&pod.key).cloned() else { return false };
        let own = all.iter().filter(|container| container.uid == pod.uid && !container.is_sandbox());
        let mut containers = own.peekable();
        let is_dead = |container: &Owned| container.state.is_dead();
        if containers.peek().is_none() || !containers.all(is_dead) {
            return false;
        }
        let observed = Observed { all };
        let is_past = observed.sandboxes(&pod.uid).first().is_some_and(|sandbox| {
            let deadline = sandbox.kept().and_then(|kept| kept.deadline.as_ref());
            deadline.is_some_and(|deadline| deadline.passed)
        });
        is_past || actions::compute(pod, &observed, &Probes::default()).sandbox == SandboxAction::Finish
    }

    /// Whether all that is left of this name is a pod that has ended for good and that the policy of its source refuses now:
    /// without its containers it would run a second time when the policy lets it.
    pub(in crate::daemon::turn) fn is_refused_and_over(&self, key: &PodKey) -> bool {
        let found = self.docker.found.get(key);
        self.refused(key).any(|pod| {
            let is_only = found.into_iter().flatten().all(|c| c.uid == pod.uid && !c.state.is_running());
            // A control plane makes another pod in the place of a refused one.
            pod.source != Source::Api && is_only && self.is_listed_as_over(pod)
        })
    }

    /// Gives a pod to its worker that holds nothing, as Docker's list shows it. A sandbox that runs still has its ports.
    pub(super) fn run_as_over(&mut self, pod: Arc<DesiredPod>) {
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        self.run(pod);
        let runs = self.runs(&key, &uid);
        if let Some(worker) = self.entries.get_mut(&key).and_then(|entry| entry.worker.as_mut())
            && worker.status.is_none()
        {
            worker.listed_as_over = Some(uid).filter(|_| !runs);
        }
    }

    /// A pod that was to be stopped, and to come back later, had ended for good before: it is no evicted or drained one.
    pub(in crate::daemon::turn) fn spared(&mut self, key: &PodKey, now: &Now) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(worker) = entry.worker.as_mut() else { return };
        worker.has_stopped = false;
        let (told, within) = (worker.status.as_ref().map(|told| told.pod.uid.clone()), worker.within);
        let waits = entry.blocked.as_ref().filter(|_| entry.desired.is_none()).zip(told);
        match waits {
            // What was spared does not come back where a newer version waits: it goes, and others wait for its end.
            Some((newer, told)) if newer.pod().uid != told => {
                self.wish(key, Wish::Stop(StopOrder::new(within, "a newer version of it waits")));
            }
            Some((Blocked::Evicted(evicted), _)) => {
                let pod = Arc::clone(&evicted.pod);
                entry.evictions = None;
                self.run_as_over(pod);
            }
            Some((Blocked::Held(held), _)) if held.why == Why::Drained => {
                let pod = Arc::clone(&held.pod);
                self.run_as_over(pod);
            }
            Some((Blocked::Rejected(refused), _)) if refused.rejection.is_for_want_of_room() => {
                let pod = Arc::clone(&refused.pod);
                self.run_as_over(pod);
            }
            Some((Blocked::Held(_) | Blocked::Postponed(_) | Blocked::Rejected(_), _)) | None => {}
        }
        // Others may wait for its room.
        self.readmit(std::slice::from_ref(key), now);
    }

    /// Takes a status of a pod into account that was over, as it was told or listed: when it goes on, it is judged like
    /// others.
    pub(in crate::daemon::turn) fn judge_what_goes_on(&mut self, key: &PodKey, was_over: bool, now: &Now) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(worker) = entry.worker.as_mut() else { return };
        let was_listed = worker.listed_as_over.take().is_some();
        let goes_on = entry.status().is_some_and(|status| !status.has_ended() && status.leaving.is_none());
        let uid = entry.status().map(|status| status.pod.uid.clone());
        if (was_over || was_listed)
            && goes_on
            && let Some(pod) = entry.desired.take_if(|pod| Some(&pod.uid) == uid.as_ref())
        {
            self.additions(vec![pod], now);
        }
    }
}
