//! Tests of whose end it is when a container ends: its own, or podkeeper's.

use super::rig::{Hurt, Rig, ms, pod, refusal, s, stop, timeout};
use crate::base::table::Set;
use crate::machine::Report;
use crate::plan::ProbeVerdict;
use crate::probe::Kind;
use crate::runtime::fake::Behaviour;
use crate::runtime::{Call, DockerError, RefusalKind};

/// Regression: a container that podkeeper killed to run it again, and that ended with 0 on its signal, was taken for one that has
/// succeeded: a job was lost.
#[test]
fn what_is_killed_to_run_again_runs_again() {
    let probe = "livenessProbe: {exec: {command: [a]}}";
    let on_failure = |rest: &str| {
        pod(&format!("{{restartPolicy: OnFailure, containers: [{{name: app, image: b, {rest}}}]}}"))
    };
    let check = |what: &str, mut rig: Rig, happens: &dyn Fn(&mut Rig)| {
        rig.engine.behave("app", Behaviour::script("term=0").unwrap());
        happens(&mut rig);
        rig.pass(s(60));
        assert_eq!(rig.status(), "Running, app: running", "{what}");
        assert!(rig.running().contains("app#1"), "{what}: {:?}", rig.running());
    };
    check("a probe fails", Rig::up(&on_failure(probe)), &|rig| {
        rig.probed("app#0", Kind::Liveness, ProbeVerdict::Failure);
    });
    let never =
        |image: &str| pod(&format!("{{restartPolicy: Never, containers: [{{name: app, image: {image}}}]}}"));
    check("another image", Rig::up(&never("busybox")), &|rig| rig.run(&never("b")));
    check("its sandbox dies", Rig::up(&on_failure("")), &|rig| {
        let (id, now) = (rig.id("POD#0"), rig.now());
        rig.engine.crash(&id, 137, now);
    });
    let with_init = "{restartPolicy: OnFailure, initContainers: [{name: i, image: b}], containers: [{name: app, image: b}]}";
    let mut rig = Rig::fresh();
    rig.engine.behave("i", Behaviour::exits(0, ms(200)));
    rig.run(&pod(with_init));
    rig.pass(s(10));
    check("its sandbox dies, and it has to be prepared again", rig, &|rig| {
        let (id, now) = (rig.id("POD#0"), rig.now());
        rig.engine.crash(&id, 137, now);
    });
}

/// Regression: a container that its preStop hook had made end counted as one that had ended by itself.
#[test]
fn what_its_hook_ends_runs_again() {
    let hook = "lifecycle: {preStop: {exec: {command: [quit]}}}";
    let mut rig =
        Rig::up(&pod(&format!("{{restartPolicy: OnFailure, containers: [{{name: app, {hook}}}]}}")));
    let (sandbox, id, now) = (rig.id("POD#0"), rig.id("app#0"), rig.now());
    rig.engine.crash(&sandbox, 137, now);
    while rig.machine.containers.record(&id).is_none_or(|record| record.run.hooks.is_empty()) {
        rig.pass(ms(1));
    }
    let now = rig.now();
    rig.engine.crash(&id, 0, now);
    rig.pass(s(60));
    assert_eq!(rig.status(), "Running, app: running");
}

/// Regression: a job that had ended by itself just before it was to be killed ran again.
#[test]
fn what_ends_before_it_is_signalled_has_ended_by_itself() {
    let job = pod("{restartPolicy: OnFailure, containers: [{name: app}]}");
    let mut rig = Rig::up(&job);
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.hurt("kill app#0", 1, Hurt::Slow(s(1)));
    rig.machine.note_killed(&job, &|c| c.id == id);
    rig.engine.crash(&id, 0, now);
    rig.pass(s(60));
    assert_eq!(rig.status(), "Succeeded, app: ended 0");
}

/// Regression: it stayed named in the status file, and ran again after a restart of podkeeper.
#[test]
fn what_ends_by_itself_while_its_kill_is_under_way_is_named_no_longer() {
    let probe = "livenessProbe: {exec: {command: [a]}}";
    let mut rig =
        Rig::up(&pod(&format!("{{restartPolicy: OnFailure, containers: [{{name: app, {probe}}}]}}")));
    let (id, now) = (rig.id("app#0"), rig.now());
    let named = |rig: &Rig| -> Vec<bool> {
        let told = rig.reports.iter().filter_map(|report| match report {
            Report::Seen(_, killed, _) => Some(killed.contains(&id)),
            _ => None,
        });
        told.collect()
    };
    let dead = refusal(RefusalKind::NotRunning, 409, "Container feed is not running");
    rig.hurt("kill app#0", 1, Hurt::Says(dead));
    rig.reports.clear();
    rig.probed("app#0", Kind::Liveness, ProbeVerdict::Failure);
    rig.engine.crash(&id, 0, now);
    rig.pass(s(60));
    assert_eq!(rig.status(), "Succeeded, app: ended 0");
    let told = named(&rig);
    assert_eq!((told.first(), told.last()), (Some(&true), Some(&false)), "{told:?}");
    assert!(rig.files.signalled.is_empty());
}

