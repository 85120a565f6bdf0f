//! Checks of the server's pods, before anything of them is used: a pod must be a readable object with valid names that
//! mounts no other pod's tokens; and a bound on the memory of all pods. Pure.
//!
//! Never here: the meaning of a pod.

use std::fmt::Display;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::decode::Read;
use crate::base::json;
use crate::base::limits;
use crate::node::sys;
use crate::pod::object::refs::references;
use crate::pod::object::{ObjectKind, TOKEN};
use crate::pod::{DesiredPod, PodKey};

/// Memory of a JSON value beside its text, bytes.
const VALUE: usize = 48;

/// Memory of a pod of which only the name is kept, bytes.
pub const NOTE: usize = 2048;

/// The pod, without the history of its fields, which podkeeper does not use.
///
/// # Errors
/// The wrong field (empty when it is not known), and the reason.
pub fn pod_of(value: &Value) -> Result<Pod, (&'static str, String)> {
    match json::read::<Pod>(value) {
        Ok(mut pod) => {
            pod.metadata.managed_fields = None;
            Ok(pod)
        }
        Err(error) => {
            let part =
                |name: &'static str, why: fn(&Value) -> Option<String>| Some((name, why(value.get(name)?)?));
            Err(part("metadata", why_not::<ObjectMeta>)
                .or_else(|| part("spec", why_not::<PodSpec>))
                .or_else(|| part("status", why_not::<PodStatus>))
                .unwrap_or_else(|| ("", words(&error))))
        }
    }
}

fn why_not<T: DeserializeOwned>(part: &Value) -> Option<String> {
    json::read::<T>(part).err().filter(|_| !part.is_null()).map(|error| words(&error))
}

/// The text of an error, cut to a bound, because errors quote values.
fn words(error: &impl Display) -> String {
    error.to_string().chars().take(limits::PROBLEM_VALUE).collect()
}

/// The error in the names of a pod, with the field: names become parts of paths, and are shown.
#[must_use]
pub fn name(key: &PodKey) -> Option<(&'static str, String)> {
    let wrong = || "must be a lowercase RFC 1123 name".to_owned();
    if !is_label(&key.namespace) || key.namespace.len() > 63 {
        return Some(("metadata.namespace", wrong()));
    }
    (!is_name(&key.name)).then(|| ("metadata.name", wrong()))
}

/// Whether an object of the server can have this name.
#[must_use]
pub fn is_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte != b'-');
    let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.bytes().all(of_name) && is_edge(text.bytes().next()) && is_edge(text.bytes().next_back())
}

/// The reason why a pod may not run that names the token of another pod. A stored pod names its own.
#[must_use]
pub fn others_token(pod: &DesiredPod) -> Option<String> {
    let is_own = |rest: &str| {
        let (_, rest) = rest.split_once(':').unwrap_or_default();
        let number = rest.strip_prefix(pod.uid.as_str()).and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let all = references(pod);
    let of_others = all.iter().find(|it| {
        it.key.kind == ObjectKind::Secret && it.key.name.strip_prefix(TOKEN).is_some_and(|rest| !is_own(rest))
    })?;
    Some(format!("{}: Secrets whose names begin with {TOKEN:?} are tokens of other pods", of_others.field))
}

/// Approximate memory of a pod in bytes, without the history of its fields.
#[must_use]
pub fn weight(pod: &Value) -> usize {
    let history = pod.pointer("/metadata/managedFields").map_or(0, heap);
    heap(pod).saturating_sub(history).saturating_add(NOTE)
}

fn heap(value: &Value) -> usize {
    let inside: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(heap).sum(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| key.len().saturating_add(VALUE).saturating_add(heap(value))).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    inside.saturating_add(VALUE)
}

/// Whether there is room for a pod beside the others. `before` is the known version of this pod: a change that needs no
/// more memory, or a deletion, always has room.
#[must_use]
pub fn fits<'r>(read: &Read, before: Option<&Read>, others: impl Iterator<Item = &'r Read>) -> bool {
    if let Some(before) = before {
        let is_deleted = |read: &Read| read.pod.metadata.deletion_timestamp.is_some();
        let more = if is_deleted(read) && !is_deleted(before) { NOTE } else { 0 };
        if read.weight <= before.weight.saturating_add(more) {
            return true;
        }
    }
    let (count, bytes) = others.fold((1_usize, read.weight), |(count, bytes), read| {
        (count.saturating_add(1), bytes.saturating_add(read.weight))
    });
    count <= limits::API_PODS && bytes <= most_bytes()
}

fn most_bytes() -> usize {
    sys::share(limits::API_PODS_BYTES, limits::API_PODS_PART)
}

/// The message when there is no room for a pod or a change of it.
#[must_use]
pub fn no_room() -> String {
    format!(
        "the API server has more pods for this node than it can hold: at most {}, of {} MiB",
        limits::API_PODS,
        most_bytes() >> 20
    )
}
