//! What the main loop tells the API: the node's state, its local objects and its events, the latest of each. Telling
//! costs the main loop a swap and, for each watch that is open, one write to a descriptor.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{EventfdFlags, eventfd};
use serde_json::Value;

use super::holdings::Stored;
use crate::pod::object::Scopes;
use crate::recorder::ring::Kept;
use crate::status::snapshot::Snapshot;

/// A container that was asked for over `pods/ephemeralcontainers`.
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    /// As the client wrote it.
    pub container: Arc<Value>,
    /// Why it could not be made.
    pub failure: Option<String>,
    /// The status of its pod told of it once: where that does not any more, it is gone.
    pub was_there: bool,
}

/// By UID of the pod.
pub type AllAdded = BTreeMap<String, Vec<Added>>;

/// The latest of everything.
#[derive(Debug, Clone, Default)]
pub struct Latest {
    /// Grows with everything that is told.
    pub round: u64,
    pub snapshot: Arc<Snapshot>,
    pub objects: Arc<Scopes>,
    pub events: Arc<Vec<Arc<Kept>>>,
    /// What was written over the API.
    pub stored: Arc<Stored>,
    /// Containers that were added to pods since the daemon started.
    pub added: Arc<AllAdded>,
}

/// Where it is told. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ApiBoard(Arc<Mutex<Board>>);

#[derive(Debug, Default)]
struct Board {
    latest: Latest,
    wakers: Vec<Weak<OwnedFd>>,
}

/// Readable when something was told since [`Waker::rest`].
#[derive(Debug)]
pub struct Waker(Arc<OwnedFd>);

impl ApiBoard {
    /// This is how the node is now.
    pub fn tell(&self, snapshot: Arc<Snapshot>, objects: Arc<Scopes>) {
        let mut board = self.board();
        if let Some(added) = with_those_that_are_there(&board.latest.added, &snapshot) {
            board.latest.added = Arc::new(added);
        }
        (board.latest.snapshot, board.latest.objects) = (snapshot, objects);
        board.changed();
    }

    /// These are all events.
    pub fn tell_events(&self, events: Vec<Arc<Kept>>) {
        let mut board = self.board();
        board.latest.events = Arc::new(events);
        board.changed();
    }

    /// This is what was written over the API.
    pub fn tell_stored(&self, stored: Stored) {
        let mut board = self.board();
        board.latest.stored = Arc::new(stored);
        board.changed();
    }

    /// Containers were added, or could not be.
    pub fn tell_added(&self, change: impl FnOnce(&mut AllAdded)) {
        let mut board = self.board();
        let mut all = AllAdded::clone(&board.latest.added);
        change(&mut all);
        board.latest.added = Arc::new(all);
        board.changed();
    }

    /// The latest of everything.
    #[must_use]
    pub fn get(&self) -> Latest {
        self.board().latest.clone()
    }

    /// A waker that hears of everything from now on.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn waker(&self) -> io::Result<Waker> {
        let fd = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut board = self.board();
        board.wakers.retain(|waker| waker.strong_count() > 0);
        board.wakers.push(Arc::downgrade(&fd));
        Ok(Waker(fd))
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        // Each field is whole after every line that changes it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was asked for, with a note of what statuses tell of for the first time; `None` when they tell nothing new.
fn with_those_that_are_there(all: &AllAdded, snapshot: &Snapshot) -> Option<AllAdded> {
    let mut noted = None;
    for (uid, of_pod) in all.iter().filter(|(_, of_pod)| of_pod.iter().any(|one| !one.was_there)) {
        let view = snapshot.pods.iter().find(|view| view.pod.uid == *uid);
        let statuses = view.and_then(|view| view.status.ephemeral_container_statuses.as_deref());
        let names: Vec<&str> = statuses.unwrap_or_default().iter().map(|one| one.name.as_str()).collect();
        let is_told = |one: &Added| {
            one.container.get("name").and_then(Value::as_str).is_some_and(|name| names.contains(&name))
        };
        if of_pod.iter().any(|one| !one.was_there && is_told(one)) {
            let all = noted.get_or_insert_with(|| all.clone());
            let of_pod = all.get_mut(uid).into_iter().flatten();
            of_pod.for_each(|one| one.was_there |= is_told(one));
        }
    }
    noted
}

impl Board {
    fn changed(&mut self) {
        self.latest.round = self.latest.round.saturating_add(1);
        for fd in self.wakers.iter().filter_map(Weak::upgrade) {
            // One that is full wakes as well.
            let _ = rustix::io::write(&*fd, &1_u64.to_ne_bytes());
        }
    }
}

impl Waker {
    /// What to poll.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// What was told until now is known.
    pub fn rest(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0_u8; 8]);
    }
}
