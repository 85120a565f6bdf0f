//! WebSocket as a server of Kubernetes streams needs it: messages of a channel each. `tungstenite` reads and writes the
//! frames; it is given memory for a connection, so that nothing here waits.
//!
//! [`channels`] is what is in a message.

pub mod channels;
pub mod socket;

pub use channels::{Channels, Form};
pub use socket::{Message, Socket};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
