//! The API's validation of a pod, with its field paths and texts (`pkg/apis/core/validation/validation.go`).
//! It checks the decoded and defaulted pod; it changes nothing and ignores podkeeper's own restrictions,
//! which are in `support.rs`.

mod affinity;
mod annotations;
mod containers;
mod env;
mod history;
mod lifecycle;
mod metadata;
pub(super) mod names;
mod network;
mod pod;
mod ports;
mod probes;
mod resources;
mod scheduling;
mod security;
mod selector;
mod sources;
mod volumes;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::path::{Path, Report, invalid, invalid_plain, required, unsupported};
use super::tree::{Data, Node};

/// Reports everything the API server would refuse.
pub(crate) fn pod(meta: &ObjectMeta, spec: &PodSpec, report: &mut Report<'_>) {
    let root = Path::ROOT;
    metadata::check(meta, &root.field("metadata"), report);
    metadata::own(meta, &root.field("metadata"), report);
    let path = root.field("spec");
    pod::check(spec, &path, report);
    containers::check_all(spec, &path, report);
    scheduling::check(spec, &path, report);
    network::check(spec, &path, report);
    security::check_pod(spec, &path, report);
    annotations::check(meta, spec, report);
    resources::check_pod(spec, &path, report);
    resources::check_overhead(spec, &path, report);
    volumes::check_all(&path, report);
    sources::check_all(spec, &path, report);
}

/// Reports what the API server would refuse in the metadata of a local object.
pub(crate) fn object_metadata(meta: &ObjectMeta, report: &mut Report<'_>) {
    let root = Path::ROOT;
    metadata::check(meta, &root.field("metadata"), report);
}

/// Field and message of each value that the API server would refuse in the metadata of an object that is stored
/// unchanged, in addition to the checks for every manifest: fields without effect in a manifest, and all fields of a
/// namespace.
#[must_use]
pub fn stored_metadata(meta: &ObjectMeta, is_namespace: bool) -> Vec<(String, String)> {
    let root = Node { at: (1, 1), data: Data::Map(Vec::new()) };
    let mut report = Report::new("", None, &root);
    metadata::stored(meta, is_namespace, &Path::ROOT.field("metadata"), &mut report);
    let problems = report.into_problems();
    problems.map(|problem| (problem.field.unwrap_or_default(), problem.message)).collect()
}

/// Checks that the text is one of `values`; absent or empty is valid.
fn one_of(value: Option<&str>, values: &[&str], path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(value) = value.filter(|v| !v.is_empty() && !values.contains(v)) {
        report.error(path, unsupported(value, values));
    }
}

/// Checks that the text, if set, is one of `values`: for fields that are pointers upstream, for which empty
/// is a value.
fn chosen(value: Option<&str>, values: &[&str], path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(value) = value.filter(|v| !values.contains(v)) {
        report.error(path, unsupported(value, values));
    }
}

/// Checks that the number, if set, is between the bounds.
fn between(value: Option<i64>, least: i64, most: i64, path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(value) = value.filter(|v| !(least..=most).contains(v)) {
        let detail = format!("must be between {least} and {most}, inclusive");
        report.error(path, invalid_plain(value, &detail));
    }
}

/// Checks that the number, if set, is not negative.
fn not_negative(value: Option<i64>, path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(value) = value.filter(|v| *v < 0) {
        report.error(path, invalid_plain(value, "must be greater than or equal to 0"));
    }
}

/// Checks that the text is set and `rule` accepts it.
fn needed(value: &str, rule: fn(&str) -> names::Verdict, path: &Path<'_>, report: &mut Report<'_>) {
    if value.is_empty() {
        report.error(path, required(""));
    } else {
        accepted(value, rule, path, report);
    }
}

/// Checks that `rule` accepts the text.
fn accepted(value: &str, rule: fn(&str) -> names::Verdict, path: &Path<'_>, report: &mut Report<'_>) {
    if let Err(detail) = rule(value) {
        report.error(path, invalid(value, detail));
    }
}

/// Checks that `rule` accepts the text, if set.
fn accepted_if_set(
    value: Option<&str>,
    rule: fn(&str) -> names::Verdict,
    path: &Path<'_>,
    report: &mut Report<'_>,
) {
    if let Some(value) = value.filter(|v| !v.is_empty()) {
        accepted(value, rule, path, report);
    }
}
