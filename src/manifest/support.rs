//! The one table of podkeeper's support for each field of a pod, and the walk that compares a manifest with
//! it. The man page and `explain` are made from [`table`], and the tests in `effects/` check each row against
//! the program's behaviour.
//!
//! A field is `Supported`, or `Ignored` (running without it cannot hurt: a warning), or `Refused` (running
//! the pod without it would be unsafe or wrong: an error). Only fields in the manifest are reported, never
//! defaults.

use super::node::{Data, Node};
use super::path::{Path, Report, Step};

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
    /// `spec.initContainers[*]` too. A last part ending in `*` stands for any key that begins like it.
    pub field: &'static str,
    /// The support for this field.
    pub support: Support,
    /// Values (as JSON) that request nothing, so they are not reported.
    pub harmless: &'static [&'static str],
}

const fn yes(field: &'static str) -> Row {
    Row { field, support: Support::Supported, harmless: &[] }
}
const fn ignored(field: &'static str, harmless: &'static [&'static str], why: &'static str) -> Row {
    Row { field, support: Support::Ignored(why), harmless }
}
const fn refused(field: &'static str, harmless: &'static [&'static str], why: &'static str) -> Row {
    Row { field, support: Support::Refused(why), harmless }
}

const NO: &[&str] = &["false"];
const PLAIN: &[&str] = &["\"Plaintext\""];
const HTTP_1: &str = "requests are made in HTTP/1.1";
const NO_TLS: &str = "gRPC is spoken without TLS";
const ONE_NODE: &str = "there is one node and no scheduler";
const NO_API: &str = "there is no API server to give it";
const NO_DRIVER: &str = "this kind of volume needs a driver or a cluster";
const NO_CLAIMS: &str = "there is no dynamic resource allocation; see --device";
const NO_CLUSTER: &str = "there is no cluster";
const NO_SHAPING: &str = "traffic is not limited, for neither Docker's networks nor podkeeper can shape it";

/// Every field of metadata, pod and container, once.
#[cfg(test)]
pub fn table() -> &'static [Row] {
    TABLE
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    yes("apiVersion"),
    yes("kind"),
    ignored("status", &[], "a manifest has no status"),
    yes("metadata"),
    yes("metadata.annotations"),
    ignored("metadata.annotations.kubernetes.io/egress-bandwidth", &[], NO_SHAPING),
    ignored("metadata.annotations.kubernetes.io/ingress-bandwidth", &[], NO_SHAPING),
    yes("metadata.annotations.podkeeper.dev/after"),
    yes("metadata.annotations.podkeeper.dev/after-timeout"),
    yes("metadata.annotations.podkeeper.dev/device"),
    ignored("metadata.creationTimestamp", &[], NO_CLUSTER),
    refused("metadata.deletionGracePeriodSeconds", &[], "remove the manifest to delete the pod"),
    refused("metadata.deletionTimestamp", &[], "remove the manifest to delete the pod"),
    ignored("metadata.finalizers", &[], NO_CLUSTER),
    ignored("metadata.generateName", &[], "the pod's name is metadata.name"),
    yes("metadata.generation"),
    yes("metadata.labels"),
    ignored("metadata.managedFields", &[], NO_CLUSTER),
    yes("metadata.name"),
    yes("metadata.namespace"),
    ignored("metadata.ownerReferences", &[], NO_CLUSTER),
    ignored("metadata.resourceVersion", &[], NO_CLUSTER),
    ignored("metadata.selfLink", &[], NO_CLUSTER),
    yes("metadata.uid"),
    yes("spec"),
    yes("spec.activeDeadlineSeconds"),
    ignored("spec.affinity", &[], ONE_NODE),
    ignored("spec.automountServiceAccountToken", NO, NO_CLUSTER),
    yes("spec.containers"),
    yes("spec.dnsConfig"),
    yes("spec.dnsPolicy"),
    ignored("spec.enableServiceLinks", NO, NO_CLUSTER),
    refused("spec.ephemeralContainers", &[], "they cannot be in a manifest"),
    ignored("spec.evictionResponders", &[], NO_CLUSTER),
    yes("spec.hostAliases"),
    yes("spec.hostIPC"),
    yes("spec.hostNetwork"),
    yes("spec.hostPID"),
    refused("spec.hostUsers", &["true"], "user namespaces are not set up"),
    yes("spec.hostname"),
    yes("spec.hostnameOverride"),
    yes("spec.imagePullSecrets"),
    yes("spec.initContainers"),
    yes("spec.nodeName"),
    yes("spec.nodeSelector"),
    yes("spec.os"),
    ignored("spec.overhead", &[], "there is no runtime class"),
    ignored("spec.preemptionPolicy", &[], ONE_NODE),
    yes("spec.priority"),
    yes("spec.priorityClassName"),
    yes("spec.readinessGates"),
    refused("spec.resourceClaims", &[], NO_CLAIMS),
    yes("spec.resources"),
    refused("spec.resources.claims", &[], NO_CLAIMS),
    yes("spec.restartPolicy"),
    refused("spec.runtimeClassName", &[], "Docker's default runtime runs every container"),
    ignored("spec.schedulerName", &["\"default-scheduler\""], ONE_NODE),
    refused("spec.schedulingGates", &[], ONE_NODE),
    ignored("spec.schedulingGroup", &[], ONE_NODE),
    yes("spec.securityContext"),
    yes("spec.securityContext.appArmorProfile"),
    yes("spec.securityContext.fsGroup"),
    yes("spec.securityContext.fsGroupChangePolicy"),
    yes("spec.securityContext.runAsGroup"),
    yes("spec.securityContext.runAsNonRoot"),
    yes("spec.securityContext.runAsUser"),
    yes("spec.securityContext.seLinuxOptions"),
    yes("spec.securityContext.seccompProfile"),
    yes("spec.securityContext.supplementalGroups"),
    yes("spec.securityContext.sysctls"),
    ignored("spec.securityContext.seLinuxChangePolicy", &[], "volumes are not relabelled"),
    refused("spec.securityContext.supplementalGroupsPolicy", &["\"Merge\""], "Docker always adds the image's groups"),
    refused("spec.securityContext.windowsOptions", &[], "this node runs Linux"),
    refused("spec.serviceAccount", &[], NO_CLUSTER),
    refused("spec.serviceAccountName", &[], NO_CLUSTER),
    yes("spec.setHostnameAsFQDN"),
    yes("spec.shareProcessNamespace"),
    yes("spec.subdomain"),
    yes("spec.terminationGracePeriodSeconds"),
    ignored("spec.tolerations", &[], "the node has no taints"),
    ignored("spec.topologySpreadConstraints", &[], ONE_NODE),
    yes("spec.volumes"),
    refused("spec.volumes[*].awsElasticBlockStore", &[], NO_DRIVER),
    refused("spec.volumes[*].azureDisk", &[], NO_DRIVER),
    refused("spec.volumes[*].azureFile", &[], NO_DRIVER),
    refused("spec.volumes[*].cephfs", &[], NO_DRIVER),
    refused("spec.volumes[*].cinder", &[], NO_DRIVER),
    yes("spec.volumes[*].configMap"),
    refused("spec.volumes[*].csi", &[], "there are no CSI drivers"),
    yes("spec.volumes[*].downwardAPI"),
    yes("spec.volumes[*].emptyDir"),
    refused("spec.volumes[*].ephemeral", &[], "write a claim, and refer to it"),
    refused("spec.volumes[*].fc", &[], NO_DRIVER),
    refused("spec.volumes[*].flexVolume", &[], NO_DRIVER),
    refused("spec.volumes[*].flocker", &[], NO_DRIVER),
    refused("spec.volumes[*].gcePersistentDisk", &[], NO_DRIVER),
    refused("spec.volumes[*].gitRepo", &[], "clone it in an init container"),
    refused("spec.volumes[*].glusterfs", &[], NO_DRIVER),
    yes("spec.volumes[*].hostPath"),
    refused("spec.volumes[*].image", &[], "Docker cannot mount an image"),
    refused("spec.volumes[*].iscsi", &[], NO_DRIVER),
    yes("spec.volumes[*].name"),
    yes("spec.volumes[*].nfs"),
    yes("spec.volumes[*].persistentVolumeClaim"),
    refused("spec.volumes[*].photonPersistentDisk", &[], NO_DRIVER),
    refused("spec.volumes[*].portworxVolume", &[], NO_DRIVER),
    yes("spec.volumes[*].projected"),
    refused("spec.volumes[*].projected.sources[*].clusterTrustBundle", &[], NO_API),
    refused("spec.volumes[*].projected.sources[*].podCertificate", &[], NO_API),
    refused("spec.volumes[*].projected.sources[*].serviceAccountToken", &[], NO_API),
    refused("spec.volumes[*].quobyte", &[], NO_DRIVER),
    refused("spec.volumes[*].rbd", &[], NO_DRIVER),
    refused("spec.volumes[*].scaleIO", &[], NO_DRIVER),
    yes("spec.volumes[*].secret"),
    refused("spec.volumes[*].storageos", &[], NO_DRIVER),
    refused("spec.volumes[*].vsphereVolume", &[], NO_DRIVER),
    yes("spec.containers[*].args"),
    yes("spec.containers[*].command"),
    yes("spec.containers[*].env"),
    yes("spec.containers[*].env[*].valueFrom.configMapKeyRef"),
    yes("spec.containers[*].env[*].valueFrom.fieldRef"),
    refused("spec.containers[*].env[*].valueFrom.fileKeyRef", &[], "files of volumes are not read into environments"),
    yes("spec.containers[*].env[*].valueFrom.resourceFieldRef"),
    yes("spec.containers[*].env[*].valueFrom.secretKeyRef"),
    yes("spec.containers[*].envFrom"),
    yes("spec.containers[*].image"),
    yes("spec.containers[*].imagePullPolicy"),
    yes("spec.containers[*].lifecycle"),
    yes("spec.containers[*].lifecycle.postStart"),
    refused("spec.containers[*].lifecycle.postStart.httpGet.protocol", &[], HTTP_1),
    yes("spec.containers[*].lifecycle.preStop"),
    refused("spec.containers[*].lifecycle.preStop.httpGet.protocol", &[], HTTP_1),
    yes("spec.containers[*].lifecycle.stopSignal"),
    yes("spec.containers[*].livenessProbe"),
    refused("spec.containers[*].livenessProbe.grpc.mode", PLAIN, NO_TLS),
    refused("spec.containers[*].livenessProbe.httpGet.protocol", &[], HTTP_1),
    yes("spec.containers[*].name"),
    yes("spec.containers[*].ports"),
    yes("spec.containers[*].readinessProbe"),
    refused("spec.containers[*].readinessProbe.grpc.mode", PLAIN, NO_TLS),
    refused("spec.containers[*].readinessProbe.httpGet.protocol", &[], HTTP_1),
    yes("spec.containers[*].resizePolicy"),
    yes("spec.containers[*].resources"),
    refused("spec.containers[*].resources.claims", &[], NO_CLAIMS),
    yes("spec.containers[*].resources.limits.cpu"),
    yes("spec.containers[*].resources.limits.ephemeral-storage"),
    yes("spec.containers[*].resources.limits.memory"),
    yes("spec.containers[*].resources.limits.hugepages-*"),
    yes("spec.containers[*].resources.limits.nvidia.com/gpu"),
    yes("spec.containers[*].resources.limits.podkeeper.dev/*"),
    refused("spec.containers[*].resources.limits.*", &["0", "\"0\""], "no such resource: devices are podkeeper.dev/NAME (--device) and nvidia.com/gpu"),
    yes("spec.containers[*].resources.requests.cpu"),
    yes("spec.containers[*].resources.requests.ephemeral-storage"),
    yes("spec.containers[*].resources.requests.memory"),
    yes("spec.containers[*].resources.requests.hugepages-*"),
    yes("spec.containers[*].resources.requests.nvidia.com/gpu"),
    yes("spec.containers[*].resources.requests.podkeeper.dev/*"),
    refused("spec.containers[*].resources.requests.*", &["0", "\"0\""], "no such resource: devices are podkeeper.dev/NAME (--device) and nvidia.com/gpu"),
    yes("spec.containers[*].restartPolicy"),
    yes("spec.containers[*].restartPolicyRules"),
    yes("spec.containers[*].securityContext"),
    yes("spec.containers[*].securityContext.allowPrivilegeEscalation"),
    yes("spec.containers[*].securityContext.appArmorProfile"),
    yes("spec.containers[*].securityContext.capabilities"),
    yes("spec.containers[*].securityContext.privileged"),
    refused("spec.containers[*].securityContext.procMount", &["\"Default\""], "it needs a user namespace of the pod, and those are not set up"),
    yes("spec.containers[*].securityContext.readOnlyRootFilesystem"),
    yes("spec.containers[*].securityContext.runAsGroup"),
    yes("spec.containers[*].securityContext.runAsNonRoot"),
    yes("spec.containers[*].securityContext.runAsUser"),
    yes("spec.containers[*].securityContext.seLinuxOptions"),
    yes("spec.containers[*].securityContext.seccompProfile"),
    refused("spec.containers[*].securityContext.windowsOptions", &[], "this node runs Linux"),
    yes("spec.containers[*].startupProbe"),
    refused("spec.containers[*].startupProbe.grpc.mode", PLAIN, NO_TLS),
    refused("spec.containers[*].startupProbe.httpGet.protocol", &[], HTTP_1),
    yes("spec.containers[*].stdin"),
    yes("spec.containers[*].stdinOnce"),
    yes("spec.containers[*].terminationMessagePath"),
    yes("spec.containers[*].terminationMessagePolicy"),
    yes("spec.containers[*].tty"),
    refused("spec.containers[*].volumeDevices", &[], "there are no block volumes"),
    yes("spec.containers[*].volumeMounts"),
    refused("spec.containers[*].volumeMounts[*].bindMountOptions", &[], "Docker has no such options"),
    yes("spec.containers[*].volumeMounts[*].mountPath"),
    yes("spec.containers[*].volumeMounts[*].mountPropagation"),
    yes("spec.containers[*].volumeMounts[*].name"),
    yes("spec.containers[*].volumeMounts[*].readOnly"),
    yes("spec.containers[*].volumeMounts[*].recursiveReadOnly"),
    yes("spec.containers[*].volumeMounts[*].subPath"),
    yes("spec.containers[*].volumeMounts[*].subPathExpr"),
    yes("spec.containers[*].workingDir"),
];

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
pub(crate) fn names_below(parent: &str) -> impl Iterator<Item = &'static str> {
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

/// Reports fields of the manifest that are ignored or refused. A field that has an error already is not
/// reported twice.
pub(crate) fn check(report: &mut Report<'_>) {
    let root = report.root();
    walk(root, &Path::ROOT, report);
}

/// As [`check`], for the metadata of a local object: the rows are a pod's.
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

/// True for a value that requests something.
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
