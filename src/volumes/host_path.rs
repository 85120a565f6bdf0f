//! hostPath volumes of pods that may use only some paths of the host. A pod may write below an allowed path,
//! and put links there for the next pod. So every part below it is opened separately, and the target of a
//! link must be allowed, too. The result is bound by its descriptor to a place of the pod's own, and Docker
//! mounts it from there: replacing the path after the check has no effect.
//!
//! The allowed path itself belongs to the operator, and may lead through links.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, readlinkat, stat};
use rustix::io::Errno;

use super::manager::Node;
use super::mounts::{self, Bind, Later, Mounted};
use super::set_up::PRIVATE;
use super::walk::{self, DIRECTORY, HANDLE};
use crate::base::limits;
use crate::layout;
use crate::policy::{AllowedPath, PathAccess};

/// Mode of new directories, as the kubelet's.
const MADE_DIRECTORY: u32 = 0o755;
/// Mode of new files.
const MADE_FILE: u32 = 0o644;

/// A hostPath volume.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// `hostPath.path`.
    pub path: &'a str,
    /// `hostPath.type`.
    pub kind: &'a str,
    /// Whether a container may write to it.
    pub writes: bool,
    /// `--allowed-host-paths`.
    pub allowed: &'a [AllowedPath],
}

/// How to create a missing part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Directory,
    File,
    Nothing,
}

/// Where mounts are below a directory, relative to it, that are bound with it at this place: mounts that were made later
/// are not in the bind, and those of other containers do not stay in it.
///
/// # Errors
/// Errors of the system.
pub(super) fn mounts_below(foreign: &Foreign, directory: &OwnedFd, place: &Path) -> io::Result<Vec<String>> {
    let is_bound = || {
        let (there, seen) = (stat(place).ok()?, fstat(directory).ok()?);
        Some((there.st_dev, there.st_ino) == (seen.st_dev, seen.st_ino))
    };
    let rest = |mounted: &Mounted, above: &Path| {
        mounted.at.strip_prefix(above).ok().map(|rest| rest.to_string_lossy().into_owned())
    };
    let table = mounts::table()?;
    if mounts::is_at(place)? && is_bound() == Some(true) {
        return Ok(mounts::below(&table, place).iter().filter_map(|mounted| rest(mounted, place)).collect());
    }
    let directory = std::fs::read_link(walk::by_descriptor(directory))?;
    let stays = mounts::below(&table, &directory)
        .into_iter()
        .filter(|mounted| !foreign.has(&mounted.at, &mounted.kind));
    Ok(stays.filter_map(|mounted| rest(mounted, &directory)).collect())
}

/// Mounts of other pods and containers. In the bind of a directory above them they would keep Docker and podkeeper from
/// removing what they are mounted at.
#[derive(Debug)]
pub(super) struct Foreign {
    /// Directories of podkeeper's pods and of Docker.
    roots: Vec<PathBuf>,
    /// See [`layout::STAGE`].
    stages: Vec<PathBuf>,
}

impl Foreign {
    /// # Errors
    /// podkeeper's root directory is unknown.
    pub(super) fn of(node: &Node) -> io::Result<Foreign> {
        let own = node.root().map_err(io::Error::other)?;
        let engine = node.engine_root.get().map(|root| std::fs::canonicalize(&root).unwrap_or(root));
        let (table, roots) = (mounts::table()?, [own.join("pods")].into_iter().chain(engine));
        let roots = roots.flat_map(|root| mounts::places(&table, &root)).collect();
        Ok(Foreign { roots, stages: mounts::places(&table, &own.join(layout::STAGE)) })
    }

    /// Whether such a mount is at this place of the host. Of other engines there are the file systems of containers, and
    /// of all the names of networks.
    fn has(&self, at: &Path, kind: &str) -> bool {
        let is_container = kind == "overlay" && (at.ends_with("merged") || at.ends_with("rootfs"));
        let is_below = |root: &PathBuf| at != root && at.starts_with(root);
        let is_staged = |stage: &PathBuf| at.starts_with(stage);
        is_container || kind == "nsfs" || self.stages.iter().any(is_staged) || self.roots.iter().any(is_below)
    }

