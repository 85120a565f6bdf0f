//! The connection of a request: addresses, TCP, TLS, each with its time limit. No connection outlives its poll.
//!
//! A deadline holds for a whole phase: a server that sends a byte now and then gains no time.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::Patience;
use super::tls;
use super::url::ManifestUrl;
use crate::base::dial::{self, Socket};
use crate::base::tls::{words, words_of};

/// Connects to the first address that answers, with TLS if there is a configuration for it.
///
/// # Errors
/// A description of the failure.
pub fn dial(
    url: &ManifestUrl,
    addresses: &[SocketAddr],
    tls: Option<&Arc<ClientConfig>>,
    patience: &Patience,
    whole: Instant,
) -> Result<Line, String> {
    let stream = dial::connect(addresses, patience.connect, whole)?;
    // A request is one small write: delaying it gains nothing. A failure is harmless.
    let _ = stream.set_nodelay(true);
    let until = whole.min(Instant::now() + patience.first_byte);
    let mut socket = Socket { stream: Arc::new(stream), until };
    let stream = match tls {
        None => Stream::Plain(socket),
        Some(config) => {
            let name = ServerName::try_from(url.host().to_owned())
                .map_err(|_| format!("{} is not a name that a certificate can have", url.host()))?;
            let mut tls =
                ClientConnection::new(Arc::clone(config), name).map_err(|e| words(&e, &tls::HINTS))?;
            while tls.is_handshaking() {
                tls.complete_io(&mut socket).map_err(|error| handshake_words(&error, patience))?;
            }
            Stream::Tls(Box::new(StreamOwned::new(tls, socket)))
        }
    };
    Ok(Line(stream))
}

fn handshake_words(error: &io::Error, patience: &Patience) -> String {
    if let Some(words) = words_of(error, &tls::HINTS) {
        return words;
    }
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("no TLS handshake within {:?}", patience.first_byte)
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the server closed the connection in the TLS handshake".to_owned()
        }
        _ => format!("the TLS handshake failed: {error}"),
    }
}

#[derive(Debug)]
enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

/// The limit that a deadline comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// The limit of this phase.
    Phase,
    /// The limit of the whole poll.
    Whole,
}

/// A connection that is ready for one request.
#[derive(Debug)]
pub struct Line(Stream);

impl Line {
    /// Sets the deadline of the following calls to the earlier of these times; returns which one that is.
    pub fn set_until(&mut self, phase: Instant, whole: Instant) -> Late {
        let socket = match &mut self.0 {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => &mut tls.sock,
        };
        socket.until = phase.min(whole);
        if phase < whole { Late::Phase } else { Late::Whole }
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// The deadline has passed, or the connection failed.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Tls(tls) => tls.write_all(bytes).and_then(|()| tls.flush()),
        }
    }

    /// Reads available bytes, at least one.
    ///
    /// # Errors
    /// The deadline has passed, or the connection failed or ended.
    pub fn read<'b>(&mut self, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
        let length = loop {
            let read = match &mut self.0 {
                Stream::Plain(socket) => socket.read(buffer),
                Stream::Tls(tls) => tls.read(buffer),
            };
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        Ok(buffer.get(..length).unwrap_or_default())
    }
}
