//! The step rules of upstream's `pkg/kubelet/prober/worker.go`, one by one; and no result is reported before
//! its threshold.

use proptest::prelude::*;
use std::time::Duration;

use super::*;
use ProbeVerdict::{Failure, Success};

fn timing(successes: u32, failures: u32) -> Timing {
    let s = Duration::from_secs;
    Timing { initial_delay: s(0), period: s(1), timeout: s(1), successes, failures }
}

/// `+` passes, `w` passes with a warning, `-` fails, `!` errors. In the result `.` is no change, `S` and `F`
/// a new result, `r` a repeated attempt, `x` a discarded one.
fn run(tracker: &mut Tracker, timing: &Timing, attempts: &str) -> String {
    let one = |a: char| {
        let outcome = match a {
            '+' => Outcome::Passed,
            'w' => Outcome::Warned("moved".into()),
            '-' => Outcome::Failed("no".into()),
            _ => Outcome::unknown("broken"),
        };
        match tracker.take(&outcome, timing) {
            Follow::TryAgain => 'r',
            Follow::ThrownAway => 'x',
            Follow::Counted(None) => '.',
            Follow::Counted(Some(Success)) => 'S',
            Follow::Counted(Some(Failure)) => 'F',
        }
    };
    attempts.chars().map(one).collect()
}

fn check(kind: Kind, successes: u32, failures: u32, attempts: &str, expected: &str) {
    let mut tracker = Tracker::new(kind, false);
    assert_eq!(run(&mut tracker, &timing(successes, failures), attempts), expected, "{kind:?} {attempts}");
}

#[test]
fn initial_results() {
    for (kind, adopted, expected) in [
        (Kind::Liveness, false, Some(Success)),
        (Kind::Readiness, false, Some(Failure)),
        (Kind::Startup, false, None),
        (Kind::Liveness, true, Some(Success)),
        (Kind::Readiness, true, Some(Success)),
        (Kind::Startup, true, None),
    ] {
        assert_eq!(Tracker::new(kind, adopted).stored(), expected, "{kind:?} {adopted}");
    }
}

#[test]
fn failures_in_a_row_make_failure() {
    check(Kind::Liveness, 1, 3, "--", "..");
    check(Kind::Liveness, 1, 3, "---", "..F");
    check(Kind::Liveness, 1, 3, "--+--+---", "........F");
    check(Kind::Liveness, 1, 1, "-", "F");
}

#[test]
fn successes_in_a_row_make_success() {
    check(Kind::Readiness, 1, 3, "+", "S");
    check(Kind::Readiness, 2, 3, "+-++", "...S");
    // A stored result is reported once.
    check(Kind::Readiness, 1, 2, "+++--++", "S...FS.");
    // It starts as not ready: failures change nothing.
    check(Kind::Readiness, 1, 2, "-----+", ".....S");
}

#[test]
fn a_warning_is_a_success() {
    check(Kind::Readiness, 1, 3, "w", "S");
    check(Kind::Readiness, 3, 3, "+w+", "..S");
}

#[test]
fn an_error_is_tried_three_times_and_never_counts() {
    check(Kind::Liveness, 1, 1, "!!!", "rrx");
    check(Kind::Liveness, 1, 1, "!!!!!!", "rrxrrx");
    check(Kind::Liveness, 1, 2, "-!!!-", ".rrxF");
    check(Kind::Liveness, 1, 2, "-!-", ".rF");
    check(Kind::Readiness, 1, 1, "!+", "rS");
}

#[test]
fn it_is_held_after_a_liveness_failure_and_any_startup_result() {
    for (kind, attempts, held) in [
        (Kind::Liveness, "---", true),
        (Kind::Liveness, "+++", false),
        (Kind::Startup, "+", true),
        (Kind::Startup, "---", true),
        (Kind::Startup, "--", false),
        (Kind::Readiness, "---", false),
        (Kind::Readiness, "+", false),
    ] {
        let mut tracker = Tracker::new(kind, false);
        run(&mut tracker, &timing(1, 3), attempts);
        assert_eq!(tracker.is_held(), held, "{kind:?} {attempts}");
    }
}

#[test]
fn k113646_a_container_that_was_there_before_us_is_ready_until_its_threshold() {
    let mut tracker = Tracker::new(Kind::Readiness, true);
    assert_eq!(run(&mut tracker, &timing(1, 3), "--+---"), ".....F");
    // It is never killed for its startup probe: liveness takes over.
    let mut tracker = Tracker::new(Kind::Startup, true);
    assert_eq!(run(&mut tracker, &timing(1, 3), "---"), "..S");
    assert!(tracker.is_held());
}

/// The runs of the kubelet's `worker_test.go`.
#[test]
fn each_turn_of_results_is_counted_anew() {
    check(Kind::Readiness, 1, 3, "+++-----+++-----", "S....F..S....F..");
    check(Kind::Readiness, 3, 1, "+++++-+++++-", "..S..F..S..F");
    check(Kind::Liveness, 1, 3, "+---", "...F");
    check(Kind::Startup, 1, 3, "---", "..F");
    check(Kind::Startup, 1, 2, "-+", ".S");
}

proptest! {
    /// For any input: a result is reported only after as many in a row as the threshold requires.
    #[test]
    fn no_result_before_its_threshold(
        kind in prop::sample::select(Kind::ALL.to_vec()),
        successes in 1u32..4,
        failures in 1u32..5,
        attempts in "[-+w!]{0,60}",
    ) {
        let mut tracker = Tracker::new(kind, false);
        let timing = timing(successes, failures);
        let (mut passed, mut failed) = (0, 0);
        for attempt in attempts.chars() {
            if tracker.is_held() {
                break;
            }
            match attempt {
                '+' | 'w' => (passed, failed) = (passed + 1, 0),
                '-' => (passed, failed) = (0, failed + 1),
                _ => {}
            }
            match run(&mut tracker, &timing, &attempt.to_string()).as_str() {
                "F" => prop_assert!(failed >= failures && attempt == '-'),
                "S" => prop_assert!(passed >= successes && attempt != '-'),
                _ => {}
            }
            if failed >= failures {
                prop_assert_eq!(tracker.stored(), Some(Failure));
            }
            if passed >= successes {
                prop_assert_eq!(tracker.stored(), Some(Success));
            }
        }
    }
}
