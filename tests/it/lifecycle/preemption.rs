//! Pods that go for a critical one on a full node, with the daemon killed in between.

use std::fs;

use serde_json::json;

use crate::harness::pods::Pod;
use crate::harness::{Node, Options};

/// A pod that writes down when it begins and ends, and takes its time for that until `/once/go` is there.
fn slow(name: &str, node: &Node) -> Pod {
    let script = format!(
        "trap 'until [ -e /once/go ]; do sleep 0.1; done; echo {name} ends >>/once/log; exit 0' TERM
         echo {name} begins >>/once/log; while :; do sleep 0.1; done"
    );
    let once = node.base.join("once");
    let pod = Pod::new(name).script(&script).grace(600);
    let pod = pod.set("/spec/volumes", json!([{"name": "once", "hostPath": {"path": once}}]));
    pod.set("/spec/containers/0/volumeMounts", json!([{"name": "once", "mountPath": "/once"}]))
}

#[test]
fn a_critical_pod_gets_its_room_and_who_went_comes_back() {
    let node = Node::with(Options::flags(&["--max-pods=2"]));
    let once = node.base.join("once");
    fs::create_dir(&once).unwrap();
    let asks = json!({"requests": {"cpu": "10m"}});
    node.write("web.yaml", slow("web", &node).text());
    node.write("asks.yaml", Pod::new("asks").set("/spec/containers/0/resources", asks).text());
    let web = node.wait_running("web", "app");
    let stays = node.wait_running("asks", "app");
    node.wait_until("it has begun", || once.join("log").exists());

    let critical = slow("vital", &node).set("/spec/priorityClassName", "system-node-critical");
    node.write("vital.yaml", critical.text());
    node.wait_until("it waits for its room", || node.reason("vital") == "WaitingForRoom");
    let message = node.pod("vital").unwrap().status.unwrap().message.unwrap();
    assert_eq!(message, format!("Waits for the end of 1 pod: default/{}.", node.full("web")));
    assert_eq!(node.running("web", "app"), std::slice::from_ref(&web), "its grace period is its own");

    // Who begins in between goes on.
    node.kill9();
    node.launch();
    node.wait_until("it waits again", || node.reason("vital") == "WaitingForRoom");
    assert_eq!(node.of("vital"), []);
    assert_eq!(node.running("web", "app"), [web], "it is still ending");
    fs::write(once.join("go"), "").unwrap();
    node.wait_phase("vital", "Running");
    node.wait_until("it is told", || node.reason("web") == "Preempting");
    let status = node.pod("web").unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    let condition = &status.conditions.unwrap()[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_deref()),
        ("DisruptionTarget", Some("TerminationByKubelet"))
    );
    node.wait_gone("web");
    node.wait_until("the critical pod has begun", || {
        fs::read_to_string(once.join("log")).unwrap().contains("vital begins")
    });
    assert_eq!(fs::read_to_string(once.join("log")).unwrap(), "web begins\nweb ends\nvital begins\n");
    let events = node.says(&["get", "events"]);
    let told = events.lines().find(|line| line.contains("Preempting")).unwrap_or(&events);
    assert!(told.contains("Preempted in order to admit critical pod"), "{told}");

    node.remove("vital.yaml");
    node.wait_phase("web", "Running");
    assert_eq!(node.reason("web"), "");
    assert_eq!(node.running("asks", "app"), [stays]);
}
