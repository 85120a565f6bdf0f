//! What the node can give to pods, as plain numbers.

use std::path::Path;

use crate::sys;

/// Resources for all pods together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocatable {
    /// Thousandths of a CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes of the file system that holds the root directory; 0 when unknown.
    pub ephemeral_storage: i64,
}

/// All that the node has. `root_dir`: on the file system that counts.
#[must_use]
pub fn capacity(root_dir: &Path) -> Allocatable {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let disk = rustix::fs::statvfs(root_dir).map_or(0, |fs| fs.f_blocks.saturating_mul(fs.f_frsize));
    Allocatable {
        milli_cpu: i64::try_from(cpus).unwrap_or(i64::MAX).saturating_mul(1000),
        memory: sys::total_memory(),
        ephemeral_storage: i64::try_from(disk).unwrap_or(i64::MAX),
    }
}
