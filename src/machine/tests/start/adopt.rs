//! Tests that existing containers are adopted (design invariant 5): a daemon that is killed at any moment and started
//! again continues where it was, and touches nothing that runs.

use super::rig::{Rig, app, pod, s, stop};
use crate::machine::Hint;
use crate::runtime::fake::{Behaviour, Field};
use crate::runtime::{Call, DockerState, labels};

#[test]
fn k112814_a_running_pod_is_adopted_without_a_mutating_call() {
    let mut rig = Rig::up(&app()).reborn();
    rig.run(&app());
    rig.pass(s(3600));
    assert_eq!(rig.take_calls(), ["list", "inspect POD#0", "inspect app#0"]);
    assert_eq!(rig.status(), "Running, app: running");
}

#[test]
fn what_the_daemon_found_is_adopted_without_another_list() {
    let mut rig = Rig::up(&app()).reborn().found();
    rig.run(&app());
    rig.pass(s(3600));
    assert_eq!(rig.take_calls(), ["inspect POD#0", "inspect app#0"]);
    assert_eq!(rig.status(), "Running, app: running");
}

/// Changes between the daemon's list and the first wish come as hints, or not at all.
#[test]
fn a_list_that_is_older_than_what_happened_misleads_nobody() {
    for events in [true, false] {
        for (what, made) in [("crash app", "app"), ("remove app", "app"), ("remove POD", "POD")] {
            let mut rig = Rig::up(&app()).reborn().found();
            rig.wire.events = events;
            let now = rig.now();
            match what {
                "crash app" => {
                    let id = rig.id("app#0");
                    rig.engine.crash(&id, 1, now);
                }
                "remove app" => rig.by_hand(&Call::Remove { id: rig.id("app#0"), force: true }),
                _ => rig.by_hand(&Call::Remove { id: rig.id("POD#0"), force: true }),
            }
            rig.run(&app());
            rig.pass(s(60));
            let acts = rig.take_acts();
            assert!(
                acts.iter().any(|act| act.starts_with(&format!("create {made}#"))),
                "{events} {what}: {acts:?}"
            );
            assert_eq!(rig.running().len(), 2, "{events} {what}: {acts:?}");
        }
    }
}

/// The main thread may be slow between the start of a worker and its first wish: running containers are not stopped.
#[test]
fn k112814_before_its_first_wish_a_worker_stops_nothing() {
    let mut rig = Rig::up(&app()).reborn();
    rig.step();
    rig.pass(s(60));
    assert!(!rig.calls.is_empty(), "it looks");
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.take_acts(), [""; 0]);
    assert_eq!(rig.status(), "Running, app: running");
}

/// The daemon dies after each of the calls of a start; the next one continues with the containers that exist.
#[test]
fn every_half_made_state_goes_on_without_duplicates() {
    for killed_after in 0..400 {
        let mut rig = Rig::fresh();
        rig.run(&app());
        rig.pass(super::rig::ms(killed_after));
        let mut rig = rig.reborn();
        rig.run(&app());
        rig.pass(s(10));
        assert_eq!(rig.running().len(), 2, "killed after {killed_after} ms: {:?}", rig.calls);
        let made = rig.engine.containers().count();
        assert_eq!(made, 2, "killed after {killed_after} ms: {:?}", rig.calls);
        assert!(rig.engine.containers().all(|c| c.starts == 1), "killed after {killed_after} ms");
    }
}

fn half_made(calls_done: &[&str]) -> Rig {
    let mut rig = Rig::fresh();
    rig.run(&app());
    rig.pass_until(calls_done.last().unwrap());
    // The call arrives; its answer is lost with the daemon.
    rig.pass(super::rig::ms(1));
    let mut rig = rig.reborn();
    rig.run(&app());
    rig.pass(s(10));
    rig
}

#[test]
fn half_made_states_one_by_one() {
    let check = |done: &[&str], acts: &[&str]| {
        let mut rig = half_made(done);
        assert_eq!(rig.take_acts(), acts, "after {done:?}");
        assert_eq!(rig.running().len(), 2, "after {done:?}");
    };
    // A start of the container may be on its way: it is made anew.
    let sandbox = ["remove POD#0", "create POD#0", "start POD#0", "create app#0", "start app#0"];
    check(&["create POD#0"], &sandbox);
    // The sandbox's start is sent at the same time.
    check(&["create POD#0", "create app#0"], &["remove app#0", "create app#0", "start app#0"]);
    check(&["create POD#0", "start POD#0", "start app#0"], &[]);
}

#[test]
fn a_container_made_for_an_older_sandbox_is_made_again_and_removed() {
    let mut rig = Rig::fresh();
    rig.hurt("start app#0", 1, super::rig::Hurt::Says(super::rig::timeout()));
    rig.run(&app());
    rig.pass_until("start app#0");
    let sandbox = rig.id("POD#0");
    let now = rig.now();
    rig.engine.crash(&sandbox, 137, now);
    let mut rig = rig.reborn();
    rig.run(&app());
    rig.pass(s(30));
    assert_eq!(rig.running(), ["POD#1".to_owned(), "app#0".to_owned()].into());
    let acts = rig.take_acts();
    assert!(acts.contains(&"remove app#0".to_owned()), "{acts:?}");
    assert_eq!(acts.iter().filter(|a| a.starts_with("create")).count(), 2, "{acts:?}");
}

