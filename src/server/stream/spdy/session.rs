//! The state of one SPDY connection: open streams, and their open sides.
//!
//! [`Session::receive`] takes the client's bytes, and [`Session::news`] returns their events until there are none. Each
//! accepted stream is answered with SYN_REPLY before any data: spdystream drops data of a stream without one.

use super::frame::{Control, FIN, HEAD, Head, Reason, Sent, UNIDIRECTIONAL};
use super::headers::{Empty, Headers, Inflater};
use crate::base::limits;
use crate::base::table::Table;
use crate::server::stream::outgoing::Outgoing;
use crate::server::stream::{Fault, fault};

/// A stream's number: odd, rising, from 1 to 2³¹ − 1. Zero is the connection.
pub type StreamId = u32;

/// An event of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It opened a stream; [`Session::accept`] or [`Session::reset`] answers.
    Opened { stream: StreamId, headers: Headers },
    /// It sent bytes on a stream, never none; [`Session::taken`] notes when they are processed.
    Data { stream: StreamId, bytes: Vec<u8> },
    /// It sends no more on a stream.
    Finished { stream: StreamId },
    /// It ended a stream in both directions.
    Reset { stream: StreamId },
    /// It opens no more streams.
    GoneAway,
}

/// An open stream.
#[derive(Debug, Default)]
struct Stream {
    /// The client sends no more.
    heard: bool,
    /// We send no more.
    said: bool,
    /// Processed bytes that are not acknowledged yet.
    taken: u32,
}

/// An incomplete data frame.
#[derive(Debug)]
struct Data {
    stream: StreamId,
    left: usize,
    fin: bool,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    input: Vec<u8>,
    at: usize,
    data: Option<Data>,
    inflater: Inflater,
    replies: Empty,
    streams: Table<StreamId, Stream>,
    /// The highest stream that the client opened.
    last: StreamId,
    /// The stream of the last event ended with it: the next event.
    finished: Option<StreamId>,
    taken: u32,
    leaving: bool,
    output: Outgoing,
}

impl Default for Session {
    fn default() -> Session {
        Session::new()
    }
}

impl Session {
    /// The state of a new connection.
    #[must_use]
    pub fn new() -> Session {
        Session {
            input: Vec::new(),
            at: 0,
            data: None,
            inflater: Inflater::new(),
            replies: Empty::default(),
            streams: Table::new(),
            last: 0,
            finished: None,
            taken: 0,
            leaving: false,
            output: Outgoing::default(),
        }
    }

