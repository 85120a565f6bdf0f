//! Decodes trees into ConfigMaps, Secrets and claims, and validates them like the API server
//! (`pkg/apis/core/validation/validation.go`: ValidateConfigMap, ValidateSecret,
//! ValidatePersistentVolumeClaim).
//!
//! The tree is read by hand, because the API's types for these objects would make the binary much larger.
//! A problem names only the kind of a value, never the value: it may be a secret.

mod claim;
mod data;
mod secret;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::path::{Path, Report, required};
use super::tree::{Data, Node};
use super::{Context, support, types, unknown, validate};
use crate::pod::Origin;
use crate::pod::object::{About, LocalObject, ObjectKey, ObjectKind};

pub(crate) use data::key_is_good;

/// The local object's kind of this name, if there is one.
pub(crate) fn kind(word: &str) -> Option<ObjectKind> {
    use ObjectKind::{ConfigMap, PersistentVolumeClaim, Secret};
    [ConfigMap, Secret, PersistentVolumeClaim].into_iter().find(|kind| kind.as_str() == word)
}

/// Decodes one object, if its types fit; further problems are in the report.
pub(crate) fn object(
    kind: ObjectKind,
    origin: Origin,
    context: &Context<'_>,
    report: &mut Report<'_>,
) -> Option<LocalObject> {
    let metadata: ObjectMeta = types::field("metadata", report);
    let content = match kind {
        ObjectKind::ConfigMap => data::config_map(report),
        ObjectKind::Secret => secret::secret(&metadata, report),
        ObjectKind::PersistentVolumeClaim => claim::claim(report),
    };
    let root = Path::ROOT;
    let immutable = kind != ObjectKind::PersistentVolumeClaim && flag(&root.field("immutable"), report);
    let path = root.field("metadata");
    let name = metadata.name.clone().unwrap_or_default();
    if name.is_empty() {
        report.error(&path.field("name"), required(""));
    }
    unknown_fields(kind, &metadata, report);
    validate::object_metadata(&metadata, report);
    support::check_metadata(report);
    if report.has_type_errors() {
        return None;
    }
    let namespace = metadata.namespace.filter(|n| !n.is_empty()).unwrap_or_else(|| "default".to_owned());
    let key = ObjectKey { kind, namespace, name };
    let about = About {
        labels: metadata.labels.unwrap_or_default(),
        created: metadata.creation_timestamp.map(|time| time.0),
    };
    Some(LocalObject { key, source: context.source, origin, immutable, content: content?, about })
}

fn unknown_fields(kind: ObjectKind, metadata: &ObjectMeta, report: &mut Report<'_>) {
    let known: &[&str] = match kind {
        ObjectKind::ConfigMap => &["data", "binaryData", "immutable"],
        ObjectKind::Secret => &["data", "stringData", "immutable", "type"],
        ObjectKind::PersistentVolumeClaim => &["spec", "status"],
    };
    let root = Path::ROOT;
    for entry in report.root().entries() {
        let path = root.field(&entry.key);
        match entry.key.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                // A value that cannot be written as JSON was not read from it, either.
                if let Ok(typed) = serde_json::to_value(metadata) {
                    unknown::check(&entry.value, &typed, &path, report);
                }
            }
            key if known.contains(&key) || entry.value.is_null() => {}
            key => unknown::unknown_among(key, known.iter().copied(), &path, report),
        }
    }
}

/// A boolean; absent or null is false.
fn flag(path: &Path<'_>, report: &mut Report<'_>) -> bool {
    match report.written(path).map(|node| &node.data) {
        None | Some(Data::Null) => false,
        Some(Data::Bool(value)) => *value,
        Some(_) => {
            type_error("a boolean (true or false)", path, report);
            false
        }
    }
}

/// A text; absent or null is the empty text.
fn text<'n>(path: &Path<'_>, report: &mut Report<'n>) -> &'n str {
    match report.written(path).map(|node| &node.data) {
        None | Some(Data::Null) => "",
        Some(Data::String(text)) => text,
        Some(_) => {
            type_error("a string", path, report);
            ""
        }
    }
}

/// Reports a value of another kind than `wanted`. The value itself is not repeated.
fn type_error(wanted: &str, path: &Path<'_>, report: &mut Report<'_>) {
    let node = report.written(path);
    let found = node.map_or("null", Node::kind);
    let scalar = matches!(node.map(|n| &n.data), Some(Data::Bool(_) | Data::Number(_)));
    let quotes = if wanted == "a string" && scalar { "; write it in quotes" } else { "" };
    report.error(path, format!("must be {wanted}, not {found}{quotes}"));
}
