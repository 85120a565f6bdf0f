//! The node's lease: a heartbeat with small requests (`component-helpers/apimachinery/lease/controller.go`). Pure.

use std::time::Duration;

use crate::base::json::json;
use serde_json::Value;

use crate::base::clock::Timestamp;

/// Namespace of all nodes' leases.
pub const NAMESPACE: &str = "kube-node-lease";

/// The lease to write: a new one, or the known one, renewed. `node` is the node's UID; without it the lease has no
/// owner, and gets one later.
#[must_use]
pub fn renewed(
    known: Option<&Value>,
    name: &str,
    node: Option<&str>,
    lasts: Duration,
    now: Timestamp,
) -> Value {
    let mut lease = known.cloned().unwrap_or_else(|| {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": name, "namespace": NAMESPACE },
        })
    });
    // The server manages these itself.
    if let Some(metadata) = lease.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(uid) = node {
            let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid });
            metadata.insert("ownerReferences".to_owned(), json!([owner]));
        }
    }
    if let Some(lease) = lease.as_object_mut() {
        let mut spec = lease.get("spec").cloned().unwrap_or_else(|| json!({}));
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("holderIdentity".to_owned(), name.into());
            spec.insert("leaseDurationSeconds".to_owned(), lasts.as_secs().into());
            spec.insert("renewTime".to_owned(), format!("{now:.6}").into());
        }
        lease.insert("spec".to_owned(), spec);
    }
    lease
}
