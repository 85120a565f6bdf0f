//! The keeper's decisions. Inputs are figures, the time and the results of its orders; outputs are orders. The thread
//! carries them out; the simulation does the same in its simulated world.
//!
//! Never here: reading a figure, a thread, a call.

use std::time::Duration;

use super::count_order::{CountOrder, Next};
use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::Set;
use crate::eviction::cadence::Falls;
use crate::eviction::manager::{Act, End, Manager, Observations};
use crate::eviction::rank::Candidate;
use crate::eviction::signal::Signal;
use crate::eviction::threshold::{Amount, Settings, Threshold};
use crate::eviction::{Eviction, News};
use crate::garbage::images::Policy;
use crate::garbage::schedule::{Disk, Schedule};
use crate::garbage::{Order, Report};
use crate::node::pressure::{Pressure, Pressures};
use crate::recorder::words;

/// Figures from one look at the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// How much is left of each resource that a signal watches.
    pub found: Observations,
    /// The file system of images.
    pub images: Option<Disk>,
    /// Docker's root directory is on a file system of its own.
    pub dedicated: bool,
}

/// An order to the thread.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// Tell the main loop.
    Tell(News),
    /// Log this for the operator.
    Note(String),
    /// Count the usage of pods on the disk of this signal, which may take long: [`Mind::counts`] tells the first pod.
    Measure(Signal),
    /// Measure how much pods use of the short resource, and choose one: [`Mind::choose`]. For a disk, the count made
    /// just before this look is used.
    Rank(Threshold),
    /// Find out whether Docker answers, and report it: [`Mind::asked`].
    Ask,
    /// Kill the processes of the pod that was evicted for this: Docker does not stop it.
    Kill(Pressure),
    /// Have the collector begin no further removal in its current run: a more urgent run follows.
    GiveWay,
    /// Run the collector, and report its result: [`Mind::collected`].
    Collect(Order),
}

/// See the module.
#[derive(Debug)]
pub struct Mind {
    manager: Manager,
    /// The manager's thresholds, those of admission, and that of the collection of images.
    watched: Vec<Threshold>,
    /// How garbage is collected, if it is.
    policy: Option<Policy>,
    falls: Falls,
    /// The signals that the node was last short of.
    short: Set<Signal>,
    /// Pressures that the main loop was told last.
    told: Pressures,
    /// When images are collected although the node is short of nothing.
    schedule: Schedule,
    /// The current run of the collector.
    collecting: Option<Run>,
    /// The manager wants all garbage collected, but another run has not ended.
    owed: bool,
    /// The order in which pods are counted.
    count: CountOrder,
    /// Number of looks so far.
    looks: u32,
}

/// A run of the collector.
#[derive(Debug)]
struct Run {
    order: Order,
    /// The file system of images before the run.
    disk: Disk,
    began: Mono,
    /// How far it has come, and when it got on last; no later than evictions may be put off for it.
    steps: u64,
    moved: Mono,
    /// The run was asked to stop early for a more urgent one.
    gives_way: bool,
}

/// The choice of a pod to evict.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// Evict this pod; first send this event.
    Evict(News, Eviction),
    /// No pod may be evicted; a line for the operator and this event, once for each shortage.
    Nobody(Option<(String, News)>),
}

impl Mind {
    /// The state before the first look.
    #[must_use]
    pub fn new(settings: Settings, policy: Option<Policy>) -> Mind {
        let of_admission = settings.of_admission();
        let manager = Manager::new(settings);
        let mut watched = manager.thresholds().to_vec();
        watched.extend(of_admission);
        watched.extend(policy.as_ref().and_then(image_threshold));
        Mind {
            manager,
            watched,
            policy,
            falls: Falls::default(),
            short: Set::new(),
            told: Pressures::new(),
            schedule: Schedule::default(),
            collecting: None,
            owed: false,
            count: CountOrder::default(),
            looks: 0,
        }
    }

    /// All thresholds that are watched.
    #[must_use]
    pub fn watched(&self) -> &[Threshold] {
        &self.watched
    }

