//! All connections to the server, and the calls over them.
//!
//! Few connections: those of calls are kept and reused, at most [`Budget::calls`] calls are in progress, and each watch
//! has its own. Connections with replaced credentials are not reused, and watches on them are cut, because they
//! would continue with the old identity.
//!
//! Never here: a retry of a call that the server may have carried out and that would have another effect the second
//! time.

use std::fmt;
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::credentials::{Access, Credentials};
use super::error::ApiError;
use super::json;
use super::kubeconfig::Kubeconfig;
use super::line::{self, Broken, Line};
use super::rate::{Bucket, Budget};
use super::request::Request;
use super::watch::Watch;
use crate::base::dial::Names;
use crate::base::{limits, pulse};
use crate::runtime::http1::{Head, Parser};

/// See the head of this file. Clones share everything.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Any,
    /// Lease and node status: its calls do not wait for others.
    Heartbeat,
    /// The source of pods: its calls can be cut without those of others.
    Source,
}

struct Shared {
    path: PathBuf,
    names: Names,
    credentials: Mutex<Credentials>,
    pool: Mutex<Pool>,
    /// Calls at a time.
    calls: usize,
    /// Notified when a call has ended, or the client was closed.
    freed: Condvar,
    /// Notified when the client was closed. Calls that wait for their turn wait here, so that none of them gets the
    /// notice that was meant for a call that waits for a place.
    ended: Condvar,
    closed: AtomicBool,
}

struct Pool {
    idle: Vec<Line>,
    /// Calls in progress, without heartbeats.
    calls: usize,
    /// Sockets of all connections, and the generation of each.
    live: Vec<(Weak<TcpStream>, u64)>,
    /// Those of watches, and of the calls of the source.
    of_source: Vec<Weak<TcpStream>>,
    bucket: Bucket,
    /// Generation of the credentials that were used last.
    generation: u64,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client of {}", self.shared.path.display())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave the data half changed: every statement keeps them consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place among the calls in progress.
struct Place<'c>(Option<&'c Shared>);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            let mut pool = lock(&shared.pool);
            pool.calls = pool.calls.saturating_sub(1);
            shared.freed.notify_one();
        }
    }
}

impl Client {
    /// A client for the server of this kubeconfig, which is read at the first call and again when it changes.
    #[must_use]
    pub fn new(kubeconfig: PathBuf) -> Client {
        Client::with(kubeconfig, Budget::default())
    }

    /// The same, with other bounds: for many nodes in one process.
    #[must_use]
    pub fn with(kubeconfig: PathBuf, budget: Budget) -> Client {
        Client::of(kubeconfig.clone(), Credentials::new(kubeconfig), budget)
    }

    /// The same, for a kubeconfig that another thread will write.
    #[must_use]
    pub fn awaiting(kubeconfig: PathBuf) -> Client {
        Client::of(kubeconfig.clone(), Credentials::awaited(kubeconfig), Budget::default())
    }

    /// A client for a kubeconfig that was read already.
    #[must_use]
    pub fn given(config: Kubeconfig) -> Client {
        Client::of(PathBuf::new(), Credentials::given(config), Budget::default())
    }

    fn of(kubeconfig: PathBuf, credentials: Credentials, budget: Budget) -> Client {
        let pool = Pool {
            idle: Vec::new(),
            calls: 0,
            live: Vec::new(),
            of_source: Vec::new(),
            bucket: Bucket::full(budget, Instant::now()),
            generation: 0,
        };
        let shared = Shared {
            credentials: Mutex::new(credentials),
            path: kubeconfig,
            names: Names::default(),
            pool: Mutex::new(pool),
            calls: budget.calls,
            freed: Condvar::new(),
            ended: Condvar::new(),
            closed: AtomicBool::new(false),
        };
        Client { shared: Arc::new(shared), role: Role::Any }
    }

    /// A client whose calls wait neither for others nor for the rate limit.
    #[must_use]
    pub fn heartbeat(&self) -> Client {
        Client { shared: Arc::clone(&self.shared), role: Role::Heartbeat }
    }

    /// A client whose calls and watches [`Client::cut_source`] ends.
    #[must_use]
    pub fn source(&self) -> Client {
        Client { shared: Arc::clone(&self.shared), role: Role::Source }
    }

