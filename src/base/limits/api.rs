//! Bounds of the API of one node.

use std::time::Duration;

/// Changes that are remembered for watches. A watch that is further behind has to list again.
pub const API_HISTORY: usize = 1024;
/// Bytes in memory of the objects before and after these changes; the latest change is remembered regardless of its
/// size.
pub const API_HISTORY_BYTES: usize = 8 * 1024 * 1024;
/// Watches that are open at a time; a part of [`super::SERVER_LONG`], so that places for logs and commands remain.
pub const API_WATCHES: usize = 40;
/// The same for one user.
pub const API_WATCHES_OF_USER: usize = 16;
/// Longest time of a watch.
pub const API_WATCH: Duration = Duration::from_secs(45 * 60);
/// How often a watch without changes sends its version.
pub const API_BOOKMARK: Duration = Duration::from_secs(60);
/// Types in an `Accept` header that are looked at.
pub const API_ACCEPTS: usize = 32;
/// Requirements of a selector and the values in them, together: each is compared with each object of a list.
pub const API_SELECTOR_PARTS: usize = 512;
/// Bytes of a request's body. The API server allows 3 MiB; here an object may have at most a third of the body.
pub const API_BODY: usize = 2 * 1024 * 1024;
/// Values in a body: small values take up much more memory than their bytes in the body.
pub const API_BODY_VALUES: usize = 100_000;
/// Bytes of the body of a review, which every known user may send, and of bodies that need no place of [`API_BODIES`].
pub const API_SMALL_BODY: usize = 64 * 1024;
/// Larger bodies that are read or processed at a time.
pub const API_BODIES: usize = 4;
/// Files of the store that are read: more than the bounds of pods, local objects and namespaces together.
pub const API_OBJECTS: usize = 4096;
/// Bytes of all stored objects, as JSON; on a small machine, [`API_STORE_PART`] of its memory.
pub const API_STORE: usize = 32 * 1024 * 1024;
/// A pod with much text takes nine times its size while it is created, and six times afterwards: at most a seventh of
/// the memory.
pub const API_STORE_PART: usize = 64;
/// A pod of long lists counts by the memory that they take, as if it were text.
pub const API_STORE_GROWTH: usize = 6;
/// Bytes of one file of the store.
pub const API_STORED: usize = 3 * 1024 * 1024;
/// Bytes of a file of the store in addition to the object: its path and its seal.
pub const API_SEAL: usize = 1024;
/// Number of times that unreadable files of the store are read again before the store is used without them.
pub const API_STORE_TRIES: u32 = 5;
/// Shortest and longest wait before an unreadable store is read again.
pub const API_STORE_RETRY_MIN: Duration = Duration::from_secs(1);
pub const API_STORE_RETRY_MAX: Duration = Duration::from_secs(60);
/// Operations of a JSON patch.
pub const API_PATCH: usize = 1000;
/// Elements of a merged list.
pub const API_LIST: usize = 10_000;
/// Nesting depth of a patch and of an object: less than the JSON parser allows.
pub const API_DEPTH: usize = 64;
/// Bytes of all owners of an object's fields, as JSON.
pub const API_OWNERS: usize = 512 * 1024;
/// Warnings of one answer, and characters of each.
pub const API_WARNINGS: usize = 32;
pub const API_WARNING: usize = 512;
/// Containers that may be added to one pod over the API.
pub const API_ADDED_OF_POD: usize = 32;
/// Bytes of an added container, as JSON: it is remembered while its pod exists.
pub const API_ADDED_BYTES: usize = 16 * 1024;
/// Bytes of all added containers.
pub const API_ADDED_OF_NODE: usize = 1024 * 1024;
/// Requests to add containers that are processed at a time: each has a thread, and may wait for a registry.
pub const API_ADDED_AT_ONCE: usize = 4;
/// The same for the pods of a cluster.
pub const ADDED_AT_ONCE: usize = 16;
/// The same for those of one namespace.
pub const ADDED_AT_ONCE_OF_NAMESPACE: usize = 8;
/// The same for one pod.
pub const ADDED_AT_ONCE_OF_POD: usize = 2;
/// Ephemeral containers of a cluster's pods that are being killed at a time, each by a thread.
pub const ADDED_KILLS_AT_ONCE: usize = 16;
/// Values in the body of a review; a review with all fields has a dozen. Every known user may send reviews.
pub const API_REVIEW_VALUES: usize = 256;

// --- The page ----------------------------------------------------------------------------------------

/// Links that were not opened yet.
pub const PAGE_LINKS: usize = 8;
/// How long a link is valid.
pub const PAGE_LINK: Duration = Duration::from_secs(5 * 60);
/// Browsers with access to the page.
pub const PAGE_SESSIONS: usize = 16;
/// How long a browser has access, and how long without a request.
pub const PAGE_SESSION: Duration = Duration::from_secs(24 * 60 * 60);
/// See [`PAGE_SESSION`].
pub const PAGE_SESSION_REST: Duration = Duration::from_secs(60 * 60);
/// Open pages and shown logs at a time; a part of [`super::SERVER_LONG`], like watches.
pub const PAGE_STREAMS: usize = 12;
/// How long a page's stream of updates, and a log, may last. The browser requests new updates by itself.
pub const PAGE_STREAM: Duration = Duration::from_secs(10 * 60);
/// See [`PAGE_STREAM`].
pub const PAGE_LOG: Duration = Duration::from_secs(60 * 60);
/// How soon a browser requests the stream again.
pub const PAGE_AGAIN: Duration = Duration::from_secs(2);
/// Interval of keep-alive messages, for proxies, while there are no updates.
pub const PAGE_ALIVE: Duration = Duration::from_secs(15);
/// Updates within this time are sent together.
pub const PAGE_GATHER: Duration = Duration::from_millis(200);
/// How often figures are read while a page is open.
pub const PAGE_STEP: Duration = Duration::from_secs(5);
/// Figures of a pod that are kept: for five minutes.
pub const PAGE_FIGURES: usize = 60;
/// Latest events in a page's first answer.
pub const PAGE_EVENTS: usize = 200;
/// Problems of manifests that are sent.
pub const PAGE_PROBLEMS: usize = 50;
/// Characters of one text that are sent.
pub const PAGE_TEXT: usize = 1000;
/// Lines of a log's end that may be requested.
pub const PAGE_LINES: u32 = 5000;
/// Bytes of the answer to a request for a link.
pub const PAGE_ANSWER: usize = 16 * 1024;
/// How long a request for a link may take.
pub const PAGE_ASK: Duration = Duration::from_secs(10);
