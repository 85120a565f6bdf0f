//! SPDY/3.1 for a server of Kubernetes streams: the client opens streams, both sides send data on them.
//!
//! [`session`] is the connection's state; [`frame`] the layout of frames; [`headers`] their header blocks, which one
//! zlib stream compresses for the whole connection.
//!
//! **Flow control.** The kubelet's spdystream has none: it sends no window updates and ignores those that it gets. So
//! the peer's windows are ignored here, because a client that never widens them would stall after 64 KiB. But processed
//! bytes of a stream are acknowledged by window updates, so that a client that respects windows does not stall either.

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
