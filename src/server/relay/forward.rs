//! Port-forward: the pairs of streams of a client on one side, connections to ports of a pod on the other.
//!
//! A port is tried on the pod's 127.0.0.1, then on its ::1, as the kubelet's runtimes do. Never here: bytes kept beyond
//! the bound for all connections together, or a connection that holds up the others without end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, connect};

use super::Broken;
use super::client::Client;
use crate::base::limits;
use crate::base::table::Table;
use crate::base::wait::{self, later};
use crate::network::netns::Netns;
use crate::pod::is_final;
use crate::runtime::docker::Docker;
use crate::server::connection::Upgraded;
use crate::server::stream::negotiate::Forward;
use crate::server::stream::ports::{News, PairId, Pairs};
use crate::status::snapshot::{Latest, PodView};

/// One port-forward.
#[derive(Debug)]
pub struct Job {
    pub docker: Docker,
    /// Docker's id of a running container of the pod, which shares its network.
    pub container: String,
    /// The pods of the node.
    pub pods: Latest,
    /// Ports of the request, if the protocol has them there.
    pub ports: Vec<u16>,
    /// Name and UID of the pod, for the client.
    pub pod: String,
    pub uid: String,
    /// The operation and the pod, for the log.
    pub what: String,
}

impl Job {
    /// Whether the pod is not over. Its network may be that of the node, which is there without it.
    fn is_alive(&self) -> bool {
        let is_it = |view: &PodView| view.pod.uid == self.uid && !is_final(view.status.phase.as_deref());
        self.pods.get().pods.iter().any(is_it)
    }

    fn wrong(&self, port: u16, why: &str) -> String {
        format!("error forwarding port {port} to pod {}, uid {}: {why}", self.pod, self.uid)
    }
}

/// Relays the streams until their end.
pub fn run(job: &Job, protocol: Forward, upgraded: Upgraded) {
    let mut relay = Relay {
        client: Client::new(upgraded),
        pairs: Pairs::new(protocol, &job.ports),
        netns: Netns::of_container(&job.docker, &job.container),
        open: Table::new(),
        waiting: 0,
        active: Instant::now(),
    };
    match relay.run(job) {
        Ok(()) | Err(Broken::Gone) => {}
        Err(Broken::Client(why)) => {
            log::info!("{}: {why}; its connection is closed", job.what);
            relay.client.give_up(relay.pairs.output());
        }
    }
}

/// A connection to a port.
#[derive(Debug)]
struct Port {
    socket: TcpStream,
    port: u16,
    state: State,
    /// Bytes of the client that the port has not taken yet.
    pending: Vec<u8>,
    /// The client sends no more.
    is_ended: bool,
    /// The end of the client's bytes was passed on to the port.
    is_told: bool,
    /// The port sends no more.
    is_finished: bool,
    /// When it took or sent something last.
    active: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Over IPv4.
    Connecting,
    /// Over IPv6, after IPv4 failed with this error.
    Again(String),
    Connected,
}

struct Relay {
    client: Client,
    pairs: Pairs,
    netns: Result<Netns, String>,
    open: Table<PairId, Port>,
    /// Number of bytes that ports have not taken yet, over all connections.
    waiting: usize,
    active: Instant,
}

impl Relay {
    fn run(&mut self, job: &Job) -> Result<(), Broken> {
        let mut look = later(limits::STREAMS_CREATED);
        loop {
            let mut more = self.hear(job)?;
            let was_full = !self.may_read();
            self.client.send(self.pairs.output())?;
            // Bytes that were read while there was no room are reported by no poll.
            more |= was_full && self.may_read();
            if self.pairs.is_over() && self.pairs.output().is_empty() {
                self.pairs.end();
                if self.client.flush(self.pairs.output()).is_ok() {
                    self.client.linger(limits::STREAM_LINGER, &mut |bytes| self.pairs.is_closed_by(bytes));
                }
                return Ok(());
            }
            let now = Instant::now();
            if self.pairs.has_halves() && now >= look {
                self.pairs.look();
                look = later(limits::STREAMS_CREATED);
            }
            self.unblock(job, now);
            self.wait(job, look, more)?;
        }
    }

    fn may_read(&mut self) -> bool {
        self.waiting < limits::FORWARD_WAITING && self.pairs.output().len() < limits::STREAM_BACKLOG
    }

