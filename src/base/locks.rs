//! The holder of the lock of a daemon's root or run directory, from the kernel's list. Looking never disturbs a daemon
//! that starts.
//!
//! Never here: taking a lock.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::base::{limits, order, regular};

/// Name of the lock file in the root directory and in the run directory.
pub const LOCK: &str = "lock";

/// The process that runs on this root or run directory, if it is certain: it wrote its id into the
/// lock, and the kernel lists this process as the holder.
pub fn holder(dir: &Path) -> Option<u32> {
    let pid = regular::read_text(&dir.join(LOCK), limits::LOCK_BYTES).ok()?.trim().parse().ok()?;
    is_held_by(dir, pid).then_some(pid)
}

/// Whether the kernel lists this process as the holder of a lock of this directory.
#[must_use]
pub fn is_held_by(dir: &Path, pid: u32) -> bool {
    let Some(own) = Own::of(dir) else { return false };
    is_listed(kernel_list, |held| held.pid == Some(pid) && own.is(held)).unwrap_or(false)
}

/// The processes that the kernel lists as holders of a lock of this directory: one, unless other directories look alike. None
/// where nobody holds it, or the holder is in a PID namespace that is not seen from here.
#[must_use]
pub fn holders(dir: &Path) -> Vec<u32> {
    let Some(own) = Own::of(dir) else { return Vec::new() };
    let mut all = Vec::new();
    let take = |held: &Held| {
        all.extend(held.pid.filter(|_| own.is(held)));
        false
    };
    // The answer is in `all`.
    _ = is_listed(kernel_list, take);
    order::sort(&mut all);
    all.dedup();
    all
}

/// The id that a process has in its own PID namespace; `None` if the kernel does not tell.
#[must_use]
pub fn id_for_itself(pid: u32) -> Option<u32> {
    let path = format!("/proc/{pid}/status");
    inner_id(&regular::read_text(Path::new(&path), limits::PROCESS_STATUS_BYTES).ok()?)
}

/// From a line such as `NSpid:\t4567\t1`: the last namespace is the innermost one.
fn inner_id(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().next_back()?.parse().ok()
}

/// Whether a daemon runs on this root or run directory. Read from the kernel's list of locks, so that looking
/// never disturbs a daemon that starts; without that list, an existing lock file counts as a running daemon.
pub fn is_alive(dir: &Path) -> bool {
    let Some(own) = Own::of(dir) else { return false };
    is_listed(kernel_list, |held| own.is(held)).unwrap_or(own.file.is_some())
}

/// The parts of a directory that a daemon locks: the file, and the directory itself, which needs neither room nor a disk
/// that can be written.
struct Own {
    /// Its inode.
    file: Option<u64>,
    device: (u32, u32),
    /// The kernel lists it under this number.
    is_exact: bool,
    directory: u64,
}

/// The kernel's number of a file system in memory (`TMPFS_MAGIC`).
const TMPFS: u32 = 0x0102_1994;

impl Own {
    fn of(dir: &Path) -> Option<Own> {
        let meta = fs::metadata(dir).ok()?;
        let file = fs::metadata(dir.join(LOCK)).ok().map(|meta| meta.ino());
        let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        let is_exact =
            device.0 != 0 || rustix::fs::statfs(dir).is_ok_and(|it| regular::file_system(&it) == TMPFS);
        Some(Own { file, device, is_exact, directory: meta.ino() })
    }

    /// Inodes of file systems have the same numbers, so the device counts, too; but one without a disk of its own (major
    /// number 0, as with btrfs) may be listed under another number.
    fn is(&self, held: &Held) -> bool {
        let is_device = held.device == self.device || (!self.is_exact && held.device.0 == 0);
        is_device && (self.file == Some(held.inode) || held.inode == self.directory)
    }
}

/// A lock in the kernel's list.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    /// Major and minor number.
    device: (u32, u32),
    inode: u64,
    pid: Option<u32>,
}

fn kernel_list() -> io::Result<String> {
    fs::read_to_string("/proc/locks")
}

