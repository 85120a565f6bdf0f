//! File systems as programs without privileges see them.

use std::path::Path;

/// How much of a file system is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Bytes in all.
    pub capacity: u64,
    /// Bytes that can still be written.
    pub available: u64,
    /// Inodes in all; 0 where there is no such bound (btrfs).
    pub inodes: u64,
    /// Inodes that can still be made.
    pub inodes_free: u64,
    /// Which one it is.
    pub device: u64,
}

impl FileSystem {
    /// The one that a directory is on. `None` when it cannot be told.
    #[must_use]
    pub fn of(directory: &Path) -> Option<FileSystem> {
        use std::os::unix::fs::MetadataExt as _;
        let device = std::fs::metadata(directory).ok()?.dev();
        let found = rustix::fs::statvfs(directory).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(FileSystem {
            capacity: bytes(found.f_blocks),
            available: bytes(found.f_bavail),
            inodes: found.f_files,
            inodes_free: found.f_favail,
            device,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems() {
        let found = FileSystem::of(Path::new("/")).unwrap();
        assert!(found.capacity >= found.available && found.capacity > 0, "{found:?}");
        assert!(found.inodes >= found.inodes_free, "{found:?}");
        let proc = FileSystem::of(Path::new("/proc")).unwrap();
        assert_ne!(proc.device, found.device);
        assert_eq!(FileSystem::of(Path::new("/nonexistent")), None);
    }
}
