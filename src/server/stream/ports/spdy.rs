//! Pairs of SPDY streams: which two streams belong together, and the meaning of their data.
//!
//! Never here: a pair that is kept after its end, or a half that waits for ever.

use std::collections::VecDeque;

use super::{News, PairId};
use crate::base::limits;
use crate::base::table::Table;
use crate::server::stream::spdy::frame::Reason;
use crate::server::stream::spdy::{Event, Headers, StreamId};
use crate::server::stream::wire::{Heard, Wire};

/// Pairs of SPDY streams.
#[derive(Debug)]
pub struct Spdy {
    pub wire: Wire,
    last: u32,
    pairs: Table<PairId, Pair>,
    streams: Table<StreamId, PairId>,
    /// Incomplete pairs, by the client's request id.
    halves: Table<String, Half>,
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
    /// Data that came before the error stream.
    early: Vec<u8>,
    is_ended: bool,
    /// It existed at the last look: see [`super::Pairs::look`].
    is_old: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Error,
}

impl Spdy {
    /// An empty set of pairs.
    pub fn new(wire: Wire) -> Spdy {
        let (pairs, streams, halves) = (Table::new(), Table::new(), Table::new());
        Spdy { wire, last: 0, pairs, streams, halves }
    }

    /// The data stream of a pair.
    pub fn data_of(&self, pair: PairId) -> Option<StreamId> {
        self.pairs.get(&pair).map(|pair| pair.data)
    }

    /// See [`super::Pairs::has_halves`].
    pub fn has_halves(&self) -> bool {
        !self.halves.is_empty()
    }

    /// See [`super::Pairs::look`].
    pub fn look(&mut self) {
        let session = &mut self.wire.session;
        self.halves.retain(|request, half| {
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

    /// Takes an event of the client.
    pub fn heard(&mut self, heard: Heard, told: &mut VecDeque<News>) {
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
                // Data on an error stream is ignored: clients never send any, and end it at once.
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
            // Open pairs continue until the connection ends.
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
            // A second stream of the same kind replaces the first, like one that is requested anew.
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
        // The port of the data stream counts, as in the kubelet.
        let port = if kind == Kind::Data { port } else { half.port };
        self.pairs.insert(pair, Pair { data, error });
        self.streams.insert(data, pair);
        self.streams.insert(error, pair);
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

    /// Keeps data of an incomplete pair, within bounds.
    fn early(&mut self, stream: StreamId, bytes: &[u8]) {
        let half = self.halves.values_mut().find(|half| half.stream == stream && half.kind == Kind::Data);
        let Some(half) = half else { return self.wire.session.taken(stream, bytes.len()) };
        half.early.extend_from_slice(bytes);
        let is_long = half.early.len() > limits::FORWARD_EARLY;
        let all: usize = self.halves.values().map(|half| half.early.len()).sum();
        if is_long || all > limits::FORWARD_WAITING {
            self.halves.retain(|_, half| half.stream != stream);
            self.wire.session.reset(stream, Reason::Cancel);
        }
    }

    fn pair_of(&self, stream: StreamId) -> Option<(PairId, Kind)> {
        let pair = *self.streams.get(&stream)?;
        let kind = if self.pairs.get(&pair)?.data == stream { Kind::Data } else { Kind::Error };
        Some((pair, kind))
    }

    /// Ends a pair; `wrong` is the error.
    pub fn close(&mut self, pair: PairId, wrong: &[u8]) {
        let Some(Pair { data, error }) = self.pairs.remove(&pair) else { return };
        self.streams.remove(&data);
        self.streams.remove(&error);
        let session = &mut self.wire.session;
        session.send(error, wrong);
        session.finish(error);
        session.finish(data);
    }
}

/// The pair, kind and port of a stream; `None` when its headers do not have them.
fn asked(stream: StreamId, headers: &Headers) -> Option<(String, Kind, u16)> {
    let port = headers.get("port")?.parse().ok().filter(|port| *port > 0)?;
    let kind = match headers.get("streamtype")? {
        "error" => Kind::Error,
        "data" => Kind::Data,
        _ => return None,
    };
    let request = match headers.get("requestid").filter(|id| !id.is_empty()) {
        // It is kept as long as the pair is incomplete.
        Some(id) if id.len() > limits::FORWARD_REQUEST => return None,
        Some(id) => id.to_owned(),
        // Old clients send none, and open the error stream first: its number is used for both.
        None if kind == Kind::Error => stream.to_string(),
        None => stream.saturating_sub(2).to_string(),
    };
    Some((request, kind, port))
}
