//! Words of events about the node: resources that run short, and limits for reserved cgroups.

use std::path::Path;

use super::{Words, normal, warning};

/// A process outside of containers was killed for lack of memory. Upstream: `pkg/kubelet/oom/oom_watcher_linux.go`.
#[must_use]
pub fn system_oom(process: &str, pid: u32) -> Words {
    warning("SystemOOM", format!("System OOM encountered, victim process: {process}, pid: {pid}"))
}

/// The limit of all pods together is set, or it could not be: `failed` is the root of their cgroups, and why. Upstream:
/// `pkg/kubelet/cm/node_container_manager_linux.go`.
#[must_use]
pub fn allocatable_enforced(failed: Option<(&str, &str)>) -> Words {
    match failed {
        None => normal("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods"),
        Some((root, why)) => warning(
            "FailedNodeAllocatableEnforcement",
            format!("Failed to update Node Allocatable Limits {root:?}: {why}"),
        ),
    }
}

/// The limit of a reserved cgroup is set; `what` is kube or system. Upstream:
/// `pkg/kubelet/cm/node_container_manager_linux.go`.
#[must_use]
pub fn reserved_enforced(what: &str, cgroup: &str) -> Words {
    normal("NodeAllocatableEnforced", format!("Updated limits on {what} reserved cgroup {cgroup}"))
}

/// The limit could not be set; `what` is Kube or System.
#[must_use]
pub fn reserved_not_enforced(what: &str, cgroup: &str, why: &str) -> Words {
    warning(
        "FailedNodeAllocatableEnforcement",
        format!("Failed to enforce {what} Reserved Cgroup Limits on {cgroup:?}: {why}"),
    )
}

/// A condition of the node has changed. Upstream: `pkg/kubelet/nodestatus/setters.go`, `recordEventFunc`.
#[must_use]
pub fn node_is(node: &str, event: &'static str, is_good: bool) -> Words {
    let message = format!("Node {node} status is now: {event}");
    if is_good { normal(event, message) } else { warning(event, message) }
}

/// The node runs short of a resource, and podkeeper acts.
#[must_use]
pub fn threshold_met(resource: &str, shortage: &str) -> Words {
    warning("EvictionThresholdMet", format!("Attempting to reclaim {resource}: {shortage}"))
}

/// An archive of the preload directory cannot be loaded.
#[must_use]
pub fn archive_refused(why: String) -> Words {
    warning("ImageArchiveRefused", why)
}

/// The root directory is on a file system that cannot be written.
#[must_use]
pub fn root_is_read_only(root_dir: &Path) -> Words {
    let message = format!(
        "the root directory {} is on a read-only file system: nothing can be stored in it, and containers get no file for \
         their termination message",
        root_dir.display()
    );
    warning("ReadOnlyRootDirectory", message)
}

/// The daemon starts. Upstream: `pkg/kubelet/kubelet.go`, `BirthCry`.
#[must_use]
pub fn starting() -> Words {
    normal("Starting", "Starting kubelet.")
}

/// The machine has booted since the last status at the API server. Upstream:
/// `pkg/kubelet/nodestatus/setters.go`, `MachineInfo`.
#[must_use]
pub fn rebooted(node: &str, boot: &str) -> Words {
    warning("Rebooted", format!("Node {node} has been rebooted, boot id: {boot}"))
}
