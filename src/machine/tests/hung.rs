//! Tests that a call that hangs, or is lost or refused again and again, holds up only its own container.

use log::Level;

use super::rig::{Hurt, Rig, app, ms, pod, refusal, s, stop};
use crate::base::table::Set;
use crate::machine::{Hint, Report};
use crate::runtime::{DockerError, RefusalKind};

const TWO: &str = "{containers: [{name: app}, {name: other}]}";

fn gone(rig: &Rig) -> bool {
    rig.reports.iter().any(|report| matches!(report, Report::Gone(_)))
}

#[test]
fn a_pod_is_stopped_while_a_part_of_a_volume_hangs() {
    let spec = "{containers: [{name: app}, {name: other, volumeMounts: [{name: v, mountPath: /v, subPath: p}]}], \
                volumes: [{name: v, hostPath: {path: /srv}}]}";
    let mut rig = Rig::fresh();
    rig.volumes.parts_hang = true;
    rig.run(&pod(spec));
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into());
    rig.wish(stop(Some(1)));
    rig.pass(s(30));
    assert!(rig.is("terminated") && gone(&rig), "{:?}", rig.calls);
    assert!(!rig.calls.iter().any(|(_, words)| words == "create other#0"), "it is not sent any more");
}

#[test]
fn a_stop_waits_for_no_look() {
    let mut rig = Rig::up(&pod(TWO));
    let other = rig.id("other#0");
    rig.engine.hang_inspect(&other, true);
    rig.hint(Hint::Changed(other));
    rig.pass(ms(100));
    rig.take_acts();
    rig.wish(stop(None));
    rig.pass(ms(5));
    let both = ["kill app#0 SIGTERM", "kill other#0 SIGTERM"];
    assert_eq!(rig.take_acts(), both, "an inspect of the other one is under way, and hangs");
    rig.pass(s(60));
    assert!(rig.is("terminated"));
}

/// A sandbox is stopped last, and an inspect that hangs takes ten seconds to fail.
#[test]
fn the_stop_of_a_sandbox_waits_for_no_look() {
    let mut rig = Rig::up(&pod(TWO));
    rig.wish(stop(None));
    rig.pass_until("kill other#0 SIGTERM");
    let sandbox = rig.id("POD#0");
    rig.engine.hang_inspect(&sandbox, true);
    rig.hint(Hint::Changed(sandbox));
    rig.pass(s(5));
    assert_eq!(rig.running(), Set::new(), "{:?}", rig.calls);
}

#[test]
fn a_stop_waits_for_no_call_that_was_lost() {
    let mut rig = Rig::fresh();
    rig.hurt("create other", u32::MAX, Hurt::Says(DockerError::Lost("reset".into())));
    rig.run(&pod(TWO));
    rig.pass(s(120));
    rig.pass_until("create other#0");
    rig.pass(s(5));
    rig.take_acts();
    rig.wish(stop(None));
    rig.pass(ms(5));
    assert_eq!(rig.take_acts(), ["kill app#0 SIGTERM"]);
}

/// It waits for up to 30 s between two tries; the other containers do not.
#[test]
fn a_create_that_is_lost_again_and_again_holds_up_nothing_but_itself() {
    for lost in [DockerError::Lost("reset".into()), DockerError::BadAnswer("no JSON".into())] {
        let mut rig = Rig::fresh();
        rig.hurt("create other", u32::MAX, Hurt::Says(lost));
        rig.run(&pod(TWO));
        rig.pass(s(120));
        rig.pass_until("create other#0");
        let (id, now) = (rig.id("app#0"), rig.now());
        rig.pass(s(3));
        rig.engine.crash(&id, 1, now);
        rig.pass(s(1));
        assert!(rig.running().contains("app#1"), "{:?}", rig.calls.last_chunk::<9>());
        rig.heal();
        rig.pass(s(60));
        assert!(rig.running().contains("other#0"));
    }
}

/// Docker 26 under load says of a container that has ended that it runs, for a moment: each pod that ended had a warning.
#[test]
fn a_removal_that_docker_refuses_once_for_a_running_container_is_no_failure() {
    for (times, told) in [(1, 0), (2, 1), (5, 1)] {
        let mut rig = Rig::up(&app());
        rig.hurt("remove app#0", times, Hurt::Says(refusal(RefusalKind::StillRunning, 409, "it is running")));
        rig.wish(stop(None));
        rig.pass(s(120));
        assert!(rig.is("terminated"), "{times}: {:?}", rig.calls);
        let lines = rig.logged(Level::Warn);
        let count = lines.iter().filter(|line| line.contains("FailedRemoveContainer")).count();
        assert_eq!(count, told, "refused {times} times: {lines:?}");
    }
}
