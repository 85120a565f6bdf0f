//! The file source's thread: waits for a hint or the clock, scans, and sends changes.
//!
//! The handle is public, the actor private. The thread keeps only times: `scan` has the believed contents, `watch` the
//! events. Only a hint, [`FileSource::rescan`] or a due time wakes it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use inotify::Inotify;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::base::clock::{Clock, Mono, System};
use crate::base::limits;
use crate::base::pace::Pace;
use crate::base::program::pages;
use crate::base::wait;
use crate::pod::Source;
use crate::source::accept::Acceptor;
use crate::source::hints::Hints;
use crate::source::last_good::Saver;
use crate::source::last_good::replay::replay;
use crate::source::running::Running;
use crate::source::scan::Scanner;
use crate::source::watch::Watch;
use crate::source::{FromSource, SourceUpdate};
use crate::status::task::{Pulses, Task};

/// Receives the updates of a source; returns `false` when the receiver is gone, and then the thread ends. It may wait
/// while the receiver is busy, but must return once the receiver is gone.
pub type Sink = Box<dyn Fn(FromSource) -> bool + Send>;

/// A running file source. Dropping it ends the thread, and waits up to [`limits::SOURCE_END`] for that: a thread that
/// hangs in a dead file system is left alone. The receiver of the sink must be gone, or still receiving, when it is
/// dropped.
#[derive(Debug)]
pub struct FileSource {
    /// A byte in it means "look"; its end means "stop".
    wake: Option<OwnedFd>,
    thread: Running,
}

impl FileSource {
    /// Starts watching `path`, a directory of manifests or one manifest file, absolute. It scans at once, then after
    /// each change, and every `frequency` (`--file-check-frequency`; at least [`limits::SCAN_SETTLE`]). It starts from
    /// the contents in `store`, and stores new ones there.
    ///
    /// # Errors
    /// The thread or its pipe cannot be made.
    pub fn start(
        path: PathBuf,
        frequency: Duration,
        acceptor: Acceptor,
        store: impl Into<Saver>,
        out: Sink,
        pulses: Pulses,
    ) -> io::Result<FileSource> {
        let watch = Watch::new(path.clone(), Inotify::init);
        FileSource::spawn(Scanner::new(path, acceptor), watch, frequency, store.into(), out, pulses)
    }

    fn spawn(
        scanner: Scanner,
        watch: Watch,
        frequency: Duration,
        store: Saver,
        out: Sink,
        pulses: Pulses,
    ) -> io::Result<FileSource> {
        let (wait, wake) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let frequency = frequency.max(limits::SCAN_SETTLE);
        let actor = Actor { scanner, watch, frequency, store, out, wait, clock: System::start() };
        let thread = Running::spawn("pk-file", limits::MAIN_STACK, move || {
            pulses.join(Task::Source(Source::File));
            actor.run();
        })?;
        Ok(FileSource { wake: Some(wake), thread })
    }

    /// Requests a scan (SIGHUP). Never blocks.
    pub fn rescan(&self) {
        if let Some(wake) = &self.wake {
            // A full pipe holds the same request already.
            let _full = rustix::io::write(wake, b"!");
        }
    }
}

impl Drop for FileSource {
    fn drop(&mut self) {
        self.wake = None;
        self.thread.await_end(limits::SOURCE_END);
    }
}

struct Actor {
    scanner: Scanner,
    watch: Watch,
    frequency: Duration,
    store: Saver,
    out: Sink,
    wait: OwnedFd,
    clock: System,
}

/// The reason why the thread woke.
enum Woken {
    /// The handle is gone.
    Stop,
    /// A request for a scan, events, or the clock.
    Go {
        /// [`FileSource::rescan`].
        asked: bool,
    },
}

impl Actor {
    /// Starts from the stored contents.
    fn restore(&mut self) {
        let Some(store) = self.store.here() else { return };
        let remembered = store.load();
        if self.scanner.acceptor.wants_signature() {
            store.load_seen();
        }
        let replayed = replay(remembered, &self.scanner.acceptor);
        store.learn(&replayed);
        self.scanner.restore(replayed);
    }

