//! Usage of trees and logs on a disk, counted like `du`: blocks, each inode once.
//!
//! Containers own the counted files: no link is followed and no mount crossed. A round looks at a bounded number of
//! entries, or for a bounded time. If that is not enough, if a tree changes during the walk, or if it cannot be read,
//! the figure is the part that was counted, and [`Reach`] tells why. A bounded number of files with several names is
//! remembered; beyond that, each name counts its share of the file, so that a file cannot hide behind many others, or
//! count several times.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Stat, fstat, statat};
use rustix::io::Errno;

use crate::base::limits;
use crate::base::walk::{DIRECTORY, Visit, walk};

/// Bytes and inodes on a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes of blocks: a sparse file counts its written blocks, a small file a whole block.
    pub bytes: u64,
    /// Files, directories and links.
    pub inodes: u64,
}

impl DiskUse {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: DiskUse) -> DiskUse {
        DiskUse {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

/// How complete a count is. If several values apply, the last of them is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Complete.
    Whole,
    /// A file system failed: there may be more.
    Unreadable,
    /// A tree was changed during the walk: there may be more, which another walk may find.
    Moved,
    /// There is more than was counted.
    Exceeded,
}

/// Progress of a round, for a thread that watches it, because a disk may hang.
#[derive(Debug, Default)]
pub struct Progress {
    steps: AtomicU64,
    bytes: AtomicU64,
    inodes: AtomicU64,
}

impl Progress {
    /// Counts a step.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that grows with each step.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// The usage counted so far.
    #[must_use]
    pub fn sum(&self) -> DiskUse {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        DiskUse { bytes: of(&self.bytes), inodes: of(&self.inodes) }
    }

    /// Starts the count again at zero.
    pub fn again(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.inodes.store(0, Ordering::Relaxed);
    }

    fn count(&self, more: DiskUse) {
        self.bytes.fetch_add(more.bytes, Ordering::Relaxed);
        self.inodes.fetch_add(more.inodes, Ordering::Relaxed);
    }
}

/// A round of counting, bounded in entries or in time, for any number of trees.
#[derive(Debug)]
pub struct Round {
    left: u64,
    /// End of the round.
    until: Option<Instant>,
    /// How often a directory may still be read again to find renamed entries.
    searches: u32,
    /// How often the round may still go on after a directory was moved.
    moves: u32,
    reach: Reach,
    progress: Arc<Progress>,
    /// Single files that were counted, by device and inode.
    files: BTreeSet<(u64, u64)>,
}

impl Default for Round {
    fn default() -> Round {
        Round::new(limits::DISK_USE_ENTRIES, None, Arc::default())
    }
}

impl Round {
    /// A round that ends at this time, with a progress for another thread to watch.
    #[must_use]
    pub fn until(until: Instant, progress: Arc<Progress>) -> Round {
        Round::new(u64::MAX, Some(until), progress)
    }

    fn new(left: u64, until: Option<Instant>, progress: Arc<Progress>) -> Round {
        let (searches, moves) = (limits::DISK_USE_SEARCHES, limits::DISK_USE_MOVED);
        Round { left, until, searches, moves, reach: Reach::Whole, progress, files: BTreeSet::new() }
    }

    /// Takes one entry; fails when the round is over.
    fn take(&mut self) -> io::Result<()> {
        let is_late = self.left % 256 == 255 && self.until.is_some_and(|until| Instant::now() >= until);
        let Some(left) = self.left.checked_sub(1).filter(|_| !is_late) else {
            self.cut();
            return Err(Errno::TOOBIG.into());
        };
        self.left = left;
        self.step();
        Ok(())
    }

    /// Counts one look outside of trees; returns whether the round goes on.
    pub fn goes_on(&mut self) -> bool {
        self.take().is_ok()
    }

    /// Marks that there is more than was counted.
    pub fn cut(&mut self) {
        self.reach = Reach::Exceeded;
    }

    /// Counts a step that is not an entry.
    pub fn step(&self) {
        self.progress.step();
    }

    /// Whether no entry is left: figures from now on are 0, and the last one may be too small.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// How complete the count is.
    #[must_use]
    pub fn reach(&self) -> Reach {
        if self.is_over() { Reach::Exceeded } else { self.reach }
    }

    /// Counts a directory with everything in it; zero if there is no directory.
    pub fn tree(&mut self, path: &Path) -> DiskUse {
        let top = match rustix::fs::open(path, DIRECTORY, Mode::empty()) {
            Ok(top) => top,
            Err(error) => {
                self.reach = self.reach.max(not_opened(error));
                return DiskUse::default();
            }
        };
        let mut count = Count::new(self);
        // Usage that was counted before an error is kept.
        let reach = walk(top, &mut count).map_or_else(|error| ended(&error), |()| Reach::Whole);
        let sum = count.sum;
        self.reach = self.reach.max(reach);
        sum
    }

