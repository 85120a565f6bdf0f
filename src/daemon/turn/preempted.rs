//! Room for critical pods: others go for one that would fit otherwise (upstream `pkg/kubelet/preemption/preemption.go`,
//! `pkg/kubelet/lifecycle/predicate.go`). `eviction::preemption` chooses. The critical pod is held until those that go are
//! seen dead, and has its room meanwhile: nobody else gets it. What is known decides each time anew, so that a daemon that
//! begins in between goes on.
//!
//! Who went is kept like an evicted pod (`evicted`), and returns when there is room again.

use std::cmp::Reverse;
use std::sync::Arc;

use super::Turn;
use super::admission::{Reason, Rejection, Room, fits};
use super::entry::Entry;
use super::evicted::{Cause, Evictions};
use super::hold::Why;
use crate::base::clock::Now;
use crate::base::count::many;
use crate::base::limits;
use crate::base::order;
use crate::eviction::preemption::{self, Candidate};
use crate::machine::{StopOrder, Wish};
use crate::pod::after::{self, Verdict};
use crate::pod::{DesiredPod, PodKey, Source, priority};
use crate::recorder::{ObjectEvent, words};

impl Turn {
    /// Has others stop for a critical pod that is refused for want of room alone, and holds it until they have ended.
    ///
    /// # Errors
    /// Why it is refused all the same: for something else, or nobody's end would make the room.
    pub(super) fn make_room(
        &mut self,
        pod: &Arc<DesiredPod>,
        refused: Rejection,
        now: &Now,
    ) -> Result<(), Rejection> {
        if !priority::is_critical(pod) || !matches!(refused.reason, Reason::OutOf(_)) {
            return Err(refused);
        }
        self.admit(pod, Room::IsMade)?;
        let Some(victims) = self.victims(pod) else { return Err(refused) };
        // Nobody goes for a pod that would not start yet.
        if let Some(after) = after::of(pod).filter(|_| !self.has_room_made(pod)) {
            match self.judge(pod, &after, now) {
                Verdict::Start => {}
                Verdict::StartAnyway(missing) => {
                    let words = words::after_timeout(after.timeout, &missing);
                    self.record(ObjectEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
                }
                Verdict::Wait { message, until } => {
                    self.wait(Arc::clone(pod), &after, &message, until, now);
                    return Ok(());
                }
            }
        }
        victims.iter().for_each(|key| self.preempt(key, now));
        let message = self.awaited_for(pod);
        self.hold(Arc::clone(pod), Why::Room, &message, now);
        Ok(())
    }

    /// Others went for this version of the pod, or end for it still.
    pub(super) fn has_room_made(&self, pod: &DesiredPod) -> bool {
        let held = self.entries.get(&pod.key).and_then(Entry::held);
        held.is_some_and(|held| held.why == Why::Room && held.pod.uid == pod.uid)
    }

    /// Who goes for a pod beside those that go anyway; `None`: there would not be room without all of them either.
    fn victims(&self, pod: &DesiredPod) -> Option<Vec<PodKey>> {
        let others = || self.entries.iter().filter(|(key, _)| **key != pod.key).map(|(_, entry)| entry);
        let staying: Vec<&DesiredPod> = others().flat_map(Entry::staying).map(Arc::as_ref).collect();
        let short: Vec<fits::Shortage> = fits::shortages(pod, &staying, &self.config.node).collect();
        let resources: Vec<&str> = short.iter().map(|of| of.resource.as_str()).collect();
        let missing: Vec<i64> = short.iter().map(fits::Shortage::missing).collect();
        let candidates = others().filter_map(|entry| {
            let versions: Vec<&DesiredPod> = entry.staying().map(Arc::as_ref).collect();
            let goes_first = versions.iter().any(|pod| self.config.policy.evict_first(pod.source));
            Candidate::of(&versions, &resources, goes_first)
        });
        preemption::choose(&missing, &candidates.collect::<Vec<_>>())
    }

    /// Stops a pod in its own time, and keeps it away.
    fn preempt(&mut self, key: &PodKey, now: &Now) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let ran = entry.desired.take();
        // A newer version may wait while this one runs: that one returns.
        let newest = entry.blocked.as_ref().map(|blocked| Arc::clone(blocked.pod())).or_else(|| ran.clone());
        let Some(pod) = newest else { return };
        let evictions = Evictions::after(
            entry.evictions.as_ref(),
            &pod.uid,
            Cause::CriticalPod,
            preemption::MESSAGE,
            now,
        );
        entry.evictions = Some(evictions.clone());
        let uid = ran.as_ref().unwrap_or(&pod).uid.clone();
        self.keep_evicted(pod, &evictions, now);
        self.record(
            ObjectEvent::new(
                key.clone(),
                uid,
                None,
                words::evicted(preemption::PREEMPTING, preemption::MESSAGE),
            ),
            now,
        );
        if ran.is_some() {
            self.wish(key, Wish::Stop(StopOrder::new(None, "it is preempted by a critical pod")));
        }
    }

    /// What a critical pod waits for, for its status.
    fn awaited_for(&self, pod: &DesiredPod) -> String {
        let others = self.entries.iter().filter(|(key, _)| **key != pod.key);
        let leaving = others.filter(|(_, entry)| entry.leaving().is_some()).map(|(key, _)| key.to_string());
        let leaving: Vec<String> = leaving.collect();
        let named = leaving.iter().take(limits::ROOM_NAMES).cloned().collect::<Vec<_>>().join(", ");
        let more = if leaving.len() > limits::ROOM_NAMES { " and others" } else { "" };
        format!("Waits for the end of {}: {named}{more}.", many(leaving.len(), "pod"))
    }

    /// Lets pods return that went for a critical one, as far as there is room again: the most important first.
    pub(super) fn return_preempted(&mut self, now: &Now) {
        if !self.docker.listed || self.draining.is_some() {
            return;
        }
        let away = self.entries.values().filter_map(Entry::evicted).filter(|it| it.may_fit(now));
        let mut away: Vec<Arc<DesiredPod>> = away.map(|it| Arc::clone(&it.pod)).collect();
        order::sort_by_key(&mut away, |pod| (Reverse(priority::of(pod)), pod.key.clone()));
        for pod in away {
            if self.stays_away(&pod) {
                continue;
            }
            self.log(
                log::Level::Info,
                format!("pod {} was preempted, and starts again: there is room", pod.key),
            );
            self.block(&pod.key, None);
            self.additions(vec![pod], now);
        }
    }

    /// There is no room for it yet. A pod that is refused for something else is told that.
    pub(super) fn stays_away(&self, pod: &Arc<DesiredPod>) -> bool {
        let is_brief = |why: &Rejection| why.is_for_want_of_room() || why.reason == Reason::Evicted;
        // Its controller makes another one.
        pod.source == Source::Api || self.admit(pod, Room::Counts).is_err_and(|why| is_brief(&why))
    }
}
