//! The streams of a port-forward: for each connection that the client wants to a port, a pair of data and error,
//! whatever carries them.
//!
//! Never here: a port that is connected to.

use std::collections::{BTreeMap, VecDeque};

use super::Fault;
use super::negotiate::Forward;
use super::outgoing::Outgoing;
use super::spdy::frame::Reason;
use super::spdy::{Event, Headers, StreamId};
use super::websocket::Channels;
use super::websocket::channels::News as ChannelNews;
use super::wire::{Heard, Wire};
use crate::base::limits;

/// A pair, of all pairs that this connection ever has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairId(u32);

/// What the client did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// It wants a connection to a port.
    Opened { pair: PairId, port: u16 },
    /// It sends bytes, never none; [`Pairs::taken`] tells when they are out of the way.
    Data { pair: PairId, bytes: Vec<u8> },
    /// It sends no more.
    Ended { pair: PairId },
    /// It gave the connection up.
    Reset { pair: PairId },
    /// It ended everything.
    Gone,
}

/// See the module.
#[derive(Debug)]
pub struct Pairs {
    carrier: Carrier,
    /// News that came at once.
    told: VecDeque<News>,
}

#[derive(Debug)]
enum Carrier {
    Spdy(Box<Spdy>),
    WebSocket {
        channels: Box<Channels>,
        /// Which of the ports, in the order of the request, are still forwarded.
        open: Vec<bool>,
    },
}

/// Pairs of SPDY streams.
#[derive(Debug)]
struct Spdy {
    wire: Wire,
    last: u32,
    pairs: BTreeMap<PairId, Pair>,
    streams: BTreeMap<StreamId, PairId>,
    /// Pairs of which one stream is there, by the client's number of them.
    halves: BTreeMap<String, Half>,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    data: StreamId,
    error: StreamId,
}

/// One stream of a pair.
#[derive(Debug)]
struct Half {
    stream: StreamId,
    kind: Kind,
    port: u16,
    /// Data that came before the stream of errors.
    early: Vec<u8>,
    is_ended: bool,
    /// It was there at the last look: see [`Pairs::look`].
    is_old: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Error,
}

impl Pairs {
    /// The pairs of a connection that was just upgraded to this protocol; `ports` are those of the request, which
    /// names them for WebSocket alone.
    #[must_use]
    pub fn new(protocol: Forward, ports: &[u16]) -> Pairs {
        let mut told = VecDeque::new();
        let spdy = |wire| {
            let (pairs, streams, halves) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
            Carrier::Spdy(Box::new(Spdy { wire, last: 0, pairs, streams, halves }))
        };
        let carrier = match protocol {
            Forward::Spdy => spdy(Wire::plain()),
            Forward::Tunnel => spdy(Wire::tunnel()),
            Forward::WebSocket(form) => {
                let mut channels = Box::new(Channels::new(form, false));
                for (at, port) in (0..).zip(ports) {
                    // The first message of each channel is the port.
                    channels.send(data_channel(at), &port.to_le_bytes());
                    channels.send(error_channel(at), &port.to_le_bytes());
                    told.push_back(News::Opened { pair: PairId(at), port: *port });
                }
                Carrier::WebSocket { channels, open: vec![true; ports.len()] }
            }
        };
        Pairs { carrier, told }
    }

    /// Takes bytes of the client; only after [`Pairs::news`] returned none.
    pub fn receive(&mut self, bytes: &[u8]) {
        match &mut self.carrier {
            Carrier::Spdy(spdy) => spdy.wire.receive(bytes),
            Carrier::WebSocket { channels, .. } => channels.receive(bytes),
        }
    }

    /// The next news in what was received.
    ///
    /// # Errors
    /// The client does not speak the protocol, or more than its bounds allow; the connection ends then.
    pub fn news(&mut self) -> Result<Option<News>, Fault> {
        loop {
            if let Some(news) = self.told.pop_front() {
                return Ok(Some(news));
            }
            match &mut self.carrier {
                Carrier::Spdy(spdy) => match spdy.wire.news()? {
                    None => return Ok(None),
                    Some(heard) => spdy.heard(heard, &mut self.told),
                },
                Carrier::WebSocket { channels, open } => match channels.news()? {
                    None => return Ok(None),
                    Some(ChannelNews::Closed) => return Ok(Some(News::Gone)),
                    Some(ChannelNews::Data { channel, bytes }) => {
                        let at = channel / 2;
                        let is_open = open.get(usize::from(at)).copied().unwrap_or(false);
                        if channel % 2 == 0 && is_open && !bytes.is_empty() {
                            return Ok(Some(News::Data { pair: PairId(u32::from(at)), bytes }));
                        }
                    }
                    Some(ChannelNews::Ended { .. }) => {}
                },
            }
        }
    }

