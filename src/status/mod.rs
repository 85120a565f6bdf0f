//! What podkeeper says about its pods: PodStatus as the kubelet computes it (spec/04) [pure], the status
//! snapshot and the file it is written to. Never decides anything.

pub mod snapshot;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodStatus;

use crate::clock::Timestamp;
use crate::plan::{Observed, Probes};
use crate::pod::DesiredPod;

/// Why a container that should run waits (kubelet's reason cache): name -> reason and message.
pub type Waiting = BTreeMap<String, WaitingReason>;

/// `CrashLoopBackOff`, `ErrImagePull` … with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingReason {
    /// Kubelet's reason (spec/03 section 9).
    pub reason: String,
    /// Kubelet's message.
    pub message: String,
}

/// What [`compute`] is computed from.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The pod as wanted.
    pub pod: &'a DesiredPod,
    /// What was seen of it.
    pub observed: &'a Observed,
    /// Probe results.
    pub probes: &'a Probes,
    /// Why containers wait.
    pub waiting: &'a Waiting,
    /// Repository digest by image id (`sha256:…` -> `repo@sha256:…`), where known.
    pub digests: &'a BTreeMap<String, String>,
    /// The last computed status.
    pub old: Option<&'a PodStatus>,
    /// The pod is being finalised: its containers are dead for good (spec/04 section 2, rule 6a).
    pub terminal: bool,
    /// For lastTransitionTime and startTime.
    pub now: Timestamp,
}

/// Computes the status (spec/04). Keeps `old`'s transition times, start time and terminal phase.
#[must_use]
pub fn compute(input: &Input<'_>) -> PodStatus {
    let _ = input;
    PodStatus::default()
}

/// Status of a pod that admission refused (spec/02 section 4, rejectPod).
#[must_use]
pub fn rejected(pod: &DesiredPod, reason: &str, message: &str, now: Timestamp) -> PodStatus {
    let _ = (pod, now);
    PodStatus {
        phase: Some("Failed".into()),
        reason: Some(reason.into()),
        message: Some(message.into()),
        ..PodStatus::default()
    }
}
