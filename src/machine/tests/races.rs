//! Tests that changes between a request and its answer are not lost.

use super::rig::{Hurt, Rig, app, ms, pod, pod_with, s, stop};
use crate::base::table::Set;
use crate::machine::Hint;
use crate::runtime::Call;
use crate::runtime::fake::{Behaviour, Fault, FaultPlan};

/// The container dies after Docker has looked at it, and before the answer arrives: there is only one event of the
/// death.
#[test]
fn a_death_while_an_inspect_is_on_its_way_is_not_lost() {
    let mut rig = Rig::fresh();
    rig.hurt("inspect app#0", 1, Hurt::Slow(ms(50)));
    rig.engine.behave("app", Behaviour::exits(1, ms(120)));
    rig.run(&app());
    rig.pass(s(2));
    assert!(rig.engine.get(&rig.id("app#1")).is_some(), "{:?}", rig.calls);
    let first = rig.times("create app#1");
    assert!(first.first().is_some_and(|at| *at < 600), "{first:?}");
}

/// The container is removed in between: the late answer must not bring it back.
#[test]
fn a_removal_while_an_inspect_is_on_its_way_is_not_lost() {
    let mut rig = Rig::up(&app());
    rig.hurt("inspect app#0", 1, Hurt::Slow(ms(100)));
    let id = rig.id("app#0");
    let now = rig.now();
    rig.engine.crash(&id, 1, now);
    rig.pass(ms(20));
    let now = rig.now();
    rig.engine.remove_behind_our_back(&id, now);
    rig.pass(s(30));
    assert_eq!(rig.running().len(), 2, "made anew: {:?}", rig.calls);
    assert!(!rig.machine.containers.all().any(|c| c.id == id), "a ghost is believed in");
}

/// The wish changes (same UID) while the old container is being made: it is not started.
#[test]
fn an_edit_during_a_create_starts_nothing_of_the_old_wish() {
    let mut rig = Rig::fresh();
    rig.engine.add_image("other", true);
    rig.hurt("create app#0", 1, Hurt::Slow(ms(400)));
    rig.run(&app());
    rig.pass(ms(200));
    rig.run(&pod("{containers: [{name: app, image: other}]}"));
    rig.pass(s(30));
    let acts = rig.take_acts();
    assert_eq!(acts[3..], ["remove app#0", "create app#0", "start app#0"], "{acts:?}");
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into(), "{acts:?}");
}

/// The network mode changes (same UID) while the old sandbox is being made.
#[test]
fn an_edit_during_the_sandbox_create_does_not_start_it() {
    let mut rig = Rig::fresh();
    rig.hurt("create POD#0", 1, Hurt::Slow(ms(400)));
    rig.run(&app());
    rig.pass(ms(200));
    rig.run(&pod("{hostNetwork: true, containers: [{name: app}]}"));
    rig.pass(s(30));
    let acts = rig.take_acts();
    assert_eq!(acts[..4], ["create POD#0", "create POD#1", "remove POD#0", "start POD#1"], "{acts:?}");
    assert_eq!(rig.running(), ["POD#1".to_owned(), "app#0".to_owned()].into(), "{acts:?}");
}

/// Somebody starts a container of a life that is over (or Docker carries out a start late).
#[test]
fn what_rises_from_an_earlier_life_is_stopped_again() {
    let one = pod_with("uid-0", "{containers: [{name: app}]}");
    let mut rig = Rig::up(&one);
    let old = rig.id("uid-0/POD#0");
    rig.engine.refuse_removal(&old, true);
    rig.hurt("remove uid-0/POD#0", u32::MAX, Hurt::Says(super::rig::no_space()));
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into());
    rig.by_hand(&Call::Start { id: old });
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into(), "{:?}", rig.calls);
    assert_eq!(rig.times("create POD#0").len(), 1, "and what is wanted is left alone");
}

/// The same under the same UID: the pod was removed and put back.
#[test]
fn what_rises_from_an_earlier_life_of_the_same_uid_is_stopped_again() {
    let mut rig = Rig::up(&app());
    let old = rig.id("app#0");
    rig.hurt("remove app#0", u32::MAX, Hurt::Says(super::rig::no_space()));
    rig.wish(stop(None));
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#1".to_owned()].into(), "{:?}", rig.calls);
    // Its own sandbox is gone; a copy of the sandbox is started.
    let labels = rig.engine.get(&old).unwrap().body.labels.clone();
    let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let now = rig.now();
    let second = rig.engine.plant("k8s_app_web-node_default_uid-1_9", &labels, true, now);
    rig.pass(s(90));
    assert!(!rig.engine.get(&second).is_some_and(|c| c.state == crate::runtime::DockerState::Running));
}