    /// Notes that so many bytes of a pair's data are out of the way.
    pub fn taken(&mut self, pair: PairId, count: usize) {
        if let Carrier::Spdy(spdy) = &mut self.carrier
            && let Some(Pair { data, .. }) = spdy.pairs.get(&pair)
        {
            spdy.wire.session.taken(*data, count);
        }
    }

    /// Sends bytes of the port.
    pub fn write(&mut self, pair: PairId, bytes: &[u8]) {
        match &mut self.carrier {
            Carrier::Spdy(spdy) => {
                if let Some(Pair { data, .. }) = spdy.pairs.get(&pair) {
                    spdy.wire.session.send(*data, bytes);
                }
            }
            Carrier::WebSocket { channels, open } => {
                if is_open(open, pair) && !bytes.is_empty() {
                    channels.send(data_channel(pair.0), bytes);
                }
            }
        }
    }

    /// Says that the port sends no more.
    pub fn finish(&mut self, pair: PairId) {
        if let Carrier::Spdy(spdy) = &mut self.carrier
            && let Some(Pair { data, .. }) = spdy.pairs.get(&pair)
        {
            spdy.wire.session.finish(*data);
        }
    }

    /// Ends a pair, with what went wrong. To the client no word means success.
    pub fn close(&mut self, pair: PairId, wrong: Option<&str>) {
        let wrong = wrong.unwrap_or_default().as_bytes();
        match &mut self.carrier {
            Carrier::Spdy(spdy) => spdy.close(pair, wrong),
            Carrier::WebSocket { channels, open } => {
                if is_open(open, pair) && !wrong.is_empty() {
                    channels.send(error_channel(pair.0), wrong);
                }
                open.iter_mut().skip(pair.0 as usize).take(1).for_each(|open| *open = false);
            }
        }
    }

    /// Nothing more can be forwarded: over WebSocket each port is, once.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.carrier {
            Carrier::Spdy(_) => false,
            Carrier::WebSocket { open, .. } => !open.contains(&true),
        }
    }

    /// Gives up pairs of which one stream was there at the last look, and the other is not yet.
    pub fn look(&mut self) {
        let Carrier::Spdy(spdy) = &mut self.carrier else { return };
        let session = &mut spdy.wire.session;
        spdy.halves.retain(|request, half| {
            if !std::mem::replace(&mut half.is_old, true) {
                return true;
            }
            if half.kind == Kind::Error {
                let text = format!("error forwarding port: request {request}: timed out waiting for streams");
                session.send(half.stream, text.as_bytes());
                session.finish(half.stream);
            } else {
                session.reset(half.stream, Reason::Cancel);
            }
            false
        });
    }

    /// Says that nothing more comes.
    pub fn end(&mut self) {
        match &mut self.carrier {
            Carrier::Spdy(spdy) => spdy.wire.close(),
            Carrier::WebSocket { channels, .. } => channels.close(),
        }
    }

    /// Bytes for the client.
    pub fn output(&mut self) -> &mut Outgoing {
        match &mut self.carrier {
            Carrier::Spdy(spdy) => spdy.wire.output(),
            Carrier::WebSocket { channels, .. } => channels.output(),
        }
    }
}

/// The ports of a request over WebSocket: the values of its parameter `port`, each one port or several with commas.
///
/// # Errors
/// What is wrong with them, in the kubelet's words.
pub fn requested<'a>(values: impl Iterator<Item = &'a str>) -> Result<Vec<u16>, String> {
    let mut ports = Vec::new();
    for value in values {
        if value.is_empty() {
            return Err("query parameter \"port\" cannot be empty".to_owned());
        }
        for text in value.split(',') {
            match text.parse::<u16>() {
                Ok(0) => return Err(format!("port {value:?} must be > 0")),
                Ok(port) => ports.push(port),
                Err(error) => return Err(format!("unable to parse {value:?} as a port: {error}")),
            }
        }
        if ports.len() > limits::FORWARDED_PORTS {
            return Err(format!("more than {} ports", limits::FORWARDED_PORTS));
        }
    }
    if ports.is_empty() { Err("query parameter \"port\" is required".to_owned()) } else { Ok(ports) }
}

/// The channel of the data of the port at this place.
fn data_channel(at: u32) -> u8 {
    u8::try_from(at.saturating_mul(2)).unwrap_or(u8::MAX)
}

/// The channel of its errors.
fn error_channel(at: u32) -> u8 {
    data_channel(at).saturating_add(1)
}

fn is_open(open: &[bool], pair: PairId) -> bool {
    open.get(pair.0 as usize).copied().unwrap_or(false)
}

