//! Walks of whole trees with untrusted content: no link is followed, no mount point crossed, and memory is bounded for
//! any depth and breadth.
//!
//! A directory is entered by its descriptor, and left by `..`, which must be the directory that it was entered from:
//! only one descriptor is open at a time, at any depth, plus as many as the caller allows ([`Visit::ahead`]). The
//! caller decides what to do with each entry.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, SeekFrom, Stat, fstat, openat, openat2, seek, statat,
};
use rustix::io::Errno;

use crate::base::limits;
use crate::base::order::Numbers;

/// Flags for every directory: a link in its place is an error.
pub const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);
/// Flags for a handle of any kind of file, which neither reads nor blocks.
pub const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a directory in a directory, unless it is a link or the root of another mount (`EXDEV`).
///
/// # Errors
/// The entry is a link or such a root, or another error of the system.
pub fn enter(at: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let same = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match openat2(at, name, DIRECTORY, Mode::empty(), same) {
        // Linux before 5.6, or a sandbox that forbids the call.
        Err(Errno::NOSYS | Errno::PERM) => enter_same_mount(at, name),
        other => other,
    }
}

fn enter_same_mount(at: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let found = openat(at, name, DIRECTORY, Mode::empty())?;
    // A bind mount of the same file system has the same device, but another mount id.
    let is_same = fstat(&found)?.st_dev == fstat(at)?.st_dev && mount_of(&found) == mount_of(at);
    if is_same { Ok(found) } else { Err(Errno::XDEV) }
}

/// The id of the mount that the file was opened on (`proc_pid_fdinfo(5)`, since Linux 3.15); `None` without a `/proc`.
#[must_use]
pub fn mount_of(file: &OwnedFd) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
}

