//! inotify, reduced to "look" and "this file is whole" (kubernetes/kubernetes#40123): it never says what
//! is there, only that a scan is worth while.
//!
//! At most one inotify instance (kubermatic/kubermatic#7490) with one watch: on the directory, or, while
//! the path is a file or missing, on its parent. Whatever goes wrong here only makes the daemon slower:
//! the scan by time goes on.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use inotify::{Event, EventMask, Inotify, WatchDescriptor, WatchMask};

use crate::limits;
use crate::source::hints::{Hints, is_manifest_name};
use crate::source::signature::SUFFIX;

/// Makes an inotify instance; another one in tests.
pub type Opener = fn() -> io::Result<Inotify>;

/// What is watched now.
#[derive(Debug)]
struct Target {
    descriptor: WatchDescriptor,
    /// Device and inode of the watched directory.
    id: (u64, u64),
    view: View,
}

/// Which names matter.
#[derive(Debug, Clone, PartialEq, Eq)]
enum View {
    /// The directory itself: every manifest.
    Directory,
    /// The parent: this name alone.
    Parent(OsString),
}

/// The watch on one path.
pub struct Watch {
    path: PathBuf,
    open: Opener,
    inotify: Option<Inotify>,
    target: Option<Target>,
    /// The operator was told that there is no watch.
    grumbled: bool,
}

impl Watch {
    /// A watch that is not placed yet; see [`Watch::follow`].
    #[must_use]
    pub fn new(path: PathBuf, open: Opener) -> Watch {
        Watch { path, open, inotify: None, target: None, grumbled: false }
    }

    /// Something to wait on, if there is inotify.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Puts the watch where the path leads now: places it, or moves it when the directory was replaced.
    /// To be called before each scan, so that nothing between watch and scan is missed.
    pub fn follow(&mut self) {
        match self.place() {
            Ok(()) if self.grumbled && self.target.is_some() => {
                self.grumbled = false;
                log::info!("changes of {} are seen at once again", self.path.display());
            }
            Ok(()) => {}
            Err(why) => {
                self.target = None;
                if !self.grumbled {
                    self.grumbled = true;
                    log::warn!(
                        "changes of {} cannot be watched: {why}; it is looked at every \
                         --file-check-frequency instead",
                        self.path.display()
                    );
                }
            }
        }
    }

    fn place(&mut self) -> io::Result<()> {
        let (directory, view) = match (fs::metadata(&self.path), self.path.parent(), self.path.file_name()) {
            (Ok(m), ..) if m.is_dir() => (self.path.as_path(), View::Directory),
            (_, Some(parent), Some(name)) => (parent, View::Parent(name.to_owned())),
            _ => (self.path.as_path(), View::Directory),
        };
        // No parent either: nothing to watch, and nothing wrong with inotify.
        let Some(id) = identity(directory) else {
            self.release(None);
            return Ok(());
        };
        if self.target.as_ref().is_some_and(|t| t.id == id && t.view == view) {
            return Ok(());
        }
        let inotify = match &mut self.inotify {
            Some(inotify) => inotify,
            none => none.insert((self.open)()?),
        };
        let descriptor = match inotify.watches().add(directory, mask()) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.release(None);
                return Ok(());
            }
            other => other?,
        };
        // Replaced in between: then the next scan moves the watch.
        let id = if identity(directory) == Some(id) { id } else { (0, 0) };
        self.release(Some(&descriptor));
        self.target = Some(Target { descriptor, id, view });
        Ok(())
    }

    /// Takes the old watch away, unless the new one is the same.
    fn release(&mut self, new: Option<&WatchDescriptor>) {
        if let (Some(old), Some(inotify)) = (self.target.take(), &self.inotify)
            && new != Some(&old.descriptor)
        {
            // It may have gone with its directory.
            let _gone = inotify.watches().remove(old.descriptor);
        }
    }

    /// Takes all events that wait and adds what they mean to the hints. Never blocks.
    pub fn read(&mut self, hints: &mut Hints) {
        let mut buffer = [0_u8; limits::INOTIFY_BUFFER];
        for _ in 0..limits::INOTIFY_READS {
            let Some(inotify) = &mut self.inotify else { return };
            match inotify.read_events(&mut buffer) {
                Ok(events) => events.for_each(|event| self.hear(&event, hints)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    log::warn!("reading file change events failed: {e}; starting over");
                    self.inotify = None;
                    self.target = None;
                    hints.look = true;
                    return;
                }
            }
        }
    }

    fn hear(&mut self, event: &Event<&OsStr>, hints: &mut Hints) {
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            hints.look = true;
            return;
        }
        // What is left over from a watch before is no news.
        let Some(target) = self.target.as_ref().filter(|t| t.descriptor == event.wd) else { return };
        let lost = EventMask::IGNORED | EventMask::UNMOUNT | EventMask::DELETE_SELF | EventMask::MOVE_SELF;
        if event.mask.intersects(lost) {
            hints.look = true;
            if event.mask.contains(EventMask::IGNORED) {
                self.target = None;
            }
            return;
        }
        let Some(name) = event.name.and_then(OsStr::to_str) else { return };
        let is_ours = |name: &str| match &target.view {
            View::Directory => is_manifest_name(name),
            View::Parent(only) => only.as_os_str() == OsStr::new(name),
        };
        let signed = name.strip_suffix(SUFFIX).and_then(|n| n.strip_suffix('.'));
        if !is_ours(name) {
            // `..data` and its like: links to it lead elsewhere now. A signature is judged with its
            // manifest.
            hints.look |= name.starts_with("..") || signed.is_some_and(is_ours);
        } else if event.mask.intersects(EventMask::CLOSE_WRITE | EventMask::MOVED_TO) {
            hints.finished(name);
        } else if event.mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM) {
            hints.gone(name);
        } else if event.mask.contains(EventMask::CREATE) {
            let directory = event.mask.contains(EventMask::ISDIR);
            hints.look |= directory || self.is_link(name);
        }
    }

    /// A new name for something that is already there: no writer will close it. A file that is just being
    /// written is not worth a look yet.
    fn is_link(&self, name: &str) -> bool {
        let path = match self.target.as_ref().map(|t| &t.view) {
            Some(View::Directory) => self.path.join(name),
            _ => self.path.clone(),
        };
        fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink() || m.nlink() > 1)
    }
}

fn identity(directory: &Path) -> Option<(u64, u64)> {
    fs::metadata(directory).ok().filter(fs::Metadata::is_dir).map(|m| (m.dev(), m.ino()))
}

fn mask() -> WatchMask {
    WatchMask::CLOSE_WRITE
        | WatchMask::MOVED_TO
        | WatchMask::MOVED_FROM
        | WatchMask::DELETE
        | WatchMask::CREATE
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF
        | WatchMask::ONLYDIR
}

#[cfg(test)]
mod tests;
