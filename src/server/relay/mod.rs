//! The thin threads behind exec, attach and port-forward: sockets on one side, the pure [`super::stream`] in the middle,
//! Docker or a port of a pod on the other.
//!
//! One thread of the server's pool carries one connection, however many streams it has. It waits in one poll for all its
//! descriptors. Where one side does not take what the other sends, nothing more is read of the other: what is held has
//! the bounds of `limits`. A client that goes away ends the connection at once; the command runs on, as under the
//! kubelet.
//!
//! What must not happen here: a decision what a stream means, or a wait in which a client that has gone is not noticed.

pub mod client;
pub mod command;
pub mod forward;

/// Why a connection ended before its work was done.
#[derive(Debug)]
pub enum Broken {
    /// The client went away, or the connection broke.
    Gone,
    /// The client does not speak the protocol, or nothing happened for too long: this is logged.
    Client(String),
}

impl From<super::stream::Fault> for Broken {
    fn from(fault: super::stream::Fault) -> Broken {
        Broken::Client(fault.0)
    }
}

impl From<std::io::Error> for Broken {
    fn from(_: std::io::Error) -> Broken {
        Broken::Gone
    }
}
