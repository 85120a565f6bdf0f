//! Work that may take minutes, in a thread of its own that ends with it. The daemon does not wait for it when it
//! ends.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::base::{limits, thread};

/// One piece of work.
pub(super) struct Aside<T> {
    thread: JoinHandle<T>,
    /// Hangs up when the work is done.
    over: OwnedFd,
}

impl<T: Send + 'static> Aside<T> {
    /// Begins the work.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn begin(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Aside<T>> {
        let (over, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let thread = thread::spawn(name, limits::WORKER_STACK, move || {
            let result = work();
            drop(end);
            result
        })?;
        Ok(Aside { thread, over })
    }

    /// Ready when the work is done.
    pub(super) fn done(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.over.as_fd(), PollFlags::IN)
    }

    /// The result. Waits until it is done.
    pub(super) fn result(self) -> Option<T> {
        self.thread.join().ok()
    }
}
