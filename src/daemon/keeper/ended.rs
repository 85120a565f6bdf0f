//! Empties the writable layers of containers whose pods have ended. Such a pod cannot be evicted, and its containers
//! are not garbage: they record its end, its exit codes and its logs, and without them the pod would run again. So when
//! the disk is short, their layers are emptied and the containers stay. (The kubelet removes such containers then,
//! `pkg/kubelet/kuberuntime/kuberuntime_gc.go`, `DeleteAllUnusedContainers`: the API server remembers the ends of its
//! pods.)
//!
//! The upper directory of an overlay may be changed while it is not mounted (Linux,
//! `Documentation/filesystems/overlayfs.rst`), and a container that has run is never started again. If Docker's storage
//! driver does not tell that directory, the layers stay as they are.
//!
//! Never here: a container that runs, or a container of a pod that goes on; a directory that is not a container's own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::disk::{on_disk, runs, untold};
use crate::base::table::{Set, Table};
use crate::base::{limits, wait};
use crate::daemon::engine_root::EngineRoot;
use crate::garbage::collector;
use crate::garbage::tie::Tie;
use crate::pod::{PodKey, is_final};
use crate::runtime::docker::Docker;
use crate::runtime::progress::bytes;
use crate::runtime::{ContainerFiles, ContainerSummary, DockerState, labels};
use crate::stats::asking::{self, Question};
use crate::stats::disk::FileSystem;
use crate::stats::disk_use::{DiskUse, Reach, Round};
use crate::status::snapshot::{PodView, Snapshot};
use crate::volumes;

/// Containers of pods that have ended, by Docker's id.
pub(super) type Containers = Table<String, PodKey>;

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
    pub(super) containers: Containers,
}

/// The result of a run.
#[derive(Debug, Default)]
pub(super) struct Emptied {
    /// Containers whose layers need no other run, by Docker's id.
    pub(super) done: Set<String>,
    /// Something was removed, and there is more, for which the time was too short.
    pub(super) has_more: bool,
}

/// A directory that belongs only to a dead container.
type Place<'a> = (&'a ContainerSummary, &'a PodKey, PathBuf);

impl Ended {
    /// Empties the writable layers of these containers, for a bounded time, and logs each. Stops when the run is to give
    /// way.
    pub(super) fn empty(&self, tie: &Tie) -> Emptied {
        let Some(docker_root) = self.docker_root.get().filter(|_| !self.containers.is_empty()) else {
            return self.nothing();
        };
        // Their current states: an operator may have started one by hand.
        let all = match collector::containers(&self.docker) {
            Ok(all) => all,
            Err(error) => {
                log::warn!("layers of pods that have ended are not emptied: {error}");
                return self.nothing();
            }
        };
        tie.step();
        let (places, mut unknown) = self.places(&all, &docker_root, tie);
        let least = FileSystem::of(&docker_root).map(least).unwrap_or_default();
        let until = wait::later(limits::EMPTY_LAYERS);
        let mut has_more = false;
        for (container, key, directory) in places {
            let mut goes_on = || {
                tie.step();
                !tie.gives_way() && Instant::now() < until
            };
            let result = if goes_on() { emptied(&directory, least, &mut goes_on) } else { Ok(Outcome::Late) };
            if matches!(result, Ok(Outcome::Late | Outcome::Part)) {
                unknown.insert(container.id.clone());
            }
            has_more |= matches!(result, Ok(Outcome::Part));
            tell(key, container, &directory, result);
        }
        let done = self.containers.keys().filter(|id| !unknown.contains(*id)).cloned().collect();
        Emptied { done, has_more }
    }

    /// No container needs another run, because it would be in vain, too.
    fn nothing(&self) -> Emptied {
        Emptied { done: self.containers.keys().cloned().collect(), has_more: false }
    }

