//! HTTP/1.1 answers, parsed from bytes as they arrive. Pure: no socket, no clock.
//!
//! Never here: a panic, an unbounded buffer, or a result that depends on how the bytes were split over
//! reads. Body bytes go straight to the caller; only the head is kept.

use std::fmt;

use crate::base::http::{self, Body, Broken, Framing};
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
    /// The connection can carry another request once the body was read to its end.
    pub keep_alive: bool,
    /// `Api-Version`: the newest API the engine speaks.
    pub api_version: Option<String>,
    /// `Location`: the target of a redirect.
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
    /// Bytes of the head being read.
    line: Vec<u8>,
    /// The current line of the head is empty so far.
    line_empty: bool,
    interim: usize,
    limit: u64,
}

#[derive(Debug)]
enum State {
    Head,
    Body(Body),
    Done,
    Failed(Malformed),
}

impl Parser {
    /// A parser that accepts a body of at most `limit` bytes; a longer answer is malformed.
    #[must_use]
    pub fn new(limit: u64) -> Parser {
        Parser { state: State::Head, head: None, line: Vec::new(), line_empty: true, interim: 0, limit }
    }

    /// A parser past its head that passes on every byte: for a hijacked connection.
    #[must_use]
    pub fn raw() -> Parser {
        let body = Body::new(Framing::UntilClose, u64::MAX);
        Parser { state: State::Body(body), ..Parser::new(u64::MAX) }
    }

    /// Removes the bound on the rest of the body, which is read as a stream from here.
    pub fn remove_limit(&mut self) {
        self.limit = u64::MAX;
        if let State::Body(body) = &mut self.state {
            body.remove_limit();
        }
    }

    /// The head, once it has been read.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Whether the answer was read to its end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.state {
            State::Done => true,
            State::Body(body) => body.is_done(),
            State::Head | State::Failed(_) => false,
        }
    }

    /// Called at the end of the connection. Returns whether that is a proper end of the answer.
    pub fn finish(&mut self) -> bool {
        if let State::Body(body) = &mut self.state {
            body.close();
        }
        self.is_done()
    }

    /// Takes `input`, appends body bytes to `body`, and returns how many bytes were taken: all of them,
    /// unless the answer ended before. The rest after a 101 belongs to the upgraded protocol.
    ///
    /// # Errors
    /// The bytes are not HTTP, or exceed a bound. Every later call fails with the same error.
    pub fn feed(&mut self, input: &[u8], body: &mut Vec<u8>) -> Result<usize, Malformed> {
        let mut rest = input;
        while !rest.is_empty() && !self.is_done() {
            if let Err(why) = self.step(&mut rest, body) {
                self.state = State::Failed(why);
                return Err(why);
            }
        }
        Ok(input.len().saturating_sub(rest.len()))
    }

    /// Takes at least one byte or changes the state.
    fn step(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        match &mut self.state {
            State::Head => self.head_byte(http::next(rest)),
            State::Body(body) => body.feed(rest, out).map_err(|why| match why {
                Broken::TooLong => TOO_LONG,
                why => Malformed(why.words()),
            }),
            State::Done => Ok(()),
            State::Failed(why) => Err(*why),
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
            Framing::Length(n) if n > self.limit => return Err(TOO_LONG),
            framing => State::Body(Body::new(framing, self.limit)),
        };
        // Without a length the body ends with the connection.
        let is_open = matches!(self.state, State::Body(_)) && framing == Framing::UntilClose;
        let keep_alive = head.keep_alive && !is_open && head.status != 101;
        self.head = Some(Head { keep_alive, ..head });
        Ok(())
    }
}

/// The body has more bytes than the parser accepts.
pub const TOO_LONG: Malformed = Malformed("the answer is too long");

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
