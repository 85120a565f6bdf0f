//! Links to container logs in the directories of log collectors: `/var/log/pods` and
//! `/var/log/containers`, with the kubelet's names (upstream `pkg/kubelet/kuberuntime/helpers.go`,
//! `legacy.go`), to Docker's files.
//!
//! Never here: reading or rotating a log (Docker does, by the container's settings), and links of another
//! root directory.

use crate::base::table::Set;

mod links;
mod names;
#[cfg(test)]
mod tests;

pub use links::PodLogs;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerLog {
    /// Docker's id of the container.
    pub id: String,
    /// UID of its pod.
    pub uid: String,
    /// Its name in the pod.
    pub container: String,
    /// Restart count of the container.
    pub attempt: u32,
    /// Docker's file; empty while unknown: existing links stay as they are.
    pub file: String,
}

/// All logs of one pod identity.
pub type ContainerLogs = Set<ContainerLog>;
