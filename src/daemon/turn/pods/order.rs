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

/// When the pods of each name had room last, for those that have none now.
#[derive(Debug)]
pub(in crate::daemon::turn) struct Rooms {
    /// By name.
    last: Table<String, Last>,
    /// The present period, from 2 on. Each drain, and each daemon, begins another, by [`PERIOD`].
    period: u32,
}

/// The numbers of a period: its own for the version that had room in it, and one less for others of its name. What an edited
/// pod needs is not known to fit beside what ran with the version before.
const PERIOD: u32 = 2;

/// The pod of a name that had room last.
#[derive(Debug)]
struct Last {
    /// When it had it.
    period: u32,
    /// Its UID; `None`: no pod that is known has it.
    uid: Option<String>,
}

impl Last {
    /// The number for a version of its name.
    fn number(&self, uid: &str) -> u32 {
        let is_other = self.uid.as_deref() != Some(uid);
        self.period.saturating_sub(u32::from(is_other))
    }
}

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms { last: Table::new(), period: PERIOD }
    }
}

impl Rooms {
    /// What these pods of an earlier daemon had. `without`: those that had none, and their numbers.
    pub(in crate::daemon::turn) fn of_earlier(pods: &[Pod], without: Table<String, u32>) -> Rooms {
        let start_of = |number: u32| number.next_multiple_of(PERIOD);
        let period = start_of(without.values().copied().max().unwrap_or(0).min(u32::MAX - PERIOD));
        let period = period.saturating_add(PERIOD);
        let mut last = Table::new();
        for pod in pods {
            let metadata = pod.metadata.clone();
            let (Some(namespace), Some(name)) = (metadata.namespace, metadata.name) else { continue };
            let key = PodKey { namespace, name }.to_string();
            let (period, had) = match without.get(&key) {
                Some(number) => (start_of(*number), *number > 0 && number % PERIOD == 0),
                None => (period, true),
            };
            // The wanted version comes before one whose containers still run.
            last.get_or_insert(key, Last { period, uid: metadata.uid.filter(|_| had) });
        }
        for (key, number) in without {
            last.get_or_insert(key, Last { period: start_of(number), uid: None });
        }
        Rooms { last, period: period.saturating_add(PERIOD) }
    }

    /// The pod has its room, or there is none of this name any more.
    pub(in crate::daemon::turn) fn settled(&mut self, key: &PodKey) {
        if !self.last.is_empty() {
            self.last.remove(&key.to_string());
        }
    }

    /// A drain begins.
    pub(in crate::daemon::turn) fn next_period(&mut self) {
        self.period = self.period.saturating_add(PERIOD);
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
            let (is_needed, room) = (self.is_needed_job(pod), self.room(pod));
            // Of which only the sandbox is left holds its ports, but may have lost its room.
            let has_none = (!runs_containers, !runs);
            (has_none, !is_critical, !self.precedes(pod), !is_needed, Reverse(room))
        };
        order::sort_by(&mut pods, |a, b| first(a).cmp(&first(b)).then_with(|| a.key.cmp(&b.key)));
        pods
    }

    /// The pod of this name that has its room. What has ended for good needs none, and its next version is new.
    fn with_room(&self, key: &PodKey) -> Option<&Arc<DesiredPod>> {
        self.entries.get(key).filter(|entry| !entry.has_ended())?.accepted()
    }

    /// The number of the period in which a pod of this name had its room last, see [`PERIOD`]; 0: never. What had it last is
    /// judged first, so that what never had one takes none of it.
    pub(in crate::daemon::turn) fn room(&self, pod: &DesiredPod) -> u32 {
        let rooms = &self.node.rooms;
        if let Some(now) = self.with_room(&pod.key) {
            return rooms.period.saturating_sub(u32::from(now.uid != pod.uid));
        }
        let last = if rooms.last.is_empty() { None } else { rooms.last.get(&pod.key.to_string()) };
        last.map_or(0, |last| last.number(&pod.uid))
    }

    /// It loses its room, by a drain, to a pod that precedes, or because it is refused. What goes for its own limits, or for
    /// the node's need, leaves its room to others.
    pub(in crate::daemon::turn) fn loses_room(&mut self, key: &PodKey) {
        if let Some(uid) = self.with_room(key).map(|pod| pod.uid.clone()) {
            let rooms = &mut self.node.rooms;
            rooms.last.insert(key.to_string(), Last { period: rooms.period, uid: Some(uid) });
        }
    }

    /// Every source was heard: what none of them tells has no room any more.
    pub(in crate::daemon::turn) fn forget_rooms_of_untold(&mut self) {
        let told = order::set(self.merge.pods().map(|pod| pod.key.to_string()));
        self.node.rooms.last.retain(|key, _| told.contains(key));
    }

    /// Pods that have no room, and the numbers of the periods in which they had it last, for the next daemon. A source that
    /// nobody has heard yet may still tell others.
    pub(in crate::daemon::turn) fn without_room(&self) -> Table<String, u32> {
        let untold = self.node.rooms.last.iter().filter(|_| !self.all_heard());
        let mut without: Table<String, u32> =
            untold.map(|(key, last)| (key.clone(), last.number(""))).collect();
        for pod in self.merge.pods() {
            if self.with_room(&pod.key).is_some() {
                without.remove(&pod.key.to_string());
            } else if !self.is_past(pod) {
                without.insert(pod.key.to_string(), self.room(pod));
            }
        }
        without
    }
}
