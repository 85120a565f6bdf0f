//! The daemon's reports on the lives of its pods, on the real Docker: `get events`, `describe`, the file, the
//! log.

use podkeeper::testing::recorder::object::{self, EventObject};
use serde_json::json;

use crate::harness::Node;
use crate::harness::pods::{OBEYS, Pod};

/// Events of pods; the node has its own.
fn events(node: &Node) -> Vec<EventObject> {
    let all = object::read(&node.run_dir()).unwrap().items;
    all.into_iter().filter(|event| event.involved_object.kind == "Pod").collect()
}

fn find(node: &Node, reason: &str) -> Option<EventObject> {
    events(node).into_iter().find(|e| e.reason == reason)
}

fn wait_event(node: &Node, reason: &str) -> EventObject {
    node.wait_for(&format!("an event {reason}"), || find(node, reason))
}

#[test]
fn a_start_and_a_stop_are_told_in_order() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").script(OBEYS).text());
    node.wait_running("web", "app");
    wait_event(&node, "Started");
    let told = |node: &Node| -> Vec<(String, String, u32)> {
        events(node).into_iter().map(|e| (e.reason, e.message, e.count)).collect()
    };
    let words = |list: &[(&str, &str)]| -> Vec<(String, String, u32)> {
        list.iter().map(|(reason, message)| ((*reason).to_owned(), (*message).to_owned(), 1)).collect()
    };
    let mut expected = words(&[
        (
            "Pulled",
            "Container image \"busybox:static\" already present on machine and can be accessed by the pod",
        ),
        ("Created", "Container created"),
        ("Started", "Container started"),
    ]);
    assert_eq!(told(&node), expected);
    let pod = node.pod("web").unwrap().metadata;
    let started = find(&node, "Started").unwrap().involved_object;
    assert_eq!((Some(started.uid), Some(started.name)), (pod.uid, pod.name));
    assert_eq!(started.field_path, "spec.containers{app}");

    let shown = node.says(&["get", "events", "--for", "pod/web"]);
    assert!(shown.starts_with("LAST SEEN   TYPE     REASON    OBJECT"), "{shown}");
    assert_eq!(shown.lines().count(), 4, "{shown}");
    let described = node.says(&["describe", "pod", "web"]);
    let table: Vec<&str> = described.lines().skip_while(|l| *l != "Events:").collect();
    assert_eq!(table.len(), 6, "{described}");
    assert!(table[5].starts_with("  Normal  Started  "), "{described}");
    let log = node.log();
    assert_eq!(log.matches("container app: Started: Container started").count(), 1, "{log}");

    // Events of an earlier daemon are not forgotten.
    node.restart();
    node.remove("web.yaml");
    node.wait_gone("web");
    expected.extend(words(&[("Killing", "Stopping container app")]));
    wait_event(&node, "Killing");
    assert_eq!(told(&node), expected);
}

#[test]
fn a_crash_loop_is_counted() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").script("exit 3").text());
    let back_off = wait_event(&node, "BackOff");
    let uid = node.pod("web").and_then(|p| p.metadata.uid).unwrap();
    let name = node.full("web");
    let words = format!("Back-off restarting failed container app in pod {name}_default({uid})");
    assert_eq!((back_off.weight.as_str(), back_off.message), ("Warning", words));
    let counted = |reason: &str| find(&node, reason).map_or(0, |e| e.count);
    node.wait_until("it is counted", || counted("BackOff") >= 2 && counted("Started") >= 3);
    assert_eq!(counted("Created"), counted("Started"));
    assert_eq!(events(&node).len(), 4, "one of each: {:?}", events(&node));
    let described = node.says(&["describe", "pod", "web"]);
    let line = described.lines().find(|l| l.contains("  BackOff  ")).unwrap_or_default();
    assert!(line.starts_with("  Warning  BackOff") && line.contains(" (x2 over "), "{described}");
    let log = node.log();
    assert_eq!(log.matches(": BackOff: ").count(), 1, "{log}");
}

#[test]
fn a_failing_liveness_probe_is_told_and_counted() {
    let node = Node::start();
    let command = ["/bin/sh", "-c", "echo $WORD; false"];
    let probe = json!({"exec": {"command": command}, "periodSeconds": 1, "failureThreshold": 2});
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {word: pa55word}\n";
    let env = json!([{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "word"}}}]);
    let pod = Pod::new("web").script(OBEYS).set("/spec/containers/0/livenessProbe", probe);
    let pod = pod.set("/spec/containers/0/env", env);
    node.write("web.yaml", format!("{}\n{secret}", pod.text()));
    let killing = wait_event(&node, "Killing");
    assert_eq!(killing.message, "Container app failed liveness probe, will be restarted");
    let unhealthy = find(&node, "Unhealthy").unwrap();
    assert_eq!(
        (unhealthy.weight.as_str(), unhealthy.message.as_str()),
        ("Warning", "Liveness probe failed: <secret>",)
    );
    assert!(!node.log().contains("pa55word"), "{}", node.log());
    node.wait_until("it is started again", || find(&node, "Started").is_some_and(|e| e.count >= 2));
    node.wait_until("it is counted", || find(&node, "Unhealthy").is_some_and(|e| e.count >= 2));
}
