//! Tests of pods that had ended for good when they were told to stop: those that come back later stay ended.

use std::sync::Arc;

use super::rig::{Hurt, Rig, ms, pod, pod_with, s, stop, timeout};
use crate::machine::{Input, Report, StopOrder, Wish};
use crate::pod::DesiredPod;
use crate::runtime::fake::Behaviour;

/// A preemption: the pod comes back when there is room.
fn preempt() -> Wish {
    Wish::Stop(StopOrder::new(None, "it is preempted").unless_ended(None))
}

fn job(policy: &str) -> Arc<DesiredPod> {
    pod(&format!(
        "{{restartPolicy: {policy}, containers: [{{name: app, \
        terminationMessagePath: /dev/termination-log}}]}}"
    ))
}

/// A job that runs, and whose container then ends without a word of Docker's.
fn ended_unheard(policy: &str, code: i64) -> Rig {
    let mut rig = Rig::up(&job(policy));
    rig.wire.events = false;
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.engine.crash(&id, code, now);
    rig.take_calls();
    rig.reports.clear();
    rig
}

/// Lets the worker read its orders, and Docker tell what comes after.
fn read(rig: &mut Rig) {
    rig.pass(ms(1));
    rig.wire.events = true;
    rig.pass(s(60));
}

fn is_over(rig: &Rig, phase: &str) -> bool {
    rig.last_status().phase.as_deref() == Some(phase)
}

/// Regression: a job that succeeded in the moment of its preemption was shown as Failed, and ran a second time.
#[test]
fn a_job_whose_end_docker_tells_late_stays_ended() {
    for (policy, code, phase) in
        [("Never", 0, "Succeeded"), ("Never", 3, "Failed"), ("OnFailure", 0, "Succeeded")]
    {
        let mut rig = ended_unheard(policy, code);
        rig.wish(preempt());
        read(&mut rig);
        assert!(is_over(&rig, phase) && !rig.is("terminated"), "{policy} {code}");
        assert_eq!(rig.take_acts(), ["kill app#0 SIGTERM", "kill POD#0 SIGTERM"], "its container is kept");
        let wishes = rig.reports.iter().position(|report| *report == Report::Spared(2)).unwrap();
        let is_final = |report: &Report| matches!(report, Report::Status { status, terminating: false, .. } if status.phase.as_deref() == Some(phase));
        assert!(rig.reports.iter().take(wishes).any(is_final), "the loop knows it as ended by then");
        let seen = rig.reports.iter().rev().find_map(|report| match report {
            Report::Seen(_, killed, 2) => Some(killed.len()),
            _ => None,
        });
        assert_eq!(seen, Some(0), "its end is its own");
        // It does not run again when it is given again.
        rig.run(&job(policy));
        rig.pass(s(60));
        assert_eq!(rig.take_acts(), [""; 0]);
        // What removes it counts.
        rig.wish(stop(None));
        rig.pass(s(60));
        assert!(rig.is("terminated") && rig.engine.containers().count() == 0);
    }
}

/// Regression: a job that was drained in the grace period after its deadline ran a second time, with a new deadline.
#[test]
fn a_job_past_its_deadline_stays_ended() {
    let job = pod(
        "{restartPolicy: Never, activeDeadlineSeconds: 20, terminationGracePeriodSeconds: 30, containers: [{name: app}]}",
    );
    for begins_anew in [false, true] {
        let mut rig = Rig::fresh();
        rig.engine.behave("app", Behaviour::ignores_term());
        rig.run(&job);
        rig.pass(s(1));
        assert_eq!(rig.running().len(), 2);
        rig.pass(s(22));
        if begins_anew {
            rig = rig.reborn();
        }
        rig.take_calls();
        let order = StopOrder::new(Some(5), "the node is drained").unless_ended(Some(Arc::clone(&job)));
        rig.wish(Wish::Stop(order));
        rig.pass(s(10));
        assert!(rig.running().is_empty(), "the order's own grace counts: {:?}", rig.running());
        rig.pass(s(60));
        assert!(is_over(&rig, "Failed") && !rig.is("terminated"), "{begins_anew}: {}", rig.status());
        assert_eq!(rig.last_status().reason.as_deref(), Some("DeadlineExceeded"));
        let state = rig.last_status().container_statuses.clone().unwrap()[0].state.clone().unwrap();
        assert_eq!(state.terminated.map(|end| end.exit_code), Some(137), "{begins_anew}");
        assert!(rig.reports.iter().any(|report| matches!(report, Report::Spared(_))));
        rig.run(&job);
        rig.pass(s(60));
        assert!(rig.running().is_empty(), "{begins_anew}: {:?}", rig.calls);
    }
}

