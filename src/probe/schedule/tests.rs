//! The times of probes (upstream `pkg/kubelet/prober/worker.go`).

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::probe::spec::{Action, Timing};

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn key() -> PodKey {
    PodKey { namespace: "default".into(), name: "web-node".into() }
}

fn probing(delay: u64, period: u64, failures: u32) -> Option<Arc<Probing>> {
    let timing = Timing { initial_delay: s(delay), period: s(period), timeout: s(1), successes: 1, failures };
    Some(Arc::new(Probing { timing, action: Action::Exec(vec!["true".into()]) }))
}

/// Startup, readiness, liveness.
fn target(id: &str, probes: [Option<Arc<Probing>>; 3]) -> Target {
    Target {
        id: id.into(),
        container: "app".into(),
        started: Mono::default(),
        adopted: false,
        address: None,
        probes,
    }
}

struct Bench {
    schedule: Schedule,
    now: Mono,
    /// Answer of each kind.
    answers: BTreeMap<Kind, Outcome>,
    /// How long an attempt takes.
    takes: Duration,
    made: Vec<(u64, Kind)>,
    told: Vec<(u64, Kind, ProbeVerdict)>,
    said: Vec<String>,
}

impl Bench {
    fn new() -> Bench {
        let answers = Kind::ALL.map(|kind| (kind, Outcome::Passed)).into_iter().collect();
        Bench {
            schedule: Schedule::new(7),
            now: Mono::default(),
            answers,
            takes: Duration::ZERO,
            made: Vec::new(),
            told: Vec::new(),
            said: Vec::new(),
        }
    }

    fn set(&mut self, targets: &[Target]) -> usize {
        self.schedule.set(&key(), targets, self.now).len()
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now.after(time);
        while let Some(at) = self.schedule.next_due().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let id = self.schedule.take_due(self.now).unwrap();
            let kind = self.schedule.get(id).unwrap().kind;
            self.made.push((u64::try_from(self.now.0.as_millis()).unwrap(), kind));
            self.now = self.now.after(self.takes);
            let outcome = self.answers[&kind].clone();
            let finished = self.schedule.finished(id, &outcome, self.now);
            let at = u64::try_from(self.now.0.as_millis()).unwrap();
            self.told.extend(finished.changed.map(|c| (at, c.kind, c.verdict)));
            self.said.extend(finished.said.map(|s| format!("{} {}: {}: {}", s.key, s.id, s.reason, s.text)));
        }
        self.now = self.now.max(until);
    }

    fn times(&self, kind: Kind) -> Vec<u64> {
        self.made.iter().filter(|(_, k)| *k == kind).map(|(at, _)| *at).collect()
    }
}

#[test]
fn the_time_line_of_a_liveness_probe_that_fails() {
    let mut bench = Bench::new();
    bench.answers.insert(Kind::Liveness, Outcome::Failed("no".into()));
    bench.set(&[target("a", [None, None, probing(0, 10, 3)])]);
    bench.pass(s(100));
    let times = bench.times(Kind::Liveness);
    assert!(times[0] < 10_000, "{times:?}");
    assert_eq!(times, [times[0], times[0] + 10_000, times[0] + 20_000]);
    assert_eq!(bench.told, [(times[2], Kind::Liveness, ProbeVerdict::Failure)]);
    assert_eq!(bench.schedule.next_due(), None, "on hold nothing is due");
}

#[test]
fn readiness_is_asked_at_once_and_then_each_period() {
    let mut bench = Bench::new();
    bench.set(&[target("a", [None, probing(0, 5, 3), None])]);
    bench.pass(s(12));
    assert_eq!(bench.times(Kind::Readiness), [0, 5000, 10_000]);
}

#[test]
fn the_initial_delay_counts_from_the_start() {
    let mut bench = Bench::new();
    bench.now = Mono(s(4));
    let mut target = target("a", [None, probing(7, 5, 3), None]);
    target.started = Mono(s(2));
    bench.set(&[target]);
    bench.pass(s(20));
    assert_eq!(bench.times(Kind::Readiness), [9000, 14_000, 19_000, 24_000]);
}

