//! Where log collectors look for the output of containers: links in `/var/log/pods` and
//! `/var/log/containers`, named as the kubelet names them (upstream `pkg/kubelet/kuberuntime/helpers.go`,
//! `legacy.go`), to the files that Docker keeps.
//!
//! Never here: reading or rotating a log (Docker does, by what the container was made with), and touching
//! what another root directory made.

mod links;
mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub use links::PodLogs;

/// The log of one container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerLog {
    /// Docker's id of the container.
    pub id: String,
    /// UID of its pod.
    pub uid: String,
    /// Its name in the pod.
    pub container: String,
    /// Its restart count.
    pub attempt: u32,
    /// Docker's file; empty while it is not known: links that are there stay as they are.
    pub file: String,
}

/// All logs of one pod identity.
pub type ContainerLogs = BTreeSet<ContainerLog>;