/// The work on each entry; an error ends the walk.
pub trait Visit {
    /// Called for each entry that is not a directory.
    ///
    /// # Errors
    /// Errors end the walk, as in the other methods, except `ENOENT`, which leads to [`Visit::lost`] or
    /// [`Visit::gone`].
    fn file(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<()>;
    /// Called for a directory when its name is found: returns whether to enter it.
    ///
    /// # Errors
    /// Errors end the walk.
    fn found(&mut self, _at: &OwnedFd, _name: &CStr) -> io::Result<bool> {
        Ok(true)
    }
    /// Number of directory names that are remembered for one directory at a time; when these were visited, the
    /// directory is read again. Only for callers that remove the visited entries; others would find the same names
    /// again.
    fn batch(&self) -> usize {
        usize::MAX
    }
    /// Called before a directory is entered, with its depth below the first one; returns whether it was moved to `top`,
    /// where the walk finds it later.
    ///
    /// # Errors
    /// Errors end the walk.
    fn deep(&mut self, _depth: usize, _top: &OwnedFd, _at: &OwnedFd, _name: &CStr) -> io::Result<bool> {
        Ok(false)
    }
    /// Number of directory descriptors that may be open in addition to the walk's own. With any, a directory is opened
    /// when its name is found, so that it is entered even after a rename, and the rest of its parent is read later.
    /// Otherwise names are remembered.
    fn ahead(&self) -> usize {
        0
    }
    /// Called when a found name has vanished, or now belongs to another file: returns whether to search for the file in
    /// the same directory, by its inode number. Only for callers that count, because renaming must not hide files.
    fn lost(&mut self) -> bool {
        false
    }
    /// Whether to read a directory again for all files that were lost in it.
    fn search(&mut self) -> bool {
        false
    }
    /// Called for each entry that is read during that search.
    ///
    /// # Errors
    /// Errors end the walk.
    fn read(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Called when a lost file is not found: it was removed, or moved to another directory.
    fn gone(&mut self) {}
    /// Called when a directory was moved while the walk was in it: returns whether to go on with the directories that
    /// are still in place.
    fn moved(&mut self) -> bool {
        false
    }
    /// Called for a directory, after its content.
    ///
    /// # Errors
    /// Errors end the walk.
    fn leaving(&mut self, directory: &OwnedFd) -> io::Result<()>;
    /// Called for a directory after it was left, in its parent.
    ///
    /// # Errors
    /// Errors end the walk.
    fn left(&mut self, parent: &OwnedFd, name: &CStr) -> io::Result<()>;
    /// Called for the root of another mount.
    ///
    /// # Errors
    /// Errors end the walk.
    fn mount(&mut self, name: &CStr) -> io::Result<()>;
}

/// A directory that was entered.
struct Frame {
    name: CString,
    parent: (u64, u64),
    /// Entries of the parent that are still to be visited.
    pending: Pending,
}

/// Entries of a directory that are still to be visited.
#[derive(Default)]
struct Pending {
    /// Directories to enter.
    found: Vec<Found>,
    more: More,
    /// Inode numbers of files that had other names when they were visited.
    lost: Numbers,
    search: Option<Search>,
    /// Whether the inode numbers in directory lists are those of the files: on some file systems they differ.
    has_numbers: bool,
}

/// A directory as found in its parent.
struct Found {
    name: CString,
    opened: Option<OwnedFd>,
}

/// A search for lost files in a directory.
#[derive(Default)]
struct Search {
    /// A lost file was visited.
    has_found: bool,
    /// A lost file was found, and was renamed again.
    has_met: bool,
    /// Readings in a row without a visit.
    vain: u32,
}

/// The part of a directory that is still to be read after the found directories were visited.
#[derive(Default, Clone, Copy)]
enum More {
    #[default]
    Nothing,
    /// Read all of it again.
    All,
    /// Read the entries after this position, which is the file system's own value.
    Behind(i64),
}

fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Walks through a directory.
///
/// # Errors
/// Errors of `visit` and of the system; also when a directory is moved during the walk, unless `visit` goes on.
pub fn walk(top: OwnedFd, visit: &mut dyn Visit) -> io::Result<()> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut here = top.try_clone()?;
    let mut reader = Reader { visit, open: 0, lost: 0 };
    let mut pending = Pending::default();
    reader.read(&here, None, &mut pending)?;
    loop {
        if let Some(found) = pending.found.pop() {
            reader.open -= usize::from(found.opened.is_some());
            if reader.visit.deep(frames.len(), &top, &here, &found.name)? {
                if let Some(first) = frames.first_mut() {
                    first.pending.more = More::All;
                }
                continue;
            }
            match found.opened.map_or_else(|| enter(&here, &found.name), Ok) {
                Ok(child) => {
                    let parent = id(&fstat(&here)?);
                    frames.push(Frame { name: found.name, parent, pending });
                    here = child;
                    pending = Pending::default();
                    reader.read(&here, None, &mut pending)?;
                }
                Err(Errno::XDEV) => reader.visit.mount(&found.name)?,
                Err(Errno::NOENT) => reader.visit.gone(),
                // Another file has taken its place.
                Err(Errno::NOTDIR | Errno::LOOP) if reader.visit.moved() => {}
                Err(error) => return Err(error.into()),
            }
            continue;
        }
        match std::mem::take(&mut pending.more) {
            More::Nothing => {}
            More::All => {
                reader.read(&here, None, &mut pending)?;
                continue;
            }
            More::Behind(place) => {
                reader.read(&here, Some(place), &mut pending)?;
                continue;
            }
        }
        reader.visit.leaving(&here)?;
        let Some(frame) = frames.pop() else { return Ok(()) };
        let up = openat(&here, "..", DIRECTORY, Mode::empty())?;
        if id(&fstat(&up)?) == frame.parent {
            (here, pending) = (up, frame.pending);
            reader.visit.left(&here, &frame.name)?;
        } else if reader.visit.moved() {
            frames.push(frame);
            (here, pending) = back(&top, &mut frames, &mut reader)?;
        } else {
            return Err(io::Error::other("a directory was moved meanwhile"));
        }
    }
}

/// Goes back after the path was lost: returns the deepest directory on it that is still in place, and the entries to
/// visit there. Directories below are given up.
fn back(top: &OwnedFd, frames: &mut Vec<Frame>, reader: &mut Reader) -> io::Result<(OwnedFd, Pending)> {
    let mut here = top.try_clone()?;
    let mut depth = 0;
    // The last one is the directory in which the path was lost.
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
    for Frame { pending, .. } in given_up {
        reader.open -= pending.found.iter().filter(|found| found.opened.is_some()).count();
        reader.lost -= pending.lost.len();
    }
    Ok((here, pending))
}

/// Reads directories.
struct Reader<'a> {
    visit: &'a mut dyn Visit,
    /// Directories that are open and not entered yet.
    open: usize,
    /// Number of files to search for, in all directories on the path.
    lost: usize,
}

