//! The commands that show the daemon's files, in kubectl's words: `get` and `describe`; `top`, which asks the kernel;
//! and `explain`.
//!
//! Never here: a call to Docker.

pub mod describe;
pub mod events;
pub mod explain;
pub mod get;
pub(in crate::cli) mod json;
pub mod node;
pub mod objects;
pub mod sources;
pub(in crate::cli) mod table;
pub mod template;
pub mod top;
mod watch;
pub(in crate::cli) mod yaml;
