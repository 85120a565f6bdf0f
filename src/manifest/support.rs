//! The one table of podkeeper's support for each field of a pod, and the walk that compares a manifest with
//! it. The man page and `explain` are made from [`table`], and the tests in `effects/` check each row against
//! the program's behaviour.
//!
//! A field is `Supported`, or `Ignored` (running without it does no harm: a warning), or `Refused` (running
//! the pod without it would be unsafe or wrong: an error). Only fields in the manifest are reported, never
//! defaults.

mod table;

use super::path::{Path, Report, Step};
use super::tree::{Data, Node};
use table::{NO_CLUSTER, TABLE};

/// podkeeper's support for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It has its effect. Rows below it may differ for parts of it.
    Supported,
    /// It is accepted without effect; the text gives the reason or the alternative.
    Ignored(&'static str),
    /// A pod that uses it is not started; the text gives the reason.
    Refused(&'static str),
}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Path from the pod; `[*]` stands for any index. `spec.containers[*]` stands for
    /// `spec.initContainers[*]`, too. A last part that ends in `*` stands for any key with that beginning.
    pub field: &'static str,
    /// The support for this field.
    pub support: Support,
    /// Values (as JSON) that request nothing, so they are not reported.
    pub harmless: &'static [&'static str],
}

/// Every field of metadata, pod and container, once.
#[cfg(test)]
pub fn table() -> &'static [Row] {
    TABLE
}

/// The row of a field: the exact one, else one with a `*` key.
#[must_use]
pub fn row(field: &str) -> Option<&'static Row> {
    let exact = TABLE.iter().find(|r| r.field == field);
    exact.or_else(|| {
        TABLE.iter().find(|r| {
            r.field.strip_suffix('*').is_some_and(|start| {
                field.strip_prefix(start).is_some_and(|rest| !rest.is_empty() && !rest.contains('['))
            })
        })
    })
}

/// The names in the table below a parent's pattern (`spec`, `spec.containers[*]`).
#[cfg(test)]
fn names_below(parent: &str) -> impl Iterator<Item = &'static str> {
    let prefix = format!("{parent}.");
    TABLE.iter().filter_map(move |r| {
        let rest = r.field.strip_prefix(prefix.as_str())?;
        Some(rest).filter(|name| name.bytes().all(|b| b.is_ascii_alphabetic()))
    })
}

/// The keys in the table of a map with free keys (`metadata.annotations`).
pub(crate) fn keys(map: &str) -> impl Iterator<Item = (&'static str, Support)> {
    let prefix = format!("{map}.");
    TABLE.iter().filter_map(move |r| Some((r.field.strip_prefix(prefix.as_str())?, r.support)))
}

/// A path in the notation of the table.
pub(crate) fn pattern(path: &Path<'_>) -> String {
    let Some(parent) = path.parent() else { return String::new() };
    let mut text = pattern(parent);
    match path.step() {
        Step::Root => {}
        Step::Index(_) => text.push_str("[*]"),
        Step::Field("initContainers") if text == "spec" => text.push_str(".containers"),
        Step::Field(name) | Step::Key(name) => {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(name);
        }
    }
    text
}

/// Reports fields of the manifest that are ignored or refused. A field with an error is not reported twice.
pub(crate) fn check(report: &mut Report<'_>) {
    let root = report.root();
    walk(root, &Path::ROOT, report);
}

/// Like [`check`], for the metadata of a local object; the rows are those of a pod.
pub(crate) fn check_metadata(report: &mut Report<'_>) {
    let root = Path::ROOT;
    let path = root.field("metadata");
    if let Some(node) = report.written(&path) {
        walk(node, &path, report);
    }
    for name in OF_PODS_ALONE {
        let path = path.field(name);
        if report.written(&path).is_some_and(|node| !node.is_null()) && !report.has_error_at(&path) {
            report.warning(&path, format!("is ignored: {NO_CLUSTER}"));
        }
    }
}

/// Metadata fields that have an effect for pods only.
const OF_PODS_ALONE: &[&str] = &["generation"];

fn walk(node: &Node, path: &Path<'_>, report: &mut Report<'_>) {
    // Item paths (`spec.containers[*]`) have no row of their own.
    if !matches!(path.step(), Step::Root | Step::Index(_)) {
        let own = pattern(path);
        match row(&own) {
            Some(row) if !asks(node, row) => return,
            Some(Row { support: Support::Ignored(why), .. }) => {
                if !report.has_error_at(path) {
                    report.warning(path, format!("is ignored: {why}"));
                }
                return;
            }
            Some(Row { support: Support::Refused(why), .. }) => {
                if !report.has_error_at(path) {
                    let what = "not supported by this version of podkeeper; the pod is not started";
                    report.error(path, format!("{what} ({why})"));
                }
                return;
            }
            Some(row) if !has_parts(row) => return,
            Some(_) => {}
            None => {}
        }
    }
    match &node.data {
        Data::Map(entries) => {
            for entry in entries {
                walk(&entry.value, &path.child(&entry.key), report);
            }
        }
        Data::List(items) => {
            for (i, item) in items.iter().enumerate() {
                walk(item, &path.index(i), report);
            }
        }
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::String(_) => {}
    }
}

