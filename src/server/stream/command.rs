//! The streams of an exec or attach: input, output, errors, sizes of the terminal, and the result; the same for every
//! protocol.
//!
//! Never here: a command, or Docker.

use serde::Deserialize;

use super::Fault;
use super::negotiate::Command;
use super::outgoing::Outgoing;
use super::spdy::{Event, Headers, StreamId};
use super::status::Outcome;
use super::websocket::Channels;
use super::websocket::channels::News as ChannelNews;
use super::wire::{Heard, Wire};
use crate::base::limits;

/// The streams that the request asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub stdin: bool,
    pub stdout: bool,
    /// Never with a terminal, which has one stream.
    pub stderr: bool,
    pub tty: bool,
}

/// A stream; its number is its channel of WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Stdin = 0,
    Stdout = 1,
    Stderr = 2,
    Error = 3,
    Resize = 4,
}

impl Channel {
    const ALL: [Channel; 5] =
        [Channel::Stdin, Channel::Stdout, Channel::Stderr, Channel::Error, Channel::Resize];

    fn of_type(name: &str) -> Option<Channel> {
        Some(match name {
            "stdin" => Channel::Stdin,
            "stdout" => Channel::Stdout,
            "stderr" => Channel::Stderr,
            "error" => Channel::Error,
            "resize" => Channel::Resize,
            _ => return None,
        })
    }
}

/// A terminal's size, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Size {
    #[serde(default)]
    pub width: u16,
    #[serde(default)]
    pub height: u16,
}

/// A message of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Input, never empty; [`Streams::taken`] notes when it is processed.
    Input(Vec<u8>),
    /// The input has ended.
    InputEnded,
    /// The terminal has this size.
    Resized(Size),
    /// The client ended the connection.
    Gone,
}

/// The streams of one connection.
#[derive(Debug)]
pub struct Streams {
    wanted: Wanted,
    version: u8,
    carrier: Carrier,
    /// An incomplete resize message.
    resize: Vec<u8>,
    is_over: bool,
}

#[derive(Debug)]
enum Carrier {
    /// The streams that the client has opened, by channel.
    Spdy {
        wire: Box<Wire>,
        open: [Option<StreamId>; 5],
    },
    WebSocket(Box<Channels>),
}

impl Streams {
    /// The streams of a connection that was just upgraded to this protocol.
    #[must_use]
    pub fn new(protocol: Command, wanted: Wanted) -> Streams {
        let (version, carrier) = match protocol {
            Command::Spdy(version) => {
                (version, Carrier::Spdy { wire: Box::new(Wire::plain()), open: [None; 5] })
            }
            Command::WebSocket(version, form) => {
                let mut channels = Box::new(Channels::new(form, version >= 5));
                // An empty message on the lowest channel with output tells the client that the streams exist.
                let first = if wanted.stdout {
                    Channel::Stdout
                } else if wanted.stderr {
                    Channel::Stderr
                } else {
                    Channel::Error
                };
                channels.send(first as u8, &[]);
                (version, Carrier::WebSocket(channels))
            }
        };
        Streams { wanted, version, carrier, resize: Vec::new(), is_over: false }
    }

    /// Whether the command needs this stream.
    fn needs(&self, channel: Channel) -> bool {
        match channel {
            Channel::Stdin => self.wanted.stdin,
            Channel::Stdout => self.wanted.stdout,
            Channel::Stderr => self.wanted.stderr,
            Channel::Error => true,
            Channel::Resize => self.wanted.tty && self.version >= 3,
        }
    }