    /// `https://host:port` of the server; `None` while the kubeconfig cannot be read.
    #[must_use]
    pub fn server(&self) -> Option<String> {
        self.usable().ok()
    }

    /// The same, or why the kubeconfig cannot be used. The server is not asked.
    ///
    /// # Errors
    /// A sentence that names the file and the mistake.
    pub fn usable(&self) -> Result<String, String> {
        let access = lock(&self.shared.credentials).current(Instant::now() + limits::API_PLUGIN)?;
        Ok(access.config.server.to_string())
    }

    /// Sends a call, and returns the object of its answer. Ends within `deadline`.
    ///
    /// # Errors
    /// See [`ApiError`]. After `Unreachable` the server may have carried out the call.
    pub fn call(&self, request: &Request, deadline: Duration) -> Result<Value, ApiError> {
        let until = Instant::now() + deadline;
        let _place = self.place(until)?;
        let (head, body) = self.exchange(request, until)?;
        if !(200..300).contains(&head.status) {
            return Err(ApiError::of_answer(&head, &body));
        }
        json::parse(&body, &head)
    }

    /// Begins a watch: a GET whose answer is events without an end.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub fn watch(&self, path: &str, deadline: Duration) -> Result<Watch, ApiError> {
        let until = Instant::now() + deadline;
        let _place = self.place(until)?;
        let request = Request::get(path);
        let mut tried_again = false;
        loop {
            let (mut line, access) = self.line(until)?;
            self.is_read_by_source(&mut line);
            let begun = line.send(&request, &access).and_then(|()| {
                let (mut parser, mut body) = (Parser::new(u64::MAX), Vec::new());
                let head = line.head(&mut parser, &mut body)?;
                Ok((parser, body, head))
            });
            match begun {
                Ok((parser, body, head)) if head.status == 200 => {
                    return Ok(Watch::new(line, parser, body, head));
                }
                Ok((mut parser, mut body, head)) => {
                    while body.len() < limits::API_BUFFER && !parser.is_done() {
                        if !line.read(&mut parser, &mut body).unwrap_or(false) {
                            break;
                        }
                    }
                    let can_change = head.status == 401 && lock(&self.shared.credentials).refused();
                    if !can_change || std::mem::replace(&mut tried_again, true) {
                        return Err(ApiError::of_answer(&head, &body));
                    }
                }
                Err(broken) => self.again(broken, true, &mut tried_again)?,
            }
        }
    }

    /// Cuts all connections: watches have to be started again.
    pub fn cut(&self) {
        let mut pool = lock(&self.shared.pool);
        pool.idle.clear();
        pool.cut(|_| true);
    }

    /// Cuts the connections of the source: those of other calls that are under way stay.
    pub fn cut_source(&self) {
        let mut pool = lock(&self.shared.pool);
        pool.idle.clear();
        for socket in pool.of_source.drain(..).filter_map(|socket| socket.upgrade()) {
            // A connection that is gone needs no shutdown.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Ends all calls and watches, and refuses new ones.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.cut();
        self.shared.freed.notify_all();
        self.shared.ended.notify_all();
    }

    /// Whether the client was closed: a call that fails then says nothing about the server.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    fn check_open(&self) -> Result<(), ApiError> {
        if self.is_closed() { Err(ApiError::Closed) } else { Ok(()) }
    }

    /// Waits for a place among the calls.
    fn place(&self, until: Instant) -> Result<Place<'_>, ApiError> {
        self.check_open()?;
        if self.role == Role::Heartbeat {
            return Ok(Place(None));
        }
        let mut pool = lock(&self.shared.pool);
        let begin = Instant::now() + pool.bucket.take(Instant::now());
        loop {
            self.check_open()?;
            let now = Instant::now();
            if now >= until {
                return Err(ApiError::Unreachable("too many calls to the server are under way".to_owned()));
            }
            let (wake, notice) = if now < begin {
                (begin.min(until), &self.shared.ended)
            } else if pool.calls < self.shared.calls {
                pool.calls = pool.calls.saturating_add(1);
                return Ok(Place(Some(&self.shared)));
            } else {
                (until, &self.shared.freed)
            };
            let left = wake.saturating_duration_since(now);
            let waited = pulse::waits(|| notice.wait_timeout(pool, left));
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn exchange(&self, request: &Request, until: Instant) -> Result<(Head, Vec<u8>), ApiError> {
        let (mut tried_again, mut refused) = (false, false);
        loop {
            let (mut line, access) = self.line(until)?;
            if self.role == Role::Source {
                self.is_read_by_source(&mut line);
            }
            let (mut parser, mut body) = (Parser::new(limits::API_ANSWER), Vec::new());
            let done = line.send(request, &access).and_then(|()| {
                while !parser.is_done() {
                    line.read(&mut parser, &mut body)?;
                }
                line.head(&mut parser, &mut body)
            });
            match done {
                Ok(head) => {
                    if head.keep_alive {
                        self.keep(line);
                    }
                    let can_change = head.status == 401 && lock(&self.shared.credentials).refused();
                    if can_change && !std::mem::replace(&mut refused, true) {
                        continue;
                    }
                    return Ok((head, body));
                }
                Err(broken) => self.again(broken, request.method.is_repeatable(), &mut tried_again)?,
            }
        }
    }

    /// Whether to send a request again, on another connection.
    fn again(&self, broken: Broken, is_repeatable: bool, tried: &mut bool) -> Result<(), ApiError> {
        self.check_open()?;
        match broken {
            Broken::Stale if is_repeatable && !std::mem::replace(tried, true) => {
                // The server was restarted, and has closed all connections.
                lock(&self.shared.pool).idle.clear();
                Ok(())
            }
            Broken::Stale => {
                Err(ApiError::Unreachable("the server closed the connection before it answered".to_owned()))
            }
            Broken::For(error) => Err(error),
        }
    }

    /// An idle connection, or a new one.
    fn line(&self, until: Instant) -> Result<(Line, Access), ApiError> {
        self.check_open()?;
        let access = lock(&self.shared.credentials).current(until).map_err(ApiError::BadCredentials)?;
        let idle = {
            let mut pool = lock(&self.shared.pool);
            if pool.generation != access.generation {
                pool.generation = access.generation;
                pool.idle.clear();
                pool.cut(|generation| generation != access.generation);
            }
            loop {
                match pool.idle.pop().map(|mut line| (line.is_quiet(), line)) {
                    Some((true, line)) => break Some(line),
                    Some((false, _)) => {}
                    None => break None,
                }
            }
        };
        if let Some(mut line) = idle {
            line.set_until(until);
            return Ok((line, access));
        }
        let to = access.config.proxy.as_ref().unwrap_or(&access.config.server);
        let patience = limits::API_CONNECT.min(until.saturating_duration_since(Instant::now()));
        let found = self.shared.names.find(&to.host, to.port, patience);
        let socket = line::connect(&found.map_err(ApiError::Unreachable)?, until)?;
        lock(&self.shared.pool).live.push((Arc::downgrade(&socket), access.generation));
        // If the client was closed meanwhile, no other thread would shut this connection down.
        self.check_open()?;
        let mut line = Line::open(socket, &access, until)?;
        line.set_until(until);
        Ok((line, access))
    }

    fn is_read_by_source(&self, line: &mut Line) {
        let connection = line.connection();
        let mut pool = lock(&self.shared.pool);
        pool.of_source.retain(|socket| socket.strong_count() > 0);
        pool.of_source.push(connection);
    }

    fn keep(&self, mut line: Line) {
        line.used = Instant::now();
        let connection = line.connection();
        let mut pool = lock(&self.shared.pool);
        pool.of_source.retain(|socket| !socket.ptr_eq(&connection));
        if pool.idle.len() < self.shared.calls && line.generation == pool.generation {
            pool.idle.push(line);
        }
        pool.live.retain(|(socket, _)| socket.strong_count() > 0);
    }
}

impl Pool {
    /// Shuts down the connections of these generations.
    fn cut(&mut self, which: impl Fn(u64) -> bool) {
        for (socket, _) in self.live.iter().filter(|(_, generation)| which(*generation)) {
            if let Some(socket) = socket.upgrade() {
                // A connection that is gone needs no shutdown.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        self.live.retain(|(socket, generation)| socket.strong_count() > 0 && !which(*generation));
    }
}
