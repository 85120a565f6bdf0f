//! The daemon as a node of a real cluster.

pub mod control_plane;
mod source;
