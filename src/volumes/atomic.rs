//! Files that change together (upstream `pkg/volume/util/atomic_writer.go`): each version is in a directory
//! of its own, `..data` links to the version in force, and every visible name is a link through it.
//! Replacing that one link is the change: a reader sees the old files or the new ones, even if this process
//! dies.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, mkdirat, openat, readlinkat, renameat,
    statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::payload::{Payload, PayloadFile};
use super::walk::{self, DIRECTORY};
use crate::base::clock::Timestamp;
use crate::base::limits;
use crate::base::order;
use crate::base::table::Set;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

/// Makes a directory contain exactly these files, besides entries of other programs. Returns whether
/// anything changed.
///
/// `group` is the pod's fsGroup. `now` only makes a name.
///
/// # Errors
/// The disk is full, or another error of the system; then all old files stay in force.
pub(super) fn write(
    dir: &OwnedFd,
    files: &Payload<'_>,
    group: Option<u32>,
    now: Timestamp,
) -> io::Result<bool> {
    let old = current(dir)?;
    let old_names = match &old {
        Some(name) => match walk::open_below(dir.as_fd(), &[name])? {
            Some(version) => Some((same(&version, files, group)?, tops(walk::names(&version)?))),
            None => None,
        },
        None => None,
    };
    let new_names = tops(files.keys().filter_map(|path| path.split('/').next()).map(str::to_owned));
    if let Some((true, _)) = old_names {
        link(dir, &new_names)?;
        return Ok(false);
    }
    let (name, version) = fresh(dir, now)?;
    let made = fill(&version, files, group).and_then(|()| {
        own_directory(&version, group)?;
        walk::gone(unlinkat(dir, NEW_DATA, AtFlags::empty()))?;
        symlinkat(name.as_str(), dir, NEW_DATA)?;
        Ok(renameat(dir, NEW_DATA, dir, DATA)?)
    });
    if let Err(error) = made {
        _ = walk::remove(dir, &name);
        return Err(error);
    }
    link(dir, &new_names)?;
    let gone = old_names.map(|(_, names)| names).unwrap_or_default();
    for name in gone.difference(&new_names) {
        if is_link(dir, name)? {
            walk::gone(unlinkat(dir, name.as_str(), AtFlags::empty()))?;
        }
    }
    // The previous version, and incomplete versions of a killed daemon.
    for other in walk::names(dir)?.iter().filter(|other| is_version(other) && **other != name) {
        walk::remove(dir, other)?;
    }
    Ok(true)
}

/// Whether a version is in force.
///
/// # Errors
/// An error of the system.
pub(super) fn is_written(dir: &OwnedFd) -> io::Result<bool> {
    Ok(match current(dir)? {
        Some(name) => walk::open_below(dir.as_fd(), &[&name])?.is_some(),
        None => false,
    })
}