#[test]
fn a_start_that_failed_before_the_daemon_died_is_not_waited_for() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour { run: crate::runtime::fake::Run::Missing, ..Behaviour::default() });
    rig.run(&app());
    rig.pass_until("start app#0");
    rig.pass(super::rig::ms(1));
    let mut rig = rig.reborn();
    rig.engine.behave("app", Behaviour::default());
    rig.run(&app());
    rig.pass(s(30));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#1".to_owned()].into());
    assert_eq!(rig.in_state(DockerState::Created), ["app#0".to_owned()].into(), "kept for its error");
}

/// The manifest changed while the daemon was dead, under the same UID: a container of the old one that was never
/// started is not started now.
#[test]
fn a_container_made_for_another_image_is_not_started() {
    let mut rig = Rig::fresh();
    rig.engine.add_image("other", true);
    rig.run(&app());
    rig.pass_until("start app#0");
    let mut rig = rig.reborn();
    rig.run(&pod("{containers: [{name: app, image: other}]}"));
    rig.pass(s(30));
    let acts = rig.take_acts();
    assert_eq!(acts, ["remove app#0", "create app#0", "start app#0"], "it never ran: its number is free");
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into(), "{acts:?}");
}

#[test]
fn a_pod_that_has_ended_stays_ended_after_a_restart() {
    for (policy, code) in [("Never", 0), ("Never", 1), ("OnFailure", 0)] {
        let spec = pod(&format!("{{restartPolicy: {policy}, containers: [{{name: app}}]}}"));
        let mut rig = Rig::fresh();
        rig.engine.behave("app", Behaviour::exits(code, s(2)));
        rig.run(&spec);
        rig.pass(s(60));
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        assert_eq!(rig.status(), format!("{phase}, app: ended {code}"));
        assert_eq!(rig.running(), [].into(), "the sandbox is stopped");
        for _ in 0..3 {
            rig = rig.reborn();
            rig.run(&spec);
            rig.pass(s(600));
            assert_eq!(rig.take_acts(), [""; 0], "{policy} {code}");
            assert_eq!(rig.status(), format!("{phase}, app: ended {code}"));
        }
        // Started by hand, it is stopped again.
        let id = rig.id("POD#0");
        rig.by_hand(&Call::Start { id });
        rig.pass(s(60));
        assert_eq!(rig.running(), [].into(), "{policy} {code}");
        assert_eq!(rig.status(), format!("{phase}, app: ended {code}"));
    }
}

/// Fields that an engine leaves out of its answers never cause a restart.
#[test]
fn k2062_fields_that_inspect_does_not_report_cause_no_restart() {
    use Field::{
        Created, Error, FinishedAt, Image, ImageId, Ips, LogPath, NetworkMode, StartedAt, StopSignal,
    };
    for field in
        [Created, StartedAt, FinishedAt, Error, Image, ImageId, StopSignal, NetworkMode, Ips, LogPath]
    {
        let mut rig = Rig::fresh();
        rig.engine.drop_inspect_fields(&[field]);
        rig.run(&app());
        rig.pass(s(600));
        rig = rig.reborn();
        rig.run(&app());
        rig.pass(s(600));
        assert_eq!(rig.take_acts(), [""; 0], "without {field:?}");
        assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into(), "without {field:?}");
    }
}

#[test]
fn what_is_not_ours_is_never_touched() {
    let mut rig = Rig::fresh();
    let now = rig.now();
    let other = [
        (labels::ROOT_DIR, "/elsewhere"),
        (labels::POD_NAME, "web-node"),
        (labels::POD_NAMESPACE, "default"),
        (labels::POD_UID, "uid-1"),
        (labels::CONTAINER_NAME, "app"),
        (labels::RESTART_COUNT, "0"),
    ];
    let id = rig.engine.plant("foreign", &other, true, now);
    let mut rig = rig.reborn();
    rig.run(&app());
    rig.pass(s(60));
    rig.wish(stop(None));
    rig.pass(s(60));
    assert!(rig.is("terminated"));
    assert_eq!(rig.engine.get(&id).unwrap().state, DockerState::Running);
    assert!(!rig.calls.iter().any(|(_, words)| words.contains("foreign")));
}

/// Docker carries out a dead daemon's call late, after the list that this daemon started with.
#[test]
fn a_container_that_no_call_of_this_daemon_made_is_looked_at_once_docker_tells_of_it() {
    let mut rig = Rig::up(&app());
    let lists = |rig: &Rig| rig.calls.iter().filter(|(_, words)| words.starts_with("list")).count();
    let before = lists(&rig);
    let known = rig.id("app#0");
    rig.hint(Hint::Made(known));
    rig.pass(s(5));
    assert_eq!(lists(&rig), before, "its own");
    rig.hint(Hint::Made("late".into()));
    rig.pass(s(5));
    assert_eq!(lists(&rig), before + 1);
}
