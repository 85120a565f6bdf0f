//! The kubelet's scenes (`pkg/kubelet/eviction/eviction_manager_test.go`), and rules that always hold.

mod ending;
mod garbage;
mod worth;

use proptest::prelude::*;

use super::*;
use crate::eviction::rank::Candidate;
use crate::eviction::threshold::Amount;
use crate::pod::PodKey;
use crate::pod::Source;

const MI: u64 = 1 << 20;
const GI: u64 = 1 << 30;
const MINUTE: Duration = Duration::from_secs(60);

fn threshold(signal: Signal, value: u64, grace: Duration, reclaim: Option<u64>) -> Threshold {
    Threshold { signal, value: Amount::Units(value), grace, reclaim: reclaim.map(Amount::Units) }
}

fn pod(name: &str, priority: i32, request: u64, used: u64) -> Candidate {
    let key = PodKey { namespace: "default".to_owned(), name: name.to_owned() };
    let uid = name.to_owned();
    let (own_request, containers) = (None, Vec::new());
    Candidate {
        key,
        uid,
        source: Source::File,
        priority,
        used: Some(used),
        is_cut: false,
        images: 0,
        goes_first: false,
        request,
        asked: request,
        own_request,
        containers,
    }
}

/// The pods of `TestMemoryPressure` and similar tests.
fn pods() -> Vec<Candidate> {
    vec![
        pod("guaranteed-low-priority-high-usage", -1, GI, 900 * MI),
        pod("burstable-below-requests", 0, 100 * MI, 50 * MI),
        pod("burstable-above-requests", 0, 100 * MI, 400 * MI),
        pod("best-effort-high-priority-high-usage", 1, 0, 400 * MI),
        pod("best-effort-low-priority-low-usage", -1, 0, 100 * MI),
    ]
}

/// A node whose signal is set, as its keeper sees it.
struct Scene {
    manager: Manager,
    now: Mono,
    signal: Signal,
    /// Amount of garbage.
    garbage: u64,
    available: u64,
    collections: u32,
}

impl Scene {
    fn new(thresholds: &[Threshold]) -> Scene {
        let settings = Settings {
            thresholds: thresholds.to_vec(),
            pressure_transition_period: 5 * MINUTE,
            max_pod_grace: 5,
            low_disk_space: 0,
        };
        let signal = thresholds[0].signal;
        let now = Mono(Duration::from_secs(1000));
        Scene { manager: Manager::new(settings), now, signal, garbage: 0, available: 0, collections: 0 }
    }

    fn found(&self) -> Observations {
        [(self.signal, Observation { available: self.available, capacity: 2 * self.available.max(1) })].into()
    }

    /// One look after this time, with this amount left; evicted pods are gone. Returns whether the node is short, and
    /// the evicted pod with its grace period.
    fn look(&mut self, after: Duration, available: u64) -> (bool, Option<(String, u32)>) {
        self.now = self.now.after(after);
        self.available = available;
        loop {
            let looked = self.manager.look(&self.found(), |_, _| End::Gone, self.now);
            let short = !looked.pressures.is_empty();
            match looked.act {
                Act::Nothing | Act::Ask | Act::Kill(_) => return (short, None),
                Act::Collect(_) => {
                    self.collections += 1;
                    self.available += std::mem::take(&mut self.garbage);
                    self.manager.collected(self.now);
                }
                Act::Measure(threshold) => self.manager.measured(threshold.signal),
                Act::Evict(threshold) => {
                    let found = self.found();
                    let evicted = self.manager.choose(&threshold, &found, pods(), self.now);
                    return (short, evicted.map(|evicted| (evicted.key.name, evicted.grace)));
                }
            }
        }
    }
}

fn told(name: &str, grace: u32) -> Option<(String, u32)> {
    Some((name.to_owned(), grace))
}

const VICTIM: &str = "best-effort-low-priority-low-usage";

