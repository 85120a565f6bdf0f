//! Evicted pods. The kubelet leaves them to their controllers; on a node without a control plane nobody would make them
//! again, so they return by themselves: after five minutes at the earliest, each time later, and when the node is no
//! longer short of anything. A pod of an API server stays what it is, as with the kubelet. They return one after the
//! other, the highest priority first, so that what was too much together is found out one by one.
//!
//! An edited pod is another one, and does not wait. The number of evictions outlives the daemon in the status file, and
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
    /// It does not return before.
    until: Mono,
    /// It does not return while the node is short of anything.
    of_the_node: bool,
}

/// What is remembered of a pod's evictions.
#[derive(Debug, Clone, Default)]
pub(super) struct Evictions {
    /// Of this UID.
    uid: String,
    /// How often in a row.
    count: u32,
    /// When it could return from the last one.
    until: Mono,
    /// The same in wall time, for the status.
    until_wall: Timestamp,
    /// Why it was evicted last.
    message: String,
    of_the_node: bool,
}

impl Evictions {
    /// One more.
    fn add(&mut self, eviction: &Eviction, now: &Now) {
        let (uid, now, wall) = (&eviction.uid, now.mono, now.wall);
        let is_new = self.uid != *uid || now.since(self.until) >= limits::EVICTED_MAX;
        self.count = if is_new { 0 } else { self.count.saturating_add(1) };
        let factor = 1_u32.checked_shl(self.count).unwrap_or(u32::MAX);
        let wait = limits::EVICTED_MIN.saturating_mul(factor).min(limits::EVICTED_MAX);
        uid.clone_into(&mut self.uid);
        self.until = now.after(wait);
        self.until_wall = wall.checked_add(wait).unwrap_or(wall);
        eviction.message.trim_end().clone_into(&mut self.message);
        self.of_the_node = eviction.of_the_node;
    }
}

impl Turn {
    /// Stops a pod as the keeper orders. One that has changed since, or has ended, is left alone.
    pub(super) fn evict(&mut self, eviction: Eviction, now: &Now) {
        let Some(entry) = self.entries.get_mut(&eviction.key) else { return };
        if entry.desired.as_ref().is_none_or(|pod| pod.uid != eviction.uid) {
            return;
        }
        let Some(ran) = entry.desired.take() else { return };
        // A newer version may wait for something while this one runs: that one returns.
        let pod = entry.blocked.as_ref().map_or(ran, |blocked| Arc::clone(blocked.pod()));
        entry.evictions.add(&eviction, now);
        let evictions = entry.evictions.clone();
        self.keep_evicted(pod, &evictions, now);
        let Eviction { key, uid, grace, .. } = eviction;
        self.record(ObjectEvent::new(key.clone(), uid, None, words::evicted(&evictions.message)), now);
        let order = StopOrder { grace: Some(grace), why: "it is evicted" };
        self.wish(&key, Wish::Stop(order));
    }

    /// Shows it as evicted until it may return.
    fn keep_evicted(&mut self, pod: Arc<DesiredPod>, evictions: &Evictions, now: &Now) {
        let Evictions { until, until_wall, message, of_the_node, .. } = evictions;
        let at = status::seconds(*until_wall).0;
        let when = if *of_the_node { ", once the node has been short of nothing for a while" } else { "" };
        let told = match pod.source {
            // Its controller makes another one.
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

    /// Whether an earlier daemon had evicted this pod, and it is not to return yet. One that runs was not stopped any
    /// more: it counts as often evicted, and stays. Its time is wall time, and is believed as far as it is possible.
    pub(super) fn was_evicted(&mut self, pod: &Arc<DesiredPod>, now: &Now) -> bool {
        let Some(earlier) = self.node.evicted_earlier.remove(&pod.key.to_string()) else { return false };
        if earlier.uid != pod.uid {
            return false;
        }
        let left = Duration::try_from(earlier.until.duration_since(now.wall)).unwrap_or_default();
        let runs = self.runs(&pod.key, &pod.uid);
        let least = if earlier.of_the_node && !runs { limits::EVICTED_APART } else { Duration::ZERO };
        // What waits for the node returns one by one, also when its time has passed.
        let left = left.clamp(least, limits::EVICTED_MAX);
        let EvictionView { uid, count, message, of_the_node, .. } = earlier;
        let (until, until_wall) = (now.mono.after(left), now.wall.checked_add(left).unwrap_or(now.wall));
        let evictions = Evictions { uid, count, until, until_wall, message, of_the_node };
        self.entries.get_or_default(pod.key.clone()).evictions = evictions.clone();
        if left.is_zero() || runs {
            return false;
        }
        self.keep_evicted(Arc::clone(pod), &evictions, now);
        true
    }

    /// Evictions that the next one would count with.
    pub(super) fn eviction_views(&self, now: &Now) -> BTreeMap<String, EvictionView> {
        let counts = |it: &Evictions| !it.uid.is_empty() && now.mono.since(it.until) < limits::EVICTED_MAX;
        let view = |it: &Evictions| EvictionView {
            uid: it.uid.clone(),
            count: it.count,
            until: it.until_wall,
            message: it.message.clone(),
            of_the_node: it.of_the_node,
        };
        let all = self.entries.iter().filter(|(_, entry)| counts(&entry.evictions));
        let known = all.map(|(key, entry)| (key.to_string(), view(&entry.evictions)));
        // Of pods that have not come yet, as long as another eviction would count with it: a daemon may end before.
        let past =
            |it: &EvictionView| Duration::try_from(now.wall.duration_since(it.until)).unwrap_or_default();
        let is_old = |it: &EvictionView| past(it) >= limits::EVICTED_MAX;
        let earlier = self.node.evicted_earlier.iter().filter(|(_, it)| !is_old(it));
        order::map(earlier.map(|(key, it)| (key.clone(), it.clone())).chain(known))
    }

    /// Whether this pod is evicted and not to return yet; its newest version waits then.
    pub(super) fn stays_evicted(&mut self, pod: &Arc<DesiredPod>) -> bool {
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

    /// Lets the next evicted pod return whose time has come.
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
