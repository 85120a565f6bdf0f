//! The one list of what podkeeper does with each field of a pod, and the walk that compares a manifest
//! with it. The man page is checked against [`table`].
//!
//! A field is `Supported`, or `Ignored` (its absence cannot hurt: a warning), or `Refused` (running the
//! pod without it would be unsafe or wrong: an error). Only what the user wrote is spoken of, never a
//! default.

use super::node::{Data, Node};
use super::path::{Path, Report, Step};

/// What podkeeper does with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It has its effect. Rows below it may say otherwise for parts.
    Supported,
    /// It is accepted and does nothing; the text says why or what happens instead.
    Ignored(&'static str),
    /// A pod that uses it is not started; the text says why.
    Refused(&'static str),
}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Path from the pod; `[*]` stands for any index. `spec.containers[*]` stands for
    /// `spec.initContainers[*]` too. A last part ending in `*` stands for any key that begins like it.
    pub field: &'static str,
    /// What happens.
    pub support: Support,
    /// Values (as JSON) that mean nothing is asked for, so nothing is said.
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
const ONE_NODE: &str = "there is one node and no scheduler";
const NO_DRIVER: &str = "this kind of volume needs a driver or a cluster";
const NO_SECURITY: &str = "this protection is not applied yet";
const NO_CLUSTER: &str = "there is no cluster";

/// Every field of metadata, pod and container, once.
#[must_use]
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
    ignored("metadata.creationTimestamp", &[], NO_CLUSTER),
    refused("metadata.deletionGracePeriodSeconds", &[], "remove the manifest to delete the pod"),
    refused("metadata.deletionTimestamp", &[], "remove the manifest to delete the pod"),
    ignored("metadata.finalizers", &[], NO_CLUSTER),
    ignored("metadata.generateName", &[], "the pod's name is metadata.name"),
    ignored("metadata.generation", &[], NO_CLUSTER),
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
    refused("spec.dnsConfig", &[], "containers get the host's resolver settings"),
    ignored("spec.dnsPolicy", &["\"ClusterFirst\"", "\"Default\""], "containers get the host's resolver settings"),
    ignored("spec.enableServiceLinks", NO, NO_CLUSTER),
    refused("spec.ephemeralContainers", &[], "they cannot be in a manifest"),
    ignored("spec.evictionResponders", &[], NO_CLUSTER),
    refused("spec.hostAliases", &[], "/etc/hosts is not managed yet"),
    yes("spec.hostIPC"),
    yes("spec.hostNetwork"),
    yes("spec.hostPID"),
    refused("spec.hostUsers", &["true"], "user namespaces are not set up"),
    yes("spec.hostname"),
    refused("spec.hostnameOverride", &[], "the host name comes from spec.hostname"),
    yes("spec.imagePullSecrets"),
    yes("spec.initContainers"),
    yes("spec.nodeName"),
    yes("spec.nodeSelector"),
    yes("spec.os"),
    ignored("spec.overhead", &[], "there is no runtime class"),
    ignored("spec.preemptionPolicy", &[], ONE_NODE),
    yes("spec.priority"),
    ignored("spec.priorityClassName", &[], ONE_NODE),
    ignored("spec.readinessGates", &[], "nobody sets their conditions"),
    refused("spec.resourceClaims", &[], "there are no devices"),
    refused("spec.resources", &[], "limits are per container"),
    yes("spec.restartPolicy"),
    refused("spec.runtimeClassName", &[], "Docker's default runtime runs every container"),
    ignored("spec.schedulerName", &["\"default-scheduler\""], ONE_NODE),
    refused("spec.schedulingGates", &[], ONE_NODE),
    ignored("spec.schedulingGroup", &[], ONE_NODE),
    yes("spec.securityContext"),
    refused("spec.securityContext.appArmorProfile", &[], NO_SECURITY),
    yes("spec.securityContext.fsGroup"),
    yes("spec.securityContext.fsGroupChangePolicy"),
    refused("spec.securityContext.runAsGroup", &[], NO_SECURITY),
    refused("spec.securityContext.runAsNonRoot", NO, NO_SECURITY),
    refused("spec.securityContext.runAsUser", &[], NO_SECURITY),
    refused("spec.securityContext.seLinuxChangePolicy", &[], NO_SECURITY),
    refused("spec.securityContext.seLinuxOptions", &[], NO_SECURITY),
    refused("spec.securityContext.seccompProfile", &[], NO_SECURITY),
    refused("spec.securityContext.supplementalGroups", &[], NO_SECURITY),
    refused("spec.securityContext.supplementalGroupsPolicy", &[], NO_SECURITY),
    refused("spec.securityContext.sysctls", &[], NO_SECURITY),
    refused("spec.securityContext.windowsOptions", &[], "this node runs Linux"),
    refused("spec.serviceAccount", &[], NO_CLUSTER),
    refused("spec.serviceAccountName", &[], NO_CLUSTER),
    refused("spec.setHostnameAsFQDN", NO, "there is no cluster domain"),
    yes("spec.shareProcessNamespace"),
    refused("spec.subdomain", &[], "there is no cluster domain"),
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
    refused("spec.containers[*].env[*].valueFrom.fieldRef", &[], "fields of the pod are not filled in yet"),
    refused("spec.containers[*].env[*].valueFrom.fileKeyRef", &[], "files of volumes are not read into environments"),
    refused("spec.containers[*].env[*].valueFrom.resourceFieldRef", &[], "resources are not filled in yet"),
    yes("spec.containers[*].env[*].valueFrom.secretKeyRef"),
    yes("spec.containers[*].envFrom"),
    yes("spec.containers[*].image"),
    yes("spec.containers[*].imagePullPolicy"),
    yes("spec.containers[*].lifecycle"),
    yes("spec.containers[*].lifecycle.postStart"),
    yes("spec.containers[*].lifecycle.preStop"),
    yes("spec.containers[*].lifecycle.stopSignal"),
    yes("spec.containers[*].livenessProbe"),
    yes("spec.containers[*].name"),
    yes("spec.containers[*].ports"),
    yes("spec.containers[*].readinessProbe"),
    ignored("spec.containers[*].resizePolicy", &[], "a container is not resized while it runs"),
    yes("spec.containers[*].resources"),
    refused("spec.containers[*].resources.claims", &[], "there are no devices"),
    yes("spec.containers[*].resources.limits.cpu"),
    ignored("spec.containers[*].resources.limits.ephemeral-storage", &[], "disk space is not limited yet"),
    yes("spec.containers[*].resources.limits.memory"),
    refused("spec.containers[*].resources.limits.*", &["0", "\"0\""], "only cpu and memory are given out"),
    yes("spec.containers[*].resources.requests.cpu"),
    ignored("spec.containers[*].resources.requests.ephemeral-storage", &[], "disk space is not limited yet"),
    yes("spec.containers[*].resources.requests.memory"),
    refused("spec.containers[*].resources.requests.*", &["0", "\"0\""], "only cpu and memory are given out"),
    yes("spec.containers[*].restartPolicy"),
    yes("spec.containers[*].restartPolicyRules"),
    yes("spec.containers[*].securityContext"),
    refused("spec.containers[*].securityContext.allowPrivilegeEscalation", &["true"], NO_SECURITY),
    refused("spec.containers[*].securityContext.appArmorProfile", &[], NO_SECURITY),
    refused("spec.containers[*].securityContext.capabilities", &[], NO_SECURITY),
    yes("spec.containers[*].securityContext.privileged"),
    refused("spec.containers[*].securityContext.procMount", &["\"Default\""], NO_SECURITY),
    refused("spec.containers[*].securityContext.readOnlyRootFilesystem", NO, NO_SECURITY),
    refused("spec.containers[*].securityContext.runAsGroup", &[], NO_SECURITY),
    refused("spec.containers[*].securityContext.runAsNonRoot", NO, NO_SECURITY),
    refused("spec.containers[*].securityContext.runAsUser", &[], NO_SECURITY),
    refused("spec.containers[*].securityContext.seLinuxOptions", &[], NO_SECURITY),
    refused("spec.containers[*].securityContext.seccompProfile", &[], NO_SECURITY),
    refused("spec.containers[*].securityContext.windowsOptions", &[], "this node runs Linux"),
    yes("spec.containers[*].startupProbe"),
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

/// The names the table knows below a parent's pattern (`spec`, `spec.containers[*]`).
pub(crate) fn names_below(parent: &str) -> impl Iterator<Item = &'static str> {
    let prefix = format!("{parent}.");
    TABLE.iter().filter_map(move |r| {
        let rest = r.field.strip_prefix(prefix.as_str())?;
        Some(rest).filter(|name| name.bytes().all(|b| b.is_ascii_alphabetic()))
    })
}