/// `TestMemoryPressure`.
#[test]
fn memory_pressure() {
    let soft = threshold(Signal::Memory, 2 * GI, 2 * MINUTE, None);
    let mut scene = Scene::new(&[threshold(Signal::Memory, GI, Duration::ZERO, None), soft]);
    assert_eq!(scene.look(Duration::ZERO, 2 * GI), (false, None));
    assert_eq!(
        scene.look(MINUTE, 1500 * MI),
        (true, None),
        "the soft threshold is met, and its grace is not over"
    );
    assert_eq!(scene.look(3 * MINUTE, 1500 * MI), (true, told(VICTIM, 5)));
    assert_eq!(scene.look(20 * MINUTE, 3 * GI), (false, None));
    assert_eq!(scene.look(MINUTE, 500 * MI), (true, told(VICTIM, 1)), "the hard threshold");
    assert_eq!(scene.look(MINUTE, 2 * GI), (true, None), "the transition period is not over");
    assert_eq!(scene.look(5 * MINUTE, 2 * GI), (false, None));
    assert_eq!(scene.collections, 0, "garbage takes no memory");
}

/// `TestDiskPressureNodeFs`, `TestInodePressure…`.
#[test]
fn disk_pressure() {
    for signal in [Signal::NodeFs, Signal::NodeFsInodes, Signal::ImageFs, Signal::ImageFsInodes] {
        let soft = threshold(signal, 2 * GI, 2 * MINUTE, None);
        let mut scene = Scene::new(&[threshold(signal, GI, Duration::ZERO, None), soft]);
        assert_eq!(scene.look(Duration::ZERO, 16 * GI), (false, None));
        assert_eq!(scene.look(MINUTE, 1536 * MI), (true, None));
        assert_eq!(scene.look(3 * MINUTE, 1536 * MI), (true, told(VICTIM, 5)));
        assert_eq!(scene.look(20 * MINUTE, 16 * GI), (false, None));
        assert_eq!(scene.look(MINUTE, 500 * MI), (true, told(VICTIM, 1)));
        assert_eq!(scene.look(MINUTE, 16 * GI), (true, None));
        assert_eq!(scene.look(5 * MINUTE, 16 * GI), (false, None));
    }
}

/// `TestPIDPressure`.
#[test]
fn pid_pressure() {
    let mut scene = Scene::new(&[threshold(Signal::Pid, 1200, Duration::ZERO, None)]);
    assert_eq!(scene.look(Duration::ZERO, 3000), (false, None));
    let lowest = "guaranteed-low-priority-high-usage";
    assert_eq!(scene.look(MINUTE, 500), (true, told(lowest, 1)), "of the lowest priority who has most");
}

/// `TestMinReclaim`.
#[test]
fn the_minimum_is_reclaimed() {
    let mut scene = Scene::new(&[threshold(Signal::Memory, GI, Duration::ZERO, Some(500 * MI))]);
    assert_eq!(scene.look(Duration::ZERO, 2 * GI), (false, None));
    assert_eq!(scene.look(MINUTE, 500 * MI), (true, told(VICTIM, 1)));
    assert_eq!(
        scene.look(MINUTE, 1229 * MI),
        (true, told(VICTIM, 1)),
        "above the threshold, and not by the minimum"
    );
    assert_eq!(scene.look(MINUTE, 2 * GI), (true, None));
    assert_eq!(scene.look(5 * MINUTE, 1229 * MI), (false, None), "it counts only once the threshold was met");
}

/// `TestCriticalPodsAreNotEvicted`, as far as it concerns priorities.
#[test]
fn critical_pods_stay() {
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let mut scene = Scene::new(&[hard]);
    scene.available = MI;
    let critical = || pod("critical", 2_000_000_000, 0, GI);
    let evicted = scene.manager.choose(&hard, &scene.found(), vec![critical()], scene.now);
    assert_eq!(evicted, None);
    let both = vec![critical(), pod("plain", 1_999_999_999, GI, 900 * MI)];
    let evicted = scene.manager.choose(&hard, &scene.found(), both, scene.now).unwrap();
    assert_eq!(evicted.key.name, "plain");
    assert!(evicted.of_the_node && evicted.message.starts_with("The node was low on resource: memory. "));
}

