//! The status thread: takes the latest snapshot and writes the status file when its content differs.
//! What is published in a burst is written once.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::{io, thread};

use super::file;
use super::snapshot::Snapshot;
use crate::limits;

#[derive(Default)]
struct Shared {
    slot: Mutex<Slot>,
    wake: Condvar,
}

#[derive(Default)]
struct Slot {
    latest: Option<Snapshot>,
    closed: bool,
}

/// Handle of the thread `pk-status`.
pub struct Writer {
    shared: Arc<Shared>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(run_dir: &Path) -> io::Result<Writer> {
        let shared = Arc::new(Shared::default());
        let (theirs, run_dir) = (Arc::clone(&shared), run_dir.to_owned());
        thread::Builder::new()
            .name("pk-status".to_owned())
            .stack_size(limits::WORKER_STACK)
            .spawn(move || serve(&theirs, &run_dir))?;
        Ok(Writer { shared })
    }

    /// Replaces what waits to be written; never blocks on the writing.
    pub fn publish(&self, snapshot: Snapshot) {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).latest = Some(snapshot);
        self.shared.wake.notify_one();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.wake.notify_one();
    }
}

fn serve(shared: &Shared, run_dir: &Path) {
    let mut written: Vec<u8> = Vec::new();
    let mut complained = false;
    loop {
        let mut slot = shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = loop {
            if slot.closed {
                return;
            }
            if let Some(snapshot) = slot.latest.take() {
                break snapshot;
            }
            slot = shared.wake.wait(slot).unwrap_or_else(PoisonError::into_inner);
        };
        drop(slot);
        let bytes = file::render(&snapshot, std::process::id(), env!("CARGO_PKG_VERSION"));
        if bytes != written {
            match file::write_atomically(run_dir, &bytes) {
                Ok(()) => {
                    complained = false;
                    written = bytes;
                }
                Err(error) => {
                    if !complained {
                        log::error!("the status file in {} cannot be written: {error}", run_dir.display());
                    }
                    complained = true;
                }
            }
        }
        thread::sleep(limits::STATUS_COALESCE);
    }
}
