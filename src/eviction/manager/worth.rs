//! What a pod has to use of a disk or of memory for its end to help, and what a pod is taken for that could not be counted whole. Both
//! keep pods from going in vain, which is a deliberate difference from the kubelet.

use super::Observation;
use crate::eviction::rank::Candidate;
use crate::eviction::signal::Resource;
use crate::eviction::threshold::Threshold;

/// What is missing.
pub(super) fn missing(threshold: &Threshold, seen: Observation) -> u64 {
    threshold.value.of(seen.capacity).saturating_sub(seen.available)
}

/// The least that a pod has to use to go: a tenth of what is missing, and a thousandth of all there is. A disk or memory that
/// others have filled is no reason to take down pods that use next to nothing of it. Where nobody has so much, many may have
/// filled it together: then a thousandth is enough, if the ends of all who have that would end the shortage.
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

/// Adds to what was counted of pods that could not be counted whole what nobody else is known to have. That is only done
/// where the ends of all pods that were counted whole, and may go, would not end the shortage: most who have too much for
/// a count are as innocent as others, and what nobody has is the system's, too.
pub(super) fn charge(
    pods: &mut [Candidate],
    seen: Observation,
    missing: u64,
    may_go: impl Fn(&Candidate) -> bool,
) {
    let whole = pods.iter().filter(|pod| !pod.is_cut && may_go(pod)).filter_map(|pod| pod.used);
    if whole.fold(0, u64::saturating_add) >= missing {
        return;
    }
    let known = pods.iter().filter_map(|pod| pod.used).fold(0, u64::saturating_add);
    let rest = seen.capacity.saturating_sub(seen.available).saturating_sub(known);
    for pod in pods.iter_mut().filter(|pod| pod.is_cut) {
        pod.used = pod.used.map(|used| used.saturating_add(rest));
    }
}
