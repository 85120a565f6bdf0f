//! The foundation, which does not know pods: time, bounds, order, bytes, files. Each module has one purpose.
//!
//! Never here: a type of Kubernetes or of Docker.

pub mod checked;
pub mod clock;
pub mod concealed;
pub mod dial;
pub mod durable;
pub mod duration;
pub mod handover;
pub mod hex;
pub mod http;
pub mod human;
pub mod json;
pub mod jsonpath;
pub mod limits;
pub mod locks;
pub mod logging;
pub mod order;
pub mod pace;
pub mod packed;
pub mod program;
pub mod pulse;
pub mod quantity;
pub mod regular;
pub mod sha256;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;
pub mod thread;
pub mod tls;
pub mod wait;
pub mod walk;