    /// Takes messages of the client, as long as there is room; returns true when there may be more.
    fn hear(&mut self, job: &Job) -> Result<bool, Broken> {
        for _ in 0..limits::STREAM_TURN {
            if !self.may_read() {
                return Ok(false);
            }
            match self.pairs.news()? {
                Some(News::Opened { pair, port }) => self.opened(job, pair, port),
                Some(News::Data { pair, bytes }) => match self.open.get_mut(&pair) {
                    Some(to) => {
                        self.waiting = self.waiting.saturating_add(bytes.len());
                        to.pending.extend(bytes);
                        self.feed(job, pair);
                    }
                    None => self.pairs.taken(pair, bytes.len()),
                },
                Some(News::Ended { pair }) => {
                    if let Some(to) = self.open.get_mut(&pair) {
                        to.is_ended = true;
                        self.feed(job, pair);
                    }
                }
                Some(News::Reset { pair }) => self.close(pair, None),
                Some(News::Gone) => return Err(Broken::Gone),
                None => match self.client.read()? {
                    Some(bytes) => {
                        self.active = Instant::now();
                        self.pairs.receive(&bytes);
                    }
                    None => return Ok(false),
                },
            }
        }
        Ok(true)
    }

    fn opened(&mut self, job: &Job, pair: PairId, port: u16) {
        let begun = match &self.netns {
            Ok(_) if !job.is_alive() => Err("the pod is over".to_owned()),
            Ok(netns) => begin(netns, port),
            Err(why) => Err(why.clone()),
        };
        match begun {
            Ok((socket, state)) => {
                let (pending, active) = (Vec::new(), Instant::now());
                let (is_ended, is_told, is_finished) = (false, false, false);
                let open = Port { socket, port, state, pending, is_ended, is_told, is_finished, active };
                self.open.insert(pair, open);
            }
            Err(why) => self.pairs.close(pair, Some(&job.wrong(port, &why))),
        }
    }

    /// Ends a connection; `wrong` is the error, if there was one.
    fn close(&mut self, pair: PairId, wrong: Option<&str>) {
        if let Some(port) = self.open.remove(&pair) {
            self.waiting = self.waiting.saturating_sub(port.pending.len());
        }
        self.pairs.close(pair, wrong);
    }

