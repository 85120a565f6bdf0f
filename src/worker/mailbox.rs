//! The mailbox of a worker between threads: a sender adds its message, wakes the worker, and never waits for it.
//! [`Slot`] decides which messages for the machine are kept and which replace others; some are for the thread itself.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use rustix::event::{EventfdFlags, eventfd};

use super::gate::Turn;
use crate::machine::{FromPod, Inbox, Slot};
use crate::pod::Source;
use crate::probe::prober::{News, ProbeListener};

/// How a worker's thread sends to the main loop.
#[derive(Clone)]
pub struct Tell(pub Arc<dyn Fn(FromPod) -> bool + Send + Sync>);

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// A mailbox: adding a message never blocks on the worker.
#[derive(Debug)]
pub struct Mailbox {
    unread: Mutex<Unread>,
    /// Turns at the gates that were granted and not taken yet; bounded by what the worker has queued.
    grants: Mutex<Vec<(Turn, Source)>>,
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct Unread {
    /// For the machine.
    slot: Slot,
    /// For the thread: results for creates, by their numbers, that wait for parts of volumes. Bounded by the number of
    /// creates.
    bound: Vec<(u64, Result<(), String>)>,
    /// For the thread: it has to end.
    closed: bool,
}

/// Everything unread.
#[derive(Debug)]
pub(super) struct Mail {
    /// For the machine.
    pub(super) inbox: Inbox,
    /// Results of [`Mailbox::bound`].
    pub(super) bound: Vec<(u64, Result<(), String>)>,
    /// The worker has to end.
    pub(super) closed: bool,
}

impl Mailbox {
    /// An empty mailbox.
    ///
    /// # Errors
    /// The system has no file descriptor left.
    pub fn new() -> io::Result<Mailbox> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { unread: Mutex::default(), grants: Mutex::default(), wake })
    }

    /// Changes what the machine has not read, and wakes the worker.
    pub fn put(&self, change: impl FnOnce(&mut Slot)) {
        self.change(|unread| change(&mut unread.slot));
    }

    /// The parts that the create of this number waited for are ready, or failed.
    pub(super) fn bound(&self, token: u64, result: Result<(), String>) {
        self.change(|unread| unread.bound.push((token, result)));
    }

    /// Tells the worker to end.
    pub(super) fn close(&self) {
        self.change(|unread| unread.closed = true);
    }

    fn change(&self, change: impl FnOnce(&mut Unread)) {
        change(&mut self.unread.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake();
    }

    /// Grants this worker its turn at a gate, for a pod of this source.
    pub(super) fn grant(&self, turn: Turn, source: Source) {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).push((turn, source));
        self.wake();
    }

    /// The turns since the last call.
    pub(super) fn take_grants(&self) -> Vec<(Turn, Source)> {
        std::mem::take(&mut self.grants.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wake(&self) {
        // A full counter means that a wake-up is pending.
        _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Takes everything unread.
    pub(super) fn take(&self) -> Mail {
        let mut count = [0u8; 8];
        _ = rustix::io::read(&self.wake, &mut count);
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = std::mem::take(&mut unread.bound);
        Mail { inbox: unread.slot.take(), bound, closed: unread.closed }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_thread_is_told_comes_once_and_the_end_stays() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.bound(7, Ok(()));
        mailbox.close();
        let mail = mailbox.take();
        assert!(mail.closed && mail.bound == [(7, Ok(()))]);
        let mail = mailbox.take();
        assert!(mail.closed && mail.bound.is_empty());
    }
}
