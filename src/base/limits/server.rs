//! Bounds of the HTTP servers.

use std::time::Duration;

// --- Connections -------------------------------------------------------------------------------------

/// Most connections of all servers together. One more takes the place of the one that has waited longest.
pub const SERVER_CONNECTIONS: usize = 512;
/// Most connections of one address. The API server opens one for each request under way.
pub const SERVER_CONNECTIONS_OF_ADDRESS: usize = 256;
/// Connections accepted before those that are there get their turn.
pub const SERVER_ACCEPTS: usize = 16;
/// Free descriptors that are left to the pods' work: with fewer nothing is accepted.
pub const SERVER_SPARE_DESCRIPTORS: usize = 256;
/// How long nothing is accepted after the system refused a descriptor.
pub const SERVER_ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// How often a port that could not be listened on is tried again, as the kubelet does.
pub const SERVER_LISTEN_AGAIN: Duration = Duration::from_secs(5);
/// How often a client's bad certificate is told at most.
pub const SERVER_TELL_AGAIN: Duration = Duration::from_secs(60);
/// How long a TLS handshake may take.
pub const SERVER_HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a request's head may take from its first byte.
pub const SERVER_HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may be idle between two requests; upstream's value.
pub const SERVER_IDLE: Duration = Duration::from_secs(90);
/// How long a client may take between two pieces of a body that it sends.
pub const SERVER_READ: Duration = Duration::from_secs(30);
/// How long a client may take nothing of an answer.
pub const SERVER_WRITE: Duration = Duration::from_secs(30);
/// How long an answer to a request that is small may take in all.
pub const SERVER_BODY_WHOLE: Duration = Duration::from_secs(120);

// --- Requests ----------------------------------------------------------------------------------------

/// Bytes of a request's head.
pub const SERVER_HEAD: usize = 64 * 1024;
/// Header fields of a request.
pub const SERVER_HEADERS: usize = 100;
/// Parameters of a query.
pub const SERVER_PARAMETERS: usize = 1024;
/// Bytes that are read past a request that nobody wanted the body of, so that the connection can be used again.
pub const SERVER_DRAIN: u64 = 256 * 1024;

// --- Threads -----------------------------------------------------------------------------------------

/// Threads that answer requests, all together: enough for all of the following.
pub const SERVER_THREADS: usize = 200;
/// Requests whose end is not in sight: logs that are followed, exec, attach, port-forward.
pub const SERVER_LONG: usize = 64;
/// The same of one user, or of one address where nobody is known. An API server is one user.
pub const SERVER_LONG_OF_CLIENT: usize = 48;
/// Other requests under way of users that are known.
pub const SERVER_KNOWN: usize = 64;
/// The same of one user.
pub const SERVER_OF_USER: usize = 32;
/// Requests under way at one port, of one address, whose client shows no certificate that is known.
pub const SERVER_STRANGERS: usize = 8;
/// The same of all addresses; there are four ports.
pub const SERVER_STRANGERS_OF_PORT: usize = 18;
/// Longest chain of certificates of a client that is known.
pub const SERVER_CHAIN: usize = 8;
/// Stack of such a thread, in bytes.
pub const SERVER_STACK: usize = 256 * 1024;
/// How long a thread waits for another request before it ends.
pub const SERVER_THREAD_REST: Duration = Duration::from_secs(10);
/// How often files of certificates are looked at, at most, while there are connections.
pub const SERVER_CERTIFICATE_LOOK: Duration = Duration::from_secs(10);
/// How long a connection that ends is read from, so that its last answer arrives.
pub const SERVER_LINGER: Duration = Duration::from_millis(500);
/// Bytes that are read meanwhile.
pub const SERVER_LINGER_BYTES: usize = 64 * 1024;

/// Names of one directory of `/var/log` that are shown.
pub const SERVER_NAMES: usize = 10_000;

// --- Figures -----------------------------------------------------------------------------------------

/// Oldest reading of processor times from which a rate is reckoned.
pub const SERVER_RATES: Duration = Duration::from_secs(120);
/// How long a count of what is on disks is told again.
pub const SERVER_DISKS: Duration = Duration::from_secs(60);

// --- What an API server is asked about clients --------------------------------------------------------

/// One question, in all.
pub const WEBHOOK_CALL: Duration = Duration::from_secs(4);
/// A server that did not answer is not asked before this time has passed.
pub const WEBHOOK_AWAY: Duration = Duration::from_secs(2);
/// Most questions under way: others are told that nobody knows.
pub const WEBHOOK_ASKING: usize = 8;
/// Most answers of each kind that are kept.
pub const WEBHOOK_KEPT: usize = 512;
/// Bytes of an answer that needs no place.
pub const SMALL_ANSWER: usize = 256 * 1024;
/// Bytes of larger answers on their way to clients: of the kubelet's server, and as many of the API; on a small machine
/// [`ANSWERS_PART`] of its memory.
pub const ANSWERS: usize = 32 * 1024 * 1024;
/// See [`ANSWERS`].
pub const ANSWERS_PART: usize = 32;
/// Bytes of a large answer that are sent at a time.
pub const ANSWER_PIECE: usize = 64 * 1024;

/// Records of TLS that are read from one socket before others get their turn.
pub const TLS_STEPS: usize = 16;