    /// Sends the client's bytes to a port as far as it takes them, and then their end.
    fn feed(&mut self, job: &Job, pair: PairId) {
        let Some(port) = self.open.get_mut(&pair).filter(|port| port.state == State::Connected) else {
            return;
        };
        let mut taken = 0_usize;
        let broken = loop {
            let rest = port.pending.get(taken..).unwrap_or_default();
            if rest.is_empty() {
                break None;
            }
            match port.socket.write(rest) {
                Ok(count) => taken = taken.saturating_add(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Some(error),
            }
        };
        if taken > 0 {
            port.pending.drain(..taken.min(port.pending.len()));
            port.active = Instant::now();
            self.active = port.active;
            self.waiting = self.waiting.saturating_sub(taken);
            self.pairs.taken(pair, taken);
        }
        if let Some(error) = broken {
            let wrong = job.wrong(port.port, &error.to_string());
            return self.close(pair, Some(&wrong));
        }
        if port.is_ended && port.pending.is_empty() && !std::mem::replace(&mut port.is_told, true) {
            // An error here shows up again when the socket is read.
            let _ = port.socket.shutdown(Shutdown::Write);
        }
        if port.is_told && port.is_finished {
            self.close(pair, None);
        }
    }

    /// Sends a port's next piece to the client.
    fn pour(&mut self, job: &Job, pair: PairId) {
        let Some(port) = self.open.get_mut(&pair).filter(|port| !port.is_finished) else { return };
        let mut buffer = [0u8; limits::HTTP_READ];
        match port.socket.read(&mut buffer) {
            Ok(0) => {
                port.is_finished = true;
                if port.is_told {
                    return self.close(pair, None);
                }
                self.pairs.finish(pair);
            }
            Ok(count) => {
                port.active = Instant::now();
                self.active = port.active;
                self.pairs.write(pair, buffer.get(..count).unwrap_or_default());
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => {
                let wrong = job.wrong(port.port, &error.to_string());
                self.close(pair, Some(&wrong));
            }
        }
    }

    /// Handles the end of a connection attempt.
    fn connected(&mut self, job: &Job, pair: PairId) {
        let Some(port) = self.open.get_mut(&pair) else { return };
        let error = match port.socket.take_error() {
            Ok(None) => {
                port.state = State::Connected;
                return self.feed(job, pair);
            }
            Ok(Some(error)) | Err(error) => words(&error),
        };
        let next = match (&port.state, &self.netns) {
            (State::Connecting, Ok(netns)) => match begin_ipv6(netns, port.port, error.clone()) {
                Ok(next) => Ok(next),
                Err(also) => Err(both(port.port, &error, &also)),
            },
            (State::Again(first), _) => Err(both(port.port, first, &error)),
            _ => Err(error),
        };
        match next {
            Ok((socket, state)) => (port.socket, port.state) = (socket, state),
            Err(why) => {
                let wrong = job.wrong(port.port, &why);
                self.close(pair, Some(&wrong));
            }
        }
    }

    /// When the bound on waiting bytes is reached and holds up other connections, gives up the one that has taken
    /// nothing for the longest time.
    fn unblock(&mut self, job: &Job, now: Instant) {
        if self.waiting < limits::FORWARD_WAITING || self.open.len() < 2 {
            return;
        }
        let held = self.open.iter().filter(|(_, port)| !port.pending.is_empty());
        let Some((pair, port)) = held.min_by_key(|(_, port)| port.active) else { return };
        if now.saturating_duration_since(port.active) >= limits::FORWARD_STALL {
            let wrong = job.wrong(port.port, "it takes nothing, and holds up other connections");
            let pair = *pair;
            self.close(pair, Some(&wrong));
        }
    }

    /// Serves ports that are ready, and waits for the next one unless there is more to do at once.
    fn wait(&mut self, job: &Job, look: Instant, more: bool) -> Result<(), Broken> {
        let idle = self.active.checked_add(limits::STREAM_IDLE);
        if idle.is_some_and(|at| at <= Instant::now()) {
            return Err(Broken::Client("nothing was sent or received for too long".to_owned()));
        }
        let has_room = self.pairs.output().len() < limits::STREAM_BACKLOG;
        let wants_read = self.may_read();
        let has_outgoing = !self.pairs.output().is_empty();
        let mut until = if more { Some(Instant::now()) } else { idle };
        if self.pairs.has_halves() {
            until = until.map(|at| at.min(look));
        }
        if self.waiting >= limits::FORWARD_WAITING && self.open.len() > 1 {
            until = until.map(|at| at.min(later(limits::FORWARD_STALL)));
        }
        let (mut asked, mut set) = (Vec::new(), vec![self.client.poll(wants_read, has_outgoing)]);
        for (pair, port) in &self.open {
            let flags = port.wishes(has_room);
            // With empty flags a connection that its port has closed would wake up again and again.
            if !flags.is_empty() {
                asked.push(*pair);
                set.push(PollFd::from_borrowed_fd(port.socket.as_fd(), flags));
            }
        }
        let there = wait::until(set, until).map_err(io::Error::from)?;
        let broken = PollFlags::HUP | PollFlags::ERR;
        if !wants_read && there.first().is_some_and(|flags| flags.intersects(broken)) {
            return Err(Broken::Gone);
        }
        for (pair, flags) in asked.into_iter().zip(there.into_iter().skip(1)) {
            if !flags.is_empty() {
                self.ready(job, pair, flags);
            }
        }
        Ok(())
    }

    fn ready(&mut self, job: &Job, pair: PairId, flags: PollFlags) {
        if self.open.get(&pair).is_some_and(|port| port.state != State::Connected) {
            return self.connected(job, pair);
        }
        let broken = PollFlags::HUP | PollFlags::ERR;
        if flags.intersects(PollFlags::OUT | broken) {
            self.feed(job, pair);
        }
        if flags.intersects(PollFlags::IN | broken) && self.pairs.output().len() < limits::STREAM_BACKLOG {
            self.pour(job, pair);
        }
    }
}

impl Port {
    /// The flags to poll for.
    fn wishes(&self, has_room: bool) -> PollFlags {
        if self.state != State::Connected {
            return PollFlags::OUT;
        }
        let mut flags = PollFlags::empty();
        if has_room && !self.is_finished {
            flags |= PollFlags::IN;
        }
        if !self.pending.is_empty() {
            flags |= PollFlags::OUT;
        }
        flags
    }
}

/// Starts to connect to a port.
fn begin(netns: &Netns, port: u16) -> Result<(TcpStream, State), String> {
    match attempt(netns, AddressFamily::INET, SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
        Ok(socket) => Ok((socket, State::Connecting)),
        Err(error) => {
            let first = words(&error);
            begin_ipv6(netns, port, first.clone()).map_err(|also| both(port, &first, &also))
        }
    }
}

fn begin_ipv6(netns: &Netns, port: u16, first: String) -> Result<(TcpStream, State), String> {
    let to = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    match attempt(netns, AddressFamily::INET6, to) {
        Ok(socket) => Ok((socket, State::Again(first))),
        Err(error) => Err(words(&error)),
    }
}

/// A socket that is connecting; the result is known when it is writable.
fn attempt(netns: &Netns, family: AddressFamily, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = netns.socket(family)?;
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {
            let socket = TcpStream::from(socket);
            // Small pieces should not wait for each other; a failure is harmless.
            let _ = socket.set_nodelay(true);
            Ok(socket)
        }
        Err(error) => Err(error.into()),
    }
}

/// An error in the words of Go's runtimes, for the most frequent one.
fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    }
}

fn both(port: u16, ipv4: &str, ipv6: &str) -> String {
    format!("failed to connect to localhost:{port} inside the pod's network, IPv4: {ipv4}, IPv6: {ipv6}")
}
