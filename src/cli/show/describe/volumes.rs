//! The volumes' part of a page.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, PodSpec, VolumeProjection};

use super::Page;
use crate::pod::object::account_of_token;

/// Adds names and kinds of volumes; their content is in the manifest.
pub(super) fn describe(page: &mut Page, spec: &PodSpec) {
    let list = spec.volumes.as_deref().unwrap_or_default();
    if list.is_empty() {
        return page.field(0, "Volumes", "<none>");
    }
    page.line(0, "Volumes:");
    for volume in list {
        page.line(1, &format!("{}:", volume.name));
        if let Some(path) = &volume.host_path {
            page.field(2, "Type", "HostPath (bare host directory volume)");
            page.field(2, "Path", &path.path);
            page.field(2, "HostPathType", path.type_.as_deref().unwrap_or("<none>"));
        } else if let Some(dir) = &volume.empty_dir {
            page.field(2, "Type", "EmptyDir (a temporary directory that shares a pod's lifetime)");
            page.field(2, "Medium", dir.medium.as_deref().unwrap_or_default());
            page.field(2, "SizeLimit", dir.size_limit.as_ref().map_or("<unset>", |q| q.0.as_str()));
        } else if let Some(map) = &volume.config_map {
            page.field(2, "Type", "ConfigMap (a volume populated by a ConfigMap)");
            page.field(2, "Name", &map.name);
        } else if let Some(secret) = &volume.secret {
            page.field(2, "Type", "Secret (a volume populated by a Secret)");
            page.optional(2, "SecretName", secret.secret_name.as_ref());
        } else if let Some(claim) = &volume.persistent_volume_claim {
            let what = "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)";
            page.field(2, "Type", what);
            page.field(2, "ClaimName", &claim.claim_name);
            page.field(2, "ReadOnly", if claim.read_only == Some(true) { "true" } else { "false" });
        } else if let Some(projected) = &volume.projected {
            page.field(2, "Type", "Projected (a volume that contains injected data from multiple sources)");
            for source in projected.sources.iter().flatten() {
                projection(page, source);
            }
        } else if let Some(fields) = &volume.downward_api {
            page.field(2, "Type", "DownwardAPI (a volume populated by information about the pod)");
            page.line(2, "Items:");
            fields.items.iter().flatten().for_each(|file| item(page, file));
        } else if let Some(nfs) = &volume.nfs {
            page.field(2, "Type", "NFS (an NFS mount that lasts the lifetime of a pod)");
            page.field(2, "Server", &nfs.server);
            page.field(2, "Path", &nfs.path);
            page.field(2, "ReadOnly", if nfs.read_only == Some(true) { "true" } else { "false" });
        } else {
            page.field(2, "Type", "<unknown>");
        }
    }
}

/// One source of a projected volume.
fn projection(page: &mut Page, source: &VolumeProjection) {
    let optional = |page: &mut Page, name, value| {
        page.field(2, name, if value == Some(true) { "true" } else { "false" })
    };
    if let Some(map) = &source.config_map {
        page.field(2, "ConfigMapName", &map.name);
        optional(page, "Optional", map.optional);
    } else if let Some(account) = source.secret.as_ref().and_then(|it| account_of_token(&it.name)) {
        page.field(2, "ServiceAccountToken", account);
    } else if let Some(secret) = &source.secret {
        page.field(2, "SecretName", &secret.name);
        optional(page, "Optional", secret.optional);
    } else if let Some(fields) = &source.downward_api {
        page.field(2, "DownwardAPI", "true");
        fields.items.iter().flatten().for_each(|file| item(page, file));
    }
}

/// A file of fields of the pod: `metadata.labels -> labels`.
fn item(page: &mut Page, file: &DownwardAPIVolumeFile) {
    let field = file.field_ref.as_ref().map(|field| field.field_path.as_str());
    let resource = file.resource_field_ref.as_ref().map(|field| field.resource.as_str());
    page.line(3, &format!("{} -> {}", field.or(resource).unwrap_or_default(), file.path));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::show::table;

    #[test]
    fn every_kind_of_volume_is_told() {
        let spec: PodSpec = serde_json::from_value(serde_json::json!({"containers": [], "volumes": [
            {"name": "claim", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "settings"}},
                {"secret": {"name": "key", "optional": true}},
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}},
            {"name": "fields", "downwardAPI": {"items": [
                {"path": "cpu", "resourceFieldRef": {"containerName": "a", "resource": "limits.cpu"}}]}},
            {"name": "share", "nfs": {"server": "nas", "path": "/x"}}]}))
        .unwrap();
        let mut page = Page::default();
        describe(&mut page, &spec);
        crate::base::testing::golden("cli/describe-volumes.txt", &table::align(&page.0));
    }
}
