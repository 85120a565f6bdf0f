//! computePodActions (spec/03 sections 1-3): what should change for one pod, before any order of calls.

use crate::clock::Mono;
use crate::plan::Observed;
use crate::pod::{ContainerKind, DesiredPod};

/// What a probe last said of a container. The prober comes later; the plan already obeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// Passed.
    Success,
    /// Failed often enough.
    Failure,
}

/// Probe results by container id. A container without an entry has not been probed yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Probes {
    /// Liveness.
    pub liveness: std::collections::BTreeMap<String, ProbeVerdict>,
    /// Startup.
    pub startup: std::collections::BTreeMap<String, ProbeVerdict>,
    /// Readiness.
    pub readiness: std::collections::BTreeMap<String, ProbeVerdict>,
}

/// Why one container is killed (upstream `kuberuntime_container.go` reasons).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// Its definition changed.
    Changed,
    /// Liveness probe.
    LivenessProbe,
    /// Startup probe.
    StartupProbe,
    /// State unknown.
    Unknown,
}

/// One container to stop while the pod goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// Container id.
    pub id: String,
    /// Container name.
    pub name: String,
    /// Kubelet's words (`Container app definition changed, will be restarted`).
    pub message: String,
    /// Why.
    pub reason: KillReason,
}

/// The sandbox's part of the actions: exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxAction {
    /// Keep this one (running, or made and about to be started).
    Keep {
        /// Its id.
        id: String,
        /// It runs already; until then nothing can join it.
        running: bool,
    },
    /// Stop whatever lives, then make a new one with this attempt.
    Replace {
        /// Attempt of the new one; 0 for the first.
        attempt: u32,
    },
    /// Stop whatever lives, make nothing: the pod is done.
    Finish,
}

/// A container to start, by its place in the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartRef {
    /// Which list.
    pub kind: ContainerKind,
    /// Index in that list.
    pub index: usize,
}

/// The outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodActions {
    /// Sandbox.
    pub sandbox: SandboxAction,
    /// Containers to start, in order. With [`SandboxAction::Replace`]: once the new sandbox is there.
    pub start: Vec<StartRef>,
    /// Containers to kill while the sandbox stays. Empty unless [`SandboxAction::Keep`].
    pub kill: Vec<Kill>,
}

/// Decides. `observed` may hold other UIDs of the same identity: they do not count here. A container
/// counts for init purposes only when it joined the current sandbox. A sandbox in state created counts
/// as the current one (it is adopted and started, not replaced: invariant 5).
#[must_use]
pub fn compute(pod: &DesiredPod, observed: &Observed, probes: &Probes, _now: Mono) -> PodActions {
    let _ = (pod, observed, probes);
    PodActions { sandbox: SandboxAction::Finish, start: Vec::new(), kill: Vec::new() }
}
