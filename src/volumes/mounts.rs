//! Mounts in the kernel: only the mount table shows what is mounted, never a manifest. Reading it is pure;
//! mounting and unmounting are I/O.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_move, unmount,
};

use super::walk::{HANDLE, by_descriptor};
use crate::base::table::Set;
use crate::base::walk::mount_of;
use crate::base::{limits, order};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Mount point, as seen by this process.
    pub at: PathBuf,
    /// Type of its file system.
    pub kind: String,
    /// Number of the file system.
    pub device: String,
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// It follows another mount: what is unmounted there is unmounted here.
    pub follows: bool,
    /// The number of the group of mounts among which mounts and unmounts pass in all directions.
    pub group: Option<u32>,
}

/// The lines of a `mountinfo`, in the order in which the mounts were made.
#[must_use]
pub fn parse(table: &[u8]) -> Vec<Mounted> {
    table.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn line(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = |field| PathBuf::from(std::ffi::OsString::from_vec(unescape(field)));
    let text = |field| String::from_utf8_lossy(field).into_owned();
    let (device, root, at) = (text(fields.nth(2)?), path(fields.next()?), path(fields.next()?));
    let (mut follows, mut group) = (false, None);
    for field in fields.by_ref().skip(1).take_while(|field| *field != b"-") {
        follows |= field.starts_with(b"master:");
        group = field
            .strip_prefix(b"shared:")
            .map_or(group, |number| std::str::from_utf8(number).ok()?.parse().ok());
    }
    let kind = fields.next()?;
    Some(Mounted { at, kind: text(kind), device, root, follows, group })
}

/// `\040` is a space.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = if *first == b'\\' { after.get(..3) } else { None };
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

/// The present mounts. The kernel may change the table between two reads of it, so two reads must agree.
///
/// # Errors
/// `/proc` cannot be read.
pub fn table() -> io::Result<Vec<Mounted>> {
    let mut last = std::fs::read("/proc/self/mountinfo")?;
    for _ in 0..limits::MOUNT_READS {
        let next = std::fs::read("/proc/self/mountinfo")?;
        if next == last {
            break;
        }
        last = next;
    }
    Ok(parse(&last))
}

/// All places where the files of a directory can be seen, or of a part of it: a directory of the host may be bound to
/// another place. The directory itself is the first.
#[must_use]
pub fn places(table: &[Mounted], directory: &Path) -> Vec<PathBuf> {
    let mut places = vec![directory.to_owned()];
    let above = table.iter().filter(|it| directory.starts_with(&it.at));
    let Some(own) = above.max_by_key(|it| it.at.components().count()) else { return places };
    let Ok(rest) = directory.strip_prefix(&own.at) else { return places };
    let inside = own.root.join(rest);
    for mounted in table.iter().filter(|it| it.device == own.device) {
        let place = match inside.strip_prefix(&mounted.root) {
            Ok(rest) if rest.as_os_str().is_empty() => mounted.at.clone(),
            Ok(rest) => mounted.at.join(rest),
            Err(_) if mounted.root.starts_with(&inside) => mounted.at.clone(),
            Err(_) => continue,
        };
        if !places.iter().any(|known| place.starts_with(known)) {
            places.push(place);
        }
    }
    places
}

/// Mounts below a directory, the last one first. `directory` must not go through links.
#[must_use]
pub fn below<'t>(table: &'t [Mounted], directory: &Path) -> Vec<&'t Mounted> {
    let is_below = |mounted: &&Mounted| mounted.at != directory && mounted.at.starts_with(directory);
    let mut found: Vec<&Mounted> = table.iter().filter(is_below).collect();
    found.reverse();
    found
}

/// The mount at exactly this place.
#[must_use]
pub fn at<'t>(table: &'t [Mounted], place: &Path) -> Option<&'t Mounted> {
    table.iter().rev().find(|mounted| mounted.at == place)
}

/// Whether two open files are on different mounts: a file and its parent directory, if something is mounted at it.
///
/// # Errors
/// `/proc` cannot be read.
pub fn is_other(one: &OwnedFd, other: &OwnedFd) -> io::Result<bool> {
    let of = |file| mount_of(file).ok_or_else(|| io::Error::other("/proc/self/fdinfo has no mount"));
    Ok(of(one)? != of(other)?)
}

