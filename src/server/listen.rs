//! The thread `pk-server` listens, and holds every connection without a request under way: handshakes, heads that come
//! byte by byte, and idle ones. A silent client costs a descriptor here and no thread.
//!
//! Never here: a wait for one client, or work of an endpoint.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use rustix::event::{PollFd, PollFlags};

use super::auth;
use super::census::{Census, Client, Full};
use super::connection::{Connection, Turn, date, serve};
use super::crowded::{Place, gives_way};
use super::http::answer::Answer;
use super::http::request::{Method, Request};
use super::pool::Pool;
use super::service::Service;
use super::tls::Certificates;
use super::transport::Transport;
use super::waiting::{Next, Phase, Waiting};
use crate::base::{limits, wait};

/// A port, with the service that answers its requests.
pub struct Port {
    /// Its name for users: `the kubelet's server`.
    pub name: &'static str,
    pub address: SocketAddr,
    /// `None` for plain HTTP.
    pub certificates: Option<Arc<Certificates>>,
    pub service: Arc<dyn Service>,
}

/// Time limits of clients.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub handshake: Duration,
    /// For the head of a request, from its first byte.
    pub head: Duration,
    /// Between two requests.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            handshake: limits::SERVER_HANDSHAKE,
            head: limits::SERVER_HEAD_PATIENCE,
            idle: limits::SERVER_IDLE,
        }
    }
}

/// A port and its socket, while there is one.
struct Listening {
    port: Port,
    socket: Option<TcpListener>,
    /// When it is tried again.
    again: Option<Instant>,
    /// The last reported reason why it does not listen.
    told: Option<String>,
    /// Requests under way of clients without a known certificate. Each port has its own share of the threads for them:
    /// slow requests at one port do not keep the node's health from being checked at another.
    strangers: Census,
}

/// A connection that a thread of the pool gives back, and its place in the list of ports.
type Back = (Connection, usize);

/// The state of the servers' thread.
pub struct Listen {
    ports: Vec<Listening>,
    waiting: Vec<Waiting>,
    back: Receiver<Back>,
    give_back: Sender<Back>,
    /// Readable when a connection was given back, or the servers end.
    woken: OwnedFd,
    wake: Arc<OwnedFd>,
    /// Closed when the servers end.
    end: Receiver<()>,
    pool: Pool,
    patience: Patience,
    /// Short requests under way of known users: no user keeps the others waiting.
    known: Census,
    /// Long requests under way.
    long: Census,
    connections: Census,
    /// No connection is accepted before this time.
    pause: Option<Instant>,
    /// No failed handshake is logged before this time.
    quiet_until: Option<Instant>,
    /// The highest descriptor that a connection may have.
    highest: i32,
}

impl Listen {
    /// Listens on these ports. A port that is taken is reported, and tried again.
    pub fn new(
        ports: Vec<Port>,
        back: (Sender<Back>, Receiver<Back>),
        pipe: (OwnedFd, Arc<OwnedFd>),
        end: Receiver<()>,
        patience: Patience,
    ) -> Listen {
        let mut listen = Listen {
            ports: ports.into_iter().map(Listening::new).collect(),
            waiting: Vec::new(),
            back: back.1,
            give_back: back.0,
            woken: pipe.0,
            wake: pipe.1,
            end,
            pool: Pool::new(limits::SERVER_THREADS),
            patience,
            known: Census::fair(limits::SERVER_KNOWN, limits::SERVER_OF_USER),
            long: Census::fair(limits::SERVER_LONG, limits::SERVER_LONG_OF_CLIENT),
            connections: Census::new(limits::SERVER_CONNECTIONS, limits::SERVER_CONNECTIONS_OF_ADDRESS),
            pause: None,
            quiet_until: None,
            highest: highest_descriptor(),
        };
        listen.ports.iter_mut().for_each(|port| port.listen());
        listen
    }

