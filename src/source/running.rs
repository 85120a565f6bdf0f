//! The thread of a source, and the wait for its end. The wait is bounded: the thread may hang in a dead file system or
//! on a slow disk, and its remaining work is not needed.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use crate::base::thread;

/// A thread that ends on request.
#[derive(Debug)]
pub struct Running {
    /// Closed when the thread has ended.
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts the thread with this name and a stack of so many bytes.
    ///
    /// # Errors
    /// The system cannot make a thread.
    pub fn spawn(name: &str, stack: usize, body: impl FnOnce() + Send + 'static) -> io::Result<Running> {
        let (alive, ended) = bounded(0);
        let thread = thread::spawn(name, stack, move || {
            let _alive = alive;
            body();
        })?;
        Ok(Running { ended, thread: Some(thread) })
    }

    /// Waits up to `patience`; returns whether the thread has ended. A thread that has not is left alone.
    pub fn await_end(&mut self, patience: Duration) -> bool {
        let ended = self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Disconnected);
        if ended && let Some(thread) = self.thread.take() {
            // A panic there has aborted the process.
            let _ended = thread.join();
        }
        ended
    }
}
