//! The file source's thread: waits for a hint or the clock, looks, and sends what changed.
//!
//! The handle is public, the actor private. The thread holds no state of its own but times: what is
//! believed is `scan`'s, what is heard is `watch`'s. Nothing wakes it but a hint, [`FileSource::rescan`]
//! or a due time.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use inotify::Inotify;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::base::clock::{Clock, Mono, System};
use crate::base::limits;
use crate::base::pace::Pace;
use crate::base::wait;
use crate::pod::Source;
use crate::source::FromSource;
use crate::source::accept::Acceptor;
use crate::source::hints::Hints;
use crate::source::last_good::Saver;
use crate::source::last_good::replay::replay;
use crate::source::running::Running;
use crate::source::scan::Scanner;
use crate::source::watch::Watch;
use crate::status::task::{Pulses, Task};

/// Takes what the source says; `false` when nobody listens any more, and then the thread ends. It may
/// wait while the receiver is busy, but must return once the receiver is gone.
pub type Sink = Box<dyn Fn(FromSource) -> bool + Send>;

/// A running file source. Dropping it ends the thread, and waits a moment for that
/// ([`limits::SOURCE_END`]): a thread that hangs in a dead file system is left to itself. Whoever receives
/// from the sink must be gone, or still receiving, when it is dropped.
#[derive(Debug)]
pub struct FileSource {
    /// A byte in it means "look"; its end means "stop".
    wake: Option<OwnedFd>,
    thread: Running,
}

impl FileSource {
    /// Starts watching `path`, a directory of manifests or one manifest file, absolute. It is looked at at
    /// once, then on each change, and every `frequency` (`--file-check-frequency`; at least
    /// [`limits::SCAN_SETTLE`]). It begins with what `store` remembers, and remembers there.
    ///
    /// # Errors
    /// When the thread or its pipe cannot be made.
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
        let named = thread::Builder::new().name("pk-file".into());
        let thread = Running::spawn(named, move || {
            pulses.join(Task::Source(Source::File));
            actor.run();
        })?;
        Ok(FileSource { wake: Some(wake), thread })
    }

    /// Asks for a look now (SIGHUP). Never blocks.
    pub fn rescan(&self) {
        if let Some(wake) = &self.wake {
            // A full pipe holds enough bytes that say the same.
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

/// Why the thread woke.
enum Woken {
    /// The handle is gone.
    Stop,
    /// By a request for a look, by events, or by the clock.
    Go {
        /// [`FileSource::rescan`].
        asked: bool,
    },
}

impl Actor {
    /// Begins with what is remembered.
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

    fn run(mut self) {
        self.restore();
        let mut hints = Hints::default();
        // When to look without a hint, and before when not to look even with one.
        let (mut next, mut calm) = (Mono::default(), Mono::default());
        let mut retry = limits::SCAN_RETRY_MIN.min(self.frequency);
        let mut pace = Pace::new(self.frequency);
        loop {
            let now = self.clock.now();
            let at = if hints.any() { calm.min(next) } else { next };
            let early = now.mono < at;
            let until = self.store.due(now.mono).map_or(at, |due| at.min(due));
            let time = if early { until.since(now.mono) } else { Duration::ZERO };
            // Listened to in every round: whatever is due, nothing makes this thread deaf.
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
                // What was said is remembered in the time that is left.
                self.store.save(now.mono);
            }
            if let Some(update) = self.store.take_news()
                && !(self.out)(FromSource { source: Source::File, update })
            {
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
            for update in outcome.before.into_iter().chain(outcome.update) {
                if !(self.out)(FromSource { source: Source::File, update }) {
                    return;
                }
            }
            for (content, needed) in outcome.accepted {
                self.store.remember(content, &needed);
            }
            self.store.note(&outcome.signed, || self.scanner.names());
            if spoke && !outcome.failed {
                self.store.retain(|path| self.scanner.holds(path));
            }
            let end = self.clock.now().mono;
            // A burst of hints becomes few looks, and looking takes at most half of the time.
            calm = end.after(limits::SCAN_COALESCE.max(end.since(now.mono)));
            let unhurried = pace.next(outcome.quiet && self.watch.is_placed());
            let period = if outcome.failed { retry } else { unhurried };
            retry = match outcome.failed {
                true => retry.saturating_mul(2).min(self.frequency),
                false => limits::SCAN_RETRY_MIN.min(self.frequency),
            };
            // Never before the calm is over: what is due at once is due once in a while.
            next = outcome.settle.into_iter().chain([end.after(period)]).min().unwrap_or(end).max(calm);
        }
    }

    /// Waits for the handle, for events, or for the time to pass.
    fn sleep(&self, time: Duration) -> Woken {
        let mut fds = vec![PollFd::new(&self.wait, PollFlags::IN)];
        fds.extend(self.watch.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        if let Err(e) = wait::until(fds, Instant::now().checked_add(time)) {
            // Out of kernel memory: the clock alone has to do for a while.
            log::error!("waiting for file changes failed: {e}; looking again in a moment");
            thread::sleep(time.min(limits::SCAN_RETRY_MIN));
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