    /// Takes them out of the bind at `place` of a directory of the host, but those that go with the host's.
    fn leave(&self, place: &Path, directory: &Path) -> io::Result<()> {
        for mounted in mounts::below(&mounts::table()?, place) {
            let origin = mounted.at.strip_prefix(place).map(|rest| directory.join(rest));
            if !mounted.follows && origin.is_ok_and(|origin| self.has(&origin, &mounted.kind)) {
                mounts::drop_all(&mounted.at)?;
            }
        }
        Ok(())
    }
}

impl Wanted<'_> {
    fn missing(&self) -> Missing {
        match self.kind {
            "" | "DirectoryOrCreate" => Missing::Directory,
            "FileOrCreate" => Missing::File,
            _ => Missing::Nothing,
        }
    }

    fn refused(&self, why: &str) -> String {
        format!("hostPath {}: {why}", self.path)
    }

    /// A handle of the path's target, which is created if the type requires it.
    ///
    /// # Errors
    /// The path leads out of the allowed paths or has another type, or an error of the system.
    pub(super) fn open(&self) -> Result<OwnedFd, String> {
        let system = |error: io::Error| self.refused(&error.to_string());
        let no = || self.refused("is not allowed on this node");
        let (base, rest) = AllowedPath::split(self.allowed, self.path).ok_or_else(no)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let top = match rustix::fs::open(&base, flags, Mode::empty()) {
            Err(Errno::NOENT) if self.missing() == Missing::Directory => {
                std::fs::create_dir_all(&base).map_err(system)?;
                rustix::fs::open(&base, flags, Mode::empty())
            }
            other => other,
        };
        let top = top.map_err(io::Error::from).map_err(system)?;
        let mut way: Vec<(String, OwnedFd)> = Vec::new();
        let mut to_go: Vec<String> = rest.iter().rev().map(|part| (*part).to_owned()).collect();
        let mut links = 0_u32;
        while let Some(part) = to_go.pop() {
            if part == ".." {
                way.pop().ok_or_else(|| self.refused("a link leads out of the allowed path"))?;
                continue;
            }
            let here = way.last().map_or(&top, |(_, fd)| fd);
            let found = match openat(here, part.as_str(), HANDLE, Mode::empty()) {
                Err(Errno::NOENT) => self.make(here, &part, to_go.is_empty()).map_err(system)?,
                other => other.map_err(io::Error::from).map_err(system)?,
            };
            if kind_of(&found).map_err(system)? == FileType::Symlink {
                let target = readlinkat(&found, c"", Vec::new()).map_err(io::Error::from).map_err(system)?;
                let target = target.into_string().map_err(|_| self.refused("a link is not UTF-8"))?;
                if target.starts_with('/') {
                    // Relative to the root of the host, which is allowed only with `/`.
                    if base != "/" {
                        return Err(self.refused("a link leads out of the allowed path"));
                    }
                    way.clear();
                }
                let parts = target.split('/').rev().filter(|part| !matches!(*part, "" | "."));
                to_go.extend(parts.map(str::to_owned));
                links = links.saturating_add(1);
            } else {
                way.push((part, found));
            }
            if links > limits::SUB_PATH_LINKS
                || to_go.len() > limits::SUB_PATH_PARTS
                || way.len() > limits::SUB_PATH_PARTS
            {
                return Err(self.refused("too many links or parts"));
            }
        }
        let names = way.iter().map(|(name, _)| name.as_str());
        let real = names.fold(base.trim_end_matches('/').to_owned(), |path, name| format!("{path}/{name}"));
        let real = if real.is_empty() { "/" } else { &real };
        match AllowedPath::access(self.allowed, real) {
            PathAccess::Full => {}
            PathAccess::ReadOnly if !self.writes => {}
            PathAccess::ReadOnly => return Err(self.refused("a link leads to what is allowed read-only")),
            PathAccess::None => return Err(no()),
        }
        let found = way.pop().map_or(top, |(_, fd)| fd);
        self.check(kind_of(&found).map_err(system)?)?;
        Ok(found)
    }

    fn make(&self, at: &OwnedFd, name: &str, is_last: bool) -> io::Result<OwnedFd> {
        match self.missing() {
            Missing::Directory => {
                match mkdirat(at, name, Mode::from_raw_mode(MADE_DIRECTORY)) {
                    Ok(()) => {
                        let made = openat(at, name, DIRECTORY, Mode::empty())?;
                        // Independent of the umask.
                        fchmod(&made, Mode::from_raw_mode(MADE_DIRECTORY))?;
                    }
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                Ok(openat(at, name, HANDLE, Mode::empty())?)
            }
            Missing::File if is_last => {
                let flags =
                    OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = openat(at, name, flags, Mode::from_raw_mode(MADE_FILE))?;
                fchmod(&made, Mode::from_raw_mode(MADE_FILE))?;
                Ok(openat(at, name, HANDLE, Mode::empty())?)
            }
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn check(&self, found: FileType) -> Result<(), String> {
        let (good, what) = match self.kind {
            "" => (true, ""),
            "Directory" | "DirectoryOrCreate" => (found == FileType::Directory, "a directory"),
            // As upstream, anything but a directory counts as a file.
            "File" | "FileOrCreate" => (found != FileType::Directory, "a file"),
            "Socket" => (found == FileType::Socket, "a socket file"),
            "CharDevice" => (found == FileType::CharacterDevice, "a character device"),
            "BlockDevice" => (found == FileType::BlockDevice, "a block device"),
            other => return Err(format!("{other} is an invalid volume type")),
        };
        if good { Ok(()) } else { Err(format!("hostPath type check failed: {} is not {what}", self.path)) }
    }
}

fn kind_of(found: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(found)?.st_mode))
}

