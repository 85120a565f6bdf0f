//! The node object, and the objects of the whole cluster that pods name.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::events::{end, event};
use super::{PATIENCE, Rig, names, not_found, pod, start};
use crate::api_client::pods::NodeSeen;
use crate::api_client::testing::{Asked, begin, chunk, json as answer};
use crate::source::PodSet;

/// The node `n1`, with a taint that keeps pods away or without one.
fn node(is_tainted: bool) -> Value {
    let taint = json!({"key": "a", "effect": "NoExecute"});
    let taints: Vec<&Value> = is_tainted.then_some(&taint).into_iter().collect();
    json!({"kind": "Node", "metadata": {"name": "n1", "resourceVersion": "5"}, "spec": {"taints": taints}})
}

fn end_of_nodes() -> Value {
    let mut end = end();
    end["kind"] = "Node".into();
    end
}

fn is_tainted(set: &PodSet) -> bool {
    set.node.as_ref().is_some_and(|node| !node.taints.is_empty())
}

/// Streams no pod, and one more every 50 ms when `go` is set.
fn stream_pods(out: &mut dyn Write, go: &AtomicBool) -> std::io::Result<bool> {
    begin(out)?;
    chunk(out, &event("BOOKMARK", &end()))?;
    for n in 0_u32.. {
        chunk(out, &event("ADDED", &pod(&format!("p{n:04}"), &json!({}), &json!({}))))?;
        thread::sleep(Duration::from_millis(50));
        while !go.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(false)
}

/// It was read once a minute: pods that came meanwhile were refused for good, or admitted.
#[test]
fn a_taint_that_comes_or_goes_is_known_to_the_pods_that_come_then() {
    let (go, change) = (Arc::new(AtomicBool::new(false)), crossbeam_channel::bounded::<bool>(0));
    let (more, changed) = (Arc::clone(&go), change.1);
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if asked.line.starts_with("GET /api/v1/pods?") {
            return stream_pods(out, &more);
        }
        if !asked.line.starts_with("GET /api/v1/nodes?") {
            return not_found(out);
        }
        assert!(asked.line.contains("fieldSelector=metadata.name%3Dn1&watch=1"), "{}", asked.line);
        begin(out)?;
        chunk(out, &(event("ADDED", &node(false)) + &event("BOOKMARK", &end_of_nodes())))?;
        while let Ok(is_tainted) = changed.recv() {
            chunk(out, &event("MODIFIED", &node(is_tainted)))?;
        }
        Ok(false)
    };
    let rig = start("api-taints", Box::new(serve));
    let first = rig.set("the first pod", |set| names(set) == ["p0000"]);
    assert!(first.node.is_some() && !is_tainted(&first), "pods wait for the node");
    for wanted in [true, false] {
        change.0.send(wanted).unwrap();
        go.store(true, Ordering::SeqCst);
        rig.set("a pod sees the change", |set| is_tainted(set) == wanted);
    }
}

/// Whether a pod is judged by a taint, when the watch tells of one, and the server answers so to a request for the node.
fn is_judged_by_the_taint(name: &str, node_now: String) -> bool {
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if asked.line.starts_with("GET /api/v1/pods?") {
            return stream_pods(out, &AtomicBool::new(false));
        }
        if asked.line.starts_with("GET /api/v1/nodes/n1") {
            return answer(out, 200, &node_now);
        }
        if !asked.line.starts_with("GET /api/v1/nodes?") {
            return not_found(out);
        }
        begin(out)?;
        chunk(out, &(event("ADDED", &node(true)) + &event("BOOKMARK", &end_of_nodes())))?;
        thread::sleep(PATIENCE);
        Ok(false)
    };
    let rig: Rig = start(name, Box::new(serve));
    let first = rig.set("the pod", |set| names(set) == ["p0000"]);
    assert!(first.node.is_some());
    is_tainted(&first)
}

/// The events of the node and of its pods come by connections of their own.
#[test]
fn a_pod_that_the_known_node_refuses_has_the_node_read_at_once() {
    assert!(!is_judged_by_the_taint("api-later-node", node(false).to_string()));
}

