//! The node at a real API server: its object, its status and its lease.

use serde_json::{Value, json};

use super::control_plane::ControlPlane;
use super::{node, without_files};
use crate::harness::{Node, Options};

fn path(node: &Node) -> String {
    format!("/api/v1/nodes/{}", node.name)
}

/// Type and status of the node's conditions, in the order in which they are reported.
fn conditions(object: &Value) -> Vec<(String, String)> {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|c| (text(&c["type"]), text(&c["status"]))).collect()
}

fn is_ready(object: &Value) -> bool {
    conditions(object).contains(&("Ready".to_owned(), "True".to_owned()))
}

/// Waits until the server reports the node as Ready.
fn ready(plane: &ControlPlane, node: &Node) -> Value {
    node.wait_for("the server has the node as Ready", || plane.object(&path(node)).filter(is_ready))
}

#[test]
fn a_node_registers_and_keeps_its_lease() {
    let Some(plane) = ControlPlane::get() else { return };
    let flags = [
        "--node-labels=node.kubernetes.io/role=edge",
        "--register-with-taints=edge=yes:PreferNoSchedule",
        "--node-lease-duration-seconds=4",
        "--max-pods=7",
    ];
    let node = node(plane, None, Options { no_files: true, ..Options::flags(&flags) });
    let object = ready(plane, &node);
    let labels = &object["metadata"]["labels"];
    for (key, value) in [
        ("kubernetes.io/hostname", node.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/os", "linux"),
        ("node.kubernetes.io/role", "edge"),
    ] {
        assert_eq!(labels[key], value, "{key}");
    }
    assert!(labels["kubernetes.io/arch"].is_string());
    let taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
    assert!(
        taints.contains(&json!({"key": "edge", "value": "yes", "effect": "PreferNoSchedule"})),
        "{taints:?}"
    );
    let status = &object["status"];
    assert_eq!((&status["capacity"]["pods"], &status["allocatable"]["pods"]), (&json!("7"), &json!("7")));
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        assert!(status["capacity"][resource].is_string(), "{resource}: {status}");
    }
    let names: Vec<String> = conditions(&object).into_iter().map(|(type_, _)| type_).collect();
    assert_eq!(names, ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]);
    assert_eq!(status["conditions"][3]["reason"], "KubeletReady");
    let info = &status["nodeInfo"];
    assert!(info["containerRuntimeVersion"].as_str().unwrap().starts_with("docker://"), "{info}");
    assert!(info["kubeletVersion"].as_str().unwrap().starts_with("v1."), "{info}");
    let addresses = status["addresses"].as_array().unwrap();
    assert!(addresses.contains(&json!({"type": "Hostname", "address": node.name})), "{addresses:?}");

    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", node.name);
    let renewed = || plane.object(&lease).map(|lease| lease["spec"]["renewTime"].clone());
    let first = node.wait_for("there is a lease", renewed);
    node.wait_until("it is renewed", || renewed().is_some_and(|time| time != first));
    let lease = plane.object(&lease).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], node.name);
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], object["metadata"]["uid"]);
}

#[test]
fn a_node_that_somebody_deletes_comes_back_and_a_restart_tells_nothing_twice() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(
        plane,
        None,
        Options { no_files: true, ..Options::flags(&["--node-status-update-frequency=1s"]) },
    );
    let before = ready(plane, &node);
    plane.says(&["delete", "node", &node.name]);
    let after = ready(plane, &node);
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    // Labels of an existing node stay as an administrator has set them, except the node's own
    // labels.
    plane.says(&["label", "node", &node.name, "kubernetes.io/os=plan9", "mine=1", "--overwrite"]);
    node.restart();
    node.wait_until("its own label is put right", || {
        let labels = plane.object(&path(&node)).unwrap()["metadata"]["labels"].clone();
        labels["kubernetes.io/os"] == "linux" && labels["mine"] == "1"
    });
    let told = |reason: &str| {
        let all = plane.object("/api/v1/namespaces/default/events").unwrap();
        let of = all["items"].as_array().unwrap().iter();
        let of = of.filter(|e| e["involvedObject"]["name"] == node.name && e["reason"] == reason);
        of.filter(|e| e["source"]["component"] == "kubelet").cloned().collect::<Vec<_>>()
    };
    node.wait_until("the starts are told", || {
        told("Starting").iter().map(|e| e["count"].as_i64().unwrap()).sum::<i64>() == 2
    });
    let ready = told("NodeReady");
    assert!(ready.len() <= 2, "{ready:#?}");
    assert!(told("Rebooted").is_empty());
}

#[test]
fn a_drained_node_is_not_ready() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    ready(plane, &node);
    let root = node.root().display().to_string();
    node.says(&["drain", "--root-dir", &root]);
    node.wait_until("the server has it as not ready", || {
        plane.object(&path(&node)).is_some_and(|object| !is_ready(&object))
    });
    node.says(&["resume", "--root-dir", &root]);
    ready(plane, &node);
}