/// No pod is wanted, and somebody starts the remaining container.
#[test]
fn what_rises_after_the_end_is_stopped_again() {
    let mut rig = Rig::up(&app());
    let id = rig.id("POD#0");
    rig.hurt("remove POD#0", u32::MAX, Hurt::Says(super::rig::no_space()));
    rig.wish(stop(None));
    rig.pass(s(60));
    assert!(rig.is("terminated"));
    rig.by_hand(&Call::Start { id });
    rig.pass(s(60));
    assert_eq!(rig.running(), [].into(), "{:?}", rig.calls);
    assert!(rig.is("terminated"));
    rig.heal();
    rig.pass(s(600));
    assert_eq!(rig.engine.containers().count(), 0);
}

/// A start that was given up is carried out late, during the stop of the pod.
#[test]
fn a_start_that_comes_late_into_a_stop_is_undone() {
    for late in [1, 500, 3000, 20_000] {
        let mut rig = Rig::fresh();
        rig.hurt("start app#0", 1, Hurt::Says(super::rig::timeout()));
        rig.run(&app());
        rig.pass_until("start app#0");
        rig.pass(s(1));
        let id = rig.id("app#0");
        rig.wish(stop(None));
        rig.pass(ms(late));
        let now = rig.now();
        drop(rig.engine.perform(&Call::Start { id }, now));
        rig.pass(s(120));
        assert_eq!(rig.running(), [].into(), "{late} ms: {:?}", rig.calls);
        assert!(rig.is("terminated"), "{late} ms");
        assert_eq!(rig.engine.containers().count(), 0, "{late} ms");
    }
}

/// A start without an answer may be carried out at any time: its container is never started again, but removed before
/// anything is made in its place. Covers containers and sandboxes, of this daemon and of one that died.
#[test]
fn a_start_that_may_come_late_finds_nothing_to_start() {
    for (what, reborn) in [("app#0", false), ("app#0", true), ("POD#0", false), ("POD#0", true)] {
        for late in [0, 50, 900, 5000, 40_000] {
            let start = format!("start {what}");
            let mut rig = Rig::fresh();
            rig.engine.behave("app", Behaviour::exits(1, s(3)));
            rig.hurt(&start, 1, Hurt::Says(super::rig::timeout()));
            rig.run(&app());
            rig.pass_until(&start);
            let id = rig.id(what);
            if reborn {
                rig.pass(ms(1));
                rig = rig.reborn();
                rig.run(&app());
            } else {
                rig.pass(s(10));
            }
            rig.pass(ms(late));
            let now = rig.now();
            drop(rig.engine.perform(&Call::Start { id }, now));
            for _ in 0..600 {
                rig.pass(ms(100));
                let running = rig.running();
                let apps = running.iter().filter(|name| name.starts_with("app#")).count();
                let story = format!("{what}, reborn {reborn}, {late} ms: {running:?} {:?}", rig.calls);
                assert!(apps <= 1 && running.len() - apps <= 1, "{story}");
                assert!(rig.engine.containers().all(|c| c.starts <= 1), "{story}");
            }
        }
    }
}

/// Docker refuses to remove a container that it may start late: for a minute no container is made in its place.
#[test]
fn a_start_that_may_come_late_gets_no_successor() {
    let mut rig = Rig::fresh();
    rig.hurt("start app#0", 1, Hurt::Says(super::rig::timeout()));
    rig.hurt("remove app#0", u32::MAX, Hurt::Says(super::rig::no_space()));
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0".to_owned()].into(), "{:?}", rig.calls);
    rig.pass(s(120));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#1".to_owned()].into(), "{:?}", rig.calls);
    assert_eq!(rig.times("start app#0").len(), 1, "{:?}", rig.calls);
}

/// Docker carries out and answers each start too late: the running container is kept.
#[test]
fn a_docker_that_answers_no_start_gets_its_pods_up() {
    let mut rig = Rig::fresh();
    for start in ["start POD#0", "start app#0"] {
        rig.hurt(start, u32::MAX, Hurt::DoneBut(super::rig::timeout()));
    }
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into(), "{:?}", rig.calls);
    assert_eq!(rig.times("create app#0").len(), 1);
}

/// A dead daemon made a container for another UID, and may have started it: its successor waits until it is gone, even
/// if the removal takes some time.
#[test]
fn what_may_be_started_late_is_gone_before_another_life_begins() {
    let one = pod_with("uid-0", "{containers: [{name: app}]}");
    let mut rig = Rig::fresh();
    rig.hurt("start uid-0/POD#0", 1, Hurt::Says(super::rig::timeout()));
    rig.run(&one);
    rig.pass_until("start uid-0/POD#0");
    rig.pass(ms(1));
    let mut rig = rig.reborn();
    rig.hurt("remove uid-0/POD#0", 3, Hurt::Says(super::rig::no_space()));
    rig.run(&app());
    rig.pass(s(30));
    let (gone, made) = (rig.times("remove uid-0/POD#0"), rig.times("create POD#0"));
    assert!(gone.len() == 4 && made.len() == 1 && gone[3] < made[0], "{:?}", rig.calls);
    // The wait is bounded.
    let mut rig = Rig::fresh();
    rig.run(&one);
    rig.pass_until("start uid-0/POD#0");
    let mut rig = rig.reborn();
    rig.hurt("remove uid-0/POD#0", u32::MAX, Hurt::Says(super::rig::no_space()));
    rig.run(&app());
    rig.pass(s(150));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into(), "{:?}", rig.calls);
}

