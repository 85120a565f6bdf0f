//! Claims of pods and the volumes that they are bound to
//! (`pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go`). Pure.
//!
//! A volume that a node reaches without a driver (`local`, `hostPath`, `nfs`) becomes part of the claim that the other
//! rooms see. Otherwise the claim has the reason, and the pods that use it wait.
//!
//! Never here: a call, or a claim of this node's own manifests.

use std::sync::Arc;

use crate::base::json::json;
use k8s_openapi::api::core::v1::NodeSelector;
use serde_json::{Map, Value};

use crate::base::json;
use crate::base::quantity;
use crate::pod::object::claimed::{BoundVolume, ClusterClaim, Reached};
use crate::pod::object::{About, Content, LocalObject, ObjectKey, ObjectKind};
use crate::pod::placement::{self, NodeAtServer};
use crate::pod::{Origin, Source};

/// Fields of a volume's spec beside its type.
const COMMON: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// Key of the volume in a stored claim.
const VOLUME: &str = "volume";

fn text<'v>(of: &'v Value, path: &str) -> &'v str {
    of.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn texts(of: &Value, path: &str) -> Vec<String> {
    let all = of.pointer(path).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Name of the volume that a claim is bound to.
///
/// # Errors
/// The claim is bound to no volume now; in the kubelet's words.
pub fn volume_of(claim: &Value) -> Result<&str, String> {
    let is_protected =
        texts(claim, "/metadata/finalizers").iter().any(|it| it == "kubernetes.io/pvc-protection");
    if !text(claim, "/metadata/deletionTimestamp").is_empty() && !is_protected {
        return Err("PVC is being deleted".to_owned());
    }
    match (text(claim, "/status/phase"), text(claim, "/spec/volumeName")) {
        ("Bound", "") => Err("PVC has empty pvc.Spec.VolumeName".to_owned()),
        ("Bound", name) => Ok(name),
        _ => Err("PVC is not bound".to_owned()),
    }
}

/// The way of this node to the volume of a claim.
///
/// # Errors
/// The volume is not the claim's, not for this node, or needs a driver.
pub fn reached(
    claim: &Value,
    volume: &Value,
    name: &str,
    node: Option<&NodeAtServer>,
) -> Result<BoundVolume, String> {
    let own = text(volume, "/metadata/name");
    match text(volume, "/spec/claimRef/uid") {
        "" => {
            return Err(format!(
                "found PV object {own} with nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
            ));
        }
        uid if uid != text(claim, "/metadata/uid") => {
            return Err(format!(
                "found PV object {own} with a pv.Spec.ClaimRef.UID {uid} that does not point to claim {}",
                text(claim, "/metadata/uid")
            ));
        }
        _ => {}
    }
    if text(volume, "/spec/volumeMode") == "Block" {
        return Err(format!("volume {own} has volumeMode Block, but is specified in volumeMounts"));
    }
    if let Some(selector) = volume.pointer("/spec/nodeAffinity/required").filter(|it| !it.is_null()) {
        let why = match (json::read::<NodeSelector>(selector), node) {
            (Err(error), _) => Some(error.to_string()),
            (Ok(_), None) => Some("the node is not known at the API server".to_owned()),
            (Ok(selector), Some(node)) => {
                let fits = placement::is_any_met(&selector, name, &node.labels);
                (!fits).then(|| "no matching NodeSelectorTerms".to_owned())
            }
        };
        if let Some(why) = why {
            return Err(format!("storage node affinity check failed for volume {own:?}: {why}"));
        }
    }
    bound(volume)
}

/// A volume, by its type.
fn bound(volume: &Value) -> Result<BoundVolume, String> {
    let name = text(volume, "/metadata/name").to_owned();
    let of = |kind: &str| volume.pointer(&format!("/spec/{kind}")).filter(|it| it.is_object());
    let reached = if let Some(local) = of("local") {
        Reached::Local { path: text(local, "/path").to_owned() }
    } else if let Some(host) = of("hostPath") {
        Reached::HostPath { path: text(host, "/path").to_owned(), kind: text(host, "/type").to_owned() }
    } else if let Some(nfs) = of("nfs") {
        Reached::Nfs {
            server: text(nfs, "/server").to_owned(),
            path: text(nfs, "/path").to_owned(),
            read_only: nfs.get("readOnly").and_then(Value::as_bool).unwrap_or(false),
            options: texts(volume, "/spec/mountOptions"),
        }
    } else if let Some(csi) = of("csi") {
        let driver = text(csi, "/driver");
        return Err(format!(
            "volume {name}: driver name {driver} not found in the list of registered CSI drivers: podkeeper has none"
        ));
    } else {
        let mut kinds =
            volume.get("spec").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key);
        let kind = kinds.find(|key| !COMMON.contains(&key.as_str())).map_or("unknown", String::as_str);
        return Err(format!("volume {name}: no volume plugin matched: podkeeper has none for {kind}"));
    };
    Ok(BoundVolume { name, reached })
}

