//! The file system as the scanner sees it: a few questions, so that tests can answer with faults.
//!
//! Never here: the meaning of a file. A file is opened only after it is known to be regular: opening a fifo may
//! wait for ever, and opening a device may have effects.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::base::clock::Now;
use crate::base::concealed::Concealed;
use crate::base::limits;
use crate::base::regular;

/// Identifies one state of a file without reading it. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Device and inode number.
    pub file: (u64, u64),
    /// Bytes.
    pub size: u64,
    /// Last change of the content (any user may set it).
    pub modified: i128,
    /// Last change of the inode (the kernel alone sets it).
    pub changed: i128,
}

impl Stamp {
    /// Whether the file was not written for [`limits::SCAN_QUIET`]. A file from the future is never quiet.
    #[must_use]
    pub fn is_quiet(&self, now: Now) -> bool {
        let limit = i128::try_from(limits::SCAN_QUIET.as_nanos()).unwrap_or(i128::MAX);
        now.wall.as_nanosecond().saturating_sub(self.modified.max(self.changed)) >= limit
    }
}

/// State of a manifest and of its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    pub manifest: Stamp,
    /// State of the signature, if one is required and exists.
    pub signature: Option<Stamp>,
}

impl Stamps {
    /// Whether neither was written recently; see [`Stamp::is_quiet`].
    #[must_use]
    pub fn is_quiet(&self, now: Now) -> bool {
        self.manifest.is_quiet(now) && self.signature.is_none_or(|s| s.is_quiet(now))
    }
}

/// The kind of a path's target, links followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A regular file.
    File(Stamp),
    /// A directory, and the number of its device.
    Directory(u64),
    /// A socket, a fifo, a device.
    Special,
}

/// The content of a file, read once.
#[derive(Debug, Clone)]
pub struct Reading {
    /// At most one byte more than was asked for.
    pub content: Concealed<Vec<u8>>,
    /// Its state; `None` when it changed while it was read.
    pub stamp: Option<Stamp>,
}

/// Questions to the file system.
pub trait Disk: Send {
    /// The kind of a path's target. Follows links.
    fn find(&self, path: &Path) -> io::Result<Found>;
    /// Whether the path itself is a symbolic link, even to nothing.
    fn is_link(&self, path: &Path) -> bool;
    /// Whether the kernel reports every change below this path: neither another machine nor a program behind the
    /// kernel's back changes its file system.
    fn is_own(&self, _path: &Path) -> bool {
        false
    }
    /// Calls back with the names in a directory, in any order. An error half-way is an error.
    fn names(&self, directory: &Path, each: &mut dyn FnMut(&OsStr)) -> io::Result<()>;
    /// Reads a regular file, at most `limit + 1` bytes.
    fn read(&self, path: &Path, limit: usize) -> io::Result<Reading>;
}

/// Types of file systems that only this machine's kernel changes (`statfs(2)`): ext, xfs, btrfs, f2fs, tmpfs, ramfs, FAT,
/// exFAT, squashfs, erofs, ubifs, jffs2, zfs, bcachefs, overlay.
const OWN: [u32; 15] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x0102_1994,
    0x8584_58f6,
    0x4d44,
    0x2011_bab0,
    0x7371_7368,
    0xe0f5_e1e2,
    0x2405_1905,
    0x72b6,
    0x2fc1_2fc1,
    0xca45_1a4e,
    0x794c_7630,
];

/// The machine's own disk.
#[derive(Debug, Clone, Copy)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn find(&self, path: &Path) -> io::Result<Found> {
        fs::metadata(path).map(|m| found(&m))
    }

    fn is_link(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink())
    }

    fn is_own(&self, path: &Path) -> bool {
        rustix::fs::statfs(path).is_ok_and(|found| OWN.contains(&regular::file_system(&found)))
    }

    fn names(&self, directory: &Path, each: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            each(&entry?.file_name());
        }
        Ok(())
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<Reading> {
        let file = regular::open(path)?;
        let Found::File(before) = found(&file.metadata()?) else {
            return Err(io::Error::other("is no longer a regular file"));
        };
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let mut content = Vec::with_capacity(usize::try_from(before.size.min(most)).unwrap_or(limit));
        (&file).take(most).read_to_end(&mut content)?;
        let after = found(&file.metadata()?);
        Ok(Reading { content: Concealed(content), stamp: (after == Found::File(before)).then_some(before) })
    }
}

fn found(meta: &Metadata) -> Found {
    let nanos = |s: i64, ns: i64| i128::from(s).saturating_mul(1_000_000_000).saturating_add(ns.into());
    if meta.is_dir() {
        Found::Directory(meta.dev())
    } else if meta.is_file() {
        Found::File(Stamp {
            file: (meta.dev(), meta.ino()),
            size: meta.size(),
            modified: nanos(meta.mtime(), meta.mtime_nsec()),
            changed: nanos(meta.ctime(), meta.ctime_nsec()),
        })
    } else {
        Found::Special
    }
}
