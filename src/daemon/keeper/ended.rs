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
use std::sync::atomic::{AtomicBool, Ordering};

use super::disk::{on_disk, runs};
use crate::base::table::Table;
use crate::daemon::engine_root::EngineRoot;
use crate::garbage::collector;
use crate::pod::{PodKey, is_final};
use crate::runtime::docker::Docker;
use crate::runtime::progress::bytes;
use crate::runtime::{Call, ContainerFiles, ContainerSummary, DockerError, DockerState, Reply, labels};
use crate::stats::disk::FileSystem;
use crate::stats::disk_use::Round;
use crate::status::snapshot::Snapshot;
use crate::volumes;

/// Containers of pods that have ended, by Docker's id.
pub(super) type Containers = Table<String, PodKey>;

/// Containers of pods that have ended: no container runs, and none will be started.
pub(super) fn containers(snapshot: &Snapshot) -> Containers {
    let ended = snapshot.pods.iter().filter(|view| {
        let is_over = view.is_told && is_final(view.status.phase.as_deref());
        is_over && view.leaving.is_none() && !runs(&view.status)
    });
    let each = ended.flat_map(|view| {
        on_disk(&view.status).map(|(_, id)| (id.to_owned(), view.pod.key.clone())).collect::<Vec<_>>()
    });
    each.collect()
}

/// Empties writable layers.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) docker: Docker,
    pub(super) docker_root: EngineRoot,
    pub(super) root_dir: PathBuf,
    pub(super) containers: Containers,
}

impl Ended {
    /// Empties the writable layers of these containers, and logs each. Stops before the next one when `gives_way` is
    /// set.
    pub(super) fn empty(&self, gives_way: &AtomicBool) {
        let Some(docker_root) = self.docker_root.get().filter(|_| !self.containers.is_empty()) else {
            return;
        };
        // Their current states: an operator may have started one by hand.
        let all = match collector::containers(&self.docker) {
            Ok(all) => all,
            Err(error) => return log::warn!("layers of pods that have ended are not emptied: {error}"),
        };
        match self.places(&all, &docker_root, gives_way) {
            Ok(places) => {
                let least = FileSystem::of(&docker_root).map_or(0, |disk| disk.capacity / 1000);
                for (container, key, directory) in places {
                    if gives_way.load(Ordering::Relaxed) {
                        return;
                    }
                    tell(key, container, &directory, emptied(&directory, least));
                }
            }
            Err(error) => log::warn!("layers of pods that have ended are not emptied: {error}"),
        }
    }

    /// Directories that belong only to dead containers of ended pods. Containers can share volumes without a name, too
    /// (`--volumes-from`); a volume that another container uses is left out.
    fn places<'a>(
        &'a self,
        all: &'a [ContainerSummary],
        docker_root: &Path,
        gives_way: &AtomicBool,
    ) -> Result<Vec<(&'a ContainerSummary, &'a PodKey, PathBuf)>, DockerError> {
        let dead = all.iter().filter(|container| self.is_dead(container));
        let dead = dead.filter_map(|container| Some((container, self.containers.get(&container.id)?)));
        let mut places = Vec::new();
        for (container, key) in dead {
            let files = self.files(container)?;
            let own = own(&files, docker_root).into_iter();
            places.extend(own.map(|directory| (container, key, directory)));
        }
        if places.iter().any(|(_, _, directory)| is_volume(directory)) {
            let mut used: Table<PathBuf, u32> = Table::new();
            for container in all {
                if gives_way.load(Ordering::Relaxed) {
                    return Ok(Vec::new());
                }
                for volume in self.files(container)?.volumes {
                    *used.get_or_default(PathBuf::from(volume)) += 1;
                }
            }
            places.retain(|(_, _, directory)| !is_volume(directory) || used.get(directory) == Some(&1));
        }
        Ok(places)
    }

    /// Where a container's files are; empty if the container is gone.
    fn files(&self, container: &ContainerSummary) -> Result<ContainerFiles, DockerError> {
        match self.docker.call(&Call::Files { id: container.id.clone(), size: false }) {
            Ok(Reply::Files(files)) => Ok(*files),
            Err(error @ (DockerError::Unreachable(_) | DockerError::Timeout(_))) => Err(error),
            _ => Ok(ContainerFiles::default()),
        }
    }

    fn is_dead(&self, container: &ContainerSummary) -> bool {
        let root = container.labels.get(labels::ROOT_DIR).map(Path::new);
        container.state == DockerState::Exited && root == Some(&*self.root_dir)
    }
}

fn tell(key: &PodKey, container: &ContainerSummary, directory: &Path, result: io::Result<u64>) {
    let (name, path) = (&container.name, directory.display());
    match result {
        Ok(0) => {}
        Ok(freed) => log::warn!(
            "pod {key} has ended, and the node is short of disk: what its container {name} has written ({}) is removed",
            bytes(freed)
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

/// Empties a directory and returns the bytes freed, as far as one look can count them. A directory with less than
/// `least` bytes stays, because emptying it would not help.
fn emptied(directory: &Path, least: u64) -> io::Result<u64> {
    let before = Round::default().tree(directory).bytes;
    if before < least {
        return Ok(0);
    }
    volumes::empty(directory)?;
    Ok(before.saturating_sub(Round::default().tree(directory).bytes))
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

    #[test]
    fn a_directory_is_emptied_and_stays() {
        let base = scratch("keeper-ended");
        let at = base.join("diff");
        fs::create_dir_all(at.join("a/b")).unwrap();
        fs::write(at.join("a/b/file"), "x".repeat(100_000)).unwrap();
        fs::write(base.join("outside"), "x").unwrap();
        std::os::unix::fs::symlink(base.join("outside"), at.join("link")).unwrap();
        assert_eq!(emptied(&at, 1 << 20).unwrap(), 0, "so little helps nobody");
        assert!(at.join("a/b/file").exists());
        assert!(emptied(&at, 100_000).unwrap() >= 100_000);
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
        assert_eq!(emptied(&at, 0).unwrap(), 0, "nothing is told of it again");
        assert!(base.join("outside").exists());
        std::os::unix::fs::symlink(&base, base.join("l")).unwrap();
        assert!(emptied(&base.join("l"), 0).is_err(), "no link is followed");
        fs::remove_dir_all(base).unwrap();
    }
}
