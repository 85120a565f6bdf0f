//! The order in which pods that come together are judged: what had its room last comes first.
//!
//! Never here: a time. The same pods give the same order in each daemon.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::base::clock::Now;
use crate::base::order;
use crate::base::table::Table;
use crate::daemon::turn::Turn;
use crate::daemon::turn::admission;
use crate::daemon::turn::entry::Entry;
use crate::daemon::turn::hold::{Held, Why};
use crate::manifest::hash;
use crate::pod::{self, DesiredPod, PodKey, priority};

/// When the pods of each name had room last, for those that have none now.
#[derive(Debug)]
pub(in crate::daemon::turn) struct Rooms {
    /// By name.
    last: Table<String, Last>,
    /// The number of the present period, from 1 on. Each drain, and each daemon, begins another.
    period: u32,
}

/// The pod of a name that had room last.
#[derive(Debug)]
struct Last {
    /// The period in which it had it; 0: never.
    period: u32,
    /// Which version it was, see [`version`], if that is known.
    version: Option<String>,
}

/// How a pod stands to the room that its name had last. What had it later is judged first, and of those that had it in one
/// period what is as it was: what an edited pod needs may not fit beside the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::daemon::turn) struct Room {
    period: u32,
    is_as_it_was: bool,
}

impl Room {
    /// Whether a pod of its name had room at all.
    pub(in crate::daemon::turn) fn was_had(self) -> bool {
        self.period > 0
    }
}

/// A text that each edit changes. It need not be the same in another version of the program: all of them count as edited then.
fn version(pod: &DesiredPod) -> String {
    if pod.shape.is_some() {
        return resizable(&pod.uid, &pod.spec);
    }
    // An edit does not change the UID that a manifest gives. By way of a value: another writer of specs is 44 KiB of code.
    let spec = serde_json::to_value(&*pod.spec).unwrap_or_default().to_string();
    hash::fnv1a_128_hex(&[&pod.uid, "\n", &spec])
}

/// The version of a pod whose UID changes with all but the sizes of its containers.
fn resizable(uid: &str, spec: &PodSpec) -> String {
    hash::fnv1a_128_hex(&[uid, "\n", &pod::sizes::text(spec)])
}

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms { last: Table::new(), period: 1 }
    }
}

