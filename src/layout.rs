//! The volumes of a pod, their kinds and their places on the host: the kubelet's layout
//! (`pkg/kubelet/kubelet_getters.go`, `pkg/volume/util/util.go`). Pure. Every path consists of parts that
//! are single names, so that no text of a manifest leads elsewhere.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource,
    NFSVolumeSource, PersistentVolumeClaimVolumeSource, ProjectedVolumeSource, SecretVolumeSource, Volume,
    VolumeMount,
};

use crate::pod::object::{Content, ObjectKey, ObjectKind, Objects};
use crate::pod::{DesiredPod, Source};
use crate::policy::Policies;

/// Below the root directory: the data of claims. Kept when pods are removed.
pub const LOCAL_STORAGE: &str = "local-storage";
/// Below a pod's directory: its volumes, by plugin and name.
pub const VOLUMES: &str = "volumes";
/// Below a pod's directory: its volumes while they are removed. Nothing uses them any more, whatever becomes of the pod.
pub const GONE: &str = "volumes.gone";
/// Below a pod's directory: a link that says whose its volumes are.
pub const OWNER: &str = "owner";
/// Below the root directory: where the binds of sources behind others are made.
pub const STAGE: &str = "stage";
/// Below a pod's directory: the targets of `subPath`, by volume, container and index of the mount.
pub const SUB_PATHS: &str = "volume-subpaths";
/// Below a pod's directory: markers of volumes that are ready.
pub const PLUGINS: &str = "plugins";
/// Directory of emptyDir volumes.
pub const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
const SECRET: &str = "kubernetes.io~secret";
const DOWNWARD_API: &str = "kubernetes.io~downward-api";
const PROJECTED: &str = "kubernetes.io~projected";
/// Plugins of volumes whose files podkeeper writes to memory.
pub const IN_MEMORY: [&str; 3] = [SECRET, DOWNWARD_API, PROJECTED];
/// Directory of claims.
pub const LOCAL: &str = "kubernetes.io~local-volume";
/// Directory of NFS mounts.
pub const NFS: &str = "kubernetes.io~nfs";

/// Directory of hostPath volumes of pods that may use only some paths, and of volumes of a cluster's claims.
pub const HOST_PATH: &str = "kubernetes.io~host-path";

/// Directory of volumes that images declare, of pods of sources behind others.
pub const IMAGE_VOLUMES: &str = "podkeeper.dev~image";

/// Name of a pod's hosts file.
pub const HOSTS: &str = "etc-hosts";
/// Name of a pod's resolver file.
pub const RESOLVER: &str = "resolv.conf";

/// Below a pod's directory: the termination messages of its containers.
pub const MESSAGES: &str = "containers";

