//! The body of a request, from bytes as they come.
//!
//! Never here: a buffer. Bytes go straight to the caller, who has a bound for them.

use super::request::{Framing, Refused};
use crate::base::limits;

/// A reader of one body.
#[derive(Debug)]
pub struct Reader {
    state: State,
    /// Of the line before a chunk, or of the trailers.
    line: Vec<u8>,
    trailer: usize,
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
    Done,
    Failed(Refused),
}

const MALFORMED: Refused = Refused { status: 400, why: "the body of the request is not properly chunked" };

impl Reader {
    /// A reader of a body that ends in this way.
    #[must_use]
    pub fn new(framing: Framing) -> Reader {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::ChunkLine,
        };
        Reader { state, line: Vec::new(), trailer: 0 }
    }

    /// Whether the body has been read to its end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Bytes that are still to come, where that is known.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Takes `input`, appends what belongs to the body to `out`, and tells how many bytes were taken: all, unless the
    /// body ends before.
    ///
    /// # Errors
    /// Bytes that are no body. Every later call fails in the same way.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, Refused> {
        let mut rest = input;
        while !rest.is_empty() && self.state != State::Done {
            self.step(&mut rest, out).inspect_err(|why| self.state = State::Failed(*why))?;
        }
        Ok(input.len().saturating_sub(rest.len()))
    }

    /// Takes at least one byte, or changes the state.
    fn step(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        match self.state {
            State::Length(left) => {
                let left = take(rest, left, out);
                self.state = if left == 0 { State::Done } else { State::Length(left) };
            }
            State::Chunk(left) => {
                let left = take(rest, left, out);
                self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
            }
            State::ChunkLine => return self.chunk_line(next(rest)),
            State::ChunkEnd => match next(rest) {
                b'\r' if self.line.is_empty() => self.line.push(b'\r'),
                b'\n' => {
                    self.line.clear();
                    self.state = State::ChunkLine;
                }
                _ => return Err(MALFORMED),
            },
            State::Trailer => return self.trailer(next(rest)),
            State::Done => {}
            State::Failed(why) => return Err(why),
        }
        Ok(())
    }

    fn chunk_line(&mut self, byte: u8) -> Result<(), Refused> {
        if byte != b'\n' {
            self.line.push(byte);
            return if self.line.len() > limits::HTTP_CHUNK_LINE { Err(MALFORMED) } else { Ok(()) };
        }
        let line = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(&line).map_err(|_| MALFORMED)?;
        let digits = line.split(';').next().unwrap_or_default().trim_matches([' ', '\t', '\r']);
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let size = u64::from_str_radix(digits, 16).ok().filter(|_| is_number).ok_or(MALFORMED)?;
        self.state = if size == 0 { State::Trailer } else { State::Chunk(size) };
        Ok(())
    }

    /// Trailers are skipped; only their length counts.
    fn trailer(&mut self, byte: u8) -> Result<(), Refused> {
        self.trailer = self.trailer.saturating_add(1);
        if self.trailer > limits::HTTP_CHUNK_LINE {
            return Err(MALFORMED);
        }
        match byte {
            b'\n' if self.line.is_empty() => self.state = State::Done,
            b'\n' => self.line.clear(),
            b'\r' => {}
            // That the line is not empty is all that counts.
            _ if self.line.is_empty() => self.line.push(byte),
            _ => {}
        }
        Ok(())
    }
}

/// The next byte; the caller has checked that there is one.
fn next(rest: &mut &[u8]) -> u8 {
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

#[cfg(test)]
mod tests;
