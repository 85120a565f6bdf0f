//! Tests with a Docker that hangs, refuses, is full or gone: growing waits, few messages, and nothing made twice.

use log::Level;

use super::rig::{Hurt, Rig, app, no_space, pod, refusal, s, stop, timeout};
use crate::machine::Hint;
use crate::machine::output::Report;
use crate::runtime::fake::Behaviour;
use crate::runtime::{Call, DockerError, RefusalKind};

#[test]
fn k94829_a_hung_inspect_holds_up_nothing() {
    let two = pod("{containers: [{name: app}, {name: other}]}");
    let mut rig = Rig::up(&two);
    let hung = rig.id("app#0");
    rig.engine.hang_inspect(&hung, true);
    let mut rig = rig.reborn();
    rig.run(&two);
    rig.pass(s(15));
    assert_eq!(rig.status(), "Running, app: running, other: running", "as the list has it");
    // The rest of the pod is still looked after, and its changes are reported.
    let other = rig.id("other#0");
    let now = rig.now();
    rig.engine.crash(&other, 3, now);
    rig.pass(s(5));
    assert!(rig.running().contains("other#1"), "{:?}", rig.calls);
    let now = rig.now();
    let other = rig.id("other#1");
    rig.engine.crash(&other, 3, now);
    rig.pass(s(5));
    assert_eq!(
        rig.status(),
        "Running, app: running, other: CrashLoopBackOff",
        "told while the inspect hangs"
    );
    rig.pass(s(3600));
    let tries = rig.times("inspect app#0").len();
    assert!((60..200).contains(&tries), "{tries} inspects in an hour");
    assert!(rig.logged(Level::Warn).len() < 10, "{:?}", rig.logged(Level::Warn));
    rig.wish(stop(None));
    rig.pass(s(60));
    assert!(rig.is("terminated"), "and it can be stopped");
}

/// The first status of a daemon said that a running pod had no container: another pod was evicted in its place, and an
/// API server was told that it no longer ran.
#[test]
fn before_the_first_look_nothing_is_told_of_a_pod() {
    let mut rig = Rig::up(&app()).reborn();
    rig.hurt("list", 1, Hurt::Slow(s(3)));
    rig.run(&app());
    rig.pass(s(2));
    assert_eq!(rig.status(), "none");
    rig.pass(s(4));
    assert_eq!(rig.status(), "Running, app: running");
    let statuses = rig.reports.iter().filter(|report| matches!(report, Report::Status { .. })).count();
    assert_eq!(statuses, 1, "nothing else was told before");
}

#[test]
fn k22312_a_removal_that_fails_for_ever_holds_up_nothing() {
    let mut rig = Rig::up(&app());
    let id = rig.id("app#0");
    rig.engine.refuse_removal(&id, true);
    let now = rig.now();
    rig.engine.crash(&id, 1, now);
    rig.pass(s(5));
    assert!(rig.running().contains("app#1"));
    let id = rig.id("app#1");
    let now = rig.now();
    rig.engine.crash(&id, 1, now);
    rig.pass(s(60));
    assert!(rig.running().contains("app#2"), "the stuck one is passed over");
    rig.pass(s(3600));
    let tries = rig.times("remove app#0").len();
    assert!((10..25).contains(&tries), "{tries} removals in an hour");
    assert_eq!(rig.logged(Level::Warn).iter().filter(|l| l.contains("FailedRemoveContainer")).count(), 1);
    // The pod can be stopped, and run again under the same UID.
    rig.wish(stop(None));
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running().len(), 2, "{:?}", rig.calls);
    rig.engine.refuse_removal(&id, false);
    rig.wish(stop(None));
    rig.pass(s(60));
    assert!(rig.is("terminated"));
}

