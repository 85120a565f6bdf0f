//! Volumes and their mounts in containers. Checked on the manifest as written: the API requires exactly one
//! source per volume, of any kind.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;

use super::super::path::{Path, Report, duplicate, forbidden, invalid, not_found, quoted, required};
use super::super::support;
use super::super::tree::Node;
use super::resources::no_digits;
use super::{chosen, names, needed, one_of};
use crate::base::quantity;
use crate::base::table::Set;

use crate::base::order;
use crate::layout;

pub(super) fn check_all(path: &Path<'_>, report: &mut Report<'_>) {
    let list = path.field("volumes");
    let mut seen = BTreeSet::new();
    for (i, volume) in report.written(&list).map(Node::items).unwrap_or_default().iter().enumerate() {
        let path = list.index(i);
        let name = text(volume, "name");
        needed(name, names::label, &path.field("name"), report);
        if !name.is_empty() && !seen.insert(name) {
            report.error(&path.field("name"), duplicate(name));
        }
        // An unknown key is not a source; another check warns about it.
        let known = |key: &str| support::row(&format!("spec.volumes[*].{key}")).is_some();
        let sources =
            volume.entries().iter().filter(|e| e.key != "name" && !e.value.is_null() && known(&e.key));
        for (k, source) in sources.enumerate() {
            let path = path.field(&source.key);
            if k > 0 {
                report.error(&path, forbidden("may not specify more than 1 volume type"));
            } else {
                self::source(&source.key, &source.value, &path, report);
            }
        }
    }
}

fn text<'n>(node: &'n Node, key: &str) -> &'n str {
    node.get(key).and_then(Node::as_str).unwrap_or_default()
}

/// Required fields of the most used kinds.
fn source(kind: &str, source: &Node, path: &Path<'_>, report: &mut Report<'_>) {
    let needs: &[&str] = match kind {
        "hostPath" => &["path"],
        "nfs" => &["server", "path"],
        "secret" => &["secretName"],
        "configMap" => &["name"],
        "persistentVolumeClaim" => &["claimName"],
        "csi" => &["driver"],
        _ => &[],
    };
    for key in needs {
        if text(source, key).is_empty() {
            report.error(&path.field(key), required(""));
        }
    }
    match kind {
        "hostPath" => {
            let at = path.field("path");
            let value = text(source, "path");
            if has_dot_dot(value) {
                report.error(&at, invalid(value, "must not contain '..'"));
            }
            // Upstream accepts it, and a runtime may take it for a path below its own directory or for the name of
            // one of Docker's volumes.
            if !value.is_empty() && !value.starts_with('/') {
                let message = format!("{} is no absolute path: the volume cannot be set up", quoted(value));
                report.warning(&at, message);
            }
            let types = [
                "BlockDevice",
                "CharDevice",
                "Directory",
                "DirectoryOrCreate",
                "File",
                "FileOrCreate",
                "Socket",
            ];
            one_of(Some(text(source, "type")), &types, &path.field("type"), report);
        }
        "emptyDir" => {
            let limit = source.get("sizeLimit").and_then(Node::as_str);
            let at = path.field("sizeLimit");
            no_digits(limit.unwrap_or_default(), &at, report);
            match limit.map(|limit| (limit, quantity::value(limit))) {
                Some((limit, Err(e))) => report.error(&at, invalid(limit, &e.to_string())),
                Some((limit, Ok(value))) if value < 0 => {
                    report.error(&at, invalid(limit, "SizeLimit field must be a valid resource quantity"));
                }
                _ => {}
            }
        }
        _ => {}
    }
}

pub(super) fn has_dot_dot(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// The names of the pod's volumes.
pub(super) fn known<'a>(path: &Path<'_>, report: &Report<'a>) -> Set<&'a str> {
    let volumes = report.written(&path.field("volumes")).map(Node::items).unwrap_or_default();
    order::set(volumes.iter().map(|volume| text(volume, "name")))
}

/// Mounts and devices of one container; `known` are the pod's volumes.
pub(super) fn check_mounts(
    container: &Container,
    known: &Set<&str>,
    path: &Path<'_>,
    report: &mut Report<'_>,
) {
    let mut seen = BTreeSet::new();
    let list = path.field("volumeMounts");
    for (i, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = list.index(i);
        if mount.name.is_empty() {
            report.error(&path.field("name"), required(""));
        } else if !known.contains(mount.name.as_str()) {
            report.error(&path.field("name"), not_found(&mount.name));
        }
        let target = mount.mount_path.as_str();
        if target.is_empty() {
            report.error(&path.field("mountPath"), required(""));
        } else if !seen.insert(layout::target(target)) {
            report.error(&path.field("mountPath"), invalid(target, "must be unique"));
        }
        let sub = mount.sub_path.as_deref().unwrap_or_default();
        let sub_expr = mount.sub_path_expr.as_deref().unwrap_or_default();
        for (name, value) in [("subPath", sub), ("subPathExpr", sub_expr)] {
            if value.starts_with('/') {
                report.error(&path.field(name), invalid(value, "must be a relative path"));
            }
            if has_dot_dot(value) {
                report.error(&path.field(name), invalid(value, "must not contain '..'"));
            }
        }
        if !sub.is_empty() && !sub_expr.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            report.error(&path.field("subPathExpr"), invalid(sub_expr, detail));
        }
        let kinds = ["Bidirectional", "HostToContainer", "None"];
        let propagation = mount.mount_propagation.as_deref();
        chosen(propagation, &kinds, &path.field("mountPropagation"), report);
        let recursive = mount.recursive_read_only.as_deref();
        let at = path.field("recursiveReadOnly");
        chosen(recursive, &["Disabled", "Enabled", "IfPossible"], &at, report);
        if matches!(recursive, Some("Enabled" | "IfPossible")) {
            if mount.read_only != Some(true) {
                report.error(&at, forbidden("may only be specified when readOnly is true"));
            }
            if !matches!(propagation, None | Some("None")) {
                let detail = "may only be specified when mountPropagation is None or not specified";
                report.error(&at, forbidden(detail));
            }
        }
        let privileged = container.security_context.as_ref().and_then(|c| c.privileged).unwrap_or(false);
        if propagation == Some("Bidirectional") && !privileged {
            let detail = "Bidirectional mount propagation is available only to privileged containers";
            report.error(&path.field("mountPropagation"), forbidden(detail));
        }
    }
    let list = path.field("volumeDevices");
    for (i, device) in container.volume_devices.iter().flatten().enumerate() {
        let path = list.index(i);
        if device.name.is_empty() {
            report.error(&path.field("name"), required(""));
        } else if !known.contains(device.name.as_str()) {
            report.error(&path.field("name"), not_found(&device.name));
        }
        if device.device_path.is_empty() {
            report.error(&path.field("devicePath"), required(""));
        }
    }
}