/// Regression: Docker removes the layer of a pod after its end, and a volume of many files takes minutes; meanwhile
/// the next pod was evicted for space that was free a moment later.
#[test]
fn while_a_disk_gets_emptier_nobody_goes_for_it() {
    for signal in [Signal::NodeFs, Signal::NodeFsInodes, Signal::ImageFs, Signal::ImageFsInodes] {
        let mut scene = Scene::new(&[threshold(signal, GI, Duration::ZERO, None)]);
        let second = Duration::from_secs(1);
        assert_eq!(scene.look(Duration::ZERO, 2 * GI), (false, None));
        assert_eq!(scene.look(MINUTE, 500 * MI), (true, told(VICTIM, 1)));
        assert_eq!(scene.look(second, 500 * MI), (true, None), "what it had is not free yet");
        for megabytes in 501..520 {
            assert_eq!(scene.look(10 * second, megabytes * MI), (true, None), "{megabytes} MiB are free");
        }
        assert_eq!(scene.look(9 * second, 510 * MI), (true, None));
        assert_eq!(scene.look(10 * second, 519 * MI), (true, told(VICTIM, 1)), "nothing more is freed");
        assert_eq!(scene.look(second, 510 * MI), (true, None));
        assert_eq!(scene.look(10 * second, 505 * MI), (true, told(VICTIM, 1)), "the disk is being filled");
    }
}

/// Regression: a pod freed a ten-thousandth of the disk at each look, and no pod was evicted for hours.
#[test]
fn who_gives_back_a_little_again_and_again_is_not_waited_for_without_end() {
    let mut scene = Scene::new(&[threshold(Signal::NodeFs, 3 * GI, Duration::ZERO, None)]);
    scene.manager.set_dedicated(true);
    let mut waits = |from: u64| {
        let looks = (from..from + 200)
            .take_while(|n| scene.look(Duration::from_secs(10), (500 + n) * MI).1.is_none());
        looks.count()
    };
    assert_eq!(waits(0), 0, "nothing was freed yet");
    let (first, second) = (waits(1), waits(201));
    assert!((20..50).contains(&first) && (20..50).contains(&second), "{first} {second}");
}

/// Regression: an earlier daemon had evicted a pod and died; the next one evicted another pod in its place.
#[test]
fn what_an_earlier_daemon_told_to_go_is_awaited_once() {
    let mut scene = Scene::new(&[threshold(Signal::NodeFs, GI, Duration::ZERO, None)]);
    assert!(scene.manager.awaits_earlier(scene.now));
    assert_eq!(scene.look(Duration::from_secs(1), 500 * MI), (true, None));
    assert_eq!(scene.look(Duration::from_secs(10), 500 * MI), (true, told(VICTIM, 1)));
    assert!(!scene.manager.awaits_earlier(scene.now), "once");
}

#[test]
fn memory_comes_first_and_does_not_wait_for_garbage() {
    let disk = threshold(Signal::NodeFs, GI, Duration::ZERO, None);
    let soft = threshold(Signal::Memory, 2 * GI, Duration::from_secs(1), None);
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let settings = Settings { thresholds: vec![disk, soft, hard], ..Settings::none() };
    let mut manager = Manager::new(settings);
    let seen = |available| Observation { available, capacity: 4 * GI };
    let mut found: Observations = [(Signal::NodeFs, seen(1)), (Signal::Memory, seen(3 * GI))].into();
    let at = |seconds| Mono(Duration::from_secs(seconds));
    assert_eq!(manager.look(&found, |_, _| End::Gone, at(0)).act, Act::Collect(disk));
    assert_eq!(manager.look(&found, |_, _| End::Gone, at(10)).act, Act::Nothing, "it is being collected");
    found.insert(Signal::Memory, seen(1));
    let looked = manager.look(&found, |_, _| End::Gone, at(20));
    assert_eq!(looked.act, Act::Evict(hard));
    assert_eq!(looked.pressures, [Pressure::Memory, Pressure::Disk].into());
    // A missing figure leads to no decision.
    found.clear();
    manager.collected(at(21));
    assert_eq!(manager.look(&found, |_, _| End::Gone, at(22)).act, Act::Nothing);
}

