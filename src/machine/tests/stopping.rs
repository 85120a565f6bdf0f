//! Tests of TERM, deadline, KILL as planned steps (design invariant 10), and of the order in which containers stop.

use std::sync::Arc;

use super::rig::{Hurt, Rig, app, ms, pod, refusal, s, stop, timeout};
use crate::base::limits;
use crate::machine::{Hint, Report};
use crate::pod::DesiredPod;
use crate::runtime::fake::Behaviour;
use crate::runtime::{Call, DockerError, RefusalKind};

fn deaf(grace: i64) -> Arc<DesiredPod> {
    pod(&format!("{{terminationGracePeriodSeconds: {grace}, containers: [{{name: app}}]}}"))
}

/// Milliseconds from the stop to the calls with these words.
fn after(rig: &Rig, begun: u64, call: &str) -> Vec<u64> {
    rig.times(call).iter().map(|at| at - begun).collect()
}

fn begin(pod: &Arc<DesiredPod>) -> (Rig, u64) {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::ignores_term());
    rig.run(pod);
    rig.pass(s(5));
    rig.calls.clear();
    let begun = super::rig::ms_of(rig.now);
    (rig, begun)
}

#[test]
fn term_then_kill_at_the_deadline() {
    for (grace, kill) in [(30, 30_000), (1, 2000), (0, 2000), (5, 5000)] {
        let (mut rig, begun) = begin(&deaf(grace));
        rig.wish(stop(None));
        rig.pass(s(60));
        assert_eq!(after(&rig, begun, "kill app#0 SIGTERM"), [0], "{grace}");
        assert_eq!(after(&rig, begun, "kill app#0 SIGKILL"), [kill], "{grace}");
        assert!(
            rig.times("kill POD#0 SIGTERM")[0] > rig.times("kill app#0 SIGKILL")[0],
            "the sandbox is last"
        );
        assert!(rig.is("terminated"));
        assert_eq!(rig.engine.containers().count(), 0);
        assert!(rig.reports.contains(&Report::Gone(2)), "{:?}", rig.reports.last());
        assert!(rig.at_rest() && rig.wake.is_none());
    }
}

#[test]
fn kill_is_sent_again_until_it_helps() {
    let (mut rig, begun) = begin(&deaf(5));
    rig.engine.behave("app", Behaviour { kill: s(17), ..Behaviour::ignores_term() });
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.engine.crash(&id, 0, now);
    rig.pass(s(1));
    let begun = begun + 1000;
    rig.wish(stop(None));
    rig.pass(s(60));
    assert_eq!(after(&rig, begun, "kill app#1 SIGKILL"), [5000, 10_000, 15_000, 20_000]);
    assert!(rig.is("terminated"));
    let warned = rig
        .log
        .iter()
        .filter(|(_, _, l)| l.contains("container app (attempt 1) did not end within 5 s"))
        .count();
    assert_eq!(warned, 1);
}

#[test]
fn graces_only_get_shorter() {
    let (mut rig, begun) = begin(&deaf(600));
    rig.wish(stop(None));
    rig.pass(s(10));
    rig.wish(stop(Some(20)));
    rig.pass(s(2));
    rig.wish(stop(Some(300)));
    rig.pass(s(2));
    rig.wish(stop(None));
    rig.pass(s(60));
    assert_eq!(after(&rig, begun, "kill app#0 SIGTERM"), [0]);
    assert_eq!(after(&rig, begun, "kill app#0 SIGKILL"), [20_000], "counted from the first order");
    // The new grace is shorter than the time that has passed.
    let (mut rig, begun) = begin(&deaf(600));
    rig.wish(stop(None));
    rig.pass(s(10));
    rig.wish(stop(Some(3)));
    rig.pass(s(10));
    assert_eq!(after(&rig, begun, "kill app#0 SIGKILL"), [10_000]);
}

#[test]
fn sidecars_stop_after_the_rest_in_reverse_order() {
    let pod = pod(
        "{terminationGracePeriodSeconds: 30, containers: [{name: app}, {name: other}], initContainers: [\
         {name: one, restartPolicy: Always}, {name: two, restartPolicy: Always}]}",
    );
    let mut rig = Rig::up(&pod);
    assert_eq!(rig.running().len(), 5);
    rig.take_calls();
    rig.wish(stop(None));
    rig.pass(s(60));
    let acts: Vec<String> = rig.take_acts().into_iter().filter(|a| a.starts_with("kill")).collect();
    let expected = [
        "kill app#0 SIGTERM",
        "kill other#0 SIGTERM",
        "kill two#0 SIGTERM",
        "kill one#0 SIGTERM",
        "kill POD#0 SIGTERM",
    ];
    let mut sorted = acts.clone();
    sorted.get_mut(..2).unwrap().sort();
    assert_eq!(sorted, expected);
}

