//! The node's status: the one that the server should have, and the patch that leads there. Pure.

use crate::base::json::json;
use serde_json::{Map, Value};

use crate::base::json;
use crate::cluster::{at, patch};

/// The status that the server should have: ours, plus from the server's copy the parts that are not ours: conditions
/// and resources of others, and transition times of unchanged conditions.
#[must_use]
pub fn wanted(theirs: &Value, ours: &Value) -> Value {
    let none = Map::new();
    let (theirs, ours) = (theirs.as_object().unwrap_or(&none), ours.as_object().unwrap_or(&none));
    let mut all = theirs.clone();
    for (name, value) in ours {
        let before = theirs.get(name);
        let value = match (name.as_str(), before) {
            ("conditions", Some(Value::Array(before))) => conditions(before, value),
            ("capacity" | "allocatable", Some(Value::Object(before))) => resources(before, value),
            _ => value.clone(),
        };
        all.insert(name.clone(), value);
    }
    Value::Object(all)
}

fn conditions(theirs: &[Value], ours: &Value) -> Value {
    let ours = ours.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_ours = |other: &&Value| ours.iter().any(|own| at(own, "/type") == at(other, "/type"));
    let foreign = theirs.iter().filter(|other| !is_ours(other)).cloned();
    let own = ours.iter().map(|own| {
        let is_same = |before: &&Value| {
            at(before, "/type") == at(own, "/type") && at(before, "/status") == at(own, "/status")
        };
        let since = theirs.iter().find(is_same).and_then(|before| before.get("lastTransitionTime"));
        let mut own = own.clone();
        if let (Some(since), Some(own)) = (since, own.as_object_mut()) {
            own.insert("lastTransitionTime".to_owned(), since.clone());
        }
        own
    });
    foreign.chain(own).collect()
}

/// Resources of others stay; removed devices of ours are set to zero
/// (`pkg/kubelet/kubelet_node_status.go`, `updateDefaultResources`, `reconcileExtendedResource`).
fn resources(theirs: &Map<String, Value>, ours: &Value) -> Value {
    let mut all = theirs.clone();
    for (name, amount) in &mut all {
        if name.starts_with(crate::node::devices::DOMAIN) {
            *amount = "0".into();
        }
    }
    all.extend(ours.as_object().cloned().unwrap_or_default());
    Value::Object(all)
}

/// Whether the statuses differ in anything but heartbeat times. A server older than the declared features drops them from
/// each patch: that they are missing is no reason for one. The next patch that is due declares them.
#[must_use]
pub fn differs(theirs: &Value, wanted: &Value) -> bool {
    let mut wanted = still(wanted);
    if theirs.get("declaredFeatures").is_none()
        && let Some(wanted) = wanted.as_object_mut()
    {
        wanted.remove("declaredFeatures");
    }
    patch::diff(&still(theirs), &wanted).is_some()
}

fn still(status: &Value) -> Value {
    let mut status = status.clone();
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastHeartbeatTime");
        }
    }
    status
}

/// The body of the patch, which changes only the status. The addresses are a list that the API marks for merging and
/// that must be replaced (`pkg/util/node/node.go`, `preparePatchBytesforNodeStatus`).
#[must_use]
pub fn body(theirs: &Value, wanted: &Value) -> Value {
    let mut changes = patch::diff(theirs, wanted).unwrap_or_else(|| json!({}));
    let addresses = changes.get_mut("addresses").and_then(Value::as_array_mut);
    if let Some(addresses) = addresses {
        addresses.push(json!({ "$patch": "replace" }));
    }
    json!({ "status": changes })
}

/// The patch for the metadata of a node that existed before: default labels and the annotation
/// (`reconcileCMADAnnotationWithExistingNode`, `updateDefaultLabels`). Labels from flags stay as they
/// are.
#[must_use]
pub fn metadata(theirs: &Value, ours: &Value) -> Option<Value> {
    const DEFAULT: [&str; 5] = [
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    ];
    let mut changes = Map::new();
    for part in ["labels", "annotations"] {
        let of = format!("/metadata/{part}");
        let own = at(ours, &of).as_object().into_iter().flatten();
        let own = own.filter(|(name, _)| part == "annotations" || DEFAULT.contains(&name.as_str()));
        let differing = own.filter(|(name, value)| at(theirs, &of).get(*name) != Some(*value));
        let differing = json::object(&mut differing.map(|(name, value)| (name.clone(), value.clone())));
        if !differing.is_empty() {
            changes.insert(part.to_owned(), Value::Object(differing));
        }
    }
    (!changes.is_empty()).then(|| json!({ "metadata": changes }))
}
