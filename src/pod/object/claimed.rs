//! Claims of a cluster: the volume of a claim, as far as a node can use it without a driver.
//!
//! Never here: mounting.

/// A claim of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterClaim {
    /// `spec.accessModes`.
    pub access_modes: Vec<String>,
    /// `spec.resources.requests.storage`, bytes: shown, not enforced.
    pub storage: u64,
    /// Its volume; or why containers cannot get it now, in the kubelet's words.
    pub volume: Result<BoundVolume, String>,
}

/// A PersistentVolume that is bound to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundVolume {
    /// Name of the PersistentVolume.
    pub name: String,
    pub reached: Reached,
}

/// How the node reaches a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// `local`: a directory that exists.
    Local { path: String },
    /// `hostPath`, with its `type`.
    HostPath { path: String, kind: String },
    /// `nfs`, with `mountOptions`.
    Nfs { server: String, path: String, read_only: bool, options: Vec<String> },
}

impl ClusterClaim {
    /// Whether only one pod may use it (`ReadWriteOncePod`).
    #[must_use]
    pub fn is_for_one_pod(&self) -> bool {
        self.access_modes.iter().any(|mode| mode == "ReadWriteOncePod")
    }
}
