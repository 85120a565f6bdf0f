//! The node's whole state at one moment, immutable: what the status file holds and the command line reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;
use crate::pod::DesiredPod;
use crate::pod::problem::Problem;
use crate::policy;

/// One moment of the node, as the sync loop publishes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Node name.
    pub node: String,
    /// Docker's state.
    pub docker: DockerView,
    /// The node is drained, or being drained.
    pub drain: Option<DrainView>,
    /// Declared sources.
    pub sources: Vec<SourceView>,
    /// What pods of each of them may do, by its word.
    pub policies: BTreeMap<String, policy::Told>,
    /// By identity.
    pub pods: Vec<PodView>,
    /// Everything wrong with what the sources hold.
    pub problems: Vec<Problem>,
}

/// A pod and its status.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
    /// As wanted (or, for one that is on its way out, as last wanted).
    pub pod: Arc<DesiredPod>,
    /// As it is.
    pub status: Arc<PodStatus>,
    /// Since when it is being stopped, wall time (kubectl prints `Terminating`).
    pub leaving: Option<Timestamp>,
    /// It runs from an older version than its source holds, or from the store of last good versions.
    pub stale: bool,
}

/// Whether Docker answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DockerView {
    /// Endpoint as configured.
    pub endpoint: String,
    /// The event stream is up and the list is known.
    pub reachable: bool,
    /// Version in use, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A drained node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainView {
    /// When it was asked for, wall time.
    pub since: Timestamp,
    /// Most seconds of grace of any pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<u32>,
    /// Nothing runs any more.
    pub stopped: bool,
    /// Pods that still run: `namespace/name`.
    #[serde(default)]
    pub left: Vec<String>,
}

/// One source's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceView {
    /// `file`, `http`, `api`.
    pub name: String,
    /// Path or URL.
    pub location: String,
    /// It has sent a full set since the daemon began.
    pub ready: bool,
    /// What is in force came from the store of last good versions.
    #[serde(default)]
    pub restored: bool,
    /// When it was last read well, wall time. While it has no problem it may be older than the truth: a
    /// source that says the same again writes no status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Timestamp>,
    /// When the content in force was accepted, wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Timestamp>,
    /// Pods it wants.
    pub pods: usize,
    /// Local objects of it that are in force.
    #[serde(default)]
    pub objects: usize,
    /// Why its last reading failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What is wrong with a part of what it holds, or with remembering it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
}

/// The status file (`status.json` under `--run-dir`), format `podkeeper.dev/v1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusFile {
    /// `podkeeper.dev/v1`.
    pub api_version: String,
    /// `NodeStatus`.
    pub kind: String,
    /// podkeeper's version.
    pub version: String,
    /// Process id of the daemon that wrote it.
    pub pid: u32,
    /// Node name.
    pub node: String,
    /// Addresses of the node, IPv4 first, when they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Docker's state.
    pub docker: DockerView,
    /// The node is drained, or being drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainView>,
    /// Sources.
    pub sources: Vec<SourceView>,
    /// What pods of each of them may do, by its word.
    #[serde(default)]
    pub policies: BTreeMap<String, policy::Told>,
    /// Problems.
    pub problems: Vec<Problem>,
    /// Where each pod is written: `namespace/name` (with the node's suffix) to file path or URL.
    #[serde(default)]
    pub origins: BTreeMap<String, String>,
    /// Pods with spec and status, as the Kubernetes API shows them; a pod that is being stopped has a
    /// deletionTimestamp.
    pub pods: Vec<Pod>,
}
