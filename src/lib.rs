//! podkeeper: a Kubernetes node agent on Docker, in synchronous Rust. `src/ARCHITECTURE.md` is the map.
//!
//! Data flows one way: sources, merge, turn, workers, plan, Docker. Imports only point down the layers of the code map
//! there; `layers` tests it.

pub mod base;
pub mod cgroup;
pub mod cli;
pub mod daemon;
#[cfg(test)]
mod effects;
pub mod image;
#[cfg(test)]
mod layers;
pub mod layout;
pub mod machine;
pub mod manifest;
pub mod mapping;
pub mod merge;
pub mod network;
pub mod node;
pub mod plan;
pub mod pod;
pub mod pod_logs;
pub mod policy;
pub mod probe;
pub mod recorder;
pub mod runtime;
pub mod source;
pub mod status;
pub mod termination;
pub mod volumes;
pub mod worker;
