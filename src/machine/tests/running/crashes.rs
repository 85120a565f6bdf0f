//! Tests of containers that end: back-off, policies, and the dead that are kept.

use super::rig::{Hurt, Rig, app, ms, pod, pod_with, s, timeout};
use crate::machine::{Hint, Report};
use crate::plan::DeadPolicy;
use crate::runtime::fake::Behaviour;
use crate::runtime::{Call, DockerState};

/// Seconds between the ends of `app` and its next creates.
fn pauses(rig: &Rig, starts: u32) -> Vec<u64> {
    let made: Vec<u64> =
        (0..starts).filter_map(|n| rig.times(&format!("create app#{n}")).first().copied()).collect();
    made.windows(2).map(|w| (w[1] - w[0]) / 1000).collect()
}

#[test]
fn crash_loop_back_off_is_0_10_20_40_up_to_300() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&app());
    rig.pass(s(3600));
    assert_eq!(pauses(&rig, 30).get(..10).unwrap(), [0, 10, 20, 40, 80, 160, 300, 300, 300, 300]);
    assert!(rig.waits("app").starts_with("CrashLoopBackOff: back-off 5m0s restarting failed container=app"));
    let lines = rig.log.len();
    assert!(lines < 100, "{lines} lines in an hour");
}

/// The bound holds in the pod's next lives, too.
#[test]
fn a_crash_loop_waits_no_longer_than_the_longest_wait_that_is_set() {
    let mut rig = Rig::fresh_with_longest_wait(s(15));
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&app());
    rig.pass(s(120));
    assert_eq!(pauses(&rig, 9), [0, 10, 15, 15, 15, 15, 15, 15]);
    assert!(rig.waits("app").starts_with("CrashLoopBackOff: back-off 15s restarting failed container=app"));
    rig.run(&pod_with("uid-2", "{containers: [{name: app}]}"));
    rig.pass(s(300));
    assert!(rig.waits("app").starts_with("CrashLoopBackOff: back-off 15s restarting failed container=app"));
}

#[test]
fn a_success_under_policy_always_backs_off_too() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(0, ms(200)));
    rig.run(&app());
    rig.pass(s(200));
    assert_eq!(pauses(&rig, 30), [0, 10, 20, 40, 80]);
}

/// The event "Started" is logged once and counted from then on; the line of an end has the attempt.
#[test]
fn each_restart_is_in_the_log() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&app());
    rig.pass(s(60));
    let lines = |what: &str| rig.logged(log::Level::Info).iter().filter(|line| line.ends_with(what)).count();
    assert_eq!(lines("container app (attempt 0) runs"), 0, "its event says so");
    for attempt in 1..4 {
        assert_eq!(lines(&format!("container app (attempt {attempt}) runs")), 1);
        assert_eq!(lines(&format!("container app (attempt {attempt}) ended with exit code 1")), 1);
    }
}

/// `docker container prune` during its back-off: numbers continue, and its end is still shown.
#[test]
fn the_dead_removed_by_hand_are_not_forgotten() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(3, ms(200)));
    rig.run(&app());
    rig.pass(s(60));
    let told = |rig: &Rig| {
        let status = rig.last_status().container_statuses.unwrap().remove(0);
        (status.restart_count, status.last_state.and_then(|s| s.terminated).map(|t| t.exit_code))
    };
    assert_eq!(told(&rig), (3, Some(3)));
    rig.engine.behave("app", Behaviour::default());
    let dead: Vec<String> =
        rig.engine.containers().filter(|c| c.state == DockerState::Exited).map(|c| c.id.clone()).collect();
    for id in dead {
        rig.by_hand(&Call::Remove { id, force: true });
    }
    rig.pass(s(100));
    assert_eq!(told(&rig), (4, Some(3)));
    assert!(rig.running().contains("app#4"), "{:?}", rig.running());
}

/// A container that was made in a sandbox that died before the start uses up no attempt number.
#[test]
fn no_number_is_skipped_when_the_sandbox_dies_under_a_made_container() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(3, ms(200)));
    rig.run(&app());
    rig.pass_until("inspect app#0");
    rig.engine.behave("app", Behaviour::default());
    rig.pass_until("create app#1");
    let id = rig.id("POD#0");
    rig.by_hand(&Call::Kill { id, signal: "KILL".into() });
    rig.pass(s(400));
    assert_eq!(rig.running(), ["POD#1".to_owned(), "app#1".to_owned()].into(), "{:?}", rig.calls);
}

