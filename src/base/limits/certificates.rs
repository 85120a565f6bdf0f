//! Bounds of the certificates that an API server signs for the node.

use std::time::Duration;

/// A wait for a moment of the wall clock looks so often, where the kernel has no timer left for it.
pub const WALL_LOOK: Duration = Duration::from_secs(60);
/// One call about a request for a certificate.
pub const CERTIFICATE_CALL: Duration = Duration::from_secs(10);
/// First wait after a call that failed; doubles to [`CERTIFICATE_AGAIN_MAX`].
pub const CERTIFICATE_AGAIN: Duration = Duration::from_secs(2);
/// See [`CERTIFICATE_AGAIN`].
pub const CERTIFICATE_AGAIN_MAX: Duration = Duration::from_secs(32);
/// First wait for somebody to approve a request; doubles to [`CERTIFICATE_PENDING_MAX`].
pub const CERTIFICATE_PENDING: Duration = Duration::from_millis(500);
/// See [`CERTIFICATE_PENDING`].
pub const CERTIFICATE_PENDING_MAX: Duration = Duration::from_secs(15);
/// After a refusal, or a certificate that is at its end when it comes, nothing is asked for so long.
pub const CERTIFICATE_REST: Duration = Duration::from_secs(600);
/// A certificate is renewed when so much of its lifetime has passed, parts in a thousand; as the kubelet
/// (`client-go/util/certificate`, `jitteryDuration`).
pub const CERTIFICATE_LIFE: u64 = 700;
/// See [`CERTIFICATE_LIFE`]: up to so much more, at random.
pub const CERTIFICATE_LIFE_JITTER: u64 = 200;
/// The names that a serving certificate is to have are looked up this often.
pub const CERTIFICATE_NAMES: Duration = Duration::from_secs(60);
/// One call of `join`.
pub const JOIN_CALL: Duration = Duration::from_secs(15);
/// Largest certificate of an answer, bytes.
pub const CERTIFICATE_BYTES: usize = 256 * 1024;
