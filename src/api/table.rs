//! Objects as rows of kubectl's tables (`pkg/printers/internalversion/printers.go`). Pure.

use crate::base::json::json;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::kinds::Resource;
use super::value::{part, place};
use crate::base::clock::Timestamp;
use crate::base::human;
use crate::base::json;
use crate::status::columns::Row;

/// The part of the object beside a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    /// Parses the parameter `includeObject`.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Option<Include> {
        match text {
            None | Some("" | "Metadata") => Some(Include::Metadata),
            Some("None") => Some(Include::None),
            Some("Object") => Some(Include::Object),
            Some(_) => None,
        }
    }
}

/// A column: its name, its type, and whether only `-o wide` shows it.
struct Column(&'static str, &'static str, bool);

const fn text(name: &'static str) -> Column {
    Column(name, "string", false)
}

const fn wide(name: &'static str) -> Column {
    Column(name, "string", true)
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn columns(resource: Resource) -> &'static [Column] {
    match resource {
        Resource::Pods => {
            const {
                &[
                    text("Name"),
                    text("Ready"),
                    text("Status"),
                    text("Restarts"),
                    text("Age"),
                    wide("IP"),
                    wide("Node"),
                    wide("Nominated Node"),
                    wide("Readiness Gates"),
                ]
            }
        }
        Resource::Nodes => {
            const {
                &[
                    text("Name"),
                    text("Status"),
                    text("Roles"),
                    text("Age"),
                    text("Version"),
                    wide("Internal-IP"),
                    wide("External-IP"),
                    wide("OS-Image"),
                    wide("Kernel-Version"),
                    wide("Container-Runtime"),
                ]
            }
        }
        Resource::Events => {
            const {
                &[
                    text("Last Seen"),
                    text("Type"),
                    text("Reason"),
                    text("Object"),
                    wide("Subobject"),
                    wide("Source"),
                    text("Message"),
                    wide("First Seen"),
                    Column("Count", "integer", true),
                    wide("Name"),
                ]
            }
        }
        Resource::Namespaces => const { &[text("Name"), text("Status"), text("Age")] },
        Resource::ConfigMaps => const { &[text("Name"), Column("Data", "integer", false), text("Age")] },
        Resource::Secrets => {
            const { &[text("Name"), text("Type"), Column("Data", "integer", false), text("Age")] }
        }
        Resource::Claims => {
            const {
                &[
                    text("Name"),
                    text("Status"),
                    text("Volume"),
                    text("Capacity"),
                    text("Access Modes"),
                    text("StorageClass"),
                    text("VolumeAttributesClass"),
                    text("Age"),
                    wide("VolumeMode"),
                ]
            }
        }
        Resource::Leases => const { &[text("Name"), text("Holder"), text("Age")] },
        Resource::Services => {
            const {
                &[
                    text("Name"),
                    text("Type"),
                    text("Cluster-IP"),
                    text("External-IP"),
                    text("Port(s)"),
                    text("Age"),
                    wide("Selector"),
                ]
            }
        }
        _ => const { &[text("Name"), text("Age")] },
    }
}

/// The `columnDefinitions` of a resource.
#[must_use]
pub fn definitions(resource: Resource) -> Value {
    let definition = |Column(name, kind, wide): &Column| {
        let format = if *name == "Name" { "name" } else { "" };
        json!({"name": name, "type": kind, "format": format, "description": name, "priority": u8::from(*wide)})
    };
    columns(resource).iter().map(definition).collect()
}

/// A table of these objects. `metadata` is that of the list.
#[must_use]
pub fn table<'a>(
    resource: Resource,
    objects: impl Iterator<Item = &'a Value>,
    metadata: &Value,
    include: Include,
    has_columns: bool,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects.map(|object| row(resource, object, include, now)).collect();
    let columns = if has_columns { definitions(resource) } else { json!([]) };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
           "columnDefinitions": columns, "rows": rows})
}

fn row(resource: Resource, object: &Value, include: Include, now: Timestamp) -> Value {
    let mut row = json!({"cells": cells(resource, object, now)});
    match include {
        Include::None => {}
        Include::Metadata => *place(&mut row, &["object"]) = partial(object),
        Include::Object => *place(&mut row, &["object"]) = object.clone(),
    }
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if resource == Resource::Pods && ["Succeeded", "Failed"].contains(&phase) {
        let message =
            if phase == "Failed" { "The pod failed." } else { "The pod has completed successfully." };
        *place(&mut row, &["conditions"]) =
            json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]);
    }
    row
}

/// The object's metadata alone.
#[must_use]
pub fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": part(object, "/metadata")})
}

fn at<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn or_none(text: &str) -> Value {
    Value::from(if text.is_empty() { "<none>" } else { text })
}

fn age(object: &Value, path: &str, now: Timestamp) -> Value {
    human::age(at(object, path).parse().ok().map(Time).as_ref(), now).into()
}

fn cells(resource: Resource, object: &Value, now: Timestamp) -> Value {
    let name = Value::from(at(object, "/metadata/name"));
    let created = age(object, "/metadata/creationTimestamp", now);
    let entries = |field: &str| object.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    let cells: Vec<Value> = match resource {
        Resource::Pods => pod(object, created, now),
        Resource::Nodes => node(object, name, created),
        Resource::Events => event(object, name, now),
        Resource::Namespaces => vec![name, at(object, "/status/phase").into(), created],
        Resource::ConfigMaps => {
            vec![name, entries("data").saturating_add(entries("binaryData")).into(), created]
        }
        Resource::Secrets => vec![name, at(object, "/type").into(), entries("data").into(), created],
        Resource::Claims => claim(object, name, created),
        Resource::Leases => vec![name, at(object, "/spec/holderIdentity").into(), created],
        _ => vec![name, created],
    };
    cells.into()
}

