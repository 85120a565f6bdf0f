//! What trees and logs take of a disk, counted as `du` counts: blocks, each inode once.
//!
//! Containers own what is counted here: no link is followed and no mount crossed. A round looks at a bounded number of
//! entries, or for a bounded time; past that, where a tree changes below the walk's feet, and where it cannot be read, a
//! figure is what was counted, and [`Reach`] tells why. Of files with several names so many are remembered; of further
//! ones each name counts with its share, for nobody is to hide a file behind many others, or to seem larger than it is.

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
    /// Bytes of blocks: a sparse file takes what was written to it, a small one a whole block.
    pub bytes: u64,
    /// Files, directories and links.
    pub inodes: u64,
}

impl DiskUse {
    /// Both together.
    #[must_use]
    pub fn and(self, other: DiskUse) -> DiskUse {
        DiskUse {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

/// How much of what there is was counted. Of several, the last one of these that is true is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// All of it.
    Whole,
    /// A file system has failed: there may be more.
    Unreadable,
    /// A tree was changed below the walk's feet: there may be more, which another walk may find.
    Moved,
    /// There is more than is counted.
    Exceeded,
}

/// How far a round has come, for a thread that watches it: a disk may hang.
#[derive(Debug, Default)]
pub struct Progress {
    steps: AtomicU64,
    bytes: AtomicU64,
    inodes: AtomicU64,
}

impl Progress {
    /// Something was done.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that grows with each step.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// What was counted so far.
    #[must_use]
    pub fn sum(&self) -> DiskUse {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        DiskUse { bytes: of(&self.bytes), inodes: of(&self.inodes) }
    }

    /// All is counted once more.
    pub fn again(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.inodes.store(0, Ordering::Relaxed);
    }

    fn count(&self, more: DiskUse) {
        self.bytes.fetch_add(more.bytes, Ordering::Relaxed);
        self.inodes.fetch_add(more.inodes, Ordering::Relaxed);
    }
}

/// One round of looking, which costs a bounded number of entries, or a bounded time, however many trees there are.
#[derive(Debug)]
pub struct Round {
    left: u64,
    /// It ends then.
    until: Option<Instant>,
    /// How often a directory may still be read again for what was renamed in it.
    searches: u32,
    /// How often it may go on after a directory was moved.
    moves: u32,
    reach: Reach,
    progress: Arc<Progress>,
    /// Single files that were counted.
    files: BTreeSet<(u64, u64)>,
}

impl Default for Round {
    fn default() -> Round {
        Round::new(limits::DISK_USE_ENTRIES, None, Arc::default())
    }
}

impl Round {
    /// A round that ends at this time, whatever it has counted, and whose progress somebody watches.
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

    /// One thing that is looked at beside trees; says whether the round goes on.
    pub fn goes_on(&mut self) -> bool {
        self.take().is_ok()
    }

    /// There is more than is counted.
    pub fn cut(&mut self) {
        self.reach = Reach::Exceeded;
    }

    /// Something else was done in it.
    pub fn step(&self) {
        self.progress.step();
    }

    /// Whether no entry is left: figures from now on are 0, and the last one may be too small.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// How much of what there is was counted.
    #[must_use]
    pub fn reach(&self) -> Reach {
        if self.is_over() { Reach::Exceeded } else { self.reach }
    }

    /// A directory with all that is in it; nothing where there is no directory.
    pub fn tree(&mut self, path: &Path) -> DiskUse {
        let top = match rustix::fs::open(path, DIRECTORY, Mode::empty()) {
            Ok(top) => top,
            Err(error) => {
                self.reach = self.reach.max(not_opened(error));
                return DiskUse::default();
            }
        };
        let mut count = Count::new(self);
        // What was counted before an error holds.
        let reach = walk(top, &mut count).map_or_else(|error| ended(&error), |()| Reach::Whole);
        let sum = count.sum;
        self.reach = self.reach.max(reach);
        sum
    }

    /// One regular file, which counts once in a round, under whatever names it is asked for; nothing where there is none.
    pub fn file(&mut self, path: &Path) -> DiskUse {
        let Ok(stat) = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else { return DiskUse::default() };
        let is_new = FileType::from_raw_mode(stat.st_mode).is_file() && self.files.insert(id(&stat));
        let mut count = Count::new(self);
        if is_new && count.see(&stat).is_err() {
            count.round.reach = Reach::Exceeded;
        }
        count.sum
    }

    /// A log of Docker's with its rotated files, which are named `FILE.1`, `FILE.2.gz` and so on.
    pub fn log(&mut self, file: &Path) -> DiskUse {
        let (Some(directory), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str()))
        else {
            return DiskUse::default();
        };
        let Ok(at) = rustix::fs::open(directory, DIRECTORY, Mode::empty()) else { return DiskUse::default() };
        let mut count = Count::new(self);
        let rotated = (1..limits::LOG_FILES_COUNTED)
            .flat_map(|number| [format!("{name}.{number}"), format!("{name}.{number}.gz")]);
        // The file names are asked for, since the directory has much else; the first number that is missing is the last.
        let mut missing = 0;
        for name in std::iter::once(name.to_owned()).chain(rotated) {
            match statat(&at, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if count.see(&stat).is_ok() => missing = 0,
                Ok(_) => break,
                Err(_) => missing += 1,
            }
            // A file is renamed while one looks.
            if missing > 4 {
                break;
            }
        }
        count.sum
    }
}

/// Where there is no directory there is nothing.
fn not_opened(error: Errno) -> Reach {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Reach::Whole,
        _ => Reach::Unreadable,
    }
}

/// Why a walk has ended before its end.
fn ended(error: &io::Error) -> Reach {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::TOOBIG) => Reach::Exceeded,
        // The walk's own, or another file stands where a directory was.
        None | Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Reach::Moved,
        Some(_) => Reach::Unreadable,
    }
}

struct Count<'a> {
    round: &'a mut Round,
    sum: DiskUse,
    /// Inodes with several names that were counted.
    linked: BTreeSet<(u64, u64)>,
    /// Of inodes that are counted by their names: millionths of one that are not in the sum yet.
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
    /// What is mounted is not on this disk, or is counted elsewhere.
    fn mount(&mut self, _: &CStr) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
