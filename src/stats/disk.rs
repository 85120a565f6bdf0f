//! File systems as unprivileged programs see them.

use std::path::Path;

use crate::base::regular;

/// Size and free space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Total bytes.
    pub capacity: u64,
    /// Bytes in use, as `df` shows them.
    pub used: u64,
    /// Bytes that can still be written, without the space reserved for root.
    pub available: u64,
    /// Total inodes; 0 if there is no such bound (btrfs).
    pub inodes: u64,
    /// Inodes that can still be created.
    pub inodes_free: u64,
    /// Device number.
    pub device: u64,
    /// How it shares its space with other file systems.
    pub sharing: Sharing,
}

/// How file systems of a kind that may have several devices share their space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// One device, one space.
    None,
    /// btrfs: each subvolume has its own device number, but `statfs` reports the figures of the whole file system
    /// (Linux, `fs/btrfs/super.c`, `btrfs_statfs`).
    Whole,
    /// ZFS: `statfs` of a dataset reports as available what the pool, or the dataset's own quota, has left (OpenZFS,
    /// `module/os/linux/zfs/zfs_vfsops.c`, `zfs_statvfs`).
    Available,
}

/// `BTRFS_SUPER_MAGIC` of `linux/magic.h`.
const BTRFS: u32 = 0x9123_683e;
/// `ZFS_SUPER_MAGIC` of OpenZFS, `include/sys/zfs_vfsops_os.h`.
const ZFS: u32 = 0x2fc1_2fc1;

impl FileSystem {
    /// The file system of a directory. `None` when it cannot be read.
    #[must_use]
    pub fn of(directory: &Path) -> Option<FileSystem> {
        use std::os::unix::fs::MetadataExt as _;
        let device = std::fs::metadata(directory).ok()?.dev();
        let found = rustix::fs::statvfs(directory).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(FileSystem {
            capacity: bytes(found.f_blocks),
            used: bytes(found.f_blocks.saturating_sub(found.f_bfree)),
            available: bytes(found.f_bavail),
            inodes: found.f_files,
            inodes_free: found.f_favail,
            device,
            sharing: match kind(directory) {
                Some(BTRFS) => Sharing::Whole,
                Some(ZFS) => Sharing::Available,
                _ => Sharing::None,
            },
        })
    }

    /// Whether writing to one of them uses space of the other.
    #[must_use]
    pub fn shares_space_with(&self, other: &FileSystem) -> bool {
        let pair = |sharing| (self.sharing, other.sharing) == (sharing, sharing);
        // Another process may write between the two looks.
        let is_near = |a: u64, b: u64| a.abs_diff(b) <= self.capacity.max(other.capacity) / 1000;
        self.device == other.device
            || pair(Sharing::Whole) && self.capacity == other.capacity
            || pair(Sharing::Available) && is_near(self.available, other.available)
    }
}

fn kind(directory: &Path) -> Option<u32> {
    rustix::fs::statfs(directory).ok().map(|it| regular::file_system(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two subvolumes, or two datasets, have two device numbers and one space.
    #[test]
    fn who_shares_space() {
        let of = |device, sharing, capacity, available| FileSystem {
            used: 0,
            capacity,
            available,
            inodes: 0,
            inodes_free: 0,
            device,
            sharing,
        };
        let check = |a: FileSystem, b: FileSystem, shares: bool| {
            assert_eq!((a.shares_space_with(&b), b.shares_space_with(&a)), (shares, shares), "{a:?} {b:?}");
        };
        check(of(1, Sharing::None, 9000, 5), of(1, Sharing::None, 9000, 5), true);
        check(of(1, Sharing::None, 9000, 5), of(2, Sharing::None, 9000, 5), false);
        check(of(1, Sharing::Whole, 9000, 5), of(2, Sharing::Whole, 9000, 7), true);
        check(of(1, Sharing::Whole, 9000, 5), of(2, Sharing::Whole, 9001, 5), false);
        check(of(1, Sharing::Whole, 9000, 5), of(2, Sharing::None, 9000, 5), false);
        // A dataset's size is its used space plus the available space.
        check(of(1, Sharing::Available, 9000, 5000), of(2, Sharing::Available, 6000, 5009), true);
        check(of(1, Sharing::Available, 9000, 5000), of(2, Sharing::Available, 9000, 4000), false);
    }

    #[test]
    fn file_systems() {
        let found = FileSystem::of(Path::new("/")).unwrap();
        assert!(found.capacity >= found.available && found.capacity > 0, "{found:?}");
        assert!(found.used > 0 && found.used <= found.capacity - found.available, "{found:?}");
        assert!(found.inodes >= found.inodes_free, "{found:?}");
        let proc = FileSystem::of(Path::new("/proc")).unwrap();
        assert_ne!(proc.device, found.device);
        assert_eq!(FileSystem::of(Path::new("/nonexistent")), None);
    }
}
