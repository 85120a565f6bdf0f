//! Wanted pods that are not started yet: the node is drained, they wait for other pods, or they would
//! close a cycle of waiting. A running pod of the same name is an older version, and keeps running
//! meanwhile.

mod earlier;
mod ends;
mod lent;
mod over;
mod runtime;

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;

pub(super) use self::lent::{Rank, Ranks};
use self::over::Over;
use super::Turn;
use super::due::Due;
use super::entry::{Blocked, Entry};
use crate::base::clock::{Mono, Now};
use crate::base::{limits, order};
use crate::pod::after::{self, After, Dependency, Standing, Verdict};
use crate::pod::problem::{Problem, Severity};
use crate::pod::{DesiredPod, PodKey};
use crate::recorder::{ObjectEvent, words};
use crate::status;

/// Reason in the status of a pod that waits for others.
pub(super) const WAITS: &str = "WaitingForPods";
/// Reason in the status of a critical pod that waits until others have gone for it.
pub(super) const NO_ROOM: &str = "WaitingForRoom";
/// Reason in the status of a pod whose RuntimeClass the API server does not have.
pub(super) const NO_CLASS: &str = "WaitingForRuntimeClass";
/// Reason in the status of a pod that would close a cycle.
pub(super) const CYCLE: &str = "DependencyCycle";
/// Message of a pod on a drained node.
const DRAINED: &str = "The node is drained: podkeeper resume starts this pod.";

/// A pod that is not started yet.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) pod: Arc<DesiredPod>,
    pub(super) status: Arc<PodStatus>,
    pub(super) why: Why,
    /// The message, without the prefix that the status adds.
    message: String,
}

/// Why a pod is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Drained,
    /// Waits for other pods.
    After,
    /// Waits until pods that were told to stop have made room.
    Room,
    /// Waits until the API server has its RuntimeClass.
    RuntimeClass,
    Cycle,
}

impl Why {
    /// Reason in the status.
    fn reason(self) -> &'static str {
        match self {
            // The kubelet's word.
            Why::Drained => "NodeShutdown",
            Why::After => WAITS,
            Why::Room => NO_ROOM,
            Why::RuntimeClass => NO_CLASS,
            Why::Cycle => CYCLE,
        }
    }
}

