//! The node's whole state at one moment, immutable: the status file holds it, and the command line reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde::{Deserialize, Serialize};

use super::task::Task;
use crate::base::clock::Timestamp;
use crate::base::count::many;
use crate::pod::problem::Problem;
use crate::pod::{DesiredPod, Source};
use crate::policy;

/// `status.reason` of a pod that no manifest in force names.
pub const UNMANAGED: &str = "Unmanaged";

/// The node at one moment, as the sync loop publishes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Node name.
    pub node: String,
    /// Root directory of the daemon.
    pub root_dir: String,
    /// Docker's state.
    pub docker: DockerView,
    /// Set while the node is drained or being drained.
    pub drain: Option<DrainView>,
    /// Conditions of the node.
    pub conditions: Vec<ConditionView>,
    /// Threads of the daemon that do not come back from their work.
    pub stuck: Vec<Task>,
    /// What the node has and gives.
    pub info: NodeView,
    /// By pod, images of its wanted version where the one that is shown is older: no collection takes them.
    pub also_wanted: BTreeMap<String, BTreeSet<String>>,
    /// By pod, evictions that the next one counts with; the next daemon remembers them by this.
    pub evictions: BTreeMap<String, EvictionView>,
    /// Declared sources.
    pub sources: Vec<SourceView>,
    /// What pods of each source may do, by the source's name.
    pub policies: BTreeMap<String, policy::PolicyView>,
    /// By UID, the claims of a pod.
    pub claims: BTreeMap<String, Vec<ClaimView>>,
    /// What pods of each source have when one has to go.
    pub standings: BTreeMap<Source, StandingView>,
    /// By identity.
    pub pods: Vec<PodView>,
    /// All problems of what the sources hold.
    pub problems: Vec<Problem>,
}

impl Snapshot {
    /// One line about the node.
    #[must_use]
    pub fn summary(&self) -> String {
        let phase = |view: &&PodView| view.status.phase.as_deref() == Some("Running");
        let mut text =
            format!("{}, {} running", many(self.pods.len(), "pod"), self.pods.iter().filter(phase).count());
        match (&self.docker.version, &self.docker.problem) {
            (_, Some(_)) => text.push_str("; Docker does not answer"),
            (Some(version), None) => text.push_str(&format!("; Docker {version}")),
            (None, None) => text.push_str("; Docker answers"),
        }
        if self.drain.is_some() {
            text.push_str("; drained");
        }
        if !self.stuck.is_empty() {
            let all: Vec<String> = self.stuck.iter().map(Task::to_string).collect();
            text.push_str(&format!("; hangs: {}", all.join(", ")));
        }
        text
    }
}

/// The latest snapshot, for threads that look at it when they need it and are not woken for it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Latest(Arc<Mutex<Arc<Snapshot>>>);

impl Latest {
    /// This is how it is now.
    pub fn tell(&self, snapshot: Arc<Snapshot>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    /// How it is now.
    #[must_use]
    pub fn get(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A pod and its status.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
    /// The wanted version; for a pod that is being stopped, the last wanted one.
    pub pod: Arc<DesiredPod>,
    pub status: Arc<PodStatus>,
    /// When its stop began, wall time (kubectl prints `Terminating`).
    pub leaving: Option<Timestamp>,
    /// It runs from an older version than its source holds, or from the store of last good versions.
    pub stale: bool,
    /// A worker keeps it running, or stops it, and would stop it, or sooner, if it were told to: only such a pod can be
    /// evicted. A pod chooses its grace period, which may be years.
    pub is_kept: bool,
    /// Its worker has told how it is. Before that nobody knows which containers it has.
    pub is_told: bool,
    /// Its source has it deleted, none of its containers runs, and none will be started.
    pub is_over: bool,
}

impl PodView {
    /// A pod that is as its status says, and of which no worker keeps anything running.
    #[must_use]
    pub fn shown(pod: Arc<DesiredPod>, status: Arc<PodStatus>) -> PodView {
        PodView { pod, status, leaving: None, stale: false, is_kept: false, is_told: true, is_over: false }
    }
}

/// A claim on this node's own disk that a pod may write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimView {
    /// Its name.
    pub name: String,
    /// Its size as its source wants it, bytes; `None` when the source does not have it any more.
    pub storage: Option<u64>,
    /// The source is held to a level of Pod Security: the size is a limit.
    pub is_held: bool,
    /// What all claims of the source may hold together.
    pub together: policy::Most,
}

/// What pods of a source have when a pod has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandingView {
    /// Percent of the node that their requests may be together to count whole.
    pub requests: u8,
    /// They go before those of others.
    pub evict_first: bool,
    /// What their claims may hold together.
    pub claims: policy::Most,
}

