//! The commands that speak to Docker: `logs`, `attach`, `exec`, `cp`, `debug`, `port-forward`, `pull`, `load`, `images`
//! and `prune`; and `stats`, which asks the kernel more than Docker.
//!
//! Never here: a container that the daemon does not take over.

pub mod attach;
pub mod cp;
pub mod debug;
pub mod engine;
pub mod exec;
mod garbage;
pub mod images;
pub mod load;
pub mod logs;
pub mod port_forward;
pub mod profile;
pub mod prune;
pub mod pull;
pub mod restart;
pub mod stats;
mod target;
mod terminal;