impl Rooms {
    /// What these pods of an earlier daemon had. `without`: those that had no room, and the period in which they had it last;
    /// `versions`: which of them had it, where the UID does not tell.
    pub(in crate::daemon::turn) fn of_earlier(
        pods: &[Pod],
        without: Table<String, u32>,
        mut versions: Table<String, String>,
    ) -> Rooms {
        // Numbered anew, so that no number grows from daemon to daemon.
        let numbers = order::set(without.values().copied().filter(|number| *number > 0));
        let numbers: Vec<u32> = numbers.into_iter().collect();
        let numbered = |number| numbers.partition_point(|earlier| *earlier <= number);
        let numbered = |number| u32::try_from(numbered(number)).unwrap_or(u32::MAX);
        let period = numbered(u32::MAX).saturating_add(1);
        let mut last = Table::new();
        for pod in pods {
            let ObjectMeta { namespace, name, uid, .. } = &pod.metadata;
            let (Some(namespace), Some(name)) = (namespace.clone(), name.clone()) else { continue };
            let key = PodKey { namespace, name }.to_string();
            if !without.contains_key(&key) {
                let of_pod = || Some(resizable(uid.as_ref()?, pod.spec.as_ref()?));
                let version = versions.remove(&key).or_else(of_pod);
                // The wanted version comes before one whose containers still run.
                last.get_or_insert(key, Last { period, version });
            }
        }
        for (key, number) in without {
            let version = versions.remove(&key);
            last.insert(key, Last { period: numbered(number), version });
        }
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
    /// Admits pods, see [`Turn::in_order`]. Other sizes come when all have theirs.
    pub(in crate::daemon::turn) fn additions(&mut self, pods: Vec<Arc<DesiredPod>>, now: &Now) {
        let resized = self.additions_as_before(pods, now);
        resized.into_iter().for_each(|pod| self.addition(pod, now));
    }

    /// Admits pods with the sizes that they had, and returns those that are to have others.
    pub(in crate::daemon::turn) fn additions_as_before(
        &mut self,
        pods: Vec<Arc<DesiredPod>>,
        now: &Now,
    ) -> Vec<Arc<DesiredPod>> {
        let mut resized = Vec::new();
        for pod in self.in_order(pods) {
            let pod = self.as_wanted(pod);
            let Some(before) = self.before_resize(&pod).filter(|before| self.is_judged_as(before, &pod))
            else {
                self.addition(pod, now);
                continue;
            };
            self.addition(before, now);
            let held = self.entries.get(&pod.key).and_then(Entry::held);
            // What waits so gets its other sizes when it runs: refused with them it would wait no more.
            let waits = held.is_some_and(|held| matches!(held.why, Why::After | Why::Room));
            if !waits || self.admit(&pod, admission::Room::Counts).is_ok() {
                resized.push(pod);
            }
        }
        resized
    }

    /// The version that its source wants, of the same UID: what waited may have waited with the sizes of before.
    fn as_wanted(&self, pod: Arc<DesiredPod>) -> Arc<DesiredPod> {
        self.merge.get(&pod.key).filter(|wanted| wanted.uid == pod.uid).cloned().unwrap_or(pod)
    }

    /// Whether a pod is judged with the sizes that it had: not if others end for it with those that it is to have, nor if
    /// only these fit.
    fn is_judged_as(&self, before: &Arc<DesiredPod>, pod: &Arc<DesiredPod>) -> bool {
        let held = self.entries.get(&pod.key).and_then(Entry::held);
        if held.is_some_and(|held| self.has_room_made(pod) && held.pod.spec == pod.spec) {
            return false;
        }
        let fits = |pod| self.admit(pod, admission::Room::Counts).is_ok();
        self.runs(&pod.key, &pod.uid) || fits(before) || !fits(pod)
    }

    /// Running pods come first, so that they keep their ports; then those for which others would be stopped, so that none
    /// starts in vain, and jobs that others wait for; then those that have their room, or had it last; of these those that have
    /// gone for others, and the most important of them; then by name.
    pub(in crate::daemon::turn) fn in_order(&self, pods: Vec<Arc<DesiredPod>>) -> Vec<Arc<DesiredPod>> {
        let first = |pod: &DesiredPod| {
            let is_critical = priority::is_critical(pod);
            let (runs, runs_containers) =
                (self.runs(&pod.key, &pod.uid), self.runs_containers(&pod.key, &pod.uid));
            let (is_needed, mut room) = (self.is_needed_job(pod), self.room(pod));
            // It is judged with the sizes that it had, if those are known.
            room.is_as_it_was |= room.was_had() && self.before_resize(pod).is_some();
            let has_gone = self.entries.get(&pod.key).and_then(Entry::evicted).map(|_| priority::of(pod));
            // Of which only the sandbox is left holds its ports, but may have lost its room.
            let has_none = (!runs_containers, !runs);
            (has_none, !is_critical, !self.precedes(pod), !is_needed, Reverse((room, has_gone)))
        };
        let mut pods: Vec<_> = pods.into_iter().map(|pod| (first(&pod), pod)).collect();
        order::sort_by(&mut pods, |(a, pod), (b, other)| a.cmp(b).then_with(|| pod.key.cmp(&other.key)));
        pods.into_iter().map(|(_, pod)| pod).collect()
    }

    /// The pod of this name that has its room. What has ended for good needs none, and its next version is new; one for which
    /// others end has none yet, but the version before it.
    fn with_room(&self, key: &PodKey) -> Option<&Arc<DesiredPod>> {
        let is_awaited = |held: &Held| held.why == Why::Room;
        let entry = self.entries.get(key).filter(|entry| !entry.has_ended())?;
        if entry.held().is_some_and(is_awaited) { entry.desired.as_ref() } else { entry.accepted() }
    }

    /// How it stands to the room that its name has, or had last. What never had one takes none of it.
    pub(in crate::daemon::turn) fn room(&self, pod: &DesiredPod) -> Room {
        let rooms = &self.node.rooms;
        if let Some(now) = self.with_room(&pod.key) {
            let is_as_it_was = now.uid == pod.uid && now.spec == pod.spec;
            return Room { period: rooms.period, is_as_it_was };
        }
        let last = if rooms.last.is_empty() { None } else { rooms.last.get(&pod.key.to_string()) };
        let version_of = |last: &Last| last.version.as_ref().is_some_and(|had| *had == version(pod));
        let period = last.map_or(0, |last| last.period);
        Room { period, is_as_it_was: last.is_some_and(version_of) }
    }

    /// It loses its room, by a drain, to a pod that precedes, or because it is refused. What goes for its own limits, or for
    /// the node's need, leaves its room to others.
    pub(in crate::daemon::turn) fn loses_room(&mut self, key: &PodKey) {
        if let Some(version) = self.with_room(key).map(|pod| version(pod)) {
            let rooms = &mut self.node.rooms;
            rooms.last.insert(key.to_string(), Last { period: rooms.period, version: Some(version) });
        }
    }

    /// Every source was heard: what none of them tells has no room any more.
    pub(in crate::daemon::turn) fn forget_rooms_of_untold(&mut self) {
        let told = order::set(self.merge.pods().map(|pod| pod.key.to_string()));
        self.node.rooms.last.retain(|key, _| told.contains(key));
    }

    /// What the next daemon is to know, see [`Rooms::of_earlier`]. A source that nobody has heard yet may still tell other
    /// pods.
    pub(in crate::daemon::turn) fn rooms_told(&self) -> (Table<String, u32>, Table<String, String>) {
        let (mut without, mut versions) = (Table::new(), Table::new());
        let mut put = |key: String, last: Option<&Last>| {
            versions.extend(last.and_then(|last| last.version.clone()).map(|version| (key.clone(), version)));
            without.insert(key, last.map_or(0, |last| last.period));
        };
        let last = &self.node.rooms.last;
        last.iter().filter(|_| !self.all_heard()).for_each(|(key, last)| put(key.clone(), Some(last)));
        let (with, others): (Vec<_>, Vec<_>) =
            self.merge.pods().partition(|pod| self.with_room(&pod.key).is_some());
        for pod in others.into_iter().filter(|pod| !self.is_past(pod)) {
            let key = pod.key.to_string();
            let last = last.get(&key);
            put(key, last);
        }
        for pod in with {
            let key = pod.key.to_string();
            without.remove(&key);
            versions.remove(&key);
            let now = self.with_room(&pod.key).filter(|now| now.shape.is_none());
            versions.extend(now.map(|now| (key, version(now))));
        }
        (without, versions)
    }
}
