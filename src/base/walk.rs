//! Walks of whole trees whose content nobody vouches for: no link is followed, no mount point crossed, and neither depth
//! nor breadth costs more than a little memory.
//!
//! A directory is entered by its descriptor, and left by `..`, which must be the directory that it was entered from:
//! only one descriptor is open at a time, at any depth. What is done with an entry is the caller's.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat};
use rustix::io::Errno;

use crate::base::limits;

/// Flags for every directory: a link in its place is an error.
pub const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);
/// Flags for a handle of any kind of file, which neither reads nor waits.
pub const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a directory in a directory, unless it is a link or the root of another mount (`EXDEV`).
///
/// # Errors
/// It is one of these, or another error of the system.
pub fn enter(at: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let same = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match openat2(at, name, DIRECTORY, Mode::empty(), same) {
        // Linux before 5.6, or a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => enter_same_mount(at, name),
        other => other,
    }
}

fn enter_same_mount(at: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let found = openat(at, name, DIRECTORY, Mode::empty())?;
    // A bind mount of the same file system has the same device, and another number of its mount.
    let is_same = fstat(&found)?.st_dev == fstat(at)?.st_dev && mount_of(&found) == mount_of(at);
    if is_same { Ok(found) } else { Err(Errno::XDEV) }
}

/// The number of the mount that it was opened on (`proc_pid_fdinfo(5)`, since Linux 3.15); `None` without a `/proc`.
fn mount_of(file: &OwnedFd) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
}

/// The work on each entry; an error ends the walk.
pub trait Visit {
    /// Called for each entry that is not a directory.
    ///
    /// # Errors
    /// They end the walk, as with the others.
    fn file(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<()>;
    /// Called for a directory when its name is found: whether it is to be entered. Until then the name is remembered.
    ///
    /// # Errors
    /// They end the walk.
    fn found(&mut self, _at: &OwnedFd, _name: &CStr) -> io::Result<bool> {
        Ok(true)
    }
    /// Called when the name of a directory is no longer remembered.
    fn entered(&mut self, _name: &CStr) {}
    /// Names of directories that are remembered of one directory at a time: it is read again when they were visited. Only
    /// for who removes what is visited; others would find the same names again.
    fn batch(&self) -> usize {
        usize::MAX
    }
    /// Called for a directory before it is entered, so many directories below the first one; whether it was moved to
    /// `top`, where it is found later.
    ///
    /// # Errors
    /// They end the walk.
    fn deep(&mut self, _depth: usize, _top: &OwnedFd, _at: &OwnedFd, _name: &CStr) -> io::Result<bool> {
        Ok(false)
    }
    /// Called when a directory was moved while the walk was in it: whether to go on with what is still in its place.
    fn moved(&mut self) -> bool {
        false
    }
    /// Called for a directory, after its content.
    ///
    /// # Errors
    /// They end the walk.
    fn leaving(&mut self, directory: &OwnedFd) -> io::Result<()>;
    /// Called for a directory after it was left, in its parent.
    ///
    /// # Errors
    /// They end the walk.
    fn left(&mut self, parent: &OwnedFd, name: &CStr) -> io::Result<()>;
    /// Called for the root of another mount.
    ///
    /// # Errors
    /// They end the walk.
    fn mount(&mut self, name: &CStr) -> io::Result<()>;
}

/// A directory that was entered.
struct Frame {
    name: CString,
    parent: (u64, u64),
    /// Directories of the parent that are still to be entered.
    pending: Pending,
}

/// Directories that are to be entered.
#[derive(Default)]
struct Pending {
    names: Vec<CString>,
    /// There may be more of them.
    has_more: bool,
}

fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Walks through a directory.
///
/// # Errors
/// Those of `visit`, and of the system; also when a directory is moved meanwhile, unless `visit` goes on.
pub fn walk(top: OwnedFd, visit: &mut dyn Visit) -> io::Result<()> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut here = top.try_clone()?;
    let mut pending = entries(&here, visit)?;
    loop {
        if let Some(name) = pending.names.pop() {
            visit.entered(&name);
            if visit.deep(frames.len(), &top, &here, &name)? {
                if let Some(first) = frames.first_mut() {
                    first.pending.has_more = true;
                }
                continue;
            }
            match enter(&here, &name) {
                Ok(child) => {
                    let parent = id(&fstat(&here)?);
                    frames.push(Frame { name, parent, pending });
                    here = child;
                    pending = entries(&here, visit)?;
                }
                Err(Errno::XDEV) => visit.mount(&name)?,
                Err(Errno::NOENT) => {}
                // Something else stands in its place.
                Err(Errno::NOTDIR | Errno::LOOP) if visit.moved() => {}
                Err(error) => return Err(error.into()),
            }
            continue;
        }
        if pending.has_more {
            pending = entries(&here, visit)?;
            continue;
        }
        visit.leaving(&here)?;
        let Some(frame) = frames.pop() else { return Ok(()) };
        let up = openat(&here, "..", DIRECTORY, Mode::empty())?;
        if id(&fstat(&up)?) == frame.parent {
            (here, pending) = (up, frame.pending);
            visit.left(&here, &frame.name)?;
        } else if visit.moved() {
            frames.push(frame);
            (here, pending) = back(&top, &mut frames, visit)?;
        } else {
            return Err(io::Error::other("a directory was moved meanwhile"));
        }
    }
}

