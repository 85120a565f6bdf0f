//! `metrics.k8s.io`: the use of the node and its pods, measured on request. Pure.

use crate::base::json::json;
use serde_json::Value;

use super::asked::Wanted;
use super::failure::Failure;
use super::kinds::{Kind, Resource};
use super::value::place;
use super::world::State;
use crate::base::clock::Timestamp;
use crate::stats::summary::{Summary, Used};

/// The time over which CPU is measured, for `kubectl top`.
const WINDOW: &str = "10s";

/// One object or a list of the requested ones.
///
/// # Errors
/// There is no such object.
pub fn answer(
    state: &State,
    kind: &Kind,
    namespace: Option<&str>,
    name: Option<&str>,
    wanted: &Wanted,
    summary: &Summary,
    now: Timestamp,
) -> Result<Value, Failure> {
    let of = if kind.resource == Resource::NodeMetrics { Resource::Nodes } else { Resource::Pods };
    let time = crate::status::seconds(now).0.to_string();
    let mut all = Vec::new();
    for ((in_namespace, called), object) in state.list(of, namespace) {
        if name.is_some_and(|name| name != called) || !wanted.selects(&object.value) {
            continue;
        }
        let mut metadata = json!({"name": called, "creationTimestamp": time});
        if kind.namespaced {
            *place(&mut metadata, &["namespace"]) = in_namespace.clone().into();
        }
        if let Some(labels) = object.value.pointer("/metadata/labels") {
            *place(&mut metadata, &["labels"]) = labels.clone();
        }
        let mut one = json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata,
                             "timestamp": time, "window": WINDOW});
        if kind.resource == Resource::NodeMetrics {
            *place(&mut one, &["usage"]) = usage(&summary.node.used);
        } else {
            let is_it = |reference: &crate::stats::summary::PodRef| {
                reference.name == *called && reference.namespace == *in_namespace
            };
            let Some(found) = summary.pods.iter().find(|pod| is_it(&pod.pod_ref)) else { continue };
            let containers = found.containers.iter();
            *place(&mut one, &["containers"]) =
                containers.map(|one| json!({"name": one.name, "usage": usage(&one.used)})).collect();
        }
        all.push(one);
    }
    match name {
        Some(name) => all.pop().ok_or_else(|| Failure::not_found(kind, name)),
        None => Ok(json!({"kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(),
                          "metadata": {}, "items": all})),
    }
}

fn usage(used: &Used) -> Value {
    let cpu = used.cpu.as_ref().and_then(|cpu| cpu.usage_nano_cores).unwrap_or(0);
    let memory = used.memory.as_ref().and_then(|memory| memory.working_set_bytes).unwrap_or(0);
    json!({"cpu": format!("{cpu}n"), "memory": format!("{}Ki", memory / 1024)})
}
