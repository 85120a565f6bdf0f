//! Room for critical pods, and for pods of sources that do not stand behind others: other pods are stopped for one that
//! would fit otherwise (upstream `pkg/kubelet/preemption/preemption.go`, `pkg/kubelet/lifecycle/predicate.go`).
//! `eviction::preemption` chooses. The pod is held until those that are stopped are seen dead, and has its room meanwhile:
//! no other pod gets it. Each turn decides anew by what is known, so that a daemon that starts in between goes on.
//!
//! A pod of a source that stands behind others must not keep theirs waiting for as long as it likes: it has a bound for its
//! end, which a new start of the daemon does not begin anew.
//!
//! A pod that was stopped is kept like an evicted one (`evicted`), and returns when there is room again.

use std::sync::Arc;
use std::time::Duration;

use super::Turn;
use super::admission::{Reason, Rejection, Room, fits};
use super::due::Due;
use super::entry::{Entry, WorkerInfo};
use super::evicted::{Cause, Evictions, order_of};
use super::hold::Why;
use crate::base::clock::Now;
use crate::base::duration;
use crate::base::human::many;
use crate::base::limits;
use crate::base::order;
use crate::eviction::preemption::{self, Candidate, Reach};
use crate::machine::{StopOrder, Wish};
use crate::plan::Owned;
use crate::pod::after::{self, Verdict};
use crate::pod::{DesiredPod, PodKey, Source, priority};
use crate::recorder::{ObjectEvent, words};

/// Why a pod that ends anyway ends sooner than it would, for the log.
pub(super) const HURRIED: &str = "a pod of a source that precedes its own waits for its place";

impl Turn {
    /// Has others stop for a pod that is refused for want of room alone, and holds it until they have ended.
    ///
    /// # Errors
    /// Why it is refused all the same: for another reason, or because no pod's end would make the room.
    pub(super) fn make_room(
        &mut self,
        pod: &Arc<DesiredPod>,
        refused: Rejection,
        now: &Now,
    ) -> Result<(), Rejection> {
        let Some(reach) = self.reach_of(pod) else { return Err(refused) };
        if refused.reason == Reason::DuplicateUid {
            self.hurry_behind(pod, Some(&pod.uid), reach, now);
        }
        if !matches!(refused.reason, Reason::OutOf(_)) {
            return Err(refused);
        }
        self.admit(pod, Room::IsMade)?;
        let Some(victims) = self.victims(pod, reach) else { return Err(refused) };
        // No pod is stopped for one that would not start yet.
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
        victims.iter().for_each(|key| self.preempt(key, reach, now));
        self.hurry_behind(pod, None, reach, now);
        let message = self.awaited_for(pod);
        self.hold(Arc::clone(pod), Why::Room, &message, now);
        if !victims.is_empty() {
            // Nobody tells of the end of those that only waited.
            self.due.push(now.mono.after(limits::READMISSION), Due::Refused);
        }
        Ok(())
    }

    /// The pods that may be stopped for this one; `None`: none.
    fn reach_of(&self, pod: &DesiredPod) -> Option<Reach> {
        let is_behind = |source| self.config.policy.evict_first(source);
        match priority::is_critical(pod) {
            true => Some(Reach::All),
            false => {
                (!is_behind(pod.source) && Source::ALL.into_iter().any(is_behind)).then_some(Reach::Behind)
            }
        }
    }

    /// Whether other pods may be stopped for this one. It is admitted before those.
    pub(super) fn precedes(&self, pod: &DesiredPod) -> bool {
        self.reach_of(pod).is_some()
    }

    /// Others went for this version of the pod, or end for it still.
    pub(super) fn has_room_made(&self, pod: &DesiredPod) -> bool {
        let held = self.entries.get(&pod.key).and_then(Entry::held);
        held.is_some_and(|held| held.why == Why::Room && held.pod.uid == pod.uid)
    }

    /// The pods to stop for a pod, beside those that are ending anyway; `None`: the end of all would not make room.
    fn victims(&self, pod: &DesiredPod, reach: Reach) -> Option<Vec<PodKey>> {
        // What has ended goes anyway, and would run a second time if it were stopped; not so a newer version that waits.
        let others: Vec<Vec<&DesiredPod>> = (self.entries.iter().filter(|(key, _)| **key != pod.key))
            .map(|(_, entry)| match self.ends_by_itself(entry) {
                true => entry.waits().map(Arc::as_ref).into_iter().collect(),
                false => entry.staying().map(Arc::as_ref).collect(),
            })
            .collect();
        let staying: Vec<&DesiredPod> = others.iter().flatten().copied().collect();
        let short: Vec<fits::Shortage> = fits::shortages(pod, &staying, &self.config.node).collect();
        let resources: Vec<&str> = short.iter().map(|of| of.resource.as_str()).collect();
        let missing: Vec<i64> = short.iter().map(fits::Shortage::missing).collect();
        let candidates = others.iter().filter_map(|versions| {
            let goes_first = versions.iter().any(|pod| self.config.policy.evict_first(pod.source));
            Candidate::of(versions, &resources, goes_first)
        });
        let candidates: Vec<Candidate> = candidates.filter(|pod| reach.has(pod)).collect();
        preemption::choose(&missing, &candidates)
    }

