//! Refused pods are judged again whenever other pods change: on a node without a control plane no other component would
//! retry them (a deliberate difference from the kubelet).
//!
//! Never here: hundreds of judgements for each change.

use std::sync::Arc;

use super::super::Turn;
use super::super::admission::Reason;
use super::super::due::Due;
use super::super::entry::Entry;
use crate::base::clock::Now;
use crate::base::limits;
use crate::pod::{DesiredPod, PodKey, Source};

impl Turn {
    /// Judges refused pods again, now or soon. `changed`: pods that other pods may wait for.
    pub(in crate::daemon::turn) fn readmit(&mut self, changed: &[PodKey], now: &Now) {
        // Many are judged together after a while: the thread of the main loop would have no time for anything else.
        let many = self.entries.values().filter(|entry| entry.is_refused()).count();
        let longer = u32::try_from(many / limits::READMITTED_TOGETHER).unwrap_or(u32::MAX).saturating_add(1);
        let wait = limits::READMISSION.saturating_mul(longer);
        let next = self.waiting.readmitted.map(|last| last.after(wait));
        match next.filter(|next| now.mono < *next && many > limits::READMITTED_AT_ONCE) {
            Some(next) => self.due.push(next, Due::Refused),
            None => self.readmit_all(now),
        }
        self.release(changed, now);
    }

    pub(in crate::daemon::turn) fn readmit_all(&mut self, now: &Now) {
        self.names.due = true;
        // A drained node starts no pod, and refused pods may stay refused.
        if !self.docker.listed || self.draining.is_some() {
            return;
        }
        self.waiting.readmitted = Some(now.mono);
        let all = self.all_refused().chain(self.may_return(now));
        // Pods for which others are stopped come first: those do not return into the room that they made.
        let (preceding, others): (Vec<_>, Vec<_>) = all.partition(|pod| self.precedes(pod));
        self.judge_again(preceding, now);
        self.judge_again(others, now);
    }

    /// Judges those again for which others are stopped, and which had room, before new ones get what has become free.
    pub(super) fn return_preceding(&mut self, now: &Now) {
        if !self.docker.listed || self.draining.is_some() {
            return;
        }
        let all = self.all_refused().chain(self.may_return(now));
        let had = all.filter(|pod| self.precedes(pod) && self.room(pod).was_had());
        let had: Vec<Arc<DesiredPod>> = had.collect();
        // More of them are judged after the new ones, as often as all others.
        if had.len() <= limits::READMITTED_AT_ONCE {
            self.judge_again(had, now);
        }
    }

    fn all_refused(&self) -> impl Iterator<Item = Arc<DesiredPod>> {
        let refused = self.entries.values().filter(|entry| entry.is_refused());
        refused.filter_map(|entry| Some(Arc::clone(entry.blocked.as_ref()?.pod())))
    }

    /// Judges one by one, for who comes first has its room. Who had room has it with the sizes of then before any of them has
    /// more, and that before the next ones start.
    fn judge_again(&mut self, pods: Vec<Arc<DesiredPod>>, now: &Now) {
        let waits_for_sizes = |entry: &Entry| entry.postponed().is_some();
        let (resized, pods): (Vec<_>, Vec<_>) =
            pods.into_iter().partition(|pod| self.entries.get(&pod.key).is_some_and(waits_for_sizes));
        let (mut resized, mut pods) = (self.in_order(resized), self.in_order(pods));
        let had =
            pods.iter().rposition(|pod| self.room(pod).was_had()).map_or(0, |last| last.saturating_add(1));
        let others = pods.split_off(had);
        for pod in pods {
            resized.extend(self.judge_one_again(pod, now));
        }
        resized.into_iter().for_each(|pod| self.addition(pod, now));
        for pod in others {
            let resized = self.judge_one_again(pod, now);
            resized.into_iter().for_each(|pod| self.addition(pod, now));
        }
    }

    /// Returns the pod if it is to have other sizes.
    pub(in crate::daemon::turn) fn judge_one_again(
        &mut self,
        pod: Arc<DesiredPod>,
        now: &Now,
    ) -> Vec<Arc<DesiredPod>> {
        if let Some(preempted) = self.may_return_of(&pod.key, now) {
            self.return_if_it_fits(preempted, now);
        } else if self.precedes(&pod) || !self.has_no_place(&pod.key) {
            return self.additions_as_before(vec![pod], now);
        }
        Vec::new()
    }

    /// Whether a pod was refused because there were too many, and there are still as many. It is not judged then, for
    /// there may be hundreds.
    fn has_no_place(&self, key: &PodKey) -> bool {
        let refused = self.entries.get(key).and_then(Entry::rejected);
        let is_for_place = refused.is_some_and(|refused| refused.rejection.reason == Reason::of_pods());
        is_for_place
            && i64::try_from(self.active_pods()).is_ok_and(|active| active >= self.config.node.max_pods)
    }
}

/// The message of a refusal: where the manifest is, and what becomes of the pod. `runs`: something of it does.
pub(super) fn refusal(pod: &DesiredPod, message: &str, runs: bool) -> String {
    let then = if runs { "what runs of it is stopped" } else { "it is not started" };
    match pod.source {
        // Its manifest is at the server.
        Source::Api if !runs => message.to_owned(),
        Source::Api => format!("{message}; {then}"),
        Source::File | Source::Http => format!("{message} ({}; {then})", pod.origin),
    }
}
