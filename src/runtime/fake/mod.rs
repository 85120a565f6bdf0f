//! The in-memory Docker (`--docker-endpoint fake://`): the simulation runs on it, and nodes are load-tested
//! with it without containers. It has Docker 20.10's states, refusals, words and events.
//!
//! [`State`] is the engine, pure; [`Fake`] shares it between threads and gives it the time. The real daemon
//! needs a driver ([`Fake::drive`]) that runs timers when they are due; the simulation moves the time itself.
//! Never here: a decision about pods.

mod answers;
mod behaviour;
pub mod calls;
pub mod events;
pub mod exec;
pub mod faults;
mod feeds;
pub mod hooks;
pub mod images;
mod networks;
pub mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use state::State;

// For tests, which control the engine with these; the daemon does not use them.
#[cfg(any(test, feature = "testing"))]
pub use self::{
    behaviour::Behaviour,
    events::{Cursor, EventNext},
    faults::{FaultPlan, Rng},
    hooks::Restart,
};
#[cfg(test)]
pub use self::{
    behaviour::{OnTerm, Run},
    faults::Fault,
    hooks::Field,
    images::Pull,
};

use feeds::{Feed, Source};

use crate::base::clock::Clock;
use crate::base::limits::{FAKE_SLOW_READER, FAKE_STACK};
use crate::base::thread;
use crate::runtime::{Call, DockerError, Reply};

/// A handle on one in-memory engine; clones share the engine.
#[derive(Clone)]
pub struct Fake(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Mutex<Engine>,
    /// Wakes the driver: an earlier timer, a slow reader, or the end.
    changed: Condvar,
    clock: Arc<dyn Clock>,
}

struct Engine {
    state: State,
    feeds: Vec<Feed>,
    /// The last handle is gone.
    closed: bool,
}

impl Engine {
    fn pump(&mut self) {
        let state = &self.state;
        self.feeds.retain_mut(|feed| feed.pump(state));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Fake {
    /// An empty engine whose ids follow from `seed`. Without a driver ([`Fake::drive`]) timers run only when
    /// the engine is called.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, seed: u64) -> Self {
        let engine = Mutex::new(Engine { state: State::new(seed), feeds: Vec::new(), closed: false });
        Fake(Arc::new(Handle { shared: Arc::new(Shared { engine, changed: Condvar::new(), clock }) }))
    }

    /// Starts the thread `pk-fake`, which sleeps until a timer is due and ends with the last handle. Only for
    /// a clock that runs in real time.
    ///
    /// # Errors
    /// The thread cannot be made.
    pub fn drive(&self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.0.shared);
        thread::spawn("pk-fake", FAKE_STACK, move || drive(&shared))?;
        Ok(())
    }