    /// Whether the client has created all streams that it asked for: the command can start.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match &self.carrier {
            Carrier::Spdy { open, .. } => Channel::ALL
                .iter()
                .zip(open)
                .all(|(channel, stream)| stream.is_some() || !self.needs(*channel)),
            Carrier::WebSocket(_) => true,
        }
    }

    /// Takes bytes of the client; only after [`Streams::news`] returned `None`.
    pub fn receive(&mut self, bytes: &[u8]) {
        match &mut self.carrier {
            Carrier::Spdy { wire, .. } => wire.receive(bytes),
            Carrier::WebSocket(channels) => channels.receive(bytes),
        }
    }

    /// The next message in the received bytes.
    ///
    /// # Errors
    /// The client breaks the protocol, or exceeds a bound; the connection ends then.
    pub fn news(&mut self) -> Result<Option<News>, Fault> {
        loop {
            let heard = match &mut self.carrier {
                Carrier::Spdy { wire, .. } => wire.news()?.map(Came::Spdy),
                Carrier::WebSocket(channels) => channels.news()?.map(Came::WebSocket),
            };
            let news = match heard {
                None => return Ok(None),
                Some(Came::Spdy(heard)) => self.heard_spdy(heard),
                Some(Came::WebSocket(heard)) => self.heard_websocket(heard),
            };
            if news.is_some() {
                return Ok(news);
            }
        }
    }

    fn heard_spdy(&mut self, heard: Heard) -> Option<News> {
        let event = match heard {
            Heard::Closed => return Some(News::Gone),
            Heard::Event(event) => event,
        };
        match event {
            Event::Opened { stream, headers } => {
                self.opened(stream, &headers);
                None
            }
            Event::Data { stream, bytes } => match self.channel_of(stream) {
                Some(Channel::Stdin) if self.wanted.stdin => Some(News::Input(bytes)),
                channel => {
                    self.taken_of(stream, bytes.len());
                    if channel == Some(Channel::Resize) { self.resized(&bytes) } else { None }
                }
            },
            Event::Finished { stream } | Event::Reset { stream } => {
                self.channel_of(stream).filter(|channel| *channel == Channel::Stdin).map(|_| News::InputEnded)
            }
            // Open streams continue until the connection ends.
            Event::GoneAway => None,
        }
    }

    fn opened(&mut self, stream: StreamId, headers: &Headers) {
        let channel = headers.get("streamtype").and_then(Channel::of_type);
        let is_needed = channel.is_some_and(|channel| self.needs(channel));
        let Carrier::Spdy { wire, open } = &mut self.carrier else { return };
        wire.session.accept(stream);
        let place = channel.and_then(|channel| open.get_mut(channel as usize));
        match place.filter(|place| is_needed && place.is_none()) {
            Some(place) => *place = Some(stream),
            // A stream that was not requested gets no data.
            None => wire.session.finish(stream),
        }
    }

    fn channel_of(&self, stream: StreamId) -> Option<Channel> {
        let Carrier::Spdy { open, .. } = &self.carrier else { return None };
        Channel::ALL.into_iter().zip(open).find(|(_, of)| **of == Some(stream)).map(|(channel, _)| channel)
    }

    fn taken_of(&mut self, stream: StreamId, count: usize) {
        if let Carrier::Spdy { wire, .. } = &mut self.carrier {
            wire.session.taken(stream, count);
        }
    }

    fn heard_websocket(&mut self, heard: ChannelNews) -> Option<News> {
        match heard {
            ChannelNews::Data { channel: 0, bytes } if self.wanted.stdin && !bytes.is_empty() => {
                Some(News::Input(bytes))
            }
            ChannelNews::Data { channel: 4, bytes } => self.resized(&bytes),
            ChannelNews::Ended { channel: 0 } => Some(News::InputEnded),
            ChannelNews::Data { .. } | ChannelNews::Ended { .. } => None,
            ChannelNews::Closed => Some(News::Gone),
        }
    }

    /// Parses sizes, one JSON object after the other; the last one counts.
    fn resized(&mut self, bytes: &[u8]) -> Option<News> {
        self.resize.extend_from_slice(bytes);
        let mut sizes = serde_json::Deserializer::from_slice(&self.resize).into_iter::<Size>();
        let (mut last, mut used) = (None, 0);
        let is_sound = loop {
            match sizes.next() {
                Some(Ok(size)) => (last, used) = (Some(size), sizes.byte_offset()),
                Some(Err(error)) => break error.is_eof(),
                None => break true,
            }
        };
        self.resize.drain(..used.min(self.resize.len()));
        if !is_sound || self.resize.len() > limits::RESIZE_MESSAGE {
            self.resize.clear();
        }
        last.map(News::Resized)
    }

    /// Notes that so many bytes of the input are processed.
    pub fn taken(&mut self, count: usize) {
        if let Carrier::Spdy { wire, open } = &mut self.carrier
            && let Some(stdin) = open.first().copied().flatten()
        {
            wire.session.taken(stdin, count);
        }
    }

    /// Sends output of the command; drops it if the request did not ask for that stream.
    pub fn write(&mut self, channel: Channel, bytes: &[u8]) {
        if bytes.is_empty() || !self.needs(channel) || self.is_over {
            return;
        }
        match &mut self.carrier {
            Carrier::Spdy { wire, open } => {
                if let Some(stream) = open.get(channel as usize).copied().flatten() {
                    wire.session.send(stream, bytes);
                }
            }
            Carrier::WebSocket(channels) => channels.send(channel as u8, bytes),
        }
    }

    /// Sends the result of the command, after all output, and ends the streams.
    pub fn end(&mut self, outcome: &Outcome) {
        let text = if self.version >= 4 { Some(outcome.json()) } else { outcome.text() };
        if let Some(text) = text {
            self.write(Channel::Error, text.as_bytes());
        }
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        match &mut self.carrier {
            Carrier::Spdy { wire, open } => {
                // Clients read the error stream to its end, and the output streams to theirs.
                let [stdin, stdout, stderr, error, resize] = *open;
                for stream in [stdout, stderr, error, stdin, resize].into_iter().flatten() {
                    wire.session.finish(stream);
                }
                wire.close();
            }
            Carrier::WebSocket(channels) => channels.close(),
        }
    }

    /// Takes bytes of the client after the end. Returns true when it has answered that: it needs nothing more.
    pub fn is_closed_by(&mut self, bytes: &[u8]) -> bool {
        match &mut self.carrier {
            Carrier::Spdy { wire, .. } => wire.is_closed_by(bytes),
            Carrier::WebSocket(channels) => channels.is_closed_by(bytes),
        }
    }

    /// Bytes for the client.
    pub fn output(&mut self) -> &mut Outgoing {
        match &mut self.carrier {
            Carrier::Spdy { wire, .. } => wire.output(),
            Carrier::WebSocket(channels) => channels.output(),
        }
    }
}

enum Came {
    Spdy(Heard),
    WebSocket(ChannelNews),
}

#[cfg(test)]
mod tests;
