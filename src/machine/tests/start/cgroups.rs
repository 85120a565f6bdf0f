//! Tests that containers wait for the pod's cgroup, and that a pod runs without one that cannot be made.

use super::rig::{Rig, app, s, stop};
use crate::cgroup::{NoCgroup, Report};
use crate::runtime::Call;

#[test]
fn containers_wait_for_the_cgroup_and_nothing_else_does() {
    let mut rig = Rig::fresh();
    rig.cgroups.hang = true;
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.take_acts(), [""; 0], "nothing is made before its limits are in force");
    let pod = Box::new(rig.cgroups.told[0].clone().unwrap());
    // A stop of the pod does not wait.
    rig.wish(stop(None));
    rig.pass(s(1));
    assert!(rig.is("terminated"));
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.take_acts(), [""; 0]);
    rig.cgroups.hang = false;
    rig.slot.cgroup(Report::Ensured { pod, moved: None, inside: Vec::new(), result: Ok(()) });
    rig.step();
    rig.pass(s(5));
    assert_eq!(rig.status(), "Running, app: running");
}

#[test]
fn what_runs_goes_on_beside_a_cgroup_that_hangs() {
    let mut rig = Rig::up(&app()).reborn();
    rig.cgroups.hang = true;
    rig.run(&app());
    rig.pass(s(5));
    assert_eq!(rig.status(), "Running, app: running");
    rig.wish(stop(Some(1)));
    rig.pass(s(10));
    assert_eq!(rig.running().len(), 0);
}

#[test]
fn a_pod_runs_without_its_cgroup_and_says_so() {
    let mut rig = Rig::fresh();
    rig.cgroups.answer = Err(NoCgroup::Failed("systemctl did not end within 10 s".to_owned()));
    rig.run(&app());
    rig.pass(s(5));
    assert_eq!(rig.status(), "Running, app: running");
    let told =
        |rig: &Rig| rig.log.iter().filter(|(_, _, line)| line.contains("FailedToCreatePodContainer")).count();
    assert_eq!(told(&rig), 1, "{:?}", rig.log);
    // It is retried until it works, and reported once.
    let tried = rig.cgroups.told.len();
    rig.pass(s(600));
    assert!(rig.cgroups.told.len() > tried + 2, "{} tries", rig.cgroups.told.len());
    assert_eq!(told(&rig), 1);
    rig.cgroups.answer = Ok(());
    rig.pass(s(600));
    let tried = rig.cgroups.told.len();
    rig.pass(s(600));
    assert_eq!(rig.cgroups.told.len(), tried, "it is as it should be");
}

/// Its containers would be killed with those of the other pod.
#[test]
fn a_pod_runs_outside_of_a_cgroup_in_which_another_podkeeper_runs_one() {
    let mut rig = Rig::fresh();
    rig.cgroups.answer = Err(NoCgroup::Taken("a pod with the same UID runs there".to_owned()));
    rig.run(&app());
    let parents = |rig: &Rig| {
        let all = rig.engine.containers().filter(|c| c.state == crate::runtime::DockerState::Running);
        all.map(|c| c.body.host_config.cgroup_parent.clone()).collect::<Vec<_>>()
    };
    rig.pass(s(60));
    assert_eq!(rig.status(), "Running, app: running");
    assert_eq!(parents(&rig), ["", ""]);
    // The other pod is gone: new containers are in the cgroup.
    rig.cgroups.answer = Ok(());
    rig.pass(s(60));
    rig.by_hand(&Call::Kill { id: rig.id("POD#0"), signal: "KILL".into() });
    rig.pass(s(60));
    assert_eq!(rig.status(), "Running, app: running");
    assert!(parents(&rig).iter().all(|parent| !parent.is_empty()), "{:?}", parents(&rig));
}

#[test]
fn a_pod_that_is_gone_is_gone_once_its_cgroup_is() {
    use crate::machine::Report as Told;
    let mut rig = Rig::up(&app());
    rig.cgroups.hang = true;
    rig.wish(stop(Some(1)));
    rig.pass(s(60));
    let gone = |rig: &Rig| rig.reports.iter().any(|report| matches!(report, Told::Gone(_)));
    assert!(rig.in_state(crate::runtime::DockerState::Exited).is_empty() && rig.running().is_empty());
    assert!(!gone(&rig), "a successor of its UID would find it half removed");
    let result = Err("it does not end".to_owned());
    rig.slot.cgroup(Report::Removed { uid: app().uid.clone(), result });
    rig.step();
    rig.pass(s(1));
    assert!(gone(&rig));
    assert!(
        rig.logged(log::Level::Warn)
            .iter()
            .any(|line| line.contains("FailedKillPod: error removing cgroup of pod"))
    );
}

#[test]
fn a_cgroup_is_asked_for_again_with_each_sandbox() {
    let mut rig = Rig::up(&app());
    assert_eq!(rig.cgroups.told.len(), 1);
    rig.by_hand(&Call::Kill { id: rig.id("POD#0"), signal: "KILL".into() });
    rig.pass(s(60));
    assert_eq!(rig.cgroups.told.len(), 2, "who killed it may have taken the cgroup too");
    assert_eq!(rig.status(), "Running, app: running");
}

/// Two pods had this name one after the other: the containers in one's cgroup say nothing about the other's.
#[test]
fn what_is_in_the_cgroup_of_one_uid_is_not_forgotten_for_that_of_another() {
    let old = super::rig::pod_with("uid-0", "{containers: [{name: app}]}");
    let rig = Rig::up(&old);
    let left_out = vec![rig.id("uid-0/app#0"), rig.id("uid-0/POD#0")];
    let mut rig = rig.reborn();
    rig.hurt("list", u32::MAX, super::rig::Hurt::LeavesOut(left_out.clone()));
    for id in &left_out {
        rig.engine.hang_inspect(id, true);
    }
    rig.run(&old);
    rig.pass(s(2));
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running().len(), 2, "no second set beside one that cannot be looked at: {:?}", rig.calls);
    for id in &left_out {
        rig.engine.hang_inspect(id, false);
    }
    rig.pass(s(120));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into(), "{:?}", rig.calls);
}
