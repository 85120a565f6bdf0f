//! The order in which pods that come together are judged: what had its room last comes first.
//!
//! Never here: a time. The same pods give the same order in each daemon.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::base::order;
use crate::base::table::Table;
use crate::daemon::turn::Turn;
use crate::pod::{DesiredPod, PodKey, priority};

/// When the pods of each name had room last, for those that have none now. An edited pod has what the one before had.
#[derive(Debug)]
pub(in crate::daemon::turn) struct Rooms {
    /// The number of the period in which they had it, from 1 on; 0: never.
    last: Table<String, u32>,
    /// The present one, from 1 on. Each drain, and each daemon, begins another.
    period: u32,
}

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms { last: Table::new(), period: 1 }
    }
}

impl Rooms {
    /// What these pods of an earlier daemon had. `without`: those that had none, and the period in which they had it last.
    pub(in crate::daemon::turn) fn of_earlier(pods: &[Pod], without: Table<String, u32>) -> Rooms {
        let key = |pod: &Pod| {
            let (namespace, name) = (pod.metadata.namespace.clone()?, pod.metadata.name.clone()?);
            Some(PodKey { namespace, name }.to_string())
        };
        let period = without.values().copied().max().unwrap_or(0).saturating_add(1);
        let had: Vec<String> = pods.iter().filter_map(key).filter(|key| !without.contains_key(key)).collect();
        let mut last = without;
        last.extend(had.into_iter().map(|key| (key, period)));
        Rooms { last, period: period.saturating_add(1) }
    }

    /// The pod has its room, or there is none of this name any more.
    pub(in crate::daemon::turn) fn settled(&mut self, key: &PodKey) {
        if !self.last.is_empty() {
            self.last.remove(&key.to_string());
        }
    }

    /// A drain begins.
    pub(in crate::daemon::turn) fn next_period(&mut self) {
        self.period = self.period.saturating_add(1);
    }
}

impl Turn {
    /// Running pods come first, so that they keep their ports; then those for which others would be stopped, so that none
    /// starts in vain, and jobs that others wait for; then those that have their room, or had it last; then by name.
    pub(super) fn in_order(&self, mut pods: Vec<Arc<DesiredPod>>) -> Vec<Arc<DesiredPod>> {
        let first = |pod: &DesiredPod| {
            let is_critical = priority::is_critical(pod);
            let (runs, runs_containers) =
                (self.runs(&pod.key, &pod.uid), self.runs_containers(&pod.key, &pod.uid));
            let (is_needed, room) = (self.is_needed_job(pod), self.room(&pod.key));
            // Of which only the sandbox is left holds its ports, but may have lost its room.
            let has_none = (!runs_containers, !runs);
            (has_none, !is_critical, !self.precedes(pod), !is_needed, Reverse(room))
        };
        order::sort_by(&mut pods, |a, b| first(a).cmp(&first(b)).then_with(|| a.key.cmp(&b.key)));
        pods
    }

    /// Whether a pod of this name has its room.
    fn has_room(&self, key: &PodKey) -> bool {
        // What has ended for good needs none, and its next version is new.
        let entry = self.entries.get(key);
        entry.is_some_and(|entry| entry.accepted().is_some() && !entry.has_ended())
    }

    /// The period in which a pod of this name had its room last; 0: never. What had it last is judged first, so that what
    /// never had one takes none of it.
    pub(in crate::daemon::turn) fn room(&self, key: &PodKey) -> u32 {
        let rooms = &self.node.rooms;
        if self.has_room(key) {
            return rooms.period;
        }
        if rooms.last.is_empty() { 0 } else { rooms.last.get(&key.to_string()).copied().unwrap_or(0) }
    }

    /// It loses its room, by a drain, to a pod that precedes, or because it is refused. What goes for its own limits, or for
    /// the node's need, leaves its room to others.
    pub(in crate::daemon::turn) fn loses_room(&mut self, key: &PodKey) {
        if self.has_room(key) {
            let rooms = &mut self.node.rooms;
            rooms.last.insert(key.to_string(), rooms.period);
        }
    }

    /// Every source was heard: what none of them tells has no room any more.
    pub(in crate::daemon::turn) fn forget_rooms_of_untold(&mut self) {
        let told = order::set(self.merge.pods().map(|pod| pod.key.to_string()));
        self.node.rooms.last.retain(|key, _| told.contains(key));
    }

    /// Pods that have no room, and the period in which they had it last, for the next daemon. A source that nobody has heard
    /// yet may still tell others.
    pub(in crate::daemon::turn) fn without_room(&self) -> Table<String, u32> {
        let untold = Some(&self.node.rooms.last).filter(|_| !self.all_heard());
        let mut without = untold.cloned().unwrap_or_default();
        for pod in self.merge.pods() {
            if self.has_room(&pod.key) {
                without.remove(&pod.key.to_string());
            } else if !self.is_past(pod) {
                without.insert(pod.key.to_string(), self.room(&pod.key));
            }
        }
        without
    }
}
