//! Sources of volumes: items, modes, projections (upstream `validateVolumeSource` and its callees).

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, PodSpec, ProjectedVolumeSource, Volume};

use super::super::path::{Path, Report, forbidden, invalid, invalid_plain, quoted, required};
use super::volumes::has_dot_dot;
use super::{env, names};

/// Fields of a pod that a file may contain: those that do not change by themselves.
const FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

pub(super) fn check_all(spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let list = path.field("volumes");
    for (i, one) in spec.volumes.iter().flatten().enumerate() {
        volume(one, &list.index(i), report);
    }
    let list = path.field("imagePullSecrets");
    for (i, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        name(&secret.name, &list.index(i).field("name"), report);
    }
}

fn volume(volume: &Volume, path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(it) = &volume.secret {
        let path = path.field("secret");
        default_mode(it.default_mode, &path, report);
        user(it.default_user, &path.field("defaultUser"), report);
        items(it.items.as_deref(), &path, report);
        name(it.secret_name.as_deref().unwrap_or_default(), &path.field("secretName"), report);
    }
    if let Some(it) = &volume.config_map {
        let path = path.field("configMap");
        default_mode(it.default_mode, &path, report);
        user(it.default_user, &path.field("defaultUser"), report);
        items(it.items.as_deref(), &path, report);
        name(&it.name, &path.field("name"), report);
    }
    if let Some(it) = &volume.downward_api {
        let path = path.field("downwardAPI");
        default_mode(it.default_mode, &path, report);
        user(it.default_user, &path.field("defaultUser"), report);
        fields(it.items.as_deref(), &path, report);
    }
    if let Some(it) = &volume.projected {
        let path = path.field("projected");
        default_mode(it.default_mode, &path, report);
        user(it.default_user, &path.field("defaultUser"), report);
        projected(it, &path.field("sources"), report);
    }
    if let Some(it) = &volume.persistent_volume_claim {
        let path = path.field("persistentVolumeClaim");
        name(&it.claim_name, &path.field("claimName"), report);
    }
    if let Some(it) = &volume.nfs
        && !it.path.is_empty()
        && !it.path.starts_with('/')
    {
        let path = path.field("nfs");
        report.error(&path.field("path"), invalid(&it.path, "must be an absolute path"));
    }
    if let Some(mode) = volume.empty_dir.as_ref().and_then(|it| it.mode) {
        let path = path.field("emptyDir");
        if !(0..=0o7777).contains(&mode) {
            let detail = "must be a number between 0 and 07777 (octal), both inclusive";
            report.error(&path.field("mode"), invalid_plain(mode, detail));
        }
    }
}

/// Warns about the name of an object that no object can have. As upstream, the pod is accepted, and waits for the
/// object.
pub(super) fn name(name: &str, path: &Path<'_>, report: &mut Report<'_>) {
    if !name.is_empty() && names::subdomain(name).is_err() {
        report.warning(path, format!("{} is no name of an object: it is never found", quoted(name)));
    }
}

fn default_mode(mode: Option<i32>, path: &Path<'_>, report: &mut Report<'_>) {
    permissions(mode, &path.field("defaultMode"), report);
}

fn permissions(mode: Option<i32>, path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        report.error(path, invalid_plain(mode, MODE));
    }
}

fn user(user: Option<i64>, path: &Path<'_>, report: &mut Report<'_>) {
    super::between(user, 0, i64::from(i32::MAX), path, report);
}

fn items(items: Option<&[KeyToPath]>, path: &Path<'_>, report: &mut Report<'_>) {
    let list = path.field("items");
    for (i, item) in items.unwrap_or_default().iter().enumerate() {
        let path = list.index(i);
        if item.key.is_empty() {
            report.error(&path.field("key"), required(""));
        }
        file(&item.path, &path.field("path"), report);
        permissions(item.mode, &path.field("mode"), report);
        user(item.user, &path.field("user"), report);
    }
}

