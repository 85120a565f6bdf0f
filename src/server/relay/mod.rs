//! The thin threads behind exec, attach and port-forward: sockets on one side, the pure [`super::stream`] in the
//! middle, Docker or a port of a pod on the other.
//!
//! One thread of the server's pool carries one connection with all its streams. It waits in one poll for all its
//! descriptors. When one side does not take bytes, no more are read from the other: buffers have the bounds of
//! `limits`. A client that is gone ends the connection at once; the command continues, as under the kubelet.
//!
//! Never here: the meaning of a stream, or a wait that does not notice when the client is gone.

pub mod client;
pub mod command;
pub mod forward;

/// Why an attach ended after [`crate::base::limits::ATTACH_STALL`].
pub const STALLED: &str =
    "nothing took the output for 10 s, and the container would have waited: attach again, or read its log";

/// The reason why a connection ended early.
#[derive(Debug)]
pub enum Broken {
    /// The client went away, or the connection broke.
    Gone,
    /// The client broke the protocol, or was idle for too long: this is logged.
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
