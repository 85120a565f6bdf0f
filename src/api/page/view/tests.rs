//! Tests of the page's view of a pod in each of its states, and that it has no secret.

use super::*;
use crate::pod::problem::Problem;
use crate::status::snapshot::{ConditionView, DockerView};

fn shown(status: Value) -> Value {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "u",
                     "annotations": {"kubernetes.io/config.source": "file"}},
        "spec": {
            "initContainers": [{"name": "mesh", "image": "m", "restartPolicy": "Always"}],
            "containers": [
                {"name": "app", "image": "a", "command": ["hush-command"],
                 "env": [{"name": "PASSWORD", "value": "hush-variable"}],
                 "resources": {"limits": {"memory": "64Mi", "cpu": "1500m"}}}
            ],
        },
        "status": status,
    });
    pod_of(&pod)
}

fn pod_of(object: &Value) -> Value {
    pod(object, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap()
}

#[test]
fn each_state_has_its_tone_and_its_reason() {
    let app = |state: Value, ready: bool, last: Value| {
        json!([{"name": "app", "image": "a", "imageID": "", "ready": ready, "restartCount": 2, "state": state,
                "lastState": last}])
    };
    let running = json!({"running": {"startedAt": "2025-12-31T23:59:00Z"}});
    let waits = |reason: &str| json!({"waiting": {"reason": reason, "message": "why so"}});
    let ended =
        |code: i32| json!({"terminated": {"exitCode": code, "reason": "Error", "containerID": "docker://1"}});
    let check = |phase: &str, containers: Value, tone: &str, why: Value| {
        let found = shown(json!({"phase": phase, "containerStatuses": containers}));
        assert_eq!((&found["tone"], &found["why"]), (&json!(tone), &why), "{found}");
        assert!(!found.to_string().contains("hush"), "{found}");
    };
    check("Running", app(running.clone(), true, json!({})), "good", json!([]));
    check("Running", app(running.clone(), false, json!({})), "waits", json!([]));
    check(
        "Pending",
        app(waits("ContainerCreating"), false, json!({})),
        "waits",
        json!([["app", "ContainerCreating", "why so"]]),
    );
    check(
        "Pending",
        app(waits("ErrImagePull"), false, json!({})),
        "bad",
        json!([["app", "ErrImagePull", "why so"]]),
    );
    check(
        "Running",
        app(waits("CrashLoopBackOff"), false, ended(7)),
        "bad",
        json!([
            ["app", "CrashLoopBackOff", "why so"],
            ["app", "", "The last run ended with exit code 7 (Error)."]
        ]),
    );
    check("Failed", app(ended(3), false, json!({})), "bad", json!([["app", "Error", "exit code 3."]]));
    check("Succeeded", app(ended(0), false, json!({})), "done", json!([]));
    let refused = shown(json!({"phase": "Failed", "reason": "PodSecurity", "message": "it is privileged"}));
    assert_eq!(refused["why"], json!([["", "PodSecurity", "it is privileged"]]));
    let condition = |kind: &str, message: &str| json!({"type": kind, "status": "False", "reason": "R", "message": message});
    let stays = shown(json!({"phase": "Pending", "conditions": [
        condition("Ready", "not all are ready"), condition("ContainersReady", "not all are ready"),
    ]}));
    assert_eq!(stays["why"], json!([["", "R", "not all are ready"]]), "once");
}

#[test]
fn containers_and_limits() {
    let found = shown(json!({"phase": "Running", "podIP": "10.0.0.1", "qosClass": "Burstable",
        "startTime": "2025-12-31T23:00:00Z",
        "containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": true, "restartCount": 2,
            "state": {"running": {"startedAt": "2025-12-31T23:59:00Z"}},
            "lastState": {"terminated": {"exitCode": 1, "containerID": "docker://1"}}}],
        "ephemeralContainerStatuses": [{"name": "look", "image": "l", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}));
    assert_eq!((&found["memory"], &found["cpu"]), (&json!(65536), &json!(1500)));
    assert_eq!(
        (&found["ready"], &found["restarts"], &found["source"]),
        (&json!("1/2"), &json!(2), &json!("file"))
    );
    let rows: Vec<_> = found["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["name"].as_str().unwrap(),
                one["kind"].as_str().unwrap(),
                one["state"].as_str().unwrap(),
                one["previous"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("mesh", "sidecar", "Waiting", false),
            ("app", "", "Running", true),
            ("look", "debug", "Completed (0)", false),
        ]
    );
    assert!(pod(&json!([]), "2026-01-01T00:00:00Z".parse().unwrap()).is_none());
}

#[test]
fn the_node_tells_what_hinders_it() {
    let condition = |kind: &str, is_true| ConditionView {
        type_: kind.to_owned(),
        is_true,
        reason: String::new(),
        message: format!("about {kind}"),
        since: Timestamp::UNIX_EPOCH,
    };
    let problem = |severity, message: &str| Problem {
        severity,
        path: "web.yaml".to_owned(),
        at: Some((3, 5)),
        pod: None,
        field: None,
        message: message.to_owned(),
    };
    let long = "x".repeat(limits::PAGE_TEXT + 5);
    let mut snapshot = Snapshot {
        node: "n1".to_owned(),
        docker: DockerView { problem: Some(long.clone()), ..DockerView::default() },
        conditions: vec![
            condition("Ready", false),
            condition("MemoryPressure", true),
            condition("DiskPressure", false),
        ],
        problems: vec![problem(Severity::Error, "no"), problem(Severity::Warning, "hm")],
        ..Snapshot::default()
    };
    snapshot.info.capacity =
        [("cpu".to_owned(), "2".to_owned()), ("memory".to_owned(), "1Gi".to_owned())].into();
    let found = node(&snapshot);
    let short = format!("{}…", "x".repeat(limits::PAGE_TEXT));
    assert_eq!(
        found["notes"],
        json!([
            ["Docker", short],
            ["Ready", "about Ready"],
            ["MemoryPressure", "about MemoryPressure"],
            ["Not run", "web.yaml:3:5: no"]
        ])
    );
    assert_eq!(
        (&found["cpu"], &found["memory"], &found["ready"]),
        (&json!(2000), &json!(1_048_576), &json!(false))
    );
}

#[test]
fn an_event_is_short() {
    let object = json!({"metadata": {"namespace": "a", "name": "web.1"}, "type": "Warning", "reason": "BackOff",
        "involvedObject": {"kind": "Pod", "namespace": "a", "name": "web"}, "message": " back-off ", "count": 3,
        "lastTimestamp": "1970-01-01T00:01:00Z"});
    let expected = json!({"key": "a/web.1", "type": "Warning", "reason": "BackOff", "kind": "Pod", "ns": "a",
        "name": "web", "text": "back-off", "count": 3, "last": 60});
    assert_eq!(event(&object), expected);
}
