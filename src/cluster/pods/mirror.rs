//! Mirror pods: the server's copies of pods from files and URLs, so that the cluster sees them. Pure.

use crate::base::json::json;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value};

use crate::manifest::static_pod::{CONFIG_HASH, CONFIG_MIRROR};
use crate::pod::DesiredPod;

/// The hash that identifies a version of a static pod.
#[must_use]
pub fn hash(pod: &DesiredPod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(CONFIG_HASH).map(String::as_str)
}

/// The hash of the mirrored version; `None` when the pod is not a mirror.
#[must_use]
pub fn mirrored(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(CONFIG_MIRROR).map(String::as_str)
}

/// The mirror pod to create; `node` is the UID of the node of this name, which owns it.
#[must_use]
pub fn body(pod: &DesiredPod, name: &str, node: &str) -> Value {
    let mut annotations = pod.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(CONFIG_MIRROR.to_owned(), hash(pod).unwrap_or_default().to_owned());
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), pod.key.name.as_str().into());
    metadata.insert("namespace".to_owned(), pod.key.namespace.as_str().into());
    metadata.insert("annotations".to_owned(), json!(annotations));
    if let Some(labels) = pod.metadata.labels.as_ref().filter(|labels| !labels.is_empty()) {
        metadata.insert("labels".to_owned(), json!(labels));
    }
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": node, "controller": true });
    metadata.insert("ownerReferences".to_owned(), json!([owner]));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": serde_json::to_value(&*pod.spec).unwrap_or_default(),
        "status": { "phase": "Pending" },
    })
}