/// All containers share the pod's grace: sidecars get the rest that the containers left; each gets at least two
/// seconds.
#[test]
fn sidecars_get_what_is_left_of_the_grace() {
    let pod = pod("{terminationGracePeriodSeconds: 30, containers: [{name: app}], initContainers: [\
         {name: one, restartPolicy: Always}, {name: two, restartPolicy: Always}]}");
    let mut rig = Rig::fresh();
    for name in ["app", "one", "two"] {
        rig.engine.behave(name, Behaviour::ignores_term());
    }
    rig.run(&pod);
    rig.pass(s(5));
    let begun = super::rig::ms_of(rig.now);
    rig.wish(stop(None));
    rig.pass(s(120));
    let at = |name: &str| after(&rig, begun, &format!("kill {name}#0 SIGKILL"))[0] / 1000;
    // The grace is over for both: they stop at the same time.
    assert_eq!((at("app"), at("two"), at("one")), (30, 32, 32));
    assert!(rig.is("terminated"));
    // A container that ends early leaves its time to the next.
    let mut rig = Rig::fresh();
    rig.engine.behave("two", Behaviour::ignores_term());
    rig.run(&pod);
    rig.pass(s(5));
    let begun = super::rig::ms_of(rig.now);
    rig.wish(stop(None));
    rig.pass(s(120));
    assert_eq!(after(&rig, begun, "kill two#0 SIGKILL")[0] / 1000, 30);
}

#[test]
fn a_stop_during_a_start_leaves_nothing() {
    for at in (0..260).step_by(3) {
        let mut rig = Rig::fresh();
        rig.run(&app());
        rig.pass(super::rig::ms(at));
        rig.wish(stop(None));
        rig.pass(s(30));
        assert!(rig.is("terminated"), "{at} ms");
        assert_eq!(rig.engine.containers().count(), 0, "{at} ms: {:?}", rig.calls);
        assert!(rig.reports.contains(&Report::Gone(2)), "{at} ms");
    }
}

#[test]
fn a_stop_of_what_was_found_without_a_manifest_uses_what_is_written_on_it() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::ignores_term());
    rig.run(&deaf(7));
    rig.pass(s(5));
    let mut rig = rig.reborn();
    let begun = super::rig::ms_of(rig.now);
    rig.wish(stop(None));
    rig.pass(s(60));
    let kill = after(&rig, begun, "kill app#0 SIGKILL")[0];
    assert_eq!(kill / 1000, 7);
    assert!(rig.is("terminated"));
}

#[test]
fn a_changed_container_is_stopped_with_its_grace_and_made_again() {
    let mut rig = Rig::fresh();
    rig.engine.add_image("other", true);
    rig.engine.behave("app", Behaviour::ignores_term());
    rig.run(&deaf(5));
    rig.pass(s(5));
    rig.take_calls();
    rig.run(&pod("{terminationGracePeriodSeconds: 5, containers: [{name: app, image: other}]}"));
    rig.pass(s(60));
    let acts = ["kill app#0 SIGTERM", "kill app#0 SIGKILL", "create app#1", "start app#1"];
    assert_eq!(rig.take_acts(), acts);
    let told =
        rig.log.iter().any(|(_, _, l)| l.contains("Container app definition changed, will be restarted"));
    assert!(told, "{:?}", rig.log);
}

/// An edit asks for the stop, and is reverted within the grace.
#[test]
fn a_stop_that_has_begun_ends_and_leaves_nothing_behind() {
    let of = |image: &str, memory: &str| {
        let limits = format!("resources: {{limits: {{memory: {memory}}}}}");
        pod(&format!("{{containers: [{{name: app, image: {image}, {limits}}}]}}"))
    };
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::ignores_term());
    rig.run(&of("busybox", "64Mi"));
    rig.pass(s(5));
    rig.run(&of("other", "64Mi"));
    rig.pass(s(5));
    assert_eq!(rig.times("kill app#0 SIGTERM").len(), 1);
    rig.run(&of("busybox", "64Mi"));
    rig.pass(s(60));
    assert!(rig.running().contains("app#1"), "{:?}", rig.running());
    rig.take_acts();
    rig.run(&of("busybox", "32Mi"));
    rig.pass(s(60));
    assert_eq!(rig.take_acts(), ["update app#1"]);
}

