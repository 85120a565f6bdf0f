//! Fields that the API does not have: found by comparing the manifest with the typed object, which lacks
//! them.

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::fields;
use super::path::{Path, Report, shorten};
use super::tree::{Data, Node};

/// Reports the fields of a pod that its types do not have.
pub(super) fn fields(metadata: &ObjectMeta, spec: &PodSpec, report: &mut Report<'_>) {
    let root = Path::ROOT;
    for entry in report.root().entries() {
        let path = root.field(&entry.key);
        // A value that cannot be written as JSON was not read from it, either.
        let typed = match entry.key.as_str() {
            "metadata" => serde_json::to_value(metadata),
            "spec" => serde_json::to_value(spec),
            "status" => continue,
            key if key.eq_ignore_ascii_case("apiVersion") || key.eq_ignore_ascii_case("kind") => continue,
            key => {
                if !entry.value.is_null() {
                    unknown(key, &path, report);
                }
                continue;
            }
        };
        if let Ok(typed) = typed {
            check(&entry.value, &typed, &path, report);
        }
    }
}

/// Warns of each key below `path` that `typed` does not have.
pub(crate) fn check(written: &Node, typed: &Value, path: &Path<'_>, report: &mut Report<'_>) {
    match (&written.data, typed) {
        (Data::Map(entries), Value::Object(known)) => {
            for entry in entries {
                let path = path.child(&entry.key);
                match known.get(&entry.key) {
                    Some(inner) => check(&entry.value, inner, &path, report),
                    None if entry.value.is_null() => {}
                    None => unknown(&entry.key, &path, report),
                }
            }
        }
        (Data::List(items), Value::Array(known)) => {
            for (i, (item, inner)) in items.iter().zip(known).enumerate() {
                check(item, inner, &path.index(i), report);
            }
        }
        _ => {}
    }
}

/// Warns of one unknown key, with the most similar known name if there is one.
pub(crate) fn unknown(key: &str, path: &Path<'_>, report: &mut Report<'_>) {
    let names = path.parent().map(fields::at).unwrap_or_default();
    unknown_among(key, names.into_iter(), path, report);
}

/// Like [`unknown`], with the given known names.
pub(crate) fn unknown_among(
    key: &str,
    names: impl Iterator<Item = &'static str>,
    path: &Path<'_>,
    report: &mut Report<'_>,
) {
    unknown_thing("field", key, names, path, report);
}

/// Like [`unknown_among`], for an annotation with podkeeper's prefix.
pub(crate) fn unknown_annotation(
    key: &str,
    names: &[&'static str],
    path: &Path<'_>,
    report: &mut Report<'_>,
) {
    unknown_thing("annotation", key, names.iter().copied(), path, report);
}

fn unknown_thing(
    what: &str,
    key: &str,
    names: impl Iterator<Item = &'static str>,
    path: &Path<'_>,
    report: &mut Report<'_>,
) {
    if report.is_full_of_warnings() {
        return;
    }
    let near = names
        .map(|name| (distance(&key.to_ascii_lowercase(), &name.to_ascii_lowercase()), name))
        // At most a third of the name may differ; otherwise it is another word.
        .filter(|(d, name)| *d <= (name.len() / 3).min(2))
        .min();
    match near {
        Some((_, name)) => {
            report.warning(path, format!("unknown {what}, ignored; did you mean {}?", shorten(name)))
        }
        None => report.warning(path, format!("unknown {what}, ignored")),
    }
}

/// Levenshtein distance; 3 for all larger ones.
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 2 {
        return 3;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i.saturating_add(1);
        let mut next = vec![left];
        for (y, up) in b.iter().zip(row.iter().skip(1)) {
            let change = diagonal.saturating_add(usize::from(x != *y));
            left = change.min(left.saturating_add(1)).min(up.saturating_add(1));
            diagonal = *up;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(3).min(3)
}