    /// Returns false when the main loop is gone.
    fn tell(&self, update: SourceUpdate) -> bool {
        (self.out)(FromSource { source: Source::File, update })
    }

    fn run(mut self) {
        self.restore();
        // A directory on a server that does not answer may hang for ever.
        let remembered = self.scanner.remembered().map(SourceUpdate::Remembered);
        if !remembered.is_none_or(|update| self.tell(update)) {
            return;
        }
        let mut hints = Hints::default();
        // The time of the next scan without a hint, and the time before which hints wait.
        let (mut next, mut calm) = (Mono::default(), Mono::default());
        let mut retry = limits::SCAN_RETRY_MIN.min(self.frequency);
        let mut pace = Pace::new(self.frequency);
        loop {
            let now = self.clock.now();
            let at = if hints.any() { calm.min(next) } else { next };
            let early = now.mono < at;
            let until = self.store.due(now.mono).map_or(at, |due| at.min(due));
            let time = if early { until.since(now.mono) } else { Duration::ZERO };
            // Each round sleeps, so that the thread always notices its end and its requests.
            match self.sleep(time) {
                Woken::Stop => return,
                Woken::Go { asked } => {
                    hints.look |= asked;
                    if asked {
                        self.store.await_back();
                    }
                    if self.store.was_forgotten(asked) {
                        log::info!(
                            "source file: what was remembered is forgotten; the manifests are read again"
                        );
                        self.scanner.forget();
                        hints.look = true;
                    }
                }
            }
            if early {
                // Accepted contents are stored in the time that is left.
                self.store.save(now.mono);
            }
            if !self.store.take_news().is_none_or(|update| self.tell(update)) {
                return;
            }
            if early {
                self.watch.read(&mut hints);
                continue;
            }
            self.watch.follow();
            self.watch.read(&mut hints);
            self.scanner.seen = self.store.seen();
            let outcome = self.scanner.scan(now, &hints);
            hints = Hints::default();
            let spoke = outcome.update.is_some();
            if !outcome.before.into_iter().chain(outcome.update).all(|update| self.tell(update)) {
                return;
            }
            for (content, needed) in outcome.accepted {
                self.store.remember(content, &needed);
            }
            self.store.note(&outcome.signed, || self.scanner.names());
            if spoke && !outcome.failed {
                self.store.retain(|path| self.scanner.holds(path));
            }
            if outcome.quiet {
                // Nothing follows from this scan, and the next one may be minutes away.
                pages::give_back();
            }
            let end = self.clock.now().mono;
            // A burst of hints becomes few scans, and scanning takes at most half of the time.
            calm = end.after(limits::SCAN_COALESCE.max(end.since(now.mono)));
            let unhurried = pace.next(outcome.quiet && self.watch.is_placed());
            let period = if outcome.failed { retry } else { unhurried };
            retry = match outcome.failed {
                true => retry.saturating_mul(2).min(self.frequency),
                false => limits::SCAN_RETRY_MIN.min(self.frequency),
            };
            // Never before the calm is over: even urgent scans are spaced.
            next = outcome.settle.into_iter().chain([end.after(period)]).min().unwrap_or(end).max(calm);
        }
    }

    /// Waits for the handle, for events, or for the time to pass.
    fn sleep(&self, time: Duration) -> Woken {
        let mut fds = vec![PollFd::new(&self.wait, PollFlags::IN)];
        fds.extend(self.watch.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        if let Err(e) = wait::until(fds, Instant::now().checked_add(time)) {
            // Out of kernel memory: only the clock works for a while.
            log::error!("waiting for file changes failed: {e}; looking again in a moment");
            std::thread::sleep(time.min(limits::SCAN_RETRY_MIN));
        }
        let mut asked = false;
        let mut bytes = [0_u8; 64];
        loop {
            match rustix::io::read(&self.wait, &mut bytes) {
                Ok(0) => return Woken::Stop,
                Ok(_) => asked = true,
                Err(Errno::INTR) => {}
                Err(_) => return Woken::Go { asked },
            }
        }
    }
}

#[cfg(test)]
mod tests;
