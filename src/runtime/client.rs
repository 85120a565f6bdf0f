//! The client of a Docker socket: its path, the agreed API version, connections kept for reuse; and
//! [`Pending`], a short call in flight.
//!
//! It creates no thread, and only [`Pending::wait`] blocks: one thread can have many calls in flight and
//! wait for all of them and its own wake-up with [`wait_any`].

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::{Connection, Idle, Polled, poll};
use super::exchange::{Answer, Exchange, Goal};
use super::list::Listed;
use super::reply::{self, Form};
use super::request::Request;
use super::types::{Call, DockerError, Reply};
use crate::base::limits;

/// A Docker Engine behind a Unix socket. Clones share connections and the agreed version.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    short_call: Duration,
    pool: Mutex<Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    version: Option<(u16, u16)>,
    idle: Vec<Connection>,
}

impl Client {
    /// A client of the socket at `path`. It connects at the first call.
    #[must_use]
    pub fn new(path: &Path) -> Client {
        Client::with_deadline(path, limits::SHORT_CALL)
    }

    /// Like [`Client::new`], with another deadline for short calls and for the head of a stream's answer.
    #[must_use]
    pub fn with_deadline(path: &Path, short_call: Duration) -> Client {
        let pool = Mutex::new(Pool::default());
        Client { shared: Arc::new(Shared { path: path.to_owned(), short_call, pool }) }
    }

