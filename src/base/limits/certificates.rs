//! Bounds of the certificates that an API server signs for the node.

use std::time::Duration;

/// Interval at which a wait for a wall-clock time checks the clock if the kernel has no timer left.
pub const WALL_LOOK: Duration = Duration::from_secs(60);
/// One call about a request for a certificate.
pub const CERTIFICATE_CALL: Duration = Duration::from_secs(10);
/// First wait after a call that failed; doubles to [`CERTIFICATE_AGAIN_MAX`].
pub const CERTIFICATE_AGAIN: Duration = Duration::from_secs(2);
/// See [`CERTIFICATE_AGAIN`].
pub const CERTIFICATE_AGAIN_MAX: Duration = Duration::from_secs(32);
/// First wait for the approval of a request; doubles to [`CERTIFICATE_PENDING_MAX`].
pub const CERTIFICATE_PENDING: Duration = Duration::from_millis(500);
/// See [`CERTIFICATE_PENDING`].
pub const CERTIFICATE_PENDING_MAX: Duration = Duration::from_secs(15);
/// After a refusal, or a certificate that is expired on arrival, no request is sent for this long.
pub const CERTIFICATE_REST: Duration = Duration::from_secs(600);
/// A certificate is renewed after this part of its lifetime, in thousandths; the kubelet's value
/// (`client-go/util/certificate`, `jitteryDuration`).
pub const CERTIFICATE_LIFE: u64 = 700;
/// See [`CERTIFICATE_LIFE`]: random addition, at most this much.
pub const CERTIFICATE_LIFE_JITTER: u64 = 200;
/// How often the names for the serving certificate are looked up.
pub const CERTIFICATE_NAMES: Duration = Duration::from_secs(60);
/// One call of `join`.
pub const JOIN_CALL: Duration = Duration::from_secs(15);
/// Largest certificate in an answer, bytes.
pub const CERTIFICATE_BYTES: usize = 256 * 1024;