/// What is remembered of a pod's evictions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionView {
    /// UID of the pod.
    pub uid: String,
    /// How often in a row before the last one.
    pub count: u32,
    /// It does not return before, wall time. No order depends on it.
    pub until: Timestamp,
    /// Why.
    pub message: String,
    /// It does not return while the node is short of anything.
    pub of_the_node: bool,
    /// It went for a critical pod, and returns when there is room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preempted: bool,
}

/// Whether Docker answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DockerView {
    /// Endpoint as configured.
    pub endpoint: String,
    /// Whether the event stream is up and the list is known.
    pub reachable: bool,
    /// Version, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why Docker is not reachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What the node has, and what it gives to pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Quantities of the whole machine, by the resource's name.
    pub capacity: BTreeMap<String, String>,
    /// The same of what pods may request.
    pub allocatable: BTreeMap<String, String>,
    /// When the daemon started, wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
}

/// A condition of the node, as the API's `NodeCondition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionView {
    /// `Ready`, `MemoryPressure`, `DiskPressure`, `PIDPressure`; `OutOfDisk`, where a flag asks for it.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub is_true: bool,
    /// The kubelet's word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
    /// Since when, wall time.
    pub since: Timestamp,
}

/// A drain of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainView {
    /// When the drain was asked for, wall time.
    pub since: Timestamp,
    /// Upper bound of each pod's grace, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<u32>,
    /// Whether all pods have stopped.
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
    /// Whether it has sent a full set since the daemon started.
    pub ready: bool,
    /// Whether the content in force came from the store of last good versions.
    #[serde(default)]
    pub restored: bool,
    /// When it was last read well, wall time. May be older than the last reading while there is no problem: a
    /// source that sends the same content again causes no write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Timestamp>,
    /// When the content in force was accepted, wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Timestamp>,
    /// Number of pods that it wants.
    pub pods: usize,
    /// Number of its local objects in force.
    #[serde(default)]
    pub objects: usize,
    /// Why its last reading failed, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The first problem in a part of its content, or in storing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
}

impl SourceView {
    /// One that has said nothing yet.
    #[cfg(test)]
    pub(crate) fn silent(name: &str) -> SourceView {
        SourceView {
            name: name.into(),
            location: String::new(),
            ready: false,
            restored: false,
            last_success: None,
            accepted: None,
            pods: 0,
            objects: 0,
            problem: None,
            degraded: None,
        }
    }

    /// It has said nothing since the daemon started, not even that it cannot be read: soon more is known.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        !self.has_said() && self.problem.is_none()
    }

    /// It has said which pods it wants, or what it said last was restored.
    #[must_use]
    pub fn has_said(&self) -> bool {
        self.ready || self.restored
    }
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
    /// Root directory of the daemon; empty when it does not say (an earlier version).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub root_dir: String,
    /// Addresses of the node, IPv4 first, when they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Docker's state.
    pub docker: DockerView,
    /// Set while the node is drained or being drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainView>,
    /// Conditions of the node; none when the daemon does not say (an earlier version).
    #[serde(default)]
    pub conditions: Vec<ConditionView>,
    /// Threads of the daemon that hang, as in [`Snapshot::stuck`], in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stuck: Vec<String>,
    /// What the node has and gives.
    #[serde(default)]
    pub info: NodeView,
    /// As [`Snapshot::also_wanted`].
    #[serde(default)]
    pub also_wanted: BTreeMap<String, BTreeSet<String>>,
    /// As [`Snapshot::evictions`].
    #[serde(default)]
    pub evictions: BTreeMap<String, EvictionView>,
    /// State of each source.
    pub sources: Vec<SourceView>,
    /// What pods of each source may do, by the source's name.
    #[serde(default)]
    pub policies: BTreeMap<String, policy::PolicyView>,
    /// Problems, as in [`Snapshot::problems`].
    pub problems: Vec<Problem>,
    /// Where each pod comes from: `namespace/name` (with the node's suffix) to file path or URL.
    #[serde(default)]
    pub origins: BTreeMap<String, String>,
    /// Pods with spec and status, in the API's form; a pod that is being stopped has a deletionTimestamp.
    pub pods: Vec<Pod>,
}