/// Logs are available by name from a container's start to its removal.
#[test]
fn logs_are_told_from_start_to_removal() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&app());
    rig.pass(s(60));
    let attempts = |logs: &crate::pod_logs::ContainerLogs| -> Vec<String> {
        logs.iter().map(|log| format!("{}#{}", log.container, log.attempt)).collect()
    };
    let told = rig.logs.len();
    assert_eq!(attempts(rig.logs.last().unwrap()), ["app#3"]);
    // Nothing is sent while nothing changes.
    rig.pass(s(10));
    assert_eq!(rig.logs.len(), told);
    assert!(rig.logs.windows(2).all(|two| two[0] != two[1]));
    rig.wish(super::rig::stop(None));
    rig.pass(s(60));
    assert_eq!(attempts(rig.logs.last().unwrap()), Vec::<String>::new());
}

#[test]
fn ten_minutes_of_life_begin_anew() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&app());
    rig.pass(s(200));
    rig.engine.behave("app", Behaviour::default());
    rig.pass(s(200));
    assert_eq!(rig.status(), "Running, app: running");
    let last = rig.running().into_iter().find(|n| n.starts_with("app")).unwrap();
    let crash = |rig: &mut Rig, name: &str| {
        let (id, now) = (rig.id(name), rig.now());
        rig.engine.crash(&id, 1, now);
    };
    rig.pass(s(300));
    crash(&mut rig, &last);
    rig.pass(s(4));
    assert_eq!(rig.running().len(), 1, "five minutes are not enough: {:?}", rig.running());
    rig.pass(s(320));
    assert_eq!(rig.running().len(), 2);
    rig.pass(s(700));
    let last = rig.running().into_iter().find(|n| n.starts_with("app")).unwrap();
    crash(&mut rig, &last);
    rig.pass(s(1));
    assert_eq!(rig.running().len(), 2, "at once");
}

#[test]
fn policies() {
    let check = |policy: &str, code: i64, status: &str, made: usize| {
        let mut rig = Rig::fresh();
        rig.engine.behave("app", Behaviour::exits(code, s(1)));
        rig.run(&pod(&format!("{{restartPolicy: {policy}, containers: [{{name: app}}]}}")));
        rig.pass(s(8));
        assert_eq!(rig.status(), status, "{policy} {code}");
        let creates = rig.calls.iter().filter(|(_, w)| w.starts_with("create app")).count();
        assert_eq!(creates, made, "{policy} {code}");
    };
    check("Never", 0, "Succeeded, app: ended 0", 1);
    check("Never", 7, "Failed, app: ended 7", 1);
    check("OnFailure", 0, "Succeeded, app: ended 0", 1);
    check("OnFailure", 7, "Running, app: CrashLoopBackOff", 2);
    check("Always", 0, "Running, app: CrashLoopBackOff", 2);
}

#[test]
fn k23881_one_dead_container_of_each_name_is_kept() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&pod("{containers: [{name: app}, {name: other}]}"));
    rig.pass(s(2000));
    assert_eq!(rig.in_state(DockerState::Exited).len(), 1);
    // The instance before the last is removed as soon as the last one has ended.
    let (made, next) = (rig.times("create app#2")[0], rig.times("create app#3")[0]);
    let removed = rig.times("remove app#1")[0];
    assert!((made..next).contains(&removed), "made {made}, removed {removed}, next made {next}");
}

#[test]
fn an_end_that_nobody_saw_is_restarted_at_once() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&app());
    rig.pass(s(25));
    let mut rig = rig.reborn();
    rig.run(&app());
    rig.pass(ms(50));
    let calls = rig.take_acts();
    assert!(calls.iter().any(|c| c.starts_with("create app")), "{calls:?}");
}

#[test]
fn a_command_that_is_not_there_backs_off_like_a_crash() {
    let mut rig = Rig::fresh();
    rig.run(&pod("{containers: [{name: app, command: [/no-such-thing]}]}"));
    rig.pass(s(200));
    assert_eq!(pauses(&rig, 30), [0, 10, 20, 40, 80]);
    assert!(rig.engine.containers().count() <= 3);
}

/// A container that was started again by hand counts as the running one.
#[test]
fn a_dead_container_that_somebody_starts_is_taken_over() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&app());
    rig.pass(s(4));
    rig.engine.behave("app", Behaviour::default());
    let id = rig.id("app#1");
    rig.by_hand(&Call::Start { id });
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#1".to_owned()].into());
    assert_eq!(rig.status(), "Running, app: running");
}