/// Whether a lock is in the list. The kernel returns a long list in parts, each from the number where the last one
/// ended: if another lock vanishes meanwhile, a held lock may be left out. So a lock counts as free only if several
/// lists lack it.
fn is_listed(
    mut list: impl FnMut() -> io::Result<String>,
    mut is_it: impl FnMut(&Held) -> bool,
) -> io::Result<bool> {
    for _ in 0..limits::LOCK_LOOKS {
        if flocks(&list()?).any(|held| is_it(&held)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The files that are locked by `flock`, with the process that holds each, from lines such as `1:
/// FLOCK  ADVISORY  WRITE 1234 00:19:5678 0 EOF`. A process that waits for a lock has an arrow before the
/// word.
fn flocks(locks: &str) -> impl Iterator<Item = Held> {
    locks.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next().filter(|kind| *kind == "FLOCK")?;
        let pid = words.nth(2)?.parse().ok();
        let mut place = words.next()?.split(':');
        let mut number = || u32::from_str_radix(place.next()?, 16).ok();
        let device = (number()?, number()?);
        Some(Held { device, inode: place.next()?.parse().ok()?, pid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: commands reported that the daemon does not run, and `drain` would have had no effect.
    #[test]
    fn a_lock_that_one_list_lacks_is_held_all_the_same() {
        let mut lists = ["", "3: FLOCK  ADVISORY  WRITE 9 08:01:99 0 EOF\n"].into_iter().map(str::to_owned);
        let next = || lists.next().ok_or_else(|| io::Error::other("no more"));
        assert!(is_listed(next, |held| (held.inode, held.pid) == (99, Some(9))).unwrap());
        let mut looks = 0;
        let empty = || {
            looks += 1;
            Ok(String::new())
        };
        assert!(!is_listed(empty, |_| true).unwrap());
        assert_eq!(looks, limits::LOCK_LOOKS);
    }

    #[test]
    fn the_kernels_list_tells_who_holds_a_lock() {
        let list = "1: FLOCK  ADVISORY  WRITE 1234 00:19:5678 0 EOF\n\
                    1: -> FLOCK  ADVISORY  WRITE 77 00:19:5678 0 EOF\n\
                    2: POSIX  ADVISORY  READ 9 08:01:42 128 128\n\
                    3: FLOCK  ADVISORY  WRITE -1 08:01:99 0 EOF\n\
                    4: FLOCK\n\n";
        let held = |device, inode, pid| Held { device, inode, pid };
        let expected = [held((0, 0x19), 5678, Some(1234)), held((8, 1), 99, None)];
        assert_eq!(flocks(list).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_holder_is_named() {
        let dir = crate::base::testing::scratch("holders");
        assert_eq!(holders(&dir), [0; 0]);
        let held = fs::File::open(&dir).unwrap();
        held.lock().unwrap();
        assert_eq!(holders(&dir), [std::process::id()], "the directory alone is enough");
        drop(held);
        assert_eq!(id_for_itself(std::process::id()), Some(std::process::id()));
        assert_eq!(inner_id("Name:\tx\nNSpid:\t4567\t12\t1\nNSpgid:\t9\n"), Some(1));
        assert_eq!((inner_id("Name:\tx\n"), inner_id("NSpid:\n"), id_for_itself(0)), (None, None, None));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_directory_is_told_from_that_of_another_disk() {
        let own = |device| Own { file: None, device, is_exact: device.0 != 0, directory: 2 };
        let held = |device, inode| Held { device, inode, pid: None };
        for (device, other, is) in [
            ((7, 1), (7, 1), true),
            ((7, 1), (7, 2), false),
            ((0, 40), (0, 39), true),
            ((0, 40), (7, 1), false),
        ] {
            assert_eq!(own(device).is(&held(other, 2)), is, "{device:?} {other:?}");
            assert!(!own(device).is(&held(other, 3)));
        }
        // Regression: a lock of another file system on an inode of the same number was taken for the daemon's.
        let with_file = Own { file: Some(9), ..own((0, 40)) };
        assert!(with_file.is(&held((0, 1), 9)) && !with_file.is(&held((8, 1), 9)));
    }
}
