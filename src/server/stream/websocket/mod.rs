//! WebSocket for a server of Kubernetes streams: each message belongs to a channel. `tungstenite` reads and writes the
//! frames, on memory in place of a connection, so that nothing here waits.
//!
//! [`channels`] handles the content of messages.

pub mod channels;
pub mod socket;

pub use channels::{Channels, Form};
pub use socket::{Message, Socket};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
