//! One request and its answer on one connection, advanced without blocking. If the API version is not known
//! yet, a `/_ping` that asks for it is sent first on the same connection.
//!
//! A request must never be sent twice. Once a byte of it was sent, the answer decides, or the error says that
//! the outcome is unknown (kubernetes/kubernetes#40443 began with a lost reply).

use std::os::fd::{AsFd, BorrowedFd};

use super::client::Client;
use super::connection::Connection;
use super::http1::{Head, Malformed, Parser, TOO_LONG};
use super::list::{ListReader, Listed};
use super::refusal::refusal;
use super::request::Request;
use super::types::DockerError;
use crate::base::concealed::Concealed;
use crate::base::limits;

/// How far to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Until the head was read (and, for a refusal, until the end).
    Head,
    /// Until the answer has been read to its end.
    End,
}

/// The answer as far as it was requested.
#[derive(Debug)]
pub struct Answer {
    /// Status and headers.
    pub head: Head,
    /// Body read so far; all of it under [`Goal::End`], unless it was a list. After a 101, the bytes that
    /// followed the head.
    pub body: Concealed<Vec<u8>>,
    /// The list that was read instead of a body, in [`Exchange::begin_list`].
    pub list: Option<Box<ListReader>>,
}

/// A request in flight.
#[derive(Debug)]
pub struct Exchange {
    client: Client,
    connection: Connection,
    what: String,
    /// The request to send once the ping has returned the version.
    next: Option<Request>,
    pinging: bool,
    out: Concealed<Vec<u8>>,
    sent: usize,
    /// The socket has accepted a byte of this request.
    started: bool,
    parser: Parser,
    body: Concealed<Vec<u8>>,
    /// Reads the body of a successful answer as it arrives.
    list: Option<Box<ListReader>>,
    /// Most bytes of the answer's body.
    most: u64,
    /// Bytes arrived after the end of the answer.
    stray: bool,
    /// Total bytes received.
    received: u64,
}

impl Exchange {
    /// Takes a connection and writes as much as the socket accepts. `None` only asks for the version.
    ///
    /// # Errors
    /// [`DockerError::Unreachable`]: the request was not sent.
    pub fn begin(client: &Client, request: Option<Request>) -> Result<Exchange, DockerError> {
        let connection = client.connection()?;
        let what = request.as_ref().map_or_else(|| Request::ping().what(), Request::what);
        let (out, next, pinging) = match (client.known_version(), request) {
            (Some(version), Some(request)) => (request.bytes(Some(version)), None, false),
            (_, next) => (Request::ping().bytes(None), next, true),
        };
        let mut exchange = Exchange {
            client: client.clone(),
            connection,
            what,
            next,
            pinging,
            out: Concealed(out),
            sent: 0,
            started: false,
            parser: Parser::new(limits::HTTP_BODY as u64),
            body: Concealed::default(),
            list: None,
            most: limits::HTTP_BODY as u64,
            stray: false,
            received: 0,
        };
        exchange.write()?;
        Ok(exchange)
    }

    /// Like [`Exchange::begin`], for a list: it is parsed as it arrives and may have any length.
    ///
    /// # Errors
    /// As for [`Exchange::begin`].
    pub fn begin_list(client: &Client, request: Request, what: Listed) -> Result<Exchange, DockerError> {
        let mut exchange = Exchange::begin_within(client, request, u64::MAX)?;
        exchange.list = Some(Box::new(ListReader::of(what)));
        Ok(exchange)
    }

    /// Like [`Exchange::begin`], with another bound for the bytes of the answer.
    ///
    /// # Errors
    /// As for [`Exchange::begin`].
    pub fn begin_within(client: &Client, request: Request, most: u64) -> Result<Exchange, DockerError> {
        let mut exchange = Exchange::begin(client, Some(request))?;
        exchange.most = most;
        if !exchange.pinging {
            exchange.parser = Parser::new(most);
        }
        Ok(exchange)
    }

    /// Bytes received so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Method and path, for messages.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The client that began this exchange.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the socket has not accepted all of the request yet.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Whether the socket has accepted the whole request itself (not just the ping).
    #[must_use]
    pub fn is_sent(&self) -> bool {
        !self.pinging && !self.wants_write()
    }

