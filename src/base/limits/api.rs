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
/// Words and signs of a selector.
pub const API_SELECTOR: usize = 1024;
/// Types of `Accept` that are looked at.
pub const API_ACCEPTS: usize = 32;
/// Bytes of a request's body, as the API server's 3 MiB, and less: a whole object is at most a third of it.
pub const API_BODY: usize = 2 * 1024 * 1024;