/// A path inside the volume, except the volume's own entries (`..data` and similar).
fn file(value: &str, path: &Path<'_>, report: &mut Report<'_>) {
    if value.is_empty() {
        return report.error(path, required(""));
    }
    if value.starts_with('/') {
        report.error(path, invalid(value, "must be a relative path"));
    }
    if has_dot_dot(value) {
        report.error(path, invalid(value, "must not contain '..'"));
    } else if value.starts_with("..") {
        report.error(path, invalid(value, "must not start with '..'"));
    } else if let Err(why) = crate::layout::inside(value)
        && !value.starts_with('/')
    {
        // The API takes it, and no volume can have it.
        report.warning(path, why.strip_prefix("invalid path: ").unwrap_or(&why));
    }
}

fn fields(items: Option<&[DownwardAPIVolumeFile]>, path: &Path<'_>, report: &mut Report<'_>) {
    let list = path.field("items");
    for (i, item) in items.unwrap_or_default().iter().enumerate() {
        let path = list.index(i);
        file(&item.path, &path.field("path"), report);
        match (&item.field_ref, &item.resource_field_ref) {
            (Some(_), Some(_)) => {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                report.error(&path, invalid("resource", detail));
            }
            (None, None) => {
                report.error(&path, required("one of fieldRef and resourceFieldRef is required"));
            }
            (Some(field), None) => env::field_ref(field, FIELDS, &path.field("fieldRef"), report),
            (None, Some(resource)) => {
                let path = path.field("resourceFieldRef");
                if resource.container_name.as_deref().unwrap_or_default().is_empty() {
                    report.error(&path.field("containerName"), required(""));
                }
                env::resource_field_ref(resource, &path, report);
            }
        }
        permissions(item.mode, &path.field("mode"), report);
        user(item.user, &path.field("user"), report);
    }
}

fn projected(volume: &ProjectedVolumeSource, path: &Path<'_>, report: &mut Report<'_>) {
    let mut paths: HashSet<String> = HashSet::new();
    for (i, source) in volume.sources.iter().flatten().enumerate() {
        let path = path.index(i);
        let mut kinds = 0_usize;
        let mut wanted: Vec<&str> = Vec::new();
        if let Some(it) = &source.secret {
            kinds = kinds.saturating_add(1);
            let path = path.field("secret");
            if it.name.is_empty() {
                report.error(&path.field("name"), required(""));
            }
            name(&it.name, &path.field("name"), report);
            items(it.items.as_deref(), &path, report);
            wanted.extend(it.items.iter().flatten().map(|item| item.path.as_str()));
        }
        if let Some(it) = &source.config_map {
            kinds = kinds.saturating_add(1);
            let path = path.field("configMap");
            if it.name.is_empty() {
                report.error(&path.field("name"), required(""));
            }
            name(&it.name, &path.field("name"), report);
            items(it.items.as_deref(), &path, report);
            wanted.extend(it.items.iter().flatten().map(|item| item.path.as_str()));
        }
        if let Some(it) = &source.downward_api {
            kinds = kinds.saturating_add(1);
            fields(it.items.as_deref(), &path.field("downwardAPI"), report);
            wanted.extend(it.items.iter().flatten().map(|item| item.path.as_str()));
        }
        // Other validations refuse these by name.
        let others = [
            source.service_account_token.is_some(),
            source.cluster_trust_bundle.is_some(),
            source.pod_certificate.is_some(),
        ];
        kinds = kinds.saturating_add(others.into_iter().filter(|is| *is).count());
        match kinds {
            0 => report.error(&path, required("must specify a source")),
            1 => {}
            _ => report.error(&path, forbidden("may not specify more than 1 volume type")),
        }
        for file in wanted {
            if !file.is_empty() && !paths.insert(file.to_owned()) {
                report.error(&path, invalid(file, "conflicting duplicate paths"));
            }
        }
    }
}