    /// Takes bytes of the client; only after [`Session::news`] returned `None`.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.drain(..self.at.min(self.input.len()));
        self.at = 0;
        self.input.extend_from_slice(bytes);
    }

    /// The next event in the received bytes.
    ///
    /// # Errors
    /// The client breaks the protocol, or exceeds a bound; the connection ends then.
    pub fn news(&mut self) -> Result<Option<Event>, Fault> {
        if let Some(event) = self.finished.take().and_then(|stream| self.heard_end(stream)) {
            return Ok(Some(event));
        }
        loop {
            if let Some(data) = self.data.take() {
                match self.read_data(data) {
                    Step::Wait => return Ok(None),
                    Step::Tell(event) => return Ok(Some(event)),
                    Step::Nothing => continue,
                }
            }
            let Some(head) = self.rest().first_chunk::<HEAD>() else { return Ok(None) };
            match Head::parse(*head)? {
                Head::Data { stream, flags, length } => {
                    self.advance(HEAD);
                    self.data = Some(Data { stream, left: length, fin: flags & FIN != 0 });
                }
                Head::Control { kind, flags, length } => {
                    if length > limits::SPDY_CONTROL {
                        return fault("a SPDY control frame that is too long");
                    }
                    let end = self.at.saturating_add(HEAD).saturating_add(length);
                    let Some(body) = self.input.get(self.at.saturating_add(HEAD)..end) else {
                        return Ok(None);
                    };
                    let body = body.to_vec();
                    self.advance(HEAD.saturating_add(length));
                    if let Some(event) = self.control(&Control::parse(kind, &body)?, flags)? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    fn rest(&self) -> &[u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    fn advance(&mut self, count: usize) {
        self.at = self.at.saturating_add(count);
    }

    fn read_data(&mut self, data: Data) -> Step {
        let Data { stream, left, fin } = data;
        let count = left.min(self.rest().len());
        let wanted = self.streams.get(&stream).is_some_and(|open| !open.heard);
        let bytes = self.rest().get(..count).filter(|_| wanted).unwrap_or_default().to_vec();
        self.advance(count);
        if !wanted {
            // Unwanted bytes count as processed for the windows.
            self.acknowledge(count);
        }
        let left = left.saturating_sub(count);
        if left > 0 {
            self.data = Some(Data { stream, left, fin });
        }
        let ends = fin && left == 0;
        match bytes.is_empty() {
            false => {
                self.finished = ends.then_some(stream);
                Step::Tell(Event::Data { stream, bytes })
            }
            true if left > 0 => Step::Wait,
            true if ends => self.heard_end(stream).map_or(Step::Nothing, Step::Tell),
            true => Step::Nothing,
        }
    }

    fn control(&mut self, frame: &Control<'_>, flags: u8) -> Result<Option<Event>, Fault> {
        match *frame {
            Control::Open { stream, headers } => {
                // Headers are read even for a refused stream: later blocks depend on them.
                let headers = self.inflater.read(headers)?;
                Ok(self.open(stream, headers, flags))
            }
            Control::Headers { stream, headers } => {
                self.inflater.read(headers)?;
                Ok(if flags & FIN == 0 { None } else { self.heard_end(stream) })
            }
            Control::Reset { stream } => Ok(self.streams.remove(&stream).map(|_| Event::Reset { stream })),
            Control::Ping { id } => {
                // Even ids would be answers to pings of ours, and there are none.
                if id % 2 == 1 {
                    self.send_frame(&Sent::Ping { id });
                }
                Ok(None)
            }
            Control::GoAway => Ok(Some(Event::GoneAway)),
            Control::Other => Ok(None),
        }
    }

    fn open(&mut self, stream: StreamId, headers: Headers, flags: u8) -> Option<Event> {
        let refused = if stream.is_multiple_of(2) || stream <= self.last {
            Some(Reason::ProtocolError)
        } else if self.leaving || self.streams.len() >= limits::SPDY_STREAMS {
            Some(Reason::Refused)
        } else {
            None
        };
        if let Some(reason) = refused {
            self.send_frame(&Sent::Reset { stream, reason });
            return None;
        }
        self.last = stream;
        self.streams.insert(stream, Stream { said: flags & UNIDIRECTIONAL != 0, ..Stream::default() });
        if flags & FIN != 0 {
            self.finished = Some(stream);
        }
        Some(Event::Opened { stream, headers })
    }

    fn heard_end(&mut self, stream: StreamId) -> Option<Event> {
        let open = self.streams.get_mut(&stream).filter(|open| !open.heard)?;
        open.heard = true;
        if open.said {
            self.streams.remove(&stream);
        }
        Some(Event::Finished { stream })
    }

    /// Accepts a stream.
    pub fn accept(&mut self, stream: StreamId) {
        if self.streams.contains_key(&stream) {
            let headers = self.replies.block();
            self.send_frame(&Sent::Reply { stream, headers: &headers });
        }
    }

    /// Ends a stream in both directions.
    pub fn reset(&mut self, stream: StreamId, reason: Reason) {
        if self.streams.remove(&stream).is_some() {
            self.send_frame(&Sent::Reset { stream, reason });
        }
    }

    /// Sends bytes on a stream; drops them when the stream is over.
    pub fn send(&mut self, stream: StreamId, bytes: &[u8]) {
        if self.streams.get(&stream).is_some_and(|open| !open.said) {
            for bytes in bytes.chunks(limits::SPDY_DATA) {
                self.send_frame(&Sent::Data { stream, flags: 0, bytes });
            }
        }
    }

    /// Ends our side of a stream.
    pub fn finish(&mut self, stream: StreamId) {
        let Some(open) = self.streams.get_mut(&stream).filter(|open| !open.said) else { return };
        open.said = true;
        if open.heard {
            self.streams.remove(&stream);
        }
        self.send_frame(&Sent::Data { stream, flags: FIN, bytes: &[] });
    }

    /// Notes that `count` bytes of a stream's data are processed.
    pub fn taken(&mut self, stream: StreamId, count: usize) {
        self.acknowledge(count);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let Some(open) = self.streams.get_mut(&stream).filter(|open| !open.heard) else { return };
        open.taken = open.taken.saturating_add(count);
        if open.taken >= limits::SPDY_ACKNOWLEDGE {
            let bytes = std::mem::take(&mut open.taken);
            self.send_frame(&Sent::Taken { stream, bytes });
        }
    }

    /// Notes processed bytes of the connection.
    fn acknowledge(&mut self, count: usize) {
        self.taken = self.taken.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        if self.taken >= limits::SPDY_ACKNOWLEDGE {
            let bytes = std::mem::take(&mut self.taken);
            self.send_frame(&Sent::Taken { stream: 0, bytes });
        }
    }

    /// Announces that no more streams are accepted.
    pub fn go_away(&mut self) {
        if !std::mem::replace(&mut self.leaving, true) {
            let last = self.last;
            self.send_frame(&Sent::GoAway { last });
        }
    }

    fn send_frame(&mut self, frame: &Sent<'_>) {
        let (head, rest) = frame.encode();
        self.output.push(&head);
        self.output.push(rest);
    }

    /// Number of open streams.
    #[cfg(test)]
    pub fn streams_open(&self) -> usize {
        self.streams.len()
    }

    /// Bytes for the client.
    pub fn output(&mut self) -> &mut Outgoing {
        &mut self.output
    }
}

enum Step {
    Tell(Event),
    Nothing,
    Wait,
}
