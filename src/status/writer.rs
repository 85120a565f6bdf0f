//! The status thread: takes the latest snapshot and writes the status file when its content differs, and
//! the event file when there are events. What is published in a burst is written once; what only counts
//! on is written now and then (`limits::EVENTS_REPEATED`).

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::file;
use super::snapshot::Snapshot;
use crate::limits;
use crate::recorder::object;
use crate::recorder::ring::{Change, Kept};

#[derive(Default)]
struct Shared {
    slot: Mutex<Slot>,
    wake: Condvar,
}

#[derive(Default)]
struct Slot {
    latest: Option<Snapshot>,
    events: Option<(Change, Vec<Arc<Kept>>)>,
    closed: bool,
}

/// Handle of the thread `pk-status`.
pub struct Writer {
    shared: Arc<Shared>,
}

impl Writer {
    /// Starts the thread, which writes into this directory what it is told of this node.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(run_dir: &Path, node: &str) -> io::Result<Writer> {
        let shared = Arc::new(Shared::default());
        let (theirs, run_dir, node) = (Arc::clone(&shared), run_dir.to_owned(), node.to_owned());
        thread::Builder::new()
            .name("pk-status".to_owned())
            .stack_size(limits::WORKER_STACK)
            .spawn(move || serve(&theirs, &run_dir, &node))?;
        Ok(Writer { shared })
    }

    /// Replaces what waits to be written; never blocks on the writing.
    pub fn publish(&self, snapshot: Snapshot) {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).latest = Some(snapshot);
        self.shared.wake.notify_one();
    }

    /// The same for events: all of them, and whether one is new.
    pub fn publish_events(&self, change: Change, events: Vec<Arc<Kept>>) {
        let mut slot = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let unwritten = slot.events.take().map(|(change, _)| change);
        slot.events = Some((unwritten.map_or(change, |old| old.max(change)), events));
        drop(slot);
        self.shared.wake.notify_one();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.wake.notify_one();
    }
}

/// What is to be written now.
enum Work {
    Status(Box<Snapshot>),
    Events(Vec<Arc<Kept>>),
}

/// How long events that changed so wait after the last time they were written.
fn patience(change: Change) -> Duration {
    match change {
        Change::New => limits::EVENTS_NEW,
        Change::Repeated => limits::EVENTS_REPEATED,
    }
}

/// Waits for work; `None`: there will be none.
fn next(shared: &Shared, events_written: Option<Instant>) -> Option<Work> {
    let mut slot = shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if slot.closed {
            return None;
        }
        if let Some(snapshot) = slot.latest.take() {
            return Some(Work::Status(Box::new(snapshot)));
        }
        let since = events_written.map_or(Duration::MAX, |at| at.elapsed());
        let wait = slot.events.as_ref().map(|(change, _)| patience(*change).saturating_sub(since));
        slot = match wait {
            Some(Duration::ZERO) => return slot.events.take().map(|(_, events)| Work::Events(events)),
            Some(wait) => shared.wake.wait_timeout(slot, wait).unwrap_or_else(PoisonError::into_inner).0,
            None => shared.wake.wait(slot).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

fn serve(shared: &Shared, run_dir: &Path, node: &str) {
    let mut written: Vec<u8> = Vec::new();
    let mut events_written = None;
    let mut complained = false;
    while let Some(work) = next(shared, events_written) {
        let result = match work {
            Work::Status(snapshot) => {
                let bytes = file::render(&snapshot, std::process::id(), env!("CARGO_PKG_VERSION"));
                if bytes == written {
                    Ok(())
                } else {
                    file::write_atomically(run_dir, file::NAME, &bytes).map(|()| written = bytes)
                }
            }
            Work::Events(events) => {
                events_written = Some(Instant::now());
                file::write_atomically(run_dir, object::NAME, &object::render(node, &events))
            }
        };
        match result {
            Ok(()) => complained = false,
            Err(error) => {
                if !complained {
                    log::error!("the status file in {} cannot be written: {error}", run_dir.display());
                }
                complained = true;
            }
        }
        thread::sleep(limits::STATUS_COALESCE);
    }
}
