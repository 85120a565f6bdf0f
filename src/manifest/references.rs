//! References that a static pod may not have, because their targets are in an API server (upstream
//! `pkg/kubelet/config/common.go`). Different on purpose: here ConfigMaps, Secrets and claims on this node's
//! own disk may be beside the pods: a container's environment, `imagePullSecrets` and volumes may refer to
//! them.

use k8s_openapi::api::core::v1::PodSpec;

use super::path::{Path, Report};
use super::tree::Node;
use crate::pod::Source;

/// Reports each forbidden reference at its field.
pub(crate) fn check(spec: &PodSpec, source: Source, report: &mut Report<'_>) {
    // Who writes a pod with kubectl does not take it for a static one.
    let whose = if source == Source::Api { "pods of this node" } else { "static pods" };
    let root = Path::ROOT;
    let path = root.field("spec");
    for (name, field) in
        [("serviceAccountName", &spec.service_account_name), ("serviceAccount", &spec.service_account)]
    {
        if field.as_deref().is_some_and(|name| !name.is_empty()) {
            refuse(&path.field(name), whose, "serviceaccounts", report);
        }
    }
    if spec.resource_claims.as_deref().is_some_and(|list| !list.is_empty()) {
        refuse(&path.field("resourceClaims"), whose, "resourceclaims", report);
    }
    let path = path.field("volumes");
    let volumes = report.written(&path).map(Node::items).unwrap_or_default();
    for (i, each) in volumes.iter().enumerate() {
        volume(each, &path.index(i), whose, report);
    }
}

fn refuse(path: &Path<'_>, whose: &str, what: &str, report: &mut Report<'_>) {
    report.error(path, format!("{whose} may not reference {what}"));
}

fn volume(volume: &Node, path: &Path<'_>, whose: &str, report: &mut Report<'_>) {
    for source in volume.entries().iter().filter(|e| !e.value.is_null()) {
        let at = path.field(&source.key);
        let what = match source.key.as_str() {
            "configMap" | "secret" | "persistentVolumeClaim" => continue,
            "azureFile" => "secrets",
            "csi" => "csidrivers (via CSI volumes)",
            "ephemeral" => "persistentvolumeclaims (via ephemeral volumes)",
            "projected" => {
                projected(&source.value, &at, whose, report);
                continue;
            }
            // In-line network volumes are allowed, their credentials are not.
            _ => {
                if let Some(key) =
                    ["secretRef", "secretName"].into_iter().find(|k| source.value.get(k).is_some())
                {
                    refuse(&at.field(key), whose, "secrets", report);
                }
                continue;
            }
        };
        refuse(&at, whose, what, report);
    }
}

fn projected(volume: &Node, path: &Path<'_>, whose: &str, report: &mut Report<'_>) {
    let path = path.field("sources");
    let sources = volume.get("sources").map(Node::items).unwrap_or_default();
    for (i, source) in sources.iter().enumerate() {
        for entry in source.entries().iter().filter(|e| !e.value.is_null()) {
            let what = match entry.key.as_str() {
                "serviceAccountToken" => "serviceaccounts (via projected volumes)",
                "clusterTrustBundle" => "clustertrustbundles",
                "podCertificate" => "podcertificates",
                _ => continue,
            };
            refuse(&path.index(i).field(&entry.key), whose, what, report);
        }
    }
}
