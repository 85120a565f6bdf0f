//! What exec, attach and port-forward are carried by once their HTTP request was answered with 101: SPDY/3.1 and
//! WebSocket, with the channels that Kubernetes lays over them.
//!
//! All of it is pure: bytes of the client in, news out, and bytes for the client. [`negotiate`] says which protocol is
//! spoken, [`spdy`] and [`websocket`] speak it, [`command`] (exec, attach) and [`ports`] (port-forward) are what the
//! rest of the server sees: whoever runs a command does not know which of the protocols carries it.
//!
//! **Bounds.** Neither protocol says how much a peer may send that nobody takes: spdystream, which all Kubernetes
//! clients use, neither heeds nor sends window updates, and WebSocket has none. So the rule is: who reads from the
//! connection takes all news of what was read before it reads on, and reads nothing while an input of the program is
//! full or more than `limits::STREAM_BACKLOG` bytes wait for the client. Then no more is held than one read, one
//! control frame or message that is not whole, and what the reader itself keeps. One connection is one queue: streams
//! of a slow reader hold up the others behind them, as in the kubelet.
//!
//! What must not happen here: a socket, a thread, a clock, or memory that a client can make grow.

pub mod command;
pub mod negotiate;
pub mod outgoing;
pub mod ports;
pub mod spdy;
pub mod status;
pub mod websocket;
mod wire;

/// Why a client's bytes cannot be understood: the connection is of no use any more.
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