    /// Has pods of sources behind that end anyway end soon, of this UID alone where one is given. Those that are being
    /// replaced are kept away: another edit would begin a new end as soon as the present one is over.
    fn hurry_behind(&mut self, waiter: &DesiredPod, uid: Option<&str>, reach: Reach, now: &Now) {
        let others = self.entries.iter().filter(|(key, entry)| {
            let holds = |uid| entry.has_uid(uid) || self.is_found_with(key, uid);
            **key != waiter.key && entry.worker.is_some() && uid.is_none_or(holds)
        });
        let late: Vec<(PodKey, Option<u32>)> = others
            .filter_map(|(key, entry)| {
                if let Some(desired) = &entry.desired {
                    // The version before it may be one of an earlier daemon.
                    let earlier = self.node.earlier.get(key).filter(|it| it.uid != desired.uid);
                    let earlier = earlier.filter(|it| self.runs_still(key, &it.uid));
                    let is_replaced =
                        entry.leaving().into_iter().chain(earlier).any(|pod| self.is_behind(pod));
                    return (is_replaced && self.is_behind(desired)).then(|| (key.clone(), None));
                }
                let worker = entry.worker.as_ref().filter(|worker| !worker.terminated)?;
                let grace = self.bounded_end(key, None, Duration::ZERO)?;
                worker.within.is_none_or(|told| told > grace).then(|| (key.clone(), Some(grace)))
            })
            .collect();
        for (key, grace) in late {
            match grace {
                // Why it ends was said before, and whether it returns.
                Some(_) => self.wish(&key, Wish::Stop(StopOrder::new(grace, HURRIED).unless_ended(None))),
                None => self.preempt(&key, reach, now),
            }
        }
    }

    /// Has what the daemon before was replacing end soon for pods that wait for room. Those are admitted first, when the
    /// others have no worker yet.
    pub(super) fn hurry_earlier(&mut self, now: &Now) {
        let held = self.entries.values().filter_map(Entry::held).filter(|held| held.why == Why::Room);
        for pod in held.map(|held| Arc::clone(&held.pod)).collect::<Vec<_>>() {
            if let Some(reach) = self.reach_of(&pod) {
                self.hurry_behind(&pod, None, reach, now);
            }
        }
    }

    /// The seconds that what runs under this identity, but for the pod of that UID, has to end for one of a source that
    /// precedes, after so much of its time; `None` where no grace period of it is longer, or its source is behind none.
    pub(super) fn bounded_end(&self, key: &PodKey, but: Option<&str>, passed: Duration) -> Option<u32> {
        let passed = u32::try_from(passed.as_secs()).unwrap_or(u32::MAX);
        let left = limits::ROOM_GRACE.saturating_sub(passed).max(limits::GRACE_MIN);
        let is_long = |uid: &str, source: Source, grace: Option<u32>| {
            let is_behind = but != Some(uid) && self.config.policy.evict_first(source);
            is_behind && grace.unwrap_or(limits::GRACE_DEFAULT) > left
        };
        let entry = self.entries.get(key).into_iter();
        let known: Vec<&Arc<DesiredPod>> = entry.flat_map(|e| e.desired.iter().chain(e.leaving())).collect();
        let ends_late = known.iter().any(|pod| {
            let own = pod.spec.termination_grace_period_seconds.and_then(duration::grace);
            is_long(&pod.uid, pod.source, own)
        });
        // Of what an earlier daemon has made, and no source wants, nothing is told. Its labels may name a source that a pod
        // has left since.
        let is_known = |c: &Owned| known.iter().any(|pod| pod.uid == c.uid);
        let found =
            self.docker.found.get(key).into_iter().flatten().filter(|c| c.state.is_running() && !is_known(c));
        let is_found = |c: &Owned| c.manifest.source.is_some_and(|source| is_long(&c.uid, source, c.grace));
        (ends_late || found.filter(|c| !c.is_sandbox()).any(is_found)).then_some(left)
    }

    pub(super) fn is_behind(&self, pod: &DesiredPod) -> bool {
        self.config.policy.evict_first(pod.source)
    }

