//! Tests of stops that an earlier daemon had begun, and whose pod the source names later.

use super::rig::{Rig, ms, pod, s, stop};
use crate::machine::{Report, StopOrder, Target, Wish};
use crate::runtime::fake::Behaviour;

const JOB: &str =
    "{restartPolicy: Never, containers: [{name: app, terminationMessagePath: /dev/termination-log}]}";

/// The order of the server's deletion.
fn deletion() -> Wish {
    let order = StopOrder::new(Some(20), "it was deleted");
    Wish::Stop(StopOrder { target: Target::Deleted, pod: Some(pod(JOB)), ..order })
}

/// The last status before the report that nothing runs any more.
fn told(rig: &Rig) -> String {
    let end = rig.reports.iter().position(|report| *report == Report::Terminated).expect("it has ended");
    assert!(matches!(
        rig.reports[..end].last(),
        Some(Report::Status { terminating: true, .. } | Report::Seen(..))
    ));
    rig.status()
}

/// Regression: the pod ended as failed, with containers that had ended unseen.
#[test]
fn a_pod_that_is_named_while_it_is_being_stopped_has_its_exit_codes() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::script("term=7@6000").unwrap());
    rig.run(&pod(JOB));
    rig.pass(s(5));
    rig.wish(deletion());
    rig.pass(s(1));
    let mut rig = rig.reborn().found();
    rig.wish(stop(None));
    rig.pass(ms(300));
    assert!(!rig.reports.iter().any(|report| matches!(report, Report::Status { .. })), "it is not known");
    rig.wish(deletion());
    rig.pass(s(60));
    assert_eq!(told(&rig), "Failed, app: ended 7");
}

/// The same when everything had ended before.
#[test]
fn a_pod_that_had_ended_when_it_is_named_has_its_exit_codes() {
    for (code, phase) in [(0, "Succeeded"), (3, "Failed")] {
        let mut rig = Rig::up(&pod(JOB));
        for name in ["app#0", "POD#0"] {
            let (id, now) = (rig.id(name), rig.now());
            rig.engine.crash(&id, code, now);
        }
        let mut rig = rig.reborn().found();
        rig.wish(deletion());
        rig.pass(s(60));
        assert_eq!(told(&rig), format!("{phase}, app: ended {code}"));
        assert_eq!(rig.engine.containers().count(), 0);
    }
}
