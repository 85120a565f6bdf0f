//! What the keeper decides: figures, the time and what became of its orders go in; orders come out. The thread carries
//! them out, and the simulation does the same in a world of its own.
//!
//! Never here: reading a figure, a thread, a call.

use std::time::Duration;

use super::count::{Count, Next};
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
    /// The run of the collector that is not over, the file system of images before it, and when it began.
    collecting: Option<(Order, Disk, Mono)>,
    /// That run makes room for another one.
    gives_way: bool,
    /// The manager wants all garbage collected, and another run is not over.
    owed: bool,
    /// Which pods are counted.
    count: Count,
    /// How often it was looked.
    looks: u32,
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
            gives_way: false,
            owed: false,
            count: Count::default(),
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
        let frees = |(order, _, began): (Order, Disk, Mono)| {
            matches!(order, Order::Free(_) | Order::All) && now.since(began) < limits::COLLECT_PATIENCE
        };
        self.manager.garbage_helps(signal) && self.collecting.is_some_and(frees)
    }

    fn collect(&mut self, disk: Option<Disk>, now: Mono) -> Option<Deed> {
        let policy = self.policy.as_ref()?;
        if let Some((order, ..)) = self.collecting {
            let is_in_the_way = self.owed && order != Order::All && !self.gives_way;
            self.gives_way |= is_in_the_way;
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
        self.gives_way = false;
        self.collecting = Some((order, disk.unwrap_or_default(), now));
        Some(Deed::Collect(order))
    }

    /// The candidates of a [`Deed::Rank`], of all of which something runs. The pod that goes, and what is told before;
    /// `None` when none of them may go, which is logged once for as long as the shortage lasts.
    pub fn choose(
        &mut self,
        threshold: &Threshold,
        found: &Observations,
        candidates: Vec<Candidate>,
        now: Mono,
    ) -> Option<(News, Eviction)> {
        let was_stuck = self.manager.is_stuck(threshold.signal);
        let chosen = self.manager.choose(threshold, found, candidates, now);
        if !was_stuck && self.manager.is_stuck(threshold.signal) {
            let resource = threshold.signal.resource();
            log::warn!(
                "the node is short of {resource}, and there is no pod whose end would help: none is evicted"
            );
        }
        chosen.map(|eviction| (met(threshold), eviction))
    }

    /// A run of the collector is over. What is to be told.
    pub fn collected(&mut self, report: &Report, now: Mono) -> Vec<News> {
        let Some((order, disk, _)) = self.collecting.take() else { return Vec::new() };
        match order {
            Order::All if report.blind || report.unheard => {
                // What is not known soon after the start may be known a moment later.
                let rest = if self.is_early() { limits::EVICTION_NEAR } else { limits::COLLECT_AGAIN };
                self.manager.not_collected(now, rest);
            }
            Order::All => self.manager.collected(now),
            // What it would have freed is seen to by the run that it made room for.
            Order::Free(_) | Order::Old if std::mem::take(&mut self.gives_way) => return Vec::new(),
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

    /// It is not known of all pods yet what they have: it is to be counted at the next look.
    pub fn counts_later(&mut self) {
        self.manager.counts_later();
    }

    /// It could not be counted, for Docker does not answer, and could not stop a pod either.
    pub fn not_measured(&mut self, now: Mono) {
        self.count.end();
        self.manager.not_measured(now);
    }

    /// Docker was asked, and has answered or not.
    pub fn asked(&mut self, answers: bool, now: Mono) {
        let was_silent = self.manager.waits_for_docker();
        self.manager.asked(answers, now);
        if !was_silent && self.manager.waits_for_docker() {
            log::warn!(
                "a pod that was evicted still runs, for Docker does not answer: no other pod is evicted until it does"
            );
        }
    }

    /// The collector could not begin.
    pub fn not_begun(&mut self, now: Mono) {
        if let Some((Order::All, ..)) = self.collecting.take() {
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
mod tests {
    use super::*;
    use crate::eviction::manager::Observation;

    fn at(seconds: u64) -> Mono {
        Mono(Duration::from_secs(seconds))
    }

    fn mind() -> Mind {
        let value = Amount::Part(10_000);
        let threshold = Threshold { signal: Signal::NodeFs, value, grace: Duration::ZERO, reclaim: None };
        Mind::new(Settings { thresholds: vec![threshold], ..Settings::none() }, Some(Policy::default()))
    }

    fn seen(available: u64) -> Seen {
        let disk = Observation { available, capacity: 1000 };
        Seen {
            found: [(Signal::NodeFs, disk), (Signal::ImageFs, disk)].into(),
            images: Some(Disk { capacity: 1000, available }),
            dedicated: false,
        }
    }

    fn orders(deeds: &[Deed]) -> Vec<&Deed> {
        deeds.iter().filter(|deed| !matches!(deed, Deed::Tell(_))).collect()
    }

    #[test]
    fn one_run_of_the_collector_follows_the_other() {
        let mut mind = mind();
        let gone = |_: &PodKey, _: &str| true;
        assert_eq!(mind.look(&seen(900), gone, at(0)), [Deed::Collect(Order::Old)], "ages begin");
        let waits = mind.look(&seen(50), gone, at(60));
        assert_eq!(orders(&waits), [&Deed::GiveWay], "the first run is not over");
        assert_eq!(mind.look(&seen(50), gone, at(60)), [], "it was told");
        assert_eq!(mind.collected(&Report::default(), at(61)), []);
        assert_eq!(orders(&mind.look(&seen(50), gone, at(70))), [&Deed::Collect(Order::All)]);
        mind.collected(&Report::default(), at(71));
        let more = mind.look(&seen(50), gone, at(80));
        assert!(matches!(orders(&more)[..], [Deed::Collect(Order::Free(_))]), "{more:?}");
        assert_eq!(
            mind.look(&seen(50), gone, at(80)),
            [],
            "what is being freed may be enough for all pods to stay"
        );
        mind.collected(&Report::default(), at(81));
        let counts = mind.look(&seen(50), gone, at(81));
        assert!(matches!(counts[..], [Deed::Measure(_)]), "{counts:?}");
        assert_eq!(mind.counts(Signal::NodeFs, vec!["a".into(), "b".into()], at(81)), Some("a".into()));
        assert_eq!(mind.counted(Signal::NodeFs, "a", at(82)), Some("b".into()));
        assert_eq!(
            orders(&mind.look(&seen(50), gone, at(83))),
            Vec::<&Deed>::new(),
            "one pod is to be counted"
        );
        assert_eq!(
            mind.watch_count(0, at(200)),
            Some(("b".into(), None)),
            "which hangs, and holds up nothing"
        );
        assert!(matches!(mind.look(&seen(50), gone, at(90))[..], [Deed::Rank(_)]));
    }

    /// A node that was short of disk at its start waited for a minute for what was known a moment later.
    #[test]
    fn what_is_not_known_at_the_start_is_asked_again_soon() {
        let mut mind = mind();
        let gone = |_: &PodKey, _: &str| true;
        assert_eq!(orders(&mind.look(&seen(50), gone, at(0))), [&Deed::Collect(Order::All)]);
        mind.collected(&Report { unheard: true, ..Report::default() }, at(1));
        assert_eq!(orders(&mind.look(&seen(50), gone, at(5))), Vec::<&Deed>::new());
        assert_eq!(orders(&mind.look(&seen(50), gone, at(12))), [&Deed::Collect(Order::All)]);
    }

    /// Docker that answered before the first look had its disk looked at two minutes later, and not ten seconds.
    #[test]
    fn a_node_that_starts_is_looked_at_often_though_it_is_far_from_every_threshold() {
        let mut mind = mind();
        for look in 0..limits::EVICTION_FIRST_LOOKS {
            _ = mind.look(&seen(900), |_, _| true, at(u64::from(look) * 10));
            assert_eq!(
                mind.rest(&seen(900).found, at(u64::from(look) * 10)),
                Some(limits::EVICTION_NEAR),
                "{look}"
            );
        }
        _ = mind.look(&seen(900), |_, _| true, at(900));
        assert!(mind.rest(&seen(900).found, at(900)) > Some(limits::EVICTION_NEAR));
    }

    #[test]
    fn what_is_known_is_not_told_again() {
        let mut mind = mind();
        let told =
            |deeds: Vec<Deed>| deeds.iter().filter(|d| matches!(d, Deed::Tell(News::Pressures(_)))).count();
        assert_eq!(told(mind.look(&seen(900), |_, _| true, at(0))), 0);
        assert_eq!(told(mind.look(&seen(50), |_, _| true, at(10))), 1);
        assert_eq!(told(mind.look(&seen(50), |_, _| true, at(20))), 0);
        assert_eq!(told(mind.look(&seen(900), |_, _| true, at(30))), 0, "the transition period");
        assert_eq!(told(mind.look(&seen(900), |_, _| true, at(320))), 1);
    }

    /// The keeper looked as fast as it could while a collection took longer than the time between two.
    #[test]
    fn what_is_due_and_cannot_be_done_is_not_looked_for_all_the_time() {
        let policy = Policy { max_age: Duration::from_secs(3600), ..Policy::default() };
        let mut mind = Mind::new(Settings::none(), Some(policy));
        let gone = |_: &PodKey, _: &str| true;
        assert_eq!(mind.look(&seen(900), gone, at(0)), [Deed::Collect(Order::Old)]);
        assert_eq!(mind.look(&seen(900), gone, at(1000)), [], "the run is not over");
        assert_eq!(mind.rest(&seen(900).found, at(1000)), Some(limits::EVICTION_NEAR));
        mind.collected(&Report::default(), at(1001));
        assert_eq!(mind.look(&Seen::default(), gone, at(1002)), [], "where Docker's files are is not known");
        assert_eq!(mind.rest(&Seen::default().found, at(1002)), Some(limits::EVICTION_NEAR));
    }
}
