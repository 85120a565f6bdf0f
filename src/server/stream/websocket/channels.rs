//! Messages of the Kubernetes subprotocols: one byte for the channel, and the channel's data; raw, or in base64 with a
//! digit for the channel (`k8s.io/apimachinery/pkg/util/httpstream/wsstream`).
//!
//! An unreadable message is ignored, as in the kubelet.

use super::socket::{Message, Socket};
use crate::base::limits;
use crate::manifest::base64;
use crate::server::stream::Fault;
use crate::server::stream::outgoing::Outgoing;

/// Encoding of a message's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Raw bytes.
    Raw,
    /// Base64 text.
    Base64,
}

/// The channel whose message names another channel that ends (v5).
const CLOSE: u8 = 255;

/// A message of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Data, which may be empty.
    Data { channel: u8, bytes: Vec<u8> },
    /// The client sends no more on it.
    Ended { channel: u8 },
    /// The client ends the connection.
    Closed,
}

/// The channels of a connection.
#[derive(Debug)]
pub struct Channels {
    socket: Socket,
    form: Form,
    /// The client can close a channel.
    closes: bool,
}

impl Channels {
    /// The channels of a new connection; `closes`: the protocol has the message that ends a channel.
    #[must_use]
    pub fn new(form: Form, closes: bool) -> Channels {
        Channels { socket: Socket::new(), form, closes }
    }

    /// See [`Socket::receive`].
    pub fn receive(&mut self, bytes: &[u8]) {
        self.socket.receive(bytes);
    }

    /// The next message in the received bytes.
    ///
    /// # Errors
    /// Like [`Socket::news`].
    pub fn news(&mut self) -> Result<Option<News>, Fault> {
        loop {
            let message = match self.socket.news()? {
                None => return Ok(None),
                Some(Message::Closed) => return Ok(Some(News::Closed)),
                Some(Message::Bytes(message)) => message,
            };
            if let Some(news) = self.read(&message) {
                return Ok(Some(news));
            }
        }
    }

    /// See [`Socket::is_closed_by`].
    pub fn is_closed_by(&mut self, bytes: &[u8]) -> bool {
        self.socket.is_closed_by(bytes)
    }

    fn read(&self, message: &[u8]) -> Option<News> {
        let (first, rest) = message.split_first()?;
        if self.closes && *first == CLOSE {
            return rest.first().map(|channel| News::Ended { channel: *channel });
        }
        match self.form {
            Form::Raw => Some(News::Data { channel: *first, bytes: rest.to_vec() }),
            Form::Base64 => {
                let bytes = base64::decode(std::str::from_utf8(rest).ok()?)?;
                Some(News::Data { channel: first.checked_sub(b'0')?, bytes })
            }
        }
    }

    /// Sends data on a channel; empty data is a message, too.
    pub fn send(&mut self, channel: u8, bytes: &[u8]) {
        if bytes.is_empty() {
            return self.send_piece(channel, bytes);
        }
        bytes.chunks(limits::WEBSOCKET_DATA).for_each(|piece| self.send_piece(channel, piece));
    }

    fn send_piece(&mut self, channel: u8, bytes: &[u8]) {
        match self.form {
            Form::Raw => {
                let mut message = Vec::with_capacity(bytes.len().saturating_add(1));
                message.push(channel);
                message.extend_from_slice(bytes);
                self.socket.send(message);
            }
            Form::Base64 => {
                let digit = char::from(b'0'.saturating_add(channel));
                self.socket.send_text(format!("{digit}{}", base64::encode(bytes)));
            }
        }
    }

    /// Ends the connection.
    pub fn close(&mut self) {
        self.socket.close();
    }

    /// Bytes for the client.
    pub fn output(&mut self) -> &mut Outgoing {
        self.socket.output()
    }
}