/// The stored form of a claim with its volume.
#[must_use]
pub fn remembered(claim: &Value, volume: &Value) -> Value {
    let part = |of: &Value, path: &str| of.pointer(path).cloned().unwrap_or_default();
    let mut spec = Map::new();
    for kind in ["local", "hostPath", "nfs", "mountOptions"] {
        if let Some(part) = volume.pointer(&format!("/spec/{kind}")).filter(|it| !it.is_null()) {
            spec.insert(kind.to_owned(), part.clone());
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": ObjectKind::PersistentVolumeClaim.as_str(),
        "metadata": {
            "name": text(claim, "/metadata/name"),
            "namespace": text(claim, "/metadata/namespace"),
            "uid": text(claim, "/metadata/uid"),
        },
        "spec": {"accessModes": part(claim, "/spec/accessModes"), "resources": part(claim, "/spec/resources")},
        VOLUME: {"metadata": {"name": text(volume, "/metadata/name")}, "spec": spec},
    })
}

/// Reads a stored claim.
#[must_use]
pub fn recalled(own: &Value, server: &str) -> Option<Arc<LocalObject>> {
    let key = ObjectKey {
        kind: ObjectKind::PersistentVolumeClaim,
        namespace: text(own, "/metadata/namespace").to_owned(),
        name: text(own, "/metadata/name").to_owned(),
    };
    Some(object(&key, own, Ok(bound(own.get(VOLUME)?).ok()?), server))
}

/// The claim as the other rooms see it.
#[must_use]
pub fn object(
    key: &ObjectKey,
    claim: &Value,
    volume: Result<BoundVolume, String>,
    server: &str,
) -> Arc<LocalObject> {
    let storage = quantity::value(text(claim, "/spec/resources/requests/storage")).unwrap_or(0);
    let path = format!("{server}/api/v1/namespaces/{}/persistentvolumeclaims/{}", key.namespace, key.name);
    Arc::new(LocalObject {
        key: key.clone(),
        source: Source::Api,
        origin: Origin { path, document: 0 },
        // A claim keeps its volume as long as a pod uses it.
        immutable: volume.is_ok(),
        content: Content::ClusterClaim(ClusterClaim {
            access_modes: texts(claim, "/spec/accessModes"),
            storage: u64::try_from(storage).unwrap_or(0),
            volume,
        }),
        about: About::default(),
    })
}