/// Whether something is mounted at this path; `false` if there is nothing. Asks for this one mount, and does not read the
/// table, which pods can make long. A server that does not answer may block it.
///
/// # Errors
/// An error of the system.
pub fn is_at(place: &Path) -> io::Result<bool> {
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else { return Ok(true) };
    let found = open(parent, HANDLE | OFlags::DIRECTORY, Mode::empty())
        .and_then(|parent| Ok((openat(&parent, name, HANDLE, Mode::empty())?, parent)));
    match found {
        Ok((found, parent)) => is_other(&parent, &found),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Mounts a tmpfs of at most `size` bytes; kept out of swap if the kernel supports that.
///
/// # Errors
/// An error of the system.
pub fn tmpfs(target: &OwnedFd, size: Option<u64>) -> io::Result<()> {
    let options = |noswap: bool| -> io::Result<CString> {
        let mut options = Vec::new();
        options.extend(size.map(|size| format!("size={size}")));
        options.extend(noswap.then(|| "noswap".to_owned()));
        Ok(CString::new(options.join(","))?)
    };
    let target = by_descriptor(target);
    let with =
        |options: &CString| mount("tmpfs", target.as_str(), "tmpfs", MountFlags::empty(), options.as_c_str());
    match with(&options(true)?) {
        // Linux before 6.4.
        Err(Errno::INVAL) => Ok(with(&options(false)?)?),
        other => Ok(other?),
    }
}

/// Mounts huge pages of this size (as `2Mi`), at most `size` bytes of them.
///
/// # Errors
/// An error of the system.
pub fn huge_pages(target: &OwnedFd, page: u64, size: Option<u64>) -> io::Result<()> {
    let mut options = format!("pagesize={page}");
    if let Some(size) = size {
        options.push_str(&format!(",size={size}"));
    }
    let options = CString::new(options)?;
    let target = by_descriptor(target);
    Ok(mount("nodev", target.as_str(), "hugetlbfs", MountFlags::empty(), options.as_c_str())?)
}

/// Binds a handle to another path, for tests.
#[cfg(test)]
pub(super) fn bind(what: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    Ok(mount_bind(by_descriptor(what), by_descriptor(target))?)
}

/// The same with the mounts below it.
#[cfg(test)]
pub(super) fn bind_with_all(what: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    Ok(mount_bind_recursive(by_descriptor(what), by_descriptor(target))?)
}

/// Stops mounts and unmounts at a bind mount from propagating to its origin; the other direction still
/// works. Without this, taking down a pod's directory would unmount the host's own file systems.
///
/// # Errors
/// An error of the system.
pub fn make_slave(at: &Path) -> io::Result<()> {
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(mount_change(at.as_os_str().as_bytes(), flags)?)
}

/// The same for what is mounted at or below a place, where a daemon that was killed just after binding has skipped it: it
/// is a peer of a mount that is not below `pods`.
///
/// # Errors
/// An error of the system.
pub fn set_apart(table: &[Mounted], place: &Path, pods: &Path) -> io::Result<()> {
    // The same directories may be seen at other places, too.
    let own = places(table, pods);
    let is_host = |it: &&Mounted| !own.iter().any(|own| it.at.starts_with(own));
    let host: Set<u32> = order::set(table.iter().filter(is_host).filter_map(|it| it.group));
    let is_peer =
        |it: &&Mounted| it.at.starts_with(place) && it.group.is_some_and(|group| host.contains(&group));
    table.iter().filter(is_peer).try_for_each(|it| match make_slave(&it.at) {
        // It is gone, or covered by another one.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    })
}

/// Which mounts of the host pass to a bind after it was made. None ever pass back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// Those below its origin.
    Followed,
    /// None: each would be one more mount for each bind.
    Ignored,
}

impl Later {
    /// For pods of a source, which may be behind others.
    #[must_use]
    pub fn of(is_behind: bool) -> Later {
        if is_behind { Later::Ignored } else { Later::Followed }
    }
}

/// What is bound.
#[derive(Debug, Clone, Copy)]
pub struct Bind<'a> {
    /// A file or a directory of the host.
    pub what: &'a OwnedFd,
    /// Which of the two.
    pub is_directory: bool,
    /// With the mounts below it.
    pub with_all: bool,
    /// Mounts that are made or taken away below it later.
    pub later: Later,
}

impl Bind<'_> {
    /// Binds it to another path, so that neither mounts nor unmounts pass from the bind to the host: without this, taking
    /// down a pod's directory would unmount the host's own file systems. It is made at another place, which no mount
    /// follows, and moved when it is whole: other places where the target is seen, and other namespaces, get the same
    /// mounts as this one, and lose them with it. `clear` takes mounts out of it before. `stage` is a directory of
    /// podkeeper, for one bind at a time.
    ///
    /// # Errors
    /// An error of the system.
    pub fn make(
        &self,
        stage: &Path,
        target: &OwnedFd,
        clear: &dyn Fn(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        clear_stage(stage)?;
        let (directory, file) = (stage.join("directory"), stage.join("file"));
        std::fs::create_dir_all(&directory)?;
        // A root directory that is read-only by now has it.
        if !file.is_file() {
            std::fs::write(&file, "")?;
        }
        mount_bind(stage, stage)?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        let made = mount_change(stage, private).map_err(io::Error::from).and_then(|()| {
            let at = if self.is_directory { &directory } else { &file };
            self.make_at(at, clear)?;
            Ok(mount_move(at, by_descriptor(target))?)
        });
        clear_stage(stage)?;
        made
    }

    fn make_at(&self, at: &Path, clear: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        let what = by_descriptor(self.what);
        if self.with_all {
            mount_bind_recursive(what, at)?
        } else {
            mount_bind(what, at)?
        }
        match self.later {
            Later::Followed => make_slave(at)?,
            Later::Ignored => {
                mount_change(at, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
            }
        }
        clear(at)?;
        if self.later == Later::Ignored {
            // Docker refuses the propagation of mounts from one that is private. It gets them from this bind alone, at
            // which nothing is mounted.
            mount_change(at, MountPropagationFlags::SHARED)?;
        }
        Ok(())
    }
}

/// Takes away what is mounted at the stage: a killed daemon may have left binds there that are peers of the host's mounts,
/// so that their end would be the end of those.
///
/// # Errors
/// An error of the system.
pub fn clear_stage(stage: &Path) -> io::Result<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    match mount_change(stage.as_os_str().as_bytes(), private) {
        Ok(()) => drop_all(stage),
        // Nothing is mounted there, or there is no such directory.
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Unmounts this path, and all mounts below it.
///
/// # Errors
/// A mount is in use, or an error of the system.
pub fn end_all(place: &Path) -> io::Result<()> {
    for mounted in below(&table()?, place) {
        end(&mounted.at)?;
    }
    end(place)
}

/// Unmounts this path; succeeds if there is no mount.
///
/// # Errors
/// The mount is in use, or an error of the system.
pub fn end(at: &Path) -> io::Result<()> {
    match unmount(at.as_os_str().as_bytes(), UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes away this mount and all below it, also while they are in use; succeeds if there is no mount.
///
/// # Errors
/// An error of the system.
pub fn drop_all(at: &Path) -> io::Result<()> {
    match unmount(at.as_os_str().as_bytes(), UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Unmounts a server that does not answer, without waiting for it.
///
/// # Errors
/// An error of the system.
pub fn end_by_force(at: &Path) -> io::Result<()> {
    let flags = UnmountFlags::NOFOLLOW | UnmountFlags::FORCE | UnmountFlags::DETACH;
    match unmount(at.as_os_str().as_bytes(), flags) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read() {
        let text = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            36 35 98:0 /mnt1 /a\\040b/c\\134 rw,noatime master:1 shared:7 - tmpfs tmpfs rw\n\
            broken line\n\
            37 36 98:0 / /a\\040b/c\\134/d rw - nfs4 host:/x rw\n";
        let table = parse(text);
        let told: Vec<String> = table.iter().map(|m| format!("{} {}", m.at.display(), m.kind)).collect();
        let passes: Vec<_> = table.iter().map(|m| (m.follows, m.group)).collect();
        assert_eq!(passes, [(false, None), (true, Some(7)), (false, None)]);
        assert_eq!(told, ["/ ext4", "/a b/c\\ tmpfs", "/a b/c\\/d nfs4"]);
        let table_of = |text: &str| parse(text.as_bytes());
        let bound = table_of(
            "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 /x /var rw - ext4 b rw\n3 1 8:2 /x/lib/docker /data rw - ext4 b rw\n\
             4 1 8:2 / /all rw - ext4 b rw\n5 1 8:2 /x/lib/docker/a/b /b rw - ext4 b rw\n6 2 8:2 /y /y rw - ext4 b rw\n",
        );
        let seen = places(&bound, Path::new("/var/lib/docker"));
        let seen: Vec<&str> = seen.iter().map(|place| place.to_str().unwrap()).collect();
        assert_eq!(seen, ["/var/lib/docker", "/data", "/all/x/lib/docker", "/b"]);
        let found = below(&table, Path::new("/a b"));
        assert_eq!(found.iter().map(|m| m.kind.as_str()).collect::<Vec<_>>(), ["nfs4", "tmpfs"]);
        assert!(below(&table, Path::new("/a")).is_empty(), "whole names count");
        assert_eq!(at(&table, Path::new("/a b/c\\")).map(|m| m.kind.as_str()), Some("tmpfs"));
        assert_eq!(at(&table, Path::new("/a b")), None);
    }

    #[test]
    fn the_real_table_is_read() {
        let table = table().unwrap();
        assert!(table.iter().any(|m| m.at == Path::new("/proc") && m.kind == "proc"), "{table:?}");
    }
}
