//! A pod in podkeeper: its identity, its origin, and its desired content.
//!
//! Types only: `manifest/` decodes, `plan/` decides.

pub mod after;
pub mod allocatable;
pub mod downward;
pub mod ends;
pub mod fields;
pub mod object;
pub mod owner;
pub mod placement;
pub mod priority;
pub mod problem;
pub mod qos;
pub mod requests;
pub mod sizes;
pub mod turn;
pub mod waiting;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::base::table::Set;

/// Longest host name, bytes.
const HOSTNAME_BYTES: usize = 63;

/// Identity of a pod on this node: namespace/name. It has at most one live set of containers (invariant 1),
/// whatever its UID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// Never empty; `default` when the manifest gives none.
    pub namespace: String,
    /// With the node's suffix for static pods: `web-node1`.
    pub name: String,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Reason of a pod of an API server whose name a static pod of this node has.
pub const DISPLACED: &str = "DuplicateName";

/// Whether this phase is final.
#[must_use]
pub fn is_final(phase: Option<&str>) -> bool {
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether two UIDs would get the same directory or cgroup name: some file systems ignore case, and
/// systemd's slices have `_` for `-`.
#[must_use]
pub fn same_uid(a: &str, b: &str) -> bool {
    let folded = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    a.len() == b.len() && a.bytes().map(folded).eq(b.bytes().map(folded))
}

/// The source a pod came from; only this source may remove it (invariant 2). Upstream: `pod_update.go`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A directory or a file of manifests.
    File,
    /// A manifest URL.
    Http,
    /// A Kubernetes API server.
    Api,
}

impl Source {
    /// All sources.
    pub const ALL: [Source; 3] = [Source::File, Source::Http, Source::Api];

    /// The source of this name.
    ///
    /// # Errors
    /// The word is not a source.
    pub fn from_word(word: &str) -> Result<Source, String> {
        let names = || Source::ALL.map(Source::as_str).join(", ");
        Source::parse(word).ok_or_else(|| format!("source {word:?} must be one of {}", names()))
    }

    /// The value of annotation `kubernetes.io/config.source`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Source::File => "file",
            Source::Http => "http",
            Source::Api => "api",
        }
    }
    /// The reverse of [`Source::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.as_str() == text)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The place of a pod in its source: a file's path or a URL, and the document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Absolute file path or URL.
    pub path: String,
    /// 0-based index of the document (items of lists are counted, too).
    pub document: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.document > 0 {
            write!(f, "#{}", self.document)?;
        }
        Ok(())
    }
}

/// A pod as its source wants it: decoded, defaulted, validated, annotated. Shared, never changed.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredPod {
    /// Identity.
    pub key: PodKey,
    /// `metadata.uid`: from the manifest, or derived from the manifest's text (upstream
    /// `pkg/kubelet/config/common.go`).
    pub uid: String,
    /// Hash of the manifest as written, independent of its place; `None` when the manifest gives the UID
    /// itself. A pod that moves to another source unchanged is the same pod.
    pub written: Option<String>,
    /// The same hash without fields that can change while the pod runs: [`crate::manifest::hash::shape`]; of a pod of an API
    /// server its UID.
    pub shape: Option<String>,
    /// The source that owns it.
    pub source: Source,
    /// Its place in the source.
    pub origin: Origin,
    /// Metadata with name, namespace, uid, labels and the agent's annotations filled in.
    pub metadata: ObjectMeta,
    /// Spec with the API's defaults; shared by the source's version of the pod and the annotated one.
    pub spec: Arc<PodSpec>,
    /// Status as the source gave it (the API's, or a bare `Pending`).
    pub status: PodStatus,
    /// Names on the pods' Docker network, in lower case, that this pod asks for and does not get: pods of
    /// preceding sources have them. Set by the main loop; part of no hash, and of no container.
    pub withheld: Set<String>,
    /// The highest priority that counts for this pod. Set by the merge, from its source's policy; part of no hash, and
    /// of no container.
    pub ceiling: i32,
    /// Bytes that it takes in memory as it was read from its manifest, about: its texts, and the elements of its lists.
    /// Part of no hash.
    pub weight: usize,
}

