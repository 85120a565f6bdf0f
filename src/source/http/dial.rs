//! The connection under a request: addresses, TCP, TLS, each with its limit. Nothing here outlives a poll.
//!
//! A deadline holds for a phase as a whole: a server that sends a byte now and then gains nothing by it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::Patience;
use super::tls;
use super::url::ManifestUrl;
use crate::base::dial::{self, Socket};
use crate::base::limits;
use crate::base::tls::{words, words_of};

/// Connects to the first address that answers, and speaks TLS if there is a configuration for it.
///
/// # Errors
/// What happened, in words.
pub fn dial(
    url: &ManifestUrl,
    addresses: &[SocketAddr],
    tls: Option<&Arc<ClientConfig>>,
    patience: &Patience,
    whole: Instant,
) -> Result<Line, String> {
    let stream = dial::connect(addresses, patience.connect, whole)?;
    // A request is one small write; waiting for more helps nobody. A failure changes only that.
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
    Ok(Line { buffers: LazyBuffers::new(limits::URL_BUFFER, limits::URL_BUFFER), stream })
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

impl Stream {
    fn socket(&mut self) -> &mut Socket {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => &mut tls.sock,
        }
    }
}

/// A connection that is ready for one request.
pub struct Line {
    buffers: LazyBuffers,
    stream: Stream,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

/// ureq's limit of this phase becomes the socket's deadline; a read that is interrupted is made again.
fn until_done<T>(
    stream: &mut Stream,
    timeout: NextTimeout,
    mut io: impl FnMut(&mut Stream) -> io::Result<T>,
) -> Result<T, ureq::Error> {
    if !timeout.after.is_not_happening() {
        stream.socket().until = Instant::now() + *timeout.after;
    }
    loop {
        match io(stream) {
            Ok(done) => return Ok(done),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(ureq::Error::Timeout(timeout.reason));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

impl Transport for Line {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        until_done(&mut self.stream, timeout, |stream| match stream {
            Stream::Plain(socket) => socket.write_all(output),
            Stream::Tls(tls) => tls.write_all(output).and_then(|()| tls.flush()),
        })
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let input = self.buffers.input_append_buf();
        let amount = until_done(&mut self.stream, timeout, |stream| match stream {
            Stream::Plain(socket) => socket.read(input),
            Stream::Tls(tls) => tls.read(input),
        })?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // Asked of connections that are to be used again: there are none.
        false
    }

    fn is_tls(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }
}

/// Hands ureq the connection that is there already.
#[derive(Debug)]
pub struct Ready(Mutex<Option<Line>>);

impl Ready {
    /// For one request.
    #[must_use]
    pub fn new(line: Line) -> Ready {
        Ready(Mutex::new(Some(line)))
    }
}

impl Connector for Ready {
    type Out = Line;

    fn connect(&self, _: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Line>, ureq::Error> {
        Ok(self.0.lock().ok().and_then(|mut line| line.take()))
    }
}

/// ureq wants an address; the connection is there already.
#[derive(Debug)]
pub struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(
        &self,
        _: &ureq::http::Uri,
        _: &ureq::config::Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push((Ipv4Addr::UNSPECIFIED, 0).into());
        Ok(addresses)
    }
}
