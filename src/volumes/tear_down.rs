//! Takes a pod's volumes down. Mounts are read from the kernel, and directories from the disk: no manifest
//! is needed or trusted.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, readlinkat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::walk::{self, DIRECTORY};
use super::{helper, mounts, owner};
use crate::layout;

/// Which of a pod's volumes are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// All: the pod is over.
    All,
    /// Those whose removal was interrupted. The pod may be wanted again, and run.
    Left,
}

/// Unmounts and removes this room's entries below the pod's directory; then the directory itself, if it is
/// empty. `root` must not go through links. `removes` is called before each file or directory is removed.
///
/// # Errors
/// A volume is in use, or an error of the system. Everything else stays as it is, and may be tried again.
pub(super) fn pod(root: &Path, uid: &str, which: Which, removes: &mut dyn FnMut()) -> Result<(), String> {
    let Some(path) = layout::pod_dir(root, uid) else { return Ok(()) };
    let Some((pods, pod)) = open(root, uid).map_err(|error| format!("{}: {error}", path.display()))? else {
        return Ok(());
    };
    let failed = |part: &str| {
        let path = path.join(part);
        move |error: io::Error| format!("{}: {error}", path.display())
    };
    if which == Which::All {
        unmount_all(&path)?;
        sub_paths(&pod).map_err(failed(layout::SUB_PATHS))?;
        // First, for a volume that is made anew after an interruption is not ready.
        walk::remove_counted(&pod, layout::PLUGINS, removes).map_err(failed(layout::PLUGINS))?;
    }
    volumes(&pod, layout::GONE, removes).map_err(failed(layout::GONE))?;
    if which == Which::All {
        // Under this name they are removed in any case: a daemon that ends meanwhile leaves what the next one needs no source
        // and no container to judge. A full disk may have no room for that.
        let name = match renameat(&pod, layout::VOLUMES, &pod, layout::GONE) {
            Ok(()) | Err(Errno::NOENT) => layout::GONE,
            Err(_) => layout::VOLUMES,
        };
        volumes(&pod, name, removes).map_err(failed(layout::VOLUMES))?;
        owner::remove(&pod).map_err(failed(layout::OWNER))?;
    }
    // Other rooms may have files in the directory.
    _ = unlinkat(&pods, uid, AtFlags::REMOVEDIR);
    Ok(())
}

/// Whether an earlier removal has left some of the pod's volumes.
pub(super) fn has_gone(root: &Path, uid: &str) -> bool {
    matches!(open(root, uid), Ok(Some((_, pod))) if has(&pod, layout::GONE))
}

