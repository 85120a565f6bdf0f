//! Parts of volumes (upstream `pkg/volume/util/subpath/subpath_linux.go`). A container may write to its
//! volume meanwhile, and create links to anywhere. So every part of the path is opened separately, a link is
//! read and walked like a path, and the walk never leaves the volume (kubernetes/kubernetes#56625,
//! CVE-2017-1002101, CVE-2021-25741). The result is bound by its descriptor, so that replacing the path
//! afterwards has no effect.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, readlinkat, stat};
use rustix::io::Errno;

use super::manager::Node;
use super::mounts::{Bind, Later};
use super::set_up::PRIVATE;
use super::walk::{self, DIRECTORY, HANDLE};
use super::{SubPath, mounts};
use crate::base::limits;
use crate::layout;

/// Mode of a file that is a mount point.
const TARGET_FILE: u32 = 0o640;

/// Binds a part of a volume to its mount point.
///
/// # Errors
/// The kubelet's message for the container, and the reason, which the kubelet only logs.
pub(super) fn prepare(node: &Node, wanted: &SubPath, later: Later) -> Result<(), String> {
    let told = |what: &str, why: &str| {
        let SubPath { volume, container, path, .. } = wanted;
        Err(format!(
            "failed to {what} for volumeMount {volume:?} of container {container:?}: {path:?}: {why}"
        ))
    };
    let found = match resolve(&wanted.base, &wanted.path) {
        Ok(found) => found,
        Err((Step::Make, why)) => return told("create subPath directory", &why.to_string()),
        Err((Step::Open, why)) => return told("prepare subPath", &why.to_string()),
    };
    match bind(node, wanted, &found, later) {
        Ok(()) => Ok(()),
        Err(why) => told("prepare subPath", &why),
    }
}

/// The step that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Make,
    Open,
}

/// A handle of the path's target inside `base`. Missing directories are created.
pub(super) fn resolve(base: &Path, path: &str) -> Result<OwnedFd, (Step, io::Error)> {
    let open = |error: Errno| (Step::Open, error.into());
    let outside = || (Step::Open, io::Error::other("it leads out of the volume"));
    // The base itself is the operator's choice: a hostPath may be a link.
    let base = rustix::fs::open(base, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(open)?;
    let mode = fstat(&base).map_err(open)?.st_mode & 0o7777;
    let mut way = vec![base];
    let mut to_go: Vec<String> = split(path);
    let mut links = 0;
    while let Some(part) = to_go.pop() {
        if part == ".." {
            way.pop();
            if way.is_empty() {
                return Err(outside());
            }
            continue;
        }
        let Some(here) = way.last() else { return Err(outside()) };
        let found = match openat(here, part.as_str(), HANDLE, Mode::empty()) {
            Err(Errno::NOENT) => make(here, &part, mode).map_err(|error| (Step::Make, error))?,
            other => other.map_err(open)?,
        };
        match FileType::from_raw_mode(fstat(&found).map_err(open)?.st_mode) {
            FileType::Symlink => {
                links += 1;
                let target = readlinkat(&found, c"", Vec::new()).map_err(open)?;
                let target = target.into_string().map_err(|_| outside())?;
                if target.starts_with('/') {
                    return Err(outside());
                }
                to_go.extend(split(&target));
                if links > limits::SUB_PATH_LINKS || to_go.len() > limits::SUB_PATH_PARTS {
                    return Err(open(Errno::LOOP));
                }
            }
            FileType::Directory => way.push(found),
            _ if to_go.is_empty() => way.push(found),
            _ => return Err(open(Errno::NOTDIR)),
        }
        if way.len() > limits::SUB_PATH_PARTS {
            return Err(open(Errno::NAMETOOLONG));
        }
    }
    way.pop().ok_or_else(outside)
}

/// The parts, the last one first.
fn split(path: &str) -> Vec<String> {
    path.split('/').rev().filter(|part| !matches!(*part, "" | ".")).map(str::to_owned).collect()
}

fn make(at: &OwnedFd, name: &str, mode: u32) -> io::Result<OwnedFd> {
    match mkdirat(at, name, Mode::from_raw_mode(mode)) {
        Ok(()) => {
            let made = openat(at, name, DIRECTORY, Mode::empty())?;
            // Independent of the umask.
            fchmod(&made, Mode::from_raw_mode(mode))?;
            Ok(made)
        }
        Err(Errno::EXIST) => Ok(openat(at, name, HANDLE, Mode::empty())?),
        Err(error) => Err(error.into()),
    }
}

fn bind(node: &Node, wanted: &SubPath, found: &OwnedFd, later: Later) -> Result<(), String> {
    let words = |error: io::Error| error.to_string();
    let root = node.root()?;
    let SubPath { uid, volume, container, index, .. } = wanted;
    let place = layout::sub_path(&root, uid, volume, container, *index).ok_or("a name is none")?;
    let seen = fstat(found).map_err(io::Error::from).map_err(words)?;
    // It was bound before: to the current target, or to the one before the volume's files changed.
    for _ in 0..limits::SUB_PATH_MOUNTS {
        if !mounts::is_at(&place).map_err(words)? {
            break;
        }
        let there = stat(&place).map_err(io::Error::from).map_err(words)?;
        // Earlier versions set it apart after they had bound it; one that was killed in between did not.
        node.set_apart(&place).map_err(words)?;
        if (there.st_dev, there.st_ino) == (seen.st_dev, seen.st_ino) {
            return node.docker_sees(&place);
        }
        mounts::end(&place).map_err(words)?;
    }
    let is_directory = FileType::from_raw_mode(seen.st_mode) == FileType::Directory;
    let target = target(&root, wanted, is_directory).map_err(words)?;
    let bind = Bind { what: found, is_directory, with_all: false, later };
    node.bind(&bind, &target, &|_| Ok(())).map_err(words)?;
    node.docker_sees(&place)
}

/// An empty directory, or an empty file.
fn target(root: &Path, wanted: &SubPath, is_directory: bool) -> io::Result<OwnedFd> {
    let at = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let parts = ["pods", &wanted.uid, layout::SUB_PATHS, &wanted.volume, &wanted.container];
    let parent = walk::make_below(at.as_fd(), &parts, PRIVATE)?;
    let index = wanted.index.to_string();
    if is_directory {
        walk::make_below(parent.as_fd(), &[&index], PRIVATE).or_else(|_| {
            // A file of an earlier container of this name.
            walk::remove(&parent, &index)?;
            walk::make_below(parent.as_fd(), &[&index], PRIVATE)
        })
    } else {
        let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let make = || openat(&parent, index.as_str(), flags, Mode::from_raw_mode(TARGET_FILE));
        match make() {
            Err(Errno::ISDIR) => {
                rustix::fs::unlinkat(&parent, index.as_str(), rustix::fs::AtFlags::REMOVEDIR)?;
                Ok(make()?)
            }
            other => Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests;
