//! Who holds the lock of a daemon's root directory or run directory, as the kernel tells it. Looking never gets in the
//! way of a daemon that starts.
//!
//! Never here: taking a lock.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::base::{limits, regular};

/// Name of the lock file in the root directory and in the run directory.
pub const LOCK: &str = "lock";

/// The process that runs on this root or run directory, when it can be known for sure: it wrote its id
/// into the lock, and the kernel says that this process holds it.
pub fn holder(dir: &Path) -> Option<u32> {
    let inode = fs::metadata(dir.join(LOCK)).ok()?.ino();
    let pid = regular::read_text(&dir.join(LOCK), limits::LOCK_BYTES).ok()?.trim().parse().ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    flocks(&locks).any(|held| held == (inode, Some(pid))).then_some(pid)
}

/// Whether a daemon runs on this root or run directory. Read from the kernel's list of locks, so that looking
/// never gets in the way of a daemon that starts; without that list, one runs where there is a lock file.
pub fn is_alive(dir: &Path) -> bool {
    let Ok(meta) = fs::metadata(dir.join(LOCK)) else { return false };
    let Ok(locks) = fs::read_to_string("/proc/locks") else { return true };
    flocks(&locks).any(|(inode, _)| inode == meta.ino())
}

/// The inodes of files that are locked by `flock`, and which process holds each: of lines such as
/// `1: FLOCK  ADVISORY  WRITE 1234 00:19:5678 0 EOF`. One that waits for a lock has an arrow before the word.
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
