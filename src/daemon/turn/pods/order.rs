//! The order in which pods that come together are judged.
//!
//! Never here: a time. The same pods give the same order in each daemon.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::base::order;
use crate::base::table::Set;
use crate::daemon::turn::Turn;
use crate::daemon::turn::admission::Rejection;
use crate::daemon::turn::entry::Entry;
use crate::daemon::turn::evicted::Evicted;
use crate::pod::{DesiredPod, PodKey, priority};
use crate::status;

/// Who had room before an end that others have brought: of this daemon, or of all pods by a drain. An edited pod has what
/// the one before had.
#[derive(Debug, Default)]
pub(in crate::daemon::turn) struct Rooms {
    /// Pods that ran or waited then, and that nobody has judged since, or that were refused then.
    had: Set<String>,
    /// Pods of an earlier daemon that had none, and that nobody has judged since.
    lacked: Set<String>,
}

impl Rooms {
    /// What these pods of an earlier daemon had; `lacked`: those that had none, beside the refused ones.
    pub(in crate::daemon::turn) fn of_earlier(pods: &[Pod], mut lacked: Set<String>) -> Rooms {
        let key = |pod: &Pod| {
            let (namespace, name) = (pod.metadata.namespace.clone()?, pod.metadata.name.clone()?);
            Some(PodKey { namespace, name }.to_string())
        };
        let is_refused = |pod: &&Pod| pod.status.as_ref().is_some_and(status::is_rejected);
        lacked.extend(pods.iter().filter(is_refused).filter_map(key));
        let had = pods.iter().filter_map(key).filter(|key| !lacked.contains(key));
        Rooms { had: order::set(had), lacked }
    }

    /// The pod is judged: what it had before does not count any more.
    pub(in crate::daemon::turn) fn judged(&mut self, key: &PodKey) {
        if !self.had.is_empty() || !self.lacked.is_empty() {
            let key = key.to_string();
            self.had.remove(&key);
            self.lacked.remove(&key);
        }
    }
}

impl Turn {
    /// Running pods come first, so that they keep their ports; then those for which others would be stopped, so that none
    /// starts in vain, and jobs that others wait for; then those that have their room or had it; then by name.
    pub(super) fn in_order(&self, mut pods: Vec<Arc<DesiredPod>>) -> Vec<Arc<DesiredPod>> {
        let first = |pod: &DesiredPod| {
            let is_critical = priority::is_critical(pod);
            let (runs, runs_containers) =
                (self.runs(&pod.key, &pod.uid), self.runs_containers(&pod.key, &pod.uid));
            let (is_needed, has_room) = (self.is_needed_job(pod), self.has_room(&pod.key));
            // Of which only the sandbox is left holds its ports, but may have lost its room.
            let has_none = (!runs_containers, !runs);
            (has_none, !is_critical, !self.precedes(pod), !is_needed, !has_room)
        };
        order::sort_by(&mut pods, |a, b| first(a).cmp(&first(b)).then_with(|| a.key.cmp(&b.key)));
        pods
    }

    /// It is refused. What others have taken its room from, or what has not run since a drain, is judged first when there is
    /// room again.
    pub(super) fn room_refused(&mut self, key: &PodKey, why: &Rejection) {
        let runs = self.entries.get(key).is_some_and(|entry| entry.accepted().is_some());
        let waits = why.is_for_want_of_room() && !runs && self.has_room(key);
        self.node.rooms.judged(key);
        if waits {
            self.node.rooms.had.insert(key.to_string());
        }
    }

    /// A drain begins: what is refused by then comes after what runs.
    pub(in crate::daemon::turn) fn forget_rooms_of_refused(&mut self) {
        for (key, _) in self.entries.iter().filter(|(_, entry)| entry.rejected().is_some()) {
            self.node.rooms.judged(key);
        }
    }

    /// Whether a pod of this name has its room, or had it and was not judged since: what never had one takes none of it.
    pub(in crate::daemon::turn) fn has_room(&self, key: &PodKey) -> bool {
        // What has ended for good needs none, and its next version is new.
        let accepted = |entry: &Entry| entry.accepted().is_some() && !entry.has_ended();
        // What went for its own limits, or for the node's need, has left its room to others.
        let is_preempted = |entry: &Entry| entry.evicted().is_some_and(Evicted::made_room);
        let has = |entry: &Entry| accepted(entry) || is_preempted(entry);
        self.entries.get(key).is_some_and(has)
            || !self.node.rooms.had.is_empty() && self.node.rooms.had.contains(&key.to_string())
    }

    /// Every source was heard: what none of them tells has no room any more.
    pub(in crate::daemon::turn) fn forget_rooms_of_untold(&mut self) {
        let rooms = &mut self.node.rooms;
        let told = order::set(self.merge.pods().map(|pod| pod.key.to_string()));
        rooms.had.retain(|key| told.contains(key));
        rooms.lacked.clear();
    }

    /// Remembers that it had room, if so. The drain takes it, and no pod is judged meanwhile.
    pub(in crate::daemon::turn) fn keep_room(&mut self, key: &PodKey) {
        if self.has_room(key) {
            self.node.rooms.had.insert(key.to_string());
        }
    }

    /// Pods that have no room, for the next daemon. A source that nobody has heard yet may still tell others.
    pub(in crate::daemon::turn) fn without_room(&self) -> Set<String> {
        let without = self.merge.pods().filter(|pod| !self.has_room(&pod.key) && !self.is_past(pod));
        let untold = Some(&self.node.rooms.lacked).filter(|_| !self.all_heard());
        without.map(|pod| pod.key.to_string()).chain(untold.into_iter().flatten().cloned()).collect()
    }
}
