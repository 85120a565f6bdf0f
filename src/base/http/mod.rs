//! Bodies of HTTP/1.1 messages, received and sent to podkeeper, parsed from bytes as they arrive. Pure.
//!
//! Never here: a buffer, or a result that depends on how the bytes were split over reads. Bytes go straight to the
//! caller, who has a bound for them.

use std::fmt;

use crate::base::limits;

/// How the end of a body is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// The body has this many bytes.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The body ends with the connection.
    UntilClose,
}

/// Why bytes are not a valid body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The body is longer than the caller's bound.
    TooLong,
    ChunkSize,
    ChunkLine,
    ChunkEnd,
    Trailers,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl Broken {
    /// The error as text.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Broken::TooLong => "the body is too long",
            Broken::ChunkSize => "the size of a chunk is not a number",
            Broken::ChunkLine => "the line before a chunk is too long",
            Broken::ChunkEnd => "a chunk is longer than it said",
            Broken::Trailers => "the trailers are too long",
        }
    }
}

/// A reader of one body.
#[derive(Debug)]
pub struct Body {
    state: State,
    /// The line before or after a chunk; for a trailer only whether it has begun.
    line: Vec<u8>,
    trailer: usize,
    /// Bytes that the body may still have, if its length is not known in advance.
    room: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Bytes left.
    Length(u64),
    ChunkLine,
    /// Bytes left of this chunk.
    Chunk(u64),
    ChunkEnd,
    Trailer,
    UntilClose,
    Done,
    Failed(Broken),
}

impl Body {
    /// A reader of a body with this framing, which has at most `limit` bytes if its length is not known in advance.
    #[must_use]
    pub fn new(framing: Framing, limit: u64) -> Body {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::ChunkLine,
            Framing::UntilClose => State::UntilClose,
        };
        Body { state, line: Vec::new(), trailer: 0, room: limit }
    }

    /// Removes the bound on the rest of the body.
    pub fn remove_limit(&mut self) {
        self.room = u64::MAX;
    }

    /// Whether the body has been read to its end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reports that the connection has ended.
    pub fn close(&mut self) {
        if self.state == State::UntilClose {
            self.state = State::Done;
        }
    }

    /// Number of remaining bytes, if known.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Consumes the beginning of `rest`, all of it unless the body ends before, and appends the body's bytes to `out`.
    ///
    /// # Errors
    /// The bytes are not a valid body, or the body exceeds the bound. Every later call fails with the same error.
    pub fn feed(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        while !rest.is_empty() && self.state != State::Done {
            self.step(rest, out).inspect_err(|why| self.state = State::Failed(*why))?;
        }
        Ok(())
    }

    /// Takes at least one byte, or changes the state.
    fn step(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        match self.state {
            State::Length(left) => {
                let left = take(rest, left, out);
                self.state = if left == 0 { State::Done } else { State::Length(left) };
            }
            State::Chunk(left) => {
                let left = take(rest, left, out);
                self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
            }
            State::UntilClose => {
                self.room = take(rest, self.room, out);
                if !rest.is_empty() {
                    return Err(Broken::TooLong);
                }
            }
            State::ChunkLine => return self.chunk_line(next(rest)),
            State::ChunkEnd => match next(rest) {
                b'\r' if self.line.is_empty() => self.line.push(b'\r'),
                b'\n' => {
                    self.line.clear();
                    self.state = State::ChunkLine;
                }
                _ => return Err(Broken::ChunkEnd),
            },
            State::Trailer => return self.trailer(next(rest)),
            State::Done => {}
            State::Failed(why) => return Err(why),
        }
        Ok(())
    }

    fn chunk_line(&mut self, byte: u8) -> Result<(), Broken> {
        if byte != b'\n' {
            self.line.push(byte);
            return if self.line.len() > limits::HTTP_CHUNK_LINE { Err(Broken::ChunkLine) } else { Ok(()) };
        }
        let size = chunk_size(&self.line).ok_or(Broken::ChunkSize)?;
        self.line.clear();
        self.room = self.room.checked_sub(size).ok_or(Broken::TooLong)?;
        self.state = if size == 0 { State::Trailer } else { State::Chunk(size) };
        Ok(())
    }

    /// Trailers are skipped; only their length counts.
    fn trailer(&mut self, byte: u8) -> Result<(), Broken> {
        self.trailer = self.trailer.saturating_add(1);
        if self.trailer > limits::HTTP_TRAILERS {
            return Err(Broken::Trailers);
        }
        match byte {
            b'\n' if self.line.is_empty() => self.state = State::Done,
            b'\n' => self.line.clear(),
            b'\r' => {}
            // Only whether the line is empty matters.
            _ if self.line.is_empty() => self.line.push(byte),
            _ => {}
        }
        Ok(())
    }
}

/// The next byte; the caller has checked that there is one.
pub fn next(rest: &mut &[u8]) -> u8 {
    match rest.split_first() {
        Some((&first, tail)) => {
            *rest = tail;
            first
        }
        None => 0,
    }
}

/// Moves up to `left` bytes to `out`; returns how many are still missing.
fn take(rest: &mut &[u8], left: u64, out: &mut Vec<u8>) -> u64 {
    let n = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
    let (now, later) = rest.split_at(n);
    out.extend_from_slice(now);
    *rest = later;
    left.saturating_sub(n as u64)
}

/// The chunk size: the hexadecimal number before any extension.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let digits = line.split(';').next()?.trim_matches([' ', '\t', '\r']);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests;