/// Only the sandbox runs, because the image never comes.
#[test]
fn the_sandbox_of_a_pod_that_goes_again_lingers_again() {
    let mut rig = Rig::fresh();
    let waits = pod("{containers: [{name: app, image: 'no-such:1', imagePullPolicy: Never}]}");
    let mut stops = Vec::new();
    for _ in 0..2 {
        rig.run(&waits);
        rig.pass(s(20));
        stops.push((rig.now().mono, rig.calls.len()));
        rig.wish(stop(Some(2)));
        rig.pass(s(20));
    }
    for (asked, before) in stops {
        let signal = rig.calls.iter().skip(before).find(|(_, words)| words.starts_with("kill"));
        let (at, _) = signal.unwrap();
        assert!(at.since(asked) >= limits::SANDBOX_LINGER, "{:?}", at.since(asked));
    }
}

/// Containers end in their order, with the pod's grace and while its network exists; the sandbox is last. That also
/// holds when the daemon is killed in between.
#[test]
fn a_pod_that_somebody_restarts_keeps_its_sandbox_until_its_containers_have_ended() {
    let pod = pod(
        "{terminationGracePeriodSeconds: 9, containers: [{name: app}], initContainers: [{name: side, restartPolicy: Always}]}",
    );
    for killed in [false, true] {
        let mut rig = Rig::fresh();
        rig.engine.behave("app", Behaviour::ignores_term());
        rig.run(&pod);
        rig.pass(s(5));
        let begun = super::rig::ms_of(rig.now);
        let name = crate::runtime::names::to_restart(&pod.key, &pod.uid, 0);
        rig.by_hand(&Call::Rename { id: rig.id("POD#0"), name });
        rig.pass(s(2));
        assert!(after(&rig, begun, "kill app#0 SIGTERM").iter().all(|at| *at < 10));
        assert!(rig.running().contains("POD#0+"));
        let log = rig.logged(log::Level::Info).join("\n");
        let told = "SandboxChanged: A restart of the pod was asked for, it will be killed";
        assert!(log.contains(told) && !log.contains("Pod sandbox changed"), "{log}");
        if killed {
            rig = rig.reborn();
            rig.run(&pod);
        }
        rig.pass(s(60));
        let at = |call: &str| after(&rig, begun, call)[0];
        let kill = at("kill app#0 SIGKILL");
        let expected = if killed { 11_000..11_500 } else { 9000..9500 };
        assert!(expected.contains(&kill), "{kill} ms");
        assert!(kill <= at("kill side#0 SIGTERM") && at("kill side#0 SIGTERM") < at("kill POD#0+ SIGTERM"));
        assert_eq!(rig.running(), ["POD#1", "app#1", "side#1"].map(str::to_owned).into());
        rig.calls.clear();
        rig.pass(s(60));
        assert!(rig.take_acts().is_empty(), "once");
    }
}

/// Each restart counted as a crash: the next ones waited for 10, 20 and 40 seconds. A daemon that is killed during the
/// stop, or once all has ended, leaves the rest to the next one.
#[test]
fn a_restart_that_somebody_asks_for_is_no_crash() {
    let pod = pod("{terminationGracePeriodSeconds: 2, containers: [{name: app}]}");
    for killed in [&[][..], &[ms(500)], &[ms(2050)], &[ms(500), ms(2050)]] {
        let mut rig = Rig::fresh();
        rig.engine.behave("app", Behaviour::ignores_term());
        rig.run(&pod);
        rig.pass(s(5));
        for n in 0..5 {
            let asked = rig.now;
            let name = crate::runtime::names::to_restart(&pod.key, &pod.uid, n);
            rig.by_hand(&Call::Rename { id: rig.id(&format!("POD#{n}")), name });
            for after in killed {
                rig.pass(*after - rig.now.since(asked));
                rig = rig.reborn();
                rig.run(&pod);
            }
            let next = n + 1;
            let started = rig.pass_until(&format!("start app#{next}")).since(asked);
            assert!(started < s(5), "{killed:?}: app#{next} starts after {started:?}");
            rig.pass(s(1));
            assert_eq!(rig.running(), [format!("POD#{next}"), format!("app#{next}")].into());
            let told = rig.last_status().container_statuses.unwrap().remove(0);
            let last = told.last_state.unwrap().terminated.unwrap();
            assert_eq!((told.restart_count, last.exit_code), (next as i32, 137), "{killed:?}");
        }
        // And no restart shortens the wait after real crashes that follow.
        rig.engine.behave("app", Behaviour::exits(3, ms(200)));
        let (id, now) = (rig.id("app#5"), rig.now());
        rig.engine.crash(&id, 3, now);
        rig.pass(s(200));
        let made: Vec<u64> =
            (6..11).filter_map(|n| rig.times(&format!("create app#{n}")).first().copied()).collect();
        let pauses: Vec<u64> = made.windows(2).map(|w| (w[1] - w[0]) / 1000).collect();
        // An end that no daemon saw counts as the first crash, as always.
        let unseen = killed.contains(&ms(2050)) && pauses == [20, 40, 80];
        assert!(unseen || pauses == [10, 20, 40, 80], "{killed:?}: {pauses:?}");
    }
}