impl Turn {
    /// Decides about one wanted pod: start, refuse, or hold.
    pub(super) fn consider(&mut self, pod: Arc<DesiredPod>, now: &Now) {
        let over = self.over(&pod);
        if self.draining.is_some() && over != Over::Told {
            // Who was evicted, also by an earlier daemon, waits for more than the end of the drain.
            if !self.replace_evicted(&pod) && !self.restore_evicted(&pod, over != Over::No, now) {
                self.hold(pod, Why::Drained, DRAINED, now);
            }
            return;
        }
        if self.replace_evicted(&pod) || self.restore_evicted(&pod, over != Over::No, now) {
            return;
        }
        let entry = self.entries.get(&pod.key);
        let adopted = entry.is_none_or(|e| e.worker.is_none()) && self.runs(&pod.key, &pod.uid);
        let wanted = entry.and_then(|e| e.desired.as_ref()).is_some_and(|old| old.uid == pod.uid);
        if !adopted
            && over == Over::No
            && let Some(way) = self.cycle(&pod)
        {
            let way = format!("{} of {} closes a cycle: {}", after::AFTER, pod.key, after::way(&way));
            let held = self.entries.get(&pod.key).and_then(Entry::held);
            if !held.is_some_and(|held| matches!(held.why, Why::Cycle) && held.pod.uid == pod.uid) {
                let words = words::rejected(CYCLE, &way);
                self.record(ObjectEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
            }
            return self.hold(pod, Why::Cycle, &way, now);
        }
        if over == Over::No
            && let Some(why) = self.runtime_of(&pod).err()
        {
            return self.without_runtime(pod, &why, now);
        }
        self.reject_later_duplicates(&pod, now);
        if let Err(rejection) = self.admit(&pod, over.room()) {
            if self.postpone(&pod, &rejection, now) {
                return;
            }
            // A pod that runs when the daemon starts is not stopped for lack of room: it has its room. One of which only
            // the sandbox is left may have been stopped for another pod.
            let has_room = adopted && self.runs_containers(&pod.key, &pod.uid);
            if !(has_room && rejection.is_for_want_of_room()) {
                if over == Over::No && !adopted && !wanted && self.wait_for_ends(&pod, now) {
                    return;
                }
                return match self.make_room(&pod, rejection, now) {
                    Ok(()) => {}
                    Err(rejection) => self.reject(pod, &rejection, now),
                };
            }
        }
        // What others have gone for has waited before they did.
        let has_waited = self.has_room_made(&pod);
        match after::of(&pod).filter(|_| over == Over::No && !adopted && !wanted && !has_waited) {
            Some(after) => self.run_after(pod, &after, now),
            None if over == Over::No => self.run(pod),
            None => self.run_as_over(pod),
        }
    }

    fn run_after(&mut self, pod: Arc<DesiredPod>, after: &After, now: &Now) {
        let verdict = self.judge(&pod, after, now);
        let waits_for_room = |held: &Held| held.why == Why::Room;
        if !matches!(verdict, Verdict::Wait { .. })
            && self.entries.values().filter_map(Entry::held).any(waits_for_room)
        {
            // A job that it needed no longer has the room of others for it.
            self.due.push(now.mono.after(limits::READMISSION), Due::Refused);
        }
        match verdict {
            Verdict::Start => self.run(pod),
            Verdict::StartAnyway(missing) => {
                let words = words::after_timeout(after.timeout, &missing);
                self.record(ObjectEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
                self.run(pod);
            }
            Verdict::Wait { message, until } => self.wait(pod, after, &message, until, now),
        }
    }

    pub(super) fn judge(&mut self, pod: &DesiredPod, after: &After, now: &Now) -> Verdict {
        #[cfg(test)]
        {
            self.waiting.judged += 1;
        }
        let since = self.waits_since(pod, now);
        after::decide(after, |dependency| self.standing(dependency), since, now.mono)
    }

    /// When the wait began: now, or earlier if this version has waited already. One that was refused since goes on with it.
    fn waits_since(&self, pod: &DesiredPod, now: &Now) -> Mono {
        let waited = self.entries.get(&pod.key).and_then(|entry| entry.waited.as_ref());
        waited.filter(|(uid, _)| *uid == pod.uid).map_or(now.mono, |(_, since)| *since)
    }

    pub(super) fn wait(
        &mut self,
        pod: Arc<DesiredPod>,
        after: &After,
        missing: &str,
        until: Mono,
        now: &Now,
    ) {
        let since = self.waits_since(&pod, now);
        self.node.rooms.settled(&pod.key);
        self.entries.get_or_default(pod.key.clone()).waited = Some((pod.uid.clone(), since));
        self.due.replace(until, Due::After(pod.key.clone()));
        let message = format!("Waits for {missing}; starts anyway after {} s.", after.timeout.as_secs());
        self.hold(pod, Why::After, &message, now);
    }

    pub(super) fn hold(&mut self, pod: Arc<DesiredPod>, why: Why, message: &str, now: &Now) {
        let reason = why.reason();
        let old = self.entries.get(&pod.key).and_then(Entry::held);
        let same = old.is_some_and(|old| {
            (Arc::ptr_eq(&old.pod, &pod) || old.pod == pod) && old.why == why && old.message == message
        });
        if same {
            return;
        }
        let known = old.is_some_and(|old| old.pod.uid == pod.uid && old.why.reason() == reason);
        let status = match why {
            Why::Cycle => status::rejected(&pod, reason, message, now.wall),
            Why::Drained | Why::After | Why::Room | Why::RuntimeClass => {
                status::held(&pod, reason, message, now.wall)
            }
        };
        let line = match why {
            Why::After | Why::Room => Some(format!("pod {}: {message}", pod.key)),
            // Logged once, for the node; by its event.
            Why::Drained | Why::RuntimeClass | Why::Cycle => None,
        };
        let (key, status, message) = (pod.key.clone(), Arc::new(status), message.to_owned());
        if matches!(why, Why::Drained | Why::Room) {
            // One that waits for the end of its job, which has its room now, has it back first.
            self.loses_room(&key);
        }
        self.block(&key, Some(Blocked::Held(Held { pod, status, why, message })));
        if why == Why::Drained {
            // It waits anew when the node is resumed.
            self.entries.get_or_default(key.clone()).waited = None;
        }
        self.changed = true;
        if let Some(line) = line.filter(|_| !known) {
            self.log(log::Level::Info, line);
        }
        if why != Why::Drained {
            self.attend_earlier(&key);
        }
    }

    /// Sets why the wanted version of a pod does not run; `None`: it runs, or there is none.
    pub(super) fn block(&mut self, key: &PodKey, blocked: Option<Blocked>) {
        let blocked = blocked.map(|blocked| self.with_ends(blocked));
        let old = match blocked {
            Some(blocked) => self.entries.get_or_default(key.clone()).blocked.replace(blocked),
            None => self.entries.get_mut(key).and_then(|entry| entry.blocked.take()),
        };
        let node = &self.config.node_name;
        if let Some(old) = old {
            self.waiting.remove(old.pod(), node);
        }
        if let Some(Held { pod, why: Why::After, .. }) = self.entries.get(key).and_then(Entry::held) {
            let rank = self.rank(pod);
            self.waiting.add(pod, rank, node);
        }
    }

    /// Judges the pods again that wait for the changed ones, and those that would have closed a cycle,
    /// because the cycle may be open now.
    pub(super) fn release(&mut self, changed: &[PodKey], now: &Now) {
        if !self.docker.listed || self.draining.is_some() {
            return;
        }
        let waiters = order::set(changed.iter().flat_map(|key| self.waiting.on(key)).cloned());
        let mut ready = Vec::new();
        for key in waiters {
            let held = self.entries.get(&key).and_then(Entry::held);
            let Some(pod) = held.map(|held| Arc::clone(&held.pod)) else { continue };
            let Some(after) = after::of(&pod) else { continue };
            match self.judge(&pod, &after, now) {
                Verdict::Wait { message, until } => self.wait(pod, &after, &message, until, now),
                Verdict::Start | Verdict::StartAnyway(_) => ready.push(pod),
            }
        }
        ready.extend(self.cycles_to_judge(now));
        if !ready.is_empty() {
            self.additions(ready, now);
            // One of them may have opened a cycle.
            self.know_graph();
            if self.waiting.cycles_due {
                self.due.push(now.mono.after(limits::READMISSION), Due::Refused);
            }
        }
    }

    /// The pods that would have closed a cycle, when it may be open now. Many are judged together after a while.
    fn cycles_to_judge(&mut self, now: &Now) -> Vec<Arc<DesiredPod>> {
        self.know_graph();
        if !self.waiting.cycles_due {
            return Vec::new();
        }
        let held = self.entries.values().filter_map(Entry::held);
        let closed = held.filter(|held| held.why == Why::Cycle);
        let closed: Vec<Arc<DesiredPod>> = closed.map(|held| Arc::clone(&held.pod)).collect();
        let next = self.waiting.cycles_judged.map(|last| last.after(limits::READMISSION));
        match next.filter(|next| now.mono < *next && closed.len() > limits::READMITTED_AT_ONCE) {
            Some(next) => {
                self.due.push(next, Due::Refused);
                Vec::new()
            }
            None => {
                self.waiting.cycles_due = false;
                self.waiting.cycles_judged = Some(now.mono);
                closed
            }
        }
    }

    fn standing(&self, dependency: &Dependency) -> Standing<'_> {
        let keys = dependency.keys(&self.config.node_name);
        let Some(pod) = keys.iter().find_map(|key| self.merge.get(key)) else {
            let mut refused = self.sources.values().flat_map(|source| &source.refused);
            let refused = refused.find(|it| keys.contains(&it.refused.pod.key));
            return refused.map_or(Standing::Absent, |it| Standing::Refused(&it.refused.reason));
        };
        let entry = self.entries.get(&pod.key);
        let status = entry.and_then(Entry::status);
        match status.filter(|s| s.leaving.is_none() && s.pod.uid == pod.uid) {
            Some(known) => Standing::Status(&known.status),
            None => entry.and_then(Entry::refusal).map_or(Standing::Unknown, Standing::Refused),
        }
    }

    /// The chain of dependencies from a pod back to itself, over pods that were accepted before it.
    fn cycle(&mut self, pod: &DesiredPod) -> Option<Vec<PodKey>> {
        after::of(pod)?;
        self.know_graph();
        // A source behind others comes after them, whatever the order of sources is.
        let rank = |source| (self.config.policy.evict_first(source), source);
        self.waiting.graph.cycle(pod, &self.config.node_name, |source| rank(source) > rank(pod.source))
    }

    /// Makes the graph that of the pods that are accepted now.
    fn know_graph(&mut self) {
        // Pods that have ended for good wait for nobody any more, and there may be hundreds.
        let accepted = self.entries.values().filter(|entry| !entry.is_over()).filter_map(Entry::accepted);
        if self.waiting.graph.follow(accepted, &self.config.node_name) {
            #[cfg(test)]
            {
                self.waiting.graphs += 1;
            }
            self.waiting.cycles_due = true;
        }
    }

    /// Cycles, as problems that the operator has to fix.
    pub(super) fn held_problems(&self) -> impl Iterator<Item = Problem> {
        let held = self.entries.values().filter_map(Entry::held);
        held.filter(|h| h.why == Why::Cycle).map(|h| Problem {
            severity: Severity::Error,
            path: h.pod.origin.path.clone(),
            at: None,
            pod: Some(h.pod.key.to_string()),
            field: Some(format!("metadata.annotations[{}]", after::AFTER)),
            message: h.status.message.clone().unwrap_or_default(),
        })
    }
}
