//! The status thread: takes the latest snapshot and writes the status file, the file of local objects and the event
//! file when their contents have changed. Snapshots in a burst are written once; events of which only the counts change
//! are written at most every `limits::EVENTS_REPEATED`. When a caller checks whether the daemon still works, the status
//! file gets a new time. No other write happens while nothing changes.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::snapshot::{KeptImages, Snapshot};
use super::{file, local_objects, resized};
use crate::base::table::Set;
use crate::base::{limits, thread};
use crate::network::address;
use crate::pod::object::Scopes;
use crate::recorder::object;
use crate::recorder::ring::{Change, Kept};

#[derive(Default)]
struct Shared {
    slot: Mutex<Slot>,
    wake: Condvar,
}

#[derive(Default)]
struct Slot {
    latest: Option<(Arc<Snapshot>, Arc<Scopes>)>,
    events: Option<(Change, Vec<Arc<Kept>>)>,
    /// The events of an earlier daemon that are in the event file already.
    found: Vec<Arc<Kept>>,
    /// Whether there is an event file.
    has_events: bool,
    /// Images that the daemon never removes, and whether they have changed.
    kept_images: KeptImages,
    has_new_images: bool,
    /// Whether a written file has vanished.
    lost: bool,
    asked: bool,
    closed: bool,
    /// The thread has ended, and everything is written that can be.
    ended: bool,
}

/// Handle of the thread `pk-status`.
pub struct Writer {
    shared: Arc<Shared>,
}

/// Creates the run directory again, with every file in it that this room does not write.
pub type Restore = Box<dyn Fn() -> io::Result<()> + Send>;

/// Notices when written files vanish.
pub struct FileWatch {
    shared: Arc<Shared>,
    paths: [PathBuf; 3],
    events: PathBuf,
}

impl FileWatch {
    /// Makes missing files be written again. Does not wake the thread otherwise.
    pub fn check(&self) {
        let has_events = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).has_events;
        let events = Some(&self.events).filter(|_| has_events);
        if self.paths.iter().chain(events).all(|path| path.exists()) {
            return;
        }
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).lost = true;
        self.shared.wake.notify_one();
    }
}

/// Tells the thread which images were preloaded.
pub struct Preloaded(Arc<Shared>);

impl Preloaded {
    /// Replaces the preloaded images; never blocks on a write.
    pub fn tell(&self, images: &Set<String>) {
        let mut slot = self.0.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.kept_images.preloaded = Some(images.clone());
        slot.has_new_images = true;
        drop(slot);
        self.0.wake.notify_one();
    }
}

impl Writer {
    /// Starts the thread, which writes this node's state into this directory. `node_ips` are the node's
    /// addresses from flags, `kept_images` the images that the daemon never removes.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(
        run_dir: &Path,
        node: &str,
        node_ips: &[IpAddr],
        kept_images: KeptImages,
        restore: Restore,
    ) -> io::Result<Writer> {
        let slot = Slot { kept_images, ..Slot::default() };
        let shared = Arc::new(Shared { slot: Mutex::new(slot), ..Shared::default() });
        let (theirs, run_dir, node) = (Arc::clone(&shared), run_dir.to_owned(), node.to_owned());
        let node_ips = node_ips.to_vec();
        thread::spawn("pk-status", limits::WORKER_STACK, move || {
            serve(&theirs, &run_dir, &node, &node_ips, &restore)
        })?;
        Ok(Writer { shared })
    }

    /// Watches the files in this directory, and the file `beside` that [`Restore`] creates.
    #[must_use]
    pub fn watch(&self, run_dir: &Path, beside: &str) -> FileWatch {
        FileWatch {
            shared: Arc::clone(&self.shared),
            paths: [file::NAME, local_objects::NAME, beside].map(|name| run_dir.join(name)),
            events: run_dir.join(object::NAME),
        }
    }

    /// See [`Preloaded`].
    #[must_use]
    pub fn preloaded(&self) -> Preloaded {
        Preloaded(Arc::clone(&self.shared))
    }

    /// Takes all events that an earlier daemon wrote: they are written again if the file is removed.
    pub fn set_earlier_events(&self, events: Vec<Arc<Kept>>) {
        let mut slot = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.has_events = !events.is_empty();
        slot.found = events;
    }

    /// Replaces the snapshot and the local objects that wait to be written; never blocks on a write.
    pub fn publish(&self, snapshot: Arc<Snapshot>, objects: Arc<Scopes>) {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).latest = Some((snapshot, objects));
        self.shared.wake.notify_one();
    }

    /// Shows that the main thread works: the status file gets a new time.
    pub fn answer(&self) {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).asked = true;
        self.shared.wake.notify_one();
    }

    /// Replaces the events that wait to be written: all of them, and how they have changed.
    pub fn publish_events(&self, change: Change, events: Vec<Arc<Kept>>) {
        let mut slot = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let unwritten = slot.events.take().map(|(change, _)| change);
        slot.events = Some((unwritten.map_or(change, |old| old.max(change)), events));
        drop(slot);
        self.shared.wake.notify_one();
    }
}

