//! podkeeper: a Kubernetes node agent on Docker, in synchronous Rust. `src/ARCHITECTURE.md` is the map.
//!
//! Data flows one way: `source` -> `merge` -> `turn`/`sync` -> `worker` -> `plan` -> `runtime`. A module
//! may use the types of what stands left of it, and never calls to its left.

pub mod after;
pub mod allocatable;
pub mod cgroup;
pub mod cli;
pub mod clock;
pub mod concealed;
pub mod config;
pub mod devices;
pub mod downward;
pub mod drain;
pub mod durable;
pub mod duration;
#[cfg(test)]
mod effects;
pub mod events;
pub mod image;
pub mod json;
pub mod layout;
pub mod limits;
pub mod logging;
pub mod manifest;
pub mod mapping;
pub mod merge;
pub mod network;
pub mod node;
pub mod object;
pub mod order;
pub mod plan;
pub mod pod;
pub mod pod_logs;
pub mod policy;
pub mod probe;
pub mod problem;
pub mod program;
pub mod qos;
pub mod quantity;
pub mod recorder;
pub mod regular;
pub mod requests;
pub mod runtime;
pub mod signals;
pub mod source;
pub mod status;
pub mod sync;
pub mod sys;
pub mod sysctl;
pub mod table;
pub mod termination;
pub mod turn;
pub mod volumes;
pub mod wait;
pub mod worker;