impl Reader<'_> {
    /// Visits entries that are not directories, and finds the directories. `behind`: starts after this position.
    fn read(&mut self, at: &OwnedFd, behind: Option<i64>, pending: &mut Pending) -> io::Result<()> {
        let own = fstat(at)?;
        let read = Dir::read_from(at)?;
        let mut place = behind.unwrap_or_default();
        if behind.is_some() {
            // Nothing is read yet. `Dir::seek` is for 64 bits alone.
            seek(read.fd()?, SeekFrom::Start(place.cast_unsigned()))?;
        }
        for entry in read {
            if pending.found.len() >= self.visit.batch() {
                pending.more = More::All;
                return Ok(());
            }
            if self.is_full(pending) {
                pending.more = More::Behind(place);
                return Ok(());
            }
            let entry = entry?;
            place = entry.offset();
            let (name, number) = (entry.file_name(), entry.ino());
            if matches!(name.to_bytes(), b"." | b"..") {
                pending.has_numbers |= name == c"." && number == own.st_ino;
                continue;
            }
            if pending.search.is_some() {
                self.visit.read()?;
                if !pending.lost.contains(number) {
                    continue;
                }
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                },
                kind => kind,
            };
            let is_there = if kind == FileType::Directory {
                self.directory((at, &own), name, number, pending)?
            } else {
                self.file(at, name)?
            };
            self.met(is_there, number, pending);
        }
        self.end(pending);
        Ok(())
    }

    /// Whether the open directories have to be entered first.
    fn is_full(&self, pending: &Pending) -> bool {
        let ahead = self.visit.ahead();
        let is_full = self.open >= ahead || pending.found.len() >= limits::WALK_OPEN;
        ahead > 0 && is_full && !pending.found.is_empty()
    }

    /// Notes a directory. Returns whether it is still the listed one.
    fn directory(
        &mut self,
        (at, own): (&OwnedFd, &Stat),
        name: &CStr,
        number: u64,
        pending: &mut Pending,
    ) -> io::Result<bool> {
        if !self.visit.found(at, name)? {
            return Ok(true);
        }
        let opened = if self.visit.ahead() > 0 {
            match enter(at, name) {
                Ok(child) => {
                    let found = fstat(&child)?;
                    // A part of a file system with its own device number has different inode numbers.
                    if pending.has_numbers && found.st_dev == own.st_dev && found.st_ino != number {
                        return Ok(false);
                    }
                    self.open += 1;
                    Some(child)
                }
                Err(Errno::XDEV) => return self.visit.mount(name).map(|()| true),
                // Another file has taken its place.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        } else {
            None
        };
        pending.found.push(Found { name: name.to_owned(), opened });
        Ok(true)
    }

    /// Visits a file. Returns whether it still exists.
    fn file(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<bool> {
        match self.visit.file(at, name) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes whether an entry was visited or has changed since it was listed.
    fn met(&mut self, is_there: bool, number: u64, pending: &mut Pending) {
        match &mut pending.search {
            Some(search) if is_there => {
                search.has_found = true;
                self.lost -= usize::from(pending.lost.remove(number));
            }
            Some(search) => search.has_met = true,
            None if is_there => {}
            None if self.visit.lost() && self.lost < limits::WALK_LOST => {
                self.lost += usize::from(pending.lost.insert(number));
            }
            None => self.visit.gone(),
        }
    }

    /// Handles the end of a directory. It is read again for all lost files, until they are found or known to be gone.
    fn end(&mut self, pending: &mut Pending) {
        let before = pending.search.take();
        if pending.lost.is_empty() {
            return;
        }
        let vain = before.as_ref().map_or(0, |it| if it.has_found { 0 } else { it.vain.saturating_add(1) });
        let may_be_there = before.is_none_or(|it| it.has_found || it.has_met);
        if may_be_there && vain < limits::WALK_VAIN && self.visit.search() {
            pending.search = Some(Search { vain, ..Search::default() });
            pending.more = More::All;
            return;
        }
        self.lost -= pending.lost.len();
        pending.lost.iter().for_each(|_| self.visit.gone());
        pending.lost = Numbers::default();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    #[ignore = "needs root: cargo test --lib -- --ignored"]
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
