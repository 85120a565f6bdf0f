//! Pods whose room comes free by itself: those that have ended for good and of which something runs for a moment yet, and
//! those that another pod waits for until they have succeeded. Nobody is stopped for their room, and who waits for it keeps it.
//!
//! Never here: a wait for pods that run on.

use std::sync::Arc;

use super::Why;
use crate::base::clock::Now;
use crate::base::table::Set;
use crate::daemon::turn::Turn;
use crate::daemon::turn::admission::Room;
use crate::daemon::turn::entry::{Entry, WorkerStatus};
use crate::pod::after::{self, Dependency, Need, Verdict};
use crate::pod::{DesiredPod, PodKey};
use crate::recorder::{ObjectEvent, words};

impl Turn {
    /// Whether a pod has ended for good: what runs of it, its sandbox, a sidecar, or containers in the grace period after
    /// its deadline, is being stopped by its worker. Of a source behind others none whose containers run: it would choose
    /// how long they wait.
    pub(in crate::daemon::turn) fn ends_by_itself(&self, entry: &Entry) -> bool {
        let (Some(pod), Some(worker)) = (&entry.desired, &entry.worker) else { return false };
        // What was stopped begins anew.
        if worker.has_stopped {
            return false;
        }
        match &worker.status {
            Some(told) => {
                let is_brief = !self.is_behind(pod) || !told.has_running();
                told.is_over() && told.pod.uid == pod.uid && is_brief
            }
            None => self.is_listed_as_over(pod),
        }
    }

    /// Whether a pod of an entry counts beside another one. `before`: see [`Turn::gone_before`].
    pub(in crate::daemon::turn) fn counts(
        &self,
        room: Room,
        (key, entry): (&PodKey, &Entry),
        pod: &Arc<DesiredPod>,
        before: &Set<PodKey>,
    ) -> bool {
        match room {
            Room::Counts | Room::IsMade | Room::NotNeeded => true,
            Room::Soon | Room::Later => {
                // A newer version that waits does not end with the older one.
                let waits = || entry.waits().is_some_and(|waits| Arc::ptr_eq(waits, pod));
                !before.contains(key) && (!self.ends_by_itself(entry) || waits())
            }
        }
    }

    /// The pods that have ended before this one needs its room, beside those that have ended already.
    pub(in crate::daemon::turn) fn gone_before(&self, pod: &DesiredPod, room: Room) -> Set<PodKey> {
        match room {
            Room::Counts | Room::IsMade | Room::NotNeeded => Set::new(),
            Room::Soon => self.borrowers(pod),
            Room::Later => {
                let mut gone = self.ended_before(pod);
                gone.extend(self.borrowers(pod));
                gone
            }
        }
    }

    /// The pods that have ended before this one starts: those that it waits for to succeed, and those that have to succeed
    /// before one that it waits for. Empty for a pod that waits for nothing any more.
    fn ended_before(&self, pod: &DesiredPod) -> Set<PodKey> {
        let (mut ended, mut seen, mut next) = (Set::new(), Set::new(), Vec::new());
        if !self.has_room_made(pod) {
            next.extend(self.awaited(pod));
        }
        while let Some((key, need)) = next.pop() {
            if need == Need::Succeeded {
                ended.insert(key.clone());
            }
            if seen.insert(key.clone()) {
                match self.waiting.awaited_by(&key) {
                    Some(on) => next.extend(on.iter().cloned()),
                    None => {
                        let accepted = self.entries.get(&key).and_then(Entry::accepted);
                        next.extend(accepted.into_iter().flat_map(|pod| self.awaited(pod)));
                    }
                }
            }
        }
        ended
    }

    /// What a pod waits for before its start, by both identities that a name may mean.
    fn awaited(&self, pod: &DesiredPod) -> Vec<(PodKey, Need)> {
        let on = after::of(pod).map(|after| after.on).unwrap_or_default();
        let keys = |on: Dependency| on.keys(&self.config.node_name).map(|key| (key, on.need));
        on.into_iter().flat_map(keys).collect()
    }

    /// Holds a pod that was refused, when it has its place as soon as others have ended by themselves. Returns false where
    /// that would not help.
    pub(super) fn wait_for_ends(&mut self, pod: &Arc<DesiredPod>, now: &Now) -> bool {
        let after = after::of(pod).filter(|_| !self.has_room_made(pod));
        let verdict = after.map(|after| (self.judge(pod, &after, now), after));
        if let Some((Verdict::Wait { message, until }, after)) = &verdict {
            let fits = self.admit(pod, Room::Later).is_ok();
            if fits {
                self.wait(Arc::clone(pod), after, message, *until, now);
            }
            return fits;
        }
        if self.admit(pod, Room::Soon).is_err() {
            return false;
        }
        if let Some((Verdict::StartAnyway(missing), after)) = verdict {
            let words = words::after_timeout(after.timeout, &missing);
            self.record(ObjectEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
        }
        self.note_lent(pod);
        let message = self.awaited_for(pod);
        self.hold(Arc::clone(pod), Why::Room, &message, now);
        true
    }
}

impl WorkerStatus {
    /// Whether a container of the pod runs, as it was told last.
    fn has_running(&self) -> bool {
        let status = &self.status;
        let all = [
            &status.container_statuses,
            &status.init_container_statuses,
            &status.ephemeral_container_statuses,
        ];
        let mut states = all.into_iter().flatten().flatten().filter_map(|container| container.state.as_ref());
        states.any(|state| state.running.is_some())
    }
}
