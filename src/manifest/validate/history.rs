//! Metadata fields that other programs write: owners, finalizers, managed fields. podkeeper does not use
//! them, but an exported pod has them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};

use super::super::path::{Path, Report, invalid, too_long, too_many};
use super::{accepted, names};
use crate::base::limits;

/// Longest name of a field manager, and of a subresource.
const MANAGER_BYTES: usize = 128;
const SUBRESOURCE_BYTES: usize = 256;

pub(super) fn check(meta: &ObjectMeta, path: &Path<'_>, report: &mut Report<'_>) {
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    if fits(finalizers, &path.field("finalizers"), report) {
        self::finalizers(finalizers, &path.field("finalizers"), report);
    }
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    if fits(owners, &path.field("ownerReferences"), report) {
        self::owners(owners, &path.field("ownerReferences"), report);
    }
    let list = path.field("managedFields");
    let managers = meta.managed_fields.as_deref().unwrap_or_default();
    if !fits(managers, &list, report) {
        return;
    }
    for (i, each) in managers.iter().enumerate() {
        managed(each, &list.index(i), report);
    }
}

fn fits<T>(list: &[T], path: &Path<'_>, report: &mut Report<'_>) -> bool {
    if list.len() > limits::METADATA_LIST {
        report.error(path, too_many(list.len(), limits::METADATA_LIST));
        return false;
    }
    true
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

#[cfg(test)]
mod tests {
    use crate::manifest::stored_metadata;

    use super::*;

    /// Regression: the API of this node accepted namespaces of any name, and any number of finalizers of any
    /// form.
    #[test]
    fn what_is_stored_has_names_that_can_be_shown_and_lists_that_end() {
        let check = |meta: ObjectMeta, field: &str| {
            let meta = ObjectMeta { name: meta.name.or(Some("a".to_owned())), ..meta };
            let problems = stored_metadata(&meta, true);
            assert!(problems.iter().any(|(found, _)| found == field), "{field}: {problems:?}");
        };
        let long = "x".repeat(300_000);
        for name in ["", "a/b", "..", "x\u{1b}[31mred", "A", &long] {
            check(ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, "metadata.name");
        }
        let one = |value: &str| Some([(value.to_owned(), value.to_owned())].into_iter().collect());
        check(ObjectMeta { labels: one("a b"), ..ObjectMeta::default() }, "metadata.labels[a b]");
        let annotations = Some([("a".to_owned(), long.clone())].into_iter().collect());
        check(ObjectMeta { annotations, ..ObjectMeta::default() }, "metadata.annotations");
        let finalizers = |all: Vec<String>| ObjectMeta { finalizers: Some(all), ..ObjectMeta::default() };
        for finalizer in ["a b", "\n\n\n", "x", &long] {
            check(finalizers(vec![finalizer.to_owned()]), "metadata.finalizers[0]");
        }
        check(finalizers(vec!["x.y/z".to_owned(); 60_000]), "metadata.finalizers");
        let owner_references = Some(vec![OwnerReference::default(); 300]);
        check(ObjectMeta { owner_references, ..ObjectMeta::default() }, "metadata.ownerReferences");
        let managed_fields = Some(vec![ManagedFieldsEntry::default(); 300]);
        check(ObjectMeta { managed_fields, ..ObjectMeta::default() }, "metadata.managedFields");
        let generate_name = Some("\u{1b}".to_owned());
        check(ObjectMeta { generate_name, ..ObjectMeta::default() }, "metadata.generateName");
        let good = ObjectMeta {
            finalizers: Some(vec!["x.y/z".to_owned()]),
            name: Some("a".to_owned()),
            ..ObjectMeta::default()
        };
        assert_eq!(stored_metadata(&good, true), []);
    }
}
