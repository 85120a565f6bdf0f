//! Bounds of the Docker client, and of the in-memory Docker.

use std::time::Duration;

// --- Calls -------------------------------------------------------------------------------------------

/// Deadline of an ordinary Docker call.
pub const SHORT_CALL: Duration = Duration::from_secs(10);
/// Most containers at a time that Docker is asked about to find their files.
pub const FILES_AT_ONCE: usize = 32;
/// How long all of them together may take while answers come: by half of the figures an innocent pod would be evicted.
pub const FILES_LONGEST: Duration = Duration::from_secs(60);
/// The same where Docker itself has to count their sizes, and how long all of them together may take.
pub const SIZES_AT_ONCE: usize = 4;
pub const SIZES_ROUND: Duration = Duration::from_secs(40);
/// Deadline of the removal of an image.
pub const IMAGE_REMOVE: Duration = Duration::from_secs(120);
/// Deadline of a request for the size of Docker's build cache, and of the cache's removal.
pub const DISK_USAGE: Duration = Duration::from_secs(300);
/// Longest answer head (status line and headers), in bytes.
pub const HTTP_HEAD: usize = 64 * 1024;
/// Most headers in an answer.
pub const HTTP_HEADERS: usize = 64;
/// Longest answer body of an ordinary call, in bytes.
pub const HTTP_BODY: usize = 32 * 1024 * 1024;
/// Longest answer to the inspect of an image, in bytes. It has the image's configuration up to twice; that of a usual
/// image has a few thousand.
pub const IMAGE_INSPECT: u64 = 4 * 1024 * 1024;
/// Bytes kept of one entry of a list while it is read: the labels that podkeeper reads back.
pub const LIST_ENTRY: usize = 16 * 1024 * 1024;
/// Longest name of a field or label that is looked at in a list; longer than any name podkeeper
/// reads.
pub const LIST_NAME: usize = 128;
/// Most entries of a list.
pub const LIST_CONTAINERS: usize = 100_000;
/// A list may take this long in all; [`SHORT_CALL`] is the longest time from one byte to the next.
pub const LIST_WHOLE: Duration = Duration::from_secs(120);
/// Most interim (1xx) answers before the real one.
pub const HTTP_INTERIM: usize = 16;
/// Longest line before a chunk (its size and extensions), in bytes.
pub const HTTP_CHUNK_LINE: usize = 1024;
/// Bytes of trailers behind a chunked body, which are skipped.
pub const HTTP_TRAILERS: usize = 8 * 1024;
/// Bytes read of one answer before its deadline is checked and other descriptors are served.
pub const HTTP_TURN: usize = 1024 * 1024;
/// Bytes requested from the socket in one read; larger buffers are freed after use.
pub const HTTP_READ: usize = 16 * 1024;
/// Longest line of a JSON stream (events, pull progress), in bytes.
pub const STREAM_LINE: usize = 1024 * 1024;
/// Idle connections to Docker that are kept for reuse.
pub const IDLE_CONNECTIONS: usize = 8;
/// Oldest Docker API version podkeeper works with.
pub const API_OLDEST: (u16, u16) = (1, 40);
/// Newest Docker API version podkeeper uses.
pub const API_NEWEST: (u16, u16) = (1, 51);
/// Characters of Docker's message that are kept in an error.
pub const ERROR_MESSAGE: usize = 4096;

// --- Events ------------------------------------------------------------------------------------------

/// First wait before connecting to Docker again; doubles to [`RECONNECT_MAX`].
pub const RECONNECT_MIN: Duration = Duration::from_millis(100);
/// Longest wait before connecting to Docker again. An attempt on a socket that has no listener costs
/// microseconds; at boot all pods wait for it.
pub const RECONNECT_MAX: Duration = Duration::from_millis(500);
/// After an event that was too long to be read, all containers are listed, but not sooner than this after
/// the last list.
pub const UNREAD_LIST: Duration = Duration::from_secs(2);

// --- The Docker in memory ----------------------------------------------------------------------------

/// Events that it keeps for replay, as many as Docker.
pub const FAKE_EVENTS: usize = 256;
/// Most execs that it remembers.
pub const FAKE_EXECS: usize = 1024;
/// How long it waits before it writes again to a stream whose reader is slow.
pub const FAKE_SLOW_READER: Duration = Duration::from_millis(10);

/// Bytes of the stack of the thread that drives the Docker in memory.
pub const FAKE_STACK: usize = 128 * 1024;
