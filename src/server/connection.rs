//! One request on one connection, on a thread of the pool: its body, its answer, and the state after it.
//!
//! Never here: an unbounded wait. A client that takes or sends nothing loses its connection.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::census::{Census, Client, Seat};
use super::http::answer::{Answer, Ends};
use super::http::request::{Method, Refused, Request};
use super::service::{Asked, Reply, Service};
use super::transport::{Got, Transport};
use crate::base::clock::{Clock as _, System};
use crate::base::wait::{self, later};
use crate::base::{http, limits};

/// A connection, and what was read of it beyond the last request.
pub struct Connection {
    pub transport: Transport,
    /// Bytes that belong to no request yet.
    pub buffer: Vec<u8>,
    pub peer: SocketAddr,
    /// A request has shown that the client has rights.
    pub is_known: bool,
    /// The client that requests are counted for, by whether a known authority signed its certificate; `None` until that
    /// was checked.
    pub client: Option<Client>,
}

impl Connection {
    /// Notes an answer. Without TLS anybody gets what there is.
    fn was_answered(&mut self, answer: &Answer) {
        self.is_known |= self.transport.is_tls() && (200..400).contains(&answer.status);
    }
}

/// Without the bytes: they may have a token, or a Secret that is written.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<connection of {}, {} bytes read>", self.peer, self.buffer.len())
    }
}

/// The body of a request, which the endpoint reads if it wants it.
#[derive(Debug)]
pub struct Body<'a> {
    connection: &'a mut Connection,
    reader: http::Body,
    /// The client waits for `100 Continue`.
    is_awaited: bool,
}

impl Body<'_> {
    /// Reads the whole body, at most `limit` bytes.
    ///
    /// # Errors
    /// The body is longer (status 413), too slow (408), or invalid (400).
    pub fn read(&mut self, limit: usize) -> Result<Vec<u8>, Refused> {
        const TOO_LONG: Refused = Refused { status: 413, why: "the body of the request is too long" };
        let bound = u64::try_from(limit).unwrap_or(u64::MAX);
        if self.reader.left().is_some_and(|left| left > bound) {
            return Err(TOO_LONG);
        }
        let whole = later(limits::SERVER_BODY_WHOLE);
        let mut bytes = Vec::new();
        loop {
            if !self.more(&mut bytes, whole)? {
                return Ok(bytes);
            }
            if bytes.len() > limit {
                return Err(TOO_LONG);
            }
        }
    }

    /// Notes that the client has identified itself as this user otherwise than by a certificate: from the next request
    /// on it is counted as the user.
    pub fn vouch(&mut self, user: &str) {
        self.connection.client = Some(Client::User(user.into()));
    }

    /// Number of bytes still to come, if the client has announced it.
    #[must_use]
    pub fn left(&self) -> Option<usize> {
        self.reader.left().map(|left| usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Appends the next piece; returns `false` at the end.
    fn more(&mut self, out: &mut Vec<u8>, whole: Instant) -> Result<bool, Refused> {
        if self.reader.is_done() {
            return Ok(false);
        }
        if !self.connection.buffer.is_empty() {
            let mut rest = self.connection.buffer.as_slice();
            let fed = self.reader.feed(&mut rest, out);
            fed.map_err(|_| Refused { status: 400, why: "the body of the request is not properly chunked" })?;
            let left = rest.len();
            self.connection.buffer.drain(..self.connection.buffer.len().saturating_sub(left));
            return Ok(true);
        }
        if std::mem::take(&mut self.is_awaited) {
            let gone = |_| Refused { status: 400, why: "the client went away" };
            send(&mut self.connection.transport, b"HTTP/1.1 100 Continue\r\n\r\n").map_err(gone)?;
        }
        let until = whole.min(later(limits::SERVER_READ));
        receive(self.connection, until).map(|()| true).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => Refused { status: 408, why: "the body of the request comes too slowly" },
            _ => Refused { status: 400, why: "the body of the request ends too early" },
        })
    }

    /// Reads and drops the rest. Returns `false` when that is too much or of unknown length, or when the client waits
    /// for `100 Continue`.
    fn drain(mut self) -> bool {
        if self.reader.is_done() {
            return true;
        }
        if self.is_awaited || self.reader.left().is_none_or(|left| left > limits::SERVER_DRAIN) {
            return false;
        }
        let until = later(limits::SERVER_LINGER);
        let mut piece = Vec::new();
        loop {
            match self.more(&mut piece, until) {
                Ok(true) => piece.clear(),
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
    }
}

/// Receives the body of an answer while it is made.
#[derive(Debug)]
pub struct Sink<'a> {
    transport: &'a mut Transport,
    ends: Ends,
    /// The answer has no body: only its head was requested.
    is_empty: bool,
    is_spoiled: bool,
}