impl Spdy {
    fn heard(&mut self, heard: Heard, told: &mut VecDeque<News>) {
        let event = match heard {
            Heard::Closed => return told.push_back(News::Gone),
            Heard::Event(event) => event,
        };
        match event {
            Event::Opened { stream, headers } => match asked(stream, &headers) {
                None => self.wire.session.reset(stream, Reason::ProtocolError),
                Some((request, kind, port)) => self.opened(stream, request, kind, port, told),
            },
            Event::Data { stream, bytes } => match self.pair_of(stream) {
                Some((pair, Kind::Data)) => told.push_back(News::Data { pair, bytes }),
                Some(_) => self.wire.session.taken(stream, bytes.len()),
                None => self.early(stream, &bytes),
            },
            Event::Finished { stream } => match self.pair_of(stream) {
                Some((pair, Kind::Data)) => told.push_back(News::Ended { pair }),
                // Clients never send errors, and say so at once.
                Some(_) => {}
                None => self
                    .halves
                    .values_mut()
                    .filter(|half| half.stream == stream)
                    .for_each(|half| half.is_ended = true),
            },
            Event::Reset { stream } => {
                self.halves.retain(|_, half| half.stream != stream);
                if let Some((pair, Kind::Data)) = self.pair_of(stream) {
                    told.push_back(News::Reset { pair });
                }
            }
            // What is open goes on until the connection ends.
            Event::GoneAway => {}
        }
    }

    fn opened(
        &mut self,
        stream: StreamId,
        request: String,
        kind: Kind,
        port: u16,
        told: &mut VecDeque<News>,
    ) {
        let is_busy = self.pairs.len() >= limits::FORWARDED || self.halves.len() >= limits::FORWARDED;
        let Some(half) = self.halves.remove(&request).filter(|half| half.kind != kind && !is_busy) else {
            // A second stream of the same kind takes the place of the first, as one does that is asked for anew.
            if is_busy {
                return self.wire.session.reset(stream, Reason::Refused);
            }
            self.wire.session.accept(stream);
            let (early, is_ended, is_old) = (Vec::new(), false, false);
            self.halves.insert(request, Half { stream, kind, port, early, is_ended, is_old });
            return;
        };
        self.wire.session.accept(stream);
        let pair = PairId(self.last);
        self.last = self.last.saturating_add(1);
        let (data, error) = match kind {
            Kind::Data => (stream, half.stream),
            Kind::Error => (half.stream, stream),
        };
        // The port of the data stream counts, as for the kubelet.
        let port = if kind == Kind::Data { port } else { half.port };
        self.pairs.insert(pair, Pair { data, error });
        self.streams.extend([(data, pair), (error, pair)]);
        told.push_back(News::Opened { pair, port });
        if half.kind == Kind::Data {
            if !half.early.is_empty() {
                told.push_back(News::Data { pair, bytes: half.early });
            }
            if half.is_ended {
                told.push_back(News::Ended { pair });
            }
        }
    }

    /// Keeps data of a pair that is not complete, within bounds.
    fn early(&mut self, stream: StreamId, bytes: &[u8]) {
        let half = self.halves.values_mut().find(|half| half.stream == stream && half.kind == Kind::Data);
        let Some(half) = half else { return self.wire.session.taken(stream, bytes.len()) };
        half.early.extend_from_slice(bytes);
        if half.early.len() > limits::FORWARD_EARLY {
            self.halves.retain(|_, half| half.stream != stream);
            self.wire.session.reset(stream, Reason::Cancel);
        }
    }

    fn pair_of(&self, stream: StreamId) -> Option<(PairId, Kind)> {
        let pair = *self.streams.get(&stream)?;
        let kind = if self.pairs.get(&pair)?.data == stream { Kind::Data } else { Kind::Error };
        Some((pair, kind))
    }

    fn close(&mut self, pair: PairId, wrong: &[u8]) {
        let Some(Pair { data, error }) = self.pairs.remove(&pair) else { return };
        self.streams.remove(&data);
        self.streams.remove(&error);
        let session = &mut self.wire.session;
        session.send(error, wrong);
        session.finish(error);
        session.finish(data);
    }
}

/// Which pair a stream belongs to, as what, and to which port; `None` when its headers do not say.
fn asked(stream: StreamId, headers: &Headers) -> Option<(String, Kind, u16)> {
    let port = headers.get("port")?.parse().ok().filter(|port| *port > 0)?;
    let kind = match headers.get("streamtype")? {
        "error" => Kind::Error,
        "data" => Kind::Data,
        _ => return None,
    };
    let request = match headers.get("requestid").filter(|id| !id.is_empty()) {
        Some(id) => id.to_owned(),
        // Old clients name none, and open the stream of errors first: its number is taken for both.
        None if kind == Kind::Error => stream.to_string(),
        None => stream.saturating_sub(2).to_string(),
    };
    Some((request, kind, port))
}

#[cfg(test)]
mod tests;
