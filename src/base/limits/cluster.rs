//! Bounds of what goes back to a Kubernetes API server.

use std::time::Duration;

// --- The node ----------------------------------------------------------------------------------------

/// Longest wait for an answer about the node or its lease (upstream: the smaller of status frequency and lease duration).
pub const HEARTBEAT_DEADLINE: Duration = Duration::from_secs(10);
/// Least and longest wait before registration is tried again (`pkg/kubelet/kubelet_node_status.go`).
pub const REGISTER_MIN: Duration = Duration::from_millis(100);
/// See [`REGISTER_MIN`].
pub const REGISTER_MAX: Duration = Duration::from_secs(7);
/// Least and longest wait before the lease is tried again (`component-helpers/apimachinery/lease/controller.go`).
pub const LEASE_RETRY_MIN: Duration = Duration::from_millis(200);
/// See [`LEASE_RETRY_MIN`].
pub const LEASE_RETRY_MAX: Duration = Duration::from_secs(7);
/// The lease is renewed this often in its duration.
pub const LEASE_RENEWALS: u32 = 4;
/// A period is longer by at most one part in so many, by chance, so that nodes do not come all at once.
pub const HEARTBEAT_JITTER: u32 = 25;
/// As long as the daemon is so young, and the node was not Ready yet, each change of its conditions is sent at once.
pub const FAST_STATUS: Duration = Duration::from_secs(120);
/// The least time between two of those.
pub const FAST_STATUS_STEP: Duration = Duration::from_millis(100);
/// Tries of one status of the node (`pkg/kubelet/kubelet.go`, `nodeStatusUpdateRetry`).
pub const STATUS_TRIES: u32 = 5;
/// Most names of one image in the node's status.
pub const IMAGE_NAMES: usize = 5;
/// The images of the node are listed this often.
pub const IMAGES_AGAIN: Duration = Duration::from_secs(300);
/// The first list of them is waited for so long, before the node is registered.
pub const FIRST_IMAGES: Duration = Duration::from_secs(2);
/// The node's addresses are looked up this often.
pub const ADDRESSES_AGAIN: Duration = Duration::from_secs(10);

// --- Pods --------------------------------------------------------------------------------------------

/// Longest wait for an answer about a pod's status, a mirror pod or an event.
pub const CLUSTER_DEADLINE: Duration = Duration::from_secs(10);
/// Statuses that come within this time are sent as one.
pub const CLUSTER_COALESCE: Duration = Duration::from_millis(50);
/// Least and longest wait after a request about pods failed: within the longest all statuses are right again after the
/// server has returned.
pub const POD_RETRY_MIN: Duration = Duration::from_millis(500);
/// See [`POD_RETRY_MIN`].
pub const POD_RETRY_MAX: Duration = Duration::from_secs(5);
/// Wait after the server refused a status or a mirror pod: an error of ours, or a policy.
pub const POD_REFUSED: Duration = Duration::from_secs(300);
/// Wait before the same status is sent again that the server took and does not have; doubles to [`POD_REFUSED`].
pub const POD_SAME_MIN: Duration = Duration::from_secs(10);
/// An answer to our own write counts as newer than what the watch tells for so long at most, unless its version says so.
pub const OWN_WRITE: Duration = Duration::from_secs(15);

// --- Events ------------------------------------------------------------------------------------------

/// Wait after an event could not be sent (`client-go/tools/record/event.go`).
pub const API_EVENT_RETRY: Duration = Duration::from_secs(10);
/// Events about one object that may be sent in a row (`client-go/tools/record/events_cache.go`).
pub const API_EVENT_BURST: u32 = 25;
/// After that one each so often.
pub const API_EVENT_REFILL: Duration = Duration::from_secs(300);
/// Most objects whose number of events is remembered.
pub const API_EVENT_OBJECTS: usize = 4096;
