//! The node as an object of the API. Pure.

use crate::base::json::json;
use serde_json::{Map, Value};

use super::{Settings, Taint};
use crate::base::clock::Timestamp;
use crate::node::facts::Facts;
use crate::status::node_object::{About, condition};
use crate::status::seconds;
use crate::status::snapshot::{ConditionView, Snapshot};

/// The version of the kubelet that podkeeper stands in for: control planes compare it with their own.
const KUBELET: &str = "v1.36.2";
/// Annotation: volumes are attached by the control plane, not by the node.
const ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// Data about the node beside the snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The machine.
    pub facts: &'a Facts,
    /// The node's addresses, the primary one first.
    pub addresses: &'a [String],
    /// See [`super::images`].
    pub images: &'a Value,
    /// Docker's version, once known.
    pub docker: Option<&'a str>,
}

/// The whole object, as for creation.
#[must_use]
pub fn node(settings: &Settings, snapshot: &Snapshot, around: &Around<'_>, now: Timestamp) -> Value {
    let mut spec = Map::new();
    if !settings.taints.is_empty() {
        spec.insert("taints".to_owned(), settings.taints.iter().map(taint).collect());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": settings.name,
            "labels": labels(snapshot),
            "annotations": { ATTACH: "true" },
        },
        "spec": spec,
        "status": status(settings, snapshot, around, now),
    })
}

fn taint(taint: &Taint) -> Value {
    let Taint { key, value, effect } = taint;
    match value.is_empty() {
        true => json!({ "key": key, "effect": effect }),
        false => json!({ "key": key, "value": value, "effect": effect }),
    }
}

/// The node's labels, including the old names of two of them.
fn labels(snapshot: &Snapshot) -> Value {
    let mut labels = json!(snapshot.info.labels);
    for (old, name) in
        [("beta.kubernetes.io/os", "kubernetes.io/os"), ("beta.kubernetes.io/arch", "kubernetes.io/arch")]
    {
        if let (Some(value), Some(all)) = (snapshot.info.labels.get(name), labels.as_object_mut()) {
            all.entry(old).or_insert_with(|| value.as_str().into());
        }
    }
    labels
}

/// `nodeInfo.kubeletVersion`.
#[must_use]
pub fn version() -> String {
    format!("{KUBELET}+podkeeper-{}", env!("CARGO_PKG_VERSION"))
}

/// The status that this node publishes everywhere, plus fields that only a control plane needs.
fn status(settings: &Settings, snapshot: &Snapshot, around: &Around<'_>, now: Timestamp) -> Value {
    let Around { facts, addresses, images, docker } = around;
    let about = About::of_snapshot(snapshot, addresses, env!("CARGO_PKG_VERSION"));
    let mut status = about.status(facts);
    if let Some(info) = status.get_mut("nodeInfo").and_then(Value::as_object_mut) {
        let mut put = |name: &str, value: String| _ = info.insert(name.to_owned(), value.into());
        // In formats that control planes parse.
        put("containerRuntimeVersion", format!("docker://{}", docker.unwrap_or("Unknown")));
        put("kubeletVersion", version());
        put("kubeProxyVersion", String::new());
        if facts.system_uuid.is_empty() {
            put("systemUUID", facts.machine_id.clone());
        }
    }
    let addresses = status.get_mut("addresses").and_then(Value::as_array_mut);
    if let Some(addresses) = addresses.filter(|_| !settings.is_reached) {
        addresses.retain(|address| address.get("type").is_some_and(|kind| kind == "Hostname"));
    }
    if let Some(status) = status.as_object_mut() {
        status.insert("images".to_owned(), (*images).clone());
        status.insert("conditions".to_owned(), conditions(snapshot, now));
        if let Some(port) = settings.port {
            status.insert("daemonEndpoints".to_owned(), json!({ "kubeletEndpoint": { "Port": port } }));
        }
    }
    status
}

/// Ready comes last, so that a reader in order knows the others by then. A drained node is not Ready.
fn conditions(snapshot: &Snapshot, now: Timestamp) -> Value {
    let is_ready = |condition: &&ConditionView| condition.type_ == "Ready";
    let pressures = snapshot.conditions.iter().filter(|condition| !is_ready(condition));
    let ready = snapshot.conditions.iter().filter(is_ready);
    let told = |known: &ConditionView| {
        let refused = ConditionView {
            is_true: false,
            reason: "KubeletNotReady".to_owned(),
            message: "node is drained".to_owned(),
            since: now,
            ..known.clone()
        };
        let refuses = snapshot.drain.is_some() && known.type_ == "Ready" && known.is_true;
        let mut told = condition(if refuses { &refused } else { known });
        if let Some(told) = told.as_object_mut() {
            told.insert("lastHeartbeatTime".to_owned(), json!(seconds(now)));
        }
        told
    };
    pressures.chain(ready).map(told).collect()
}