#[test]
fn a_shortage_that_nobody_can_end_hides_no_other() {
    let signals = [Signal::Memory, Signal::NodeFs, Signal::ImageFs];
    let thresholds = signals.map(|signal| threshold(signal, GI, Duration::ZERO, None)).to_vec();
    let mut manager = Manager::new(Settings { thresholds, ..Settings::none() });
    manager.set_dedicated(true);
    let short = Observation { available: 1, capacity: 8 * GI };
    let found: Observations = signals.map(|signal| (signal, short)).into();
    let mut evicted = Vec::new();
    for seconds in (0..300).step_by(10) {
        let now = Mono(Duration::from_secs(seconds));
        match manager.look(&found, |_, _| End::Gone, now).act {
            Act::Collect(_) => manager.collected(now),
            Act::Measure(threshold) => manager.measured(threshold.signal),
            Act::Evict(threshold) => {
                // Usage of memory is unknown; no pod uses podkeeper's own disk; one pod fills Docker's disk.
                let pods = match threshold.signal {
                    Signal::ImageFs => vec![pod("a", 0, 0, GI)],
                    Signal::NodeFs => vec![pod("a", 0, 0, 0)],
                    _ => Vec::new(),
                };
                if manager.choose(&threshold, &found, pods, now).is_some() {
                    evicted.push(threshold.signal);
                }
            }
            Act::Nothing | Act::Ask | Act::Kill(_) => {}
        }
    }
    assert!(evicted.contains(&Signal::ImageFs), "{evicted:?}");
}

#[test]
fn memory_and_processes_are_seen_to_while_disks_are_being_measured() {
    let disk = threshold(Signal::NodeFs, GI, Duration::ZERO, None);
    let pids = threshold(Signal::Pid, 100, Duration::ZERO, None);
    let memory = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let thresholds = vec![disk, pids, memory];
    let mut manager = Manager::new(Settings { thresholds, ..Settings::none() });
    manager.set_dedicated(true);
    let short = Observation { available: 1, capacity: GI };
    let enough = Observation { available: GI, capacity: GI };
    let mut found: Observations =
        [(Signal::NodeFs, short), (Signal::Memory, enough), (Signal::Pid, enough)].into();
    let now = Mono(Duration::from_secs(1000));
    let look = |manager: &mut Manager, found: &Observations| manager.look(found, |_, _| End::Gone, now).act;
    assert_eq!(look(&mut manager, &found), Act::Measure(disk));
    assert_eq!(look(&mut manager, &found), Act::Nothing, "it is being measured");
    found.insert(Signal::Pid, short);
    assert_eq!(look(&mut manager, &found), Act::Evict(pids));
    found.insert(Signal::Memory, short);
    assert_eq!(look(&mut manager, &found), Act::Evict(memory));
    // The measurement is outdated when another action had to come first.
    manager.measured(Signal::NodeFs);
    assert_eq!(look(&mut manager, &found), Act::Evict(memory));
    found.insert(Signal::Memory, enough);
    found.insert(Signal::Pid, enough);
    assert_eq!(look(&mut manager, &found), Act::Measure(disk));
    manager.measured(Signal::NodeFs);
    assert_eq!(look(&mut manager, &found), Act::Evict(disk));
    // The node may have recovered during the measurement.
    assert_eq!(look(&mut manager, &found), Act::Measure(disk));
    manager.measured(Signal::NodeFs);
    assert_eq!(look(&mut manager, &[(Signal::NodeFs, enough)].into()), Act::Nothing);
    assert_eq!(look(&mut manager, &found), Act::Measure(disk));
    manager.not_measured(now);
    assert_eq!(look(&mut manager, &found), Act::Nothing, "Docker does not answer: it rests");
    let later = now.after(limits::COLLECT_AGAIN);
    assert_eq!(manager.look(&found, |_, _| End::Gone, later).act, Act::Measure(disk));
}

#[test]
fn who_uses_next_to_nothing_of_a_full_disk_is_left_alone() {
    let disk = threshold(Signal::NodeFs, GI, Duration::ZERO, None);
    let mut manager = Manager::new(Settings { thresholds: vec![disk], ..Settings::none() });
    let found: Observations =
        [(Signal::NodeFs, Observation { available: GI - MI, capacity: 100 * GI })].into();
    let now = Mono(Duration::from_secs(9));
    let unknown = Candidate { used: None, ..pod("unknown", 0, 0, 0) };
    let small = vec![pod("a", 0, 0, 12 << 10), pod("b", 0, 0, 100 * MI), unknown];
    assert_eq!(manager.choose(&disk, &found, Vec::new(), now), None);
    assert_eq!(
        manager.look(&found, |_, _| End::Gone, now).act,
        Act::Collect(disk),
        "no pod is known yet: it looks on"
    );
    manager.collected(now);
    assert_eq!(manager.choose(&disk, &found, small.clone(), now), None);
    assert_eq!(
        manager.look(&found, |_, _| End::Gone, now).act,
        Act::Nothing,
        "and not asked for at every look"
    );
    let hog = pod("c", 9, GI, 200 * MI);
    let all = [small, vec![hog]].concat();
    assert_eq!(manager.choose(&disk, &found, all, now).unwrap().key.name, "c");
}

