//! The minimum usage of a disk or of memory for which a pod is evicted, the assumed usage of a pod that could not be
//! counted whole, and the pods that are evicted without known usage. The first two avoid evictions that do not help,
//! which is a deliberate difference from the kubelet.

use super::Observation;
use crate::eviction::rank::Candidate;
use crate::eviction::signal::Resource;
use crate::eviction::threshold::Threshold;

/// The missing amount.
pub(super) fn missing(threshold: &Threshold, seen: Observation) -> u64 {
    threshold.value.of(seen.capacity).saturating_sub(seen.available)
}

/// The minimum usage for an eviction: a tenth of the missing amount, and at least a thousandth of the capacity. Pods
/// that use almost nothing of a disk or memory must not be evicted for the usage of others. If no pod uses that much,
/// many may have filled it together: then a thousandth is enough, if evicting all pods above that would end the
/// shortage.
pub(super) fn least(threshold: &Threshold, seen: Observation, pods: &[Candidate]) -> u64 {
    if threshold.signal.resource() == Resource::Pids {
        return 0;
    }
    let (missing, small) = (missing(threshold, seen), seen.capacity / 1000);
    let worth = small.max(missing / 10);
    let used = || pods.iter().filter(|pod| !pod.is_critical()).filter_map(|pod| pod.used);
    if used().any(|used| used >= worth) {
        return worth;
    }
    let together = used().filter(|used| *used >= small).fold(0, u64::saturating_add);
    if together >= missing { small } else { worth }
}

/// Adds usage that no pod is known to have to pods that could not be counted whole. This happens only if the completely
/// counted pods that may be evicted before them would not end the shortage: most pods with too much for a count are
/// innocent, and part of the unexplained usage is the system's own.
pub(super) fn charge(
    pods: &mut [Candidate],
    seen: Observation,
    missing: u64,
    may_go: impl Fn(&Candidate) -> bool,
) {
    let explained = |of_first: bool| {
        let whole = pods.iter().filter(|pod| !pod.is_cut && may_go(pod) && (!of_first || pod.goes_first));
        whole.filter_map(|pod| pod.used).fold(0, u64::saturating_add)
    };
    let (by_all, by_first) = (explained(false), explained(true));
    let known = pods.iter().filter_map(|pod| pod.used).fold(0, u64::saturating_add);
    let rest = seen.capacity.saturating_sub(seen.available).saturating_sub(known);
    for pod in pods.iter_mut().filter(|pod| pod.is_cut) {
        let explained = if pod.goes_first { by_first } else { by_all };
        if explained < missing {
            pod.used = pod.used.map(|used| used.saturating_add(rest));
        }
    }
}

/// Returns the index of the ranked pod to evict: the first one whose end would help. Pods of `evict-first` sources are
/// evicted before pods of other sources, even with almost no known usage: a descriptor in a message, a socket's queue
/// or an image counts for no pod, and their end frees it.
pub(super) fn first(ranked: &[Candidate], worth: u64, may_go: impl Fn(&Candidate) -> bool) -> Option<usize> {
    // If a pod's usage is unknown, it is unknown whether its end would help.
    let helps = |pod: &Candidate| may_go(pod) && pod.used.is_some_and(|used| used >= worth);
    let chosen = ranked.iter().position(helps)?;
    if ranked.get(chosen).is_some_and(|pod| pod.goes_first) {
        return Some(chosen);
    }
    ranked.iter().position(|pod| pod.goes_first && may_go(pod)).or(Some(chosen))
}