impl Sink<'_> {
    /// Sends these bytes at once.
    ///
    /// # Errors
    /// The client is gone, or takes nothing for [`limits::SERVER_WRITE`].
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() || self.is_empty {
            return Ok(());
        }
        match self.ends {
            Ends::Chunks => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(bytes);
                chunk.extend_from_slice(b"\r\n");
                send(self.transport, &chunk)
            }
            _ => send(self.transport, bytes),
        }
    }

    /// The descriptor to poll, beside that of the body's source, to notice that the client is gone: see
    /// [`Sink::is_gone`].
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.transport.fd()
    }

    /// Whether the client is gone. Called when [`Sink::fd`] is readable. When a client sends bytes that are no part of
    /// this request, its connection ends with the answer.
    pub fn is_gone(&mut self) -> bool {
        match self.transport.read(&mut Vec::new(), limits::HTTP_READ) {
            Ok(Got::Nothing) => false,
            Ok(Got::Bytes(_)) => {
                self.is_spoiled = true;
                false
            }
            Ok(Got::End) | Err(_) => true,
        }
    }
}

/// A connection that speaks another protocol from now on.
#[derive(Debug)]
pub struct Upgraded {
    pub transport: Transport,
    /// Bytes of that protocol that came with the request.
    pub early: Vec<u8>,
}

/// The places that a request occupies.
pub struct Turn {
    pub client: Client,
    /// Its place among short requests.
    pub seat: Seat,
    /// Counter of long requests.
    pub long: Census,
}

impl Turn {
    /// Moves the request from the short to the long ones. A request of an unknown client counts as both, so that there
    /// are few of them. Returns `None` when there are as many long ones as allowed.
    fn last(self) -> Option<(Seat, Option<Seat>)> {
        let is_known = matches!(self.client, Client::User(_));
        let long = self.long.enter(self.client).ok()?;
        Some((long, (!is_known).then_some(self.seat)))
    }
}

/// Answers a request. Returns the connection if it can carry another one.
pub fn serve(
    mut connection: Connection,
    request: &Request,
    service: &Arc<dyn Service>,
    turn: Turn,
) -> Option<Connection> {
    let certificates = connection.transport.certificates().to_vec();
    let peer = connection.peer;
    let body = Body {
        connection: &mut connection,
        reader: http::Body::new(request.framing, u64::MAX),
        is_awaited: request.expects_continue,
    };
    let client = turn.client.clone();
    let mut asked = Asked { request, peer, client, certificates: &certificates, body };
    let reply = service.answer(&mut asked);
    let is_read = asked.body.drain();
    let busy = || Answer::text(429, "too many streams are under way on this node").with("Retry-After", "1");
    match reply {
        Reply::Whole(answer) => whole(connection, request, &answer, is_read),
        Reply::Stream(answer, pour) => match turn.last() {
            None => whole(connection, request, &busy(), is_read),
            Some(_seats) => {
                let is_kept = stream(&mut connection, request, &answer, is_read, pour).ok()?;
                if is_kept { Some(connection) } else { None }
            }
        },
        Reply::Upgrade(answer, speak) => match turn.last() {
            None => whole(connection, request, &busy(), is_read),
            Some(_seats) => {
                send(&mut connection.transport, &answer.head(Ends::Upgrade, true, &date())).ok()?;
                let Connection { transport, buffer, .. } = connection;
                speak(Upgraded { transport, early: buffer });
                None
            }
        },
    }
}

