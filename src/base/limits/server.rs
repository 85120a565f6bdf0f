//! Bounds of the HTTP servers.

use std::time::Duration;

// --- Connections -------------------------------------------------------------------------------------

/// Most connections of all servers together. A further one replaces the one that has waited longest.
pub const SERVER_CONNECTIONS: usize = 512;
/// Most connections of one address. The API server opens one for each request in progress.
pub const SERVER_CONNECTIONS_OF_ADDRESS: usize = 256;
/// Connections of one user without a request under way that are kept before those of strangers.
pub const SERVER_CONNECTIONS_KEPT: usize = 128;
/// Connections that are accepted before the existing ones are served.
pub const SERVER_ACCEPTS: usize = 16;
/// Free descriptors that are reserved for the pods' work: with fewer, no connection is accepted.
pub const SERVER_SPARE_DESCRIPTORS: usize = 256;
/// How long no connection is accepted after the system refused a descriptor.
pub const SERVER_ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// How often listening on a port is tried again, as with the kubelet.
pub const SERVER_LISTEN_AGAIN: Duration = Duration::from_secs(5);
/// Shortest time between two log lines about a client's bad certificate.
pub const SERVER_TELL_AGAIN: Duration = Duration::from_secs(60);
/// How long a TLS handshake may take.
pub const SERVER_HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a request's head may take, from its first byte.
pub const SERVER_HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may be idle between two requests; upstream's value.
pub const SERVER_IDLE: Duration = Duration::from_secs(90);
/// Longest pause of a client while it sends a body.
pub const SERVER_READ: Duration = Duration::from_secs(30);
/// How long a client may refuse to take more of an answer.
pub const SERVER_WRITE: Duration = Duration::from_secs(30);
/// How long the answer to a small request may take in total.
pub const SERVER_BODY_WHOLE: Duration = Duration::from_secs(120);

// --- Requests ----------------------------------------------------------------------------------------

/// Bytes of a request's head.
pub const SERVER_HEAD: usize = 64 * 1024;
/// Header fields of a request.
pub const SERVER_HEADERS: usize = 100;
/// Parameters of a query.
pub const SERVER_PARAMETERS: usize = 1024;
/// Bytes that are read of an unused request body, so that the connection can be used again.
pub const SERVER_DRAIN: u64 = 256 * 1024;

// --- Threads -----------------------------------------------------------------------------------------

/// Threads that answer requests: enough for all of the following.
pub const SERVER_THREADS: usize = 200;
/// Requests without a known end: followed logs, exec, attach, port-forward.
pub const SERVER_LONG: usize = 64;
/// The same for one user, or for one address if users are not known. An API server is one user.
pub const SERVER_LONG_OF_CLIENT: usize = 48;
/// Other requests in progress of known users.
pub const SERVER_KNOWN: usize = 64;
/// The same for one user.
pub const SERVER_OF_USER: usize = 32;
/// Requests in progress at one port, from one address, without a known client certificate.
pub const SERVER_STRANGERS: usize = 8;
/// The same for all addresses; there are four ports.
pub const SERVER_STRANGERS_OF_PORT: usize = 18;
/// Longest certificate chain of a known client.
pub const SERVER_CHAIN: usize = 8;
/// Stack of such a thread, in bytes.
pub const SERVER_STACK: usize = 256 * 1024;
/// How long a thread waits for the next request before it ends.
pub const SERVER_THREAD_REST: Duration = Duration::from_secs(10);
/// Shortest time between two checks of the certificate files, while there are connections.
pub const SERVER_CERTIFICATE_LOOK: Duration = Duration::from_secs(10);
/// How long a closing connection is still read, so that its last answer arrives.
pub const SERVER_LINGER: Duration = Duration::from_millis(500);
/// Bytes that are read during that time.
pub const SERVER_LINGER_BYTES: usize = 64 * 1024;

/// Names in one directory of `/var/log` that are shown.
pub const SERVER_NAMES: usize = 10_000;

// --- Figures -----------------------------------------------------------------------------------------

/// Greatest age of a reading of processor times that a rate is based on.
pub const SERVER_RATES: Duration = Duration::from_secs(120);
/// How long a count of disk usage is reused.
pub const SERVER_DISKS: Duration = Duration::from_secs(60);

// --- Questions to an API server about clients --------------------------------------------------------

/// Time for one question.
pub const WEBHOOK_CALL: Duration = Duration::from_secs(4);
/// A server that did not answer is not asked again before this time.
pub const WEBHOOK_AWAY: Duration = Duration::from_secs(2);
/// Most questions in progress: further ones count as unanswered.
pub const WEBHOOK_ASKING: usize = 8;
/// Most answers of each kind that are kept.
pub const WEBHOOK_KEPT: usize = 512;
/// Bytes of an answer that needs no place of [`ANSWERS`].
pub const SMALL_ANSWER: usize = 256 * 1024;
/// Bytes of larger answers on their way to clients, for the kubelet's server and for the API each; on a small machine,
/// [`ANSWERS_PART`] of its memory.
pub const ANSWERS: usize = 32 * 1024 * 1024;
/// See [`ANSWERS`].
pub const ANSWERS_PART: usize = 32;
/// Bytes of a large answer that are sent at once.
pub const ANSWER_PIECE: usize = 64 * 1024;

/// TLS records that are read from one socket before others are served.
pub const TLS_STEPS: usize = 16;
