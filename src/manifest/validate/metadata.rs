//! Metadata: names, labels, annotations, and the fields that only an API server may set.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::path::{Path, Report, forbidden, invalid, too_long};
use super::super::unknown::unknown_annotation;
use super::{accepted, accepted_if_set, history, names, needed, not_negative};
use crate::node::devices::{DEVICE, DOMAIN};
use crate::pod::after;

/// podkeeper's annotations that a manifest may set.
const OWN: &[&str] = &[after::AFTER, after::TIMEOUT, DEVICE];

/// Most bytes of all annotations' keys and values together.
const ANNOTATIONS_BYTES: usize = 256 * 1024;

pub(super) fn check(meta: &ObjectMeta, path: &Path<'_>, report: &mut Report<'_>) {
    // The name has the node's suffix already; an empty name is reported where the suffix is added.
    accepted_if_set(meta.name.as_deref(), names::subdomain, &path.field("name"), report);
    accepted_if_set(meta.namespace.as_deref(), names::label, &path.field("namespace"), report);
    accepted_if_set(meta.uid.as_deref(), names::uid, &path.field("uid"), report);
    generate_name(meta, path, report);
    not_negative(meta.generation, &path.field("generation"), report);
    history::check(meta, path, report);
    if let Some(labels) = &meta.labels {
        self::labels(labels, &path.field("labels"), report);
    }
    if let Some(annotations) = &meta.annotations {
        self::annotations(annotations, &path.field("annotations"), report);
    }
    let only_api = "may not be set in a manifest; remove the manifest to delete the pod";
    if meta.deletion_timestamp.is_some() {
        report.error(&path.field("deletionTimestamp"), forbidden(only_api));
    }
    if meta.deletion_grace_period_seconds.is_some() {
        report.error(&path.field("deletionGracePeriodSeconds"), forbidden(only_api));
    }
}

fn generate_name(meta: &ObjectMeta, path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(prefix) = meta.generate_name.as_deref().filter(|prefix| !prefix.is_empty()) {
        // A suffix is appended.
        accepted(prefix, names::subdomain_prefix, &path.field("generateName"), report);
    }
}

/// See [`super::stored_metadata`].
pub(super) fn stored(meta: &ObjectMeta, is_namespace: bool, path: &Path<'_>, report: &mut Report<'_>) {
    if is_namespace {
        needed(meta.name.as_deref().unwrap_or_default(), names::label, &path.field("name"), report);
        if let Some(labels) = &meta.labels {
            self::labels(labels, &path.field("labels"), report);
        }
        if let Some(annotations) = &meta.annotations {
            self::annotations(annotations, &path.field("annotations"), report);
        }
    }
    generate_name(meta, path, report);
    history::check(meta, path, report);
}

/// podkeeper's own annotations: checks for misspelled ones, and validates those about the order of pods.
pub(super) fn own(meta: &ObjectMeta, path: &Path<'_>, report: &mut Report<'_>) {
    let annotations = path.field("annotations");
    let ours = meta.annotations.iter().flatten().map(|(key, _)| key).filter(|key| key.starts_with(DOMAIN));
    for key in ours.filter(|key| !OWN.contains(&key.as_str())) {
        unknown_annotation(key, OWN, &annotations.key(key), report);
    }
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    if let Err(bad) = after::parse(namespace, meta.annotations.as_ref()) {
        report.error(&path.field("annotations").key(bad.key), invalid(&bad.value, &bad.why));
    }
}

/// Keys and values of labels (also of a node selector).
pub(super) fn labels(labels: &BTreeMap<String, String>, path: &Path<'_>, report: &mut Report<'_>) {
    for (key, value) in labels {
        let path = path.key(key);
        accepted(key, names::qualified, &path, report);
        accepted(value, names::label_value, &path, report);
    }
}

fn annotations(annotations: &BTreeMap<String, String>, path: &Path<'_>, report: &mut Report<'_>) {
    let mut size = 0_usize;
    for (key, value) in annotations {
        // Upstream checks the key in lower case.
        if let Err(detail) = names::qualified(&key.to_ascii_lowercase()) {
            report.error(&path.key(key), invalid(key, detail));
        }
        size = size.saturating_add(key.len()).saturating_add(value.len());
    }
    if size > ANNOTATIONS_BYTES {
        report.error(path, too_long(ANNOTATIONS_BYTES));
    }
}
