//! Empties the writable layers of containers whose pods have ended. Such a pod cannot be evicted, and its containers
//! are not garbage: they record its end, its exit codes and its logs, and without them the pod would run again. So when
//! the disk is short, their layers are emptied and the containers stay. The same is done with dead containers of pods
//! that are gone or were evicted, if Docker does not remove them. (The kubelet removes such containers then,
//! `pkg/kubelet/kuberuntime/kuberuntime_gc.go`, `DeleteAllUnusedContainers`: the API server remembers the ends of its
//! pods.)
//!
//! The upper directory of an overlay may be changed while it is not mounted (Linux,
//! `Documentation/filesystems/overlayfs.rst`), or while nobody looks at it, and a container that has run is never started
//! again. If Docker's storage
//! driver does not tell that directory, the layers stay as they are.
//!
//! Never here: a container that runs, or a container of a pod that goes on; a directory that is not a container's own.

mod beside;

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::disk::{on_disk, runs, statuses, untold, untold_layer};
use crate::base::clock::Timestamp;
use crate::base::table::{Set, Table};
use crate::base::{limits, order, wait};
use crate::garbage::collector;
use crate::garbage::tie::Tie;
use crate::pod::{PodKey, is_final};
use crate::runtime::docker::Docker;
use crate::runtime::engine_root::EngineRoot;
use crate::runtime::progress::bytes;
use crate::runtime::{ContainerFiles, ContainerSummary, DockerState, labels};
use crate::stats::asking::{self, Question};
use crate::stats::disk::FileSystem;
use crate::stats::disk_use::{DiskUse, Reach, Round};
use crate::status::snapshot::{Latest, PodView, Snapshot};
use crate::volumes;

/// Containers of pods that have ended, by Docker's id.
pub(super) type Containers = Table<String, PodKey>;

/// UIDs of pods of which something runs or will run.
pub(super) fn going_on(snapshot: &Snapshot) -> Set<String> {
    let goes_on = |view: &&PodView| !is_over(view) && !has_left(view);
    order::set(snapshot.pods.iter().filter(goes_on).map(|view| view.pod.uid.clone()))
}

/// UIDs of pods whose logs stay whole, because pods of another source go before them: a pod that fills the disk must not
/// cost them.
pub(super) fn keep_logs(snapshot: &Snapshot) -> Set<String> {
    let goes_first =
        |view: &PodView| snapshot.standings.get(&view.pod.source).is_some_and(|it| it.evict_first);
    let any = snapshot.standings.values().any(|it| it.evict_first);
    order::set(snapshot.pods.iter().filter(|view| any && !goes_first(view)).map(|view| view.pod.uid.clone()))
}

/// Whether a pod is no longer wanted and nothing of it runs: only its files and containers are being removed.
pub(super) fn has_left(view: &PodView) -> bool {
    view.leaving.is_some() && !runs(&view.status)
}

/// Containers of pods that have ended: no container runs, and none will be started.
pub(super) fn containers(snapshot: &Snapshot) -> Containers {
    named(snapshot, is_over)
}

/// Containers of the pod with this UID.
pub(super) fn of_pod(snapshot: &Snapshot, uid: &str) -> Containers {
    named(snapshot, |view| view.pod.uid == uid)
}

fn named(snapshot: &Snapshot, is: impl Fn(&PodView) -> bool) -> Containers {
    let each = snapshot.pods.iter().filter(|view| is(view)).flat_map(|view| {
        on_disk(&view.status).map(|(_, id)| (id.to_owned(), view.pod.key.clone())).collect::<Vec<_>>()
    });
    each.collect()
}

fn is_over(view: &PodView) -> bool {
    let is_final = view.is_told && is_final(view.status.phase.as_deref());
    is_final && view.leaving.is_none() && !runs(&view.status)
}

