//! Walks of a volume's tree, to remove it or to give it to a group (`base::walk` is the walk itself).

use std::ffi::{CStr, CString};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, IFlags, Mode, OFlags, Stat, chmod, chownat, fchmod, fstat, ioctl_getflags,
    ioctl_setflags, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::Kept;
use crate::base::limits;
pub(super) use crate::base::walk::{DIRECTORY, HANDLE};
use crate::base::walk::{Visit, enter, walk};

/// Removes what it visits. A pod may have created very many directories, beside or inside one another: only few names
/// are remembered at a time, and deep directories are moved up.
struct Remover<'a> {
    /// The prefix of the new names of moved directories, which cannot be predicted.
    unique: u64,
    /// Number of moved directories.
    moved: u64,
    /// Called before each file or directory is removed; the walk ends when it returns false.
    goes_on: &'a mut dyn FnMut() -> bool,
    is_stopped: bool,
    /// Files are made empty first: a mounted overlay may keep what is removed below it.
    shortens: bool,
}

impl Remover<'_> {
    fn new(goes_on: &mut dyn FnMut() -> bool) -> Remover<'_> {
        let unique = RandomState::new().build_hasher().finish();
        Remover { unique, moved: 0, goes_on, is_stopped: false, shortens: false }
    }

    fn step(&mut self) -> io::Result<()> {
        self.is_stopped = !(self.goes_on)();
        if self.is_stopped { Err(Errno::CANCELED.into()) } else { Ok(()) }
    }
}

