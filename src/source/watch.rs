//! inotify, reduced to "scan" and "this file is complete" (kubernetes/kubernetes#40123): it never says what exists,
//! only that a scan is worth it.
//!
//! There is at most one inotify instance (kubermatic/kubermatic#7490) with one watch: on the directory, or, while the
//! path is a file or missing, on its parent. A path that is a symbolic link, or leads through several, has one more
//! watch for each, so that a changed link is noticed at once. Every failure here only makes the daemon slower: the scan
//! by time goes on.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use inotify::{Event, EventMask, Inotify, WatchDescriptor, WatchMask};

use crate::base::limits;
use crate::source::hints::{Hints, is_manifest_name};
use crate::source::signature::SUFFIX;

/// Makes an inotify instance; another one in tests.
pub type Opener = fn() -> io::Result<Inotify>;

/// One thing to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    directory: PathBuf,
    view: View,
}

/// A watched directory.
#[derive(Debug)]
struct Target {
    descriptor: WatchDescriptor,
    /// Device and inode of the watched directory.
    id: (u64, u64),
    place: Place,
}

/// The names in a directory that count.
#[derive(Debug, Clone, PartialEq, Eq)]
enum View {
    /// The directory itself: every manifest.
    Directory,
    /// The parent of the path, or of a link on the way: this name alone.
    Parent(OsString),
}

/// The watch on one path.
pub struct Watch {
    path: PathBuf,
    open: Opener,
    inotify: Option<Inotify>,
    targets: Vec<Target>,
    /// The operator knows that there is no watch.
    grumbled: bool,
}

impl Watch {
    /// A watch that is not placed yet; see [`Watch::follow`].
    #[must_use]
    pub fn new(path: PathBuf, open: Opener) -> Watch {
        Watch { path, open, inotify: None, targets: Vec::new(), grumbled: false }
    }

    /// The descriptor to wait on, if inotify works.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Whether changes are reported: there is a watch without problems.
    #[must_use]
    pub fn is_placed(&self) -> bool {
        !self.grumbled && !self.targets.is_empty()
    }

    /// Places the watch at the current target of the path, or moves it when the directory was replaced. Called before
    /// each scan, so that no change between watch and scan is missed.
    pub fn follow(&mut self) {
        match self.place() {
            Ok(()) if self.grumbled && !self.targets.is_empty() => {
                self.grumbled = false;
                log::info!("changes of {} are seen at once again", self.path.display());
            }
            Ok(()) => {}
            Err(why) => {
                self.targets.clear();
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

    /// The directories where a change can affect the path: those of links on the way, and the last one.
    fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        let mut path = self.path.clone();
        for _ in 0..limits::MANIFEST_LINKS {
            let Ok(to) = fs::read_link(&path) else { break };
            let Some(place) = Place::above(&path) else { break };
            path = place.directory.join(to);
            places.push(place);
        }
        let directory = fs::metadata(&path).is_ok_and(|m| m.is_dir());
        let end = Place::above(&path).filter(|_| !directory);
        places.push(end.unwrap_or(Place { directory: path, view: View::Directory }));
        places
    }

    fn place(&mut self) -> io::Result<()> {
        let mut old = std::mem::take(&mut self.targets);
        for place in self.places() {
            // It does not exist: there is nothing to watch, and inotify works.
            let Some(id) = identity(&place.directory) else { continue };
            if let Some(at) = old.iter().position(|t| t.id == id && t.place == place) {
                self.targets.push(old.swap_remove(at));
                continue;
            }
            let inotify = match &mut self.inotify {
                Some(inotify) => inotify,
                none => none.insert((self.open)()?),
            };
            let descriptor = match inotify.watches().add(&place.directory, mask()) {
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                other => other?,
            };
            // It was replaced in between: the next scan moves the watch.
            let id = if identity(&place.directory) == Some(id) { id } else { (0, 0) };
            self.targets.push(Target { descriptor, id, place });
        }
        for Target { descriptor, .. } in old {
            if let Some(inotify) = &self.inotify
                && !self.targets.iter().any(|t| t.descriptor == descriptor)
            {
                // The watch may have ended with its directory.
                let _gone = inotify.watches().remove(descriptor);
            }
        }
        Ok(())
    }

    /// Reads all waiting events and adds them to the hints. Never blocks.
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
                    self.targets.clear();
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
        // Events of a removed watch do not count.
        if !self.targets.iter().any(|t| t.descriptor == event.wd) {
            return;
        }
        let lost = EventMask::IGNORED | EventMask::UNMOUNT | EventMask::DELETE_SELF | EventMask::MOVE_SELF;
        if event.mask.intersects(lost) {
            hints.look = true;
            if event.mask.contains(EventMask::IGNORED) {
                self.targets.retain(|t| t.descriptor != event.wd);
            }
            return;
        }
        let Some(name) = event.name.and_then(OsStr::to_str) else { return };
        for target in self.targets.iter().filter(|t| t.descriptor == event.wd) {
            self.hear_name(&target.place, name, event.mask, hints);
        }
    }

    fn hear_name(&self, place: &Place, name: &str, mask: EventMask, hints: &mut Hints) {
        let is_ours = |name: &str| match &place.view {
            View::Directory => is_manifest_name(name),
            View::Parent(only) => only.as_os_str() == OsStr::new(name),
        };
        let signed = name.strip_suffix(SUFFIX).and_then(|n| n.strip_suffix('.'));
        if !is_ours(name) {
            // `..data` and its like: links through it lead elsewhere now. A signature is judged with its manifest.
            hints.look |= name.starts_with("..") || signed.is_some_and(is_ours);
            return;
        }
        // Under the name that the scan knows, wherever the path leads.
        let known = match &place.view {
            View::Directory => name,
            View::Parent(_) => self.path.file_name().and_then(OsStr::to_str).unwrap_or(name),
        };
        if mask.intersects(EventMask::CLOSE_WRITE | EventMask::MOVED_TO) {
            hints.finished(known);
        } else if mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM) {
            hints.gone(known);
        } else if mask.contains(EventMask::CREATE) {
            hints.look |= mask.contains(EventMask::ISDIR) || is_there_at_once(&place.directory.join(name));
        }
    }
}

impl Place {
    /// The directory above a path, with the path's last name.
    fn above(path: &Path) -> Option<Place> {
        let (directory, name) = (path.parent()?.to_owned(), path.file_name()?.to_owned());
        Some(Place { directory, view: View::Parent(name) })
    }
}

/// Whether no writer will close it: it is a new name of an existing file, or no file at all. A file that is just being
/// written is not worth a scan yet.
fn is_there_at_once(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| !m.is_file() || m.nlink() > 1)
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