#[test]
fn startup_gates_the_others_and_is_not_asked_again() {
    let mut bench = Bench::new();
    bench.answers.insert(Kind::Startup, Outcome::Failed("not yet".into()));
    bench.set(&[target("a", [probing(0, 2, 100), probing(0, 2, 3), probing(0, 2, 3)])]);
    bench.pass(s(20));
    assert_eq!((bench.times(Kind::Readiness).len(), bench.times(Kind::Liveness).len()), (0, 0));
    bench.answers.insert(Kind::Startup, Outcome::Passed);
    bench.pass(s(20));
    let passed = bench.told.iter().find(|(_, k, _)| *k == Kind::Startup).unwrap().0;
    assert_eq!(bench.times(Kind::Readiness)[0], passed, "asked at once");
    assert!(bench.times(Kind::Liveness)[0] >= passed);
    assert_eq!(*bench.times(Kind::Startup).last().unwrap(), passed);
}

#[test]
fn startup_failure_is_told_and_holds_everything() {
    let mut bench = Bench::new();
    bench.answers.insert(Kind::Startup, Outcome::Failed("no".into()));
    bench.set(&[target("a", [probing(0, 1, 3), probing(0, 1, 3), probing(0, 1, 3)])]);
    bench.pass(s(60));
    assert_eq!(
        bench.told.iter().map(|t| (t.1, t.2)).collect::<Vec<_>>(),
        [(Kind::Startup, ProbeVerdict::Failure)]
    );
    assert_eq!(bench.made.len(), 3);
}

#[test]
fn a_new_container_id_starts_over_and_the_old_is_forgotten() {
    let mut bench = Bench::new();
    bench.answers.insert(Kind::Readiness, Outcome::Failed("no".into()));
    let probes = || [None, probing(0, 1, 2), None];
    bench.set(&[target("a", probes())]);
    bench.pass(s(10));
    bench.answers.insert(Kind::Readiness, Outcome::Passed);
    assert_eq!(bench.set(&[target("b", probes())]), 1);
    bench.pass(s(1));
    assert_eq!(bench.told.len(), 1);
    assert_eq!(bench.schedule.size(), (1, 1));
    assert_eq!(bench.set(&[]), 1);
    assert_eq!(bench.schedule.size(), (0, 0));
}

#[test]
fn an_update_that_keeps_the_container_keeps_results_and_times() {
    let mut bench = Bench::new();
    bench.answers.insert(Kind::Liveness, Outcome::Failed("no".into()));
    bench.set(&[target("a", [None, None, probing(0, 10, 3)])]);
    bench.pass(s(15));
    let before = bench.times(Kind::Liveness);
    let mut same = target("a", [None, None, probing(0, 10, 3)]);
    same.address = Some("10.0.0.1".parse().unwrap());
    assert_eq!(bench.set(&[same]), 0);
    bench.pass(s(15));
    assert_eq!(bench.times(Kind::Liveness)[1..], [before[0] + 10_000, before[0] + 20_000]);
    assert_eq!(bench.told.len(), 1, "the third failure in a row");
}

#[test]
fn attempts_that_take_long_do_not_drift() {
    let mut bench = Bench::new();
    bench.takes = Duration::from_millis(1300);
    bench.set(&[target("a", [None, probing(0, 1, 3), None])]);
    bench.pass(s(10));
    // An attempt that took too long is followed by the next one immediately; the slots in between are
    // dropped.
    assert_eq!(bench.times(Kind::Readiness)[..8], [0, 1300, 2600, 3900, 5200, 6500, 7800, 9100]);
    bench.takes = Duration::from_millis(10);
    bench.made.clear();
    bench.pass(s(3));
    let times = bench.times(Kind::Readiness);
    assert!(times[1..].iter().all(|t| t % 1000 == 0), "back in the grid: {times:?}");
}

#[test]
fn an_error_is_tried_three_times_at_once() {
    let mut bench = Bench::new();
    bench.answers.insert(Kind::Readiness, Outcome::unknown("no such container"));
    bench.set(&[target("a", [None, probing(0, 5, 1), None])]);
    bench.pass(s(7));
    assert_eq!(bench.times(Kind::Readiness), [0, 0, 0, 5000, 5000, 5000]);
    assert_eq!(bench.told, []);
    assert_eq!(
        bench.said,
        ["default/web-node a: Unhealthy: Readiness probe errored and resulted in unknown state: no such \
          container"; 2]
    );
}

