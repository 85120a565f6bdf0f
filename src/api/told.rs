//! The state that the main loop publishes for the API: the node's state, its local objects and its events, the latest
//! of each. Publishing costs the main loop a swap and, for each open watch, one write to a descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{EventfdFlags, eventfd};
use serde_json::Value;

use super::holdings::Stored;
use crate::base::table::Table;
use crate::pod::object::Scopes;
use crate::recorder::ring::Kept;
use crate::status::snapshot::Snapshot;

/// A container that was requested over `pods/ephemeralcontainers`.
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    /// The container as the client wrote it.
    pub container: Arc<Value>,
    /// The reason why it could not be made.
    pub failure: Option<String>,
    /// The pod's status has shown it once: when it is missing after that, it is gone.
    pub was_there: bool,
}

/// By UID of the pod.
pub type AllAdded = Table<String, Vec<Added>>;

/// The latest published state.
#[derive(Debug, Clone, Default)]
pub struct Latest {
    /// Grows with every publication.
    pub round: u64,
    pub snapshot: Arc<Snapshot>,
    pub objects: Arc<Scopes>,
    pub events: Arc<Vec<Arc<Kept>>>,
    /// The objects that were written over the API.
    pub stored: Arc<Stored>,
    /// Containers that were added to pods since the daemon started.
    pub added: Arc<AllAdded>,
}

/// The published state. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ApiBoard(Arc<Mutex<Board>>);

#[derive(Debug, Default)]
struct Board {
    latest: Latest,
    wakers: Vec<Weak<OwnedFd>>,
}

/// Readable when something was published since [`Waker::rest`].
#[derive(Debug)]
pub struct Waker(Arc<OwnedFd>);

impl ApiBoard {
    /// Publishes the state of the node.
    pub fn tell(&self, snapshot: Arc<Snapshot>, objects: Arc<Scopes>) {
        let mut board = self.board();
        if let Some(added) = with_those_that_are_there(&board.latest.added, &snapshot) {
            board.latest.added = Arc::new(added);
        }
        (board.latest.snapshot, board.latest.objects) = (snapshot, objects);
        board.changed();
    }

    /// Publishes all events.
    pub fn tell_events(&self, events: Vec<Arc<Kept>>) {
        let mut board = self.board();
        board.latest.events = Arc::new(events);
        board.changed();
    }

    /// Publishes the objects that were written over the API.
    pub fn tell_stored(&self, stored: Stored) {
        let mut board = self.board();
        board.latest.stored = Arc::new(stored);
        board.changed();
    }

    /// Publishes changes of added containers.
    pub fn tell_added(&self, change: impl FnOnce(&mut AllAdded)) {
        let mut board = self.board();
        let mut all = AllAdded::clone(&board.latest.added);
        change(&mut all);
        board.latest.added = Arc::new(all);
        board.changed();
    }

    /// The latest published state.
    #[must_use]
    pub fn get(&self) -> Latest {
        self.board().latest.clone()
    }

    /// A waker for everything that is published from now on.
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
        // Each field is consistent after every line that changes it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The added containers, with a note about those that statuses show for the first time; `None` without changes.
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
            // A full counter wakes as well.
            let _ = rustix::io::write(&*fd, &1_u64.to_ne_bytes());
        }
    }
}

impl Waker {
    /// The descriptor to poll.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Resets the waker.
    pub fn rest(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0_u8; 8]);
    }
}
