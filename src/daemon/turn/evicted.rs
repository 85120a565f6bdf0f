//! Evicted pods. The kubelet leaves them to their controllers; on a node without a control plane no controller would
//! recreate them, so podkeeper starts them again: after five minutes at the earliest, later after each further
//! eviction, and only when the node is no longer short of anything. A pod of an API server stays evicted, as with the
//! kubelet. Evicted pods start one after the other, the highest priority first, to find out which ones fit together.
//!
//! An edited pod is a new pod, and does not wait. The number of evictions outlives the daemon in the status file, and
//! is forgotten when a pod has run for an hour.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;

use super::Turn;
use super::admission::pressure::EVICTED;
use super::due::Due;
use super::entry::{Blocked, Entry};
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::limits;
use crate::base::order;
use crate::base::pace::doubled;
use crate::eviction::Eviction;
use crate::machine::{StopOrder, Wish};
use crate::pod::{DesiredPod, Source, priority};
use crate::recorder::{ObjectEvent, words};
use crate::status;
use crate::status::snapshot::EvictionView;

/// A pod that was evicted and is still wanted.
#[derive(Debug)]
pub(super) struct Evicted {
    pub(super) pod: Arc<DesiredPod>,
    pub(super) status: Arc<PodStatus>,
    /// The pod does not start again before.
    until: Mono,
    /// The pod does not start again while the node is short of anything.
    of_the_node: bool,
}

/// Remembered evictions of a pod.
#[derive(Debug, Clone)]
pub(super) struct Evictions {
    /// UID of the evicted pod.
    uid: String,
    /// Number of evictions in a row.
    count: u32,
    /// When the pod could start again after the last one.
    until: Mono,
    /// The same in wall time, for the status.
    until_wall: Timestamp,
    /// Why the pod was evicted last.
    message: String,
    of_the_node: bool,
}

impl Evictions {
    /// One more eviction, after those `before`.
    fn after(before: Option<&Evictions>, eviction: &Eviction, now: &Now) -> Evictions {
        let counts = |it: &&Evictions| it.uid == eviction.uid && it.counts(now.mono);
        let count = before.filter(counts).map_or(0, |it| it.count.saturating_add(1));
        let wait = doubled(limits::EVICTED_MIN, count, limits::EVICTED_MAX);
        Evictions {
            uid: eviction.uid.clone(),
            count,
            until: now.mono.after(wait),
            until_wall: now.wall.checked_add(wait).unwrap_or(now.wall),
            message: eviction.message.trim_end().to_owned(),
            of_the_node: eviction.of_the_node,
        }
    }

    /// Whether the next eviction would count in a row with these.
    fn counts(&self, now: Mono) -> bool {
        now.since(self.until) < limits::EVICTED_MAX
    }
}

impl Entry {
    /// Whether its worker stops the pod of this UID for good, and was not told to hurry recently.
    pub(super) fn can_hurry(&self, uid: &str, now: &Now) -> bool {
        let stops = self.worker.as_ref().is_some_and(|worker| {
            // A worker reports nothing for a pod that was found and that no source wants.
            let is_this = worker.status.as_ref().is_none_or(|status| status.pod.uid == uid);
            is_this && worker.stopping.is_some() && !worker.terminated
        });
        let is_told = self.evictions.as_ref().is_some_and(|it| it.uid == uid && now.mono < it.until);
        self.desired.is_none() && stops && !is_told
    }

    /// Whether its worker runs the pod of this UID, or stops it to run a newer version.
    fn has(&self, uid: &str) -> bool {
        let is_wanted = self.desired.as_ref().is_some_and(|pod| pod.uid == uid);
        let is_replaced = || self.status().is_some_and(|status| status.pod.uid == uid);
        is_wanted || self.desired.is_some() && is_replaced()
    }
}

impl Turn {
    /// Stops a pod by the keeper's order. If it is being stopped already, shortens its grace period. A pod that has
    /// changed since, or has ended, is left alone.
    pub(super) fn evict(&mut self, eviction: Eviction, now: &Now) {
        let Some(entry) = self.entries.get_mut(&eviction.key) else { return };
        if !entry.has(&eviction.uid) {
            return self.hurry(&eviction, now);
        }
        let Some(ran) = entry.desired.take() else { return };
        // A newer version may wait while this one runs or ends: that version starts again later.
        let pod = entry.blocked.as_ref().map_or(ran, |blocked| Arc::clone(blocked.pod()));
        let evictions = Evictions::after(entry.evictions.as_ref(), &eviction, now);
        entry.evictions = Some(evictions.clone());
        self.keep_evicted(pod, &evictions, now);
        let Eviction { key, uid, grace, .. } = eviction;
        self.record(ObjectEvent::new(key.clone(), uid, None, words::evicted(&evictions.message)), now);
        let order = StopOrder::new(Some(grace), "it is evicted");
        self.wish(&key, Wish::Stop(order));
    }

    /// Ends a pod that is being stopped within the eviction's grace period: its own may be years, and other pods would
    /// be evicted for the data that it writes meanwhile.
    fn hurry(&mut self, eviction: &Eviction, now: &Now) {
        let Some(entry) = self.entries.get_mut(&eviction.key) else { return };
        if !entry.can_hurry(&eviction.uid, now) {
            return;
        }
        entry.evictions = Some(Evictions::after(entry.evictions.as_ref(), eviction, now));
        self.changed = true;
        let Eviction { key, uid, grace, .. } = eviction;
        let told = words::evicted(eviction.message.trim_end());
        self.record(ObjectEvent::new(key.clone(), uid.clone(), None, told), now);
        self.wish(key, Wish::Stop(StopOrder::new(Some(*grace), "it is evicted while it is being stopped")));
    }

