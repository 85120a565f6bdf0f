//! The rim: makes links, removes them, and writes nothing where nothing has changed.
//!
//! Each pod directory carries a mark, a link to the root directory of whoever made it: what has another
//! one's mark is left alone. No log collector looks at names that begin with a dot.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::names::{Links, id_of};
use super::{ContainerLog, ContainerLogs};
use crate::pod::PodKey;

/// Name of the mark in a pod's directory.
const MARK: &str = ".podkeeper";

/// The links of one node. Shared: two that change them take turns.
#[derive(Debug)]
pub struct PodLogs {
    pods: PathBuf,
    containers: PathBuf,
    root_dir: PathBuf,
    /// The last trouble that was told.
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

    /// Makes the links of a pod those of `now`, where they were those of `before`. No pod waits for it.
    /// What cannot be done is given back once, in words for the pod's events.
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
        // Removed first: a pod directory may go and come.
        let trouble = removed.collect::<Vec<_>>().into_iter().chain(made).find_map(Result::err);
        let new = trouble.clone().filter(|error| told.as_ref() != Some(error));
        *told = trouble;
        new
    }

    /// Removes our links to what is gone: for containers that were removed while nobody looked. `alive`
    /// holds the ids of all containers of ours; Docker may be rotating their logs just now.
    pub fn sweep(&self, alive: &BTreeSet<String>) {
        let _turn = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let ours: Vec<PathBuf> = entries(&self.pods)
            .into_iter()
            .filter(|dir| self.owner(dir).as_ref() == Some(&self.root_dir))
            .collect();
        // Those by container first: once the pod's directory is gone, nobody knows whose they were.
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

    /// What is not there is removed already; what is no link was made by somebody else.
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

    /// Whose pod directory this is.
    fn owner(&self, dir: &Path) -> Option<PathBuf> {
        fs::read_link(dir.join(MARK)).ok()
    }

    /// Removes a pod's directory with its mark when there is nothing else in it.
    fn leave(&self, dir: &Path) {
        if entries(dir).iter().all(|path| path.ends_with(MARK)) {
            _ = fs::remove_file(dir.join(MARK));
            _ = fs::remove_dir(dir);
        }
    }
}

/// Absolute paths of what is in a directory; nothing when it cannot be read.
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

/// Makes `link` point to `target`; one that does already is not written.
fn point(link: &Path, target: &Path) -> Result<(), String> {
    match fs::read_link(link) {
        Ok(now) if now == target => return Ok(()),
        Ok(_) => fs::remove_file(link).map_err(said(link))?,
        // Not there; or no link, and then the next step says so.
        Err(_) => {}
    }
    symlink(target, link).map_err(said(link))
}

fn said(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("log link {}: {error}", path.display())
}