    /// Whether the node was short of something at the last look.
    #[must_use]
    pub fn is_short(&self) -> bool {
        !self.short.is_empty()
    }

    /// Whether pods may be evicted for lack of memory.
    #[must_use]
    pub fn watches_memory(&self) -> bool {
        self.manager.thresholds().iter().any(|threshold| threshold.signal.pressure() == Pressure::Memory)
    }

    /// Whether there is nothing to watch.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let has_ages = self.policy.as_ref().is_some_and(|policy| !policy.max_age.is_zero());
        self.watched.is_empty() && !has_ages
    }

    /// Takes the figures of a look, and returns orders. `end` tells what is left of the pod of this UID that
    /// was evicted for this.
    pub fn look(&mut self, seen: &Seen, end: impl Fn(Pressure, &str) -> End, now: Mono) -> Vec<Deed> {
        let mut deeds = Vec::new();
        self.manager.set_dedicated(seen.dedicated);
        self.falls.see(&seen.found, now);
        let looked = self.manager.look(&seen.found, end, now);
        deeds.extend(self.ended(&seen.found));
        if looked.pressures != self.told {
            self.told.clone_from(&looked.pressures);
            deeds.push(Deed::Tell(News::Pressures(looked.pressures)));
        }
        if let Act::Collect(threshold) = &looked.act {
            deeds.push(Deed::Tell(met(threshold, &seen.found)));
            self.owed = true;
        }
        deeds.extend(self.collect(seen.images, now));
        match looked.act {
            Act::Nothing | Act::Collect(_) => {}
            // The current run may free enough.
            Act::Measure(threshold) | Act::Evict(threshold)
                if self.is_collecting_for(threshold.signal, now) =>
            {
                self.manager.counts_later();
            }
            Act::Measure(threshold) => deeds.push(Deed::Measure(threshold.signal)),
            Act::Evict(threshold) => deeds.push(Deed::Rank(threshold)),
            Act::Ask => deeds.push(Deed::Ask),
            Act::Kill(of) => deeds.push(Deed::Kill(of)),
        }
        self.looks = self.looks.saturating_add(1);
        deeds
    }

    /// The signals that the node is no longer short of, for the operator.
    fn ended(&mut self, found: &Observations) -> Vec<Deed> {
        let short = self.manager.short();
        let before = std::mem::replace(&mut self.short, short);
        let ended = before.into_iter().filter(|signal| !self.short.contains(signal));
        let period = self.manager.transition().as_secs();
        let line = |signal: Signal| {
            let resource = signal.resource();
            let available = resource.text(found.get(&signal)?.available);
            let counts =
                format!("it counts as short of it for {period} s (--eviction-pressure-transition-period)");
            Some(Deed::Note(format!(
                "the node is not short of {resource} any more: {signal} is {available}; {counts}"
            )))
        };
        ended.filter_map(line).collect()
    }

    /// Whether the collector is making room on the disk of this signal, and has not taken too long.
    fn is_collecting_for(&self, signal: Signal, now: Mono) -> bool {
        let frees = |run: &Run| {
            matches!(run.order, Order::Free(_) | Order::All)
                && now.since(run.moved) < limits::COLLECT_PATIENCE
        };
        self.manager.garbage_helps(signal) && self.collecting.as_ref().is_some_and(frees)
    }

    /// Takes how far the collector's run has come, as a number that grows. While it gets on, no pod is evicted: what it
    /// frees may be enough. That is bounded, because a run may free next to nothing and never end.
    pub fn collects_on(&mut self, steps: u64, now: Mono) {
        let Some(run) = self.collecting.as_mut().filter(|run| run.steps != steps) else { return };
        let last = run.began.after(limits::COLLECT_LONGEST.saturating_sub(limits::COLLECT_PATIENCE));
        (run.steps, run.moved) = (steps, now.min(last));
        if self.owed || run.order == Order::All {
            self.manager.collects(run.moved);
        }
    }

    fn collect(&mut self, disk: Option<Disk>, now: Mono) -> Option<Deed> {
        let policy = self.policy.as_ref()?;
        if let Some(run) = &mut self.collecting {
            let is_in_the_way = self.owed && run.order != Order::All && !run.gives_way;
            run.gives_way |= is_in_the_way;
            return is_in_the_way.then_some(Deed::GiveWay);
        }
        let order = if std::mem::take(&mut self.owed) {
            Order::All
        } else {
            match self.schedule.due(policy, disk?, now) {
                Ok(order) => order?,
                Err(words) => return Some(Deed::Tell(News::Node(words))),
            }
        };
        if order == Order::All {
            self.manager.collects(now);
        }
        let disk = disk.unwrap_or_default();
        self.collecting = Some(Run { order, disk, began: now, steps: 0, moved: now, gives_way: false });
        Some(Deed::Collect(order))
    }

    /// Takes the candidates for a [`Deed::Rank`]; each of them has a running container.
    pub fn choose(
        &mut self,
        threshold: &Threshold,
        found: &Observations,
        candidates: Vec<Candidate>,
        now: Mono,
    ) -> Choice {
        let was_stuck = self.manager.is_stuck(threshold.signal);
        if let Some(eviction) = self.manager.choose(threshold, found, candidates, now) {
            return Choice::Evict(met(threshold, found), eviction);
        }
        let is_news = !was_stuck && self.manager.is_stuck(threshold.signal);
        let resource = threshold.signal.resource();
        Choice::Nobody(is_news.then(|| {
            let why = shortage(threshold, found);
            let line = format!(
                "the node is short of {resource}, and there is no pod whose end would help: none is evicted; {why}"
            );
            (line, met(threshold, found))
        }))
    }

    /// Takes the report of a finished run of the collector. Returns the events to send.
    pub fn collected(&mut self, report: &Report, now: Mono) -> Vec<News> {
        let Some(Run { order, disk, gives_way, .. }) = self.collecting.take() else { return Vec::new() };
        match order {
            Order::All if report.blind || report.unheard => {
                // Information that is missing soon after the start may come a moment later.
                let rest = if self.is_early() { limits::EVICTION_NEAR } else { limits::COLLECT_AGAIN };
                self.manager.not_collected(now, rest);
            }
            Order::All => self.manager.collected(now),
            // The urgent run that follows does the rest of its work.
            Order::Free(_) | Order::Old if gives_way => return Vec::new(),
            Order::Free(_) | Order::Old => {}
        }
        let told = self.schedule.told(order, disk, report, now);
        told.into_iter().map(News::Node).collect()
    }

    /// Whether to wait for information about pods that is still missing: only soon after the start.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.looks <= limits::EVICTION_FIRST_LOOKS
    }

    /// Takes the UIDs of the pods with files on the disk of this signal. Returns the first pod to count; `None`: no pod
    /// can be counted, and the node is to be looked at now.
    pub fn counts(&mut self, signal: Signal, pods: Vec<String>, now: Mono) -> Option<String> {
        let next = self.count.begin(signal, pods, now);
        self.counts_on(next)
    }

    /// A pod's count is over, with a result or without. Returns the next pod; `None`: there is none, and after the last
    /// one the node is to be looked at now.
    pub fn counted(&mut self, signal: Signal, uid: &str, now: Mono) -> Option<String> {
        let next = self.count.counted(signal, uid, now)?;
        self.counts_on(next)
    }

    /// Takes the progress of the current pod's count, as a number that grows. If the count hangs, returns that pod, for
    /// which the known usage is used, and the next pod.
    pub fn watch_count(&mut self, progress: u64, now: Mono) -> Option<(String, Option<String>)> {
        let (hangs, next) = self.count.watch(progress, now)?;
        Some((hangs, self.counts_on(next)))
    }

    fn counts_on(&mut self, next: Next) -> Option<String> {
        match next {
            Next::Pod(uid) => Some(uid),
            Next::Over(signal) => {
                self.manager.measured(signal);
                None
            }
        }
    }

    /// When [`Mind::watch_count`] is due.
    #[must_use]
    pub fn count_due(&self) -> Option<Mono> {
        self.count.due()
    }

    /// Whether to wait now for the end of pods that an earlier daemon has evicted.
    pub fn awaits_earlier(&mut self, now: Mono) -> bool {
        self.is_early() && self.manager.awaits_earlier(now)
    }

    /// Whether to wait for the end of an evicted pod that this mind has not chosen.
    pub fn awaits(&mut self, signal: Signal, pod: (&str, bool), pods: &[Candidate], now: Mono) -> bool {
        self.manager.awaits(signal, pod, pods, now)
    }

    /// The usage of some pods is unknown still: the next look counts again.
    pub fn counts_later(&mut self) {
        self.manager.counts_later();
    }

    /// Collects garbage once more before a pod is evicted: there is new garbage.
    pub fn collects_again(&mut self) {
        self.owed = true;
        self.manager.counts_later();
    }

    /// The count failed because Docker does not answer; Docker could not stop a pod either.
    pub fn not_measured(&mut self, now: Mono) {
        self.count.end();
        self.manager.not_measured(now);
    }

    /// UID of the evicted pod whose end is awaited.
    pub fn ending(&self) -> Option<&str> {
        self.manager.ending()
    }

    /// Takes how long Docker took to answer; `None`: it did not. Returns a warning for the operator.
    pub fn asked(&mut self, took: Option<Duration>, now: Mono) -> Option<&'static str> {
        let was_silent = self.manager.waits_for_docker();
        self.manager.asked(took, now);
        let is_news = !was_silent && self.manager.waits_for_docker();
        is_news.then_some(
            "a pod that was evicted still runs, for Docker does not answer: no other pod is evicted until it does",
        )
    }

    /// Nothing runs of the pod that was evicted for this: there is nothing to wait for.
    pub fn killed_nothing(&mut self, of: Pressure) {
        self.manager.killed_nothing(of);
    }

    /// The collector could not begin.
    pub fn not_begun(&mut self, now: Mono) {
        if let Some(Run { order: Order::All, .. }) = self.collecting.take() {
            self.manager.not_collected(now, limits::COLLECT_AGAIN);
        }
    }

    /// How long until the node has to be looked at again; `None`: never. `is_behind`: there may be pods of a source
    /// whose pods are evicted before others.
    #[must_use]
    pub fn rest(&self, found: &Observations, is_behind: bool, now: Mono) -> Option<Duration> {
        let mut rest = self.manager.rest(&self.watched, found, &self.falls, now);
        if is_behind && self.watched.iter().any(|threshold| threshold.signal.is_of_disk()) {
            rest = rest.map(|rest| rest.min(limits::EVICTION_BEHIND));
        }
        if self.is_early() {
            // Pods start and images come at this time, and Docker may not have told yet where its files and the pods'
            // cgroups are.
            rest = rest.map(|rest| rest.min(limits::EVICTION_NEAR));
        }
        let next = self.policy.as_ref().and_then(|policy| self.schedule.next(policy));
        // A run that is due and cannot begin (another run has not ended, or no disk is known) does not make the keeper
        // look without pause.
        let next = next.map(|next| next.since(now).max(limits::EVICTION_NEAR));
        rest.into_iter().chain(next).min()
    }
}

fn met(threshold: &Threshold, found: &Observations) -> News {
    News::Node(words::threshold_met(threshold.signal.resource().name(), &shortage(threshold, found)))
}

/// What is left, and how much has to be.
fn shortage(threshold: &Threshold, found: &Observations) -> String {
    let seen = found.get(&threshold.signal).map_or((0, 0), |seen| (seen.available, seen.capacity));
    let [available, capacity, least] =
        [seen.0, seen.1, threshold.value.of(seen.1)].map(|amount| threshold.signal.resource().text(amount));
    format!("{} is {available} of {capacity}, and {least} is the threshold", threshold.signal)
}

/// The threshold at which images are collected; `None` when they never are.
fn image_threshold(policy: &Policy) -> Option<Threshold> {
    let left = 100_u32.checked_sub(policy.high.into()).filter(|left| *left > 0)?;
    let value = Amount::Part(left.saturating_mul(1000));
    Some(Threshold { signal: Signal::ImageFs, value, grace: Duration::ZERO, reclaim: None })
}

#[cfg(test)]
mod tests;