    /// Shows the pod as evicted until it may start again.
    fn keep_evicted(&mut self, pod: Arc<DesiredPod>, evictions: &Evictions, now: &Now) {
        let Evictions { until, until_wall, message, of_the_node, .. } = evictions;
        let at = status::seconds(*until_wall).0;
        let when = if *of_the_node { ", once the node has been short of nothing for a while" } else { "" };
        let told = match pod.source {
            // Its controller creates another pod.
            Source::Api => message.clone(),
            Source::File | Source::Http => {
                format!("{message} It starts again at {at} at the earliest{when}.")
            }
        };
        let status = Arc::new(status::evicted(&pod, EVICTED, message, &told, now.wall));
        self.changed = true;
        let key = pod.key.clone();
        let evicted = Evicted { pod, status, until: *until, of_the_node: *of_the_node };
        self.block(&key, Some(Blocked::Evicted(evicted)));
        self.due.replace(*until, Due::Evicted(key));
    }

    /// Takes over what an earlier daemon recorded of the pod's evictions. Returns true if the pod must not start yet.
    /// If the pod runs, it was not stopped: the number of evictions is kept, and it runs on. The recorded time is wall
    /// time, so it is limited to the possible range.
    pub(super) fn restore_evicted(&mut self, pod: &Arc<DesiredPod>, now: &Now) -> bool {
        let Some(earlier) = self.node.evicted_earlier.remove(&pod.key.to_string()) else { return false };
        if earlier.uid != pod.uid {
            return false;
        }
        let left = Duration::try_from(earlier.until.duration_since(now.wall)).unwrap_or_default();
        let runs = self.runs(&pod.key, &pod.uid);
        let least = if earlier.of_the_node && !runs { limits::EVICTED_APART } else { Duration::ZERO };
        // Pods that wait for the node start one by one, even when their time has passed.
        let left = left.clamp(least, limits::EVICTED_MAX);
        let EvictionView { uid, count, message, of_the_node, .. } = earlier;
        let (until, until_wall) = (now.mono.after(left), now.wall.checked_add(left).unwrap_or(now.wall));
        let evictions = Evictions { uid, count, until, until_wall, message, of_the_node };
        self.entries.get_or_default(pod.key.clone()).evictions = Some(evictions.clone());
        if left.is_zero() || runs {
            return false;
        }
        self.keep_evicted(Arc::clone(pod), &evictions, now);
        true
    }

    /// The evictions that a next one would count in a row with.
    pub(super) fn eviction_views(&self, now: &Now) -> BTreeMap<String, EvictionView> {
        let view = |it: &Evictions| EvictionView {
            uid: it.uid.clone(),
            count: it.count,
            until: it.until_wall,
            message: it.message.clone(),
            of_the_node: it.of_the_node,
        };
        let all = self.entries.iter().filter_map(|(key, entry)| Some((key, entry.evictions.as_ref()?)));
        let known = all.filter(|(_, it)| it.counts(now.mono)).map(|(key, it)| (key.to_string(), view(it)));
        // Includes pods that have not come yet, while another eviction would count in a row: the daemon may end before
        // they come.
        let past =
            |it: &EvictionView| Duration::try_from(now.wall.duration_since(it.until)).unwrap_or_default();
        let is_old = |it: &EvictionView| past(it) >= limits::EVICTED_MAX;
        let earlier = self.node.evicted_earlier.iter().filter(|(_, it)| !is_old(it));
        order::map(earlier.map(|(key, it)| (key.clone(), it.clone())).chain(known))
    }

    /// Replaces the version of an evicted pod that waits. Returns true if the pod is evicted.
    pub(super) fn replace_evicted(&mut self, pod: &Arc<DesiredPod>) -> bool {
        let Some(Blocked::Evicted(evicted)) =
            self.entries.get_mut(&pod.key).and_then(|entry| entry.blocked.as_mut())
        else {
            return false;
        };
        if evicted.pod.uid != pod.uid {
            return false;
        }
        evicted.pod = Arc::clone(pod);
        true
    }

    /// Starts the next evicted pod whose time has come.
    pub(super) fn return_evicted(&mut self, now: &Now) {
        if !self.docker.listed || self.draining.is_some() {
            return;
        }
        let well = self.node.pressures().is_empty();
        let may = |evicted: &&Evicted| {
            let returns = evicted.pod.source != Source::Api;
            returns && evicted.until <= now.mono && (well || !evicted.of_the_node)
        };
        let mut ready: Vec<Arc<DesiredPod>> = self
            .entries
            .values()
            .filter_map(Entry::evicted)
            .filter(may)
            .map(|evicted| Arc::clone(&evicted.pod))
            .collect();
        order::sort_by_key(&mut ready, |pod| (Reverse(priority::of(pod)), pod.key.clone()));
        let more = ready.len() > 1;
        let Some(next) = ready.into_iter().next() else { return };
        if now.mono < self.node.returns {
            return self.due.push(self.node.returns, Due::Returns);
        }
        self.node.returns = now.mono.after(limits::EVICTED_APART);
        if more {
            self.due.push(self.node.returns, Due::Returns);
        }
        self.log(log::Level::Info, format!("pod {} was evicted, and starts again", next.key));
        self.block(&next.key, None);
        self.additions(vec![next], now);
    }
}
