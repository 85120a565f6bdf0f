//! Copies files and directories from one place to another, each held by its descriptor. Neither place is trusted: no
//! link is followed, only regular files are opened, and nothing is written outside the given directory.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, fchmod, fchown, fstat, fstatfs, fstatvfs,
    mkdirat, openat, readlinkat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::base::limits;
use crate::base::logging::one_line;
use crate::base::regular;
use crate::base::walk::{DIRECTORY, HANDLE, mount_of};

/// Owner and permissions of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rules {
    /// The copy belongs to the user who copies, and keeps permissions but for the bits of the mask.
    Local { mask: u32 },
    /// The copy belongs to the container's user.
    Container {
        owner: (Uid, Gid),
        /// It keeps its permissions.
        preserves: bool,
    },
}

/// Magic numbers of file systems that store nothing (`statfs(2)`): proc, sysfs, cgroup, cgroup2, devpts.
const OF_THE_KERNEL: [u32; 5] = [0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x1cd1];

/// A copy that is under way.
#[derive(Debug)]
pub(super) struct Copying {
    rules: Rules,
    /// Device and inode of the directories that are being written to, each in the one before it.
    into: Vec<(u64, u64)>,
    entries: u64,
    /// The disk is full: nothing more can be written.
    is_over: bool,
    /// Number of entries that could not be copied.
    pub failures: u64,
    /// The first failures, each with its reason.
    pub told: Vec<String>,
}

impl Copying {
    pub fn new(rules: Rules) -> Copying {
        Copying { rules, into: Vec::new(), entries: 0, is_over: false, failures: 0, told: Vec::new() }
    }

    /// Copies the content of a directory into another directory. `shown` is its name for the user.
    pub fn content(&mut self, from: &OwnedFd, to: &OwnedFd, shown: &Path) {
        let result = self.each(from, to, shown);
        self.note(shown, result);
    }

    /// Copies one file, link or directory to a name in a directory.
    pub fn entry(&mut self, from: &OwnedFd, to: &OwnedFd, name: &CStr, shown: &Path) {
        self.entries = self.entries.saturating_add(1);
        let result = match self.entries > limits::COPY_ENTRIES {
            true => {
                self.is_over = true;
                Err(io::Error::other("too many files"))
            }
            false => self.one(from, to, name, shown),
        };
        self.note(shown, result);
    }

    fn note(&mut self, shown: &Path, result: io::Result<()>) {
        let Err(why) = result else { return };
        let full = [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::MFILE];
        self.is_over |= full.iter().any(|errno| why.raw_os_error() == Some(errno.raw_os_error()));
        self.failures = self.failures.saturating_add(1);
        if self.told.len() < limits::ERRORS_SHOWN {
            self.told.push(format!("{}: {why}", one_line(&shown.to_string_lossy())));
        }
    }

    fn one(&mut self, from: &OwnedFd, to: &OwnedFd, name: &CStr, shown: &Path) -> io::Result<()> {
        let seen = fstat(from)?;
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::RegularFile => self.file(from, &seen, to, name),
            FileType::Directory => self.directory(from, &seen, to, name, shown),
            FileType::Symlink => {
                let target = readlinkat(from, c"", Vec::new())?;
                make_room(to, name)?;
                symlinkat(&target, to, name)?;
                if let Rules::Container { owner: (user, group), .. } = self.rules {
                    chownat(to, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
                }
                Ok(())
            }
            _ => Err(io::Error::other("it is a device, a pipe or a socket")),
        }
    }

    fn directory(
        &mut self,
        from: &OwnedFd,
        seen: &Stat,
        to: &OwnedFd,
        name: &CStr,
        shown: &Path,
    ) -> io::Result<()> {
        let is_new = match mkdirat(to, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(why) => return Err(why.into()),
        };
        let made = openat(to, name, DIRECTORY, Mode::empty()).map_err(|why| match why {
            Errno::NOTDIR | Errno::LOOP => io::Error::other("a file or a link stands where its copy belongs"),
            why => why.into(),
        })?;
        let result = self.each(from, &made, shown);
        // Set last: the permissions may forbid the owner to write.
        if is_new {
            self.dress(&made, seen.st_mode, 0o777)?;
        }
        result
    }