/// Regression: a job that ended by a signal whose answer was lost was taken for one that has succeeded.
#[test]
fn what_may_have_ended_by_a_signal_runs_again() {
    let job =
        |image: &str| pod(&format!("{{restartPolicy: Never, containers: [{{name: app, image: {image}}}]}}"));
    let lost = || DockerError::Lost("the connection broke".to_owned());
    for hurt in [Hurt::DoneBut(lost()), Hurt::DoneBut(timeout()), Hurt::Says(lost())] {
        let mut rig = Rig::up(&job("busybox"));
        rig.engine.behave("app", Behaviour::script("term=0").unwrap());
        rig.hurt("kill app#0", 1, hurt);
        rig.run(&job("b"));
        rig.pass(s(60));
        assert_eq!(rig.status(), "Running, app: running");
        assert!(rig.running().contains("app#1"), "{:?}", rig.running());
    }
    // It was not sent: what ends then has ended by itself.
    let mut rig = Rig::up(&job("busybox"));
    let id = rig.id("app#0");
    rig.hurt("kill app#0", 1, Hurt::Says(DockerError::Unreachable("no socket".to_owned())));
    rig.run(&job("b"));
    rig.pass_until("kill app#0 SIGTERM");
    rig.pass(ms(10));
    // A daemon that begins now must know it.
    assert!(rig.files.signalled.is_empty());
    let now = rig.now();
    rig.engine.crash(&id, 0, now);
    rig.pass(s(60));
    assert_eq!((rig.status().as_str(), rig.files.signalled.len()), ("Succeeded, app: ended 0", 0));
}

/// Regression: the next daemon neither went on with the stop nor forgot it: a job ran again long after its own end.
#[test]
fn a_stop_of_an_earlier_daemon_goes_on_though_its_reason_is_gone() {
    let job = pod("{restartPolicy: Never, containers: [{name: app}]}");
    let mut rig = Rig::up(&job);
    rig.engine.behave("app", Behaviour::script("term=0").unwrap());
    rig.files.signalled = [rig.id("app#0")].into();
    let mut rig = rig.reborn().found();
    rig.run(&job);
    rig.pass(s(60));
    assert_eq!(rig.times("kill app#0 SIGTERM").len(), 1);
    assert!(rig.running().contains("app#1"), "{:?}", rig.running());
}

/// What is signalled because the job is over was taken for a stop of the pod by the next daemon: the job ran again.
#[test]
fn only_what_runs_again_or_goes_is_noted_as_signalled() {
    let spec = "{restartPolicy: Never, initContainers: [{name: side, restartPolicy: Always}], containers: [{name: app}]}";
    let mut rig = Rig::up(&pod(spec));
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.engine.crash(&id, 0, now);
    rig.pass(s(60));
    assert_eq!(rig.running(), [].into());
    assert!(rig.files.signalled.is_empty(), "{:?}", rig.files.signalled);
    let mut rig = Rig::up(&pod(spec));
    let ids: Set<String> = ["side#0", "app#0"].map(|name| rig.id(name)).into();
    rig.wish(stop(None));
    rig.pass(s(60));
    assert!(ids.iter().all(|id| rig.files.signalled.contains(id)), "{:?}", rig.files.signalled);
}

/// Regression: each later start of podkeeper stopped it once more.
#[test]
fn what_somebody_starts_again_is_noted_no_longer() {
    let probe = "livenessProbe: {exec: {command: [a]}}";
    let mut rig =
        Rig::up(&pod(&format!("{{restartPolicy: OnFailure, containers: [{{name: app, {probe}}}]}}")));
    let id = rig.id("app#0");
    rig.engine.behave("app", Behaviour::script("term=0").unwrap());
    rig.hurt("create app#1", 9, Hurt::Says(refusal(RefusalKind::Server, 500, "no")));
    rig.probed("app#0", Kind::Liveness, ProbeVerdict::Failure);
    rig.pass(s(3));
    assert!(rig.files.signalled.contains(&id), "{:?}", rig.files.signalled);
    rig.by_hand(&Call::Start { id: id.clone() });
    rig.pass(s(3));
    assert!(rig.running().contains("app#0") && !rig.files.signalled.contains(&id));
}

/// Regression: a stop signal that Docker refused was not sent again: the container got nothing but KILL.
#[test]
fn a_stop_signal_that_docker_refuses_is_sent_again() {
    let mut rig = Rig::up(&pod("{restartPolicy: Never, containers: [{name: app}]}"));
    rig.engine.behave("app", Behaviour::script("term=0").unwrap());
    rig.hurt("kill app#0", 2, Hurt::Says(refusal(RefusalKind::Server, 500, "no")));
    rig.wish(stop(Some(30)));
    rig.pass(s(20));
    assert_eq!(rig.times("kill app#0 SIGTERM").len(), 3);
    assert_eq!((rig.times("kill app#0 SIGKILL").len(), rig.running()), (0, [].into()));
}
