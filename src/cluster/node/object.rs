//! The node as an object of the API. Pure.

use serde_json::{Map, Value, json};

use super::{Settings, Taint};
use crate::base::clock::Timestamp;
use crate::node::facts::Facts;
use crate::status::seconds;
use crate::status::snapshot::{ConditionView, Snapshot};

/// The version of Kubernetes whose kubelet podkeeper does the work of: control planes compare it with their own.
const KUBELET: &str = "v1.36.2";
/// Annotation: volumes are attached by the control plane, not by the node.
const ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// What the node is, beside what the snapshot says.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The machine.
    pub facts: &'a Facts,
    /// The node's addresses, the first one first.
    pub addresses: &'a [String],
    /// See [`super::images`].
    pub images: &'a Value,
    /// Docker's version, once it was heard.
    pub docker: Option<&'a str>,
}

/// The whole object, as it is made when there is none.
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

/// The node's labels, and the old names of two of them.
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

fn status(settings: &Settings, snapshot: &Snapshot, around: &Around<'_>, now: Timestamp) -> Value {
    let Around { facts, addresses, images, docker } = around;
    let ips = addresses.iter().map(|ip| json!({ "type": "InternalIP", "address": ip }));
    let host = json!({ "type": "Hostname", "address": settings.name });
    let docker = docker.unwrap_or("Unknown");
    let mut status = json!({
        "addresses": ips.chain([host]).collect::<Value>(),
        "capacity": snapshot.info.capacity,
        "allocatable": snapshot.info.allocatable,
        "nodeInfo": {
            "machineID": facts.machine_id,
            "systemUUID": if facts.system_uuid.is_empty() { &facts.machine_id } else { &facts.system_uuid },
            "bootID": facts.boot_id,
            "kernelVersion": facts.kernel,
            "osImage": facts.os_image,
            "containerRuntimeVersion": format!("docker://{docker}"),
            "kubeletVersion": version(),
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": facts.architecture,
        },
        "images": images,
        "conditions": conditions(snapshot, now),
    });
    if let (Some(port), Some(status)) = (settings.port, status.as_object_mut()) {
        status.insert("daemonEndpoints".to_owned(), json!({ "kubeletEndpoint": { "Port": port } }));
    }
    status
}

/// Ready is the last one: who reads them in order knows the others then.
fn conditions(snapshot: &Snapshot, now: Timestamp) -> Value {
    let is_ready = |condition: &&ConditionView| condition.type_ == "Ready";
    let pressures = snapshot.conditions.iter().filter(|condition| !is_ready(condition));
    let ready = snapshot.conditions.iter().filter(is_ready);
    let drained = snapshot.drain.is_some();
    let told = |condition: &ConditionView| {
        let refuses = drained && condition.type_ == "Ready" && condition.is_true;
        let (is_true, reason, message) = match refuses {
            true => (false, "KubeletNotReady", "node is drained"),
            false => (condition.is_true, condition.reason.as_str(), condition.message.as_str()),
        };
        let since = if refuses { now } else { condition.since };
        json!({
            "type": condition.type_,
            "status": if is_true { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": seconds(now),
            "lastTransitionTime": seconds(since),
        })
    };
    pressures.chain(ready).map(told).collect()
}