impl Visit for Remover<'_> {
    fn batch(&self) -> usize {
        limits::WALK_BATCH
    }
    fn deep(&mut self, depth: usize, top: &OwnedFd, at: &OwnedFd, name: &CStr) -> io::Result<bool> {
        if depth < limits::WALK_DEPTH {
            return Ok(false);
        }
        self.moved = self.moved.saturating_add(1);
        let to = format!(".podkeeper-removed-{:016x}-{}", self.unique, self.moved);
        let move_up = || renameat(at, name, top, to.as_str());
        let moved = match move_up() {
            Err(Errno::PERM) if let_change(at, name) | let_change(top, c".") => move_up(),
            other => other,
        };
        match moved {
            Ok(()) => Ok(true),
            // It is gone, or a mount, which is reported when it is entered; or the disk has no block left for the name,
            // and what is below it is removed where it is.
            Err(Errno::NOENT | Errno::BUSY | Errno::PERM | Errno::NOSPC | Errno::DQUOT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
    fn file(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<()> {
        self.step()?;
        if self.shortens {
            // Without it the file is removed all the same.
            _ = shorten(at, name, Kept::End(0));
        }
        unlink(at, name, AtFlags::empty())
    }
    fn leaving(&mut self, _: &OwnedFd) -> io::Result<()> {
        self.step()
    }
    fn left(&mut self, parent: &OwnedFd, name: &CStr) -> io::Result<()> {
        unlink(parent, name, AtFlags::REMOVEDIR)
    }
    fn mount(&mut self, name: &CStr) -> io::Result<()> {
        Err(io::Error::other(format!("something is mounted at {}", name.to_string_lossy())))
    }
}

/// Removes an entry, also one that a privileged container has made immutable, or in a directory that it has.
fn unlink(at: &OwnedFd, name: &CStr, flags: AtFlags) -> io::Result<()> {
    match unlinkat(at, name, flags) {
        Err(Errno::PERM) if let_change(at, name) => gone(unlinkat(at, name, flags)),
        other => gone(other),
    }
}

/// Makes a regular file that has this name alone shorter, and frees what is allocated behind its end.
///
/// # Errors
/// An error of the system.
pub(super) fn shorten(at: &OwnedFd, name: &CStr, kept: Kept) -> io::Result<()> {
    let stat = statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        || stat.st_nlink > 1
        || stat.st_blocks == 0
    {
        return Ok(());
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = || openat(at, name, flags, Mode::empty());
    let file = match open() {
        Err(Errno::PERM) if let_change(at, name) => open(),
        other => other,
    };
    let file = std::fs::File::from(file?);
    let mut tail = vec![0; usize::try_from(kept.most()).unwrap_or(0)];
    let count = file.read_at(&mut tail, file.metadata()?.len().saturating_sub(kept.most()))?;
    let tail = tail.get(..count).unwrap_or_default();
    let tail = match kept {
        Kept::End(_) => tail,
        Kept::Lines(_) => tail
            .split_inclusive(|byte| *byte == b'\n')
            .next()
            .map_or(tail, |first| tail.get(first.len()..).unwrap_or_default()),
    };
    // At the beginning of a sparse file there may be no room for it. A kill here leaves the same end.
    let length = file.write_all_at(tail, 0).map_or(0, |()| tail.len());
    let length = u64::try_from(length).unwrap_or(0);
    file.set_len(length.saturating_add(1))?;
    file.set_len(length)
}

/// Takes away the attributes that forbid the removal of an entry; returns whether there were any.
fn let_change(at: &OwnedFd, name: &CStr) -> bool {
    let forbids = IFlags::IMMUTABLE | IFlags::APPEND;
    let change = |found: &OwnedFd| {
        let flags = ioctl_getflags(found)?;
        let is_forbidden = flags.intersects(forbids);
        if is_forbidden {
            ioctl_setflags(found, flags.difference(forbids))?;
        }
        Ok::<bool, Errno>(is_forbidden)
    };
    let is_plain = |found: &Stat| {
        matches!(FileType::from_raw_mode(found.st_mode), FileType::RegularFile | FileType::Directory)
    };
    // Opening a device may have an effect.
    let entry = statat(at, name, AtFlags::SYMLINK_NOFOLLOW).ok().filter(is_plain).and_then(|_| {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(at, name, flags, Mode::empty()).ok()
    });
    let directory = openat(at, c".", DIRECTORY, Mode::empty()).ok();
    let found = [entry, directory];
    found.iter().flatten().filter(|found| change(found).unwrap_or(false)).count() > 0
}

/// An entry that does not exist counts as removed.
pub(super) fn gone(result: Result<(), Errno>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes any entry of this name, with all its content.
///
/// # Errors
/// It has a mount in it, or an error of the system. Entries that were removed before the error are gone.
pub(super) fn remove(parent: &OwnedFd, name: &str) -> io::Result<()> {
    remove_counted(parent, name, &mut || {})
}

/// Like [`remove`]; `removes` is called before each file or directory is removed.
///
/// # Errors
/// As for [`remove`].
pub(super) fn remove_counted(parent: &OwnedFd, name: &str, removes: &mut dyn FnMut()) -> io::Result<()> {
    let mut goes_on = || {
        removes();
        true
    };
    match unlinkat(parent, name, AtFlags::empty()) {
        // `unlink`'s errors for a directory: the first is Linux's, the second the standard's.
        Err(Errno::ISDIR | Errno::PERM) => {}
        other => return gone(other),
    }
    let name = CString::new(name)?;
    match enter(parent, &name) {
        Ok(top) => walk(top, &mut Remover::new(&mut goes_on))?,
        Err(Errno::XDEV) => return Remover::new(&mut goes_on).mount(&name),
        other => return gone(other.map(drop)),
    }
    Remover::new(&mut goes_on).left(parent, &name)
}

/// Removes everything in a directory while `goes_on` returns true; returns whether all is removed.
///
/// # Errors
/// As for [`remove`].
pub(super) fn empty(top: OwnedFd, goes_on: &mut dyn FnMut() -> bool) -> io::Result<bool> {
    let mut remover = Remover { shortens: true, ..Remover::new(goes_on) };
    match walk(top, &mut remover) {
        Err(_) if remover.is_stopped => Ok(false),
        result => result.map(|()| true),
    }
}

/// New group of a volume (upstream `pkg/volume/volume_linux.go`).
pub(super) struct Ownership<'a> {
    /// `fsGroup`.
    pub group: u32,
    /// Whether no container may write to it.
    pub read_only: bool,
    /// Whether to skip a volume whose root has the right group (`OnRootMismatch`).
    pub only_on_mismatch: bool,
    /// Called when the walk takes long, with the number of files so far.
    pub slow: &'a mut dyn FnMut(u64),
}

impl Ownership<'_> {
    fn bits(&self, is_directory: bool) -> u32 {
        match (self.read_only, is_directory) {
            (false, false) => 0o660,
            (false, true) => 0o2770,
            (true, false) => 0o440,
            (true, true) => 0o2550,
        }
    }
}

/// Gives a volume to a group: children first, so that an interrupted walk leaves its root unchanged.
///
/// # Errors
/// An error of the system, or other programs create and change files in it faster than the walk
/// ([`limits::OWNERSHIP_CHANGED`]). Changes until then stay.
pub(super) fn own(top: OwnedFd, ownership: Ownership<'_>) -> io::Result<()> {
    own_within(top, ownership, limits::OWNERSHIP_SLOW, limits::OWNERSHIP_CHANGED)
}

fn own_within(top: OwnedFd, ownership: Ownership<'_>, slow: Duration, most: u64) -> io::Result<()> {
    if ownership.only_on_mismatch {
        let stat = fstat(&top)?;
        let bits = ownership.bits(true);
        if stat.st_gid == ownership.group && stat.st_mode & bits == bits {
            return Ok(());
        }
    }
    let changes = Changes { since: time_of(&top)?, count: 0, most };
    let mut owner = Owner { ownership, count: 0, begun: Instant::now(), next: slow, changes, names: 0 };
    walk(top, &mut owner)
}

/// The time on this directory's file system: files' change times use that clock. `None` on a read-only
/// file system; if only the time is unknown, every file counts as changed.
fn time_of(directory: &OwnedFd) -> io::Result<Option<(i64, i64)>> {
    let mode = Mode::from_raw_mode(fstat(directory)?.st_mode & 0o7777);
    match fchmod(directory, mode) {
        Err(Errno::ROFS) => Ok(None),
        Err(_) => Ok(Some((i64::MIN, 0))),
        Ok(()) => Ok(Some(changed(&fstat(directory)?))),
    }
}

/// Time of the last change of an inode: seconds and nanoseconds.
#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_fallible_conversions,
    reason = "their types differ by architecture"
)]
fn changed(stat: &Stat) -> (i64, i64) {
    (i64::try_from(stat.st_ctime).unwrap_or(i64::MAX), i64::try_from(stat.st_ctime_nsec).unwrap_or(i64::MAX))
}

/// Counts files that were created or changed since a walk began; other programs could create them without end.
struct Changes {
    since: Option<(i64, i64)>,
    count: u64,
    most: u64,
}

impl Changes {
    fn see(&mut self, stat: &Stat) -> io::Result<()> {
        if self.since.is_some_and(|since| changed(stat) >= since) {
            self.count = self.count.saturating_add(1);
        }
        if self.count > self.most {
            return Err(io::Error::other(format!(
                "more than {} files were made or changed in it meanwhile: something writes to it all the time",
                self.most
            )));
        }
        Ok(())
    }
}

/// Gives one directory to a group, without its content.
///
/// # Errors
/// An error of the system.
pub(super) fn own_one(directory: &OwnedFd, group: u32, read_only: bool) -> io::Result<()> {
    let ownership = Ownership { group, read_only, only_on_mismatch: false, slow: &mut |_| {} };
    let changes = Changes { since: None, count: 0, most: 0 };
    let mut owner =
        Owner { ownership, count: 0, begun: Instant::now(), next: Duration::MAX, changes, names: 0 };
    owner.give(directory)
}

struct Owner<'a> {
    ownership: Ownership<'a>,
    count: u64,
    begun: Instant,
    /// Elapsed time of the next `slow` message.
    next: Duration,
    changes: Changes,
    /// Bytes of the names of directories that were found and not left yet.
    names: usize,
}

