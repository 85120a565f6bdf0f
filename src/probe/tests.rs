//! One test for each outcome of a probe: how an attempt changes the stored result (upstream
//! `pkg/kubelet/prober/worker.go`), and the kubelet's words for it.

use std::time::Duration;

use super::outcome::{Outcome, event};
use super::spec::{Kind, Timing};
use super::state::{Follow, Tracker};
use crate::plan::ProbeVerdict;

const PASS: char = '+';

/// `+` passes, `w` passes with a warning, `-` fails, `!` errors. Returns the stored result (`S`, `F`, `?`),
/// whether it is held, and the result of the last attempt.
fn after(kind: Kind, successes: u32, failures: u32, attempts: &str) -> (char, bool, Option<Follow>) {
    let s = Duration::from_secs;
    let timing = Timing { initial_delay: s(0), period: s(1), timeout: s(1), successes, failures };
    let mut tracker = Tracker::new(kind, false);
    let mut last = None;
    for attempt in attempts.chars() {
        let outcome = match attempt {
            PASS => Outcome::Passed,
            'w' => Outcome::Warned("moved".into()),
            '-' => Outcome::Failed("no".into()),
            _ => Outcome::unknown("broken"),
        };
        last = Some(tracker.take(&outcome, &timing));
    }
    let stored = match tracker.stored() {
        None => '?',
        Some(ProbeVerdict::Success) => 'S',
        Some(ProbeVerdict::Failure) => 'F',
    };
    (stored, tracker.is_held(), last)
}

macro_rules! stored {
    ($($name:ident: $kind:ident, $successes:expr, $failures:expr, $attempts:expr => $stored:expr, $held:expr;)*) => {
        $(#[test] fn $name() {
            let (stored, held, _) = after(Kind::$kind, $successes, $failures, $attempts);
            assert_eq!((stored, held), ($stored, $held));
        })*
    };
}

stored! {
    liveness_initial_result_success: Liveness, 1, 3, "" => 'S', false;
    readiness_initial_result_failure: Readiness, 1, 3, "" => 'F', false;
    startup_initial_result_unknown: Startup, 1, 3, "" => '?', false;
    liveness_below_failure_threshold_keeps_the_result: Liveness, 1, 3, "--" => 'S', false;
    liveness_at_failure_threshold_fails_and_is_held: Liveness, 1, 3, "---" => 'F', true;
    liveness_a_success_between_starts_the_count_over: Liveness, 1, 3, "--+--" => 'S', false;
    liveness_success_is_not_held: Liveness, 1, 3, "+" => 'S', false;
    liveness_error_does_not_count: Liveness, 1, 1, "!!!" => 'S', false;
    liveness_error_keeps_the_count: Liveness, 1, 2, "-!!!-" => 'F', true;
    readiness_success: Readiness, 1, 3, "+" => 'S', false;
    readiness_below_success_threshold: Readiness, 2, 3, "+" => 'F', false;
    readiness_at_success_threshold: Readiness, 2, 3, "++" => 'S', false;
    readiness_failure_below_threshold_stays_ready: Readiness, 1, 3, "+--" => 'S', false;
    readiness_failure_at_threshold_is_not_held: Readiness, 1, 3, "+---" => 'F', false;
    readiness_comes_back: Readiness, 1, 1, "+-+" => 'S', false;
    readiness_warning_counts_as_success: Readiness, 1, 3, "w" => 'S', false;
    readiness_error_does_not_count: Readiness, 1, 1, "+!!!" => 'S', false;
    startup_success_is_held: Startup, 1, 3, "+" => 'S', true;
    startup_below_failure_threshold: Startup, 1, 3, "--" => '?', false;
    startup_at_failure_threshold_is_held: Startup, 1, 3, "---" => 'F', true;
    startup_error_does_not_count: Startup, 1, 1, "!!!" => '?', false;
}

macro_rules! followed {
    ($($name:ident: $attempts:expr => $expected:expr;)*) => {
        $(#[test] fn $name() {
            let (_, _, follow) = after(Kind::Liveness, 1, 2, $attempts);
            assert_eq!(follow, Some($expected));
        })*
    };
}

followed! {
    first_error_tries_again_at_once: "!" => Follow::TryAgain;
    second_error_tries_again_at_once: "!!" => Follow::TryAgain;
    third_error_is_thrown_away: "!!!" => Follow::ThrownAway;
    a_failure_is_not_tried_again: "-" => Follow::Counted(None);
    a_result_that_is_stored_already_tells_nothing: "+" => Follow::Counted(None);
    a_changed_result_is_told: "--" => Follow::Counted(Some(ProbeVerdict::Failure));
}

macro_rules! said {
    ($($name:ident: $kind:ident, $outcome:expr => $expected:expr;)*) => {
        $(#[test] fn $name() {
            let said = event(Kind::$kind, &$outcome).map(|(reason, text)| format!("{reason}: {text}"));
            assert_eq!(said.unwrap_or_default(), $expected);
        })*
    };
}

said! {
    event_of_a_failed_liveness_probe: Liveness, Outcome::Failed("out".into()) => "Unhealthy: Liveness probe failed: out";
    event_of_a_failed_readiness_probe: Readiness, Outcome::Failed("out".into()) => "Unhealthy: Readiness probe failed: out";
    event_of_a_failed_startup_probe: Startup, Outcome::Failed("out".into()) => "Unhealthy: Startup probe failed: out";
    event_of_an_error: Readiness, Outcome::unknown("why")
        => "Unhealthy: Readiness probe errored and resulted in unknown state: why";
    event_of_a_warning: Readiness, Outcome::Warned("out".into()) => "ProbeWarning: Readiness probe warning: out";
    event_of_a_success: Liveness, Outcome::Passed => "";
}
