//! Bounds of reports to a Kubernetes API server.

use std::time::Duration;

// --- The node ----------------------------------------------------------------------------------------

/// Longest wait for an answer about the node or its lease (upstream: the smaller of status frequency and lease duration).
pub const HEARTBEAT_DEADLINE: Duration = Duration::from_secs(10);
/// How many different reasons why the server does not hear of the node are logged, until it does again.
pub const HEARTBEAT_TROUBLES: usize = 8;
/// Shortest and longest wait before the registration is tried again (`pkg/kubelet/kubelet_node_status.go`).
pub const REGISTER_MIN: Duration = Duration::from_millis(100);
/// See [`REGISTER_MIN`].
pub const REGISTER_MAX: Duration = Duration::from_secs(7);
/// Shortest and longest wait before the lease is tried again (`component-helpers/apimachinery/lease/controller.go`).
pub const LEASE_RETRY_MIN: Duration = Duration::from_millis(200);
/// See [`LEASE_RETRY_MIN`].
pub const LEASE_RETRY_MAX: Duration = Duration::from_secs(7);
/// How often the lease is renewed in its duration.
pub const LEASE_RENEWALS: u32 = 4;
/// A period is lengthened randomly by at most one part in this many, so that nodes do not send all at once.
pub const HEARTBEAT_JITTER: u32 = 25;
/// While the daemon is younger than this, and the node was not Ready yet, each change of its conditions is sent soon.
pub const FAST_STATUS: Duration = Duration::from_secs(120);
/// Shortest time between two of those.
pub const FAST_STATUS_STEP: Duration = Duration::from_millis(100);
/// Tries of one status of the node (`pkg/kubelet/kubelet.go`, `nodeStatusUpdateRetry`).
pub const STATUS_TRIES: u32 = 5;
/// Most names of one image in the node's status.
pub const IMAGE_NAMES: usize = 5;
/// How often the node's images are listed.
pub const IMAGES_AGAIN: Duration = Duration::from_secs(300);
/// How long the registration of the node waits for the first list.
pub const FIRST_IMAGES: Duration = Duration::from_secs(2);
/// How often the node's addresses are looked up.
pub const ADDRESSES_AGAIN: Duration = Duration::from_secs(10);

// --- Pods --------------------------------------------------------------------------------------------

/// Longest wait for an answer about a pod's status, a mirror pod or an event.
pub const CLUSTER_DEADLINE: Duration = Duration::from_secs(10);
/// Status changes within this time are sent as one.
pub const CLUSTER_COALESCE: Duration = Duration::from_millis(50);
/// Shortest and longest wait after a failed request about pods: when the server returns, all statuses are correct
/// within the longest wait.
pub const POD_RETRY_MIN: Duration = Duration::from_millis(500);
/// See [`POD_RETRY_MIN`].
pub const POD_RETRY_MAX: Duration = Duration::from_secs(5);
/// Longest wait after failed requests about one pod while others have answers.
pub const POD_LATE_MAX: Duration = Duration::from_secs(10);
/// An error that takes this long counts as a hang: an API server gives a webhook up after ten to thirty seconds.
pub const POD_SLOW: Duration = Duration::from_secs(1);
/// Longest wait after the server rejected a status or a mirror pod: a mistake of podkeeper, or a policy.
pub const POD_REFUSED: Duration = Duration::from_secs(300);
/// Wait before a status is sent again that the server rejected, or accepted and does not show; doubles to [`POD_REFUSED`].
pub const POD_SAME_MIN: Duration = Duration::from_secs(10);
/// How long the answer to our own write counts as newer than the watch, unless its version decides.
pub const OWN_WRITE: Duration = Duration::from_secs(15);

// --- Events ------------------------------------------------------------------------------------------

/// Wait after an event could not be sent (`client-go/tools/record/event.go`).
pub const API_EVENT_RETRY: Duration = Duration::from_secs(10);
/// An event that the server cannot take so many times is not sent any more.
pub const API_EVENT_TRIES: u32 = 3;
/// Events about one object that may be sent in a row (`client-go/tools/record/events_cache.go`).
pub const API_EVENT_BURST: u32 = 25;
/// After that, one event per this time.
pub const API_EVENT_REFILL: Duration = Duration::from_secs(300);
/// Most objects whose event rate is remembered.
pub const API_EVENT_OBJECTS: usize = 4096;
