//! Bounds of a process with many hollow nodes.

use std::time::Duration;

/// Most nodes in one process. Each has a dozen threads, and one more for each pod.
pub const HOLLOW_NODES: u32 = 1000;
/// Time between the starts of two nodes: all of them register at the API server.
pub const HOLLOW_STEP: Duration = Duration::from_millis(10);
/// Most calls to the API server at a time of all nodes together, and idle connections that are kept. Each node has one
/// more connection for its watch of pods, and at most one more call for its heartbeat.
pub const HOLLOW_CALLS: usize = 64;