    /// Calls `act` with the engine's state, then updates streams and the driver: the way to its hooks.
    pub fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let shared = &self.0.shared;
        let mut engine = shared.lock();
        let due = engine.state.next_due();
        let result = act(&mut engine.state);
        engine.pump();
        if engine.state.next_due() != due || engine.feeds.iter().any(Feed::lags) {
            shared.changed.notify_all();
        }
        result
    }

    /// Carries out one call now.
    ///
    /// # Errors
    /// Docker's refusals and the planned faults.
    pub fn perform(&self, call: &Call) -> Result<Reply, DockerError> {
        let now = self.0.shared.clock.now();
        self.with(|state| state.perform(call, now))
    }

    /// Runs the timers that are due.
    pub fn advance(&self) {
        let now = self.0.shared.clock.now();
        self.with(|state| state.advance(now));
    }

    fn feed(&self, begin: Vec<u8>, source: Source) -> Result<OwnedFd, DockerError> {
        let (feed, theirs) = Feed::open(begin, source)?;
        self.0.shared.lock().feeds.push(feed);
        self.with(|_| ());
        Ok(theirs)
    }

    /// `GET /events` of containers with all these labels (`key` or `key=value`): one JSON object per line.
    /// `since` (wall time, seconds) replays the ring from there.
    ///
    /// # Errors
    /// The engine is down; no descriptor is left.
    pub fn events(&self, labels: &[String], since: Option<i64>) -> Result<OwnedFd, DockerError> {
        let since = since.map(|s| s.saturating_mul(1_000_000_000));
        let cursor = self.with(|state| state.subscribe(since))?;
        self.feed(Vec::new(), Source::Events(cursor, labels.to_vec()))
    }

    /// `GET /events` of images; `since` as above.
    ///
    /// # Errors
    /// As above.
    pub fn image_events(&self, since: Option<i64>) -> Result<OwnedFd, DockerError> {
        let since = since.map(|s| s.saturating_mul(1_000_000_000));
        let cursor = self.with(|state| state.subscribe_images(since))?;
        self.feed(Vec::new(), Source::Images(cursor))
    }

    /// Pulls an image in the scripted time; fails without progress after `at_most`.
    ///
    /// # Errors
    /// As scripted, and the planned faults.
    pub fn pull(&self, reference: &str, at_most: Option<Duration>) -> Result<(), DockerError> {
        let now = self.0.shared.clock.now();
        let takes = self.with(|state| state.pull(reference, now))?;
        if let Some(most) = at_most.filter(|most| *most < takes) {
            std::thread::sleep(most);
            return Err(DockerError::Stalled(format!("pull of {reference}: no progress for {most:?}")));
        }
        if !takes.is_zero() {
            std::thread::sleep(takes);
            self.with(|state| state.pulled(reference));
        }
        Ok(())
    }

    /// Loads an image archive (`docker save`'s format); returns the names in it.
    ///
    /// # Errors
    /// It is not an image archive; the planned faults.
    pub fn load(&self, tar: &[u8]) -> Result<Vec<String>, DockerError> {
        let now = self.0.shared.clock.now();
        self.with(|state| state.load(tar, now))
    }

    /// A container's log, in frames unless it has a terminal: its `last` lines, and with `follow` open while
    /// the container runs.
    ///
    /// # Errors
    /// No such container; the engine is down.
    pub fn logs(&self, id: &str, follow: bool, last: Option<usize>) -> Result<OwnedFd, DockerError> {
        let (text, tty, source) = self.with(|state| {
            let text = state.logs(id)?;
            let c = state.get(id).filter(|_| follow);
            let source = c.map_or(Source::Over, |c| Source::Life(c.id.clone(), c.starts));
            Ok((text, state.get(id).is_some_and(|c| c.body.tty), source))
        })?;
        let text = last.map_or(text.as_str(), |n| feeds::tail(&text, n));
        self.feed(feeds::frame(text, tty), source)
    }

    /// A container's live streams: without bytes, open while the container runs.
    ///
    /// # Errors
    /// No such container; it does not run; the engine is down.
    pub fn attach(&self, id: &str) -> Result<OwnedFd, DockerError> {
        let source = self.with(|state| {
            state.reachable()?;
            state.running(id).map(|c| Source::Life(c.id.clone(), c.starts))
        })?;
        self.feed(Vec::new(), source)
    }

    /// Starts an exec: its output, in frames without `tty`, open while the exec runs.
    ///
    /// # Errors
    /// No such exec; the engine is down.
    pub fn exec_start(&self, id: &str, tty: bool) -> Result<OwnedFd, DockerError> {
        let now = self.0.shared.clock.now();
        let output = self.with(|state| state.exec_start(id, now))?;
        self.feed(feeds::frame(&output, tty), Source::Exec(id.into()))
    }
}

fn drive(shared: &Shared) {
    let mut engine = shared.lock();
    while !engine.closed {
        let now = shared.clock.now();
        engine.state.advance(now);
        engine.pump();
        let slow = engine.feeds.iter().any(Feed::lags).then_some(FAKE_SLOW_READER);
        let due = engine.state.next_due().map(|at| at.since(now.mono));
        engine = match due.into_iter().chain(slow).min() {
            Some(wait) => {
                let woken = shared.changed.wait_timeout(engine, wait);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => shared.changed.wait(engine).unwrap_or_else(PoisonError::into_inner),
        };
    }
}