    /// Counts one regular file, once in a round for all its names; zero if there is none.
    pub fn file(&mut self, path: &Path) -> DiskUse {
        let Ok(stat) = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else { return DiskUse::default() };
        let is_new = FileType::from_raw_mode(stat.st_mode).is_file() && self.files.insert(id(&stat));
        let mut count = Count::new(self);
        if is_new && count.see(&stat).is_err() {
            count.round.reach = Reach::Exceeded;
        }
        count.sum
    }

    /// Counts a log of Docker's, including its rotated files `FILE.1`, `FILE.2.gz` and so on.
    pub fn log(&mut self, file: &Path) -> DiskUse {
        let (Some(directory), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str()))
        else {
            return DiskUse::default();
        };
        let Ok(at) = rustix::fs::open(directory, DIRECTORY, Mode::empty()) else { return DiskUse::default() };
        let mut count = Count::new(self);
        let rotated = (1..limits::LOG_FILES_COUNTED)
            .flat_map(|number| [format!("{name}.{number}"), format!("{name}.{number}.gz")]);
        // The files are looked up by name, because the directory has many others; the numbers have no gaps.
        let mut missing = 0;
        for name in std::iter::once(name.to_owned()).chain(rotated) {
            match statat(&at, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if count.see(&stat).is_ok() => missing = 0,
                Ok(_) => break,
                Err(_) => missing += 1,
            }
            // A file may be renamed during the count, so a few missing names are accepted.
            if missing > 4 {
                break;
            }
        }
        count.sum
    }
}

/// A missing directory counts as complete.
fn not_opened(error: Errno) -> Reach {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Reach::Whole,
        _ => Reach::Unreadable,
    }
}

/// Why a walk ended early.
fn ended(error: &io::Error) -> Reach {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::TOOBIG) => Reach::Exceeded,
        // The walk's own error, or the directory was replaced by another file.
        None | Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Reach::Moved,
        Some(_) => Reach::Unreadable,
    }
}

struct Count<'a> {
    round: &'a mut Round,
    sum: DiskUse,
    /// Inodes with several names that were counted.
    linked: BTreeSet<(u64, u64)>,
    /// Millionths of inodes that are counted by their names and not in the sum yet.
    shares: u64,
}

impl<'a> Count<'a> {
    fn new(round: &'a mut Round) -> Count<'a> {
        Count { round, sum: DiskUse::default(), linked: BTreeSet::new(), shares: 0 }
    }

    /// Fails when the round is over.
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_fallible_conversions,
        reason = "its type differs by architecture"
    )]
    fn see(&mut self, stat: &Stat) -> io::Result<()> {
        self.round.take()?;
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
        let mut found = DiskUse { bytes: blocks.saturating_mul(512), inodes: 1 };
        let (names, is_directory) =
            (u64::try_from(stat.st_nlink).unwrap_or(1), FileType::from_raw_mode(stat.st_mode).is_dir());
        if names > 1 && !is_directory {
            let id = id(stat);
            if self.linked.contains(&id) {
                return Ok(());
            }
            if self.linked.len() < limits::DISK_USE_LINKED {
                self.linked.insert(id);
            } else {
                const WHOLE: u64 = 1_000_000;
                let shares = self.shares.saturating_add(WHOLE.div_ceil(names));
                self.shares = shares % WHOLE;
                found = DiskUse { bytes: found.bytes.div_ceil(names), inodes: shares / WHOLE };
            }
        }
        self.round.progress.count(found);
        self.sum = self.sum.and(found);
        Ok(())
    }
}

/// Device and inode.
#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_fallible_conversions,
    reason = "their types differ by architecture"
)]
fn id(stat: &Stat) -> (u64, u64) {
    (u64::try_from(stat.st_dev).unwrap_or(0), u64::try_from(stat.st_ino).unwrap_or(0))
}

impl Visit for Count<'_> {
    fn ahead(&self) -> usize {
        limits::DISK_USE_OPEN
    }
    fn lost(&mut self) -> bool {
        self.round.goes_on()
    }
    fn search(&mut self) -> bool {
        let left = self.round.searches.checked_sub(1);
        self.round.searches = left.unwrap_or(0);
        left.is_some() && self.round.goes_on()
    }
    fn read(&mut self) -> io::Result<()> {
        self.round.take()
    }
    fn gone(&mut self) {
        self.round.reach = self.round.reach.max(Reach::Moved);
    }
    fn moved(&mut self) -> bool {
        self.round.reach = self.round.reach.max(Reach::Moved);
        let left = self.round.moves.checked_sub(1);
        self.round.moves = left.unwrap_or(0);
        left.is_some() && self.round.goes_on()
    }
    fn file(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<()> {
        match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => self.see(&stat),
            Err(error) => Err(error.into()),
        }
    }
    fn leaving(&mut self, directory: &OwnedFd) -> io::Result<()> {
        self.see(&fstat(directory)?)
    }
    fn left(&mut self, _: &OwnedFd, _: &CStr) -> io::Result<()> {
        Ok(())
    }
    /// Skips a mount: its files are not on this disk, or are counted elsewhere.
    fn mount(&mut self, _: &CStr) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