/// A path as the table writes it.
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

/// Reports what the manifest uses and podkeeper does not do. What has an error already is not spoken of
/// twice.
pub(crate) fn check(report: &mut Report<'_>) {
    let root = report.root();
    walk(root, &Path::ROOT, report);
}

/// The same for what only stands in the metadata of a local object: the rows are a pod's.
pub(crate) fn check_metadata(report: &mut Report<'_>) {
    let root = Path::ROOT;
    let path = root.field("metadata");
    if let Some(node) = report.written(&path) {
        walk(node, &path, report);
    }
}

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

/// Rows below this one say something of its parts.
fn has_parts(row: &Row) -> bool {
    let below = |r: &Row| r.field.strip_prefix(row.field).is_some_and(|rest| rest.starts_with(['.', '[']));
    TABLE.iter().any(below)
}

/// The value is not one of those that ask for nothing.
fn asks(node: &Node, row: &Row) -> bool {
    match &node.data {
        Data::Null => false,
        Data::String(text) if text.is_empty() => false,
        Data::List(items) if items.is_empty() => false,
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

    use k8s_openapi::api::core::v1 as api;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde::de::{Deserialize, Deserializer, Error, Visitor, value};

    use super::*;

    /// Learns the names of a struct's fields from how it asks to be decoded.
    struct FieldNames<'a>(&'a mut Vec<&'static str>);

    impl<'de> Deserializer<'de> for FieldNames<'_> {
        type Error = value::Error;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(Error::custom("not a struct"))
        }
        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Self::Error> {
            self.0.extend(fields);
            Err(Error::custom("names known"))
        }
        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn fields<'de, T: Deserialize<'de>>() -> BTreeSet<&'static str> {
        let mut names = Vec::new();
        assert!(T::deserialize(FieldNames(&mut names)).is_err());
        names.into_iter().collect()
    }

    /// The API's fields and the table's rows are the same, so that a new field of the API is decided on.
    #[test]
    fn every_field_is_in_the_table_once() {
        for (parent, fields) in [
            ("metadata", fields::<ObjectMeta>()),
            ("spec", fields::<api::PodSpec>()),
            ("spec.containers[*]", fields::<api::Container>()),
            ("spec.containers[*].env[*].valueFrom", fields::<api::EnvVarSource>()),
            ("spec.containers[*].lifecycle", fields::<api::Lifecycle>()),
            ("spec.containers[*].securityContext", fields::<api::SecurityContext>()),
            ("spec.containers[*].volumeMounts[*]", fields::<api::VolumeMount>()),
            ("spec.securityContext", fields::<api::PodSecurityContext>()),
            ("spec.volumes[*]", fields::<api::Volume>()),
        ] {
            let rows: Vec<&str> = names_below(parent).collect();
            assert_eq!(rows.iter().copied().collect::<BTreeSet<_>>(), fields, "{parent}");
        }
        let all: BTreeSet<&str> = TABLE.iter().map(|r| r.field).collect();
        assert_eq!(all.len(), TABLE.len());
    }

    /// A row whose parents are not all supported would never be reached.
    #[test]
    fn no_row_is_hidden() {
        for row in TABLE {
            for (i, _) in row.field.match_indices('.') {
                let parent = row.field[..i].trim_end_matches("[*]");
                assert!(super::row(parent).is_none_or(|r| r.support == Support::Supported), "{}", row.field);
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