/// The way was lost: the deepest directory on it that is still in its place, and what is to be entered there. What was to
/// be entered below is given up.
fn back(top: &OwnedFd, frames: &mut Vec<Frame>, visit: &mut dyn Visit) -> io::Result<(OwnedFd, Pending)> {
    let mut here = top.try_clone()?;
    let mut depth = 0;
    // The last one is the directory from which the way is lost.
    for (frame, next) in frames.iter().zip(frames.iter().skip(1)).take(limits::WALK_BACK) {
        match enter(&here, &frame.name) {
            Ok(child) if id(&fstat(&child)?) == next.parent => here = child,
            _ => break,
        }
        depth += 1;
    }
    let given_up = frames.split_off(depth);
    let mut given_up = given_up.into_iter();
    let pending = given_up.next().map(|frame| frame.pending).unwrap_or_default();
    given_up.flat_map(|frame| frame.pending.names).for_each(|name| visit.entered(&name));
    Ok((here, pending))
}

/// Visits entries that are not directories, and returns the directories.
fn entries(at: &OwnedFd, visit: &mut dyn Visit) -> io::Result<Pending> {
    let mut directories = Pending::default();
    for entry in Dir::read_from(at)? {
        if directories.names.len() >= visit.batch() {
            directories.has_more = true;
            break;
        }
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            },
            kind => kind,
        };
        if kind == FileType::Directory {
            if visit.found(at, name)? {
                directories.names.push(name.to_owned());
            }
        } else {
            visit.file(at, name)?;
        }
    }
    Ok(directories)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_old_kernel_does_not_enter_a_bind_mount_of_the_same_file_system() {
        let base = crate::base::testing::scratch("walk-old");
        for dir in ["top/plain", "top/bound", "data"] {
            fs::create_dir_all(base.join(dir)).unwrap();
        }
        rustix::mount::mount_bind(base.join("data"), base.join("top/bound")).unwrap();
        let top = rustix::fs::open(base.join("top"), DIRECTORY, Mode::empty()).unwrap();
        let enter = |name: &CStr| enter_same_mount(&top, name).map(|found| fstat(found).unwrap().st_ino);
        let (plain, bound) = (enter(c"plain"), enter(c"bound"));
        rustix::mount::unmount(base.join("top/bound"), rustix::mount::UnmountFlags::empty()).unwrap();
        assert_eq!(bound, Err(Errno::XDEV));
        use std::os::unix::fs::MetadataExt as _;
        assert_eq!(plain, Ok(fs::metadata(base.join("top/plain")).unwrap().ino()));
        fs::remove_dir_all(base).unwrap();
    }
}
