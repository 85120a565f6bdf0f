//! podkeeper: a Kubernetes node agent on Docker, in synchronous Rust. `src/ARCHITECTURE.md` is the map.
//!
//! Data flows one way: `source` -> `merge` -> `turn`/`sync` -> `worker` -> `plan` -> `runtime`. A module
//! may use the types of what stands left of it, and never calls to its left.

pub mod after;
pub mod cli;
pub mod clock;
pub mod config;
pub mod drain;
pub mod durable;
pub mod duration;
pub mod events;
pub mod image;
pub mod json;
pub mod limits;
pub mod logging;
pub mod manifest;
pub mod merge;
pub mod object;
pub mod order;
pub mod plan;
pub mod pod;
pub mod pod_logs;
pub mod policy;
pub mod probe;
pub mod qos;
pub mod recorder;
pub mod runtime;
pub mod source;
pub mod status;
pub mod sync;
pub mod sys;
pub mod termination;
pub mod turn;
pub mod worker;
