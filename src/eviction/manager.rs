//! The manager: takes figures and the time, returns an action (`pkg/kubelet/eviction/eviction_manager.go`,
//! `synchronize`).
//!
//! It does one thing at a time for a resource: it has garbage collected, or evicts one pod and waits for its end. When a disk is
//! short, garbage is collected before a pod is evicted; an evicted pod leaves new garbage, which is collected before
//! the next eviction. While a disk gets emptier, no pod is evicted for it.

mod choice;
mod ending;
mod ends;
mod settling;
mod worth;

use std::time::Duration;

pub use ending::End;
use ending::Ending;
use settling::Settling;

use super::signal::{Resource, Signal};
use super::threshold::{Settings, Threshold};
use crate::base::clock::Mono;
use crate::base::pace::doubled;
use crate::base::table::{Set, Table};
use crate::base::{limits, order};
use crate::node::pressure::{Pressure, Pressures};

/// The amount of a signal's resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// The amount left.
    pub available: u64,
    /// The total amount.
    pub capacity: u64,
}

/// Figures from one look at the node. A signal that could not be read is missing, and no decision is based on it.
pub type Observations = Table<Signal, Observation>;

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// Have all garbage collected, and report the end.
    Collect(Threshold),
    /// Have the usage of pods on disks counted, which may take long, and report the end.
    Measure(Threshold),
    /// Rank the pods: one has to be evicted.
    Evict(Threshold),
    /// Find out whether Docker answers, which may take long, and report it: an evicted pod still runs.
    Ask,
    /// Kill the processes of the pod that was evicted for this: Docker answers, and does not stop it.
    Kill(Pressure),
}

/// A look's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// The resources that the node is short of.
    pub pressures: Pressures,
    /// The next action.
    pub act: Act,
}

/// Whether the usage of pods on disks is known. A count is used for the next look and for no later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measured {
    No,
    /// The count is in progress.
    Begun,
    /// The count for this signal is done.
    For(Signal),
}

/// See the module.
#[derive(Debug)]
pub struct Manager {
    settings: Settings,
    /// Docker's root directory is on a different file system than podkeeper's.
    dedicated: bool,
    /// Since when each threshold is met, by its place in the settings.
    met: Table<usize, Mono>,
    /// Thresholds whose grace period is over: they stay met until the minimum reclaim is reached, too.
    acting: Vec<usize>,
    /// So little of a disk is left that no pod is admitted.
    is_out_of_disk: bool,
    /// When the node was last seen short of something.
    short: Table<Pressure, Mono>,
    /// When the current collection of garbage began.
    collecting: Option<Mono>,
    /// State of the count of pods' disk usage.
    measured: Measured,
    /// When the last count began.
    counted: Mono,
    /// When garbage was last collected without ending the shortage; reset when there is new garbage.
    collected: Option<Mono>,
    /// Number of such collections in a row.
    in_vain: u32,
    /// No action about disks before this time: garbage, or the usage of pods, could not be determined.
    rests_until: Mono,
    /// Signals for which no pod could be evicted when last tried, and the time before which nothing is tried again for
    /// disks. Other signals come first, so that a shortage without a remedy hides no other.
    stuck: Table<Signal, Mono>,
    /// UIDs of pods that did not end when ordered: others are evicted before them. With the known usage of each.
    stubborn: Table<String, (Signal, u64)>,
    /// The pods that are being evicted, one for each resource: a disk may take minutes to get emptier, and memory must
    /// not wait for it.
    endings: Table<Pressure, Ending>,
    /// Since when, in this shortage, pods are awaited that were evicted for another reason.
    awaited: Table<Pressure, Mono>,
    /// When a pod was last evicted.
    evicted: Option<Mono>,
    /// Whether disks still get emptier.
    settling: Settling,
}

