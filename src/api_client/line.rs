//! One connection to the server: an optional tunnel through a proxy, TLS, sending requests and reading answers. Every
//! read and write has a deadline, and ends at once when the socket is shut down by another thread.
//!
//! Never here: the meaning of an answer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Weak};
use std::time::Instant;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::credentials::Access;
use super::error::ApiError;
use super::kubeconfig::Address;
use super::request::Request;
use super::tls::HINTS;
use crate::base::dial::{self, Socket};
use crate::base::limits;
use crate::base::tls::{words, words_of};
use crate::runtime::http1::{Head, Parser};

/// Why an exchange broke off.
#[derive(Debug)]
pub enum Broken {
    /// On an idle connection, before the first byte of an answer: the server has closed it.
    Stale,
    For(ApiError),
}

#[derive(Debug)]
enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

/// See the head of this file.
#[derive(Debug)]
pub struct Line {
    stream: Stream,
    /// The [`Access::generation`] that it was made with.
    pub generation: u64,
    /// When the last answer ended.
    pub used: Instant,
    /// An answer was received on it.
    has_answered: bool,
}

impl Line {
    /// Starts TLS on a socket, if the server needs it. `addresses` are those of the proxy, if there is one.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn open(stream: Arc<TcpStream>, access: &Access, until: Instant) -> Result<Line, ApiError> {
        // Requests are small; keepalive makes the kernel detect a dead peer. A failure has no other effect.
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_socket_keepalive(&*stream, true);
        let _ = rustix::net::sockopt::set_tcp_keepidle(&*stream, limits::API_KEEPALIVE);
        let _ = rustix::net::sockopt::set_tcp_keepintvl(&*stream, limits::API_KEEPALIVE_AGAIN);
        let _ = rustix::net::sockopt::set_tcp_keepcnt(&*stream, limits::API_KEEPALIVE_TRIES);
        let until = until.min(Instant::now() + limits::API_HANDSHAKE);
        let mut socket = Socket { stream, until };
        let config = &access.config;
        if config.proxy.is_some() {
            tunnel(&mut socket, &config.server)?;
        }
        let stream = match &access.tls {
            None => Stream::Plain(socket),
            Some(tls) => {
                let name = config.server_name.as_ref().unwrap_or(&config.server.host);
                let name = ServerName::try_from(name.clone()).map_err(|_| {
                    ApiError::BadCredentials(format!("{name} is not a name that a certificate can have"))
                })?;
                let unreachable = |why| ApiError::Unreachable(why);
                let mut tls = ClientConnection::new(Arc::clone(tls), name)
                    .map_err(|error| unreachable(words(&error, &HINTS)))?;
                while tls.is_handshaking() {
                    tls.complete_io(&mut socket).map_err(|error| unreachable(handshake_words(&error)))?;
                }
                Stream::Tls(Box::new(StreamOwned::new(tls, socket)))
            }
        };
        Ok(Line { stream, generation: access.generation, used: Instant::now(), has_answered: false })
    }

    fn socket(&mut self) -> &mut Socket {
        match &mut self.stream {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => &mut tls.sock,
        }
    }

    /// Sets the deadline of reads and writes.
    pub fn set_until(&mut self, until: Instant) {
        self.socket().until = until;
    }

    /// Its connection, for another thread that may have to shut it down.
    pub fn connection(&mut self) -> Weak<TcpStream> {
        Arc::downgrade(&self.socket().stream)
    }

    /// Whether it can carry another request: nothing was received since the last answer, not even the connection's
    /// end.
    pub fn is_quiet(&mut self) -> bool {
        let stream = Arc::clone(&self.socket().stream);
        if self.used.elapsed() >= limits::API_IDLE_MAX || stream.set_nonblocking(true).is_err() {
            return false;
        }
        let quiet = matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        quiet && stream.set_nonblocking(false).is_ok()
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The server may or may not have received it.
    pub fn send(&mut self, request: &Request, access: &Access) -> Result<(), Broken> {
        let bytes = bytes_of(request, access);
        let sent = match &mut self.stream {
            Stream::Plain(socket) => socket.write_all(&bytes),
            Stream::Tls(tls) => tls.write_all(&bytes).and_then(|()| tls.flush()),
        };
        sent.map_err(|error| self.broken(&error, true))
    }

    /// Reads a part of the answer into `body`. Returns false at the end of the connection.
    ///
    /// # Errors
    /// Invalid bytes, the deadline, or an error of the connection.
    pub fn read(&mut self, parser: &mut Parser, body: &mut Vec<u8>) -> Result<bool, Broken> {
        let mut buffer = [0; limits::API_BUFFER];
        let read = loop {
            let read = match &mut self.stream {
                Stream::Plain(socket) => socket.read(&mut buffer),
                Stream::Tls(tls) => tls.read(&mut buffer),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // An end without close_notify is accepted: HTTP marks the end of its messages.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break Ok(0),
                other => break other,
            }
        };
        let nothing_yet = parser.head().is_none();
        let length = read.map_err(|error| self.broken(&error, nothing_yet))?;
        if length == 0 {
            if parser.finish() {
                return Ok(false);
            }
            return Err(self.broken(&ErrorKind::UnexpectedEof.into(), nothing_yet));
        }
        self.has_answered |= nothing_yet;
        let bytes = buffer.get(..length).unwrap_or_default();
        let bad = |why: &str| {
            Broken::For(ApiError::BadAnswer(format!("what the server sends is not usable: {why}")))
        };
        let taken = parser.feed(bytes, body).map_err(|why| bad(why.0))?;
        if taken < length { Err(bad("bytes after the end of an answer")) } else { Ok(true) }
    }

    /// Reads the head of the answer.
    ///
    /// # Errors
    /// See [`Line::read`].
    pub fn head(&mut self, parser: &mut Parser, body: &mut Vec<u8>) -> Result<Head, Broken> {
        loop {
            if let Some(head) = parser.head() {
                return Ok(head.clone());
            }
            self.read(parser, body)?;
        }
    }

    fn broken(&mut self, error: &io::Error, nothing_yet: bool) -> Broken {
        let closed = matches!(
            error.kind(),
            ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionReset
                | ErrorKind::BrokenPipe
                | ErrorKind::ConnectionAborted
        );
        if closed && nothing_yet && self.has_answered {
            return Broken::Stale;
        }
        let why = match words_of(error, &HINTS) {
            Some(words) => words,
            None if closed => "the server closed the connection before the end of its answer".to_owned(),
            None if error.kind() == ErrorKind::TimedOut => "the server did not answer in time".to_owned(),
            None => format!("the connection to the server broke: {error}"),
        };
        Broken::For(ApiError::Unreachable(why))
    }
}