/// The version in force.
fn current(dir: &OwnedFd) -> io::Result<Option<String>> {
    match readlinkat(dir, DATA, Vec::new()) {
        Ok(target) => Ok(target.into_string().ok().filter(|name| is_version(name))),
        Err(Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// `..2026_01_02_03_04_05.123456789`.
fn is_version(name: &str) -> bool {
    name.strip_prefix("..").is_some_and(|rest| {
        rest.len() >= 19 && rest.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'.'))
    })
}

fn tops(names: impl IntoIterator<Item = String>) -> Set<String> {
    order::set(names)
}

fn is_link(dir: &OwnedFd, name: &str) -> io::Result<bool> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes the visible links that are missing or have another target.
fn link(dir: &OwnedFd, names: &Set<String>) -> io::Result<()> {
    for name in names {
        let target = format!("{DATA}/{name}");
        match readlinkat(dir, name.as_str(), Vec::new()) {
            Ok(found) if found.to_bytes() == target.as_bytes() => continue,
            // A directory that was made for a mount inside this volume stays.
            Err(Errno::INVAL) if is_directory(dir, name)? => continue,
            Ok(_) | Err(Errno::INVAL) => unlinkat(dir, name.as_str(), AtFlags::empty())?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        symlinkat(target, dir, name.as_str())?;
    }
    Ok(())
}

fn is_directory(dir: &OwnedFd, name: &str) -> io::Result<bool> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// A new directory, named after the time, which need not be correct.
fn fresh(dir: &OwnedFd, now: Timestamp) -> io::Result<(String, OwnedFd)> {
    let text = now.to_string();
    let digits: String = text.chars().take(19).map(|c| if c.is_ascii_digit() { c } else { '_' }).collect();
    let nanos = now.subsec_nanosecond().unsigned_abs();
    for attempt in 0..limits::DATA_NAMES {
        let name = format!("..{digits}.{:09}", nanos.wrapping_add(attempt) % 1_000_000_000);
        match mkdirat(dir, name.as_str(), Mode::from_raw_mode(0o755)) {
            Ok(()) => {
                let version = openat(dir, name.as_str(), DIRECTORY, Mode::empty())?;
                return Ok((name, version));
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

fn fill(version: &OwnedFd, files: &Payload<'_>, group: Option<u32>) -> io::Result<()> {
    for (path, file) in files {
        let mut parts: Vec<&str> = path.split('/').collect();
        let Some(last) = parts.pop() else { continue };
        let mut at = version.as_fd().try_clone_to_owned()?;
        for part in parts {
            match mkdirat(&at, part, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            at = openat(&at, part, DIRECTORY, Mode::empty())?;
            own_directory(&at, group)?;
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut made = File::from(openat(&at, last, flags, Mode::from_raw_mode(0o600))?);
        made.write_all(&file.data)?;
        if file.user.is_some() || group.is_some() {
            fchown(&made, file.user.map(Uid::from_raw), group.map(Gid::from_raw))?;
        }
        // Last: a change of owner clears bits.
        fchmod(&made, Mode::from_raw_mode(mode(file, group)))?;
    }
    Ok(())
}

/// The mode, with read access for the group.
fn mode(file: &PayloadFile<'_>, group: Option<u32>) -> u32 {
    if group.is_some() { file.mode | 0o440 } else { file.mode }
}

fn own_directory(at: &OwnedFd, group: Option<u32>) -> io::Result<()> {
    match group {
        Some(group) => {
            fchown(at, None, Some(Gid::from_raw(group)))?;
            Ok(fchmod(at, Mode::from_raw_mode(0o2755))?)
        }
        None => Ok(fchmod(at, Mode::from_raw_mode(0o755))?),
    }
}

/// Whether the version holds exactly these files, with their modes and owners.
fn same(version: &OwnedFd, files: &Payload<'_>, group: Option<u32>) -> io::Result<bool> {
    for (path, file) in files {
        let mut parts: Vec<&str> = path.split('/').collect();
        let Some(last) = parts.pop() else { continue };
        let at = match walk::open_below(version.as_fd(), &parts) {
            Ok(Some(at)) => at,
            Ok(None) => return Ok(false),
            Err(error) if is_another_kind(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let found = match openat(&at, last, flags, Mode::empty()) {
            Ok(found) => File::from(found),
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&found)?;
        let kept = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_mode & 0o7777 == mode(file, group)
            && file.user.is_none_or(|user| stat.st_uid == user)
            && group.is_none_or(|group| stat.st_gid == group)
            && u64::try_from(stat.st_size).ok() == u64::try_from(file.data.len()).ok();
        if !kept || !holds(found, &file.data)? {
            return Ok(false);
        }
    }
    count(version, files)
}

fn is_another_kind(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    [Errno::LOOP, Errno::NOTDIR].into_iter().any(|errno| number == Some(errno.raw_os_error()))
}

fn holds(mut found: File, data: &[u8]) -> io::Result<bool> {
    let mut part = vec![0; limits::FILE_PART.min(data.len().saturating_add(1))];
    let mut rest = data;
    loop {
        let read = found.read(&mut part)?;
        let Some(same) = part.get(..read).and_then(|read| rest.strip_prefix(read)) else { return Ok(false) };
        if read == 0 {
            return Ok(rest.is_empty());
        }
        rest = same;
    }
}

/// Whether the version has no other files. The wanted ones were checked before.
fn count(version: &OwnedFd, files: &Payload<'_>) -> io::Result<bool> {
    let mut open = vec![String::new()];
    let mut found = 0_usize;
    while let Some(prefix) = open.pop() {
        let parts: Vec<&str> = prefix.split('/').filter(|part| !part.is_empty()).collect();
        let Some(at) = walk::open_below(version.as_fd(), &parts)? else { return Ok(false) };
        for name in walk::names(&at)? {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            if is_directory(&at, &name)? {
                let begin = format!("{path}/");
                if !files.keys().any(|key| key.starts_with(&begin)) {
                    return Ok(false);
                }
                open.push(path);
            } else {
                found = found.saturating_add(1);
            }
        }
    }
    Ok(found == files.len())
}

#[cfg(test)]
mod tests;
