//! Evicted pods. The kubelet leaves them to their controllers; on a node without a control plane nobody would make them
//! again, so they return by themselves: after five minutes at the earliest, each time later, and when the node is no
//! longer short of anything. They return one after the other, the highest priority first, so that what was too much
//! together is found out one by one.
//!
//! An edited pod is another one, and does not wait. The number of evictions is forgotten at the daemon's end, and when
//! a pod has run for an hour.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;

use super::Turn;
use super::admission::pressure::EVICTED;
use super::due::Due;
use super::entry::{Blocked, Entry};
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::order;
use crate::eviction::Eviction;
use crate::machine::{StopOrder, Wish};
use crate::pod::{DesiredPod, priority};
use crate::recorder::{ObjectEvent, words};
use crate::status;

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
}

impl Evictions {
    /// One more; returns how long it lasts.
    fn add(&mut self, uid: &str, now: Mono) -> Duration {
        let is_new = self.uid != uid || now.since(self.until) >= limits::EVICTED_MAX;
        self.count = if is_new { 0 } else { self.count.saturating_add(1) };
        let factor = 1_u32.checked_shl(self.count).unwrap_or(u32::MAX);
        let wait = limits::EVICTED_MIN.saturating_mul(factor).min(limits::EVICTED_MAX);
        uid.clone_into(&mut self.uid);
        self.until = now.after(wait);
        wait
    }
}

impl Turn {
    /// Stops a pod as the keeper orders. One that has changed since, or has ended, is left alone.
    pub(super) fn evict(&mut self, eviction: Eviction, now: &Now) {
        let Eviction { key, uid, grace, message, of_the_node } = eviction;
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if entry.desired.as_ref().is_none_or(|pod| pod.uid != uid) {
            return;
        }
        let Some(ran) = entry.desired.take() else { return };
        // A newer version may wait for something while this one runs: that one returns.
        let pod = entry.blocked.as_ref().map_or(ran, |blocked| Arc::clone(blocked.pod()));
        let wait = entry.evictions.add(&uid, now.mono);
        let until = now.mono.after(wait);
        let at = now.wall.checked_add(wait).map(|at| status::seconds(at).0.to_string()).unwrap_or_default();
        let message = message.trim_end();
        let when = if of_the_node { ", once the node has been short of nothing for a while" } else { "" };
        let told = format!("{message} It starts again at {at} at the earliest{when}.");
        let status = Arc::new(status::evicted(&pod, EVICTED, message, &told, now.wall));
        self.changed = true;
        self.block(&key, Some(Blocked::Evicted(Evicted { pod, status, until, of_the_node })));
        self.due.replace(until, Due::Evicted(key.clone()));
        self.record(ObjectEvent::new(key.clone(), uid, None, words::evicted(message)), now);
        let order = StopOrder { grace: Some(grace), why: "it is evicted" };
        self.wish(&key, Wish::Stop(order));
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
        if !self.listed || self.draining.is_some() {
            return;
        }
        let well = self.node.pressures().is_empty();
        let may = |evicted: &&Evicted| evicted.until <= now.mono && (well || !evicted.of_the_node);
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
