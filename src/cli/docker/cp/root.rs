//! The root directory of a running container, and paths in it.
//!
//! A container may change its links at any moment. So each part of a path is opened by itself, without following links;
//! a link is read and walked like a path, and `..` ends at the container's root. A result is an open descriptor.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Gid, Mode, OFlags, Stat, Uid, fstat, openat, readlinkat, stat};
use rustix::io::Errno;

use crate::base::walk::HANDLE;
use crate::base::{limits, regular};
use crate::runtime::docker::Docker;

/// A container, seen from within.
#[derive(Debug)]
pub(super) struct Inside {
    root: OwnedFd,
    /// Working directory of its first process: the start of relative paths.
    here: Vec<u8>,
    /// User and group of its first process, as this machine counts them.
    pub owner: (Uid, Gid),
}

impl Inside {
    /// Opens a running container.
    ///
    /// # Errors
    /// The container does not run, or its processes are not visible here; for the user.
    pub fn of(docker: &Docker, id: &str) -> Result<Inside, String> {
        let pid = match docker.process(id) {
            Ok(Some(pid)) => pid,
            Ok(None) => return Err("it is not running".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        Inside::of_process(pid, id).map_err(|why| match why.kind() {
            io::ErrorKind::PermissionDenied => "only root sees its files".to_owned(),
            _ => format!("its files are not to be had: {why}"),
        })
    }

    fn of_process(pid: u32, id: &str) -> io::Result<Inside> {
        let process = rustix::fs::open(format!("/proc/{pid}"), HANDLE, Mode::empty())?;
        // The number of an ended process may be reused; the descriptor stays with its process.
        if !read(&process, "cgroup")?.contains(id) {
            return Err(io::Error::other("the process that Docker names is not of this container"));
        }
        let root = openat(&process, "root", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        // The process of a virtual machine would show this machine's files in place of the container's.
        if id_of(&fstat(&root)?) == id_of(&stat("/")?) {
            return Err(io::Error::other("its process has the root directory of this machine"));
        }
        let here = readlinkat(&process, "cwd", Vec::new())?.into_bytes();
        let owner = owner(&read(&process, "status")?)
            .ok_or_else(|| io::Error::other("nobody knows the user of its process"))?;
        Ok(Inside { root, here, owner })
    }

    #[cfg(test)]
    pub fn below(root: OwnedFd) -> Inside {
        let owner = (rustix::process::geteuid(), rustix::process::getegid());
        Inside { root, here: b"/".to_vec(), owner }
    }

    /// A handle to a path in the container. Links are followed within it.
    ///
    /// # Errors
    /// The system's: the path does not exist, or its links have no end.
    pub fn find(&self, path: &str) -> Result<OwnedFd, Errno> {
        let again = || self.root.try_clone().map_err(|_| Errno::MFILE);
        let mut way = vec![again()?];
        let mut to_go = split(path.as_bytes());
        if !path.starts_with('/') {
            to_go.extend(split(&self.here));
        }
        let mut links = 0;
        while let Some(part) = to_go.pop() {
            if part == b".." {
                // The parent of the root is the root.
                way.truncate(way.len().saturating_sub(1).max(1));
                continue;
            }
            let Some(at) = way.last() else { return Err(Errno::NOENT) };
            let found = openat(at, part.as_slice(), HANDLE, Mode::empty())?;
            match FileType::from_raw_mode(fstat(&found)?.st_mode) {
                FileType::Symlink => {
                    links += 1;
                    let target = readlinkat(&found, c"", Vec::new())?.into_bytes();
                    if target.starts_with(b"/") {
                        way.truncate(1);
                    }
                    to_go.extend(split(&target));
                    if links > limits::COPY_LINKS || to_go.len() > limits::COPY_PARTS {
                        return Err(Errno::LOOP);
                    }
                }
                FileType::Directory => way.push(found),
                _ if to_go.is_empty() && !path.ends_with('/') => way.push(found),
                _ => return Err(Errno::NOTDIR),
            }
            if way.len() > limits::COPY_PARTS {
                return Err(Errno::NAMETOOLONG);
            }
        }
        way.pop().ok_or(Errno::NOENT)
    }
}

/// The parts of a path, the last one first.
fn split(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').rev();
    parts.filter(|part| !matches!(*part, b"" | b".")).map(<[u8]>::to_vec).collect()
}

fn id_of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Reads a file of `/proc` about a process.
fn read(process: &OwnedFd, name: &str) -> io::Result<String> {
    let file = openat(process, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let bytes = regular::read_rest(File::from(file), limits::COPY_PROCESS)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Effective user and group (`proc_pid_status(5)`).
fn owner(status: &str) -> Option<(Uid, Gid)> {
    let id = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().nth(1)?.parse::<u32>().ok()
    };
    Some((Uid::from_raw(id("Uid:")?), Gid::from_raw(id("Gid:")?)))
}
