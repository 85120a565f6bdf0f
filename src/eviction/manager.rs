//! The manager: figures and the time go in, what to do comes out (`pkg/kubelet/eviction/eviction_manager.go`,
//! `synchronize`).
//!
//! One thing is done at a time: garbage is collected, or one pod goes and its end is awaited. A shortage of disk has
//! garbage collected before a pod goes; a pod that had to go leaves new garbage, which is collected before the next. While
//! a disk gets emptier no pod goes for it.

mod ending;
mod settling;
mod worth;

use std::collections::BTreeSet;
use std::time::Duration;

use ending::{Ending, Step};
use settling::Settling;

use super::Eviction;
use super::rank::{Candidate, message, rank};
use super::signal::{Resource, Signal};
use super::threshold::{Settings, Threshold};
use crate::base::clock::Mono;
use crate::base::pace::doubled;
use crate::base::table::Table;
use crate::base::{limits, order};
use crate::node::pressure::{Pressure, Pressures};
use crate::pod::PodKey;

/// How much is left of what a signal watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// What is left.
    pub available: u64,
    /// What there is in all.
    pub capacity: u64,
}

/// What one look at the node has found. A signal that cannot be told is missing: nothing is decided by it.
pub type Observations = Table<Signal, Observation>;

/// What has to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// Have all garbage collected, and tell when it was.
    Collect(Threshold),
    /// Have counted what pods have on disks, which may take long, and tell when it was.
    Measure(Threshold),
    /// Rank the pods, for one has to go.
    Evict(Threshold),
    /// Find out whether Docker answers, which may take long, and tell: a pod that was told to go has not gone.
    Ask,
}

/// A look's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// What the node is short of.
    pub pressures: Pressures,
    /// What has to be done.
    pub act: Act,
}

/// Whether it is known what pods have on disks. What was counted serves the next look and no later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measured {
    No,
    /// It is being counted.
    Begun,
    /// For this signal.
    For(Signal),
}

/// See the module.
#[derive(Debug)]
pub struct Manager {
    settings: Settings,
    /// Docker's root directory is on another file system than podkeeper's.
    dedicated: bool,
    /// Since when each threshold is met, by its place in the settings.
    met: Table<usize, Mono>,
    /// Those whose grace is over: they stay met until the minimum was reclaimed, too.
    acting: Vec<usize>,
    /// So little is left of a disk that no pod is admitted.
    is_out_of_disk: bool,
    /// When the node was last seen short of something.
    short: Table<Pressure, Mono>,
    /// Since when garbage is being collected.
    collecting: Option<Mono>,
    /// What pods have on disks.
    measured: Measured,
    /// When the last count of that began.
    counted: Mono,
    /// When garbage was last done in vain; forgotten when there is new garbage.
    collected: Option<Mono>,
    /// How often in a row it was done in vain.
    in_vain: u32,
    /// Nothing is done about disks before: what is garbage, or what pods have there, could not be found out.
    rests_until: Mono,
    /// Signals about which no pod could do anything when it was last asked, and until when nothing is done about those
    /// of disks. Others come before them, so that a shortage that nobody can end hides no other.
    stuck: Table<Signal, Mono>,
    /// UIDs of pods that did not end as ordered: others go before them.
    stubborn: BTreeSet<String>,
    /// The pod that was told to go.
    ending: Option<Ending>,
    /// Whether disks still get emptier.
    settling: Settling,
}