#[test]
fn what_needs_an_address_waits_for_it() {
    let mut bench = Bench::new();
    let timing = Timing { initial_delay: s(0), period: s(5), timeout: s(1), successes: 1, failures: 3 };
    let tcp = Arc::new(Probing { timing, action: Action::Tcp { host: None, port: Ok(80) } });
    let mut target = target("a", [None, Some(tcp), None]);
    bench.set(std::slice::from_ref(&target));
    bench.pass(s(3));
    assert_eq!(bench.made, []);
    target.address = Some("10.0.0.1".parse().unwrap());
    bench.set(&[target]);
    bench.pass(s(1));
    assert_eq!(bench.times(Kind::Readiness), [3000]);
}

#[test]
fn first_attempts_are_spread() {
    let mut bench = Bench::new();
    let all: Vec<Target> =
        (0..100).map(|n| target(&format!("c{n}"), [None, None, probing(0, 10, 3)])).collect();
    bench.set(&all);
    bench.pass(s(10));
    let times = bench.times(Kind::Liveness);
    assert_eq!(times.len(), 100);
    let in_each_second = (0..10).map(|n| times.iter().filter(|t| *t / 1000 == n).count());
    assert!(
        in_each_second.clone().all(|n| (2..=25).contains(&n)),
        "{:?}",
        in_each_second.collect::<Vec<_>>()
    );
}

#[test]
fn each_attempt_that_fails_is_told() {
    let mut bench = Bench::new();
    bench.answers.insert(Kind::Readiness, Outcome::Failed("HTTP probe failed with statuscode: 500".into()));
    bench.set(&[target("a", [None, probing(0, 1, 3), None])]);
    bench.pass(s(299));
    let text =
        "default/web-node a: Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 500";
    assert_eq!(bench.said, vec![text; 300]);
    bench.answers.insert(Kind::Readiness, Outcome::Passed);
    bench.pass(s(20));
    assert_eq!(bench.said.len(), 300);
}

proptest! {
    /// For any input: a probe that can run has exactly one time.
    #[test]
    fn nothing_is_lost_and_nothing_doubled(
        steps in prop::collection::vec((0u8..4, 0u8..3, 0u64..4000), 1..80),
    ) {
        let mut bench = Bench::new();
        for (what, which, millis) in steps {
            let probes = || [probing(0, 1, 2), probing(1, 2, 2), probing(0, 3, 1)];
            match what {
                0 => _ = bench.set(&[target("a", probes()), target("b", [None, probing(0, 1, 1), None])]),
                1 => _ = bench.set(&[target("b", [None, probing(0, 1, 1), None])]),
                _ => {
                    let outcome = match which {
                        0 => Outcome::Passed,
                        1 => Outcome::Failed("no".into()),
                        _ => Outcome::unknown("broken"),
                    };
                    bench.answers.insert(Kind::ALL[usize::from(which)], outcome);
                }
            }
            bench.pass(Duration::from_millis(millis));
            for (id, entry) in &bench.schedule.entries {
                let times = bench.schedule.due.iter().filter(|Reverse((at, of))| of == id && Some(*at) == entry.next);
                prop_assert_eq!(times.count(), usize::from(entry.next.is_some()));
                prop_assert!(!entry.busy);
                let asked = entry.kind == Kind::Startup || bench.schedule.has_started(entry);
                prop_assert_eq!(entry.next.is_some(), asked && !entry.tracker.is_held());
            }
        }
    }
}

/// The same container, started again by hand: failures of the previous run do not count.
#[test]
fn another_run_of_the_same_container_is_counted_anew() {
    let mut bench = Bench::new();
    bench.answers.insert(Kind::Liveness, Outcome::Failed("no".into()));
    let mut target = target("a", [None, None, probing(0, 10, 2)]);
    assert_eq!(bench.set(&[target.clone()]), 0);
    bench.pass(s(10));
    assert_eq!((bench.times(Kind::Liveness).len(), bench.told.len()), (1, 0));
    target.started = bench.now;
    assert_eq!(bench.set(&[target]), 1, "what was asked of the run before is not wanted any more");
    bench.pass(s(10));
    assert_eq!((bench.times(Kind::Liveness).len(), bench.told.len()), (2, 0));
    bench.pass(s(10));
    assert_eq!(bench.told.len(), 1);
}
