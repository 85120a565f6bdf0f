//! The mailbox of a worker between threads: a sender puts its message, wakes the worker, and never waits for it.
//! [`Slot`] decides which messages are kept and which replace others.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::machine::{Inbox, Slot};
use crate::probe::prober::{News, ProbeListener};

/// A mailbox: putting never blocks on the worker.
#[derive(Debug)]
pub struct Mailbox {
    slot: Mutex<Slot>,
    /// Turns at the gate that came and were not taken yet.
    grants: AtomicUsize,
    wake: OwnedFd,
}

impl Mailbox {
    /// An empty mailbox.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new() -> io::Result<Mailbox> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { slot: Mutex::new(Slot::default()), grants: AtomicUsize::new(0), wake })
    }

    /// Changes what is unread, and wakes the worker.
    pub fn put(&self, change: impl FnOnce(&mut Slot)) {
        change(&mut self.slot.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake();
    }

    /// It is this worker's turn at the gate.
    pub(super) fn grant(&self) {
        self.grants.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Turns that came since the last call.
    pub(super) fn take_grants(&self) -> usize {
        self.grants.swap(0, Ordering::SeqCst)
    }

    fn wake(&self) {
        // A full counter means that a wake-up is pending.
        _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Takes everything unread.
    pub(super) fn take(&self) -> Inbox {
        let mut count = [0u8; 8];
        _ = rustix::io::read(&self.wake, &mut count);
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl AsFd for Mailbox {
    /// Readable while something is unread.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl ProbeListener for Mailbox {
    fn notify(&self, news: News) {
        self.put(|slot| slot.news(news));
    }
}