    /// Directories that belong only to dead containers of ended pods, and the containers that Docker does not tell of in
    /// time. Containers can share volumes without a name, too (`--volumes-from`); a volume that another container uses
    /// is left out, and so are all volumes while it is not known which ones are used.
    fn places<'a>(
        &'a self,
        all: &'a [ContainerSummary],
        docker_root: &Path,
        tie: &Tie,
    ) -> (Vec<Place<'a>>, Set<String>) {
        let dead = all.iter().filter(|container| self.is_dead(container));
        let dead: Vec<_> = dead.filter_map(|it| Some((it, self.containers.get(&it.id)?))).collect();
        let ids: Vec<String> = dead.iter().map(|(container, _)| container.id.clone()).collect();
        let mut found = asking::files(&self.docker, &ids, Question::Places, &|| tie.step()).found;
        // A container of which Docker does not tell may be the one that fills the disk.
        for id in &ids {
            if let Some(files) =
                Some(id).filter(|id| !found.contains_key(*id)).and_then(|id| untold(docker_root, id))
            {
                found.insert(id.clone(), Some(files));
            }
        }
        let unknown = ids.into_iter().filter(|id| !found.contains_key(id)).collect();
        let mut places: Vec<Place<'_>> = Vec::new();
        for (container, key) in dead {
            let files = found.get(&container.id).and_then(Option::as_ref);
            let own = files.map(|files| own(files, docker_root)).unwrap_or_default();
            places.extend(own.into_iter().map(|directory| (container, key, directory)));
        }
        if places.iter().any(|(_, _, directory)| is_volume(directory)) {
            let others: Vec<String> =
                all.iter().map(|it| it.id.clone()).filter(|id| !found.contains_key(id)).collect();
            let mut used: Table<PathBuf, u32> = Table::new();
            let of_others = asking::files(&self.docker, &others, Question::Places, &|| tie.step()).found;
            let is_whole = others.iter().all(|id| of_others.contains_key(id));
            for volume in found.values().chain(of_others.values()).flatten().flat_map(|files| &files.volumes)
            {
                *used.get_or_default(PathBuf::from(volume)) += 1;
            }
            places.retain(|(_, _, directory)| {
                !is_volume(directory) || is_whole && used.get(directory) == Some(&1)
            });
        }
        (places, unknown)
    }

    fn is_dead(&self, container: &ContainerSummary) -> bool {
        let root = container.labels.get(labels::ROOT_DIR).map(Path::new);
        container.state == DockerState::Exited && root == Some(&*self.root_dir)
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

fn tell(key: &PodKey, container: &ContainerSummary, directory: &Path, result: io::Result<Outcome>) {
    let (name, path) = (&container.name, directory.display());
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

fn is_volume(directory: &Path) -> bool {
    directory.ends_with("_data")
}

/// Docker and Podman give such names to volumes without a name.
fn is_anonymous(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|c| c.is_ascii_hexdigit())
}

/// The least that is worth emptying a directory of this disk: a thousandth of its bytes or of its inodes.
fn least(disk: FileSystem) -> DiskUse {
    // A file system without a bound of inodes is never short of them. The directory itself has one.
    let inodes = if disk.inodes == 0 { u64::MAX } else { (disk.inodes / 1000).max(2) };
    DiskUse { bytes: disk.capacity / 1000, inodes }
}

/// Empties a directory while `goes_on` returns true. A directory with less bytes and less inodes than `least` stays,
/// because emptying it would not help; one with more than can be counted quickly is emptied.
fn emptied(directory: &Path, least: DiskUse, goes_on: &mut dyn FnMut() -> bool) -> io::Result<Outcome> {
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
mod tests {
    use std::fs;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::base::testing::scratch;
    use crate::status::file::tests::snapshot;

    #[test]
    fn only_pods_that_have_ended_for_good_have_such_containers() {
        let id = "a".repeat(64);
        let of = |phase: &str, state: &str, change: fn(&mut crate::status::snapshot::PodView)| {
            let mut node = snapshot();
            node.pods.truncate(1);
            let status = json!({"phase": phase, "containerStatuses": [{"name": "app", "image": "", "imageID": "",
                "ready": false, "restartCount": 0, "containerID": format!("docker://{id}"),
                "state": {state: if state == "terminated" { json!({"exitCode": 0}) } else { json!({}) }}}]});
            node.pods[0].status = Arc::new(serde_json::from_value(status).unwrap());
            change(&mut node.pods[0]);
            let uid = node.pods[0].pod.uid.clone();
            // A slow Docker takes long to end a pod whose container has ended, and innocent pods were evicted meanwhile.
            assert_eq!(is_ending(&node, &uid), containers(&node).is_empty(), "it is one or the other");
            assert!(!is_ending(&node, "another"), "it is gone");
            containers(&node).len()
        };
        assert_eq!(of("Succeeded", "terminated", |_| {}), 1);
        assert_eq!(of("Failed", "terminated", |_| {}), 1);
        assert_eq!(of("Running", "terminated", |_| {}), 0, "it may be started again");
        assert_eq!(of("Failed", "running", |_| {}), 0, "a debugging container, or one that does not stop");
        assert_eq!(of("Failed", "terminated", |view| view.is_told = false), 0);
        assert_eq!(
            of("Failed", "terminated", |view| view.leaving = Some(crate::base::clock::Timestamp::UNIX_EPOCH)),
            0
        );
    }

    #[test]
    fn what_is_not_a_container_s_own_is_left_alone() {
        let id = "0a".repeat(32);
        let of = |upper: &str, volume: &str| {
            let volumes = vec![volume.to_owned()];
            let files =
                ContainerFiles { upper_dir: Some(upper.into()), volumes, ..ContainerFiles::default() };
            own(&files, Path::new("/d/docker")).len()
        };
        assert_eq!(of("/d/docker/overlay2/abc/diff", &format!("/d/docker/volumes/{id}/_data")), 2);
        for upper in [
            "/d/docker/overlay2/abc/merged",
            "/d/docker/overlay2/diff",
            "/d/docker/a/b/c/diff",
            "/d/docker/../x/diff",
            "/d/docker/overlay2/../diff",
            "/d/other/overlay2/abc/diff",
            "/d/docker",
            "/",
        ] {
            assert_eq!(of(upper, "/srv/data"), 0, "{upper}");
        }
        assert_eq!(of("/", "/d/docker/volumes/named/_data"), 0);
    }

    /// Regression: Docker answered no call about the container that had filled the disk; it was killed, its layer stayed,
    /// and innocent pods were evicted.
    #[test]
    fn the_layer_of_a_container_of_which_docker_does_not_tell_is_emptied() {
        let root = scratch("keeper-ended-untold");
        let docker_root = root.join("docker");
        let (id, layer) = ("a1".repeat(32), "b2".repeat(32));
        let of = docker_root.join("image/overlay2/layerdb/mounts").join(&id);
        let upper = docker_root.join("overlay2").join(layer.as_str()).join("diff");
        fs::create_dir_all(&of).unwrap();
        fs::create_dir_all(&upper).unwrap();
        fs::write(of.join("mount-id"), &layer).unwrap();
        let (never, soon) = (std::time::Duration::from_secs(30), std::time::Duration::from_millis(1));
        let docker = crate::runtime::testing::slow_docker(&root, never, soon, &root);
        let container = |id: &str, state| ContainerSummary {
            id: id.to_owned(),
            name: "k8s_app".into(),
            image: String::new(),
            image_id: String::new(),
            labels: [(labels::ROOT_DIR.to_owned(), root.to_string_lossy().into_owned())].into(),
            state,
            status: String::new(),
            created: 0,
            ips: None,
            networks: Vec::new(),
            length: 0,
        };
        let (runs, strange) = ("c3".repeat(32), "d4".repeat(32));
        let key = PodKey { namespace: "default".into(), name: "web".into() };
        let told = EngineRoot::default();
        told.tell(&docker_root.to_string_lossy());
        let ended = Ended {
            docker,
            docker_root: told,
            root_dir: root.clone(),
            containers: [&id, &runs, &strange].map(|id| (id.clone(), key.clone())).into(),
        };
        fs::create_dir_all(of.with_file_name(&runs)).unwrap();
        fs::write(of.with_file_name(&runs).join("mount-id"), &layer).unwrap();
        let all = [
            container(&id, DockerState::Exited),
            container(&runs, DockerState::Running),
            container(&strange, DockerState::Exited),
        ];
        let (places, unknown) = ended.places(&all, &docker_root, &Tie::default());
        let places: Vec<_> =
            places.into_iter().map(|(container, _, at)| (container.id.clone(), at)).collect();
        assert_eq!(places, [(id, upper)], "what runs is mounted");
        assert_eq!(unknown, [strange].into());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_directory_is_emptied_and_stays() {
        let base = scratch("keeper-ended");
        let at = base.join("diff");
        fs::create_dir_all(at.join("a/b")).unwrap();
        fs::write(at.join("a/b/file"), "x".repeat(100_000)).unwrap();
        fs::write(base.join("outside"), "x").unwrap();
        std::os::unix::fs::symlink(base.join("outside"), at.join("link")).unwrap();
        let least = |bytes| DiskUse { bytes, inodes: 30 };
        let always = || true;
        assert_eq!(
            emptied(&at, least(1 << 20), &mut { always }).unwrap(),
            Outcome::Little,
            "it helps nobody"
        );
        assert!(at.join("a/b/file").exists());
        let freed = emptied(&at, least(100_000), &mut { always }).unwrap();
        assert!(matches!(freed, Outcome::Whole(it) if it.bytes >= 100_000), "{freed:?}");
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
        assert_eq!(emptied(&at, least(100_000), &mut { always }).unwrap(), Outcome::Little, "not again");
        assert!(base.join("outside").exists());
        std::os::unix::fs::symlink(&base, base.join("l")).unwrap();
        assert!(
            emptied(&base.join("l"), DiskUse::default(), &mut { always }).is_err(),
            "no link is followed"
        );
        fs::remove_dir_all(base).unwrap();
    }

    /// Regression: an ended pod kept most inodes of a disk with empty files, which have no bytes, and other pods were
    /// evicted for it and stayed away.
    #[test]
    fn a_directory_of_many_empty_files_is_emptied_for_its_inodes() {
        let base = scratch("keeper-ended-inodes");
        let fill = || {
            fs::create_dir_all(&base).unwrap();
            (0..40).for_each(|n| fs::write(base.join(n.to_string()), "").unwrap());
        };
        fill();
        let disk = FileSystem::of(&base).unwrap();
        let of = |inodes| least(FileSystem { capacity: 1 << 40, inodes, ..disk });
        assert_eq!(emptied(&base, of(100_000), &mut || true).unwrap(), Outcome::Little);
        assert_eq!(emptied(&base, of(0), &mut || true).unwrap(), Outcome::Little, "it has no such bound");
        let freed = emptied(&base, of(30_000), &mut || true).unwrap();
        assert!(matches!(freed, Outcome::Whole(DiskUse { inodes: 41, .. })), "{freed:?}");
        // No time is left after ten files.
        fill();
        let mut left = 10;
        let mut goes_on = || {
            left -= 1;
            left >= 0
        };
        assert_eq!(emptied(&base, of(30_000), &mut goes_on).unwrap(), Outcome::Part);
        assert_eq!(fs::read_dir(&base).unwrap().count(), 30);
        fs::remove_dir_all(base).unwrap();
    }
}