/// A pod in back-off starts at once, and its next crash is the first one again.
#[test]
fn a_restart_that_somebody_asks_for_ends_a_back_off() {
    let pod = pod("{containers: [{name: app}]}");
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&pod);
    rig.pass(s(80));
    assert!(
        rig.waits("app").starts_with("CrashLoopBackOff: back-off 1m20s")
            || rig.waits("app").starts_with("CrashLoopBackOff: back-off 40s"),
        "{}",
        rig.waits("app")
    );
    let ran = rig.calls.iter().filter(|(_, words)| words.starts_with("create app")).count();
    let asked = rig.now;
    let name = crate::runtime::names::to_restart(&pod.key, &pod.uid, 0);
    rig.by_hand(&Call::Rename { id: rig.id("POD#0"), name });
    let started = rig.pass_until(&format!("start app#{ran}")).since(asked);
    assert!(started < s(2), "{started:?}");
    let again = rig.pass_until(&format!("start app#{}", ran + 1)).since(asked);
    assert!(again < s(3), "{again:?}");
}

/// Regression: a container that was being stopped while Docker was away for longer than its grace got KILL when Docker was
/// there again, and never its stop signal.
#[test]
fn the_grace_counts_from_a_signal_that_docker_has_taken() {
    let check = |what: &str,
                 away: &dyn Fn(&mut Rig),
                 back: &dyn Fn(&mut Rig),
                 asked: std::ops::Range<u64>| {
        let (mut rig, _) = begin(&deaf(10));
        away(&mut rig);
        rig.wish(stop(None));
        rig.pass(s(40));
        back(&mut rig);
        let back = super::rig::ms_of(rig.now);
        rig.pass(s(60));
        // From the last one, which arrived.
        let term = rig.times("kill app#0 SIGTERM").last().map(|at| at.saturating_sub(back)).unwrap();
        let kill = after(&rig, back, "kill app#0 SIGKILL");
        assert!(asked.contains(&term), "{what}: {term} ms");
        assert!(kill.len() == 1 && (10_000..10_100).contains(&(kill[0] - term)), "{what}: {term}, {kill:?}");
        assert!(rig.is("terminated"), "{what}");
    };
    let says =
        |error: DockerError| move |rig: &mut Rig| rig.hurt("kill", u32::MAX, Hurt::Says(error.clone()));
    let heal = |rig: &mut Rig| {
        rig.heal();
        rig.hint(Hint::All);
    };
    check("away", &says(DockerError::Unreachable("no socket".into())), &heal, 0..100);
    let refuses = refusal(RefusalKind::Conflict, 500, "oops");
    check("refuses", &says(refuses), &|rig| rig.heal(), 1..25_000);
    check("does not answer", &says(timeout()), &|rig| rig.heal(), 1..25_000);
    check("answers late", &|rig| rig.hurt("kill app#0", 1, Hurt::Slow(s(40))), &|_| {}, 0..1);
}

/// Regression: sidecars ended by the time alone, before the containers that Docker had not signalled yet.
#[test]
fn sidecars_wait_for_what_docker_has_not_signalled() {
    let check = |what: &str, hurt: Hurt, times: u32| {
        let mut rig = Rig::fresh();
        rig.engine.behave("app", Behaviour::ignores_term());
        rig.run(&pod(
            "{terminationGracePeriodSeconds: 9, containers: [{name: app}], initContainers: [{name: side, restartPolicy: Always}]}",
        ));
        rig.pass(s(5));
        rig.hurt("kill", times, hurt);
        rig.wish(stop(None));
        rig.pass(s(40));
        rig.heal();
        rig.hint(Hint::All);
        rig.pass(s(90));
        let last = |call: &str| *rig.times(call).last().unwrap();
        let calls = ["kill app#0 SIGTERM", "kill app#0 SIGKILL", "kill side#0 SIGTERM", "kill POD#0 SIGTERM"];
        assert!(calls.map(last).is_sorted(), "{what}: {:?}", rig.calls);
        assert_eq!(rig.times("kill side#0 SIGTERM").len(), 1, "{what}: {:?}", rig.calls);
    };
    check("away", Hurt::Says(DockerError::Unreachable("no socket".into())), u32::MAX);
    check("refuses", Hurt::Says(refusal(RefusalKind::Conflict, 500, "oops")), u32::MAX);
    check("does not answer", Hurt::Says(timeout()), u32::MAX);
    check("answers late", Hurt::Slow(s(25)), 1);
}
