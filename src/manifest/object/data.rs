//! ConfigMaps, and the maps of keys and values that Secrets have too.

use std::collections::BTreeMap;

use super::super::base64;
use super::super::path::{Path, Report, invalid, too_long};
use super::super::tree::{Data, Node};
use super::type_error;
use crate::base::limits;
use crate::pod::object::Content;

const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// `data` and `binaryData` of a ConfigMap.
pub(super) fn config_map(report: &mut Report<'_>) -> Option<Content> {
    let root = Path::ROOT;
    let (data_path, binary_path) = (root.field("data"), root.field("binaryData"));
    let data = texts(&data_path, report);
    let binary = bytes(&binary_path, report, "must be base64");
    for key in data.keys().filter(|key| binary.contains_key(*key)) {
        report.error(&data_path.key(key), invalid(key, "duplicate of key present in binaryData"));
    }
    // Upstream counts the values of both maps together, without keys.
    let size = data.values().map(String::len).chain(binary.values().map(Vec::len));
    if size.fold(0, usize::saturating_add) > limits::OBJECT_BYTES {
        report.error(&Path::ROOT, too_long(limits::OBJECT_BYTES));
    }
    Some(Content::ConfigMap { data, binary })
}

/// A map of texts. Null counts as the empty text, as it does for the API server.
pub(super) fn texts(path: &Path<'_>, report: &mut Report<'_>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (key, value) in entries(path, report) {
        let path = path.key(key);
        match &value.data {
            Data::Null => _ = out.insert(key.to_owned(), String::new()),
            Data::String(text) => _ = out.insert(key.to_owned(), text.clone()),
            _ => type_error("a string", &path, report),
        }
    }
    out
}

/// A map of bytes, written in base64.
pub(super) fn bytes(path: &Path<'_>, report: &mut Report<'_>, otherwise: &str) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    for (key, text) in texts(path, report) {
        match base64::decode(&text) {
            Some(bytes) => _ = out.insert(key, bytes),
            None => report.error(&path.key(&key), otherwise),
        }
    }
    out
}

/// The entries below `path`; invalid keys are reported.
fn entries<'n>(path: &Path<'_>, report: &mut Report<'n>) -> Vec<(&'n str, &'n Node)> {
    let Some(node) = report.written(path).filter(|node| !node.is_null()) else { return Vec::new() };
    if !matches!(node.data, Data::Map(_)) {
        type_error("a map of keys and values", path, report);
        return Vec::new();
    }
    for entry in node.entries() {
        if let Err(detail) = key_is_good(&entry.key) {
            report.error(&path.key(&entry.key), invalid(&entry.key, detail));
        }
    }
    node.entries().iter().map(|e| (e.key.as_str(), &e.value)).collect()
}

/// `IsConfigMapKey`: the key is safe as a file name.
pub(crate) fn key_is_good(key: &str) -> Result<(), &'static str> {
    let shaped = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if key.len() > 253 {
        Err("must be no more than 253 bytes")
    } else if key.is_empty() || !key.bytes().all(shaped) {
        Err(KEY)
    } else if key == "." {
        Err("must not be '.'")
    } else if key == ".." {
        Err("must not be '..'")
    } else if key.starts_with("..") {
        Err("must not start with '..'")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_judged_as_upstream() {
        let long = "a".repeat(254);
        for good in ["a", "A.b_c-1", "-", "_", ".a", "0", &long[..253]] {
            assert_eq!(key_is_good(good), Ok(()), "{good:?}");
        }
        for bad in ["", ".", "..", "..a", "a b", "a/b", "é", "a=b", &long] {
            assert!(key_is_good(bad).is_err(), "{bad:?}");
        }
    }
}