/// Such an answer has no taints: the pod was admitted.
#[test]
fn an_answer_that_is_no_node_is_not_taken_for_one_without_taints() {
    assert!(is_judged_by_the_taint("api-no-node", "{}".to_owned()));
}

/// The heartbeat did not hear of it before its next report.
#[test]
fn a_node_that_is_removed_or_made_anew_is_told() {
    let (change, changed) = crossbeam_channel::bounded::<Option<&str>>(0);
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if asked.line.starts_with("GET /api/v1/pods?") {
            return stream_pods(out, &AtomicBool::new(false));
        }
        if !asked.line.starts_with("GET /api/v1/nodes?") {
            return not_found(out);
        }
        let made = |uid: &str| {
            let mut node = node(false);
            node["metadata"]["uid"] = uid.into();
            node
        };
        begin(out)?;
        chunk(out, &event("ADDED", &made("u1")))?;
        chunk(out, &event("BOOKMARK", &end_of_nodes()))?;
        while let Ok(uid) = changed.recv() {
            let told = uid.map_or_else(|| event("DELETED", &made("u1")), |uid| event("ADDED", &made(uid)));
            chunk(out, &told)?;
        }
        Ok(false)
    };
    let rig = start("api-other-node", Box::new(serve));
    let told = rig.pods.subscribe_to_node();
    let end = std::time::Instant::now() + PATIENCE;
    while rig.pods.node() != NodeSeen::Uid("u1".to_owned()) {
        assert!(std::time::Instant::now() < end, "{:?}", rig.pods.node());
        thread::sleep(Duration::from_millis(5));
    }
    for (uid, wanted) in [(None, NodeSeen::Missing), (Some("u2"), NodeSeen::Uid("u2".to_owned()))] {
        while told.try_recv().is_ok() {}
        change.send(uid).unwrap();
        told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(rig.pods.node(), wanted);
    }
}

/// Servers on an older etcd refuse to begin a watch with what there is: pods of the first list were judged by no node.
#[test]
fn the_first_pods_wait_for_a_node_whose_first_request_is_refused() {
    let serve = |asked: &Asked, out: &mut dyn Write| {
        if asked.line.starts_with("GET /api/v1/pods?") {
            return stream_pods(out, &AtomicBool::new(false));
        }
        if !asked.line.starts_with("GET /api/v1/nodes?") {
            return not_found(out);
        }
        if asked.line.contains("sendInitialEvents=true") {
            return answer(out, 500, &json!({"kind": "Status", "code": 500, "message": "no"}).to_string());
        }
        if asked.line.contains("watch=1") {
            thread::sleep(PATIENCE);
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(500));
        let list = json!({"kind": "NodeList", "metadata": {"resourceVersion": "5"}, "items": [node(false)]});
        answer(out, 200, &list.to_string())
    };
    let rig = start("api-first-node", Box::new(serve));
    let first = rig.set("the pod", |set| names(set) == ["p0000"]);
    assert!(first.node.is_some());
}

/// Each of their requests held up all events for ten seconds.
#[test]
fn a_node_and_runtime_classes_that_hang_hold_up_no_pod_without_them() {
    let patience = super::Patience { call: PATIENCE * 2, ..super::patience() };
    let serve = |asked: &Asked, out: &mut dyn Write| {
        if asked.line.contains("/runtimeclasses/") || asked.line.contains("/nodes") {
            thread::sleep(PATIENCE * 2);
            return Ok(false);
        }
        if !asked.line.starts_with("GET /api/v1/pods?") {
            return not_found(out);
        }
        begin(out)?;
        chunk(out, &event("BOOKMARK", &end()))?;
        let class = json!({"runtimeClassName": "slow"});
        let slow: String =
            ["a", "b", "c"].map(|name| event("ADDED", &pod(name, &class, &json!({})))).concat();
        chunk(out, &(slow + &event("ADDED", &pod("z", &json!({}), &json!({})))))?;
        thread::sleep(PATIENCE);
        Ok(false)
    };
    let rig = super::start_with("api-hanging-classes", patience, Box::new(serve));
    let set = rig.set("the pod without a class", |set| names(set).contains(&"z"));
    assert_eq!(names(&set), ["z"]);
    assert_eq!(set.node, None);
}
