//! Priorities of pods (upstream `pkg/apis/scheduling/types.go`, `pkg/kubelet/types/pod_update.go`). Pure.
//!
//! The priority in a manifest counts only up to the source's bound ([`DesiredPod::ceiling`]); these functions apply
//! the bound.

use crate::pod::{DesiredPod, Source};

/// Priorities of the two classes that every cluster has.
const SYSTEM_CLASSES: &[(&str, i32)] =
    &[("system-cluster-critical", SYSTEM_CRITICAL), (NODE_CRITICAL, 2_000_001_000)];
/// `priorityClassName` of pods that are essential for the node.
const NODE_CRITICAL: &str = "system-node-critical";

/// A pod with this priority or a higher one is critical.
pub const SYSTEM_CRITICAL: i32 = 2_000_000_000;
/// The highest priority that users of a cluster may set (`HighestUserDefinablePriority`).
pub const HIGHEST_OF_USERS: i32 = 1_000_000_000;

/// The priority that the manifest claims; 0 when it has none.
#[must_use]
pub fn claimed(pod: &DesiredPod) -> i32 {
    let class = pod.spec.priority_class_name.as_deref();
    let of_class = SYSTEM_CLASSES.iter().find(|(name, _)| Some(*name) == class).map(|(_, value)| *value);
    pod.spec.priority.or(of_class).unwrap_or_default()
}

/// The pod's priority.
#[must_use]
pub fn of(pod: &DesiredPod) -> i32 {
    claimed(pod).min(pod.ceiling)
}

/// Whether the node does not work without the pod: it is never evicted, and is admitted under pressure. Unlike with
/// the kubelet, a pod is not critical only because it comes from a file or URL.
#[must_use]
pub fn is_critical(pod: &DesiredPod) -> bool {
    of(pod) >= SYSTEM_CRITICAL
}

/// Whether the kernel kills the pod last (`IsNodeCriticalPod`): for a pod of a file or URL, its class alone decides.
#[must_use]
pub fn is_node_critical(pod: &DesiredPod) -> bool {
    let may_be = pod.ceiling >= SYSTEM_CRITICAL;
    let is_critical = pod.source != Source::Api || pod.spec.priority.is_some_and(|p| p >= SYSTEM_CRITICAL);
    may_be && is_critical && pod.spec.priority_class_name.as_deref() == Some(NODE_CRITICAL)
}