impl Manager {
    /// A manager that has seen nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Manager {
        Manager {
            settings,
            dedicated: false,
            met: Table::new(),
            acting: Vec::new(),
            is_out_of_disk: false,
            short: Table::new(),
            collecting: None,
            measured: Measured::No,
            counted: Mono::default(),
            collected: None,
            in_vain: 0,
            rests_until: Mono::default(),
            stuck: Table::new(),
            stubborn: BTreeSet::new(),
            ending: None,
            settling: Settling::default(),
        }
    }

    /// The thresholds.
    #[must_use]
    pub fn thresholds(&self) -> &[Threshold] {
        &self.settings.thresholds
    }

    /// Whether Docker's root directory is on another file system than podkeeper's.
    pub fn set_dedicated(&mut self, dedicated: bool) {
        self.dedicated = dedicated;
    }

    /// The node was looked at. `is_gone` tells whether nothing of a pod runs any more.
    pub fn look(
        &mut self,
        found: &Observations,
        is_gone: impl Fn(&PodKey, &str) -> bool,
        now: Mono,
    ) -> Looked {
        self.see(found, now);
        let act = self.act(is_gone, now);
        Looked { pressures: self.pressures(now), act }
    }

    fn see(&mut self, found: &Observations, now: Mono) {
        let mut met = Table::new();
        for (at, threshold) in self.settings.thresholds.iter().enumerate() {
            if is_met(threshold, found, self.acting.contains(&at)) {
                met.insert(at, self.met.get(&at).copied().unwrap_or(now));
                self.short.insert(threshold.signal.pressure(), now);
            }
        }
        self.met = met;
        self.is_out_of_disk =
            self.settings.of_admission().iter().any(|threshold| is_met(threshold, found, false));
        if self.is_out_of_disk {
            self.short.insert(Pressure::OutOfDisk, now);
        }
        let is_over = |at: &usize, since: &Mono| {
            let grace = self.settings.thresholds.get(*at).map(|threshold| threshold.grace);
            grace.is_some_and(|grace| now.since(*since) >= grace)
        };
        self.acting = self.met.iter().filter(|(at, since)| is_over(at, since)).map(|(at, _)| *at).collect();
        if !self.acting().any(|threshold| threshold.signal.is_of_disk()) {
            (self.collected, self.in_vain, self.rests_until) = (None, 0, Mono::default());
        }
        let acting: BTreeSet<Signal> = order::set(self.acting().map(|threshold| threshold.signal));
        self.stuck.retain(|signal, _| acting.contains(signal));
        self.settling.see(&acting, found, now);
        if self.met.is_empty() {
            self.stubborn.clear();
        }
    }

    /// Thresholds that something has to be done about.
    fn acting(&self) -> impl Iterator<Item = &Threshold> {
        self.acting.iter().filter_map(|at| self.settings.thresholds.get(*at))
    }

    fn act(&mut self, is_gone: impl Fn(&PodKey, &str) -> bool, now: Mono) -> Act {
        let known = match self.measured {
            Measured::For(signal) => {
                self.measured = Measured::No;
                Some(signal)
            }
            Measured::No | Measured::Begun => None,
        };
        if let Some(ending) = self.ending.as_mut() {
            if !is_gone(&ending.key, &ending.uid) {
                match ending.step(now) {
                    Step::Wait => return Act::Nothing,
                    Step::Ask => return Act::Ask,
                    Step::Hangs => _ = self.stubborn.insert(ending.uid.clone()),
                }
            }
            self.ending = None;
            self.settling.begin(now);
        }
        // Memory before all else, for there the kernel kills next; hard ones before soft ones.
        let urgency = |threshold: &Threshold| {
            let signal = threshold.signal;
            let is_stuck = self.stuck.contains_key(&signal);
            (is_stuck, signal.resource() != Resource::Memory, !threshold.is_hard(), signal)
        };
        let mut acting: Vec<Threshold> = self.acting().copied().collect();
        order::sort_by_key(&mut acting, urgency);
        for threshold in acting {
            let is_busy = self.collecting.is_some_and(|since| now.since(since) < limits::COLLECT_PATIENCE);
            let is_busy = is_busy || self.measured == Measured::Begun;
            let rests = self.stuck.get(&threshold.signal).is_some_and(|until| now < *until);
            if threshold.signal.is_of_disk() && (is_busy || rests || now < self.rests_until) {
                // Something else may be short, too.
                continue;
            }
            if threshold.signal.is_of_disk() && self.settling.end_time(now) {
                // What has become garbage meanwhile goes before a pod.
                self.collected = None;
            }
            let again = doubled(limits::COLLECT_AGAIN, self.in_vain, limits::COLLECT_AGAIN_MAX);
            if self.garbage_helps(threshold.signal)
                && self.collecting.is_none()
                && self.collected.is_none_or(|at| now.since(at) >= again)
            {
                self.in_vain = self.in_vain.saturating_add(u32::from(self.collected.is_some()));
                self.collecting = Some(now);
                return Act::Collect(threshold);
            }
            if threshold.signal.is_of_disk() && self.settling.keeps(now) {
                continue;
            }
            if threshold.signal.is_of_disk() && known != Some(threshold.signal) {
                (self.measured, self.counted) = (Measured::Begun, now);
                return Act::Measure(threshold);
            }
            return Act::Evict(threshold);
        }
        Act::Nothing
    }

    /// Images and dead containers lie on this file system.
    #[must_use]
    pub fn garbage_helps(&self, signal: Signal) -> bool {
        match signal {
            Signal::ImageFs | Signal::ImageFsInodes => true,
            Signal::NodeFs | Signal::NodeFsInodes => !self.dedicated,
            Signal::Memory | Signal::AllocatableMemory | Signal::Pid => false,
        }
    }

    /// All garbage is being collected only now: another run was not over.
    pub fn collects(&mut self, now: Mono) {
        self.collecting = Some(now);
    }

    /// All garbage was collected. The next look tells whether it was enough.
    pub fn collected(&mut self, now: Mono) {
        self.collecting = None;
        self.collected = Some(now);
    }

    /// What is garbage could not be found out, for Docker does not answer, or a source has not spoken: that is no reason
    /// for a pod to go. It is tried again after `rest`.
    pub fn not_collected(&mut self, now: Mono, rest: Duration) {
        self.collecting = None;
        self.rests_until = now.after(rest);
    }

    /// What pods have on disks was counted for this signal. The next look tells whether one has to go.
    pub fn measured(&mut self, signal: Signal) {
        self.measured = Measured::For(signal);
    }

    /// An earlier daemon has told pods to go, and what they leave may not be free yet: whether that is to be awaited, which
    /// it is once.
    pub fn awaits_earlier(&mut self, now: Mono) -> bool {
        let is_new = self.settling.is_new();
        if is_new {
            self.settling.begin(now);
        }
        is_new
    }

    /// A pod was told to go for another reason than this one's: its end is awaited, once. False: it has been, or that of
    /// another one is.
    pub fn awaits(&mut self, key: &PodKey, uid: &str, now: Mono) -> bool {
        if self.ending.is_some() || self.stubborn.contains(uid) {
            return false;
        }
        self.settling.forget();
        self.ending = Some(Ending::new(key.clone(), uid.to_owned(), now));
        true
    }

    /// It is to be counted at the next look.
    pub fn counts_later(&mut self) {
        self.measured = Measured::No;
    }

    /// Docker was asked, and has answered or not.
    pub fn asked(&mut self, answers: bool, now: Mono) {
        self.ending.iter_mut().for_each(|ending| ending.told(answers, now));
    }

    /// A pod that was told to go has not gone, and Docker, which would stop it, is silent.
    #[must_use]
    pub fn waits_for_docker(&self) -> bool {
        self.ending.as_ref().is_some_and(Ending::waits_for_docker)
    }

    /// It could not be counted, for Docker does not answer, and could not stop a pod either.
    pub fn not_measured(&mut self, now: Mono) {
        self.measured = Measured::No;
        self.rests_until = now.after(limits::COLLECT_AGAIN);
    }

    /// Garbage was last collected so long ago that there may be new one, which goes before a pod.
    fn may_be_garbage(&self, signal: Signal) -> bool {
        let is_old = |at| self.counted.since(at) >= limits::COLLECT_FRESH;
        self.garbage_helps(signal) && self.collecting.is_none() && self.collected.is_some_and(is_old)
    }

    /// No pod could do anything about this signal when it was last asked, and the shortage lasts.
    #[must_use]
    pub fn is_stuck(&self, signal: Signal) -> bool {
        self.stuck.contains_key(&signal)
    }

    /// The pod that goes, of all of which something runs; `None` when there is none that may go, and when garbage has to
    /// be collected first, at the next look.
    pub fn choose(
        &mut self,
        threshold: &Threshold,
        found: &Observations,
        mut pods: Vec<Candidate>,
        now: Mono,
    ) -> Option<Eviction> {
        let resource = threshold.signal.resource();
        let seen = found.get(&threshold.signal)?;
        let is_stubborn = |pod: &Candidate| self.stubborn.contains(&pod.uid);
        worth::charge(&mut pods, *seen, worth::missing(threshold, *seen), |pod| {
            !pod.is_critical() && !is_stubborn(pod)
        });
        rank(resource, &mut pods);
        let worth = worth::least(threshold, *seen, &pods);
        let first = worth::first(&pods, worth, |pod| !pod.is_critical() && !is_stubborn(pod));
        let Some(at) = first.or_else(|| worth::first(&pods, worth, |pod| !pod.is_critical())) else {
            // At the start nothing is known of pods yet.
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
        // Its containers are garbage soon.
        self.collected = None;
        self.ending = Some(Ending::new(pod.key.clone(), pod.uid.clone(), now));
        let mut message = message(resource, &pod, threshold.value.of(seen.capacity), seen.available);
        if pod.used.is_none_or(|used| used < worth) {
            message.push_str(&behind(&pod));
        }
        Some(Eviction { key: pod.key, uid: pod.uid, grace, message, of_the_node: true })
    }

    /// What the node counts as short of.
    fn pressures(&self, now: Mono) -> Pressures {
        let period = self.settings.pressure_transition_period;
        let is_short = |pressure: &Pressure| {
            self.met
                .keys()
                .any(|at| self.settings.thresholds.get(*at).is_some_and(|t| t.signal.pressure() == *pressure))
                || *pressure == Pressure::OutOfDisk && self.is_out_of_disk
                || self.short.get(pressure).is_some_and(|at| now.since(*at) < period)
        };
        order::set(Pressure::ALL.into_iter().filter(is_short))
    }

    /// How long until the node has to be looked at again, of which all of this is watched: see [`super::cadence`].
    /// `None`: never.
    #[must_use]
    pub fn rest(
        &self,
        watched: &[Threshold],
        found: &Observations,
        falls: &super::cadence::Falls,
        now: Mono,
    ) -> Option<Duration> {
        if watched.is_empty() {
            return None;
        }
        if let Some(ending) = &self.ending {
            let is_slow = ending.waits_for_docker();
            return Some(if is_slow { limits::EVICTION_NEAR } else { limits::EVICTION_POLL });
        }
        if !self.met.is_empty() || !self.pressures(now).is_empty() {
            return Some(limits::EVICTION_NEAR);
        }
        Some(falls.rest(watched, found))
    }
}

/// What a pod is told that goes though next to nothing is known of what it uses.
fn behind(pod: &Candidate) -> String {
    let source = pod.source;
    format!(
        "Pods of source {source} go before those of others, whatever they are known to use (--source-policy \
         {source}=evict-first). "
    )
}

/// `with_reclaim`: the minimum that is to be reclaimed counts, too.
fn is_met(threshold: &Threshold, found: &Observations, with_reclaim: bool) -> bool {
    found.get(&threshold.signal).is_some_and(|seen| {
        let reclaim = threshold.reclaim.filter(|_| with_reclaim).map_or(0, |amount| amount.of(seen.capacity));
        seen.available < threshold.value.of(seen.capacity).saturating_add(reclaim)
    })
}

#[cfg(test)]
mod tests;
