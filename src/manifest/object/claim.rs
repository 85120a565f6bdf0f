//! Claims on this node's own disk.

use super::super::path::{Path, Report, forbidden, invalid, required, unsupported};
use super::super::tree::{Data, Node};
use super::super::unknown;
use super::{text, type_error};
use crate::base::quantity;
use crate::pod::object::Content;

const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// Fields that choose between kinds of volumes; podkeeper has one kind.
const CHOICE: &[&str] = &[
    "dataSource",
    "dataSourceRef",
    "selector",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeName",
];

/// A claim's access modes and size.
pub(super) fn claim(report: &mut Report<'_>) -> Option<Content> {
    let root = Path::ROOT;
    let path = root.field("spec");
    match report.written(&path).map(|node| &node.data) {
        None | Some(Data::Null | Data::Map(_)) => {}
        Some(_) => {
            type_error("a map (PersistentVolumeClaimSpec)", &path, report);
            return None;
        }
    }
    let access_modes = access_modes(&path.field("accessModes"), report);
    let storage = storage(&path.field("resources"), report);
    block(&path.field("volumeMode"), report);
    others(&path, report);
    Some(Content::Claim { access_modes, storage: storage? })
}

fn access_modes(path: &Path<'_>, report: &mut Report<'_>) -> Vec<String> {
    let node = report.written(path).filter(|node| !node.is_null());
    if node.is_some_and(|node| !matches!(node.data, Data::List(_))) {
        type_error("a list", path, report);
        return Vec::new();
    }
    let mut modes = Vec::new();
    for i in 0..node.map(Node::items).unwrap_or_default().len() {
        let path = path.index(i);
        let mode = text(&path, report);
        if !MODES.contains(&mode) && !report.has_error_at(&path) {
            report.error(&path, unsupported(mode, MODES));
        }
        modes.push(mode.to_owned());
    }
    if modes.is_empty() {
        report.error(path, required("at least 1 access mode is required"));
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        report.error(path, forbidden("may not use ReadWriteOncePod with other access modes"));
    }
    modes
}

/// `requests.storage` in bytes.
fn storage(path: &Path<'_>, report: &mut Report<'_>) -> Option<u64> {
    if report.written(&path.field("limits")).is_some_and(|node| !node.is_null()) {
        report.warning(&path.field("limits"), "is ignored: the size of a claim is what it requests");
    }
    let path = path.field("requests");
    let path = path.field("storage");
    let written = match report.written(&path).map(|node| &node.data) {
        None | Some(Data::Null) => {
            report.error(&path, required(""));
            return None;
        }
        Some(Data::String(text)) => text.clone(),
        Some(Data::Number(number)) => number.to_string(),
        Some(_) => {
            type_error("a quantity", &path, report);
            return None;
        }
    };
    match quantity::value(&written).map(u64::try_from) {
        Ok(Ok(bytes)) if bytes > 0 => Some(bytes),
        Ok(_) => {
            report.error(&path, invalid(&written, "must be greater than zero"));
            None
        }
        Err(why) => {
            report.error(&path, invalid(&written, &why.to_string()));
            None
        }
    }
}

fn block(path: &Path<'_>, report: &mut Report<'_>) {
    match text(path, report) {
        "" | "Filesystem" => {}
        "Block" => report.error(path, "not supported by this version of podkeeper (claims are directories)"),
        other => report.error(path, unsupported(other, &["Block", "Filesystem"])),
    }
}

fn others(path: &Path<'_>, report: &mut Report<'_>) {
    const KNOWN: &[&str] = &["accessModes", "resources", "volumeMode"];
    let entries = report.written(path).map(Node::entries).unwrap_or_default();
    for entry in entries.iter().filter(|e| !e.value.is_null() && !KNOWN.contains(&e.key.as_str())) {
        let path = path.field(&entry.key);
        if CHOICE.contains(&entry.key.as_str()) {
            report.warning(&path, "is ignored: a claim is a directory on this node");
        } else {
            unknown::unknown_among(&entry.key, KNOWN.iter().chain(CHOICE).copied(), &path, report);
        }
    }
}