/// Sends an answer; returns the connection if it can carry another request.
fn whole(
    mut connection: Connection,
    request: &Request,
    answer: &Answer,
    is_read: bool,
) -> Option<Connection> {
    let is_kept = request.keep_alive && is_read;
    let bytes = answer.bytes(request.method, is_kept, &date());
    send_until(&mut connection.transport, &bytes, later(limits::SERVER_BODY_WHOLE)).ok()?;
    connection.was_answered(answer);
    if !is_kept {
        end(&mut connection);
        return None;
    }
    Some(connection)
}

/// Sends an answer while its body is made; returns `true` if the connection can carry another request. An error in the
/// body ends the connection without the end of the body, so that the client does not take it for complete.
fn stream(
    connection: &mut Connection,
    request: &Request,
    answer: &Answer,
    is_read: bool,
    pour: super::service::Pour,
) -> io::Result<bool> {
    let ends = if request.is_1_1 { Ends::Chunks } else { Ends::Close };
    let is_kept = request.keep_alive && is_read && ends == Ends::Chunks;
    send(&mut connection.transport, &answer.head(ends, is_kept, &date()))?;
    let is_empty = request.method == Method::Head;
    let mut sink = Sink { transport: &mut connection.transport, ends, is_empty, is_spoiled: false };
    pour(&mut sink)?;
    let is_kept = is_kept && !sink.is_spoiled;
    if ends == Ends::Chunks && !is_empty {
        send(&mut connection.transport, b"0\r\n\r\n")?;
    }
    connection.was_answered(answer);
    if !is_kept {
        end(connection);
    }
    Ok(is_kept)
}

/// Ends a connection so that the answer arrives: reads what the client still sends for a moment, because closing a
/// socket with unread bytes discards the answer.
fn end(connection: &mut Connection) {
    connection.transport.close_write();
    let until = later(limits::SERVER_LINGER);
    let mut passed = 0usize;
    while passed < limits::SERVER_LINGER_BYTES && receive(connection, until).is_ok() {
        passed = passed.saturating_add(connection.buffer.len());
        connection.buffer.clear();
    }
}

/// Sends all of these bytes.
///
/// # Errors
/// The connection is broken, or the client takes nothing for [`limits::SERVER_WRITE`].
pub fn send(transport: &mut Transport, bytes: &[u8]) -> io::Result<()> {
    send_until(transport, bytes, later(Duration::from_secs(u32::MAX.into())))
}

/// Sends all bytes before `whole`: a client that takes a byte now and then must not occupy a thread for hours.
fn send_until(transport: &mut Transport, mut bytes: &[u8], whole: Instant) -> io::Result<()> {
    let mut until = whole.min(later(limits::SERVER_WRITE));
    loop {
        let taken = transport.write(bytes)?;
        bytes = bytes.get(taken..).unwrap_or_default();
        if taken > 0 {
            until = whole.min(later(limits::SERVER_WRITE));
        }
        if bytes.is_empty() && transport.flush()? {
            return Ok(());
        }
        if taken == 0 {
            ready(transport, PollFlags::OUT, until)?;
        }
    }
}

/// Reads more into the connection's buffer.
///
/// # Errors
/// The connection is broken or at its end, or nothing comes before `until` (`TimedOut`).
pub fn receive(connection: &mut Connection, until: Instant) -> io::Result<()> {
    loop {
        match connection.transport.read(&mut connection.buffer, limits::HTTP_READ)? {
            Got::Bytes(_) => return Ok(()),
            Got::End => return Err(ErrorKind::UnexpectedEof.into()),
            Got::Nothing => ready(&connection.transport, connection.transport.wants(), until)?,
        }
    }
}

/// Waits until the socket is ready for this.
///
/// # Errors
/// `TimedOut`.
fn ready(transport: &Transport, what: PollFlags, until: Instant) -> io::Result<()> {
    if Instant::now() >= until {
        return Err(ErrorKind::TimedOut.into());
    }
    wait::until(vec![PollFd::from_borrowed_fd(transport.fd(), what)], Some(until))?;
    Ok(())
}

/// The present time in HTTP's format (RFC 9110, IMF-fixdate).
#[must_use]
pub fn date() -> String {
    System::start().now().wall.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
