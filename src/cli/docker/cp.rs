//! `cp`: files and directories between this machine and a running container.
//!
//! It reads and writes them through the root directory of the container's first process (`/proc/PID/root`). So the
//! image needs no program, and all volumes are there, also those in memory. It avoids Docker's own archive calls: while
//! one is under way, Docker answers neither an inspect nor an exec of that container, so that a long copy makes its
//! probes fail (seen with Docker 20.10).
//!
//! Never here: a container's path that the system resolves, because it would follow the path's links on this machine.

mod root;
mod tree;

use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use super::{engine, target};
use crate::base::logging::one_line;
use crate::base::walk::DIRECTORY;
use crate::cli::exit::Exit;
use crate::cli::flags::{Options, endpoint};
use crate::cli::parse::{Copied, Way};
use crate::cli::{Outcome, fail, pods, say};
use root::Inside;
use tree::{Copying, Rules};

/// Copies what the arguments say.
pub fn run(options: &Options, copied: &Copied) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let target = target::for_copy(&status.file, options, &copied.pod)?;
    if let Some(note) = &target.note {
        say(note);
    }
    let docker = engine::docker(&endpoint(&status.file.docker.endpoint)?)?;
    let inside = Inside::of(&docker, &target.id).map_err(|why| format!("{}: {why}", target.what))?;
    let copying = match copied.way {
        Way::Out => out_of(&inside, &copied.inside, &copied.outside)?,
        Way::In => into(&inside, &copied.outside, &copied.inside, !options.command.carry.no_preserve)?,
    };
    copying.told.iter().for_each(|line| _ = fail(line));
    match copying.failures {
        0 => Ok(Exit::Ok),
        all => {
            let way = if matches!(copied.way, Way::In) { "to" } else { "from" };
            Err(format!(
                "{all} of the files were not copied {way} {}, {}",
                target.what,
                one_line(&copied.inside)
            ))
        }
    }
}

/// Copies from the container: a directory's content into `to`, as kubectl does; a file to `to`, or into it.
fn out_of(inside: &Inside, from: &str, to: &Path) -> Result<Copying, String> {
    let source = inside.find(from).map_err(|why| format!("{}: {why}", one_line(from)))?;
    let shown = |why: &dyn std::fmt::Display| format!("{}: {why}", to.display());
    // The user did not ask for owners and set-user-ID bits that the container has set: they are dropped.
    let mut copying = Copying::new(Rules::Local { mask: tree::mask() });
    if is_directory(&source).map_err(|why| shown(&why))? {
        fs::create_dir_all(to).map_err(|why| shown(&why))?;
        let at = local_directory(to).map_err(|why| shown(&why))?;
        copying.content(&source, &at, Path::new(from));
        return Ok(copying);
    }
    let (directory, name) = match (to.is_dir(), Path::new(from).file_name(), to.file_name()) {
        (true, Some(name), _) => (to, name),
        (false, _, Some(name)) if !ends_with_slash(to.as_os_str().as_bytes()) => (parent(to), name),
        _ => return Err(shown(&"there is no such directory")),
    };
    fs::create_dir_all(directory).map_err(|why| shown(&why))?;
    let at = local_directory(directory).map_err(|why| shown(&why))?;
    let name = CString::new(name.as_bytes()).map_err(|why| shown(&why))?;
    copying.entry(&source, &at, &name, Path::new(from));
    Ok(copying)
}

/// Copies to the container: into `to` when it is a directory, else to that name.
fn into(inside: &Inside, from: &Path, to: &str, preserves: bool) -> Result<Copying, String> {
    let shown = |why: &dyn std::fmt::Display| format!("{}: {why}", from.display());
    let there = |why: &dyn std::fmt::Display| format!("{}: {why}", one_line(to));
    // Links in the path itself are the user's.
    let source = rustix::fs::open(from, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|why| shown(&std::io::Error::from(why)))?;
    let whole = is_directory(&source).map_err(|why| shown(&why))?;
    let mut copying = Copying::new(Rules::Container { owner: inside.owner, preserves });
    let (at, name) = match inside.find(to) {
        Ok(found) if is_directory(&found).map_err(|why| there(&why))? => {
            let is_content = from.as_os_str().as_bytes().ends_with(b"/.");
            let last = from.components().next_back().filter(|_| !is_content);
            match last {
                Some(Component::Normal(name)) => (found, name.to_owned()),
                // The root, and paths that end with a dot or a way up.
                _ if whole => {
                    copying.content(&source, &found, from);
                    return Ok(copying);
                }
                _ => return Err(shown(&"it has no name")),
            }
        }
        Ok(_) if whole => return Err(there(&"it is no directory")),
        Err(Errno::NOENT) if ends_with_slash(to.as_bytes()) => {
            return Err(there(&"there is no such directory"));
        }
        Ok(_) | Err(Errno::NOENT) => {
            let path = Path::new(to);
            let name = path.file_name().ok_or_else(|| there(&"it has no name"))?;
            let directory = path.parent().map(Path::to_string_lossy).unwrap_or_default();
            let at = inside.find(&directory).map_err(|why| there(&std::io::Error::from(why)))?;
            (at, name.to_owned())
        }
        Err(why) => return Err(there(&std::io::Error::from(why))),
    };
    let name = CString::new(name.as_bytes()).map_err(|why| there(&why))?;
    copying.entry(&source, &at, &name, from);
    Ok(copying)
}

fn is_directory(file: &OwnedFd) -> std::io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode) == FileType::Directory)
}

fn ends_with_slash(path: &[u8]) -> bool {
    path.ends_with(b"/") || path.ends_with(b"/.")
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A directory of this machine. Links in its path are the user's and are followed.
fn local_directory(path: &Path) -> std::io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty())?)
}

#[cfg(test)]
mod tests;
