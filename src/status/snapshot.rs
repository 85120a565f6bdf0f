//! The node's whole state at one time, immutable: the status file contains it, and the command line reads it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde::{Deserialize, Serialize};

use super::resized::Resized;
use super::task::Task;
use crate::base::clock::Timestamp;
use crate::base::human::many;
use crate::base::json::through_value;
use crate::base::table::{Set, Table};
use crate::pod::problem::Problem;
use crate::pod::{DesiredPod, Source};
use crate::policy;

/// `status.reason` of a pod that no manifest in force names.
pub const UNMANAGED: &str = "Unmanaged";

/// The node at one time, as the sync loop publishes it.
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
    /// The node's resources, and its labels.
    pub info: NodeView,
    /// By pod, images of its wanted version if an older one is shown: no collection removes them.
    pub also_wanted: Table<String, Set<String>>,
    /// By pod, evictions with which the next one counts in a row; the next daemon reads them from the file.
    pub evictions: Table<String, EvictionView>,
    /// Declared sources.
    pub sources: Vec<SourceView>,
    /// The policy of each source's pods, by the source's name.
    pub policies: Table<String, policy::PolicyView>,
    /// The claims of each pod, by its UID.
    pub claims: Table<String, Vec<ClaimView>>,
    /// The rights of each source's pods when a pod has to be evicted.
    pub standings: Table<Source, StandingView>,
    /// Sizes that pods had and that no sandbox tells, for the next daemon; `None` while that is not known.
    pub resized: Option<Resized>,
    /// UIDs of pods of which no container runs and whose files are being removed; they need not be shown.
    pub removing: Set<String>,
    /// By identity.
    pub pods: Vec<PodView>,
    /// All problems in the content of the sources.
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

/// The latest snapshot, for threads that read it when needed and are not woken for it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Latest(Arc<Mutex<Arc<Snapshot>>>);

impl Latest {
    /// Stores the current snapshot.
    pub fn tell(&self, snapshot: Arc<Snapshot>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    /// The current snapshot.
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
    /// Whether it runs from an older version than its source holds, or from the store of last good versions.
    pub stale: bool,
    /// Whether a worker keeps it running, or is stopping it and could stop it sooner: only such a pod can be evicted. A
    /// pod chooses its grace period, which may be years.
    pub is_kept: bool,
    /// Whether its worker has reported its state. Before that, its containers are unknown.
    pub is_told: bool,
    /// Whether its source has deleted it, none of its containers runs, and none will be started.
    pub is_over: bool,
    /// UIDs of other pods of its name of which containers may be left here.
    pub others: Vec<String>,
    /// Whether anything of it runs, or may run, its sandbox included: it holds its resources and ports.
    pub runs: bool,
    /// Whether it is stopped for a while: nothing has ended it.
    pub returns: bool,
}

impl PodView {
    /// A view of a pod that no worker keeps running, with this status.
    #[must_use]
    pub fn shown(pod: Arc<DesiredPod>, status: Arc<PodStatus>) -> PodView {
        PodView {
            pod,
            status,
            leaving: None,
            stale: false,
            is_kept: false,
            is_told: true,
            is_over: false,
            others: Vec::new(),
            runs: false,
            returns: false,
        }
    }
}

/// A claim on this node's own disk that a pod may write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimView {
    /// Its name.
    pub name: String,
    /// Its size as its source sets it, bytes; `None` when the source no longer has the claim.
    pub storage: Option<u64>,
    /// Whether the source is restricted to a level of Pod Security: then the size is a limit.
    pub is_held: bool,
    /// Upper bound for all claims of the source together.
    pub together: policy::Most,
}

/// The rights of a source's pods when a pod has to be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandingView {
    /// Percent of the node up to which the sum of their requests counts in full.
    pub requests: u8,
    /// Whether they are evicted before pods of other sources.
    pub evict_first: bool,
    /// Upper bound for their claims together.
    pub claims: policy::Most,
}

/// Remembered evictions of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionView {
    /// UID of the pod.
    pub uid: String,
    /// Number of evictions in a row.
    pub count: u32,
    /// Wall time before which the pod does not start again. No order depends on it.
    pub until: Timestamp,
    /// Message of the last eviction.
    pub message: String,
    /// Whether the pod does not start again while the node is short of anything.
    pub of_the_node: bool,
    /// It went for a critical pod, and returns when there is room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preempted: bool,
}

