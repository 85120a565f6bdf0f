//! Tests that a terminal phase is final: after restarts of the daemon, of the engine, of the machine, and after changes
//! by hand.

use std::sync::Arc;

use super::rig::{Rig, ms, pod, s};
use crate::pod::DesiredPod;
use crate::runtime::Call;
use crate::runtime::fake::{Behaviour, Restart};

/// Checks that a pod of this policy, ended with this code, never runs again.
fn check(spec: &str, code: i64, phase: &str) {
    let pod = pod(spec);
    let is = |rig: &Rig, when: &str| {
        assert_eq!(rig.last_status().phase.as_deref(), Some(phase), "{spec} {code}: {when}");
        assert!(rig.running().is_empty(), "{spec} {code}: {when}: {:?}", rig.running());
    };
    let quiet = |rig: &mut Rig, when: &str| {
        let acts = rig.take_acts();
        assert!(
            !acts.iter().any(|c| c.starts_with("create") || c.starts_with("start")),
            "{spec} {when}: {acts:?}"
        );
    };
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(code, s(2)));
    rig.run(&pod);
    rig.pass(s(20));
    is(&rig, "at first");
    rig.take_acts();
    let now = rig.now();
    rig.engine.restart_engine(Restart::Orderly, now);
    rig.hint(crate::machine::Hint::All);
    rig.pass(s(700));
    is(&rig, "after an engine restart");
    quiet(&mut rig, "engine restart");
    let mut rig = rig.reborn();
    rig.run(&pod);
    rig.pass(s(700));
    is(&rig, "after a daemon restart");
    quiet(&mut rig, "daemon restart");
    let now = rig.now();
    rig.engine.restart_engine(Restart::PowerCut, now);
    let mut rig = rig.reborn();
    rig.run(&pod);
    rig.pass(s(700));
    is(&rig, "after both");
    quiet(&mut rig, "both");
    let mut rig = rig.power_cut(-1_000_000_000);
    rig.run(&pod);
    rig.pass(s(700));
    is(&rig, "after a power cut");
    quiet(&mut rig, "power cut");
    // Edited under the same UID, in a field that is no reason to run again.
    let mut other = (*pod).clone();
    other.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    rig.run(&std::sync::Arc::new(other));
    rig.pass(s(60));
    is(&rig, "after an edit");
    quiet(&mut rig, "edit");
    // Started by hand, it is stopped again.
    rig.engine.behave("app", Behaviour::default());
    let (sandbox, app) = (rig.id("POD#0"), rig.engine.containers().find(|c| c.name.starts_with("k8s_app")));
    let app = app.unwrap().id.clone();
    rig.by_hand(&Call::Start { id: sandbox });
    rig.by_hand(&Call::Start { id: app });
    rig.pass(s(60));
    assert!(rig.running().is_empty(), "{spec}: started by hand");
}

macro_rules! terminal {
    ($($name:ident: $spec:expr, $code:expr => $phase:expr;)*) => {
        $(#[test] fn $name() { check($spec, $code, $phase); })*
    };
}

terminal! {
    never_exit_0: "{restartPolicy: Never, containers: [{name: app}]}", 0 => "Succeeded";
    never_exit_1: "{restartPolicy: Never, containers: [{name: app}]}", 1 => "Failed";
    on_failure_exit_0: "{restartPolicy: OnFailure, containers: [{name: app}]}", 0 => "Succeeded";
    container_never_in_a_pod_always_exit_0:
        "{containers: [{name: app, restartPolicy: Never}]}", 0 => "Succeeded";
    container_never_in_a_pod_always_exit_1:
        "{containers: [{name: app, restartPolicy: Never}]}", 1 => "Failed";
    container_on_failure_in_a_pod_never_exit_0:
        "{restartPolicy: Never, containers: [{name: app, restartPolicy: OnFailure}]}", 0 => "Succeeded";
    no_rule_matches_exit_41:
        "{containers: [{name: app, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}]}",
        41 => "Failed";
    beside_a_sidecar_exit_0:
        "{restartPolicy: OnFailure, initContainers: [{name: side, restartPolicy: Always}], containers: [{name: app}]}",
        0 => "Succeeded";
}

/// A plain init container that failed for good.
#[test]
fn never_init_exit_1() {
    let pod = pod("{restartPolicy: Never, initContainers: [{name: i}], containers: [{name: app}]}");
    let mut rig = Rig::fresh();
    rig.engine.behave("i", Behaviour::exits(1, ms(500)));
    rig.run(&pod);
    rig.pass(s(20));
    for turn in 0..3 {
        assert_eq!(rig.last_status().phase.as_deref(), Some("Failed"), "{turn}");
        assert!(rig.running().is_empty());
        let now = rig.now();
        rig.engine.restart_engine(Restart::PowerCut, now);
        rig = rig.reborn();
        rig.run(&pod);
        rig.pass(s(700));
        assert!(rig.take_acts().iter().all(|c| c.starts_with("remove")));
    }
}

#[test]
fn a_rule_restarts_within_a_pod_that_never_does() {
    let rule = "{restartPolicy: Never, containers: [{name: app, restartPolicy: Never, restartPolicyRules: \
                [{action: Restart, exitCodes: {operator: In, values: [42]}}]}]}";
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(42, s(1)));
    rig.run(&pod(rule));
    rig.pass(s(5));
    assert_eq!(rig.last_status().phase.as_deref(), Some("Running"));
    rig.engine.behave("app", Behaviour::exits(0, s(1)));
    rig.pass(s(30));
    assert_eq!(rig.last_status().phase.as_deref(), Some("Succeeded"));
    assert!(rig.running().is_empty());
}

/// A pod that never restarts, and a power cut (kubernetes/kubernetes#141948).
#[test]
fn a_power_cut_does_not_end_what_has_not_run_or_always_restarts() {
    let cut = |mut rig: Rig, pod: &Arc<DesiredPod>| {
        let now = rig.now();
        rig.engine.restart_engine(Restart::PowerCut, now);
        rig = rig.reborn();
        rig.run(pod);
        rig
    };
    let always = pod("{restartPolicy: Never, containers: [{name: app, restartPolicy: Always}]}");
    let mut rig = cut(Rig::up(&always), &always);
    rig.pass(s(700));
    assert!(!rig.running().is_empty());
    // The image comes after the cut; the init container has finished before.
    let spec = "{restartPolicy: Never, initContainers: [{name: i}], containers: [{name: app, image: late, imagePullPolicy: Never}]}";
    let late = pod(spec);
    let mut rig = Rig::fresh();
    rig.engine.behave("i", Behaviour::exits(0, ms(500)));
    rig.engine.behave("app", Behaviour::exits(0, s(1)));
    rig.run(&late);
    rig.pass(s(20));
    assert_eq!(rig.last_status().phase.as_deref(), Some("Pending"));
    let mut rig = cut(rig, &late);
    rig.take_acts();
    rig.engine.add_image("late", true);
    rig.pass(s(700));
    assert_eq!(rig.last_status().phase.as_deref(), Some("Succeeded"));
    assert!(!rig.take_acts().iter().any(|act| act.contains("start i")), "it ran once");
}
