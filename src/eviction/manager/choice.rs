//! The choice of the pod to evict.

use std::time::Duration;

use super::ending::Ending;
use super::{Manager, Observations, worth};
use crate::base::clock::Mono;
use crate::base::limits;
use crate::eviction::Eviction;
use crate::eviction::rank::{Candidate, message, rank};
use crate::eviction::signal::Signal;
use crate::eviction::threshold::Threshold;

impl Manager {
    /// Whether the last collection is so old that there may be new garbage, which is collected before a pod is evicted.
    fn may_be_garbage(&self, signal: Signal) -> bool {
        let is_old = |at| self.counted.since(at) >= limits::COLLECT_FRESH;
        self.garbage_helps(signal) && self.collecting.is_none() && self.collected.is_some_and(is_old)
    }

    /// Whether no pod could be evicted for this signal when last tried, and the shortage lasts.
    #[must_use]
    pub fn is_stuck(&self, signal: Signal) -> bool {
        self.stuck.contains_key(&signal)
    }

    /// Chooses the pod to evict among running pods; `None` when no pod may be evicted, or when garbage has to be
    /// collected first, at the next look.
    pub fn choose(
        &mut self,
        threshold: &Threshold,
        found: &Observations,
        mut pods: Vec<Candidate>,
        now: Mono,
    ) -> Option<Eviction> {
        let resource = threshold.signal.resource();
        let seen = found.get(&threshold.signal)?;
        let is_stubborn = |pod: &Candidate| self.stubborn.contains_key(&pod.uid);
        worth::charge(&mut pods, *seen, worth::missing(threshold, *seen), |pod| {
            !pod.is_critical() && !is_stubborn(pod)
        });
        rank(resource, &mut pods);
        let worth = worth::least(threshold, *seen, &pods);
        let first = worth::first(&pods, worth, |pod| !pod.is_critical() && !is_stubborn(pod));
        let Some(at) = first.or_else(|| worth::first(&pods, worth, |pod| !pod.is_critical())) else {
            // At the start, the pods are not known yet.
            let rest = if pods.is_empty() { Duration::ZERO } else { limits::COLLECT_AGAIN };
            self.stuck.insert(threshold.signal, now.after(rest));
            return None;
        };
        if self.may_be_garbage(threshold.signal) {
            self.collected = None;
            return None;
        }
        let pod = pods.swap_remove(at);
        self.stuck.remove(&threshold.signal);
        let grace = if threshold.is_hard() { limits::EVICTION_GRACE } else { self.settings.max_pod_grace };
        self.settling.forget();
        // Its containers will soon be garbage.
        self.collected = None;
        let kill = now.after(Duration::from_secs(grace.into()));
        let used = (threshold.signal, pod.used.unwrap_or_default());
        self.endings.insert(threshold.signal.pressure(), Ending::new(pod.uid.clone(), used, Some(kill), now));
        self.evicted = Some(now);
        let mut message = message(resource, &pod, threshold.value.of(seen.capacity), seen.available);
        if pod.used.is_none_or(|used| used < worth) {
            message.push_str(&behind(&pod));
        }
        Some(Eviction { key: pod.key, uid: pod.uid, grace, message, of_the_node: true })
    }
}

/// Addition to the message of a pod that is evicted with almost no known usage.
fn behind(pod: &Candidate) -> String {
    let source = pod.source;
    format!(
        "Pods of source {source} go before those of others, whatever they are known to use (--source-policy \
         {source}=evict-first). "
    )
}
