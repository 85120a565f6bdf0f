//! The protocols that carry exec, attach and port-forward after their HTTP request was answered with 101: SPDY/3.1 and
//! WebSocket, with the channels that Kubernetes defines on them.
//!
//! All of it is pure: the client's bytes go in; messages, and bytes for the client, come out. [`negotiate`] chooses the
//! protocol, [`spdy`] and [`websocket`] speak it, and the rest of the server uses [`command`] (exec, attach) and
//! [`ports`] (port-forward), which hide the protocol.
//!
//! **Bounds.** Neither protocol limits the bytes that a peer may send ahead: spdystream, which all Kubernetes clients
//! use, neither respects nor sends window updates, and WebSocket has none. So the rule is: the reader of a connection
//! takes all messages of one read before the next read, and reads nothing while an input of the program is full or more
//! than `limits::STREAM_BACKLOG` bytes wait for the client. Then buffers hold at most one read, one incomplete control
//! frame or message, and the reader's own data. One connection is one queue: a slow stream holds up the others behind
//! it, as in the kubelet.
//!
//! Never here: a socket, a thread, a clock, or memory that a client can make grow.

pub mod command;
pub mod negotiate;
pub mod outgoing;
pub mod ports;
pub mod spdy;
pub mod status;
pub mod websocket;
mod wire;

/// The reason why a client's bytes cannot be understood; the connection cannot be used any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(pub String);

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A fault with this text.
fn fault<T>(why: &str) -> Result<T, Fault> {
    Err(Fault(why.to_owned()))
}