/// The kind of a volume, with its source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind<'a> {
    /// `emptyDir`; `None`: the volume has no source, which has the same meaning.
    EmptyDir(Option<&'a EmptyDirVolumeSource>),
    /// `hostPath`.
    HostPath(&'a HostPathVolumeSource),
    /// `configMap`.
    ConfigMap(&'a ConfigMapVolumeSource),
    /// `secret`.
    Secret(&'a SecretVolumeSource),
    /// `downwardAPI`.
    DownwardApi(&'a DownwardAPIVolumeSource),
    /// `projected`.
    Projected(&'a ProjectedVolumeSource),
    /// `persistentVolumeClaim`.
    Claim(&'a PersistentVolumeClaimVolumeSource),
    /// `nfs`.
    Nfs(&'a NFSVolumeSource),
    /// A kind that podkeeper does not support; `manifest/` refuses it.
    Other,
}

impl<'a> Kind<'a> {
    /// The kind of this volume.
    #[must_use]
    pub fn of(volume: &'a Volume) -> Kind<'a> {
        if let Some(it) = &volume.config_map {
            Kind::ConfigMap(it)
        } else if let Some(it) = &volume.secret {
            Kind::Secret(it)
        } else if let Some(it) = &volume.host_path {
            Kind::HostPath(it)
        } else if let Some(it) = &volume.downward_api {
            Kind::DownwardApi(it)
        } else if let Some(it) = &volume.projected {
            Kind::Projected(it)
        } else if let Some(it) = &volume.persistent_volume_claim {
            Kind::Claim(it)
        } else if let Some(it) = &volume.nfs {
            Kind::Nfs(it)
        } else if volume.empty_dir.is_some()
            || *volume == (Volume { name: volume.name.clone(), ..Volume::default() })
        {
            Kind::EmptyDir(volume.empty_dir.as_ref())
        } else {
            Kind::Other
        }
    }

    /// Directory of the volume's plugin below `volumes`; `None` for a kind without a directory there.
    #[must_use]
    pub fn plugin(&self) -> Option<&'static str> {
        match self {
            Kind::EmptyDir(_) => Some(EMPTY_DIR),
            Kind::ConfigMap(_) => Some("kubernetes.io~configmap"),
            Kind::Secret(_) => Some(SECRET),
            Kind::DownwardApi(_) => Some(DOWNWARD_API),
            Kind::Projected(_) => Some(PROJECTED),
            Kind::Claim(_) => Some(LOCAL),
            Kind::Nfs(_) => Some(NFS),
            Kind::HostPath(_) | Kind::Other => None,
        }
    }

    /// Whether it takes space on the node's disk and is removed with the pod (upstream
    /// `pkg/volume/util/util.go`, `IsLocalEphemeralVolume`).
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        match self {
            Kind::EmptyDir(spec) => spec.and_then(|it| it.medium.as_deref()).unwrap_or_default().is_empty(),
            Kind::ConfigMap(_) => true,
            _ => false,
        }
    }

    /// Whether podkeeper writes the volume's files, from objects and fields.
    #[must_use]
    pub fn is_written(&self) -> bool {
        matches!(self, Kind::ConfigMap(_) | Kind::Secret(_) | Kind::DownwardApi(_) | Kind::Projected(_))
    }

    /// Whether no container may write to it, regardless of its mount.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self {
            Kind::Claim(it) => it.read_only.unwrap_or(false),
            Kind::Nfs(it) => it.read_only.unwrap_or(false),
            _ => self.is_written(),
        }
    }
}

/// The pod's volumes that a container mounts. The others are not set up, as with the kubelet
/// (`pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go`, `processPodVolumes`): a pod whose unused
/// volume is of a missing Secret runs.
pub fn volumes(pod: &DesiredPod) -> impl Iterator<Item = &Volume> {
    pod.spec.volumes.iter().flatten().filter(|volume| pod.mounts(&volume.name))
}

/// Names of claims that a container of the pod may write to.
pub fn written_claims(pod: &DesiredPod) -> impl Iterator<Item = &str> {
    let writes = |volume: &str| {
        let mut mounts = pod.containers().flat_map(|(_, c)| c.volume_mounts.iter().flatten());
        mounts.any(|mount| mount.name == volume && mount.read_only != Some(true))
    };
    volumes(pod).filter_map(move |volume| match Kind::of(volume) {
        Kind::Claim(it) if it.read_only != Some(true) && writes(&volume.name) => Some(it.claim_name.as_str()),
        _ => None,
    })
}

/// Whether the name can be a single part of a path: never `..`, never two parts in one.
#[must_use]
pub fn is_one_name(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.contains(['/', '\0']) && part.len() <= 255
}

/// The parts as a path below `root`; `None` when one of them is not a single name.
#[must_use]
pub fn below(root: &Path, parts: &[&str]) -> Option<PathBuf> {
    let fine = parts.iter().all(|part| is_one_name(part));
    fine.then(|| parts.iter().fold(root.to_owned(), |path, part| path.join(part)))
}

/// Directory of a pod.
#[must_use]
pub fn pod_dir(root: &Path, uid: &str) -> Option<PathBuf> {
    below(root, &["pods", uid])
}

/// Directory of a pod's volumes.
#[must_use]
pub fn volumes_dir(root: &Path, uid: &str) -> Option<PathBuf> {
    below(root, &["pods", uid, VOLUMES])
}

/// Directory of a pod's volumes while they are removed.
#[must_use]
pub fn gone_dir(root: &Path, uid: &str) -> Option<PathBuf> {
    below(root, &["pods", uid, GONE])
}

/// The parts below the root directory of a volume that an image declares. All runs of the container have the same one.
#[must_use]
pub fn image_volume<'a>(uid: &'a str, name: &'a str) -> [&'a str; 5] {
    ["pods", uid, VOLUMES, IMAGE_VOLUMES, name]
}

/// Whether the pod may use only some paths of the host, or is of a source behind others, whose mounts are counted: then
/// its hostPath volume is resolved and bound before a container can use it. A volume whose mounts propagate to the host
/// belongs to a privileged container, which may use any path: Docker gets its path unchanged.
#[must_use]
pub fn is_guarded(pod: &DesiredPod, volume: &str, policies: &Policies) -> bool {
    let spreads = |mount: &VolumeMount| {
        mount.name == volume && mount.mount_propagation.as_deref() == Some("Bidirectional")
    };
    (policies.of(pod.source).allowed_host_paths.is_some() || policies.evict_first(pod.source))
        && !pod.containers().any(|(_, c)| c.volume_mounts.iter().flatten().any(spreads))
}

/// Parts of the path below the root directory at which a guarded hostPath volume, or the volume of a cluster's claim, is
/// bound.
#[must_use]
pub fn guarded<'p>(uid: &'p str, volume: &'p str) -> [&'p str; 5] {
    ["pods", uid, VOLUMES, HOST_PATH, volume]
}

/// Directory of a source's claims below [`LOCAL_STORAGE`], above their namespaces; `None`: at the top level.
#[must_use]
pub fn claims_of(source: Source) -> Option<&'static str> {
    // No namespace begins with a dot.
    match source {
        Source::File => None,
        Source::Http => Some(".http"),
        Source::Api => Some(".api"),
    }
}

/// Parts of the path below the root directory at which a claim's data is. Each source has its own claims, so
/// that no pod can reach the data of another source's pods by naming the same claim.
#[must_use]
pub fn claim<'p>(source: Source, namespace: &'p str, name: &'p str) -> Vec<&'p str> {
    [LOCAL_STORAGE].into_iter().chain(claims_of(source)).chain([namespace, name]).collect()
}

/// The text that marks the directory of a pod as using this claim.
#[must_use]
pub fn claim_use(source: Source, namespace: &str, name: &str) -> String {
    format!("{source}:{namespace}/{name}")
}

/// Whether the claim is a cluster's: its volume is bound into the pod's directory, like a guarded hostPath volume.
fn is_of_cluster(pod: &DesiredPod, name: &str, objects: &Objects) -> bool {
    let key = ObjectKey {
        kind: ObjectKind::PersistentVolumeClaim,
        namespace: pod.key.namespace.clone(),
        name: name.to_owned(),
    };
    objects.get(&key).is_some_and(|object| matches!(object.content, Content::ClusterClaim(_)))
}

/// The volume's path on the host, which containers mount.
#[must_use]
pub fn host_path(
    root: &Path,
    pod: &DesiredPod,
    volume: &Volume,
    policies: &Policies,
    objects: &Objects,
) -> Option<PathBuf> {
    let kind = Kind::of(volume);
    match kind {
        Kind::HostPath(_) if is_guarded(pod, &volume.name, policies) => {
            below(root, &guarded(&pod.uid, &volume.name))
        }
        // Docker takes another text for the name of a volume.
        Kind::HostPath(it) => it.path.starts_with('/').then(|| PathBuf::from(&it.path)),
        Kind::Claim(it) if is_of_cluster(pod, &it.claim_name, objects) => {
            below(root, &guarded(&pod.uid, &volume.name))
        }
        Kind::Claim(it) => below(root, &claim(pod.source, &pod.key.namespace, &it.claim_name)),
        _ => below(root, &["pods", &pod.uid, VOLUMES, kind.plugin()?, &volume.name]),
    }
}

/// The path at which the `subPath` of a mount is bound.
#[must_use]
pub fn sub_path(root: &Path, uid: &str, volume: &str, container: &str, index: usize) -> Option<PathBuf> {
    below(root, &["pods", uid, SUB_PATHS, volume, container, &index.to_string()])
}

/// A manifest's path inside a container as Docker reads it: from the root, without `.`, `..` and repeated
/// slashes. Links in the image are unknown.
#[must_use]
pub fn target(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The parts of a manifest's path inside a volume: relative, without `..`.
///
/// # Errors
/// The mistake, in the words of upstream's `atomic_writer.go`.
pub fn inside(path: &str) -> Result<Vec<&str>, String> {
    if path.is_empty() {
        return Err(format!("invalid path: must not be empty: {path:?}"));
    }
    if path.starts_with('/') {
        return Err(format!("invalid path: must be relative path: {path}"));
    }
    if path.len() > 4096 {
        return Err("invalid path: must be less than or equal to 4096 characters".to_owned());
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    for part in &parts {
        if *part == ".." {
            return Err(format!("invalid path: must not contain '..': {path}"));
        }
        if part.len() > 255 {
            return Err("invalid path: filenames must be less than or equal to 255 characters".to_owned());
        }
        if part.contains('\0') {
            return Err(format!("invalid path: must not contain a NUL byte: {path:?}"));
        }
    }
    match parts.first() {
        Some(first) if first.starts_with("..") => {
            Err(format!("invalid path: must not start with '..': {path}"))
        }
        Some(_) => Ok(parts),
        None => Err(format!("invalid path: must name a file: {path}")),
    }
}
