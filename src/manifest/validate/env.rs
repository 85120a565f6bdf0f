//! Environment variables: names, and exactly one source of a value.

use k8s_openapi::api::core::v1::{Container, EnvVar};

use super::super::node::Node;
use super::super::object::key_is_good;
use super::super::path::{Path, Report, invalid, required, unsupported};
use super::{names, needed};

/// Field paths of the downward API.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.hostname",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub(super) fn check(container: &Container, path: &Path<'_>, report: &mut Report<'_>) {
    let list = path.field("env");
    for (i, each) in container.env.iter().flatten().enumerate() {
        let path = list.index(i);
        needed(&each.name, names::env_name, &path.field("name"), report);
        value_from(each, &path, report);
    }
    let list = path.field("envFrom");
    for (i, each) in container.env_from.iter().flatten().enumerate() {
        let path = list.index(i);
        if let Some(prefix) = each.prefix.as_deref() {
            super::accepted(prefix, names::env_name, &path.field("prefix"), report);
        }
        match (&each.config_map_ref, &each.secret_ref) {
            (None, None) => {
                let detail = "must specify one of: `configMapRef` or `secretRef`";
                report.error(&path, invalid("", detail));
            }
            (Some(_), Some(_)) => {
                report.error(&path, invalid("", "may not have more than one field specified at a time"))
            }
            (Some(map), None) => object_name(&map.name, &path.field("configMapRef"), report),
            (None, Some(secret)) => object_name(&secret.name, &path.field("secretRef"), report),
        }
    }
}

/// `ValidateConfigMapName` and `ValidateSecretName`, where upstream looks at the name at all.
fn object_name(name: &str, path: &Path<'_>, report: &mut Report<'_>) {
    needed(name, names::subdomain, &path.field("name"), report);
}

fn key_ref(name: &str, key: &str, path: &Path<'_>, report: &mut Report<'_>) {
    object_name(name, path, report);
    needed(key, key_is_good, &path.field("key"), report);
}

fn value_from(env: &EnvVar, path: &Path<'_>, report: &mut Report<'_>) {
    let Some(from) = &env.value_from else { return };
    let path = path.field("valueFrom");
    let written = report.written(&path).map(Node::entries).unwrap_or_default();
    match written.iter().filter(|e| !e.value.is_null()).count() {
        0 => {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef`, or `fileKeyRef`";
            report.error(&path, invalid("", detail));
        }
        1 if env.value.as_deref().is_some_and(|v| !v.is_empty()) => {
            report.error(&path, invalid("", "may not be specified when `value` is not empty"));
        }
        1 => {}
        _ => report.error(&path, invalid("", "may not have more than one field specified at a time")),
    }
    if let Some(it) = &from.config_map_key_ref {
        key_ref(&it.name, &it.key, &path.field("configMapKeyRef"), report);
    }
    if let Some(it) = &from.secret_key_ref {
        key_ref(&it.name, &it.key, &path.field("secretKeyRef"), report);
    }
    if let Some(field) = &from.field_ref {
        let path = path.field("fieldRef");
        let path = path.field("fieldPath");
        let keyed = ["metadata.annotations['", "metadata.labels['"]
            .into_iter()
            .any(|start| field.field_path.starts_with(start) && field.field_path.ends_with("']"));
        if field.field_path.is_empty() {
            report.error(&path, required(""));
        } else if !keyed && !FIELDS.contains(&field.field_path.as_str()) {
            report.error(&path, unsupported(&field.field_path, FIELDS));
        }
    }
}