    fn each(&mut self, from: &OwnedFd, to: &OwnedFd, shown: &Path) -> io::Result<()> {
        let here = openat(from, c".", DIRECTORY, Mode::empty())?;
        if !self.into.is_empty() && is_of_the_kernel(&here) {
            return Err(io::Error::other("it is the kernel's, and no file system to copy"));
        }
        if self.into.len() >= limits::COPY_DEPTH {
            return Err(io::Error::other("too many directories in each other"));
        }
        let own = fstat(to)?;
        self.into.push((own.st_dev, own.st_ino));
        let result = self.each_of(&here, to, shown);
        self.into.pop();
        result
    }

    fn each_of(&mut self, here: &OwnedFd, to: &OwnedFd, shown: &Path) -> io::Result<()> {
        for entry in Dir::read_from(here)? {
            if self.is_over {
                return Ok(());
            }
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let path: PathBuf = shown.join(OsStr::from_bytes(name.to_bytes()));
            match openat(here, name, HANDLE, Mode::empty()) {
                // It was removed meanwhile.
                Err(Errno::NOENT) => {}
                Err(why) => self.note(&path, Err(why.into())),
                Ok(found) if self.is_written_to(&found) => {
                    self.note(&path, Err(io::Error::other("it is the directory that is written to")));
                }
                Ok(found) => self.entry(&found, to, name, &path),
            }
        }
        Ok(())
    }

    fn is_written_to(&self, found: &OwnedFd) -> bool {
        fstat(found).is_ok_and(|it| self.into.contains(&(it.st_dev, it.st_ino)))
    }

    fn file(&self, from: &OwnedFd, seen: &Stat, to: &OwnedFd, name: &CStr) -> io::Result<()> {
        let size = u64::try_from(seen.st_size).unwrap_or_default();
        let room = fstatvfs(to)?;
        // A file may claim any size, and a full disk hurts everything else.
        if size > room.f_bavail.saturating_mul(room.f_frsize) {
            return Err(Errno::NOSPC.into());
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let input = File::from(again(from, flags)?);
        let (mut output, is_new) = match make_room(to, name)? {
            None => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                (File::from(openat(to, name, flags, Mode::RUSR | Mode::WUSR)?), true)
            }
            // A file that is a mount point is written in place.
            Some(mounted) => {
                let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOCTTY | OFlags::CLOEXEC;
                (File::from(again(&mounted, flags)?), false)
            }
        };
        // A file that grows would never end; a file of the kernel claims to have no size.
        let most = if size == 0 { limits::COPY_UNSIZED } else { size };
        io::copy(&mut input.take(most), &mut output)?;
        let output = OwnedFd::from(output);
        if is_new { self.dress(&output, seen.st_mode, 0o666) } else { Ok(()) }
    }

    /// Gives a copy its owner and permissions; `plain` are the permissions of a copy that does not keep its own.
    fn dress(&self, copy: &OwnedFd, mode: u32, plain: u32) -> io::Result<()> {
        let mode = match self.rules {
            Rules::Local { mask } => mode & 0o777 & !mask,
            Rules::Container { owner: (user, group), preserves } => {
                fchown(copy, Some(user), Some(group))?;
                if preserves { mode & 0o7777 } else { plain & 0o755 }
            }
        };
        Ok(fchmod(copy, Mode::from_raw_mode(mode))?)
    }
}

/// The umask of this process. No other thread makes files meanwhile.
pub(super) fn mask() -> u32 {
    let before = rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::umask(before);
    before.as_raw_mode()
}

/// Opens the file behind a handle. The handle may be one of a link, which is not followed.
fn again(handle: &OwnedFd, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(format!("/proc/self/fd/{}", handle.as_raw_fd()), flags, Mode::empty())?)
}

/// Removes the entry of a name. A mount point is returned instead: removing it would take the mount away from the
/// container, because the mount is not in this process's own namespace.
fn make_room(at: &OwnedFd, name: &CStr) -> io::Result<Option<OwnedFd>> {
    let found = match openat(at, name, HANDLE, Mode::empty()) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(None),
        Err(why) => return Err(why.into()),
    };
    let kind = FileType::from_raw_mode(fstat(&found)?.st_mode);
    if kind == FileType::Directory {
        return Err(io::Error::other("a directory stands where its copy belongs"));
    }
    if mount_of(&found).is_none() || mount_of(&found) != mount_of(at) {
        return match kind {
            FileType::RegularFile => Ok(Some(found)),
            _ => Err(io::Error::other("something is mounted where its copy belongs")),
        };
    }
    unlinkat(at, name, AtFlags::empty())?;
    Ok(None)
}

fn is_of_the_kernel(directory: &OwnedFd) -> bool {
    fstatfs(directory).is_ok_and(|it| OF_THE_KERNEL.contains(&regular::file_system(&it)))
}