/// True when there are rows for parts of this field.
fn has_parts(row: &Row) -> bool {
    let below = |r: &Row| r.field.strip_prefix(row.field).is_some_and(|rest| rest.starts_with(['.', '[']));
    TABLE.iter().any(below)
}

/// Whether the value requests something.
fn asks(node: &Node, row: &Row) -> bool {
    match &node.data {
        Data::Null => false,
        Data::String(text) if text.is_empty() => false,
        Data::List(items) if items.is_empty() => false,
        // A kind of volume is requested by its name alone.
        Data::Map(_) if row.field.starts_with("spec.volumes[*].") => true,
        Data::Map(entries) => entries.iter().any(|e| !e.value.is_null()),
        _ => {
            let text = node.to_value().to_string();
            !row.harmless.contains(&text.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::manifest::tests::shape::{self, Shape};

    /// The API's fields and the table's rows are the same, so that a new field of the API needs a decision.
    #[test]
    fn every_field_is_in_the_table_once() {
        let shapes = shape::of_pod();
        for parent in [
            "metadata",
            "spec",
            "spec.containers[*]",
            "spec.containers[*].env[*].valueFrom",
            "spec.containers[*].lifecycle",
            "spec.containers[*].securityContext",
            "spec.containers[*].volumeMounts[*]",
            "spec.securityContext",
            "spec.volumes[*]",
        ] {
            let fields: BTreeSet<&str> = shape::fields(&shapes, parent).map(|shape| shape.name).collect();
            let rows: Vec<&str> = names_below(parent).collect();
            assert_eq!(rows.iter().copied().collect::<BTreeSet<_>>(), fields, "{parent}");
        }
        let all: BTreeSet<&str> = TABLE.iter().map(|r| r.field).collect();
        assert_eq!(all.len(), TABLE.len());
    }

    /// Every field of a pod at any depth, with its support. A new field of the API shows up here and needs a
    /// decision: it is implemented, or it gets a row.
    #[test]
    fn every_field_of_a_pod_is_decided_on() {
        let shapes = shape::of_pod();
        let mut text = String::new();
        for Shape { path, kind, .. } in &shapes {
            let written = shape::as_row(path);
            let rows: Vec<&Row> = parents(&written).filter_map(super::row).collect();
            let says_no = |row: &&&Row| row.support != Support::Supported;
            let decided = rows.iter().find(says_no).or(rows.last());
            let decided = decided.unwrap_or_else(|| panic!("{path} is decided on nowhere"));
            let what = match decided.support {
                Support::Supported => "supported".to_owned(),
                Support::Ignored(why) => format!("ignored: {why}"),
                Support::Refused(why) => format!("refused: {why}"),
            };
            text.push_str(&format!("{path} <{kind}> {what}\n"));
        }
        assert!(shapes.len() > 500, "{}", shapes.len());
        crate::base::testing::golden("support.txt", &text);
    }

    /// The prefixes of a path and the path itself, in the notation of rows.
    fn parents(path: &str) -> impl Iterator<Item = &str> {
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        ends.map(|end| path[..end].trim_end_matches("[*]"))
    }

    /// A row whose parents are not all supported would never be reached.
    #[test]
    fn no_row_is_hidden() {
        for row in TABLE {
            for (i, _) in row.field.match_indices('.') {
                let parent = row.field[..i].trim_end_matches("[*]");
                // The name of a resource has dots.
                let is_open = |r: &Row| r.support == Support::Supported || r.field.ends_with('*');
                assert!(super::row(parent).is_none_or(is_open), "{}", row.field);
            }
        }
    }

    #[test]
    fn rows_are_found_by_field() {
        for (field, expected) in [
            ("spec.containers[*].tty", Some("spec.containers[*].tty")),
            ("spec.containers[*].resources.limits.cpu", Some("spec.containers[*].resources.limits.cpu")),
            ("spec.containers[*].resources.limits.x.y/z", Some("spec.containers[*].resources.limits.*")),
            ("spec.containers[*].resources.limits", None),
            ("spec.nope", None),
        ] {
            assert_eq!(row(field).map(|r| r.field), expected, "{field}");
        }
    }
}
