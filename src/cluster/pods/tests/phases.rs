//! The phase that the server is told, and the ends of containers in it.

use super::*;
use crate::cluster::pods::wanted::wanted;

#[test]
fn phases() {
    let here = |phase: &str, theirs: &str, leaving: bool, over: bool, state: Value| {
        let pod = desired(Source::Api, "u1", spec());
        let told = status(json!({"phase": phase, "containerStatuses": [
            {"name": "app", "image": "b", "imageID": "", "ready": false, "restartCount": 0, "state": state}]}));
        let here = Here {
            pod: &pod,
            status: &told,
            is_leaving: leaving,
            is_over: over,
            runs: false,
            returns: false,
            now: NOW,
        };
        let wanted = wanted(&status(json!({"phase": theirs})), &here);
        wanted.phase.unwrap_or_default()
    };
    let ended = |code: i32| json!({"terminated": {"exitCode": code}});
    let runs = || json!({"running": {}});
    assert_eq!(here("Running", "Pending", false, false, runs()), "Running");
    assert_eq!(here("Failed", "Running", false, false, runs()), "Running", "a container runs still");
    assert_eq!(here("Failed", "Running", true, false, ended(1)), "Running", "it is being stopped");
    assert_eq!(here("Failed", "Running", false, false, ended(1)), "Failed");
    assert_eq!(here("Running", "Failed", false, false, ended(1)), "Failed", "a last phase stays");
    assert_eq!(here("Running", "Succeeded", false, false, ended(0)), "Succeeded");
    // Deleted, with all containers dead.
    assert_eq!(here("Running", "Running", true, true, ended(0)), "Succeeded");
    assert_eq!(here("Running", "Running", true, true, ended(137)), "Failed");
    assert_eq!(here("Pending", "Pending", true, true, json!({"waiting": {}})), "Failed");
    assert_eq!(here("Running", "Running", true, true, runs()), "Failed");
}

#[test]
fn a_container_that_has_ended_for_good_does_not_run_again_and_hides_no_other() {
    let both = json!({"restartPolicy": "Never", "containers": [
        {"name": "app", "image": "b"}, {"name": "other", "image": "b"}]});
    let pod = desired(Source::Api, "u1", both);
    let list = |app: Value, other: Value| {
        let one = |name: &str, state: Value| {
            json!({"name": name, "image": "b", "imageID": "", "ready": false,
            "restartCount": 0, "state": state})
        };
        json!({"phase": "Running", "containerStatuses": [one("app", app), one("other", other)]})
    };
    let (ended, runs) = (json!({"terminated": {"exitCode": 0}}), json!({"running": {}}));
    // Stopped for a while, and running again: both of them.
    let told = status(list(runs.clone(), runs.clone()));
    let here = Here {
        pod: &pod,
        status: &told,
        is_leaving: false,
        is_over: false,
        runs: true,
        returns: false,
        now: NOW,
    };
    let waits = json!({"waiting": {"reason": "PodStopped"}});
    let back = wanted(&status(list(ended.clone(), waits)), &here);
    assert_eq!(back, status(list(ended.clone(), runs)));
    assert_eq!(patch(&back, &here, "u1"), None);
    let told = status(list(json!({"terminated": {"exitCode": 3}}), ended));
    let last = wanted(&back, &Here { status: &told, runs: false, ..here });
    assert_eq!(last, told, "its second end is an end");
}
