//! Bounds of the API of one node.

use std::time::Duration;

/// Changes that are remembered for watches. One that is further behind lists again.
pub const API_HISTORY: usize = 1024;
/// Bytes of the objects before and after them, in memory; the latest change is remembered however large it is.
pub const API_HISTORY_BYTES: usize = 8 * 1024 * 1024;
/// Watches that are open at a time: of [`super::SERVER_LONG`], so that logs and commands find a place.
pub const API_WATCHES: usize = 40;
/// Longest time of a watch.
pub const API_WATCH: Duration = Duration::from_secs(45 * 60);
/// How often a watch in which nothing happens tells its version.
pub const API_BOOKMARK: Duration = Duration::from_secs(60);
/// Types of `Accept` that are looked at.
pub const API_ACCEPTS: usize = 32;
/// Bytes of a request's body, as the API server's 3 MiB, and less: a whole object is at most a third of it.
pub const API_BODY: usize = 2 * 1024 * 1024;
/// Values in it: small ones take up much more memory than bytes of the body.
pub const API_BODY_VALUES: usize = 100_000;
/// Bytes of the body of a review, which everybody who is known may send; and of bodies that need no place.
pub const API_SMALL_BODY: usize = 64 * 1024;
/// Larger bodies that are read, or worked on, at a time.
pub const API_BODIES: usize = 4;
/// Files of the store that are read: more than there may be of pods, local objects and namespaces together.
pub const API_OBJECTS: usize = 4096;
/// Bytes of all of them, as JSON; on a small machine [`API_STORE_PART`] of its memory.
pub const API_STORE: usize = 32 * 1024 * 1024;
/// A pod of much text is nine times as large while it is made, and six times as it stays: a seventh of the memory at most.
pub const API_STORE_PART: usize = 64;
/// A pod of long lists counts by the memory that they take, as if it were text.
pub const API_STORE_GROWTH: usize = 6;
/// Bytes of one file of the store.
pub const API_STORED: usize = 3 * 1024 * 1024;
/// Bytes that a file of the store may have beside the object: its path and its seal.
pub const API_SEAL: usize = 1024;
/// Files of the store that cannot be read now are tried so often before the others count without them.
pub const API_STORE_TRIES: u32 = 5;
/// How long until a store that cannot be read is tried again, at first and at last.
pub const API_STORE_RETRY_MIN: Duration = Duration::from_secs(1);
pub const API_STORE_RETRY_MAX: Duration = Duration::from_secs(60);
/// Operations of a JSON patch.
pub const API_PATCH: usize = 1000;
/// Elements of a list that is merged.
pub const API_LIST: usize = 10_000;
/// Fields below one another in a patch, and in an object: fewer than the reader of JSON takes.
pub const API_DEPTH: usize = 64;
/// Bytes of all owners of an object's fields, as JSON.
pub const API_OWNERS: usize = 512 * 1024;
/// Warnings that go with an answer, and characters of each.
pub const API_WARNINGS: usize = 32;
pub const API_WARNING: usize = 512;
/// Containers that are added to one pod over the API.
pub const API_ADDED_OF_POD: usize = 32;
/// Bytes of a container that is added, as JSON: it is remembered as long as its pod is there.
pub const API_ADDED_BYTES: usize = 16 * 1024;
/// Bytes of all of them.
pub const API_ADDED_OF_NODE: usize = 1024 * 1024;
/// Requests for containers to be added to pods that are being carried out at once: each has a thread, and may wait for a
/// registry.
pub const API_ADDED_AT_ONCE: usize = 4;
/// Values of the body of a review; a full one has a dozen. Whoever is known may send reviews.
pub const API_REVIEW_VALUES: usize = 256;

// --- The page ----------------------------------------------------------------------------------------

/// Links that wait for somebody to open them.
pub const PAGE_LINKS: usize = 8;
/// How long a link can be opened.
pub const PAGE_LINK: Duration = Duration::from_secs(5 * 60);
/// Browsers that may see the page.
pub const PAGE_SESSIONS: usize = 16;
/// How long a browser may see it, and how long when it asks for nothing.
pub const PAGE_SESSION: Duration = Duration::from_secs(24 * 60 * 60);
/// See [`PAGE_SESSION`].
pub const PAGE_SESSION_REST: Duration = Duration::from_secs(60 * 60);
/// Pages that are open, and logs that are shown: of [`super::SERVER_LONG`], as watches.
pub const PAGE_STREAMS: usize = 12;
/// How long the news of a page, and a log, go on. The browser asks again for the news.
pub const PAGE_STREAM: Duration = Duration::from_secs(10 * 60);
/// See [`PAGE_STREAM`].
pub const PAGE_LOG: Duration = Duration::from_secs(60 * 60);
/// How soon a browser asks again.
pub const PAGE_AGAIN: Duration = Duration::from_secs(2);
/// A sign of life, for proxies in between, when there is no news.
pub const PAGE_ALIVE: Duration = Duration::from_secs(15);
/// News that come within this time are told at once.
pub const PAGE_GATHER: Duration = Duration::from_millis(200);
/// How often figures are taken while a page is open.
pub const PAGE_STEP: Duration = Duration::from_secs(5);
/// Figures of a pod that are kept: five minutes.
pub const PAGE_FIGURES: usize = 60;
/// Latest events that a page is told at first.
pub const PAGE_EVENTS: usize = 200;
/// Problems of manifests that are told.
pub const PAGE_PROBLEMS: usize = 50;
/// Characters of one text.
pub const PAGE_TEXT: usize = 1000;
/// Lines of a log's end that may be asked for.
pub const PAGE_LINES: u32 = 5000;
/// Bytes of the answer to a request for a link.
pub const PAGE_ANSWER: usize = 16 * 1024;
/// How long a request for a link may take.
pub const PAGE_ASK: Duration = Duration::from_secs(10);