    /// Stops a pod in its own time, but one of a source behind others soon, and keeps it away.
    fn preempt(&mut self, key: &PodKey, reach: Reach, now: &Now) {
        let earlier = self.entries.get_mut(key).map_or(Duration::ZERO, |entry| entry.stopped_for(now));
        let grace = self.bounded_end(key, None, earlier);
        self.loses_room(key);
        let Some(entry) = self.entries.get_mut(key) else { return };
        let was_over = entry.is_over();
        // An older version that has ended makes no room.
        let only_waits = was_over && entry.waits().is_some();
        let ran = if only_waits { None } else { entry.desired.take() };
        // A newer version may wait while this one runs: that one returns.
        let newest = entry.blocked.as_ref().map(|blocked| Arc::clone(blocked.pod())).or_else(|| ran.clone());
        let Some(pod) = newest else { return };
        let message = reach.message();
        let before = entry.evictions.as_ref();
        let waited = before.filter(|before| ran.is_none() && before.are_of(&pod.uid)).cloned();
        let new = || Evictions::after(before, &pod.uid, Cause::Room, message, now);
        let evictions = waited.map_or_else(new, |waited| waited.of_a_waiting_one(message));
        let evictions = evictions.begun_before(earlier);
        entry.evictions = Some(evictions.clone());
        let uid = ran.as_ref().unwrap_or(&pod).uid.clone();
        self.keep_evicted(pod, &evictions, now);
        let told = words::evicted(preemption::PREEMPTING, message);
        self.record(ObjectEvent::new(key.clone(), uid, None, told), now);
        if let Some(ran) = ran {
            let order = StopOrder::new(grace, reach.why());
            // One that has ended already runs too long after that.
            self.wish(key, Wish::Stop(if was_over { order } else { order_of(&ran, order) }));
        }
    }

    /// The reason why a pod waits, for its status.
    pub(super) fn awaited_for(&self, pod: &DesiredPod) -> String {
        let others = self.entries.iter().filter(|(key, _)| **key != pod.key);
        let borrowers = self.borrowers(pod);
        let goes = |key: &PodKey, entry: &Entry| {
            let gives_back = entry.desired.is_some() && !entry.is_over() && borrowers.contains(key);
            let runs = |pod: &Arc<DesiredPod>| self.runs(key, &pod.uid);
            let runs =
                || entry.worker.as_ref().is_some_and(WorkerInfo::runs) || entry.desired.iter().any(runs);
            entry.leaving().is_some() || self.ends_by_itself(entry) && runs() || gives_back
        };
        let leaving = others.filter(|(key, entry)| goes(key, entry)).map(|(key, _)| key);
        let earlier = self.earlier(false).into_iter().map(|it| &it.key).filter(|key| **key != pod.key);
        let leaving: Vec<String> =
            order::set(leaving.chain(earlier)).into_iter().map(PodKey::to_string).collect();
        let named = leaving.iter().take(limits::ROOM_NAMES).cloned().collect::<Vec<_>>().join(", ");
        let more = if leaving.len() > limits::ROOM_NAMES { " and others" } else { "" };
        format!("Waits for the end of {}: {named}{more}.", many(leaving.len(), "pod"))
    }

    /// Lets preempted pods return, as far as there is room again.
    pub(super) fn return_preempted(&mut self, now: &Now) {
        if !self.docker.listed || self.draining.is_some() {
            return;
        }
        for pod in self.in_order(self.may_return(now)) {
            self.return_if_it_fits(pod, now);
        }
    }

    /// Preempted pods that may be judged again. One of which containers run still has not gone yet.
    pub(super) fn may_return(&self, now: &Now) -> Vec<Arc<DesiredPod>> {
        self.entries.values().filter_map(|entry| may_return(entry, now)).cloned().collect()
    }

    /// The preempted pod of this name that may be judged again.
    pub(super) fn may_return_of(&self, key: &PodKey, now: &Now) -> Option<Arc<DesiredPod>> {
        self.entries.get(key).and_then(|entry| may_return(entry, now)).cloned()
    }

    pub(super) fn return_if_it_fits(&mut self, pod: Arc<DesiredPod>, now: &Now) {
        if !self.fits_again(&pod) {
            return;
        }
        self.log(log::Level::Info, format!("pod {} was preempted, and starts again", pod.key));
        self.block(&pod.key, None);
        self.additions(vec![pod], now);
    }

    /// Whether a preempted pod has room again, or would have it made.
    pub(super) fn fits_again(&self, pod: &Arc<DesiredPod>) -> bool {
        !self.stays_away(pod) || self.may_have_room_made(pod)
    }

    /// A preempted pod waits for the room of those that end, and pods that stand behind it, and came since, would be stopped
    /// for it, as for a new one.
    fn may_have_room_made(&self, pod: &Arc<DesiredPod>) -> bool {
        let reach = Some(Reach::Behind).filter(|behind| self.reach_of(pod) == Some(*behind));
        let reach = reach.filter(|_| pod.source != Source::Api && self.admit(pod, Room::IsMade).is_ok());
        reach.and_then(|reach| self.victims(pod, reach)).is_some()
    }

    /// There is no room for it yet. A pod that is refused for something else is told that.
    pub(super) fn stays_away(&self, pod: &Arc<DesiredPod>) -> bool {
        let is_brief = |why: &Rejection| why.is_for_want_of_room() || why.reason == Reason::Evicted;
        // Its controller makes another one.
        pod.source == Source::Api || self.admit(pod, Room::Counts).is_err_and(|why| is_brief(&why))
    }
}

fn may_return<'e>(entry: &'e Entry, now: &Now) -> Option<&'e Arc<DesiredPod>> {
    let gone = Some(entry).filter(|entry| entry.leaving().is_none());
    gone.and_then(Entry::evicted).filter(|it| it.may_fit(now)).map(|it| &it.pod)
}
