//! Pods that end by themselves: nobody is stopped for their room, none of them runs twice, and who waits for them keeps it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::json;

use super::super::evicted::eviction;
use super::super::preempted::{critical, node, of_source, one_behind, plain, sized};
use super::super::rig::{Rig, acts};
use super::{pass, waiting};
use crate::base::clock::Mono;
use crate::daemon::turn::Event;
use crate::machine::Report;
use crate::pod::{DesiredPod, Source};

const SANDBOX: &str = "a/a-1/POD running";

fn job(words: &str, cpu: u32) -> Arc<DesiredPod> {
    sized(words, cpu, "restartPolicy: Never, ")
}

/// A job whose container has ended, and whose sandbox runs still.
fn ended(rig: &mut Rig, job: &Arc<DesiredPod>) -> Vec<String> {
    rig.seen("a", &[SANDBOX, "a/a-1/app exited"]);
    acts(rig.status(job, "Succeeded", false))
}

/// Regression: it was preempted, shown as failed, and ran a second time when there was room again.
#[test]
fn a_job_that_has_ended_is_not_stopped_for_room() {
    let job = job("a", 700);
    for waiter in [critical("z", 700), plain("z", 700), waiting(critical("z", 700), "a=succeeded")] {
        let mut rig = Rig::listed_with(node());
        rig.want(std::slice::from_ref(&job));
        rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
        rig.status(&job, "Running", false);
        assert_eq!(ended(&mut rig, &job), [""; 0]);
        assert_eq!(acts(rig.want(&[job.clone(), waiter.clone()])), [""; 0]);
        assert_eq!(rig.shown(), "a Succeeded, z Pending WaitingForRoom");
        let message = rig.snapshot().pods[1].status.message.clone();
        assert_eq!(message.as_deref(), Some("Waits for the end of 1 pod: default/a."));
        assert_eq!(acts(rig.seen("a", &["a/a-1/app exited"])), ["spawn z, empty", "run z/z-1"]);
        assert_eq!(rig.shown(), "a Succeeded, z Pending");
    }
}

/// The same for a pod of a source that others precede, and for the first moments of a daemon.
#[test]
fn a_job_that_had_ended_before_the_daemon_is_not_stopped_for_room() {
    let (job, z) = (job("a", 700), critical("z", 700));
    let mut rig = Rig::with(node());
    rig.list(&[SANDBOX, "a/a-1/app exited"]);
    assert_eq!(acts(rig.want(&[job.clone(), z])), ["spawn a", "run a/a-1"]);
    assert_eq!(rig.shown().split(", ").last(), Some("z Pending WaitingForRoom"));

    let mut rig = Rig::listed_with(one_behind());
    of_source(&mut rig, Source::File, &[]);
    of_source(&mut rig, Source::Http, &[&job]);
    let http = Arc::clone(rig.turn.entries.values().next().unwrap().desired.as_ref().unwrap());
    rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
    rig.status(&http, "Running", false);
    ended(&mut rig, &http);
    assert_eq!(of_source(&mut rig, Source::File, &[&plain("z", 700)]), [""; 0]);
    assert_eq!(rig.shown(), "a Succeeded, z Pending WaitingForRoom");
}

/// Regression: a job past its deadline, in the grace period of its containers, was preempted, and ran again. One of a source
/// behind others is stopped all the same, for it chooses how long that takes.
#[test]
fn what_runs_of_a_job_after_its_end_is_waited_for_but_not_of_a_source_behind() {
    let ends = |rig: &mut Rig, pod: &Arc<DesiredPod>| {
        let running: PodStatus = serde_json::from_value(json!({
            "phase": "Failed",
            "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                                   "state": {"running": {}}}],
        }))
        .unwrap();
        rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
        let report = Report::Status { status: Arc::new(running), pod: Arc::clone(pod), terminating: false };
        rig.report("a", report);
    };
    let (job, z) = (job("a", 700), critical("z", 700));
    let mut rig = Rig::listed_with(node());
    rig.want(std::slice::from_ref(&job));
    ends(&mut rig, &job);
    assert_eq!(acts(rig.want(&[job.clone(), z.clone()])), [""; 0]);
    assert_eq!(rig.shown(), "a Failed, z Pending WaitingForRoom");

    let mut rig = Rig::listed_with(one_behind());
    of_source(&mut rig, Source::File, &[]);
    of_source(&mut rig, Source::Http, &[&job]);
    let http = Arc::clone(rig.turn.entries.values().next().unwrap().desired.as_ref().unwrap());
    ends(&mut rig, &http);
    let told = of_source(&mut rig, Source::File, &[&z]);
    assert!(told.iter().any(|line| line.starts_with("stop a")), "{told:?}");
}