/// Whether the claim has its volume.
#[must_use]
pub fn is_bound(object: &LocalObject) -> bool {
    matches!(&object.content, Content::ClusterClaim(claim) if claim.volume.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_are_bound() {
        let check = |claim: Value, expected: Result<&str, &str>| {
            assert_eq!(volume_of(&claim), expected.map_err(str::to_owned), "{claim}");
        };
        check(json!({"spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}), Ok("v"));
        check(json!({"spec": {"volumeName": "v"}, "status": {"phase": "Pending"}}), Err("PVC is not bound"));
        check(json!({"status": {"phase": "Bound"}}), Err("PVC has empty pvc.Spec.VolumeName"));
        check(json!(7), Err("PVC is not bound"));
        let deleted = |finalizers: Value| {
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers},
                "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}})
        };
        check(deleted(json!(["kubernetes.io/pvc-protection"])), Ok("v"));
        check(deleted(json!([])), Err("PVC is being deleted"));
    }

    #[test]
    fn volumes_that_a_node_can_have() {
        let claim = json!({"metadata": {"uid": "c-1"}});
        let labels = [("zone".to_owned(), "a".to_owned())].into();
        let node = NodeAtServer { labels, ..NodeAtServer::default() };
        let check = |mut spec: Value, expected: Result<Reached, &str>| {
            if spec.get("claimRef").is_none() {
                spec["claimRef"] = json!({"uid": "c-1"});
            }
            spec["accessModes"] = json!(["ReadWriteOnce"]);
            let volume = json!({"metadata": {"name": "v"}, "spec": spec});
            let is = reached(&claim, &volume, "n1", Some(&node)).map(|bound| bound.reached);
            assert_eq!(is, expected.map_err(str::to_owned), "{volume}");
        };
        let in_zone = |zone: &str| {
            let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
            json!({"required": {"nodeSelectorTerms": [term]}})
        };
        let local = || Ok(Reached::Local { path: "/mnt/a".to_owned() });
        check(json!({"local": {"path": "/mnt/a"}, "nodeAffinity": in_zone("a")}), local());
        let elsewhere = "storage node affinity check failed for volume \"v\": no matching NodeSelectorTerms";
        check(json!({"local": {"path": "/mnt/a"}, "nodeAffinity": in_zone("b")}), Err(elsewhere));
        let host = Reached::HostPath { path: "/p".to_owned(), kind: "File".to_owned() };
        check(json!({"hostPath": {"path": "/p", "type": "File"}}), Ok(host));
        let (server, path, options) = ("s".to_owned(), "/e".to_owned(), vec!["nolock".to_owned()]);
        let nfs = Reached::Nfs { server, path, read_only: true, options };
        check(
            json!({"nfs": {"server": "s", "path": "/e", "readOnly": true}, "mountOptions": ["nolock"]}),
            Ok(nfs),
        );
        check(
            json!({"csi": {"driver": "d"}}),
            Err(
                "volume v: driver name d not found in the list of registered CSI drivers: podkeeper has none",
            ),
        );
        check(json!({"iscsi": {}}), Err("volume v: no volume plugin matched: podkeeper has none for iscsi"));
        let block = "volume v has volumeMode Block, but is specified in volumeMounts";
        check(json!({"volumeMode": "Block", "local": {}}), Err(block));
        let other = "found PV object v with a pv.Spec.ClaimRef.UID c-2 that does not point to claim c-1";
        check(json!({"claimRef": {"uid": "c-2"}, "local": {"path": "/"}}), Err(other));
        let free = "found PV object v with nil pv.Spec.ClaimRef indicating it is not yet bound to the claim";
        check(json!({"claimRef": null, "local": {"path": "/"}}), Err(free));
    }

    #[test]
    fn what_is_remembered_of_a_claim_is_the_same_claim() {
        let claim = json!({
            "metadata": {"name": "c", "namespace": "shop", "uid": "c-1"},
            "spec": {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Mi"}}},
        });
        let volume = json!({
            "metadata": {"name": "v", "managedFields": []},
            "spec": {"nfs": {"server": "s", "path": "/e"}, "mountOptions": ["nolock"], "claimRef": {"uid": "c-1"}},
        });
        let key = ObjectKey {
            kind: ObjectKind::PersistentVolumeClaim,
            namespace: "shop".to_owned(),
            name: "c".to_owned(),
        };
        let known = object(&key, &claim, reached(&claim, &volume, "n1", None), "https://s");
        assert!(is_bound(&known));
        assert_eq!(recalled(&remembered(&claim, &volume), "https://s"), Some(known));
        assert_eq!(recalled(&json!({}), "https://s"), None);
    }
}
