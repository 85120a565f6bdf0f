//! The holder of the lock of a daemon's root or run directory, from the kernel's list. Looking never disturbs a daemon
//! that starts.
//!
//! Never here: taking a lock.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::base::{limits, regular};

/// Name of the lock file in the root directory and in the run directory.
pub const LOCK: &str = "lock";

/// The process that runs on this root or run directory, if it is certain: it wrote its id into the
/// lock, and the kernel lists this process as the holder.
pub fn holder(dir: &Path) -> Option<u32> {
    let inode = fs::metadata(dir.join(LOCK)).ok()?.ino();
    let pid = regular::read_text(&dir.join(LOCK), limits::LOCK_BYTES).ok()?.trim().parse().ok()?;
    is_listed(kernel_list, |held| held == (inode, Some(pid))).ok()?.then_some(pid)
}

/// Whether a daemon runs on this root or run directory. Read from the kernel's list of locks, so that looking
/// never disturbs a daemon that starts; without that list, an existing lock file counts as a running daemon.
pub fn is_alive(dir: &Path) -> bool {
    let Ok(meta) = fs::metadata(dir.join(LOCK)) else { return false };
    is_listed(kernel_list, |(inode, _)| inode == meta.ino()).unwrap_or(true)
}

fn kernel_list() -> io::Result<String> {
    fs::read_to_string("/proc/locks")
}

/// Whether a lock is in the list. The kernel returns a long list in parts, each from the number where the last one
/// ended: if another lock vanishes meanwhile, a held lock may be left out. So a lock counts as free only if several
/// lists lack it.
fn is_listed(
    mut list: impl FnMut() -> io::Result<String>,
    is_it: impl Fn((u64, Option<u32>)) -> bool,
) -> io::Result<bool> {
    for _ in 0..limits::LOCK_LOOKS {
        if flocks(&list()?).any(&is_it) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The inodes of files that are locked by `flock`, with the process that holds each, from lines such as `1:
/// FLOCK  ADVISORY  WRITE 1234 00:19:5678 0 EOF`. A process that waits for a lock has an arrow before the
/// word.
fn flocks(locks: &str) -> impl Iterator<Item = (u64, Option<u32>)> {
    locks.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next().filter(|kind| *kind == "FLOCK")?;
        let pid = words.nth(2)?.parse().ok();
        let inode = words.next()?.rsplit(':').next()?.parse().ok()?;
        Some((inode, pid))
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
        assert!(is_listed(next, |held| held == (99, Some(9))).unwrap());
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
        assert_eq!(flocks(list).collect::<Vec<_>>(), [(5678, Some(1234)), (99, None)]);
    }
}
