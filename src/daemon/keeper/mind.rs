//! What the keeper decides: figures, the time and what became of its orders go in; orders come out. The thread carries
//! them out, and the simulation does the same in a world of its own.
//!
//! Never here: reading a figure, a thread, a call.

use std::time::Duration;

use super::count_order::{CountOrder, Next};
use crate::base::clock::Mono;
use crate::base::limits;
use crate::eviction::cadence::Falls;
use crate::eviction::manager::{Act, Manager, Observations};
use crate::eviction::rank::Candidate;
use crate::eviction::signal::Signal;
use crate::eviction::threshold::{Amount, Settings, Threshold};
use crate::eviction::{Eviction, News};
use crate::garbage::images::Policy;
use crate::garbage::schedule::{Disk, Schedule};
use crate::garbage::{Order, Report};
use crate::node::pressure::{Pressure, Pressures};
use crate::pod::PodKey;
use crate::recorder::words;

/// What one look at the node has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// How much is left of what signals watch.
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
    /// Count what pods have on the disk of this signal, which may take long: [`Mind::counts`] tells with which pod to
    /// begin.
    Measure(Signal),
    /// Find out what pods use of what is short, and have one chosen: [`Mind::choose`]. Of a disk, what was counted just
    /// before this look is taken.
    Rank(Threshold),
    /// Find out whether Docker answers, and tell: [`Mind::asked`].
    Ask,
    /// Have the collector's run begin no further removal: a more urgent one is to follow.
    GiveWay,
    /// Have the collector run, and tell its report: [`Mind::collected`].
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
    /// What the main loop was told.
    told: Pressures,
    /// When images are collected though the node is short of nothing.
    schedule: Schedule,
    /// The run of the collector that is not over.
    collecting: Option<Run>,
    /// The manager wants all garbage collected, and another run is not over.
    owed: bool,
    /// Which pods are counted.
    count: CountOrder,
    /// How often it was looked.
    looks: u32,
}

/// A run of the collector.
#[derive(Debug)]
struct Run {
    order: Order,
    /// The file system of images before it.
    disk: Disk,
    began: Mono,
    /// It makes room for another one.
    gives_way: bool,
}

/// Which pod goes, if one does.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// This one, and what is told before.
    Evict(News, Eviction),
    /// None of them may go; a line for the operator once for as long as the shortage lasts.
    Nobody(Option<String>),
}

impl Mind {
    /// A mind that has seen nothing yet.
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

    /// Pods may be evicted for want of memory.
    #[must_use]
    pub fn watches_memory(&self) -> bool {
        self.manager.thresholds().iter().any(|threshold| threshold.signal.pressure() == Pressure::Memory)
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let has_ages = self.policy.as_ref().is_some_and(|policy| !policy.max_age.is_zero());
        self.watched.is_empty() && !has_ages
    }

    /// The node was looked at. `is_gone` tells whether nothing is left of a pod that was told to go.
    pub fn look(&mut self, seen: &Seen, is_gone: impl Fn(&PodKey, &str) -> bool, now: Mono) -> Vec<Deed> {
        let mut deeds = Vec::new();
        self.manager.set_dedicated(seen.dedicated);
        self.falls.see(&seen.found, now);
        let looked = self.manager.look(&seen.found, is_gone, now);
        if looked.pressures != self.told {
            self.told.clone_from(&looked.pressures);
            deeds.push(Deed::Tell(News::Pressures(looked.pressures)));
        }
        if let Act::Collect(threshold) = &looked.act {
            deeds.push(Deed::Tell(met(threshold)));
            self.owed = true;
        }
        deeds.extend(self.collect(seen.images, now));
        match looked.act {
            Act::Nothing | Act::Collect(_) => {}
            // What that run frees may be enough.
            Act::Measure(threshold) | Act::Evict(threshold)
                if self.is_collecting_for(threshold.signal, now) =>
            {
                self.manager.counts_later();
            }
            Act::Measure(threshold) => deeds.push(Deed::Measure(threshold.signal)),
            Act::Evict(threshold) => deeds.push(Deed::Rank(threshold)),
            Act::Ask => deeds.push(Deed::Ask),
        }
        self.looks = self.looks.saturating_add(1);
        deeds
    }

    /// The collector makes room on the disk of this signal, and does not take for ever.
    fn is_collecting_for(&self, signal: Signal, now: Mono) -> bool {
        let frees = |run: &Run| {
            matches!(run.order, Order::Free(_) | Order::All)
                && now.since(run.began) < limits::COLLECT_PATIENCE
        };
        self.manager.garbage_helps(signal) && self.collecting.as_ref().is_some_and(frees)
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
        self.collecting = Some(Run { order, disk, began: now, gives_way: false });
        Some(Deed::Collect(order))
    }

    /// The candidates of a [`Deed::Rank`], of all of which something runs.
    pub fn choose(
        &mut self,
        threshold: &Threshold,
        found: &Observations,
        candidates: Vec<Candidate>,
        now: Mono,
    ) -> Choice {
        let was_stuck = self.manager.is_stuck(threshold.signal);
        if let Some(eviction) = self.manager.choose(threshold, found, candidates, now) {
            return Choice::Evict(met(threshold), eviction);
        }
        let is_news = !was_stuck && self.manager.is_stuck(threshold.signal);
        let resource = threshold.signal.resource();
        Choice::Nobody(is_news.then(|| {
            format!(
                "the node is short of {resource}, and there is no pod whose end would help: none is evicted"
            )
        }))
    }