impl Owner<'_> {
    fn give(&mut self, found: &OwnedFd) -> io::Result<()> {
        self.count = self.count.saturating_add(1);
        if self.begun.elapsed() >= self.next {
            self.next = self.begun.elapsed().saturating_add(limits::OWNERSHIP_SLOW_AGAIN);
            (self.ownership.slow)(self.count);
        }
        let stat = fstat(found)?;
        self.changes.see(&stat)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let bits = self.ownership.bits(kind == FileType::Directory);
        let has_group = stat.st_gid == self.ownership.group;
        if !has_group {
            let group = Some(Gid::from_raw(self.ownership.group));
            chownat(found, c"", None, group, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        // A link has no mode of its own. The mode comes after the group, whose change clears bits.
        if kind != FileType::Symlink && !(has_group && stat.st_mode & bits == bits) {
            let mode = (stat.st_mode & 0o7777) | bits;
            chmod(by_descriptor(found), Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }
}

/// The path of a descriptor, which also works for handles.
pub(super) fn by_descriptor(found: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", found.as_raw_fd())
}

impl Visit for Owner<'_> {
    fn found(&mut self, _: &OwnedFd, name: &CStr) -> io::Result<bool> {
        self.names = self.names.saturating_add(limits::WALK_NAME).saturating_add(name.count_bytes());
        if self.names > limits::WALK_NAMES {
            return Err(io::Error::other("it has too many directories beside or within one another"));
        }
        Ok(true)
    }
    fn file(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<()> {
        match openat(at, name, HANDLE, Mode::empty()) {
            Ok(found) => self.give(&found),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
    fn leaving(&mut self, directory: &OwnedFd) -> io::Result<()> {
        self.give(directory)
    }
    fn left(&mut self, _: &OwnedFd, name: &CStr) -> io::Result<()> {
        self.names = self.names.saturating_sub(limits::WALK_NAME.saturating_add(name.count_bytes()));
        Ok(())
    }
    /// Leaves another mount as it is.
    fn mount(&mut self, _: &CStr) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a path below a directory, part by part, without following a link; `None` when a part does not exist.
///
/// # Errors
/// A part is a link or not a directory, or an error of the system.
pub(super) fn open_below(at: BorrowedFd<'_>, parts: &[&str]) -> io::Result<Option<OwnedFd>> {
    let mut here = at.try_clone_to_owned()?;
    for part in parts {
        here = match openat(&here, *part, DIRECTORY, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Some(here))
}

/// Creates a path below a directory, part by part, without following a link; new directories get `mode`.
///
/// # Errors
/// A part is a link or not a directory, or an error of the system.
pub(super) fn make_below(at: BorrowedFd<'_>, parts: &[&str], mode: u32) -> io::Result<OwnedFd> {
    let mut here = at.try_clone_to_owned()?;
    for part in parts {
        let made = match rustix::fs::mkdirat(&here, *part, Mode::from_raw_mode(mode)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        here = openat(&here, *part, DIRECTORY, Mode::empty())?;
        if made {
            // Independent of the umask.
            rustix::fs::fchmod(&here, Mode::from_raw_mode(mode))?;
        }
    }
    Ok(here)
}

/// Names in a directory. Names that are not UTF-8 are not podkeeper's, and are skipped.
pub(super) fn names(at: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(at)? {
        if let Ok(name) = entry?.file_name().to_str()
            && !matches!(name, "." | "..")
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