/// Binds the target to the volume's place in the pod's directory, `parts` below the root directory.
///
/// # Errors
/// The mount failed, in words.
pub(super) fn bind(node: &Node, found: &OwnedFd, parts: &[&str], later: Later) -> Result<(), String> {
    let words = |error: io::Error| error.to_string();
    let clear =
        |place: &Path| Foreign::of(node)?.leave(place, &std::fs::read_link(walk::by_descriptor(found))?);
    let root = node.root()?;
    let place = layout::below(&root, parts).ok_or("a name is none")?;
    let failed = |why: String| format!("cannot bind {}: {why}", place.display());
    let seen = fstat(found).map_err(io::Error::from).map_err(words)?;
    loop {
        if !mounts::is_at(&place).map_err(words)? {
            break;
        }
        let there = stat(&place).map_err(io::Error::from).map_err(words)?;
        // Earlier versions set it apart after they had bound it; one that was killed in between did not.
        node.set_apart(&place).map_err(words).map_err(failed)?;
        if (there.st_dev, there.st_ino) == (seen.st_dev, seen.st_ino) {
            clear(&place).map_err(words).map_err(failed)?;
            return node.docker_sees(&place);
        }
        // Running containers keep their mount.
        mounts::end_all(&place).map_err(words).map_err(failed)?;
    }
    let is_directory = FileType::from_raw_mode(seen.st_mode) == FileType::Directory;
    let target = target(&root, parts, is_directory).map_err(words).map_err(failed)?;
    let bind = Bind { what: found, is_directory, with_all: true, later };
    node.bind(&bind, &target, &clear).map_err(words).map_err(failed)?;
    node.docker_sees(&place)
}

/// An empty directory, or an empty file.
fn target(root: &Path, parts: &[&str], is_directory: bool) -> io::Result<OwnedFd> {
    let (name, above) = parts.split_last().ok_or(Errno::INVAL)?;
    let at = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let parent = walk::make_below(at.as_fd(), above, PRIVATE)?;
    let make = || -> io::Result<OwnedFd> {
        if is_directory {
            return walk::make_below(parent.as_fd(), &[name], PRIVATE);
        }
        let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(&parent, *name, flags, Mode::from_raw_mode(0o640))?;
        match kind_of(&made)? {
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Ok(made),
        }
    };
    make().or_else(|_| {
        // Left from a volume of the other kind; always empty.
        let flags = if is_directory { rustix::fs::AtFlags::empty() } else { rustix::fs::AtFlags::REMOVEDIR };
        rustix::fs::unlinkat(&parent, *name, flags)?;
        make()
    })
}

#[cfg(test)]
mod tests;
