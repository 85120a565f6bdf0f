//! The layout of SPDY/3.1's frames.
//!
//! A control frame is read as a whole; of a data frame only the head is read here, and its bytes are passed on as they
//! come.

use super::session::StreamId;
use crate::server::stream::{Fault, fault};

/// Length of the head of every frame.
pub const HEAD: usize = 8;

/// The flag of the last frame that a sender sends on a stream.
pub const FIN: u8 = 1;
/// The flag of a stream on which only its opener sends.
pub const UNIDIRECTIONAL: u8 = 2;

/// The reason why a stream is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The client broke the protocol.
    ProtocolError = 1,
    /// The stream is not wanted; nothing was done.
    Refused = 3,
    /// The stream is not needed any more.
    Cancel = 5,
}

/// Types of the control frames that are handled.
mod kind {
    pub const SYN_STREAM: u16 = 1;
    pub const SYN_REPLY: u16 = 2;
    pub const RST_STREAM: u16 = 3;
    pub const PING: u16 = 6;
    pub const GOAWAY: u16 = 7;
    pub const HEADERS: u16 = 8;
    pub const WINDOW_UPDATE: u16 = 9;
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// A control frame of this type.
    Control { kind: u16, flags: u8, length: usize },
    /// Data of a stream.
    Data { stream: StreamId, flags: u8, length: usize },
}

impl Head {
    /// Reads a head.
    ///
    /// # Errors
    /// The version is not SPDY/3's, or data belongs to stream 0.
    pub fn parse(bytes: [u8; HEAD]) -> Result<Head, Fault> {
        let [a, b, c, d, flags, length @ ..] = bytes;
        let length = length.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
        if a & 0x80 == 0 {
            return match u32::from_be_bytes([a, b, c, d]) {
                0 => fault("SPDY data without a stream"),
                stream => Ok(Head::Data { stream, flags, length }),
            };
        }
        match u16::from_be_bytes([a & 0x7f, b]) {
            3 => Ok(Head::Control { kind: u16::from_be_bytes([c, d]), flags, length }),
            other => Err(Fault(format!("a SPDY frame of version {other}, not 3"))),
        }
    }
}

/// A control frame of the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// It opens a stream.
    Open { stream: StreamId, headers: &'a [u8] },
    /// More headers of a stream, or those of an answer.
    Headers { stream: StreamId, headers: &'a [u8] },
    /// It ends a stream at once.
    Reset { stream: StreamId },
    /// It asks for an answer.
    Ping { id: u32 },
    /// It opens no more streams.
    GoAway,
    /// Settings, windows, and other frames that are ignored.
    Other,
}

impl Control<'_> {
    /// Reads the bytes after a control frame's head.
    ///
    /// # Errors
    /// It is too short for its type.
    pub fn parse(kind: u16, body: &[u8]) -> Result<Control<'_>, Fault> {
        let mut rest = body;
        let mut number = || {
            let (bytes, after) = rest.split_first_chunk::<4>().ok_or_else(|| too_short(kind))?;
            rest = after;
            Ok::<u32, Fault>(u32::from_be_bytes(*bytes))
        };
        Ok(match kind {
            kind::SYN_STREAM => {
                let stream = number()? & 0x7fff_ffff;
                number()?;
                // Priority and slot.
                let headers = rest.get(2..).ok_or_else(|| too_short(kind))?;
                Control::Open { stream, headers }
            }
            kind::SYN_REPLY | kind::HEADERS => {
                let stream = number()? & 0x7fff_ffff;
                Control::Headers { stream, headers: rest }
            }
            kind::RST_STREAM => Control::Reset { stream: number()? & 0x7fff_ffff },
            kind::PING => Control::Ping { id: number()? },
            kind::GOAWAY => Control::GoAway,
            _ => Control::Other,
        })
    }
}

fn too_short(kind: u16) -> Fault {
    Fault(format!("a SPDY frame of type {kind} that is too short"))
}

/// A frame to the client.
#[derive(Debug)]
pub enum Sent<'a> {
    /// Accepts a stream that the client opened.
    Reply { stream: StreamId, headers: &'a [u8] },
    /// Ends a stream at once.
    Reset { stream: StreamId, reason: Reason },
    /// The answer to a ping.
    Ping { id: u32 },
    /// Streams after this one are not accepted.
    GoAway { last: StreamId },
    /// This many bytes of a stream (0: of the connection) were processed.
    Taken { stream: StreamId, bytes: u32 },
    /// Data, with [`FIN`] or without.
    Data { stream: StreamId, flags: u8, bytes: &'a [u8] },
}

impl Sent<'_> {
    /// The bytes of the frame's head with its fixed part, and its variable part.
    #[must_use]
    pub fn encode(&self) -> (Vec<u8>, &[u8]) {
        let control = |kind: u16, fields: &[u32], rest: usize| {
            let length = fields.len().saturating_mul(4).saturating_add(rest);
            let mut bytes = vec![0x80, 3];
            bytes.extend(kind.to_be_bytes());
            bytes.extend(length_word(0, length));
            fields.iter().for_each(|field| bytes.extend(field.to_be_bytes()));
            bytes
        };
        match *self {
            Sent::Reply { stream, headers } => (control(kind::SYN_REPLY, &[stream], headers.len()), headers),
            Sent::Reset { stream, reason } => (control(kind::RST_STREAM, &[stream, reason as u32], 0), &[]),
            Sent::Ping { id } => (control(kind::PING, &[id], 0), &[]),
            Sent::GoAway { last } => (control(kind::GOAWAY, &[last, 0], 0), &[]),
            Sent::Taken { stream, bytes } => (control(kind::WINDOW_UPDATE, &[stream, bytes], 0), &[]),
            Sent::Data { stream, flags, bytes } => {
                let mut head = stream.to_be_bytes().to_vec();
                head.extend(length_word(flags, bytes.len()));
                (head, bytes)
            }
        }
    }
}

/// The flags and a length of 24 bits.
fn length_word(flags: u8, length: usize) -> [u8; 4] {
    let [_, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [flags, b, c, d]
}
