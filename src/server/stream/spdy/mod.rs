//! SPDY/3.1 as a server of Kubernetes streams needs it: the client opens streams, both sides send data on them.
//!
//! [`session`] is the connection's state; [`frame`] the layout of frames; [`headers`] their header blocks, which one
//! zlib stream for the whole connection compresses.
//!
//! **Flow control.** The kubelet's spdystream knows none: it sends no window update and ignores what it gets. So windows
//! of the peer are not heeded here, for a client that never widens them would stall after 64 KiB; but what is taken of a
//! stream is acknowledged by window updates, so that a client that heeds them does not stall either.

pub mod dictionary;
pub mod frame;
pub mod headers;
pub mod session;

pub use headers::Headers;
pub use session::{Event, Session, StreamId};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