impl Manager {
    /// The state before the first look.
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
            stubborn: Table::new(),
            endings: Table::new(),
            awaited: Table::new(),
            evicted: None,
            settling: Settling::default(),
        }
    }

    /// The thresholds.
    #[must_use]
    pub fn thresholds(&self) -> &[Threshold] {
        &self.settings.thresholds
    }

    /// The signals whose thresholds are met.
    #[must_use]
    pub fn short(&self) -> Set<Signal> {
        order::set(self.met.keys().filter_map(|at| Some(self.settings.thresholds.get(*at)?.signal)))
    }

    /// How long the node counts as short after a shortage.
    #[must_use]
    pub fn transition(&self) -> Duration {
        self.settings.pressure_transition_period
    }

    /// Sets whether Docker's root directory is on a different file system than podkeeper's.
    pub fn set_dedicated(&mut self, dedicated: bool) {
        self.dedicated = dedicated;
    }

    /// Takes the figures of a look. `end` tells what is left of the pod of this UID that was evicted for this.
    pub fn look(&mut self, found: &Observations, end: impl Fn(Pressure, &str) -> End, now: Mono) -> Looked {
        self.see(found, now);
        let act = self.act(found, end, now);
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
        let acting: Set<Signal> = order::set(self.acting().map(|threshold| threshold.signal));
        self.stuck.retain(|signal, _| acting.contains(signal));
        self.awaited.retain(|of, _| acting.iter().any(|signal| signal.pressure() == *of));
        self.settling.see(&acting, found, now);
        if self.met.is_empty() {
            self.stubborn.clear();
        }
    }

    /// Thresholds that require action.
    fn acting(&self) -> impl Iterator<Item = &Threshold> {
        self.acting.iter().filter_map(|at| self.settings.thresholds.get(*at))
    }

    fn act(&mut self, found: &Observations, end: impl Fn(Pressure, &str) -> End, now: Mono) -> Act {
        let known = match self.measured {
            Measured::For(signal) => {
                self.measured = Measured::No;
                Some(signal)
            }
            Measured::No | Measured::Begun => None,
        };
        if let Some(act) = self.follow(end, now) {
            return act;
        }
        // Memory first, because otherwise the kernel kills processes; hard thresholds before soft ones.
        let urgency = |threshold: &Threshold| {
            let signal = threshold.signal;
            let is_stuck = self.stuck.contains_key(&signal);
            (is_stuck, signal.resource() != Resource::Memory, !threshold.is_hard(), signal)
        };
        let mut acting: Vec<Threshold> = self.acting().copied().collect();
        order::sort_by_key(&mut acting, urgency);
        for threshold in acting {
            if self.endings.contains_key(&threshold.signal.pressure()) {
                // Another resource may be short, too.
                continue;
            }
            let is_busy = self.collecting.is_some_and(|since| now.since(since) < limits::COLLECT_PATIENCE);
            let is_busy = is_busy || self.measured == Measured::Begun;
            let rests = self.stuck.get(&threshold.signal).is_some_and(|until| now < *until);
            if threshold.signal.is_of_disk() && (is_busy || rests || now < self.rests_until) {
                continue;
            }
            if threshold.signal.is_of_disk() && self.settling.end_time(now) {
                // New garbage is collected before a pod is evicted.
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
            if self.waits_for_stubborn(&threshold, found, now) {
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

    /// Whether images and dead containers lie on the file system of this signal.
    #[must_use]
    pub fn garbage_helps(&self, signal: Signal) -> bool {
        match signal {
            Signal::ImageFs | Signal::ImageFsInodes => true,
            Signal::NodeFs | Signal::NodeFsInodes => !self.dedicated,
            Signal::Memory | Signal::AllocatableMemory | Signal::Pid => false,
        }
    }

    /// The collection of all garbage begins only now, because another run had to end first.
    pub fn collects(&mut self, now: Mono) {
        self.collecting = Some(now);
    }

    /// The collection of all garbage has ended. The next look shows whether it was enough.
    pub fn collected(&mut self, now: Mono) {
        self.collecting = None;
        self.collected = Some(now);
    }

    /// Garbage could not be determined, because Docker does not answer or a source has not reported: that is no reason
    /// to evict a pod. The next try is after `rest`.
    pub fn not_collected(&mut self, now: Mono, rest: Duration) {
        self.collecting = None;
        self.rests_until = now.after(rest);
    }

    /// The usage of pods on disks was counted for this signal. The next look shows whether one has to be evicted.
    pub fn measured(&mut self, signal: Signal) {
        self.measured = Measured::For(signal);
    }

    /// An earlier daemon has evicted pods, and their resources may not be free yet. Returns true once: the caller waits
    /// for that.
    pub fn awaits_earlier(&mut self, now: Mono) -> bool {
        let is_new = self.settling.is_new();
        if is_new {
            self.settling.begin(now);
        }
        is_new
    }

    /// The usage is counted at the next look.
    pub fn counts_later(&mut self) {
        self.measured = Measured::No;
    }

    /// The count failed because Docker does not answer; Docker could not stop a pod either.
    pub fn not_measured(&mut self, now: Mono) {
        self.measured = Measured::No;
        self.rests_until = now.after(limits::COLLECT_AGAIN);
    }

    /// The resources that the node is short of.
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

    /// How long until the node has to be looked at again, if `watched` are the watched thresholds: see
    /// [`super::cadence`]. `None`: never.
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
        if !self.endings.is_empty() {
            let is_slow = self.endings.values().all(Ending::waits_for_docker);
            return Some(if is_slow { limits::EVICTION_NEAR } else { limits::EVICTION_POLL });
        }
        if !self.met.is_empty() || !self.pressures(now).is_empty() {
            return Some(limits::EVICTION_NEAR);
        }
        Some(falls.rest(watched, found))
    }
}

/// `with_reclaim`: whether the minimum reclaim is added to the threshold.
fn is_met(threshold: &Threshold, found: &Observations, with_reclaim: bool) -> bool {
    found.get(&threshold.signal).is_some_and(|seen| {
        let reclaim = threshold.reclaim.filter(|_| with_reclaim).map_or(0, |amount| amount.of(seen.capacity));
        seen.available < threshold.value.of(seen.capacity).saturating_add(reclaim)
    })
}

#[cfg(test)]
mod tests;
