//! Tests of activeDeadlineSeconds: when it passes, that it lasts, and that no clock brings it forward.

use std::sync::Arc;

use super::rig::{Hurt, Rig, ms, no_space, pod, s};
use crate::pod::DesiredPod;
use crate::runtime::fake::Behaviour;

fn limited(policy: &str, seconds: u32) -> Arc<DesiredPod> {
    pod(&format!(
        "{{restartPolicy: {policy}, activeDeadlineSeconds: {seconds}, containers: [{{name: app}}]}}"
    ))
}

fn reason(rig: &Rig) -> String {
    let status = rig.last_status();
    [status.phase, status.reason, status.message].map(Option::unwrap_or_default).join(": ")
}

const EXCEEDED: &str =
    "Failed: DeadlineExceeded: Pod was active on the node longer than the specified deadline";

/// The pod runs for 29 seconds more, and its deadline passes within the next four.
fn strikes_after_29_seconds(rig: &mut Rig) {
    rig.pass(s(29));
    assert_eq!(rig.status(), "Running, app: running");
    rig.pass(s(4));
    assert_eq!(reason(rig), EXCEEDED);
}

#[test]
fn it_stops_the_pod_and_fails_it_for_good() {
    for policy in ["Always", "OnFailure", "Never"] {
        let pod = limited(policy, 30);
        let mut rig = Rig::up(&pod);
        rig.pass(s(24));
        assert_eq!(rig.status(), "Running, app: running", "{policy}");
        rig.pass(s(4));
        assert!(rig.running().is_empty(), "{policy}: {:?}", rig.running());
        assert_eq!(reason(&rig), EXCEEDED, "{policy}");
        let killed = rig.times("kill app#0 SIGTERM")[0];
        assert!((30_000..30_200).contains(&killed), "{killed} ms");
        let written = rig.times("rename POD#0 POD#0+");
        assert_eq!(written.len(), 1);
        assert!(written[0] < killed, "written down before anything ends");
        rig.pass(s(100_000));
        assert_eq!(reason(&rig), EXCEEDED, "{policy}");
        rig.calls.clear();
        // It holds for every later daemon, also after a power cut.
        let mut rig = rig.reborn();
        rig.run(&pod);
        rig.pass(s(600));
        assert_eq!(reason(&rig), EXCEEDED, "{policy}, reborn");
        assert!(rig.take_acts().iter().all(|c| c.starts_with("remove")), "{policy}");
        let mut rig = rig.power_cut(-86_400 * 365 * 50);
        rig.run(&pod);
        rig.pass(s(600));
        assert_eq!(reason(&rig), EXCEEDED, "{policy}, after a power cut");
        assert!(rig.running().is_empty() && rig.take_acts().is_empty(), "{policy}");
    }
}

#[test]
fn its_containers_have_their_grace_and_no_more() {
    let pod = pod(
        "{terminationGracePeriodSeconds: 7, activeDeadlineSeconds: 20, containers: [{name: app}, {name: other}]}",
    );
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::ignores_term());
    rig.run(&pod);
    rig.pass(s(23));
    assert_eq!(rig.last_status().reason, None, "not while a container holds what others may want");
    rig.pass(s(10));
    let (term, kill) = (rig.times("kill app#0 SIGTERM")[0], rig.times("kill app#0 SIGKILL")[0]);
    assert!((7_000..7_100).contains(&(kill - term)), "{} ms", kill - term);
    assert_eq!(reason(&rig), EXCEEDED);
    assert!(rig.running().is_empty());
}

#[test]
fn it_is_counted_on_by_the_next_daemon() {
    let pod = limited("Always", 100);
    let mut rig = Rig::up(&pod);
    rig.pass(s(65));
    // The clock of the rig continues: the next daemon starts 70 seconds after the boot.
    let mut rig = rig.reborn();
    rig.run(&pod);
    strikes_after_29_seconds(&mut rig);
}

#[test]
fn a_new_sandbox_does_not_begin_anew() {
    let pod = limited("Always", 100);
    let mut rig = Rig::up(&pod);
    rig.pass(s(45));
    let (id, now) = (rig.id("POD#0"), rig.now());
    rig.engine.crash(&id, 1, now);
    rig.pass(s(20));
    assert_eq!(rig.status(), "Running, app: running");
    let mut rig = rig.reborn();
    rig.run(&pod);
    strikes_after_29_seconds(&mut rig);
}