/// The role of a container in its pod's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerKind {
    /// Runs to its end before the next one.
    Init,
    /// Restartable init container: starts in init order, stops after the regular ones.
    Sidecar,
    /// `spec.containers`.
    Regular,
    /// Added to a running pod by `podkeeper debug` or `kubectl debug`: in no manifest, and never restarted.
    Ephemeral,
}

/// Pod or container restart policy (`spec.restartPolicy`); unknown values count as `Always`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Restart for any exit code.
    Always,
    /// Restart after a non-zero exit.
    OnFailure,
    /// Do not restart.
    Never,
}

impl RestartPolicy {
    /// Parses the API's word.
    #[must_use]
    pub fn parse(text: Option<&str>) -> RestartPolicy {
        match text {
            Some("OnFailure") => RestartPolicy::OnFailure,
            Some("Never") => RestartPolicy::Never,
            _ => RestartPolicy::Always,
        }
    }
}

impl DesiredPod {
    /// `spec.restartPolicy`.
    #[must_use]
    pub fn restart_policy(&self) -> RestartPolicy {
        RestartPolicy::parse(self.spec.restart_policy.as_deref())
    }
    /// `spec.hostNetwork`.
    #[must_use]
    pub fn host_network(&self) -> bool {
        self.spec.host_network.unwrap_or(false)
    }
    /// `spec.initContainers`, empty when absent.
    #[must_use]
    pub fn init_containers(&self) -> &[Container] {
        self.spec.init_containers.as_deref().unwrap_or_default()
    }
    /// Whether some container mounts this volume.
    #[must_use]
    pub fn mounts(&self, volume: &str) -> bool {
        let spec = &self.spec;
        let init = self.init_containers().iter().flat_map(|it| it.volume_mounts.iter().flatten());
        let regular = spec.containers.iter().flat_map(|it| it.volume_mounts.iter().flatten());
        let added =
            spec.ephemeral_containers.iter().flatten().flat_map(|it| it.volume_mounts.iter().flatten());
        init.chain(regular).chain(added).any(|mount| mount.name == volume)
    }
    /// Every container with its kind, init containers first, in spec order.
    pub fn containers(&self) -> impl Iterator<Item = (ContainerKind, &Container)> {
        let init = self.init_containers().iter().map(|c| (init_kind(c), c));
        init.chain(self.spec.containers.iter().map(|c| (ContainerKind::Regular, c)))
    }
    /// The same, each with its path in the manifest: `spec.containers[0]`.
    pub fn placed(&self) -> impl Iterator<Item = (String, ContainerKind, &Container)> {
        let init = self.init_containers().len();
        self.containers().enumerate().map(move |(at, (kind, container))| {
            let field = match at.checked_sub(init) {
                Some(at) => format!("spec.containers[{at}]"),
                None => format!("spec.initContainers[{at}]"),
            };
            (field, kind, container)
        })
    }
    /// Host name of a pod that has its own network: `hostnameOverride`, `hostname`, or the pod's name, cut to 63
    /// bytes without a trailing `-` or `.` (upstream `GeneratePodHostNameAndDomain` in
    /// `pkg/kubelet/kubelet_pods.go`).
    #[must_use]
    pub fn hostname(&self) -> String {
        let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        if let Some(name) = given(&self.spec.hostname_override) {
            return name;
        }
        let mut name = given(&self.spec.hostname).unwrap_or_else(|| self.key.name.clone());
        if name.len() > HOSTNAME_BYTES {
            let end = (0..=HOSTNAME_BYTES).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
            name.truncate(end);
            name.truncate(name.trim_end_matches(['-', '.']).len());
        }
        name
    }
    /// The container of this name and its kind.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<(ContainerKind, &Container)> {
        self.containers().find(|(_, c)| c.name == name)
    }
}

/// Kind of an entry of `spec.initContainers`: restartPolicy `Always` makes it a sidecar.
#[must_use]
pub fn init_kind(container: &Container) -> ContainerKind {
    match container.restart_policy.as_deref() {
        Some("Always") => ContainerKind::Sidecar,
        _ => ContainerKind::Init,
    }
}
