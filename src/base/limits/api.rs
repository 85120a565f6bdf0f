//! Bounds of the API of one node.

use std::time::Duration;

/// Changes that are remembered for watches. One that is further behind lists again.
pub const API_HISTORY: usize = 1024;
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
/// Objects that are stored. Of pods and of local objects there may be as many as of any source.
pub const API_OBJECTS: usize = 4096;
/// Bytes of all of them, as JSON.
pub const API_STORE: usize = 32 * 1024 * 1024;
/// Bytes of one file of the store.
pub const API_STORED: usize = 3 * 1024 * 1024;
/// How long until a store that cannot be read is tried again, at first and at last.
pub const API_STORE_RETRY_MIN: Duration = Duration::from_secs(1);
pub const API_STORE_RETRY_MAX: Duration = Duration::from_secs(60);
/// Operations of a JSON patch.
pub const API_PATCH: usize = 1000;
/// Elements of a list that is merged.
pub const API_LIST: usize = 10_000;
/// Fields below one another in a patch.
pub const API_DEPTH: usize = 64;
/// Warnings that go with an answer, and characters of each.
pub const API_WARNINGS: usize = 32;
pub const API_WARNING: usize = 512;
