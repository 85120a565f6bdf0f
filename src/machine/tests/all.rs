//! Tests of a container whose end makes the whole pod start over.

use super::rig::{Rig, pod, s};
use crate::runtime::fake::Behaviour;

const RULE: &str =
    "restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]";

fn three() -> std::sync::Arc<crate::pod::DesiredPod> {
    pod(&format!(
        "{{restartPolicy: Never, initContainers: [{{name: setup}}], \
         containers: [{{name: app}}, {{name: watch, restartPolicy: Never, {RULE}}}]}}"
    ))
}

/// `setup` ends at once; `watch` ends with 42 after a minute.
fn rig() -> Rig {
    let mut rig = Rig::fresh();
    rig.engine.behave("setup", Behaviour::script("exit=0@100").unwrap());
    rig.engine.behave("watch", Behaviour::script("exit=42@60000").unwrap());
    rig
}

#[test]
fn the_pod_starts_over_in_its_sandbox() {
    let mut rig = rig();
    rig.run(&three());
    rig.pass(s(30));
    assert_eq!(rig.running(), ["POD#0", "app#0", "watch#0"].map(String::from).into());
    rig.take_acts();
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0", "app#1", "watch#1"].map(String::from).into());
    let acts = rig.take_acts();
    let at = |call: &str| acts.iter().position(|c| c == call).unwrap_or_else(|| panic!("{call}: {acts:?}"));
    assert!(at("remove app#0") < at("remove watch#0"), "{acts:?}");
    assert!(at("remove setup#0") < at("remove watch#0"), "{acts:?}");
    assert!(at("remove watch#0") < at("create setup#1"), "{acts:?}");
    assert!(at("start setup#1") < at("create app#1"), "{acts:?}");
    let status = rig.last_status();
    let counts: Vec<(String, i32)> =
        status.container_statuses.iter().flatten().map(|c| (c.name.clone(), c.restart_count)).collect();
    assert_eq!(counts, [("app".to_owned(), 1), ("watch".to_owned(), 1)]);
    let last = status.container_statuses.as_ref().unwrap()[1].last_state.as_ref().unwrap();
    assert_eq!(last.terminated.as_ref().unwrap().exit_code, 42);
    // No status showed that the pod had ended.
    let phases = rig.reports.iter().filter_map(|report| match report {
        crate::machine::Report::Status { status, .. } => status.phase.clone(),
        _ => None,
    });
    assert!(phases.into_iter().all(|phase| matches!(phase.as_str(), "Pending" | "Running")));
    let conditions = |rig: &Rig, truth: &str| {
        rig.reports.iter().any(|report| match report {
            crate::machine::Report::Status { status, .. } => {
                let mut all = status.conditions.iter().flatten();
                all.any(|c| c.type_ == "AllContainersRestarting" && c.status == truth)
            }
            _ => false,
        })
    };
    assert!(conditions(&rig, "True") && conditions(&rig, "False"));
}

#[test]
fn a_daemon_that_dies_at_any_time_goes_on_with_it() {
    for die_after in 0..60 {
        let mut rig = rig();
        rig.run(&three());
        rig.pass(s(60));
        rig.pass(super::rig::ms(50 * die_after));
        let mut rig = rig.reborn();
        rig.run(&three());
        rig.pass(s(30));
        let running: Vec<String> = rig.running().into_iter().collect();
        let names: Vec<&str> = running.iter().filter_map(|name| name.split('#').next()).collect();
        assert_eq!(names, ["POD", "app", "watch"], "after {die_after}: {running:?}");
        assert!(running.contains(&"POD#0".to_owned()), "{running:?}");
    }
}

#[test]
fn a_pod_that_starts_over_again_and_again_backs_off() {
    let mut rig = rig();
    rig.engine.behave("watch", Behaviour::script("exit=42@1000").unwrap());
    rig.run(&three());
    rig.pass(s(600));
    let made = rig.times("start watch#0").len()
        + (1..200).map(|n| rig.times(&format!("start watch#{n}")).len()).sum::<usize>();
    assert!((4..12).contains(&made), "{made} times in ten minutes");
    assert!(rig.waits("watch").starts_with("CrashLoopBackOff"), "{}", rig.status());
}