fn pod(object: &Value, created: Value, now: Timestamp) -> Vec<Value> {
    let Ok(pod) = json::read::<Pod>(object) else { return Vec::new() };
    let cells = Row::of(&pod).cells(true, false, now);
    // AGE is the object's, as in a cluster.
    let with_age = |(at, cell): (usize, String)| if at == 4 { created.clone() } else { cell.into() };
    cells.into_iter().enumerate().map(with_age).collect()
}

fn node(object: &Value, name: Value, created: Value) -> Vec<Value> {
    let list = |path: &str| object.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let ready = list("/status/conditions").find(|condition| at(condition, "/type") == "Ready");
    let mut status = match ready.map(|ready| at(ready, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let roles = labels.into_iter().flat_map(serde_json::Map::keys);
    let roles = roles.filter_map(|key| key.strip_prefix("node-role.kubernetes.io/"));
    let address = |kind: &str| {
        let found = list("/status/addresses").find(|address| at(address, "/type") == kind);
        or_none(found.map(|address| at(address, "/address")).unwrap_or_default())
    };
    let info = |field: &str| Value::from(at(object, &format!("/status/nodeInfo/{field}")));
    vec![
        name,
        status.into(),
        or_none(&roles.collect::<Vec<_>>().join(",")),
        created,
        info("kubeletVersion"),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn event(object: &Value, name: Value, now: Timestamp) -> Vec<Value> {
    let of = format!(
        "{}/{}",
        at(object, "/involvedObject/kind").to_lowercase(),
        at(object, "/involvedObject/name")
    );
    let source = match at(object, "/source/host") {
        "" => at(object, "/source/component").to_owned(),
        host => format!("{}, {host}", at(object, "/source/component")),
    };
    vec![
        age(object, "/lastTimestamp", now),
        at(object, "/type").into(),
        at(object, "/reason").into(),
        of.into(),
        at(object, "/involvedObject/fieldPath").into(),
        source.into(),
        at(object, "/message").trim().into(),
        age(object, "/firstTimestamp", now),
        object.get("count").cloned().unwrap_or_else(|| 1.into()),
        name,
    ]
}

fn claim(object: &Value, name: Value, created: Value) -> Vec<Value> {
    let short = |mode: &Value| match mode.as_str().unwrap_or_default() {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    let modes = object.pointer("/status/accessModes").and_then(Value::as_array);
    let modes: Vec<&str> = modes.into_iter().flatten().map(short).collect();
    vec![
        name,
        at(object, "/status/phase").into(),
        at(object, "/spec/volumeName").into(),
        at(object, "/status/capacity/storage").into(),
        modes.join(",").into(),
        at(object, "/spec/storageClassName").into(),
        "<unset>".into(),
        created,
        or_none(at(object, "/spec/volumeMode")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::kinds::KINDS;

    const NOW: &str = "2026-01-02T03:10:00Z";

    #[test]
    fn each_row_has_a_cell_for_each_column() {
        for kind in KINDS.iter().filter(|kind| kind.is_listed() && kind.resource != Resource::Services) {
            let object = json!({"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": "x"}});
            let table = table(
                kind.resource,
                [&object].into_iter(),
                &json!({}),
                Include::Metadata,
                true,
                NOW.parse().unwrap(),
            );
            let cells = table["rows"][0]["cells"].as_array().unwrap().len();
            assert_eq!(cells, table["columnDefinitions"].as_array().unwrap().len(), "{}", kind.plural);
        }
    }

    #[test]
    fn cells_are_kubectls() {
        let check = |resource, object: Value, expected: Value| {
            assert_eq!(cells(resource, &object, NOW.parse().unwrap()), expected);
        };
        check(
            Resource::Claims,
            json!({"metadata": {"name": "c", "creationTimestamp": "2026-01-02T03:00:00Z"},
                   "spec": {"volumeMode": "Filesystem"},
                   "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}),
            json!(["c", "Bound", "", "1Gi", "RWO", "", "<unset>", "10m", "Filesystem"]),
        );
        check(
            Resource::Secrets,
            json!({"metadata": {"name": "s"}, "type": "Opaque", "data": {"a": "eA==", "b": ""}}),
            json!(["s", "Opaque", 2, "<unknown>"]),
        );
        check(
            Resource::Nodes,
            json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/edge": ""}},
                   "spec": {"unschedulable": true},
                   "status": {"conditions": [{"type": "Ready", "status": "True"}],
                              "nodeInfo": {"kubeletVersion": "v"}}}),
            json!([
                "n",
                "Ready,SchedulingDisabled",
                "edge",
                "<unknown>",
                "v",
                "<none>",
                "<none>",
                "",
                "",
                ""
            ]),
        );
        let done = json!({"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}});
        assert_eq!(
            row(Resource::Pods, &done, Include::None, NOW.parse().unwrap())["conditions"][0]["reason"],
            "Succeeded"
        );
    }
}