/// Regression: the loop was told that the pod is spared while its termination message was still read, took it for one that
/// runs, and had it stopped again.
#[test]
fn the_loop_knows_the_end_before_it_hears_that_the_pod_is_spared() {
    let mut rig = ended_unheard("Never", 0);
    rig.files.late = Some(Vec::new());
    rig.wish(preempt());
    read(&mut rig);
    assert!(!rig.reports.contains(&Report::Spared(2)));
    let now = rig.now();
    for (id, read) in rig.files.late.take().into_iter().flatten() {
        rig.machine.handle(Input::Message { id, read }, &now);
    }
    rig.step();
    assert!(is_over(&rig, "Succeeded") && rig.reports.contains(&Report::Spared(2)));
}

/// Regression: Docker took a signal for a container whose process had ended, and the job ran a second time.
#[test]
fn a_signal_that_docker_takes_after_the_end_changes_nothing() {
    for answer in [Hurt::Says(timeout()), Hurt::DoneBut(timeout())] {
        let mut rig = ended_unheard("Never", 0);
        rig.pass(ms(5));
        rig.hurt("kill app#0", 1, answer);
        rig.wish(preempt());
        read(&mut rig);
        assert!(is_over(&rig, "Succeeded") && !rig.is("terminated"));
    }
}

#[test]
fn a_job_that_is_to_run_again_before_its_end_is_known_stays_ended() {
    let mut rig = ended_unheard("Never", 0);
    rig.wish(preempt());
    rig.run(&job("Never"));
    read(&mut rig);
    assert!(is_over(&rig, "Succeeded"));
    assert_eq!(rig.take_acts(), ["kill app#0 SIGTERM", "kill POD#0 SIGTERM"]);
    // The same when the end is known in the moment of the order.
    let mut rig = Rig::up(&job("Never"));
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.engine.crash(&id, 0, now);
    rig.wish(preempt());
    rig.pass(s(60));
    assert!(is_over(&rig, "Succeeded") && rig.reports.contains(&Report::Spared(2)));
}

/// What a signal may have ended has not ended by itself, and neither has what goes on, or is not wanted any more.
#[test]
fn other_pods_are_stopped() {
    // It ends well after its signal.
    let mut rig = Rig::up(&job("Never"));
    rig.wish(preempt());
    rig.pass(s(60));
    assert!(rig.is("terminated"));

    // Its hook has run before its end.
    let hook = "lifecycle: {preStop: {exec: {command: [quit]}}}";
    let mut rig = Rig::up(&pod(&format!("{{restartPolicy: Never, containers: [{{name: app, {hook}}}]}}")));
    let id = rig.id("app#0");
    rig.wish(preempt());
    while rig.machine.containers.record(&id).is_none_or(|record| record.run.hooks.is_empty()) {
        rig.pass(ms(1));
    }
    let now = rig.now();
    rig.engine.crash(&id, 0, now);
    rig.pass(s(60));
    assert!(rig.is("terminated"));

    // Its container runs again.
    for (policy, code) in [("Always", 0), ("OnFailure", 1)] {
        let mut rig = ended_unheard(policy, code);
        rig.wish(preempt());
        rig.pass(s(60));
        assert!(rig.is("terminated"), "{policy}");
    }

    // Its manifest is gone, or has become another pod's.
    let mut rig = ended_unheard("Never", 0);
    rig.wish(preempt());
    rig.wish(stop(None));
    rig.pass(s(60));
    assert!(rig.is("terminated"));
    let mut rig = ended_unheard("Never", 0);
    rig.wish(preempt());
    rig.run(&pod_with("other", "{containers: [{name: app}]}"));
    rig.pass(s(60));
    assert!(is_over(&rig, "Running"));
}

/// What was noted in the run directory before the signal is taken back.
#[test]
fn the_next_daemon_knows_its_end_as_its_own() {
    let mut rig = ended_unheard("Never", 0);
    let id = rig.id("app#0");
    rig.wish(preempt());
    rig.pass(s(60));
    assert!(is_over(&rig, "Succeeded") && !rig.files.signalled.contains(&id));
}