    /// Sends a short call, as much of it as the socket takes, and returns at once.
    #[must_use]
    pub fn begin(&self, call: &Call) -> Pending {
        let form = Form::of(call);
        let request = Request::call(call);
        if matches!(call, Call::Create { .. })
            && let Err(error) = self.connect_anew()
        {
            return Pending::ready(Err(error));
        }
        let exchange = match form {
            Form::Containers => Exchange::begin_list(self, request, Listed::Containers),
            Form::Images => Exchange::begin_list(self, request, Listed::Images),
            Form::Image => Exchange::begin_within(self, request, limits::IMAGE_INSPECT),
            _ => Exchange::begin(self, Some(request)),
        };
        match exchange {
            Ok(exchange) => {
                let begun = Instant::now();
                let short_call = self.shared.short_call;
                let deadline = begun.checked_add(short_call).unwrap_or(begun);
                let flight = Flight { exchange, form, deadline, begun, short_call, received: 0 };
                Pending::InFlight(InFlight(Box::new(flight)))
            }
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// Checks that Docker answers, and agrees on the API version again.
    ///
    /// # Errors
    /// [`DockerError::Unreachable`], [`DockerError::Version`], or Docker's own complaint.
    pub fn ping(&self) -> Result<(u16, u16), DockerError> {
        let (mut exchange, deadline) = self.exchange(None)?;
        complete(&mut exchange, Goal::End, deadline)?;
        exchange.finish();
        let gone =
            || DockerError::Unreachable("Docker went away while it was asked for its version".to_owned());
        self.known_version().ok_or_else(gone)
    }

    /// The agreed API version; Docker is asked if it is not known.
    ///
    /// # Errors
    /// As for [`Client::ping`].
    pub fn version(&self) -> Result<(u16, u16), DockerError> {
        self.known_version().map_or_else(|| self.ping(), Ok)
    }

    /// Sends a request and waits for the head of a successful answer.
    ///
    /// # Errors
    /// As for a short call.
    pub(super) fn open(&self, request: Request) -> Result<(Exchange, Vec<u8>), DockerError> {
        let (mut exchange, deadline) = self.exchange(Some(request))?;
        let answer = complete(&mut exchange, Goal::Head, deadline)?;
        self.check_status(exchange, answer)
    }

    /// Sends the whole request and does not wait for the answer. If the answer had arrived already, also
    /// returns the part of its body that was read.
    ///
    /// # Errors
    /// As for a short call, until it is sent.
    pub(super) fn send(&self, request: Request) -> Result<(Exchange, Option<Vec<u8>>), DockerError> {
        let (mut exchange, deadline) = self.exchange(Some(request))?;
        loop {
            match exchange.advance(Goal::Head)? {
                Some(answer) => {
                    return self
                        .check_status(exchange, answer)
                        .map(|(exchange, begun)| (exchange, Some(begun)));
                }
                None if exchange.is_sent() => return Ok((exchange, None)),
                None if Instant::now() >= deadline => return Err(timeout(&exchange)),
                None => wait_for(&exchange, deadline),
            }
        }
    }

    /// Turns an answer with an error status into an error.
    fn check_status(&self, exchange: Exchange, answer: Answer) -> Result<(Exchange, Vec<u8>), DockerError> {
        if answer.head.status < 300 {
            return Ok((exchange, answer.body.0));
        }
        let error = super::refusal::refusal(answer.head.status, &answer.body);
        self.forget_refused_version(&error);
        exchange.finish();
        Err(error)
    }

    fn exchange(&self, request: Option<Request>) -> Result<(Exchange, Instant), DockerError> {
        let now = Instant::now();
        let deadline = now.checked_add(self.shared.short_call).unwrap_or(now);
        Ok((Exchange::begin(self, request)?, deadline))
    }

    /// An idle connection that is still good, else a new one.
    pub(super) fn connection(&self) -> Result<Connection, DockerError> {
        loop {
            let Some(connection) = self.pool().idle.pop() else { break };
            match connection.idle() {
                Idle::Usable => return Ok(connection),
                // Docker may have been upgraded meanwhile.
                Idle::Closed => self.forget_version(),
                Idle::Stray => {}
            }
        }
        Connection::open(&self.shared.path).inspect_err(|_| self.forget_version())
    }

    /// Replaces the first connection by a new one. A Docker that is being stopped takes no new one, but goes on answering on
    /// those that it has while it stops its containers: one that is made now would end at once, and count as a restart.
    fn connect_anew(&self) -> Result<(), DockerError> {
        let fresh = Connection::open(&self.shared.path).inspect_err(|_| self.forget_version())?;
        let last = self.pool().idle.pop();
        // Docker may have been upgraded meanwhile.
        if last.is_some_and(|last| last.idle() == Idle::Closed) {
            self.forget_version();
        }
        self.put_back(fresh);
        Ok(())
    }

    /// Where the socket is.
    pub(super) fn path(&self) -> &Path {
        &self.shared.path
    }

    pub(super) fn put_back(&self, connection: Connection) {
        let mut pool = self.pool();
        if pool.idle.len() < limits::IDLE_CONNECTIONS {
            pool.idle.push(connection);
        }
    }

    pub(super) fn known_version(&self) -> Option<(u16, u16)> {
        self.pool().version
    }

    pub(super) fn remember(&self, version: (u16, u16)) {
        self.pool().version = Some(version);
    }

    pub(super) fn forget_version(&self) {
        self.pool().version = None;
    }

    /// Forgets the agreed version when Docker refuses it.
    fn forget_refused_version(&self, error: &DockerError) {
        if matches!(error, DockerError::Version(_)) {
            self.forget_version();
        }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        // Both fields are consistent after every statement that changes them, so a poisoned lock is
        // harmless.
        self.shared.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for an exchange, at most until `deadline`.
fn complete(exchange: &mut Exchange, goal: Goal, deadline: Instant) -> Result<Answer, DockerError> {
    loop {
        if let Some(answer) = exchange.advance(goal)? {
            return Ok(answer);
        }
        if Instant::now() >= deadline {
            return Err(timeout(exchange));
        }
        wait_for(exchange, deadline);
    }
}

fn wait_for(exchange: &Exchange, deadline: Instant) {
    poll(std::iter::once((exchange.as_fd(), exchange.wants_write())), None, Some(deadline));
}

/// A call may be repeated if no byte of it was sent; otherwise its outcome is unknown.
fn timeout(exchange: &Exchange) -> DockerError {
    let what = exchange.what();
    if exchange.is_unsent() {
        DockerError::Unreachable(format!("it takes connections but does not answer ({what} was not sent)"))
    } else {
        DockerError::Timeout(what.to_owned())
    }
}

/// A short call in flight. Dropping it before its end closes its connection.
#[derive(Debug)]
pub enum Pending {
    /// The answer has arrived and was not taken yet.
    Ready(Box<Result<Reply, DockerError>>),
    /// Docker has not answered yet.
    InFlight(InFlight),
}

/// See [`Pending::InFlight`].
#[derive(Debug)]
pub struct InFlight(Box<Flight>);

#[derive(Debug)]
struct Flight {
    exchange: Exchange,
    form: Form,
    deadline: Instant,
    begun: Instant,
    short_call: Duration,
    /// Bytes received when the deadline was set.
    received: u64,
}

impl Flight {
    /// A list of thousands of containers may take long on a slow machine: the deadline counts from the last
    /// byte received.
    fn move_deadline(&mut self) {
        let received = self.exchange.received();
        if matches!(self.form, Form::Containers | Form::Images) && received > self.received {
            self.received = received;
            let next = Instant::now().checked_add(self.short_call);
            let last = self.begun.checked_add(self.short_call.max(limits::LIST_WHOLE));
            self.deadline = next.min(last).unwrap_or(self.deadline);
        }
    }

    fn read(&self, answer: Answer) -> Result<Reply, DockerError> {
        let what = self.exchange.what();
        match answer.list {
            Some(list) if (200..300).contains(&answer.head.status) => {
                list.reply().map_err(|why| DockerError::BadAnswer(format!("{what}: {why}")))
            }
            _ => reply::reply(self.form, what, answer.head.status, &answer.body),
        }
    }
}

impl Pending {
    /// A call whose result is known at once.
    #[must_use]
    pub fn ready(result: Result<Reply, DockerError>) -> Pending {
        Pending::Ready(Box::new(result))
    }

    /// The same call with a deadline this far from now.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Pending {
        if let Pending::InFlight(InFlight(flight)) = &mut self {
            let now = Instant::now();
            flight.deadline = now.checked_add(time).unwrap_or(now);
        }
        self
    }

    /// The descriptor to poll for reading; `None` when [`Pending::advance`] has a result immediately.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Pending::Ready(_) => None,
            Pending::InFlight(InFlight(flight)) => Some(flight.exchange.as_fd()),
        }
    }

    /// Whether to poll for writing, too: the request was longer than the socket's buffer.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        match self {
            Pending::Ready(_) => false,
            Pending::InFlight(InFlight(flight)) => flight.exchange.wants_write(),
        }
    }

    /// The time at which [`Pending::advance`] gives up.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Pending::Ready(_) => None,
            Pending::InFlight(InFlight(flight)) => Some(flight.deadline),
        }
    }

    /// Continues as far as possible without waiting. Returns the result, once.
    pub fn advance(&mut self) -> Option<Result<Reply, DockerError>> {
        let taken = || Pending::ready(Err(DockerError::Lost("the answer was taken before".to_owned())));
        let result = match self {
            Pending::Ready(_) => {
                let Pending::Ready(result) = std::mem::replace(self, taken()) else { return None };
                return Some(*result);
            }
            Pending::InFlight(InFlight(flight)) => match flight.exchange.advance(Goal::End) {
                Ok(None) => {
                    flight.move_deadline();
                    if Instant::now() < flight.deadline {
                        return None;
                    }
                    Err(timeout(&flight.exchange))
                }
                Ok(Some(answer)) => flight.read(answer),
                Err(error) => Err(error),
            },
        };
        if let Pending::InFlight(InFlight(flight)) = std::mem::replace(self, taken()) {
            if let Err(error) = &result {
                flight.exchange.client().forget_refused_version(error);
            }
            flight.exchange.finish();
        }
        Some(result)
    }

    /// Waits for the result, at most until the deadline.
    ///
    /// # Errors
    /// Every [`DockerError`].
    pub fn wait(mut self) -> Result<Reply, DockerError> {
        loop {
            if let Some(result) = self.advance() {
                return result;
            }
            wait_any(std::iter::once(&self), None, None);
        }
    }
}

/// Waits until one of `calls` can continue, is finished or is late, `wake` is readable, or `until` is
/// reached. The caller then has to [`Pending::advance`] each of them.
pub fn wait_any<'a>(
    calls: impl Iterator<Item = &'a Pending> + Clone,
    wake: Option<BorrowedFd<'a>>,
    until: Option<Instant>,
) -> Polled {
    if calls.clone().any(|call| call.fd().is_none()) {
        return Polled::Ready;
    }
    let late = calls.clone().filter_map(Pending::deadline).min();
    let first = [until, late].into_iter().flatten().min();
    let fds = calls.filter_map(|call| Some((call.fd()?, call.wants_write())));
    match poll(fds, wake, first) {
        Polled::TimedOut if first != until => Polled::Ready,
        polled => polled,
    }
}

#[cfg(test)]
mod tests;