/// Connects to the first address that answers.
///
/// # Errors
/// The reason, as text.
pub fn connect(addresses: &[SocketAddr], until: Instant) -> Result<Arc<TcpStream>, ApiError> {
    dial::connect(addresses, limits::API_CONNECT, until).map(Arc::new).map_err(ApiError::Unreachable)
}

/// Asks a proxy for a tunnel to the server (RFC 9110, section 9.3.6).
fn tunnel(socket: &mut Socket, server: &Address) -> Result<(), ApiError> {
    let no = |why: &str| ApiError::Unreachable(format!("the proxy of the kubeconfig {why}"));
    let to = server.authority();
    let ask = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    socket.write_all(ask.as_bytes()).map_err(|_| no("does not take a request"))?;
    let (mut parser, mut body) = (Parser::new(0), Vec::new());
    while parser.head().is_none() {
        // Byte by byte, because the bytes after the head belong to the server.
        let mut byte = [0];
        match socket.read(&mut byte) {
            Ok(1) => {}
            Ok(_) => return Err(no("closed the connection")),
            Err(_) => return Err(no("did not answer in time")),
        }
        // A head with a body length counts as too long; it is not a success either.
        parser.feed(&byte, &mut body).map_err(|why| no(&format!("does not speak HTTP: {why}")))?;
    }
    match parser.head().map_or(0, |head| head.status) {
        200..=299 => Ok(()),
        status => Err(no(&format!("answers {status}"))),
    }
}

fn handshake_words(error: &io::Error) -> String {
    match error.kind() {
        _ if words_of(error, &HINTS).is_some() => words_of(error, &HINTS).unwrap_or_default(),
        ErrorKind::TimedOut => "no TLS handshake with the server in time".to_owned(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the server closed the connection in the TLS handshake".to_owned()
        }
        _ => format!("the TLS handshake failed: {error}"),
    }
}

/// The bytes of a request.
fn bytes_of(request: &Request, access: &Access) -> Vec<u8> {
    let (method, server) = (request.method, &access.config.server);
    let mut head = format!(
        "{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: podkeeper/{}\r\nAccept: application/json\r\n",
        method.word(),
        server.prefix,
        request.path,
        server.authority(),
        env!("CARGO_PKG_VERSION")
    );
    if let Some(value) = &access.authorization {
        head.push_str(&format!("Authorization: {}\r\n", value.0));
    }
    if let Some(body) = &request.body {
        head.push_str(&format!(
            "Content-Type: {}\r\nContent-Length: {}\r\n",
            method.content_type(),
            body.len()
        ));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(request.body.as_deref().unwrap_or_default());
    bytes
}
