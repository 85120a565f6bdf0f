//! The streams of a port-forward: for each connection of the client to a port, a pair of data and error; the same for
//! every protocol.
//!
//! Never here: connecting to a port.

mod spdy;

use std::collections::VecDeque;

use self::spdy::Spdy;
use super::Fault;
use super::negotiate::Forward;
use super::outgoing::Outgoing;
use super::websocket::Channels;
use super::websocket::channels::News as ChannelNews;
use super::wire::Wire;
use crate::base::limits;

/// Number of a pair, unique within its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairId(u32);

/// A message of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// It asks for a connection to a port.
    Opened { pair: PairId, port: u16 },
    /// It sends bytes, never none; [`Pairs::taken`] notes when they are processed.
    Data { pair: PairId, bytes: Vec<u8> },
    /// It sends no more.
    Ended { pair: PairId },
    /// It gave the connection up.
    Reset { pair: PairId },
    /// It ended everything.
    Gone,
}

/// The pairs of one connection.
#[derive(Debug)]
pub struct Pairs {
    carrier: Carrier,
    /// Messages that came together.
    told: VecDeque<News>,
}

#[derive(Debug)]
enum Carrier {
    Spdy(Box<Spdy>),
    WebSocket {
        channels: Box<Channels>,
        /// Whether each port, in the order of the request, is still forwarded.
        open: Vec<bool>,
    },
}

impl Pairs {
    /// The pairs of a connection that was just upgraded to this protocol. `ports` are those of the request, which only
    /// WebSocket has there.
    #[must_use]
    pub fn new(protocol: Forward, ports: &[u16]) -> Pairs {
        let mut told = VecDeque::new();
        let spdy = |wire| Carrier::Spdy(Box::new(Spdy::new(wire)));
        let carrier = match protocol {
            Forward::Spdy => spdy(Wire::plain()),
            Forward::Tunnel => spdy(Wire::tunnel()),
            Forward::WebSocket(form) => {
                let mut channels = Box::new(Channels::new(form, false));
                for (at, port) in (0..).zip(ports) {
                    // The first message of each channel contains the port.
                    channels.send(data_channel(at), &port.to_le_bytes());
                    channels.send(error_channel(at), &port.to_le_bytes());
                    told.push_back(News::Opened { pair: PairId(at), port: *port });
                }
                Carrier::WebSocket { channels, open: vec![true; ports.len()] }
            }
        };
        Pairs { carrier, told }
    }

    /// Takes bytes of the client; only after [`Pairs::news`] returned `None`.
    pub fn receive(&mut self, bytes: &[u8]) {
        match &mut self.carrier {
            Carrier::Spdy(spdy) => spdy.wire.receive(bytes),
            Carrier::WebSocket { channels, .. } => channels.receive(bytes),
        }
    }

    /// The next message in the received bytes.
    ///
    /// # Errors
    /// The client breaks the protocol, or exceeds a bound; the connection ends then.
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

    /// Notes that so many bytes of a pair's data are processed.
    pub fn taken(&mut self, pair: PairId, count: usize) {
        if let Carrier::Spdy(spdy) = &mut self.carrier
            && let Some(data) = spdy.data_of(pair)
        {
            spdy.wire.session.taken(data, count);
        }
    }

    /// Sends bytes of the port.
    pub fn write(&mut self, pair: PairId, bytes: &[u8]) {
        match &mut self.carrier {
            Carrier::Spdy(spdy) => {
                if let Some(data) = spdy.data_of(pair) {
                    spdy.wire.session.send(data, bytes);
                }
            }
            Carrier::WebSocket { channels, open } => {
                if is_open(open, pair) && !bytes.is_empty() {
                    channels.send(data_channel(pair.0), bytes);
                }
            }
        }
    }

    /// Notes that the port sends no more.
    pub fn finish(&mut self, pair: PairId) {
        if let Carrier::Spdy(spdy) = &mut self.carrier
            && let Some(data) = spdy.data_of(pair)
        {
            spdy.wire.session.finish(data);
        }
    }

    /// Ends a pair; `wrong` is the error. For the client, no error text means success.
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

    /// Whether nothing more can be forwarded: over WebSocket each port is forwarded once.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.carrier {
            Carrier::Spdy(_) => false,
            Carrier::WebSocket { open, .. } => !open.contains(&true),
        }
    }

    /// Whether some pair is incomplete.
    #[must_use]
    pub fn has_halves(&self) -> bool {
        matches!(&self.carrier, Carrier::Spdy(spdy) if spdy.has_halves())
    }

    /// Gives up pairs that were incomplete at the last call, and still are. Called every [`limits::STREAMS_CREATED`].
    pub fn look(&mut self) {
        if let Carrier::Spdy(spdy) = &mut self.carrier {
            spdy.look();
        }
    }

    /// Ends all streams.
    pub fn end(&mut self) {
        match &mut self.carrier {
            Carrier::Spdy(spdy) => spdy.wire.close(),
            Carrier::WebSocket { channels, .. } => channels.close(),
        }
    }

    /// Takes bytes of the client after the end. Returns true when it has answered that: it needs nothing more.
    pub fn is_closed_by(&mut self, bytes: &[u8]) -> bool {
        match &mut self.carrier {
            Carrier::Spdy(spdy) => spdy.wire.is_closed_by(bytes),
            Carrier::WebSocket { channels, .. } => channels.is_closed_by(bytes),
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
/// The error in them, in the kubelet's words.
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

/// The data channel of the port at this index.
fn data_channel(at: u32) -> u8 {
    u8::try_from(at.saturating_mul(2)).unwrap_or(u8::MAX)
}

/// The error channel of the port at this index.
fn error_channel(at: u32) -> u8 {
    data_channel(at).saturating_add(1)
}

fn is_open(open: &[bool], pair: PairId) -> bool {
    open.get(pair.0 as usize).copied().unwrap_or(false)
}

#[cfg(test)]
mod tests;