    /// Serves until the end of the servers.
    pub fn run(mut self) {
        loop {
            match self.end.try_recv() {
                Err(TryRecvError::Empty) => {}
                Ok(()) | Err(TryRecvError::Disconnected) => return,
            }
            self.take_back();
            let now = Instant::now();
            self.waiting.retain(|waiting| now < waiting.until);
            self.listen_again(now);
            match self.wait(now) {
                Ok(ready) => self.turn(&ready),
                Err(error) => {
                    // Out of memory: pods take precedence.
                    log::error!(
                        "the servers close their connections: the system cannot wait for them: {error}"
                    );
                    self.waiting.clear();
                    std::thread::sleep(limits::SERVER_ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Takes connections back whose requests are answered.
    fn take_back(&mut self) {
        let mut room = [0u8; 64];
        while matches!(rustix::io::read(&self.woken, &mut room), Ok(n) if n == room.len()) {}
        let came: Vec<Back> = self.back.try_iter().take(limits::SERVER_CONNECTIONS).collect();
        for (connection, port) in came {
            let waiting = Waiting::new(connection, port, Phase::Idle, self.patience.idle);
            // The next request may have arrived already.
            self.step(waiting);
        }
    }

    fn listen_again(&mut self, now: Instant) {
        for port in &mut self.ports {
            if port.again.is_some_and(|again| again <= now) {
                port.listen();
            }
        }
    }

    /// Polls; returns the flags of the wake-up, of the ports, and of the connections.
    fn wait(&mut self, now: Instant) -> io::Result<Vec<PollFlags>> {
        if self.pause.is_some_and(|pause| pause <= now) {
            self.pause = None;
        }
        let accepts = if self.pause.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let mut set = vec![PollFd::new(&self.woken, PollFlags::IN)];
        set.extend(self.ports.iter().map(|port| match &port.socket {
            Some(socket) => PollFd::from_borrowed_fd(socket.as_fd(), accepts),
            None => PollFd::new(&self.woken, PollFlags::empty()),
        }));
        set.extend(self.waiting.iter().map(|waiting| {
            let transport = &waiting.connection.transport;
            PollFd::from_borrowed_fd(transport.fd(), transport.wants())
        }));
        let until = self.waiting.iter().map(|waiting| waiting.until);
        let until = until.chain(self.ports.iter().filter_map(|port| port.again)).chain(self.pause).min();
        Ok(wait::until(set, until)?)
    }

    fn turn(&mut self, ready: &[PollFlags]) {
        let mut flags = ready.iter().skip(1);
        let ports: Vec<bool> = flags.by_ref().take(self.ports.len()).map(|flags| !flags.is_empty()).collect();
        let all = std::mem::take(&mut self.waiting);
        for waiting in all {
            match flags.next() {
                Some(flags) if !flags.is_empty() => self.step(waiting),
                _ => self.waiting.push(waiting),
            }
        }
        for (port, is_ready) in ports.into_iter().enumerate() {
            if is_ready && self.pause.is_none() {
                self.accept(port);
            }
        }
    }

    /// Continues a connection as far as that is possible without waiting.
    fn step(&mut self, mut waiting: Waiting) {
        match waiting.advance(self.patience.head) {
            Next::Stays => self.waiting.push(waiting),
            Next::Gone => {}
            Next::BadCertificate(why) => self.tell(&waiting.connection, &why),
            Next::Asks(request) => self.dispatch(waiting, request),
            Next::Refused(refused) => turn_away(waiting.connection, Method::Get, &Answer::refused(refused)),
        }
    }

    /// Logs why a client is not let in, because the client itself gets few words. A client that tries again and again
    /// does not fill the log.
    fn tell(&mut self, connection: &Connection, why: &str) {
        let now = Instant::now();
        if self.quiet_until.is_some_and(|until| now < until) {
            return;
        }
        self.quiet_until = now.checked_add(limits::SERVER_TELL_AGAIN);
        let ip = connection.peer.ip();
        log::warn!("a client at {ip}: its certificate is not accepted: {why}");
    }

    /// Gives a request to a thread of the pool.
    fn dispatch(&mut self, waiting: Waiting, request: Box<Request>) {
        let Waiting { mut connection, port, .. } = waiting;
        let Some(listening) = self.ports.get(port) else { return };
        let service = Arc::clone(&listening.port.service);
        let method = request.method;
        let busy = |why| Answer::text(503, why).with("Retry-After", "1");
        let client = listening.client(&mut connection);
        let census = match &client {
            Client::User(_) => &self.known,
            Client::Address(_) => &listening.strangers,
        };
        let seat = match census.enter(client.clone()) {
            Ok(seat) => seat,
            Err(full) => {
                let why = match (full, &client) {
                    (Full::Client, Client::Address(_)) => "too many requests of this address are under way",
                    (Full::Client, Client::User(_)) => "too many requests of this user are under way",
                    (Full::All, _) => "too many requests are under way on this node",
                };
                return turn_away(connection, method, &busy(why));
            }
        };
        let turn = Turn { client, seat, long: self.long.clone() };
        // The connection waits in a channel until a thread takes it, so that it is not lost when there is none.
        let (give, take) = crossbeam_channel::bounded(1);
        let (back, wake) = (self.give_back.clone(), Arc::clone(&self.wake));
        let job = move || {
            let Ok(connection) = take.recv() else { return };
            if let Some(connection) = serve(connection, &request, &service, turn)
                && back.send((connection, port)).is_ok()
            {
                // A full pipe wakes as well.
                let _ = rustix::io::write(&*wake, &[1]);
            }
        };
        match self.pool.give(Box::new(job)) {
            Ok(()) => _ = give.send(connection),
            Err(_) => turn_away(connection, method, &busy("too many requests are under way on this node")),
        }
    }

    fn accept(&mut self, at: usize) {
        for _ in 0..limits::SERVER_ACCEPTS {
            let Some(listening) = self.ports.get(at) else { return };
            let Some(socket) = &listening.socket else { return };
            match socket.accept() {
                Ok((stream, peer)) => self.welcome(stream, peer, at),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The client went away before it was accepted.
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) => {
                    log::warn!("{}: no connection is accepted for a moment: {error}", listening.port.name);
                    self.pause = Instant::now().checked_add(limits::SERVER_ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, stream: TcpStream, peer: SocketAddr, at: usize) {
        // The kernel hands out the lowest free descriptor: those above are left for pods.
        if stream.as_raw_fd() > self.highest {
            return;
        }
        let Some(seat) = self.seat(peer.ip()) else { return };
        let Some(listening) = self.ports.get(at) else { return };
        let tls = match &listening.port.certificates {
            None => None,
            Some(certificates) => match certificates.current(&self.pool) {
                Some(config) => Some(config),
                // The reason was reported.
                None => return,
            },
        };
        let is_tls = tls.is_some();
        let Ok(transport) = Transport::new(stream, tls, seat) else { return };
        let connection = Connection { transport, buffer: Vec::new(), peer, is_known: false, client: None };
        let (phase, time) = match is_tls {
            true => (Phase::Handshake, self.patience.handshake),
            false => (Phase::Head(0), self.patience.head),
        };
        self.step(Waiting::new(connection, at, phase, time));
    }

    /// Makes room for one more connection of this address, if need be by closing another one.
    fn seat(&mut self, address: IpAddr) -> Option<super::census::Seat> {
        let client = Client::at(address);
        let full = match self.connections.enter(client.clone()) {
            Ok(seat) => return Some(seat),
            Err(full) => full,
        };
        let places: Vec<Place> = self.waiting.iter().map(Waiting::place).collect();
        let at = gives_way(&places, full, &client)?;
        drop(self.waiting.swap_remove(at));
        self.connections.enter(client).ok()
    }
}

impl Listening {
    fn new(port: Port) -> Listening {
        let strangers = Census::fair(limits::SERVER_STRANGERS_OF_PORT, limits::SERVER_STRANGERS);
        Listening { port, socket: None, again: None, told: None, strangers }
    }

    /// Identifies the client. The certificate is checked once for each connection, and only decides about a thread:
    /// rights are checked with each request.
    fn client(&self, connection: &mut Connection) -> Client {
        let (chain, peer) = (connection.transport.certificates(), connection.peer);
        let look = || {
            let certificates =
                self.port.certificates.as_ref().filter(|_| chain.len() <= limits::SERVER_CHAIN);
            let user = certificates.and_then(|known| auth::known(known, chain).ok());
            user.map_or_else(|| Client::at(peer.ip()), |user| Client::User(user.name.into()))
        };
        connection.client.get_or_insert_with(look).clone()
    }

    fn listen(&mut self) {
        self.again = None;
        let bound = TcpListener::bind(self.port.address);
        match bound.and_then(|socket| socket.set_nonblocking(true).map(|()| socket)) {
            Ok(socket) => {
                log::info!("{} listens on {}", self.port.name, self.port.address);
                self.socket = Some(socket);
                self.told = None;
            }
            Err(error) => {
                let Port { name, address, .. } = &self.port;
                let why = error.to_string();
                if self.told.as_ref() != Some(&why) {
                    log::error!(
                        "{name} cannot listen on {address}: {why}; it is tried again every {} s, pods are not affected",
                        limits::SERVER_LISTEN_AGAIN.as_secs()
                    );
                    self.told = Some(why);
                }
                self.again = Instant::now().checked_add(limits::SERVER_LISTEN_AGAIN);
            }
        }
    }
}

/// Sends as much of the answer as possible without waiting, and closes the connection.
fn turn_away(mut connection: Connection, method: Method, answer: &Answer) {
    // The client gets less when its window is full.
    let _ = connection.transport.write(&answer.bytes(method, false, &date()));
    connection.transport.close_write();
}

/// The highest descriptor that a connection may have, so that enough are left for pods.
fn highest_descriptor() -> i32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = usize::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let spare = limits::SERVER_SPARE_DESCRIPTORS.min(limit / 2);
    i32::try_from(limit.saturating_sub(spare)).unwrap_or(i32::MAX)
}
