//! A container's mounts of its pod's volumes (upstream `pkg/kubelet/kubelet_pods.go`,
//! `pkg/volume/util/subpath/subpath_linux.go`). Pure.

use std::path::Path;

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::env::references;
use crate::layout::{self, Kind};
use crate::pod::DesiredPod;
use crate::pod::object::Objects;
use crate::policy::Policies;
use crate::runtime::{BindOptions, Mount};
use crate::volumes::SubPath;

/// A container's mounts, and the subPaths to bind before it is created.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Mounts {
    /// For Docker, in the order of `volumeMounts`.
    pub mounts: Vec<Mount>,
    /// The subPaths that some of the mounts use.
    pub sub_paths: Vec<SubPath>,
}

/// The mounts of a container. `env` is its environment, as `NAME=value`.
///
/// # Errors
/// Invalid `volumeMounts`, in the kubelet's words, for reason `CreateContainerConfigError`.
pub fn of(
    pod: &DesiredPod,
    container: &Container,
    env: &[String],
    root: &Path,
    policies: &Policies,
    objects: &Objects,
) -> Result<Mounts, String> {
    let mut all = Mounts::default();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let unknown =
            || format!("cannot find volume {:?} to mount into container {:?}", mount.name, container.name);
        let volume = layout::volumes(pod).find(|v| v.name == mount.name).ok_or_else(unknown)?;
        let base = layout::host_path(root, pod, volume, policies, objects).ok_or_else(unknown)?;
        let source = match sub_path(mount, env)? {
            None => base,
            Some(path) => {
                let (volume, container) = (volume.name.clone(), container.name.clone());
                let place = layout::sub_path(root, &pod.uid, &volume, &container, index);
                let wanted = SubPath { uid: pod.uid.clone(), volume, base, path, container, index };
                all.sub_paths.push(wanted);
                place.ok_or_else(unknown)?
            }
        };
        let mut made = Mount::bind(source.to_string_lossy().into_owned(), layout::target(&mount.mount_path));
        made.read_only = mount.read_only.unwrap_or(false) || Kind::of(volume).is_read_only();
        made.bind_options = options(mount, made.read_only);
        all.mounts.push(made);
    }
    Ok(all)
}

fn options(mount: &VolumeMount, read_only: bool) -> Option<BindOptions> {
    let propagation = match mount.mount_propagation.as_deref() {
        Some("HostToContainer") => Some("rslave"),
        Some("Bidirectional") => Some("rshared"),
        // Docker's default is `rprivate`.
        _ => None,
    };
    let recursive = mount.recursive_read_only.as_deref();
    let options = BindOptions {
        propagation,
        // `IfPossible` sets neither: newer versions of Docker do it by default if they can.
        read_only_force_recursive: read_only && recursive == Some("Enabled"),
        read_only_non_recursive: read_only && !matches!(recursive, Some("Enabled" | "IfPossible")),
    };
    (options != BindOptions::default()).then_some(options)
}

/// The mount's subPath, expanded; `None` for the whole volume.
fn sub_path(mount: &VolumeMount, env: &[String]) -> Result<Option<String>, String> {
    let expression = mount.sub_path_expr.as_deref().filter(|text| !text.is_empty());
    let path = match expression {
        Some(expression) => expand(expression, env)?,
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    if path.is_empty() {
        return Ok(None);
    }
    if path.starts_with('/') {
        return Err(format!("error SubPath `{path}` must not be an absolute path"));
    }
    if path.contains('\0') || path.split('/').any(|part| part == "..") {
        return Err(format!("unable to provision SubPath `{path}`: must not contain '..'"));
    }
    Ok(Some(path))
}

/// Replaces `$(NAME)` by the value in the environment; an unknown name is an error here.
fn expand(text: &str, env: &[String]) -> Result<String, String> {
    let mut missing = Vec::new();
    let out = references(text, |name, out| {
        let value = env.iter().find_map(|entry| entry.split_once('=').filter(|(key, _)| *key == name));
        match value {
            Some((_, value)) => out.push_str(value),
            None => missing.push(name),
        }
    });
    if missing.is_empty() { Ok(out) } else { Err(format!("missing value for {}", missing.join(", "))) }
}

#[cfg(test)]
mod tests;