/// Each call in turn is refused for lack of space, for hours: it is retried at growing intervals, the log stays small,
/// and with space the pod runs again.
#[test]
fn k23881_no_space_from_any_call_gives_patience_and_few_words() {
    for what in ["create POD", "start POD", "create app", "start app", "create", "start", ""] {
        let mut rig = Rig::fresh();
        rig.hurt(what, u32::MAX, Hurt::Says(no_space()));
        rig.run(&app());
        rig.pass(s(4 * 3600));
        let calls = rig.calls.len();
        assert!((40..4000).contains(&calls), "{what:?}: {calls} calls in four hours");
        let lines = rig.logged(Level::Info).len();
        assert!(
            lines < 300,
            "{what:?}: {lines} lines in four hours: {:?}",
            rig.logged(Level::Info).last_chunk::<8>()
        );
        rig.heal();
        rig.pass(s(400));
        assert_eq!(rig.running().len(), 2, "{what:?}");
        assert_eq!(rig.status(), "Running, app: running");
        let dead = rig.engine.containers().count();
        assert!(dead <= 4, "{what:?}: {dead} containers");
    }
}

/// The connection breaks on one kind of call, again and again, while all others work.
#[test]
fn a_call_that_always_breaks_is_tried_ever_more_slowly() {
    for (what, error) in [
        ("create POD", DockerError::Lost("reset".into())),
        ("create app", DockerError::Lost("reset".into())),
        ("start app", DockerError::Lost("reset".into())),
        ("create app", timeout()),
        ("create app", DockerError::BadAnswer("no JSON".into())),
        ("kill", DockerError::Lost("reset".into())),
    ] {
        let mut rig = if what == "kill" { Rig::up(&app()) } else { Rig::fresh() };
        rig.hurt(what, u32::MAX, Hurt::Says(error.clone()));
        rig.run(&app());
        if what == "kill" {
            rig.wish(stop(None));
        }
        rig.pass(s(1));
        rig.take_calls();
        rig.pass(s(3600));
        let tries = rig.calls.iter().filter(|(_, w)| w.starts_with(what)).count();
        assert!((80..200).contains(&tries), "{what} {error:?}: {tries} tries in an hour");
        let lines = rig.logged(Level::Info).len();
        assert!(
            lines < 30,
            "{what} {error:?}: {lines} lines in an hour: {:?}",
            rig.logged(Level::Info).last_chunk::<5>()
        );
        rig.heal();
        rig.pass(s(100));
        assert_eq!(rig.running().len(), if what == "kill" { 0 } else { 2 }, "{what} {error:?}");
    }
}

#[test]
fn docker_gone_is_waited_for_and_told_once() {
    let mut rig = Rig::up(&app());
    rig.engine.set_down(true);
    rig.hint(Hint::All);
    rig.pass(s(3600));
    let tries = rig.times("list").len();
    assert!((100..200).contains(&tries), "{tries} lists in an hour");
    assert_eq!(rig.logged(Level::Warn).len(), 1, "{:?}", rig.logged(Level::Warn));
    rig.engine.set_down(false);
    // The event thread reports that Docker is there again: the retry is immediate.
    rig.take_calls();
    rig.hint(Hint::All);
    rig.pass(super::rig::ms(10));
    assert_eq!(rig.take_calls(), ["list"]);
    rig.pass(s(600));
    assert_eq!(rig.take_calls(), [""; 0], "nothing changed meanwhile");
}

/// Many calls that fail together count once: the retry comes soon.
#[test]
fn calls_that_fail_together_count_once() {
    let list: Vec<String> = (0..10).map(|n| format!("{{name: c{n}}}")).collect();
    let pod = pod(&format!("{{containers: [{}]}}", list.join(", ")));
    let mut rig = Rig::fresh();
    rig.hurt("create c", 10, Hurt::Says(DockerError::Lost("reset".into())));
    rig.run(&pod);
    rig.pass(s(5));
    assert_eq!(rig.running().len(), 11, "{:?}", rig.calls);
}