    /// A run of the collector is over. What is to be told.
    pub fn collected(&mut self, report: &Report, now: Mono) -> Vec<News> {
        let Some(Run { order, disk, gives_way, .. }) = self.collecting.take() else { return Vec::new() };
        match order {
            Order::All if report.blind || report.unheard => {
                // What is not known soon after the start may be known a moment later.
                let rest = if self.is_early() { limits::EVICTION_NEAR } else { limits::COLLECT_AGAIN };
                self.manager.not_collected(now, rest);
            }
            Order::All => self.manager.collected(now),
            // What it would have freed is seen to by the run that it made room for.
            Order::Free(_) | Order::Old if gives_way => return Vec::new(),
            Order::Free(_) | Order::Old => {}
        }
        let told = self.schedule.told(order, disk, report, now);
        told.into_iter().map(News::Node).collect()
    }

    /// Whether what is not known of pods yet is waited for: soon after the start, and not for ever.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.looks <= limits::EVICTION_FIRST_LOOKS
    }

    /// These pods, by their UIDs, have something on the disk of this signal. The one that is to be counted first; `None`:
    /// nothing can be counted, and the node is to be looked at now.
    pub fn counts(&mut self, signal: Signal, pods: Vec<String>, now: Mono) -> Option<String> {
        let next = self.count.begin(signal, pods, now);
        self.counts_on(next)
    }

    /// A pod was counted, or nothing is known of it but that its count is over. The next one; `None`: there is none, and
    /// when it was the last one, the node is to be looked at now.
    pub fn counted(&mut self, signal: Signal, uid: &str, now: Mono) -> Option<String> {
        let next = self.count.counted(signal, uid, now)?;
        self.counts_on(next)
    }

    /// How far the count of the current pod has come, as a number that grows. That pod when it hangs, for which what is
    /// known of it has to do, and the next one.
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

    /// An earlier daemon has told pods to go: whether their end is to be awaited now.
    pub fn awaits_earlier(&mut self, now: Mono) -> bool {
        self.is_early() && self.manager.awaits_earlier(now)
    }

    /// A pod was told to go that this mind has not chosen: whether its end is awaited.
    pub fn awaits(&mut self, key: &PodKey, uid: &str, now: Mono) -> bool {
        self.manager.awaits(key, uid, now)
    }

    /// It is not known of all pods yet what they have: it is to be counted at the next look.
    pub fn counts_later(&mut self) {
        self.manager.counts_later();
    }

    /// Before a pod goes garbage is to be collected once more: there is new one.
    pub fn collects_again(&mut self) {
        self.owed = true;
        self.manager.counts_later();
    }

    /// It could not be counted, for Docker does not answer, and could not stop a pod either.
    pub fn not_measured(&mut self, now: Mono) {
        self.count.end();
        self.manager.not_measured(now);
    }

    /// Docker was asked, and has answered or not. What the operator is to be warned of.
    pub fn asked(&mut self, answers: bool, now: Mono) -> Option<&'static str> {
        let was_silent = self.manager.waits_for_docker();
        self.manager.asked(answers, now);
        let is_news = !was_silent && self.manager.waits_for_docker();
        is_news.then_some(
            "a pod that was evicted still runs, for Docker does not answer: no other pod is evicted until it does",
        )
    }

    /// The collector could not begin.
    pub fn not_begun(&mut self, now: Mono) {
        if let Some(Run { order: Order::All, .. }) = self.collecting.take() {
            self.manager.not_collected(now, limits::COLLECT_AGAIN);
        }
    }

    /// How long until the node has to be looked at again; `None`: never.
    #[must_use]
    pub fn rest(&self, found: &Observations, now: Mono) -> Option<Duration> {
        let mut rest = self.manager.rest(&self.watched, found, &self.falls, now);
        if self.is_early() {
            // Pods start and images come, and Docker may not have told yet where its files and the pods' cgroups are.
            rest = rest.map(|rest| rest.min(limits::EVICTION_NEAR));
        }
        let next = self.policy.as_ref().and_then(|policy| self.schedule.next(policy));
        // What is due and could not be done is not looked for all the time: a run may not be over, or no disk be known.
        let next = next.map(|next| next.since(now).max(limits::EVICTION_NEAR));
        rest.into_iter().chain(next).min()
    }
}

fn met(threshold: &Threshold) -> News {
    News::Node(words::threshold_met(threshold.signal.resource().name()))
}

/// As a threshold, what images are collected at; `None` when they never are.
fn image_threshold(policy: &Policy) -> Option<Threshold> {
    let left = 100_u32.checked_sub(policy.high.into()).filter(|left| *left > 0)?;
    let value = Amount::Part(left.saturating_mul(1000));
    Some(Threshold { signal: Signal::ImageFs, value, grace: Duration::ZERO, reclaim: None })
}

#[cfg(test)]
mod tests;
