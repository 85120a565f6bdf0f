//! The thread of a source, and the wait for its end: bounded, for it may hang in a dead file system or in a
//! slow disk. What it would still do, nobody needs.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

/// A thread that was told, or will be told, to end.
#[derive(Debug)]
pub struct Running {
    /// Closed when the thread has ended.
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn spawn(thread: Builder, body: impl FnOnce() + Send + 'static) -> io::Result<Running> {
        let (alive, ended) = bounded(0);
        let thread = thread.spawn(move || {
            let _alive = alive;
            body();
        })?;
        Ok(Running { ended, thread: Some(thread) })
    }

    /// Waits at most this long; answers whether the thread has ended. One that has not is left to itself.
    pub fn await_end(&mut self, patience: Duration) -> bool {
        let ended = self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Disconnected);
        if ended && let Some(thread) = self.thread.take() {
            // A panic there has aborted the process.
            let _ended = thread.join();
        }
        ended
    }
}
