//! One WebSocket connection: the client's bytes in, messages out, and the reverse.
//!
//! A message is kept as a whole, so its size is bounded; the library answers pings.

use std::io::{self, ErrorKind, Read, Write};

use tungstenite::error::CapacityError;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Bytes, Error};

use crate::base::limits;
use crate::server::stream::Fault;
use crate::server::stream::outgoing::Outgoing;

/// An input from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A message of text or bytes.
    Bytes(Vec<u8>),
    /// The client ended the connection; the answer is on its way.
    Closed,
}

/// One WebSocket connection.
#[derive(Debug)]
pub struct Socket {
    context: WebSocketContext,
    memory: Memory,
    is_over: bool,
}

/// The connection as the library sees it. It never waits: missing bytes are the error `WouldBlock`.
#[derive(Debug, Default)]
struct Memory {
    input: Vec<u8>,
    at: usize,
    output: Outgoing,
}

impl Read for Memory {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = rest.len().min(into.len());
        into.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.at = self.at.saturating_add(count);
        Ok(count)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Default for Socket {
    fn default() -> Socket {
        Socket::new()
    }
}

impl Socket {
    /// A connection whose handshake is complete.
    #[must_use]
    pub fn new() -> Socket {
        let config = WebSocketConfig::default()
            .read_buffer_size(limits::WEBSOCKET_READ)
            .write_buffer_size(0)
            .max_message_size(Some(limits::WEBSOCKET_MESSAGE))
            .max_frame_size(Some(limits::WEBSOCKET_MESSAGE));
        let context = WebSocketContext::new(Role::Server, Some(config));
        Socket { context, memory: Memory::default(), is_over: false }
    }

    /// Takes bytes of the client; only after [`Socket::news`] returned `None`.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.memory.input.drain(..self.memory.at.min(self.memory.input.len()));
        self.memory.at = 0;
        self.memory.input.extend_from_slice(bytes);
    }

    /// The next message in the received bytes.
    ///
    /// # Errors
    /// The client breaks the protocol, or exceeds a bound. It gets a close frame; the connection ends.
    pub fn news(&mut self) -> Result<Option<Message>, Fault> {
        while !self.is_over {
            match self.context.read(&mut self.memory) {
                Ok(tungstenite::Message::Binary(bytes)) => return Ok(Some(Message::Bytes(bytes.into()))),
                Ok(tungstenite::Message::Text(text)) => {
                    return Ok(Some(Message::Bytes(Bytes::from(text).into())));
                }
                Ok(tungstenite::Message::Close(_)) | Err(Error::ConnectionClosed) => {
                    self.is_over = true;
                    // This flush sends the answer to the client's close frame.
                    let _ = self.context.flush(&mut self.memory);
                    return Ok(Some(Message::Closed));
                }
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => {
                    let code = match error {
                        Error::Capacity(CapacityError::MessageTooLong { .. }) => CloseCode::Size,
                        _ => CloseCode::Protocol,
                    };
                    self.end(code);
                    return Err(Fault(format!("WebSocket: {error}")));
                }
            }
        }
        Ok(None)
    }

    /// Takes bytes of the client after [`Socket::close`]. Returns true when it has ended the connection, too, or breaks the
    /// protocol; its messages are dropped.
    pub fn is_closed_by(&mut self, bytes: &[u8]) -> bool {
        self.receive(bytes);
        loop {
            match self.news() {
                Ok(Some(Message::Bytes(_))) => {}
                Ok(None) => return self.is_over,
                Ok(Some(Message::Closed)) | Err(_) => return true,
            }
        }
    }

    /// Sends a message of bytes.
    pub fn send(&mut self, bytes: Vec<u8>) {
        self.write(tungstenite::Message::Binary(bytes.into()));
    }

    /// Sends a message of text.
    pub fn send_text(&mut self, text: String) {
        self.write(tungstenite::Message::Text(text.into()));
    }

    fn write(&mut self, message: tungstenite::Message) {
        // It fails only after the end of the connection, when the message is not needed.
        let _ = self.context.write(&mut self.memory, message);
    }

    /// Ends the connection normally.
    pub fn close(&mut self) {
        self.end(CloseCode::Normal);
    }

    fn end(&mut self, code: CloseCode) {
        let frame = CloseFrame { code, reason: tungstenite::Utf8Bytes::default() };
        // As above.
        let _ = self.context.close(&mut self.memory, Some(frame));
    }

    /// Bytes for the client.
    pub fn output(&mut self) -> &mut Outgoing {
        &mut self.memory.output
    }
}