pub(super) fn has(pod: &OwnedFd, part: &str) -> bool {
    !matches!(statat(pod, part, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}

/// Whether the pod's directory has no entry of this room.
pub(super) fn is_clean(root: &Path, uid: &str) -> bool {
    match open(root, uid) {
        Ok(None) => true,
        Ok(Some((_, pod))) => {
            let parts = [layout::SUB_PATHS, layout::VOLUMES, layout::GONE, layout::PLUGINS, layout::OWNER];
            !parts.iter().any(|part| has(&pod, part))
        }
        Err(_) => false,
    }
}

/// The directory of all pods, and this pod's.
fn open(root: &Path, uid: &str) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
    if !layout::is_one_name(uid) {
        return Ok(None);
    }
    let root = match rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(pods) = walk::open_below(root.as_fd(), &["pods"])? else { return Ok(None) };
    let pod = walk::open_below(pods.as_fd(), &[uid])?;
    Ok(pod.map(|pod| (pods, pod)))
}

fn unmount_all(path: &Path) -> Result<(), String> {
    let table = || mounts::table().map_err(|error| format!("the mount table cannot be read: {error}"));
    let mut first = None;
    let all = table()?;
    let pods = path.parent().unwrap_or(path);
    for bound in [path.join(layout::SUB_PATHS), path.join(layout::VOLUMES).join(layout::HOST_PATH)] {
        mounts::set_apart(&all, &bound, pods)
            .map_err(|error| format!("what is bound in {} cannot be set apart: {error}", bound.display()))?;
    }
    for mounted in mounts::below(&all, path) {
        let ended = if mounted.kind.starts_with("nfs") {
            helper::unmount_nfs(&mounted.at)
        } else {
            mounts::end(&mounted.at).map_err(|error| error.to_string())
        };
        if let Err(why) = ended {
            first.get_or_insert_with(|| format!("{} cannot be unmounted: {why}", mounted.at.display()));
        }
    }
    if let Some(why) = first {
        return Err(why);
    }
    match mounts::below(&table()?, path).first() {
        Some(left) => Err(format!("{} is still mounted", left.at.display())),
        None => Ok(()),
    }
}

/// Removes the mount points of subPaths, which are always empty.
fn sub_paths(pod: &OwnedFd) -> io::Result<()> {
    let Some(all) = walk::open_below(pod.as_fd(), &[layout::SUB_PATHS])? else { return Ok(()) };
    for volume in walk::names(&all)? {
        let Some(of_volume) = walk::open_below(all.as_fd(), &[&volume])? else { continue };
        for container in walk::names(&of_volume)? {
            let Some(of_container) = walk::open_below(of_volume.as_fd(), &[&container])? else { continue };
            for index in walk::names(&of_container)? {
                match unlinkat(&of_container, index.as_str(), AtFlags::empty()) {
                    Err(Errno::ISDIR | Errno::PERM) => rmdir(&of_container, &index)?,
                    other => walk::gone(other)?,
                }
            }
            rmdir(&of_volume, &container)?;
        }
        rmdir(&all, &volume)?;
    }
    rmdir(pod, layout::SUB_PATHS)
}

/// Removes each kind as it was created: a directory that may hold other data is only removed if it is empty. Another thread
/// may do the same.
fn volumes(pod: &OwnedFd, name: &str, removes: &mut dyn FnMut()) -> io::Result<()> {
    let Some(all) = walk::open_below(pod.as_fd(), &[name])? else { return Ok(()) };
    for plugin in walk::names(&all)? {
        if plugin == layout::IMAGE_VOLUMES {
            // A pod of many edits may have hundreds of thousands of them.
            walk::remove_counted(&all, &plugin, removes)?;
            continue;
        }
        let of_plugin = match openat(&all, plugin.as_str(), DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            of_plugin => of_plugin?,
        };
        for name in walk::names(&of_plugin)? {
            let stat = match statat(&of_plugin, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                walk::gone(unlinkat(&of_plugin, name.as_str(), AtFlags::empty()))?;
            } else if matches!(plugin.as_str(), layout::NFS | layout::LOCAL | layout::HOST_PATH) {
                rmdir(&of_plugin, &name)?;
            } else {
                walk::remove_counted(&of_plugin, &name, removes)?;
            }
        }
        rmdir(&all, &plugin)?;
    }
    rmdir(pod, name)
}

fn rmdir(at: &OwnedFd, name: &str) -> io::Result<()> {
    walk::gone(unlinkat(at, name, AtFlags::REMOVEDIR))
}

/// Another pod whose directory has a link for this claim with one of these texts.
///
/// # Errors
/// A pod's directory cannot be read: then it is unknown whether there is such a pod.
pub(super) fn user_of(root: &Path, but: &str, claim: &str, words: &[&[u8]]) -> io::Result<Option<String>> {
    let at = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let Some(pods) = walk::open_below(at.as_fd(), &["pods"])? else { return Ok(None) };
    for uid in walk::names(&pods)? {
        if uid == but {
            continue;
        }
        let place = [uid.as_str(), layout::VOLUMES, layout::LOCAL];
        let of_pod = walk::open_below(pods.as_fd(), &place);
        let of_pod = of_pod.map_err(|error| io::Error::new(error.kind(), format!("pod {uid}: {error}")))?;
        let Some(of_pod) = of_pod else { continue };
        match readlinkat(&of_pod, claim, Vec::new()) {
            Ok(link) if words.contains(&link.to_bytes()) => return Ok(Some(uid)),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(io::Error::other(format!("pod {uid}: {}", io::Error::from(error)))),
        }
    }
    Ok(None)
}

/// UIDs of all pods with a directory.
pub(super) fn pods(root: &Path) -> Vec<String> {
    let at = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let pods = at.map_err(io::Error::from).and_then(|at| walk::open_below(at.as_fd(), &["pods"]));
    pods.ok().flatten().and_then(|pods| walk::names(&pods).ok()).unwrap_or_default()
}