/// Whether a pod has ended by itself not long ago: its files are being removed. Those of earlier ones cannot be removed, and
/// are not waited for.
pub(super) fn has_just_ended(view: &PodView, now: Timestamp) -> bool {
    let ended =
        statuses(&view.status).filter_map(|c| c.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
    let longest = i64::try_from(limits::EVICTION_LONGEST.as_secs()).unwrap_or(i64::MAX);
    let mut since = ended.map(|at| now.as_second().saturating_sub(at.0.as_second()));
    is_over(view) && since.any(|since| (-longest..longest).contains(&since))
}

/// Whether a pod with this UID is still being stopped: its layers can be emptied only after that.
pub(super) fn is_ending(snapshot: &Snapshot, uid: &str) -> bool {
    snapshot.pods.iter().any(|view| view.pod.uid == uid && !is_over(view))
}

/// Empties writable layers.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) docker: Docker,
    pub(super) docker_root: EngineRoot,
    pub(super) root_dir: PathBuf,
    /// Containers that have to be emptied before a pod is evicted.
    pub(super) containers: Containers,
    /// The present state, from which these two come once Docker's list is known: a pod of this list may be newer than the
    /// run, which may have removed images for minutes.
    pub(super) pods: Latest,
    /// UIDs of pods whose logs stay whole: another source goes first.
    pub(super) keep_logs: Set<String>,
    /// UIDs of the pods that go on: dead containers of other pods are only left over.
    pub(super) go_on: Set<String>,
    /// Containers whose processes were killed and are gone, by Docker's id, whatever Docker says of them.
    pub(super) killed: Set<String>,
    /// [`Emptied::removing`] of the run before.
    pub(super) before: Removing,
}

/// The result of a run.
#[derive(Debug, Default)]
pub(super) struct Emptied {
    /// Containers whose layers need no other run, by Docker's id.
    pub(super) done: Set<String>,
    /// There is more: the time was too short, or Docker removes it, and gets on.
    pub(super) has_more: bool,
    /// What Docker removes: a number for each container that changes while that gets on.
    pub(super) removing: Removing,
    /// UIDs of the pods that went on at that time.
    pub(super) went_on: Set<String>,
}

/// See [`Emptied::removing`]; by Docker's id.
pub(super) type Removing = Table<String, u64>;

/// A directory that belongs only to a dead container.
type Place<'a> = (&'a ContainerSummary, PathBuf);

/// Where files are, by Docker's id.
type Files = Table<String, Option<ContainerFiles>>;

impl Ended {
    /// Empties the writable layers of these containers, for a bounded time, and logs each. Stops when the run is to give
    /// way.
    pub(super) fn empty(mut self, tie: &Tie) -> Emptied {
        let Some(docker_root) = self.docker_root.get() else { return self.nothing() };
        // Their current states: an operator may have started one by hand.
        let all = match collector::containers(&self.docker) {
            Ok(all) => all,
            Err(error) => {
                log::warn!("layers of pods that have ended are not emptied: {error}");
                return self.nothing();
            }
        };
        tie.step();
        let snapshot = self.pods.get();
        (self.go_on, self.keep_logs) = (going_on(&snapshot), keep_logs(&snapshot));
        let (places, mut unknown) = self.places(&all, &docker_root, tie);
        let least = FileSystem::of(&docker_root).map(Least::of).unwrap_or_default();
        let dead: Vec<_> = all.iter().filter(|container| self.is_dead(container)).collect();
        let beside = self.beside(&dead, &all, &docker_root);
        // Many small places are as much as a large one.
        let least = least.shared(places.len().saturating_add(beside.len()));
        // The next run takes the rest.
        for file in beside.iter().take_while(|_| !tie.gives_way()) {
            tie.step();
            file.shorten(least.bytes);
        }
        let until = wait::later(limits::EMPTY_LAYERS);
        let removing = self.removing(&all, &docker_root);
        let mut has_more = removing.iter().any(|(id, state)| self.before.get(id) != Some(state));
        for (container, directory) in places {
            let mut goes_on = || {
                tie.step();
                !tie.gives_way() && Instant::now() < until
            };
            let result = if goes_on() { emptied(&directory, least, &mut goes_on) } else { Ok(Outcome::Late) };
            if matches!(result, Ok(Outcome::Late | Outcome::Part)) {
                unknown.insert(container.id.clone());
            }
            has_more |= matches!(result, Ok(Outcome::Late | Outcome::Part));
            tell(container, &directory, result);
        }
        let done = self.containers.keys().filter(|id| !unknown.contains(*id)).cloned().collect();
        Emptied { done, has_more, removing, went_on: self.go_on.clone() }
    }