/// Regression: it was refused where the other one had its room first, and a third pod took the room.
#[test]
fn who_waits_for_a_job_to_succeed_keeps_its_room_whoever_comes_first() {
    let (job, w, x) = (job("a", 300), waiting(plain("w", 800), "a=succeeded"), plain("x", 500));
    let mut rig = Rig::listed_with(node());
    rig.want(std::slice::from_ref(&job));
    rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
    rig.status(&job, "Running", false);
    assert_eq!(acts(rig.want(&[job.clone(), w.clone()])), [""; 0]);
    assert_eq!(rig.shown(), "a Running, w Pending WaitingForPods");
    rig.want(&[job.clone(), w.clone(), x.clone()]);
    assert_eq!(rig.shown(), "a Running, w Pending WaitingForPods, x Failed OutOfcpu");
    assert_eq!(ended(&mut rig, &job), [""; 0]);
    assert_eq!(rig.shown(), "a Succeeded, w Pending WaitingForRoom, x Failed OutOfcpu");
    assert_eq!(acts(rig.seen("a", &["a/a-1/app exited"])), ["spawn w, empty", "run w/w-1"]);
    assert_eq!(rig.shown(), "a Succeeded, w Pending, x Failed OutOfcpu");
    // A pod that goes on while it runs itself has to leave it its room, and so has one that it does not wait for.
    for on in ["a", "a=ready", "b=succeeded"] {
        let mut rig = Rig::listed_with(node());
        rig.want(&[job.clone(), waiting(plain("w", 800), on)]);
        assert_eq!(rig.shown(), "a Pending, w Failed OutOfcpu", "{on}");
    }
    // What has to succeed before one of those that it waits for has ended, too.
    let between = waiting(plain("b", 100), "a=succeeded");
    let mut rig = Rig::listed_with(node());
    rig.want(&[job.clone(), between, waiting(plain("w", 800), "b")]);
    assert_eq!(rig.shown(), "a Pending, b Pending WaitingForPods, w Pending WaitingForPods");
}

/// Regression: a pod that was refused after its wait waited as long again.
#[test]
fn a_wait_that_is_over_does_not_begin_anew() {
    let (job, w) = (job("a", 300), waiting(plain("w", 800), "a=succeeded"));
    let mut rig = Rig::listed_with(node());
    rig.want(&[job.clone(), w.clone()]);
    rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
    rig.status(&job, "Running", false);
    rig.now = Mono(rig.now.0 + Duration::from_secs(1));
    let x = plain("x", 500);
    rig.want(&[job.clone(), w.clone(), x.clone()]);
    assert_eq!(rig.shown(), "a Running, w Pending WaitingForPods, x Failed OutOfcpu");
    // Regression: what its room had kept out stayed out until another pod changed.
    assert_eq!(pass(&mut rig, 60), ["spawn x, empty", "run x/x-1"]);
    assert_eq!(rig.shown(), "a Running, w Failed OutOfcpu, x Pending");
    rig.want(&[job.clone(), w.clone()]);
    rig.gone("x");
    rig.seen("a", &["a/a-1/app exited"]);
    assert_eq!(acts(rig.status(&job, "Failed", false)), ["spawn w, empty", "run w/w-1"]);
}

/// Regression: a job that ended in the moment of its preemption, and whose end Docker told after it, was shown as Failed, and ran
/// again when there was room. The same for a drain, and for an eviction.
#[test]
fn a_job_whose_end_is_told_after_the_order_to_stop_it_stays_ended() {
    let (job, z) = (job("a", 700), critical("z", 700));
    let begin = || {
        let mut rig = Rig::listed_with(node());
        rig.want(std::slice::from_ref(&job));
        rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
        rig.status(&job, "Running", false);
        rig
    };
    let spared = |rig: &mut Rig| {
        rig.seen("a", &[SANDBOX, "a/a-1/app exited"]);
        rig.status(&job, "Succeeded", false);
        let wishes = rig.wishes[&job.key];
        acts(rig.report("a", Report::Spared(wishes)))
    };
    let mut rig = begin();
    let told = acts(rig.want(&[job.clone(), z.clone()]));
    assert_eq!(told, ["stop a: it is preempted by a critical pod"]);
    assert_eq!(spared(&mut rig), ["run a/a-1"]);
    assert_eq!(rig.shown(), "a Succeeded, z Pending WaitingForRoom");
    assert_eq!(acts(rig.seen("a", &["a/a-1/app exited"])), ["spawn z, empty", "run z/z-1"]);
    assert_eq!(acts(rig.want(std::slice::from_ref(&job))), ["stop z: its manifest is gone"]);
    assert_eq!(acts(rig.gone("z")), ["retire z"]);
    assert_eq!(rig.shown(), "a Succeeded", "it does not return");

    let mut rig = begin();
    rig.handle(super::super::drain::marker(1, None));
    assert_eq!(rig.shown(), "a Running terminating");
    spared(&mut rig);
    assert_eq!(rig.shown(), "a Succeeded");
    rig.seen("a", &["a/a-1/app exited"]);
    assert_eq!(acts(rig.handle(Event::Drain(None))), ["run a/a-1"]);
    assert_eq!(rig.shown(), "a Succeeded");

    let mut rig = begin();
    assert_eq!(acts(rig.handle(eviction("a", "a-1", true))), ["stop a within 1 s: it is evicted"]);
    spared(&mut rig);
    assert_eq!(rig.shown(), "a Succeeded");

    // A newer wish counts, whatever the worker did before it read that.
    let mut rig = begin();
    rig.want(&[job.clone(), z.clone()]);
    let wishes = rig.wishes[&job.key];
    rig.want(std::slice::from_ref(&z));
    assert_eq!(acts(rig.report("a", Report::Spared(wishes))), [""; 0]);
    assert!(rig.shown().starts_with("a Running terminating"), "{}", rig.shown());
}