#[test]
fn a_refused_create_is_told_and_tried_again() {
    let bad = || refusal(RefusalKind::BadRequest, 400, "Minimum memory limit allowed is 6MB");
    let mut rig = Rig::fresh();
    rig.hurt("create app#0", u32::MAX, Hurt::Says(bad()));
    rig.run(&app());
    rig.pass(s(120));
    let at: Vec<u64> = rig.times("create app#0").iter().map(|at| (at + 500) / 1000).collect();
    assert_eq!(at, [0, 1, 3, 7, 15, 31, 61, 91]);
    let waits = "CreateContainerError: Minimum memory limit allowed is 6MB; tried again in 30 s";
    assert_eq!(rig.waits("app"), waits);
    assert_eq!(rig.logged(Level::Warn).len(), 1, "{:?}", rig.logged(Level::Warn));
    // The manifest is corrected under the same UID: there is no wait.
    rig.heal();
    rig.run(&pod("{containers: [{name: app, command: [server]}]}"));
    rig.pass(s(1));
    assert_eq!(rig.status(), "Running, app: running");
}

/// Docker contradicts itself about a sandbox or an image that exists.
#[test]
fn contradictions_of_docker_are_no_hot_loop() {
    let gone = || refusal(RefusalKind::NoSuchContainer, 404, "No such container: feed");
    let dead =
        || refusal(RefusalKind::SandboxNotRunning, 409, "cannot join network of a non running container");
    for (what, error) in [
        ("create app", gone()),
        ("create app", dead()),
        ("start app", gone()),
        ("start app", dead()),
        ("start POD", gone()),
        ("create POD", refusal(RefusalKind::NoSuchImage, 404, "No such image: pause:test")),
        ("create app", refusal(RefusalKind::NoSuchImage, 404, "No such image: busybox")),
    ] {
        let mut rig = Rig::fresh();
        rig.hurt(what, u32::MAX, Hurt::Says(error.clone()));
        rig.run(&app());
        rig.pass(s(600));
        let tries = rig.calls.iter().filter(|(_, w)| w.starts_with(what)).count();
        assert!((10..60).contains(&tries), "{what} {error:?}: {tries} tries in ten minutes");
        assert!(
            rig.log.len() < 60,
            "{what} {error:?}: {} lines: {:?}",
            rig.log.len(),
            rig.log.last_chunk::<5>()
        );
        rig.heal();
        rig.pass(s(60));
        assert_eq!(rig.running().len(), 2, "{what} {error:?}: {:?}", rig.calls.last_chunk::<8>());
    }
}

#[test]
fn a_sandbox_that_dies_young_is_made_ever_more_slowly() {
    let mut rig = Rig::fresh();
    rig.engine.behave("POD", Behaviour::exits(1, s(1)));
    rig.run(&app());
    rig.pass(s(300));
    let made: Vec<u64> = (0..20)
        .filter_map(|n| rig.times(&format!("create POD#{n}")).first().copied())
        .map(|at| at / 1000)
        .collect();
    assert_eq!(made.first(), Some(&0));
    let pauses: Vec<u64> = made.windows(2).map(|w| w[1] - w[0]).collect();
    // Each pause is a second of life, the time to stop its containers, and the wait.
    assert!(pauses.windows(2).take(5).all(|w| w[1] >= w[0]), "{pauses:?}");
    assert!(pauses.last().is_some_and(|last| (30..40).contains(last)), "{pauses:?}");
    assert!(rig.engine.containers().count() <= 5);
    rig.engine.behave("POD", Behaviour::default());
    // The containers were killed with each sandbox, and wait as after a crash.
    rig.pass(s(400));
    assert_eq!(rig.running().len(), 2);
    // A sandbox that lived long starts the waits anew.
    rig.pass(s(700));
    let sandbox = rig.running().into_iter().find(|name| name.starts_with("POD")).unwrap();
    let (id, now) = (rig.id(&sandbox), rig.now());
    rig.engine.crash(&id, 1, now);
    rig.pass(s(4));
    assert_eq!(rig.running().len(), 2, "at once");
}

