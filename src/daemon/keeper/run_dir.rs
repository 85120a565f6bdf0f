//! Notices within seconds that the run directory is removed, with everything in it. Nothing is written there on a quiet
//! node, so commands would find no status until the look that follows the next list of containers.
//!
//! inotify wakes the keeper's thread, which waits for descriptors anyway; nothing else wakes it for this. It is optional:
//! without it that look notices.

use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Instant;

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use rustix::event::{PollFd, PollFlags};

use crate::base::limits;
use crate::status::writer::FileWatch;

/// The watch on the run directory.
pub(in crate::daemon) struct RunDir {
    path: PathBuf,
    files: FileWatch,
    inotify: Option<Inotify>,
    watched: Option<WatchDescriptor>,
    /// When to look whether files are missing.
    due: Option<Instant>,
}

impl RunDir {
    pub(in crate::daemon) fn new(path: PathBuf, files: FileWatch) -> RunDir {
        let mut new = RunDir { path, files, inotify: None, watched: None, due: None };
        new.follow();
        new
    }

    /// The descriptor to poll, if inotify works.
    pub(super) fn poll(&self) -> Option<PollFd<'_>> {
        let inotify = self.inotify.as_ref()?;
        Some(PollFd::from_borrowed_fd(inotify.as_fd(), PollFlags::IN))
    }

    /// When to call [`RunDir::tend`] without an event.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Does what is due, or has become so by events; returns whether there was any of it. `ready` are the flags of
    /// [`RunDir::poll`].
    pub(super) fn tend(&mut self, ready: &[PollFlags]) -> bool {
        let has_events = ready.iter().any(|flags| !flags.is_empty());
        if has_events && self.read() {
            // The removal may be under way: what is written into a directory that is being removed goes with it.
            self.due = Instant::now().checked_add(limits::RUN_DIR_SETTLE);
        }
        let is_due = self.due.is_some_and(|due| due <= Instant::now());
        if is_due {
            self.due = None;
            self.files.check();
            self.follow();
        }
        has_events || is_due
    }

    /// Reads all waiting events; returns whether something was removed. Files that are written replace others by a
    /// rename, which is no removal.
    fn read(&mut self) -> bool {
        let mut buffer = [0_u8; limits::INOTIFY_BUFFER];
        let mut is_removed = false;
        for _ in 0..limits::INOTIFY_READS {
            let Some(inotify) = &mut self.inotify else { break };
            match inotify.read_events(&mut buffer) {
                Ok(mut events) => is_removed |= events.any(|event| event.mask != EventMask::IGNORED),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    log::debug!("reading events of {} failed: {error}", self.path.display());
                    // A broken descriptor would always be ready.
                    self.inotify = None;
                    self.watched = None;
                }
            }
        }
        is_removed
    }

    /// Watches the directory that has the path now. While there is none, it is tried again, because the thread that
    /// makes it anew is another one.
    fn follow(&mut self) {
        match self.place() {
            Ok(()) => {}
            // Nor a directory, for a while.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.due = Instant::now().checked_add(limits::RUN_DIR_RETRY);
            }
            Err(error) => {
                log::debug!("the removal of {} is noticed late: {error}", self.path.display());
                self.inotify = None;
                self.watched = None;
            }
        }
    }

    fn place(&mut self) -> io::Result<()> {
        let inotify = match &mut self.inotify {
            Some(inotify) => inotify,
            none => none.insert(Inotify::init()?),
        };
        let mask = WatchMask::DELETE | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF | WatchMask::ONLYDIR;
        let new = inotify.watches().add(&self.path, mask)?;
        if let Some(old) = self.watched.replace(new.clone())
            && old != new
        {
            // A moved directory is watched on; the watch on a removed one may have ended.
            let _gone = inotify.watches().remove(old);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::base::wait;
    use crate::status::file;
    use crate::status::snapshot::{KeptImages, Snapshot};
    use crate::status::writer::Writer;

    /// Waits as the keeper does until the file is there; returns how often something woke it.
    fn tend_until(run_dir: &mut RunDir, until: impl Fn() -> bool) -> usize {
        let (begun, mut wakes) = (Instant::now(), 0);
        while !until() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            let soon = Some(wait::later(Duration::from_millis(20)));
            let ready = wait::until(run_dir.poll().into_iter().collect(), soon).unwrap();
            wakes += usize::from(run_dir.tend(&ready));
        }
        wakes
    }

    fn for_a_while(time: Duration) -> impl Fn() -> bool {
        let begun = Instant::now();
        move || begun.elapsed() > time
    }

    fn writer(dir: &Path) -> Writer {
        let made = dir.to_owned();
        let restore = Box::new(move || {
            fs::create_dir_all(&made)?;
            fs::write(made.join("lock"), "")
        });
        Writer::start(dir, "node", &[], KeptImages::default(), restore).unwrap()
    }

    #[test]
    fn a_removed_run_directory_is_noticed_and_writes_wake_nobody() {
        let root = crate::base::testing::scratch("keeper-run-dir");
        let dir = root.join("run");
        fs::create_dir(&dir).unwrap();
        let writer = writer(&dir);
        let mut run_dir = RunDir::new(dir.clone(), writer.watch(&dir, "lock"));
        // As the lock that a daemon holds: the kernel keeps the directory of an open file.
        let _held = fs::File::create(dir.join("lock")).unwrap();
        writer.publish(Arc::new(Snapshot::default()), Arc::default());
        let path = dir.join(file::NAME);
        assert_eq!(tend_until(&mut run_dir, || path.exists()), 0);
        let other = Snapshot { node: "other".to_owned(), ..Snapshot::default() };
        writer.publish(Arc::new(other), Arc::default());
        assert_eq!(tend_until(&mut run_dir, for_a_while(Duration::from_millis(200))), 0);
        // Twice: the directory that is made anew is watched, too.
        for _ in 0..2 {
            fs::remove_dir_all(&dir).unwrap();
            tend_until(&mut run_dir, || path.exists());
            tend_until(&mut run_dir, for_a_while(limits::RUN_DIR_SETTLE + limits::RUN_DIR_RETRY));
        }
        // Moved away as a whole.
        fs::rename(&dir, root.join("old")).unwrap();
        tend_until(&mut run_dir, || path.exists());
        tend_until(&mut run_dir, for_a_while(limits::RUN_DIR_SETTLE + limits::RUN_DIR_RETRY));
        assert_eq!(tend_until(&mut run_dir, for_a_while(Duration::from_millis(200))), 0, "it rests");
        // A single file.
        fs::remove_file(&path).unwrap();
        tend_until(&mut run_dir, || path.exists());
        drop(writer);
        fs::remove_dir_all(&root).unwrap();
    }
}