#[test]
fn no_jump_of_the_wall_clock_brings_it_forward() {
    let pod = limited("Always", 100);
    for jump in [86_400 * 365 * 50, -86_400 * 365 * 20] {
        let mut rig = Rig::up(&pod);
        rig.wall_offset += jump;
        rig.pass(s(20));
        assert_eq!(rig.status(), "Running, app: running", "{jump}, under one daemon");
        let mut rig = rig.reborn();
        rig.run(&pod);
        rig.pass(s(20));
        assert_eq!(rig.status(), "Running, app: running", "{jump}, seen by the next one");
        // The daemon cannot know how long the power was off, or which of the two clocks was right.
        let mut rig = rig.power_cut(jump);
        rig.run(&pod);
        rig.pass(s(97));
        assert_eq!(rig.status(), "Running, app: running", "{jump}, after a power cut");
        rig.pass(s(10));
        assert_eq!(reason(&rig), EXCEEDED, "{jump}");
    }
}

#[test]
fn a_pod_that_has_ended_by_itself_stays_what_it_is() {
    for (code, phase) in [(0, "Succeeded: : "), (3, "Failed: : ")] {
        let pod = limited("Never", 60);
        let mut rig = Rig::fresh();
        rig.engine.behave("app", Behaviour::exits(code, s(2)));
        rig.run(&pod);
        rig.pass(s(600));
        assert_eq!(reason(&rig), phase);
        let mut rig = rig.reborn();
        rig.run(&pod);
        rig.pass(s(600));
        assert_eq!(reason(&rig), phase, "reborn long after the deadline");
        assert!(rig.take_acts().is_empty());
    }
}

/// Upstream counts from the moment when the pod is accepted: its waiting counts too.
#[test]
fn waiting_counts_and_a_pod_that_never_ran_fails() {
    let mut rig = Rig::fresh();
    rig.run(&pod("{activeDeadlineSeconds: 40, containers: [{name: app, image: 'no/such:1'}]}"));
    rig.pass(s(39));
    assert!(rig.running().contains("POD#0"));
    rig.pass(s(5));
    assert_eq!(reason(&rig), EXCEEDED);
    assert!(rig.running().is_empty());
}

#[test]
fn a_mark_that_docker_refuses_stops_the_pod_all_the_same_and_is_tried_again() {
    let pod = limited("Always", 30);
    let mut rig = Rig::up(&pod);
    rig.hurt("rename", 3, Hurt::Says(no_space()));
    rig.pass(s(60));
    assert_eq!(reason(&rig), EXCEEDED);
    assert_eq!(rig.times("rename POD#0 POD#0+").len(), 4);
    let mut rig = rig.power_cut(0);
    rig.run(&pod);
    rig.pass(s(60));
    assert_eq!(reason(&rig), EXCEEDED);
}

#[test]
fn a_pod_of_the_same_uid_that_comes_again_begins_anew() {
    let pod = limited("Always", 30);
    let mut rig = Rig::up(&pod);
    rig.pass(s(60));
    assert_eq!(reason(&rig), EXCEEDED);
    rig.wish(super::rig::stop(None));
    rig.pass(ms(500));
    rig.run(&pod);
    rig.pass(s(10));
    assert_eq!(rig.status(), "Running, app: running");
}

/// Regression: the dead sandbox of a pod's first life, which Docker could not remove, ended the second life at the next start of
/// podkeeper.
#[test]
fn an_earlier_life_says_nothing_about_the_next() {
    let pod = limited("Always", 30);
    let mut rig = Rig::up(&pod);
    rig.pass(s(60));
    assert_eq!(reason(&rig), EXCEEDED);
    rig.hurt("remove POD#0", u32::MAX, super::rig::Hurt::Says(super::rig::timeout()));
    rig.wish(super::rig::stop(None));
    rig.pass(ms(500));
    rig.run(&pod);
    rig.pass(s(10));
    let mut rig = rig.reborn();
    rig.run(&pod);
    rig.pass(s(5));
    assert_eq!(rig.status(), "Running, app: running");
    rig.pass(s(30));
    assert_eq!(reason(&rig), EXCEEDED, "its own time counts");
}