#[test]
fn a_signal_that_docker_does_not_know_is_replaced_by_term() {
    let mut rig = Rig::up(&pod("{containers: [{name: app, lifecycle: {stopSignal: SIGWINCH}}]}"));
    rig.hurt(
        "kill app#0 SIGWINCH",
        u32::MAX,
        Hurt::Says(refusal(RefusalKind::BadRequest, 400, "Invalid signal: SIGWINCH")),
    );
    rig.wish(stop(None));
    rig.pass(s(60));
    assert_eq!(rig.times("kill app#0 SIGWINCH").len(), 1, "{:?}", rig.calls);
    assert_eq!(rig.times("kill app#0 SIGTERM").len(), 1, "{:?}", rig.calls);
    assert!(rig.is("terminated"));
}

#[test]
fn a_kill_that_docker_refuses_for_ever_is_told_once() {
    let mut rig = Rig::up(&app());
    rig.hurt(
        "kill app#0",
        u32::MAX,
        Hurt::Says(refusal(RefusalKind::Server, 500, "containerd: connection refused")),
    );
    rig.wish(stop(Some(5)));
    rig.pass(s(3600));
    assert!(rig.is("terminating"));
    let lines = rig.logged(Level::Warn).len();
    assert!(lines <= 3, "{lines} lines in an hour: {:?}", rig.logged(Level::Warn).last_chunk::<3>());
    assert!(rig.times("kill app#0 SIGKILL").len() <= 800);
    rig.heal();
    rig.pass(s(60));
    assert!(rig.is("terminated"));
}

#[test]
fn an_image_whose_digest_could_not_be_asked_for_is_asked_again() {
    let mut rig = Rig::fresh();
    rig.hurt("image", 1, Hurt::Says(timeout()));
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.times("image").len(), 1);
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.engine.crash(&id, 0, now);
    rig.pass(s(60));
    assert_eq!(rig.times("image").len(), 2);
    let (id, now) = (rig.id("app#1"), rig.now());
    rig.engine.crash(&id, 0, now);
    rig.pass(s(60));
    assert_eq!(rig.times("image").len(), 2, "and once it is known no more");
    let by_hand = Call::Remove { id: rig.id("app#1"), force: true };
    rig.by_hand(&by_hand);
    rig.pass(s(60));
    assert_eq!(rig.running().len(), 2);
}

/// Docker started with a full disk: its list leaves out containers that it found running and could not record.
#[test]
fn what_runs_and_is_left_out_of_the_list_is_not_started_beside_itself() {
    let mut rig = Rig::up(&app());
    let left_out = vec![rig.id("POD#0"), rig.id("app#0")];
    rig.hurt("list", u32::MAX, Hurt::LeavesOut(left_out));
    rig.take_acts();
    for _ in 0..3 {
        rig.hint(Hint::All);
        rig.pass(s(60));
    }
    assert_eq!((rig.take_acts(), rig.status()), (vec![], "Running, app: running".to_owned()));
    // Its end is still seen, and so is a sandbox that is gone.
    let now = rig.now();
    let id = rig.id("app#0");
    rig.engine.crash(&id, 3, now);
    rig.pass(s(60));
    assert_eq!(rig.running().len(), 2, "{:?}", rig.calls);
    let remove = Call::Remove { id: rig.id("POD#0"), force: true };
    rig.by_hand(&remove);
    rig.pass(s(60));
    assert_eq!(rig.running().len(), 2, "{:?}", rig.calls);
    assert!(!rig.running().contains("app#0"));
}

/// The container was removed by hand, or ended, and Docker answers no inspect of it. The list, which no longer has it,
/// and the answer to a signal show that nothing is left to stop.
#[test]
fn a_stop_ends_though_no_inspect_of_what_is_gone_from_the_list_answers() {
    for removed in [true, false] {
        let mut rig = Rig::up(&app());
        rig.hurt("inspect app#0", u32::MAX, Hurt::Says(no_space()));
        let (id, now) = (rig.id("app#0"), rig.now());
        rig.hurt("list", u32::MAX, Hurt::LeavesOut(vec![id.clone()]));
        if removed {
            rig.engine.remove_behind_our_back(&id, now);
        } else {
            rig.engine.crash(&id, 1, now);
        }
        rig.hint(Hint::All);
        rig.pass(s(120));
        rig.wish(stop(Some(2)));
        rig.pass(s(600));
        assert!(rig.is("terminated"), "{removed}: {:?}", rig.take_acts());
        assert_eq!(rig.running(), [].into(), "{removed}");
    }
}