/// `pkg/kubelet/disk_manager.go` of the kubelet until 1.7.
#[test]
fn a_node_that_is_out_of_disk_evicts_nobody_for_it() {
    let low = 256 * MI;
    let settings = Settings { low_disk_space: low, ..Settings::none() };
    let watched = settings.of_admission();
    let mut manager = Manager::new(settings);
    let falls = crate::eviction::cadence::Falls::default();
    let mut look = |signal: Signal, available: u64, minutes: u32| {
        let now = Mono(MINUTE * minutes);
        let found: Observations = [(signal, Observation { available, capacity: 100 * GI })].into();
        let looked = manager.look(&found, |_, _| End::Gone, now);
        assert_eq!(looked.act, Act::Nothing);
        let rest = manager.rest(&watched, &found, &falls, now).unwrap().as_secs();
        (!looked.pressures.is_empty(), looked.pressures.contains(&Pressure::OutOfDisk), rest)
    };
    assert_eq!(look(Signal::NodeFs, 50 * GI, 1), (false, false, 120));
    assert_eq!(look(Signal::NodeFs, low, 2), (false, false, 10), "not below it yet");
    assert_eq!(look(Signal::NodeFs, low - 1, 3), (true, true, 10));
    assert_eq!(look(Signal::NodeFs, 50 * GI, 7), (true, true, 10), "the transition period is not over");
    assert_eq!(look(Signal::NodeFs, 50 * GI, 8), (false, false, 120));
    assert_eq!(look(Signal::ImageFs, low - 1, 9), (true, true, 10), "Docker's disk counts, too");
    assert_eq!(look(Signal::NodeFsInodes, 1, 20), (false, false, 120));
    assert_eq!(Settings::none().of_admission(), []);
}

#[test]
fn how_soon_it_looks_again() {
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let falls = crate::eviction::cadence::Falls::default();
    let mut scene = Scene::new(&[hard]);
    let rest =
        |scene: &Scene| scene.manager.rest(&[hard], &scene.found(), &falls, scene.now).unwrap().as_secs();
    scene.look(MINUTE, 8 * GI);
    assert_eq!(rest(&scene), 120);
    scene.look(MINUTE, MI);
    assert_eq!(rest(&scene), 1, "a pod ends");
    scene.look(MINUTE, 8 * GI);
    assert_eq!(rest(&scene), 10, "the node still counts as short");
    scene.look(5 * MINUTE, 8 * GI);
    assert_eq!(rest(&scene), 120);
    let idle = Manager::new(Settings::none());
    assert_eq!(idle.rest(&[], &Observations::new(), &falls, Mono::default()), None);
}

/// For all figures: the node is short when a threshold is met and for the transition period after, and at no other time;
/// each eviction has a reason; and no pod is evicted while collecting garbage would have been enough.
fn check_rules(steps: &[(u64, u64, u64)]) {
    let hard = threshold(Signal::NodeFs, 2, Duration::ZERO, None);
    let mut scene = Scene::new(&[hard]);
    let mut last_short = None;
    for (seconds, available, garbage) in steps {
        scene.garbage = *garbage;
        let (short, gone) = scene.look(Duration::from_secs(*seconds), *available);
        if *available < 2 {
            last_short = Some(scene.now);
        }
        let expected = last_short.is_some_and(|at| scene.now.since(at) < 5 * MINUTE);
        assert_eq!(short, expected);
        if gone.is_some() {
            assert!(available + garbage < 2 && scene.garbage == 0, "collecting would have been enough");
        }
    }
}

/// Regression: found by the property below.
#[test]
fn garbage_that_comes_after_a_shortage_is_collected_first() {
    check_rules(&[(0, 0, 0), (10, 0, 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rules_that_always_hold(steps in proptest::collection::vec((0_u64..100, 0_u64..4, 0_u64..3), 1..60)) {
        check_rules(&steps);
    }
}
