//! Fields that other programs write into an object's metadata: owners, finalizers, managed fields. podkeeper
//! does not use them, but an exported pod has them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};

use super::super::path::{Path, Report, invalid, too_long};
use super::{accepted, names};

/// Longest name of a field manager, and of a subresource.
const MANAGER_BYTES: usize = 128;
const SUBRESOURCE_BYTES: usize = 256;

pub(super) fn check(meta: &ObjectMeta, path: &Path<'_>, report: &mut Report<'_>) {
    finalizers(meta.finalizers.as_deref().unwrap_or_default(), &path.field("finalizers"), report);
    owners(meta.owner_references.as_deref().unwrap_or_default(), &path.field("ownerReferences"), report);
    let list = path.field("managedFields");
    for (i, each) in meta.managed_fields.iter().flatten().enumerate() {
        managed(each, &list.index(i), report);
    }
}

fn finalizers(finalizers: &[String], path: &Path<'_>, report: &mut Report<'_>) {
    for (i, name) in finalizers.iter().enumerate() {
        let path = path.index(i);
        accepted(name, names::qualified, &path, report);
        if !name.contains('/') && !matches!(name.as_str(), "kubernetes" | "orphan" | "foregroundDeletion") {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            report.error(&path, invalid(name, detail));
        }
    }
    let has = |wanted: &str| finalizers.iter().any(|name| name == wanted);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        report.error(path, invalid(&finalizers.join(","), detail));
    }
}

fn owners(owners: &[OwnerReference], path: &Path<'_>, report: &mut Report<'_>) {
    let mut controller: Option<String> = None;
    for (i, owner) in owners.iter().enumerate() {
        let path = path.index(i);
        // `group/version`, or a version alone.
        let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
        if version.is_empty() || version.contains('/') {
            report.error(&path.field("apiVersion"), invalid(&owner.api_version, "version must not be empty"));
        }
        for (name, value) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
            if value.is_empty() {
                report.error(&path.field(name), invalid("", "must not be empty"));
            }
        }
        if (group, version, owner.kind.as_str()) == ("", "v1", "Event") {
            report.error(&path, invalid("v1/Event", "/v1, Kind=Event is disallowed from being an owner"));
        }
        if owner.controller != Some(true) {
            continue;
        }
        let this = format!("{}/{}", owner.kind, owner.name);
        match &controller {
            None => controller = Some(this),
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                report.error(&path.field("controller"), invalid("true", &detail));
            }
        }
    }
}

fn managed(entry: &ManagedFieldsEntry, path: &Path<'_>, report: &mut Report<'_>) {
    let text = |field: &'_ Option<String>| field.clone().unwrap_or_default();
    let operation = text(&entry.operation);
    if !matches!(operation.as_str(), "Apply" | "Update") {
        report.error(&path.field("operation"), invalid(&operation, "must be `Apply` or `Update`"));
    }
    let kind = text(&entry.fields_type);
    if !matches!(kind.as_str(), "" | "FieldsV1") {
        report.error(&path.field("fieldsType"), invalid(&kind, "must be `FieldsV1`"));
    }
    let manager = text(&entry.manager);
    if manager.len() > MANAGER_BYTES {
        report.error(&path.field("manager"), too_long(MANAGER_BYTES));
    }
    if manager.chars().any(char::is_control) {
        report.error(&path.field("manager"), invalid(&manager, "must hold printable characters only"));
    }
    if text(&entry.subresource).len() > SUBRESOURCE_BYTES {
        report.error(&path.field("subresource"), too_long(SUBRESOURCE_BYTES));
    }
}