impl Drop for Writer {
    /// Waits until the last events are written, at most [`limits::END_PATIENCE`]: the disk may hang.
    fn drop(&mut self) {
        let mut slot = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.closed = true;
        self.shared.wake.notify_all();
        drop(self.shared.wake.wait_timeout_while(slot, limits::END_PATIENCE, |slot| !slot.ended));
    }
}

/// One task for the thread.
enum Work {
    Status(Arc<Snapshot>, Arc<Scopes>),
    /// Write the status file with other images.
    Images,
    Events(Vec<Arc<Kept>>),
    /// Write both files again.
    Again,
    /// Set a new time on the status file.
    Answer,
}

/// Shortest time between two writes of events, by kind of change.
fn patience(change: Change) -> Duration {
    match change {
        Change::New => limits::EVENTS_NEW,
        Change::Repeated => limits::EVENTS_REPEATED,
    }
}

/// Waits for work, at most until `retry`; `None`: the writer was dropped.
fn next(shared: &Shared, events_written: Option<Instant>, retry: Option<Instant>) -> Option<Work> {
    let mut slot = shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if slot.closed {
            return slot.events.take().map(|(_, events)| Work::Events(events));
        }
        if std::mem::take(&mut slot.lost) {
            return Some(Work::Again);
        }
        if let Some((snapshot, objects)) = slot.latest.take() {
            return Some(Work::Status(snapshot, objects));
        }
        if std::mem::take(&mut slot.has_new_images) {
            return Some(Work::Images);
        }
        if std::mem::take(&mut slot.asked) {
            return Some(Work::Answer);
        }
        let retry = retry.map(|at| at.saturating_duration_since(Instant::now()));
        if retry == Some(Duration::ZERO) {
            return Some(Work::Again);
        }
        let since = events_written.map_or(Duration::MAX, |at| at.elapsed());
        let wait = slot.events.as_ref().map(|(change, _)| patience(*change).saturating_sub(since));
        if wait == Some(Duration::ZERO) {
            return slot.events.take().map(|(_, events)| Work::Events(events));
        }
        slot = match wait.into_iter().chain(retry).min() {
            Some(wait) => shared.wake.wait_timeout(slot, wait).unwrap_or_else(PoisonError::into_inner).0,
            None => shared.wake.wait(slot).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

/// The files, and their written contents.
struct Files<'a> {
    shared: &'a Shared,
    run_dir: &'a Path,
    node: &'a str,
    node_ips: &'a [IpAddr],
    restore: &'a Restore,
    /// The snapshot of the status file, and its bytes.
    snapshot: Option<Arc<Snapshot>>,
    status: Vec<u8>,
    /// Whether there is a status file.
    has_status: bool,
    /// Events in the event file.
    kept: Vec<Arc<Kept>>,
    /// Objects, and the creation time of those without one. The rendered bytes are not kept, because they would double
    /// the memory.
    objects: Option<(Arc<Scopes>, String)>,
    /// See [`resized`].
    resized: resized::Written,
}

impl Files<'_> {
    /// The directory may be removed at any time.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let gone = !self.run_dir.exists();
        // Also when only the content of the directory was removed.
        (self.restore)()?;
        if gone {
            log::warn!("the run directory {} was gone and is made anew", self.run_dir.display());
        }
        file::write_atomically(self.run_dir, name, bytes)
    }

    /// Whether somebody has removed the status file, with the run directory or alone. The next write makes the directory
    /// anew, and then nothing else shows that other files are missing.
    fn are_lost(&self) -> bool {
        self.has_status && !self.run_dir.join(file::NAME).exists()
    }

    fn write_status(&mut self) -> io::Result<()> {
        self.write(file::NAME, &self.status)?;
        self.has_status = true;
        Ok(())
    }

    fn write_events(&self) -> io::Result<()> {
        self.write(object::NAME, &object::render(self.node, &self.kept))?;
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).has_events = true;
        Ok(())
    }

    fn write_objects(&self) -> io::Result<()> {
        let Some((all, begun)) = &self.objects else { return Ok(()) };
        self.write(local_objects::NAME, &local_objects::render(all, begun))
    }

    fn write_all(&mut self) -> io::Result<()> {
        if self.status.is_empty() {
            return Ok(());
        }
        if self.kept.is_empty() {
            let mut slot = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
            self.kept = std::mem::take(&mut slot.found);
        }
        self.keep_sizes();
        self.write_objects()?;
        self.write_status()?;
        if self.kept.is_empty() { Ok(()) } else { self.write_events() }
    }

    /// Failures of this file are told by itself: the run directory is on another disk.
    fn keep_sizes(&mut self) {
        let Some(snapshot) = &self.snapshot else { return };
        if let Some(sizes) = &snapshot.resized {
            self.resized.keep(Path::new(&snapshot.root_dir), sizes);
        }
    }

    /// Writes the files that have changed; all files if others are missing or not up to date.
    fn tell(&mut self, snapshot: Arc<Snapshot>, objects: Arc<Scopes>, all: bool) -> io::Result<()> {
        let addresses = address::of_node(self.node_ips);
        let version = env!("CARGO_PKG_VERSION");
        let images = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).kept_images.clone();
        let bytes = file::render(&snapshot, std::process::id(), version, &addresses, &images);
        let is_new = bytes != self.status;
        self.status = bytes;
        let has_new = self.objects.as_ref().is_none_or(|(old, _)| !Arc::ptr_eq(old, &objects));
        self.objects = Some((objects, local_objects::begun(&snapshot)));
        self.snapshot = Some(snapshot);
        if all {
            return self.write_all();
        }
        self.keep_sizes();
        // Before the status file, so that its readers find them.
        if has_new {
            self.write_objects()?;
        }
        if is_new { self.write_status() } else { Ok(()) }
    }

    /// The same for the last snapshot, if there is one.
    fn tell_again(&mut self, all: bool) -> io::Result<()> {
        match (self.snapshot.clone(), &self.objects) {
            (Some(snapshot), Some((objects, _))) => self.tell(snapshot, Arc::clone(objects), all),
            _ => Ok(()),
        }
    }
}

