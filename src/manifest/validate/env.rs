//! Environment variables: names, and exactly one source of a value.

use k8s_openapi::api::core::v1::{Container, EnvVar, ObjectFieldSelector, ResourceFieldSelector};

use super::super::object::key_is_good;
use super::super::path::{Path, Report, invalid, required, unsupported};
use super::super::tree::Node;
use super::resources::no_digits;
use super::{names, needed, sources};
use crate::base::quantity;
use crate::pod::downward;

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

/// Sources of a variable's value.
const SOURCES: &[&str] = &["configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"];

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
            (Some(map), None) => all_of(&map.name, &path.field("configMapRef"), report),
            (None, Some(secret)) => all_of(&secret.name, &path.field("secretRef"), report),
        }
    }
}

/// An object in `envFrom`, whose name upstream checks like the beginning of a name.
fn all_of(name: &str, path: &Path<'_>, report: &mut Report<'_>) {
    let path = path.field("name");
    needed(name, names::subdomain_prefix, &path, report);
    if names::subdomain_prefix(name).is_ok() {
        sources::name(name, &path, report);
    }
}

fn key_ref(name: &str, key: &str, path: &Path<'_>, report: &mut Report<'_>) {
    needed(name, names::subdomain, &path.field("name"), report);
    needed(key, key_is_good, &path.field("key"), report);
}

fn value_from(env: &EnvVar, path: &Path<'_>, report: &mut Report<'_>) {
    let Some(from) = &env.value_from else { return };
    let path = path.field("valueFrom");
    let written = report.written(&path).map(Node::entries).unwrap_or_default();
    match written.iter().filter(|e| !e.value.is_null() && SOURCES.contains(&e.key.as_str())).count() {
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
        field_ref(field, FIELDS, &path.field("fieldRef"), report);
    }
    if let Some(resource) = &from.resource_field_ref {
        resource_field_ref(resource, &path.field("resourceFieldRef"), report);
    }
}

/// `validateObjectFieldSelector`; `allowed`: paths without a subscript.
pub(super) fn field_ref(
    field: &ObjectFieldSelector,
    allowed: &[&str],
    path: &Path<'_>,
    report: &mut Report<'_>,
) {
    let version = field.api_version.as_deref().unwrap_or_default();
    if !matches!(version, "" | "v1") {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        report.error(&path.field("fieldPath"), invalid(&field.field_path, &detail));
        return;
    }
    let text = field.field_path.as_str();
    match downward::subscript(text) {
        _ if text.is_empty() => report.error(&path.field("fieldPath"), required("")),
        Some(("metadata.annotations", key)) => {
            super::accepted(&key.to_lowercase(), names::qualified, path, report);
        }
        Some(("metadata.labels", key)) => super::accepted(key, names::qualified, path, report),
        Some((map, _)) => report.error(path, invalid(map, "does not support subscript")),
        None if !allowed.contains(&text) => {
            report.error(&path.field("fieldPath"), unsupported(text, allowed));
        }
        None => {}
    }
}

/// `validateContainerResourceFieldSelector`, without the container's name, which is required for volumes
/// only.
pub(super) fn resource_field_ref(field: &ResourceFieldSelector, path: &Path<'_>, report: &mut Report<'_>) {
    let name = field.resource.as_str();
    let resource = name.strip_prefix("limits.").or_else(|| name.strip_prefix("requests."));
    let huge = resource.is_some_and(|resource| resource.starts_with("hugepages-"));
    if name.is_empty() {
        report.error(&path.field("resource"), required(""));
    } else if !huge && !RESOURCES.contains(&name) {
        report.error(&path.field("resource"), unsupported(name, RESOURCES));
    }
    let Some(divisor) = field.divisor.as_ref().map(|q| q.0.as_str()) else { return };
    no_digits(divisor, &path.field("divisor"), report);
    if let Err(e) = quantity::value(divisor) {
        return report.error(&path.field("divisor"), invalid(divisor, &e.to_string()));
    }
    let (allowed, what) = match resource {
        Some("cpu") => (CPU_DIVISORS, "cpu"),
        Some("memory") => (DIVISORS, "memory"),
        Some("ephemeral-storage") => (DIVISORS, "local ephemeral storage"),
        Some(_) if huge => (DIVISORS, "hugepages"),
        _ => return,
    };
    let zero = quantity::milli(divisor) == Ok(0);
    if !zero && !allowed.iter().any(|allowed| quantity::same(allowed, divisor)) {
        let list = allowed.join(", ").replace("1m, 1", "1m and 1");
        let detail = format!("only divisor's values {list} are supported with the {what} resource");
        report.error(&path.field("divisor"), invalid(name, &detail));
    }
}

/// Resources of a container in the downward API.
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const CPU_DIVISORS: &[&str] = &["1m", "1"];
const DIVISORS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