/// The list keeps showing a container as running that a signal does not find, and no inspect answers.
#[test]
fn a_docker_that_contradicts_itself_is_not_asked_without_a_pause() {
    let gone = || refusal(RefusalKind::NoSuchContainer, 404, "No such container: feed");
    let dead = || refusal(RefusalKind::NotRunning, 409, "Container feed is not running");
    for answer in [gone(), dead()] {
        let mut rig = Rig::up(&app());
        rig.hurt("inspect app#0", u32::MAX, Hurt::Says(no_space()));
        rig.hurt("kill app#0", u32::MAX, Hurt::Says(answer.clone()));
        rig.wish(stop(Some(2)));
        let before = rig.calls.len();
        rig.pass(s(600));
        let (calls, kills) =
            (rig.calls.len() - before, rig.take_acts().iter().filter(|a| a.starts_with("kill")).count());
        assert!(kills <= 30 && calls < 400, "{answer:?}: {calls} calls, {kills} of them signals");
    }
}

/// The same with a new daemon, which has only the list.
#[test]
fn what_runs_and_is_left_out_of_a_new_daemons_list_is_not_doubled() {
    for inspects in [true, false] {
        let mut rig = Rig::up(&app());
        let (id, now) = (rig.id("POD#0"), rig.now());
        rig.engine.crash(&id, 1, now);
        rig.pass(s(60));
        let running = rig.running();
        assert_eq!(
            running,
            ["POD#1".to_owned(), "app#1".to_owned()].into(),
            "their names tell a new daemon nothing"
        );
        let left_out: Vec<String> = running.iter().map(|name| rig.id(name)).collect();
        let mut rig = rig.reborn();
        rig.hurt("list", u32::MAX, Hurt::LeavesOut(left_out));
        if !inspects {
            rig.hurt("inspect", u32::MAX, Hurt::Says(no_space()));
        }
        rig.run(&app());
        rig.pass(s(100));
        rig.hint(Hint::All);
        rig.pass(s(100));
        assert_eq!(rig.running(), running, "{inspects}: {:?}", rig.take_acts());
        let creates = |rig: &Rig| rig.calls.iter().filter(|(_, words)| words.starts_with("create")).count();
        if inspects {
            assert_eq!(rig.status(), "Running, app: running");
        } else {
            let told =
                rig.logged(Level::Warn).iter().filter(|line| line.contains("not in Docker's list")).count();
            assert_eq!((told, creates(&rig)), (1, 0), "{:?}", rig.logged(Level::Warn));
            // The processes end and leave the cgroup, and then the pod starts.
            for name in running {
                let (id, now) = (rig.id(&name), rig.now());
                rig.engine.crash(&id, 1, now);
            }
            rig.pass(s(100));
            assert!(creates(&rig) > 0, "{:?}", rig.take_acts());
            rig.heal();
            rig.pass(s(100));
            assert_eq!(rig.running().len(), 2, "{:?}", rig.take_acts());
        }
    }
}

#[test]
fn a_worker_is_not_gone_while_an_unlisted_container_runs() {
    let rig = Rig::up(&app());
    let id = rig.id("app#0");
    let mut rig = rig.reborn();
    rig.hurt("list", u32::MAX, Hurt::LeavesOut(vec![id]));
    rig.hurt("inspect app#0", u32::MAX, Hurt::Says(no_space()));
    rig.run(&app());
    rig.pass(s(10));
    rig.wish(stop(None));
    rig.pass(s(60));
    assert!(!rig.reports.iter().any(|report| matches!(report, Report::Gone(_))), "{:?}", rig.reports);
}
