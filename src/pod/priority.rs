//! Priorities of pods (upstream `pkg/apis/scheduling/types.go`, `pkg/kubelet/types/pod_update.go`). Pure.
//!
//! What a manifest claims counts as far as its source may have it ([`DesiredPod::ceiling`]); who asks here need not
//! know of that.

use crate::pod::{DesiredPod, Source};

/// Priorities of the two classes that every cluster has.
const SYSTEM_CLASSES: &[(&str, i32)] =
    &[("system-cluster-critical", SYSTEM_CRITICAL), (NODE_CRITICAL, 2_000_001_000)];
/// `priorityClassName` of pods that are essential for the node.
const NODE_CRITICAL: &str = "system-node-critical";

/// From this priority on a pod is critical.
pub const SYSTEM_CRITICAL: i32 = 2_000_000_000;
/// The highest priority that a cluster lets its users give (`HighestUserDefinablePriority`).
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

/// The node does not work without it: it is never evicted, and admitted under pressure. A pod of a file or URL is not
/// critical for that alone, as it is for the kubelet.
#[must_use]
pub fn is_critical(pod: &DesiredPod) -> bool {
    of(pod) >= SYSTEM_CRITICAL
}

/// The kernel kills it last (`IsNodeCriticalPod`): for that, its class alone makes a pod of a file or URL critical.
#[must_use]
pub fn is_node_critical(pod: &DesiredPod) -> bool {
    let may_be = pod.ceiling >= SYSTEM_CRITICAL;
    let is_critical = pod.source != Source::Api || pod.spec.priority.is_some_and(|p| p >= SYSTEM_CRITICAL);
    may_be && is_critical && pod.spec.priority_class_name.as_deref() == Some(NODE_CRITICAL)
}
