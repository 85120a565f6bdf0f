//! podkeeper: a Kubernetes node agent on Docker, in synchronous Rust. `src/ARCHITECTURE.md` is the map.
//!
//! Data flows one way: sources, merge, turn, workers, plan, Docker. Imports only point down the layers of the code map
//! there; `layers` tests it. Rooms are private: the crate exports [`main`], and for tests the items in `testing.rs`.

// Test functions tell a story, and may be longer.
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

mod api;
mod api_client;
mod base;
mod certificates;
mod cgroup;
mod cli;
mod cluster;
mod cni;
mod daemon;
#[cfg(test)]
mod effects;
mod eviction;
mod garbage;
mod image;
#[cfg(test)]
mod layers;
mod layout;
mod machine;
mod manifest;
mod mapping;
mod merge;
mod network;
mod node;
mod plan;
mod pod;
mod pod_logs;
mod policy;
mod probe;
mod recorder;
mod runtime;
mod server;
mod source;
mod stats;
mod status;
mod termination;
#[cfg(feature = "testing")]
pub mod testing;
mod volumes;
mod worker;

pub use base::program::heap::Heap;
pub use cli::main;