/// [`DockerView::problem`] before the first call to Docker: nothing is known of containers yet.
pub const NOT_ASKED: &str = "not asked yet";

/// Whether Docker answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// Ids of containers that it is told to stop: their ends are no ends of the pods. The next daemon reads them from the file.
    #[serde(default, skip_serializing_if = "Set::is_empty")]
    pub stopping: Set<String>,
    /// Earlier versions of pods, which an earlier daemon ran and whose containers still run. The next daemon reads them from
    /// the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "through_value")]
    pub replaced: Vec<Pod>,
    /// Pods that have no room on the node, and the number of the period (between drains and starts of the daemon) in which they
    /// had it last; 0: never. The next daemon reads them from the file.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub without_room: Table<String, u32>,
    /// Which version of a pod had room last: a hash of its UID and of what an edit changes without it. Without an entry: that of
    /// a pod that has room, and none otherwise. The next daemon reads them from the file.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub had_room: Table<String, String>,
}

/// The node's resources, and the part for pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Quantities of the whole machine, by the resource's name.
    pub capacity: BTreeMap<String, String>,
    /// Quantities that pods may request.
    pub allocatable: BTreeMap<String, String>,
    /// When the daemon started, wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
}

/// Images that the daemon never removes, whatever uses them. The root directory has the same, but not when its disk was
/// full at the daemon's start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptImages {
    /// `--pinned-images`.
    pub pinned: Vec<String>,
    /// The image of sandboxes.
    pub sandbox: String,
    /// Full names, or ids, of preloaded images; `None` while they are not known: then no image may be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preloaded: Option<Set<String>>,
}

/// A condition of the node, as the API's `NodeCondition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionView {
    /// `Ready`, `MemoryPressure`, `DiskPressure`, `PIDPressure`; `OutOfDisk`, if a flag enables it.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether the condition is true.
    pub is_true: bool,
    /// The kubelet's word.
    pub reason: String,
    /// The message.
    pub message: String,
    /// Since when, wall time.
    pub since: Timestamp,
}

/// A drain of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainView {
    /// When the drain was requested, wall time.
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
    /// When it was last read successfully, wall time. May be older than the last reading even without a
    /// problem: a source that sends the same content again causes no write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Timestamp>,
    /// When the content in force was accepted, wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Timestamp>,
    /// Number of its pods that are shown, also of refused ones.
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
    /// The state of a source that has not reported yet.
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

    /// Whether it has not reported since the daemon started, not even a failure: more will be known soon.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        !self.has_said() && self.problem.is_none()
    }

    /// Whether it has reported the pods that it wants, or its last content was restored.
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
    /// Root directory of the daemon; empty if the file does not have it (an earlier version).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub root_dir: String,
    /// Addresses of the node, IPv4 first, if known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Docker's state.
    pub docker: DockerView,
    /// Set while the node is drained or being drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainView>,
    /// Conditions of the node; none if the file does not have them (an earlier version).
    #[serde(default)]
    pub conditions: Vec<ConditionView>,
    /// Threads of the daemon that hang, as in [`Snapshot::stuck`], as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stuck: Vec<String>,
    /// The node's resources and labels.
    #[serde(default)]
    pub info: NodeView,
    /// Images that the daemon never removes; `None` if the file does not have them (an earlier version).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_images: Option<KeptImages>,
    /// See [`Snapshot::also_wanted`].
    #[serde(default)]
    pub also_wanted: Table<String, Set<String>>,
    /// See [`Snapshot::evictions`].
    #[serde(default)]
    pub evictions: Table<String, EvictionView>,
    /// State of each source.
    pub sources: Vec<SourceView>,
    /// The policy of each source's pods, by the source's name.
    #[serde(default)]
    pub policies: Table<String, policy::PolicyView>,
    /// Problems, as in [`Snapshot::problems`].
    pub problems: Vec<Problem>,
    /// Where each pod comes from: `namespace/name` (with the node's suffix) to file path or URL.
    #[serde(default)]
    pub origins: BTreeMap<String, String>,
    /// Pods with spec and status, in the API's form; a pod that is being stopped has a deletionTimestamp.
    pub pods: Vec<Pod>,
}