fn serve(shared: &Shared, run_dir: &Path, node: &str, node_ips: &[IpAddr], restore: &Restore) {
    let mut files = Files {
        shared,
        run_dir,
        node,
        node_ips,
        restore,
        snapshot: None,
        status: Vec::new(),
        has_status: false,
        kept: Vec::new(),
        objects: None,
        resized: resized::Written::default(),
    };
    let mut events_written = None;
    let mut complained = false;
    // A failed write leaves old files, so everything is written again.
    let mut retry = None;
    while let Some(work) = next(shared, events_written, retry) {
        let all = retry.is_some() || files.are_lost();
        let result = match work {
            Work::Status(snapshot, objects) => files.tell(snapshot, objects, all),
            Work::Images => files.tell_again(all),
            // A file that is not up to date gets no new time: the caller gets its answer once it is.
            Work::Answer if all => files.write_all(),
            Work::Answer => file::touch(run_dir),
            Work::Events(events) => {
                events_written = Some(Instant::now());
                files.kept = events;
                if all { files.write_all() } else { files.write_events() }
            }
            Work::Again => files.write_all(),
        };
        let wait = match &result {
            Err(_) => Some(limits::STATUS_RETRY),
            Ok(()) => files.resized.has_failed().then_some(limits::RESIZED_RETRY),
        };
        retry = wait.map(|wait| Instant::now() + wait);
        match result {
            Ok(()) => {
                if std::mem::take(&mut complained) {
                    log::info!("the status file in {} is written again", run_dir.display());
                }
            }
            Err(error) => {
                if !complained {
                    let run_dir = run_dir.display();
                    log::error!("the status file in {run_dir} cannot be written: {error}; it is tried again");
                }
                complained = true;
            }
        }
        if !shared.slot.lock().unwrap_or_else(PoisonError::into_inner).closed {
            std::thread::sleep(limits::STATUS_COALESCE);
        }
    }
    shared.slot.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
    shared.wake.notify_all();
}

#[cfg(test)]
mod tests;