/// An older instance runs (its start came late) beside a newer one that a dead daemon made: the running one is kept,
/// and the other is removed and never started.
#[test]
fn what_an_earlier_daemon_made_beside_one_that_runs_is_removed() {
    let pod = pod("{terminationGracePeriodSeconds: 5, containers: [{name: app}]}");
    let mut rig = Rig::up(&pod);
    let (labels, id) = (rig.engine.get(&rig.id("app#0")).unwrap().body.labels.clone(), rig.id("app#0"));
    let now = rig.now();
    rig.engine.crash(&id, 1, now);
    rig.by_hand(&Call::Start { id });
    // The next attempt, made by a daemon that died.
    let mut labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    labels.retain(|(key, _)| *key != crate::runtime::labels::RESTART_COUNT);
    labels.push((crate::runtime::labels::RESTART_COUNT, "1"));
    let now = rig.now();
    rig.engine.plant("k8s_app_web-node_default_uid-1_1", &labels, false, now);
    let mut rig = rig.reborn();
    rig.run(&pod);
    rig.pass(s(20));
    assert_eq!(rig.take_acts(), ["remove app#1"]);
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into(), "{:?}", rig.calls);
}

/// The same, but Docker cannot remove it: the running one stays all the same.
#[test]
fn what_an_earlier_daemon_made_and_cannot_be_removed_stops_nothing() {
    let pod = app();
    let mut rig = Rig::up(&pod);
    let labels = rig.engine.get(&rig.id("app#0")).unwrap().body.labels.clone();
    let mut labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    labels.retain(|(key, _)| *key != crate::runtime::labels::RESTART_COUNT);
    labels.push((crate::runtime::labels::RESTART_COUNT, "1"));
    let now = rig.now();
    rig.engine.plant("k8s_app_web-node_default_uid-1_1", &labels, false, now);
    let mut rig = rig.reborn();
    rig.hurt("remove app#1", u32::MAX, Hurt::Says(super::rig::no_space()));
    rig.run(&pod);
    rig.pass(s(300));
    let acts: Set<String> = rig.take_acts().into_iter().collect();
    assert_eq!(acts, ["remove app#1".to_owned()].into());
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into(), "{:?}", rig.calls);
}

/// Without any event, the machine's own looks suffice.
#[test]
fn a_deaf_machine_starts_and_stops_all_the_same() {
    let mut rig = Rig::fresh();
    rig.wire.events = false;
    rig.run(&app());
    rig.pass(s(10));
    assert_eq!(rig.status(), "Running, app: running");
    rig.wish(stop(Some(2)));
    rig.pass(s(60));
    assert!(rig.is("terminated"), "{:?}", rig.calls);
    // The list of the safety net suffices to see a death.
    rig.run(&app());
    rig.pass(s(10));
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.engine.crash(&id, 1, now);
    rig.hint(Hint::All);
    rig.pass(s(10));
    assert!(rig.running().contains("app#1"), "{:?}", rig.calls);
}

/// After a new connection Docker replays a death, and its list still shows the container as running.
#[test]
fn a_death_that_the_list_does_not_show_yet_is_seen() {
    let mut rig = Rig::up(&app());
    let (id, now) = (rig.id("app#0"), rig.now());
    let until = now.mono.after(s(60));
    rig.engine.faults =
        FaultPlan::seeded(1, &[(Fault::ListBehind, 10_000), (Fault::EventLost, 10_000)], until);
    rig.engine.crash(&id, 1, now);
    rig.hint(Hint::All);
    rig.hint(Hint::Changed(id));
    rig.pass(s(10));
    assert!(rig.running().contains("app#1"), "{:?}", rig.calls);
}

/// With a hint about everything at any moment of a start and a stop, nothing is done twice, and nothing is lost.
#[test]
fn a_look_at_any_moment_changes_nothing() {
    for at in (0..400).step_by(3) {
        let mut rig = Rig::fresh();
        rig.run(&app());
        rig.pass(ms(at));
        rig.hint(Hint::All);
        rig.pass(s(10));
        let acts = rig.take_acts();
        assert_eq!(acts, ["create POD#0", "start POD#0", "create app#0", "start app#0"], "{at} ms");
        rig.wish(stop(None));
        rig.pass(ms(at));
        rig.hint(Hint::All);
        rig.pass(s(10));
        let mut acts = rig.take_acts();
        acts.sort();
        let expected = ["kill POD#0 SIGTERM", "kill app#0 SIGTERM", "remove POD#0", "remove app#0"];
        assert_eq!(acts, expected, "{at} ms");
        assert!(rig.at_rest() && rig.wake.is_none());
    }
}
