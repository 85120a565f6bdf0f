//! What a pod has to use of a disk or of memory for its end to help, what a pod is taken for that could not be counted whole,
//! and which pods go though nobody knows what they use. The first two keep pods from going in vain, which is a deliberate
//! difference from the kubelet.

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
/// where the ends of all pods that were counted whole, may go, and would go before would not end the shortage: most who have
/// too much for a count are as innocent as others, and what nobody has is the system's, too.
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

/// Which of the ranked pods goes, by its place: one whose end would help. Before a pod goes those go whose sources stand behind
/// its own, though next to nothing is known of what they use: a descriptor in a message, a socket's queue or an image
/// is counted as nobody's, and its end frees it.
pub(super) fn first(ranked: &[Candidate], worth: u64, may_go: impl Fn(&Candidate) -> bool) -> Option<usize> {
    // Of what nobody can tell the use of, nobody knows that its end would help.
    let helps = |pod: &Candidate| may_go(pod) && pod.used.is_some_and(|used| used >= worth);
    let chosen = ranked.iter().position(helps)?;
    if ranked.get(chosen).is_some_and(|pod| pod.goes_first) {
        return Some(chosen);
    }
    ranked.iter().position(|pod| pod.goes_first && may_go(pod)).or(Some(chosen))
}