    /// No container needs another run, because it would be in vain, too.
    fn nothing(&self) -> Emptied {
        let done = self.containers.keys().cloned().collect();
        Emptied { done, went_on: self.go_on.clone(), ..Emptied::default() }
    }

    /// Directories that belong only to dead containers of ended pods, and the containers that Docker does not tell of in
    /// time. Containers can share volumes without a name, too (`--volumes-from`); a volume that another container uses
    /// is left out, and so are all volumes while it is not known which ones are used.
    fn places<'a>(
        &self,
        all: &'a [ContainerSummary],
        docker_root: &Path,
        tie: &Tie,
    ) -> (Vec<Place<'a>>, Set<String>) {
        let dead: Vec<_> = all.iter().filter(|container| self.is_dead(container)).collect();
        let ids: Vec<String> = dead.iter().map(|container| container.id.clone()).collect();
        let (found, are_known) = self.files(&ids, docker_root, tie);
        let unknown = ids.into_iter().filter(|id| !found.contains_key(id)).collect();
        let mut places: Vec<Place<'_>> = Vec::new();
        for container in dead {
            let files = found.get(&container.id).and_then(Option::as_ref);
            let own = files.map(|files| own(files, docker_root)).unwrap_or_default();
            places.extend(own.into_iter().map(|directory| (container, directory)));
        }
        if places.iter().any(|(_, directory)| is_volume(directory)) {
            let others: Vec<String> =
                all.iter().map(|it| it.id.clone()).filter(|id| !found.contains_key(id)).collect();
            let mut used: Table<PathBuf, u32> = Table::new();
            let (of_others, others_known) = self.files(&others, docker_root, tie);
            let is_whole = are_known && others_known;
            for volume in found.values().chain(of_others.values()).flatten().flat_map(|files| &files.volumes)
            {
                *used.get_or_default(PathBuf::from(volume)) += 1;
            }
            places.retain(|(_, directory)| {
                !is_volume(directory) || is_whole && used.get(directory) == Some(&1)
            });
        }
        (places, unknown)
    }

    /// Where the files of containers are. A container of which Docker does not tell may be the one that fills the disk.
    /// Also returns whether all volumes are known.
    fn files(&self, ids: &[String], docker_root: &Path, tie: &Tie) -> (Files, bool) {
        let mut found = asking::files(&self.docker, ids, Question::Places, &|| tie.step()).found;
        let mut all_known = true;
        for id in ids {
            if !found.contains_key(id) {
                let untold = untold(docker_root, id);
                all_known &= untold.as_ref().is_some_and(|untold| untold.is_whole);
                found.extend(untold.map(|untold| (id.clone(), Some(untold.files))));
            }
        }
        (found, all_known)
    }

    /// Whether it is a container of a pod of this node that does not go on.
    fn is_left_over(&self, container: &ContainerSummary) -> bool {
        self.uid(container).is_some_and(|uid| !self.go_on.contains(uid))
    }

    fn is_dead(&self, container: &ContainerSummary) -> bool {
        let has_ended = container.state == DockerState::Exited && self.is_left_over(container);
        has_ended || self.killed.contains(&container.id)
    }

    /// How far Docker has come with the layers of such containers that it removes: they may have very many files.
    fn removing(&self, all: &[ContainerSummary], docker_root: &Path) -> Removing {
        let is = |it: &&ContainerSummary| it.state == DockerState::Removing && self.is_left_over(it);
        let state = |id: &str| progress(&untold_layer(docker_root, id)?);
        all.iter().filter(is).filter_map(|it| Some((it.id.clone(), state(&it.id)?))).collect()
    }
}

/// How the emptying of a directory has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The directory has so little that emptying it would not help.
    Little,
    /// The directory is empty, and had at least this.
    Whole(DiskUse),
    /// A part is removed.
    Part,
    /// There was no time to look.
    Late,
}