    /// Whether Docker cannot have seen the request itself.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.pinging || !self.started
    }

    /// Adds bytes of a chunked body. To be called only while [`Exchange::wants_write`] is false, so that at
    /// most one chunk is held.
    pub fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Continues as far as possible; `None` when it has to wait for the socket.
    ///
    /// # Errors
    /// All but a timeout. The exchange is useless afterwards.
    pub fn advance(&mut self, goal: Goal) -> Result<Option<Answer>, DockerError> {
        loop {
            let goal_now = if self.pinging { Goal::End } else { goal };
            self.write()?;
            if !self.read(goal_now)? {
                return Ok(None);
            }
            let Some(head) = self.parser.head().cloned() else { return Ok(None) };
            let body = std::mem::take(&mut self.body);
            if !self.pinging {
                return Ok(Some(Answer { head, body, list: self.list.take() }));
            }
            if !(200..300).contains(&head.status) {
                return Err(refusal(head.status, &body));
            }
            let version = negotiate(head.api_version.as_deref())?;
            self.client.remember(version);
            self.pinging = false;
            let Some(request) = self.next.take() else {
                return Ok(Some(Answer { head, body, list: None }));
            };
            if !self.is_reusable() {
                self.connection = self.client.connection()?;
            }
            self.out = Concealed(request.bytes(Some(version)));
            self.sent = 0;
            self.started = false;
            self.stray = false;
            self.parser = Parser::new(self.most);
        }
    }

    /// Ends the exchange: the connection goes back to the client if it can carry another request.
    pub fn finish(self) {
        if self.is_reusable() {
            self.client.clone().put_back(self.connection);
        }
    }

    /// The connection, and the parser that knows the remaining body.
    #[must_use]
    pub fn into_parts(self) -> (Connection, Parser) {
        (self.connection, self.parser)
    }

    fn is_reusable(&self) -> bool {
        let keep = self.parser.head().is_some_and(|h| h.keep_alive);
        keep && self.parser.is_done() && !self.stray && !self.wants_write()
    }

    fn write(&mut self) -> Result<(), DockerError> {
        while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.connection.send(rest) {
                Ok(Some(n)) => {
                    self.sent = self.sent.saturating_add(n);
                    self.started = true;
                }
                Ok(None) => return Ok(()),
                Err(_) if self.started => {
                    // Docker may have answered before it closed the connection: that answer can still be
                    // read.
                    self.stray = true;
                    break;
                }
                Err(e) => {
                    self.client.forget_version();
                    return Err(DockerError::Unreachable(format!("the connection closed before use: {e}")));
                }
            }
        }
        self.out = Concealed::default();
        self.sent = 0;
        Ok(())
    }

    /// Reads the available bytes, at most one turn's worth; returns whether the goal is reached.
    fn read(&mut self, goal: Goal) -> Result<bool, DockerError> {
        let mut chunk = vec![0u8; limits::HTTP_READ];
        let most = self.received.saturating_add(limits::HTTP_TURN as u64);
        loop {
            if self.reached(goal) {
                return Ok(true);
            }
            if self.received >= most {
                return Ok(false);
            }
            let n = match self.connection.receive(&mut chunk) {
                Ok(None) => return Ok(false),
                Ok(Some(0)) => {
                    return if self.parser.finish() { Ok(true) } else { Err(self.lost("Docker closed it")) };
                }
                Ok(Some(n)) => n,
                Err(e) => return Err(self.lost(&e.to_string())),
            };
            let input = chunk.get(..n).unwrap_or_default();
            let used = self.parser.feed(input, &mut self.body).map_err(|why| self.bad_answer(why))?;
            self.received = self.received.saturating_add(n as u64);
            self.read_on()?;
            let rest = input.get(used..).unwrap_or_default();
            if !rest.is_empty() {
                self.stray = true;
                if self.parser.head().is_some_and(|h| h.status == 101) {
                    self.body.extend_from_slice(rest);
                }
            }
        }
    }

    /// Passes the received bytes of a list on to its reader.
    fn read_on(&mut self) -> Result<(), DockerError> {
        let Some(list) = self.list.as_mut().filter(|_| !self.pinging) else { return Ok(()) };
        let good = self.parser.head().is_some_and(|head| head.status < 300);
        let result = match good {
            true => list.feed(&self.body),
            false if self.body.len() > limits::HTTP_BODY => Err(TOO_LONG),
            false => return Ok(()),
        };
        self.body.clear();
        result.map_err(|why| self.bad_answer(why))
    }

    fn bad_answer(&self, why: Malformed) -> DockerError {
        match why {
            TOO_LONG => DockerError::TooLarge(self.what.clone()),
            why => DockerError::BadAnswer(format!("{}: {why}", self.what)),
        }
    }

    fn reached(&self, goal: Goal) -> bool {
        let head_is_enough = goal == Goal::Head && self.parser.head().is_some_and(|h| h.status < 300);
        head_is_enough || self.parser.is_done()
    }

    fn lost(&self, why: &str) -> DockerError {
        self.client.forget_version();
        let why = format!("{}: the connection broke before the answer was complete: {why}", self.what);
        if self.is_unsent() { DockerError::Unreachable(why) } else { DockerError::Lost(why) }
    }
}

impl AsFd for Exchange {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

/// The newest version that both sides support.
fn negotiate(theirs: Option<&str>) -> Result<(u16, u16), DockerError> {
    let error = |why: String| {
        let (major, minor) = limits::API_OLDEST;
        DockerError::Version(format!("{why}; podkeeper needs API {major}.{minor} or newer (Docker 19.03)"))
    };
    let text = theirs.ok_or_else(|| error("Docker did not tell its API version".to_owned()))?;
    let parsed = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let theirs: (u16, u16) = parsed.ok_or_else(|| error(format!("Docker's API version is {text:?}")))?;
    if theirs < limits::API_OLDEST {
        return Err(error(format!("Docker is too old: it speaks API {text}")));
    }
    Ok(theirs.min(limits::API_NEWEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let check = |theirs: Option<&str>, expected: Option<(u16, u16)>| {
            assert_eq!(negotiate(theirs).ok(), expected, "{theirs:?}");
        };
        check(Some("1.40"), Some((1, 40)));
        check(Some("1.41"), Some((1, 41)));
        check(Some("1.99"), Some(limits::API_NEWEST));
        check(Some("2.0"), Some(limits::API_NEWEST));
        check(Some("1.39"), None);
        check(Some("1"), None);
        check(Some(""), None);
        check(None, None);
        let DockerError::Version(text) = negotiate(Some("1.24")).unwrap_err() else { panic!("kind") };
        assert_eq!(
            text,
            "Docker is too old: it speaks API 1.24; podkeeper needs API 1.40 or newer (Docker 19.03)"
        );
    }
}
