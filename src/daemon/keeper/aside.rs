//! Work that may take minutes, in a thread that is there only meanwhile. Nobody waits for it when the daemon ends.

use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::JoinHandle;
use std::{io, thread};

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::base::limits;

/// One piece of work.
pub(super) struct Aside<T> {
    thread: JoinHandle<T>,
    /// Hangs up when it is done.
    over: OwnedFd,
}

impl<T: Send + 'static> Aside<T> {
    /// Begins it.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn begin(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Aside<T>> {
        let (over, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(limits::WORKER_STACK);
        let thread = thread.spawn(move || {
            let result = work();
            drop(end);
            result
        })?;
        Ok(Aside { thread, over })
    }

    /// Ready when it is done.
    pub(super) fn done(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.over.as_fd(), PollFlags::IN)
    }

    /// What came of it. Waits until it is done.
    pub(super) fn result(self) -> Option<T> {
        self.thread.join().ok()
    }
}