fn tell(container: &ContainerSummary, directory: &Path, result: io::Result<Outcome>) {
    let (name, path) = (&container.name, directory.display());
    let label = |key: &str| container.labels.get(key).map(String::as_str).unwrap_or_default();
    let key = format!("{}/{}", label(labels::POD_NAMESPACE), label(labels::POD_NAME));
    match result {
        Ok(Outcome::Little | Outcome::Late) => {}
        Ok(Outcome::Whole(freed)) => log::warn!(
            "pod {key} has ended, and the node is short of disk: what its container {name} has written ({} in {} files) \
             is removed",
            bytes(freed.bytes),
            freed.inodes
        ),
        Ok(Outcome::Part) => log::warn!(
            "pod {key} has ended, and the node is short of disk: a part of what its container {name} has written is \
             removed; the rest takes longer"
        ),
        Err(error) => {
            log::warn!("pod {key}: what its container {name} has written is not removed: {path}: {error}");
        }
    }
}

/// Directories that Docker made for the container: its writable layer, and volumes without a name that its image declares.
fn own(files: &ContainerFiles, docker_root: &Path) -> Vec<PathBuf> {
    let is = |path: &Path, fits: fn(&[&str]) -> bool| {
        let parts = path.strip_prefix(docker_root).ok().and_then(|rest| rest.to_str());
        parts.is_some_and(|parts| {
            let parts: Vec<&str> = parts.split('/').collect();
            !parts.contains(&"..") && fits(&parts)
        })
    };
    let layer = files.upper_dir.iter().map(PathBuf::from);
    let layer = layer.filter(|path| is(path, |parts| matches!(parts, [_, _, "diff"])));
    let volumes = files.volumes.iter().map(PathBuf::from);
    let volumes = volumes
        .filter(|path| is(path, |parts| matches!(parts, ["volumes", name, "_data"] if is_anonymous(name))));
    layer.chain(volumes).collect()
}

/// A number that changes while entries of this tree are removed, in the order in which they are read, as Docker does it;
/// `None`: the tree is gone. Only the first directories that are left are looked at.
fn progress(tree: &Path) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let mut at = tree.to_owned();
    for _ in 0..limits::REMOVAL_DEPTH {
        let found = fs::symlink_metadata(&at).ok().filter(fs::Metadata::is_dir);
        let Some(found) = found else { break };
        (at.as_os_str(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
        let entries = fs::read_dir(&at).into_iter().flatten().take(limits::REMOVAL_ENTRIES).flatten();
        let mut directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let Some(next) = directories.next() else { break };
        at = next.path();
    }
    tree.exists().then(|| hasher.finish())
}

fn is_volume(directory: &Path) -> bool {
    directory.ends_with("_data")
}

/// Docker and Podman give such names to volumes without a name.
fn is_anonymous(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|c| c.is_ascii_hexdigit())
}

/// The least that is worth emptying a place.
#[derive(Debug, Clone, Copy, Default)]
struct Least {
    bytes: u64,
    inodes: u64,
}

impl Least {
    /// If there is one place on this disk: a thousandth of its bytes or of its inodes.
    fn of(disk: FileSystem) -> Least {
        // A file system without a bound of inodes is never short of them. The directory itself has one.
        let inodes = if disk.inodes == 0 { u64::MAX } else { (disk.inodes / 1000).max(2) };
        Least { bytes: disk.capacity / 1000, inodes }
    }

    /// If there are so many, so that what stays in all is less than that.
    fn shared(self, count: usize) -> Least {
        let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
        let (bytes, inodes) = limits::ENDED_LEAST;
        let share = |all: u64, least: u64| (all / count).max(least.min(all));
        Least { bytes: share(self.bytes, bytes), inodes: share(self.inodes, inodes) }
    }
}

/// Empties a directory while `goes_on` returns true. A directory with less bytes and less inodes than `least` stays,
/// because emptying it would not help; one with more than can be counted quickly is emptied.
fn emptied(directory: &Path, least: Least, goes_on: &mut dyn FnMut() -> bool) -> io::Result<Outcome> {
    let mut round = Round::until(wait::later(limits::DISK_USE_QUICK), Arc::default());
    let before = round.tree(directory);
    let is_worth = before.bytes >= least.bytes || before.inodes >= least.inodes;
    if !is_worth && round.reach() != Reach::Exceeded {
        return Ok(Outcome::Little);
    }
    let is_whole = volumes::empty(directory, goes_on)?;
    Ok(if is_whole { Outcome::Whole(before) } else { Outcome::Part })
}

#[cfg(test)]
mod tests;
