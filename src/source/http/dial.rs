//! The connection under a request: addresses, TCP, TLS, each with its limit. Nothing here outlives a poll.
//!
//! A deadline holds for a phase as a whole: a server that sends a byte now and then gains nothing by it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::Patience;
use super::tls;
use super::url::ManifestUrl;
use crate::base::limits;

/// Looks names up. The system's resolver cannot be interrupted and may hang for minutes: it gets a thread
/// of its own, and as long as that one hangs there is no second.
#[derive(Debug, Clone, Default)]
pub struct Names {
    hangs: Arc<AtomicBool>,
}

impl Names {
    /// Addresses of the server, in the order to try. `localhost` is never looked up, so that it cannot be
    /// anything but loopback.
    ///
    /// # Errors
    /// There are none, or they cannot be found out in time.
    pub fn find(&self, url: &ManifestUrl, patience: Duration) -> Result<Vec<SocketAddr>, String> {
        let port = url.port();
        if let Ok(ip) = url.host().parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        if url.host() == "localhost" {
            return Ok(vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]);
        }
        let host = url.host().to_owned();
        let late = || format!("the name {} could not be resolved in time", url.host());
        if self.hangs.swap(true, Ordering::AcqRel) {
            return Err(late());
        }
        let (found, wait) = mpsc::sync_channel(1);
        let hangs = Arc::clone(&self.hangs);
        let look_up = move || {
            let addresses = (host.as_str(), port).to_socket_addrs();
            // An answer that nobody waits for any more is lost.
            let _ = found.send(addresses.map(|all| all.take(limits::URL_ADDRESSES).collect::<Vec<_>>()));
            hangs.store(false, Ordering::Release);
        };
        let thread = thread::Builder::new().name("pk-resolve".into()).stack_size(limits::URL_STACK);
        if let Err(error) = thread.spawn(look_up) {
            self.hangs.store(false, Ordering::Release);
            return Err(format!("no thread could be started to resolve {}: {error}", url.host()));
        }
        match wait.recv_timeout(patience) {
            Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
            Ok(Ok(_)) => Err(format!("the name {} has no address", url.host())),
            Ok(Err(error)) => Err(format!("the name {} cannot be resolved: {error}", url.host())),
            Err(_) => Err(late()),
        }
    }
}

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
    let stream = connect(addresses, patience, whole)?;
    // A request is one small write; waiting for more helps nobody. A failure changes only that.
    let _ = stream.set_nodelay(true);
    let until = whole.min(Instant::now() + patience.first_byte);
    let mut socket = Socket { stream, until };
    let stream = match tls {
        None => Stream::Plain(socket),
        Some(config) => {
            let name = ServerName::try_from(url.host().to_owned())
                .map_err(|_| format!("{} is not a name that a certificate can have", url.host()))?;
            let mut tls = ClientConnection::new(Arc::clone(config), name).map_err(|e| tls::words(&e))?;
            while tls.is_handshaking() {
                tls.complete_io(&mut socket).map_err(|error| handshake_words(&error, patience))?;
            }
            Stream::Tls(Box::new(StreamOwned::new(tls, socket)))
        }
    };
    Ok(Line { buffers: LazyBuffers::new(limits::URL_BUFFER, limits::URL_BUFFER), stream })
}

fn connect(addresses: &[SocketAddr], patience: &Patience, whole: Instant) -> Result<TcpStream, String> {
    let until = whole.min(Instant::now() + patience.connect);
    let mut last = "the server has no address".to_owned();
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        // One address that swallows everything must not cost the others their turn.
        let turn = until.saturating_duration_since(Instant::now()) / left;
        if turn.is_zero() {
            return Err(format!("no connection within {:?}", patience.connect));
        }
        match TcpStream::connect_timeout(address, turn) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                last = format!("no connection within {:?}", patience.connect);
            }
            Err(error) => last = format!("no connection: {error}"),
        }
    }
    Err(last)
}

fn handshake_words(error: &io::Error, patience: &Patience) -> String {
    if let Some(words) = tls::words_of(error) {
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

/// A socket whose reads and writes end at a time.
#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    until: Instant,
}

impl Socket {
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

/// The system says "would block" when a socket's time-out has passed.
fn late(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer).map_err(late)
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(buffer).map_err(late)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