#[test]
fn out_of_memory_is_told() {
    let mut rig = Rig::up(&app());
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.engine.oom(&id, now);
    rig.pass(s(1));
    assert!(rig.log.iter().any(|(_, _, line)| line.contains("was killed: out of memory")), "{:?}", rig.log);
    assert!(rig.running().contains("app#1"));
}

/// With cgroups v1 Docker sets the mark on all containers below the cgroup whose limit was reached.
#[test]
fn a_sandbox_that_is_stopped_after_its_pods_memory_ran_out_was_not_killed_for_that() {
    let mut rig = Rig::up(&app());
    let (id, now) = (rig.id("POD#0"), rig.now());
    rig.engine.oom(&id, now);
    rig.pass(s(1));
    let lines: Vec<&String> = rig.log.iter().map(|(_, _, line)| line).collect();
    assert!(
        lines.iter().any(|line| line.contains("sandbox (attempt 0) ended with exit code 137")),
        "{lines:?}"
    );
    assert!(!lines.iter().any(|line| line.contains("out of memory")), "{lines:?}");
}

/// containerd/containerd#8180: the engine reports the death first, and then never sets its own mark.
#[test]
fn k8180_out_of_memory_is_told_after_the_death() {
    let reason = |rig: &Rig| {
        let statuses = rig.last_status().container_statuses.unwrap_or_default();
        let last = statuses[0].last_state.clone().and_then(|state| state.terminated);
        last.and_then(|terminated| terminated.reason)
    };
    for (code, in_the_end) in [(137, "OOMKilled"), (1, "Error")] {
        let mut rig = Rig::up(&app());
        let (id, now) = (rig.id("app#0"), rig.now());
        rig.engine.crash(&id, code, now);
        rig.pass(s(1));
        assert_eq!(reason(&rig).as_deref(), Some("Error"), "not told yet");
        rig.hint(Hint::OutOfMemory(id));
        rig.pass(s(1));
        assert_eq!(reason(&rig).as_deref(), Some(in_the_end), "code {code}");
        rig.hint(Hint::All);
        rig.pass(s(1));
        assert_eq!(reason(&rig).as_deref(), Some(in_the_end), "code {code}, after another look");
    }
}

#[test]
fn a_dead_sandbox_takes_its_containers_with_it() {
    let mut rig = Rig::up(&app());
    rig.pass(s(60));
    let (id, now) = (rig.id("POD#0"), rig.now());
    rig.engine.crash(&id, 137, now);
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#1".to_owned(), "app#1".to_owned()].into());
    let killed = rig.times("kill app#0 SIGTERM")[0];
    let made = rig.times("create POD#1")[0];
    assert!(killed < made, "the old set is seen dead before the new one is made");
}

/// Each restart lengthens the next wait, but a start that Docker did not answer does not.
#[test]
fn a_start_without_an_answer_makes_no_back_off_longer() {
    let mut rig = Rig::up(&app());
    rig.hurt("start app#1", 4, Hurt::Says(timeout()));
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.engine.crash(&id, 1, now);
    rig.pass(s(900));
    let made = rig.times("create app#1");
    assert_eq!((made.len(), rig.status()), (5, "Running, app: running".to_owned()));
    assert!(made.last().unwrap() - made[0] < 120_000, "{made:?}");
    let (id, now) = (rig.id("app#1"), rig.now());
    rig.engine.crash(&id, 1, now);
    rig.pass(s(1));
    let waits = "CrashLoopBackOff: back-off 10s restarting failed container=app pod=web-node_default(uid-1)";
    assert!([waits, ""].contains(&rig.waits("app").as_str()), "one crash so far: {}", rig.waits("app"));
}

/// The node has too many dead containers: the machine removes its share, once, and then keeps the usual number.
#[test]
fn dead_ones_go_when_the_node_has_too_many_in_all() {
    let mut rig =
        Rig::fresh_with_dead(DeadPolicy { per_container: None, in_all: Some(2), ..DeadPolicy::default() });
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&app());
    rig.pass(s(60));
    let dead = |rig: &Rig| rig.engine.containers().filter(|c| c.state == DockerState::Exited).count();
    assert_eq!(dead(&rig), 4);
    assert!(rig.reports.contains(&Report::Dead(vec![4])), "{:?}", rig.reports);
    rig.hint(Hint::Dead(2));
    rig.pass(s(5));
    assert_eq!(dead(&rig), 2);
    rig.pass(s(60));
    assert_eq!(dead(&rig), 3, "the next one is kept until the node says so again");
}
