//! One connection to the server: a tunnel through a proxy where there is one, TLS, requests out and answers in. Every
//! read and write ends at a time, and at once when the socket is shut down from elsewhere.
//!
//! Never here: an answer's meaning.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
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
    /// Before the first byte of an answer, on a connection that had been idle: the server has closed it.
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
    /// [`Access::generation`] that it was made with.
    pub generation: u64,
    /// When the last answer ended.
    pub used: Instant,
    /// An answer came over it before.
    has_answered: bool,
}

impl Line {
    /// Speaks TLS over a socket, where the server wants it. `addresses` are those of the proxy, where there is one.
    ///
    /// # Errors
    /// What happened, in words.
    pub fn open(stream: Arc<TcpStream>, access: &Access, until: Instant) -> Result<Line, ApiError> {
        // Small requests; a dead machine at the other end is found out by the kernel. A failure changes only that.
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

    /// Reads and writes end at this time from now on.
    pub fn set_until(&mut self, until: Instant) {
        self.socket().until = until;
    }

    /// Whether it can carry another request: nothing came on it since the last answer, not even its end.
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
    /// It is not known whether the server got it.
    pub fn send(&mut self, request: &Request, access: &Access) -> Result<(), Broken> {
        let bytes = bytes_of(request, access);
        let sent = match &mut self.stream {
            Stream::Plain(socket) => socket.write_all(&bytes),
            Stream::Tls(tls) => tls.write_all(&bytes).and_then(|()| tls.flush()),
        };
        sent.map_err(|error| self.broken(&error, true))
    }

    /// Reads a piece of the answer into `body`. Returns false at the end of the connection.
    ///
    /// # Errors
    /// Bytes that are no answer, the time, or the connection.
    pub fn read(&mut self, parser: &mut Parser, body: &mut Vec<u8>) -> Result<bool, Broken> {
        let mut buffer = [0; limits::API_BUFFER];
        let read = loop {
            let read = match &mut self.stream {
                Stream::Plain(socket) => socket.read(&mut buffer),
                Stream::Tls(tls) => tls.read(&mut buffer),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // An end without close_notify: HTTP knows its own ends.
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

    /// The head of the answer.
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
/// What happened, in words.
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
        // Byte by byte: what comes after the head is the server's.
        let mut byte = [0];
        match socket.read(&mut byte) {
            Ok(1) => {}
            Ok(_) => return Err(no("closed the connection")),
            Err(_) => return Err(no("did not answer in time")),
        }
        // A head that says how long its body is counts as too long; it is no success either.
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

/// The request as it is sent.
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
