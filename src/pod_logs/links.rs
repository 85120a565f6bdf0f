//! The I/O of this room: creates and removes links, and writes only changes.
//!
//! Each pod directory has a mark, a link to the root directory of the podkeeper that created it. A
//! directory with another mark is not touched. No log collector reads names that start with a dot.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::names::{Links, id_of};
use super::{ContainerLog, ContainerLogs};
use crate::base::table::Set;
use crate::pod::PodKey;

/// Name of the mark in a pod's directory.
const MARK: &str = ".podkeeper";

/// The links of one node. A lock serializes changes.
#[derive(Debug)]
pub struct PodLogs {
    pods: PathBuf,
    containers: PathBuf,
    root_dir: PathBuf,
    /// The last reported error.
    told: Mutex<Option<String>>,
}

impl PodLogs {
    /// Links below `pods` and in the directory `containers` beside it; `root_dir` is the mark.
    #[must_use]
    pub fn new(pods: &Path, root_dir: &Path) -> PodLogs {
        PodLogs {
            pods: pods.to_owned(),
            containers: pods.with_file_name("containers"),
            root_dir: root_dir.to_owned(),
            told: Mutex::new(None),
        }
    }

    /// Creates the links of `now` and removes those of `before` that are not in it. No pod waits for it.
    /// An error is returned once, as text for the pod's events.
    pub fn set(&self, key: &PodKey, before: &ContainerLogs, now: &ContainerLogs) -> Option<String> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let stays = |old: &&ContainerLog| {
            now.iter()
                .any(|log| (&log.id, &log.container, log.attempt) == (&old.id, &old.container, old.attempt))
        };
        let gone = before.iter().filter(|old| !stays(old));
        let removed = gone.filter_map(|log| Links::of(key, log)).map(|links| self.remove(&links));
        let made = now.iter().filter(|log| !log.file.is_empty() && !before.contains(*log));
        let made = made.filter_map(|log| Some((Links::of(key, log)?, &log.file)));
        let made = made.map(|(links, file)| self.make(&links, Path::new(file)));
        // Removals come first: a pod directory may be removed and created again.
        let trouble = removed.collect::<Vec<_>>().into_iter().chain(made).find_map(Result::err);
        let new = trouble.clone().filter(|error| told.as_ref() != Some(error));
        *told = trouble;
        new
    }

    /// Removes podkeeper's links to files that are gone: links of containers that were removed while the
    /// daemon was down. `alive` holds the ids of all podkeeper's containers; Docker may be rotating their
    /// logs right now.
    pub fn sweep(&self, alive: &Set<String>) {
        let _turn = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let ours: Vec<PathBuf> = entries(&self.pods)
            .into_iter()
            .filter(|dir| self.owner(dir).as_ref() == Some(&self.root_dir))
            .collect();
        // The links by container come first: once the pod's directory is gone, their owner is unknown.
        for link in entries(&self.containers) {
            let target = fs::read_link(&link).unwrap_or_default();
            let pod = target.parent().and_then(Path::parent);
            let id = link.file_name().and_then(|name| name.to_str()).and_then(id_of);
            let of_ours = pod.is_some_and(|pod| ours.iter().any(|dir| dir == pod));
            if of_ours && id.is_none_or(|id| !alive.contains(id)) && is_dangling(&link) {
                self.sweep_one(&link);
            }
        }
        for dir in ours {
            for container in entries(&dir).into_iter().filter(|path| path.is_dir() && !path.is_symlink()) {
                for link in entries(&container) {
                    let target = fs::read_link(&link).unwrap_or_default();
                    let target = target.to_string_lossy();
                    if is_dangling(&link) && !alive.iter().any(|id| target.contains(id)) {
                        self.sweep_one(&link);
                    }
                }
                _ = fs::remove_dir(&container);
            }
            self.leave(&dir);
        }
    }

    fn sweep_one(&self, link: &Path) {
        match fs::remove_file(link) {
            Ok(()) => log::info!("log link {} of a container that is gone is removed", link.display()),
            Err(error) => log::warn!("log link {} stays: {error}", link.display()),
        }
    }

    fn make(&self, links: &Links, file: &Path) -> Result<(), String> {
        let dir = self.pods.join(&links.pod);
        let path = links.path(&self.pods);
        make_dir(&dir.join(&links.container))?;
        match self.owner(&dir) {
            None => point(&dir.join(MARK), &self.root_dir)?,
            Some(owner) if owner == self.root_dir => {}
            Some(owner) => {
                return Err(format!("{} belongs to the podkeeper of {}", dir.display(), owner.display()));
            }
        }
        point(&path, file)?;
        make_dir(&self.containers)?;
        point(&self.containers.join(&links.flat), &path)
    }

    /// A missing link counts as removed; a file that is not a link belongs to another program.
    fn remove(&self, links: &Links) -> Result<(), String> {
        let dir = self.pods.join(&links.pod);
        if self.owner(&dir).as_ref() != Some(&self.root_dir) {
            return Ok(());
        }
        for link in [self.containers.join(&links.flat), links.path(&self.pods)] {
            if fs::read_link(&link).is_ok() {
                fs::remove_file(&link).map_err(said(&link))?;
            }
        }
        _ = fs::remove_dir(dir.join(&links.container));
        self.leave(&dir);
        Ok(())
    }

    /// The root directory in the mark of a pod directory.
    fn owner(&self, dir: &Path) -> Option<PathBuf> {
        fs::read_link(dir.join(MARK)).ok()
    }

    /// Removes a pod's directory with its mark when it has no other entry.
    fn leave(&self, dir: &Path) {
        if entries(dir).iter().all(|path| path.ends_with(MARK)) {
            _ = fs::remove_file(dir.join(MARK));
            _ = fs::remove_dir(dir);
        }
    }
}

/// Absolute paths of a directory's entries; empty when it cannot be read.
fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn is_dangling(link: &Path) -> bool {
    link.is_symlink() && fs::metadata(link).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

fn make_dir(dir: &Path) -> Result<(), String> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(said(dir))
}

/// Makes `link` point to `target`; an unchanged link is not written.
fn point(link: &Path, target: &Path) -> Result<(), String> {
    match fs::read_link(link) {
        Ok(now) if now == target => return Ok(()),
        Ok(_) => fs::remove_file(link).map_err(said(link))?,
        // Missing, or not a link, which the next step reports.
        Err(_) => {}
    }
    symlink(target, link).map_err(said(link))
}

fn said(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("log link {}: {error}", path.display())
}
