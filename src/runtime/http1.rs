//! HTTP/1.1 answers, parsed from bytes as they come. Pure: no socket, no clock.
//!
//! What must not happen here: a panic, an unbounded buffer, or a result that depends on how the bytes were
//! split over reads. Body bytes go straight to the caller; only the head is kept.

use std::fmt;

use crate::base::limits;

/// The bytes are not an HTTP/1.1 answer within our bounds, for this reason. The connection is useless
/// afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The parts of an answer's head that podkeeper needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// 101, or 200 to 999.
    pub status: u16,
    /// The connection can carry another request once the body is read to its end.
    pub keep_alive: bool,
    /// `Api-Version`: the newest API the engine speaks.
    pub api_version: Option<String>,
    /// `Location`: where a redirect leads.
    pub location: Option<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Retry-After` in seconds; the form with a date is not read.
    pub retry_after: Option<u64>,
}

/// A parser of one answer. Interim 1xx answers are skipped; 101 ends the HTTP part of the connection.
#[derive(Debug)]
pub struct Parser {
    state: State,
    head: Option<Head>,
    /// Bytes of the head being read, or of the chunk line.
    line: Vec<u8>,
    /// The current line of the head or trailers is empty so far.
    line_empty: bool,
    interim: usize,
    trailer: usize,
    limit: u64,
    taken: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// Bytes left.
    Length(u64),
    ChunkLine,
    /// Bytes left.
    ChunkData(u64),
    ChunkEnd,
    Trailer,
    UntilClose,
    Done,
    Failed(Malformed),
}

impl Parser {
    /// A parser that takes a body of at most `limit` bytes; a longer answer is malformed.
    #[must_use]
    pub fn new(limit: u64) -> Parser {
        Parser {
            state: State::Head,
            head: None,
            line: Vec::new(),
            line_empty: true,
            interim: 0,
            trailer: 0,
            limit,
            taken: 0,
        }
    }

    /// A parser past its head that passes on every byte: for a hijacked connection.
    #[must_use]
    pub fn raw() -> Parser {
        Parser { state: State::UntilClose, ..Parser::new(u64::MAX) }
    }

    /// Removes the bound on the rest of the body, which is read as a stream from here.
    pub fn remove_limit(&mut self) {
        self.limit = u64::MAX;
    }

    /// The head, once it has been read.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The answer has been read to its end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Called at the end of the connection. True when that is a proper end of the answer.
    pub fn finish(&mut self) -> bool {
        if self.state == State::UntilClose {
            self.state = State::Done;
        }
        self.is_done()
    }

    /// Takes `input`, appends body bytes to `body`, and returns how many bytes were taken: all of them,
    /// unless the answer ended before. The rest after a 101 belongs to the upgraded protocol.
    ///
    /// # Errors
    /// Bytes that are not HTTP, or past a bound. Every later call fails in the same way.
    pub fn feed(&mut self, input: &[u8], body: &mut Vec<u8>) -> Result<usize, Malformed> {
        let mut rest = input;
        while !rest.is_empty() && self.state != State::Done {
            if let Err(why) = self.step(&mut rest, body) {
                self.state = State::Failed(why);
                return Err(why);
            }
        }
        Ok(input.len().saturating_sub(rest.len()))
    }

    /// Takes at least one byte or changes the state.
    fn step(&mut self, rest: &mut &[u8], body: &mut Vec<u8>) -> Result<(), Malformed> {
        match self.state {
            State::Head => self.head_byte(next(rest)),
            State::ChunkLine => self.chunk_line_byte(next(rest)),
            State::Trailer => self.trailer_byte(next(rest)),
            State::ChunkEnd => match next(rest) {
                b'\r' => Ok(()),
                b'\n' => {
                    self.state = State::ChunkLine;
                    Ok(())
                }
                _ => Err(Malformed("a chunk is longer than it said")),
            },
            State::Length(left) => {
                let left = take(rest, left, body);
                self.state = if left == 0 { State::Done } else { State::Length(left) };
                Ok(())
            }
            State::ChunkData(left) => {
                let left = take(rest, left, body);
                self.state = if left == 0 { State::ChunkEnd } else { State::ChunkData(left) };
                Ok(())
            }
            State::UntilClose => {
                let room = self.limit.saturating_sub(self.taken);
                let left = take(rest, room, body);
                self.taken = self.limit.saturating_sub(left);
                if rest.is_empty() { Ok(()) } else { Err(TOO_LONG) }
            }
            State::Done => Ok(()),
            State::Failed(why) => Err(why),
        }
    }

    fn head_byte(&mut self, byte: u8) -> Result<(), Malformed> {
        self.line.push(byte);
        if self.line.len() > limits::HTTP_HEAD {
            return Err(Malformed("the answer's head is too long"));
        }
        match byte {
            b'\n' if self.line_empty => self.head_end(),
            b'\n' => {
                self.line_empty = true;
                Ok(())
            }
            b'\r' => Ok(()),
            _ => {
                self.line_empty = false;
                Ok(())
            }
        }
    }

    fn head_end(&mut self) -> Result<(), Malformed> {
        let bytes = std::mem::take(&mut self.line);
        self.line_empty = true;
        let (head, framing) = parse_head(&bytes)?;
        if (100..200).contains(&head.status) && head.status != 101 {
            self.interim = self.interim.saturating_add(1);
            if self.interim > limits::HTTP_INTERIM {
                return Err(Malformed("too many interim answers"));
            }
            return Ok(());
        }
        self.state = match framing {
            _ if matches!(head.status, 101 | 204 | 304) => State::Done,
            Framing::Length(0) => State::Done,
            Framing::Length(n) if n > self.limit => return Err(TOO_LONG),
            Framing::Length(n) => State::Length(n),
            Framing::Chunked => State::ChunkLine,
            Framing::UntilClose => State::UntilClose,
        };
        // Without a length the end of the connection is the end of the body.
        let keep_alive = head.keep_alive && self.state != State::UntilClose && head.status != 101;
        self.head = Some(Head { keep_alive, ..head });
        Ok(())
    }

    fn chunk_line_byte(&mut self, byte: u8) -> Result<(), Malformed> {
        if byte != b'\n' {
            self.line.push(byte);
            return if self.line.len() > limits::HTTP_CHUNK_LINE {
                Err(Malformed("the line before a chunk is too long"))
            } else {
                Ok(())
            };
        }
        let size = chunk_size(&self.line).ok_or(Malformed("the size of a chunk is not a number"))?;
        self.line.clear();
        self.taken = self.taken.checked_add(size).filter(|&n| n <= self.limit).ok_or(TOO_LONG)?;
        self.line_empty = true;
        self.state = if size == 0 { State::Trailer } else { State::ChunkData(size) };
        Ok(())
    }

    /// Trailers are skipped; only their total length counts.
    fn trailer_byte(&mut self, byte: u8) -> Result<(), Malformed> {
        self.trailer = self.trailer.saturating_add(1);
        if self.trailer > limits::HTTP_HEAD {
            return Err(Malformed("the trailers are too long"));
        }
        match byte {
            b'\n' if self.line_empty => self.state = State::Done,
            b'\n' => self.line_empty = true,
            b'\r' => {}
            _ => self.line_empty = false,
        }
        Ok(())
    }
}

const TOO_LONG: Malformed = Malformed("the answer is too long");

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

/// Moves up to `left` bytes to `body`; returns how many are still missing.
fn take(rest: &mut &[u8], left: u64, body: &mut Vec<u8>) -> u64 {
    let n = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
    let (now, later) = rest.split_at(n);
    body.extend_from_slice(now);
    *rest = later;
    left.saturating_sub(n as u64)
}

/// The hexadecimal number before any extension.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let digits = line.split(';').next()?.trim_matches([' ', '\t', '\r']);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// How the end of the body is recognised.
enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

fn parse_head(bytes: &[u8]) -> Result<(Head, Framing), Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; limits::HTTP_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(n)) if n == bytes.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed("too many headers")),
        _ => return Err(Malformed("this is not an HTTP answer")),
    }
    let mut head = Head {
        status: response.code.unwrap_or(0),
        keep_alive: response.version == Some(1),
        ..Head::default()
    };
    if head.status < 100 {
        return Err(Malformed("the status is not a number from 100 to 999"));
    }
    let mut length = None;
    let mut chunked = false;
    for header in response.headers.iter() {
        let value = String::from_utf8_lossy(header.value);
        let value = value.trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            let n = decimal(value).ok_or(Malformed("Content-Length is not a number"))?;
            if length.is_some_and(|before| before != n) {
                return Err(Malformed("two different Content-Length headers"));
            }
            length = Some(n);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(Malformed("a Transfer-Encoding other than chunked"));
            }
            chunked = true;
        } else if header.name.eq_ignore_ascii_case("connection") {
            for token in value.split(',').map(str::trim) {
                if token.eq_ignore_ascii_case("close") {
                    head.keep_alive = false;
                } else if token.eq_ignore_ascii_case("keep-alive") && response.version == Some(0) {
                    head.keep_alive = true;
                }
            }
        } else if header.name.eq_ignore_ascii_case("api-version") {
            head.api_version = Some(value.to_owned());
        } else if header.name.eq_ignore_ascii_case("location") {
            head.location = Some(value.to_owned());
        } else if header.name.eq_ignore_ascii_case("content-type") {
            head.content_type = Some(value.to_owned());
        } else if header.name.eq_ignore_ascii_case("retry-after") {
            head.retry_after = decimal(value);
        }
    }
    let framing = match length {
        _ if chunked => Framing::Chunked,
        Some(n) => Framing::Length(n),
        None => Framing::UntilClose,
    };
    Ok((head, framing))
}

/// Digits only: no sign, no blanks, no overflow.
fn decimal(text: &str) -> Option<u64> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests;
