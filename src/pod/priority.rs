//! Priorities of pods (upstream `pkg/apis/scheduling/types.go`, `pkg/kubelet/types/pod_update.go`). Pure.

use crate::pod::DesiredPod;

/// Priorities of the two classes that every cluster has.
const SYSTEM_CLASSES: &[(&str, i32)] =
    &[("system-cluster-critical", SYSTEM_CRITICAL), ("system-node-critical", 2_000_001_000)];

/// From this priority on a pod is critical.
pub const SYSTEM_CRITICAL: i32 = 2_000_000_000;

/// The pod's priority; 0 when the manifest has none.
#[must_use]
pub fn of(pod: &DesiredPod) -> i32 {
    let class = pod.spec.priority_class_name.as_deref();
    let of_class = SYSTEM_CLASSES.iter().find(|(name, _)| Some(*name) == class).map(|(_, value)| *value);
    pod.spec.priority.or(of_class).unwrap_or_default()
}

/// The node does not work without it: it is never evicted, and admitted under pressure. A pod of a file or URL is not
/// critical for that alone, as it is for the kubelet.
#[must_use]
pub fn is_critical(pod: &DesiredPod) -> bool {
    of(pod) >= SYSTEM_CRITICAL
}
