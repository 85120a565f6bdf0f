//! Measures the usage of pods on the node's disk: where their files lie, and how large they are. Docker is asked once
//! for each container, for all that are missing together, and then the file system.
//!
//! If Docker's storage driver has no directory for each container (only `overlay2` and similar drivers have one),
//! Docker itself has to count, and it does not count inodes.
//!
//! Never here: a wait for Docker while files are counted ([`Disks::ask`] waits, and counts nothing).

use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use serde_json::{Map, Value};

use crate::base::table::{Set, Table};
use crate::base::{json, limits, regular};
use crate::cgroup::node::MOUNT;
use crate::eviction::local::{Claimed, Used, Wanted};
use crate::layout::{self, Kind};
use crate::runtime::docker::Docker;
use crate::runtime::engine_root::EngineRoot;
use crate::runtime::{ContainerFiles, names};
use crate::stats::asking::{self, Question};
use crate::stats::cgroup::Hierarchies;
use crate::stats::container_disk::{self, ContainerDisk};
use crate::stats::disk::FileSystem;
use crate::stats::disk_use::{DiskUse, Round};
use crate::stats::{deleted, places};
use crate::status::snapshot::PodView;

/// Usage of one pod on the node's disk, as far as its limits cover it. Of each container name only the newest container
/// counts, as with the kubelet: a limit is for the current container, not for the dead ones that are kept beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PodDisk {
    /// By name.
    pub containers: Table<String, ContainerDisk>,
    /// By name; volumes that lie on the node's disk and go with the pod.
    pub volumes: Table<String, DiskUse>,
    /// Files outside of the containers' own directories that containers may still write to: hosts, host name and
    /// resolver files, and termination messages.
    pub files: DiskUse,
    /// By name; claims whose size is a limit.
    pub claims: Table<String, Claimed>,
    /// Docker has not told where the files of these containers are: they count as zero.
    pub unknown: Vec<String>,
}

impl PodDisk {
    /// Bytes by name; a container's writable layer and logs together, other files without a name.
    pub(super) fn used(&self) -> Used {
        let of = |c: &ContainerDisk| c.writable.and(c.logs).bytes;
        Used {
            volumes: self.volumes.iter().map(|(name, it)| (name.clone(), it.bytes)).collect(),
            containers: self.containers.iter().map(|(name, it)| (name.clone(), of(it))).collect(),
            files: self.files.bytes,
            claims: self.claims.clone(),
            together: None,
        }
    }
}

/// Measures pods on disks, and remembers where the files of containers are.
#[derive(Debug, Clone)]
pub(super) struct Disks {
    docker: Docker,
    root: PathBuf,
    docker_root: EngineRoot,
    /// By container id.
    places: Table<String, ContainerFiles>,
    /// Docker's answers in this round that are not kept: sizes that it has counted, and containers that it does not
    /// know, by id.
    answers: Table<String, Option<ContainerFiles>>,
    /// Containers whose volumes are not known, by id.
    partly: Set<String>,
    is_silent: bool,
}

impl Disks {
    pub(super) fn new(docker: Docker, root: PathBuf, docker_root: EngineRoot) -> Disks {
        let (places, answers, partly) = (Table::new(), Table::new(), Set::new());
        Disks { docker, root, docker_root, places, answers, partly, is_silent: false }
    }

    /// podkeeper's root directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Begins a round: forgets containers that belong to none of these pods.
    pub(super) fn begin(&mut self, pods: &[PodView]) {
        self.answers.clear();
        self.partly.clear();
        self.is_silent = false;
        let is_there = |id: &str| pods.iter().any(|view| on_disk(&view.status).any(|(_, known)| known == id));
        self.places.retain(|id, _| is_there(id));
    }

    /// Whether Docker did not answer when it was asked last.
    pub(super) fn is_docker_silent(&self) -> bool {
        self.is_silent
    }

    /// Asks Docker about those of these containers whose files it has not told of in this round: about all of them at
    /// once. Waits for its answers, for a bounded time; `step` is called with each.
    pub(super) fn ask<'i>(&mut self, ids: impl Iterator<Item = &'i str>, step: &dyn Fn()) {
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        let is_new =
            |disks: &Disks, id: &String| !disks.places.contains_key(id) && !disks.answers.contains_key(id);
        let new: Vec<String> = ids.iter().filter(|id| is_new(self, id)).cloned().collect();
        let asked = asking::files(&self.docker, &new, Question::Places, step);
        self.is_silent = asked.is_silent;
        for (id, files) in asked.found {
            match files {
                Some(files) => _ = self.places.insert(id, files),
                None => _ = self.answers.insert(id, None),
            }
        }
        if self.is_silent {
            return;
        }
        // A container of which Docker does not tell must not count as empty: its pod may be the one that fills the disk.
        let docker_root = self.docker_root.get();
        for id in new.into_iter().filter(|id| is_new(self, id)).collect::<Vec<_>>() {
            let Some(Untold { files, is_whole }) = docker_root.as_deref().and_then(|root| untold(root, &id))
            else {
                continue;
            };
            if !is_whole {
                self.partly.insert(id.clone());
            }
            self.answers.insert(id, Some(files));
        }
        // Docker itself counts these sizes, every time.
        let sizes: Vec<String> =
            ids.into_iter().filter(|id| self.places.contains_key(id) && !self.knows(id)).collect();
        let asked = asking::files(&self.docker, &sizes, Question::Sizes, step);
        self.is_silent = asked.is_silent;
        self.answers.extend(asked.found);
    }

    /// Whether Docker has told all that is needed to count this container.
    pub(super) fn knows(&self, id: &str) -> bool {
        let is_told = self.answers.contains_key(id)
            || self.places.get(id).is_some_and(|files| files.upper_dir.is_some());
        is_told && !self.partly.contains(id)
    }

    /// The containers of a pod that are to be counted and of which Docker has not told.
    pub(super) fn unknown(&self, view: &PodView, wanted: &Wanted) -> Vec<String> {
        let ids = counted(view, wanted).map(|(_, id)| id).filter(|id| !self.knows(id));
        ids.map(str::to_owned).collect()
    }

    /// Counts the `wanted` parts of a pod. A part that Docker has not told counts as zero.
    pub(super) fn of_pod(&self, view: &PodView, wanted: &Wanted, round: &mut Round) -> PodDisk {
        let mut found = PodDisk::default();
        for volume in layout::volumes(&view.pod).filter(|volume| wanted.volumes.contains(&volume.name)) {
            let plugin = Kind::of(volume).plugin().unwrap_or_default();
            let parts = ["pods", &view.pod.uid, layout::VOLUMES, plugin, &volume.name];
            if let Some(path) = layout::below(&self.root, &parts) {
                found.volumes.insert(volume.name.clone(), round.tree(&path));
            }
        }
        for (name, size) in &wanted.claims {
            let parts = layout::claim(view.pod.source, &view.pod.key.namespace, name);
            let used =
                layout::below(&self.root, &parts).map(|path| round.tree(&path).bytes).unwrap_or_default();
            found.claims.insert(name.clone(), Claimed { used, size: *size });
        }
        found.unknown = self.unknown(view, wanted);
        for (name, id) in counted(view, wanted) {
            let disk = self.of_container(id, round);
            found.files = found.files.and(disk.shared);
            found.containers.insert(name.to_owned(), disk);
        }
        let own = |names: &[&str]| {
            let parts = [&["pods", &view.pod.uid], names].concat();
            layout::below(&self.root, &parts)
        };
        let single = [layout::HOSTS, layout::RESOLVER].into_iter().filter_map(|name| own(&[name]));
        found.files = single.fold(found.files, |sum, path| sum.and(round.file(&path)));
        for names in [&[layout::MESSAGES][..], &[layout::VOLUMES, layout::IMAGE_VOLUMES]] {
            found.files = own(names).into_iter().fold(found.files, |sum, path| sum.and(round.tree(&path)));
        }
        found
    }

    /// Bytes of removed files that a pod's processes still hold open. Notes in the round when some are held where
    /// podkeeper cannot see them.
    pub(super) fn removed(&self, view: &PodView, round: &mut Round) -> u64 {
        let hierarchies = Hierarchies::open(PathBuf::from(MOUNT));
        let places = places::containers(&hierarchies);
        let cgroups: Vec<PathBuf> =
            containers(&view.status).filter_map(|(_, id)| places.get(id).cloned()).collect();
        let disks = [Some(self.root.clone()), self.docker_root.get()].into_iter().flatten();
        let devices = disks.filter_map(|at| FileSystem::of(&at)).map(|it| it.device).collect();
        let counted = deleted::Counted { layers: true, devices };
        deleted::held(Path::new("/proc"), &hierarchies, &cgroups, &counted, round).bytes
    }

    /// Counts one container, as far as Docker has told where its files are.
    pub(super) fn of_container(&self, id: &str, round: &mut Round) -> ContainerDisk {
        round.step();
        let counted = self.answers.get(id).and_then(Option::as_ref);
        let Some(files) = counted.or_else(|| self.places.get(id)) else { return ContainerDisk::default() };
        let docker_root = self.docker_root.get();
        container_disk::read(id, files, docker_root.as_deref(), round)
    }
}

/// Where the files of a container are by the layout of Docker's own root directory
/// (`moby/moby`, `layer/filestore.go`, `daemon/graphdriver/overlay2`), if its storage driver is overlay2.
pub(super) fn untold(docker_root: &Path, id: &str) -> Option<Untold> {
    let upper_dir = untold_layer(docker_root, id)?;
    let own = docker_root.join("containers").join(id);
    let log_path = own.join(format!("{id}-json.log"));
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let log_path = if log_path.is_file() { text(log_path) } else { String::new() };
    let named = untold_volumes(&own);
    let is_whole = named.is_some();
    let volumes = named.into_iter().flatten().filter(|name| is_name(name));
    let volumes = volumes.map(|name| text(docker_root.join("volumes").join(name).join("_data"))).collect();
    let files =
        ContainerFiles { upper_dir: Some(text(upper_dir)), log_path, volumes, ..ContainerFiles::default() };
    Some(Untold { files, is_whole })
}

/// Places that Docker has not told.
#[derive(Debug, PartialEq)]
pub(super) struct Untold {
    pub(super) files: ContainerFiles,
    /// The volumes are known, too.
    pub(super) is_whole: bool,
}

/// The writable layer of a container, in the same way.
pub(super) fn untold_layer(docker_root: &Path, id: &str) -> Option<PathBuf> {
    let layer = docker_root
        .join("image/overlay2/layerdb/mounts")
        .join(Some(id).filter(|id| is_name(id))?)
        .join("mount-id");
    let layer = regular::read(&layer, limits::LAYER_NAME).ok()?;
    let layer = String::from_utf8(layer).ok().filter(|name| is_name(name))?;
    Some(docker_root.join("overlay2").join(layer).join("diff"))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Names of the volumes of a container, by Docker's own directory of it (`moby/moby`, `container/container.go`); `None`:
/// they are not known.
fn untold_volumes(own: &Path) -> Option<Vec<String>> {
    let written = regular::open(&own.join("config.v2.json")).ok()?.take(limits::DOCKER_CONFIG);
    // A pod's environment may make it very long.
    let points = json::member(&mut BufReader::new(written), "MountPoints", limits::DOCKER_MOUNTS).ok()?;
    if json::values(&points) > limits::DOCKER_CONFIG_VALUES {
        return None;
    }
    let points: Value = serde_json::from_slice(&points).ok()?;
    let name = |point: &Value| Some(point.get("Name")?.as_str()?.to_owned());
    Some(points.as_object().into_iter().flat_map(Map::values).filter_map(name).collect())
}

/// The newest containers of a pod that are to be counted, by name and id.
fn counted<'a>(view: &'a PodView, wanted: &'a Wanted) -> impl Iterator<Item = (&'a str, &'a str)> {
    let is_added = |name: &str| !view.pod.containers().any(|(_, c)| c.name == name);
    let counts = move |name: &str| wanted.containers.contains(name) || wanted.added && is_added(name);
    containers(&view.status).filter(move |(name, _)| counts(name))
}

/// Name and Docker id of the newest existing container of each name.
pub(super) fn containers(status: &PodStatus) -> impl Iterator<Item = (&str, &str)> {
    statuses(status).filter_map(|c| Some((c.name.as_str(), id(c.container_id.as_deref())?)))
}

/// The same, including dead containers that are kept beside their successors: their files lie on the disk, too. A
/// container that fills the disk and crashes must count like one that keeps running.
pub(super) fn on_disk(status: &PodStatus) -> impl Iterator<Item = (&str, &str)> {
    let dead = statuses(status).filter_map(|c| {
        let last = c.last_state.as_ref()?.terminated.as_ref()?;
        let last = id(last.container_id.as_deref())?;
        (id(c.container_id.as_deref()) != Some(last)).then_some((c.name.as_str(), last))
    });
    containers(status).chain(dead)
}

/// Whether a container of the pod runs.
pub(super) fn runs(status: &PodStatus) -> bool {
    statuses(status).any(|c| c.state.as_ref().is_some_and(|state| state.running.is_some()))
}

pub(super) fn statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let lists =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten()
}

fn id(text: Option<&str>) -> Option<&str> {
    names::docker_id(text?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn which_containers_lie_on_the_disk() {
        let of = |name: &str, id: &str, last: &str| {
            json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 1, "containerID": id,
                "lastState": {"terminated": {"exitCode": 1, "containerID": last}}})
        };
        let status: PodStatus = serde_json::from_value(json!({
            "containerStatuses": [of("app", "docker://a2", "docker://a1"), of("crashes", "docker://c", "docker://c")],
            "initContainerStatuses": [of("init", "docker://i", "")],
            "ephemeralContainerStatuses": [of("debug", "docker://d", "other://d")],
        }))
        .unwrap();
        let newest = [("app", "a2"), ("crashes", "c"), ("init", "i"), ("debug", "d")];
        assert_eq!(containers(&status).collect::<Vec<_>>(), newest);
        let all: Vec<(&str, &str)> = newest.into_iter().chain([("app", "a1")]).collect();
        assert_eq!(on_disk(&status).collect::<Vec<_>>(), all);
    }

    /// Docker did not tell of the container that filled the disk: it counted as empty, and innocent pods were evicted.
    #[test]
    fn a_container_of_which_docker_does_not_tell_is_found_in_its_root_directory() {
        let root = crate::base::testing::scratch("keeper-untold");
        let (id, layer) = ("a1".repeat(32), "b2".repeat(32));
        let of = root.join("image/overlay2/layerdb/mounts").join(&id);
        assert_eq!(untold(&root, &id), None);
        std::fs::create_dir_all(&of).unwrap();
        std::fs::write(of.join("mount-id"), &layer).unwrap();
        let found = untold(&root, &id).unwrap();
        assert!(found.files.upper_dir.is_some() && !found.is_whole, "it may have volumes");
        let own = root.join("containers").join(&id);
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("config.v2.json"), "{}").unwrap();
        let Untold { files: found, is_whole } = untold(&root, &id).unwrap();
        assert!(is_whole);
        assert_eq!(found.upper_dir, Some(format!("{}/overlay2/{layer}/diff", root.display())));
        assert_eq!((found.log_path.as_str(), found.volumes.len()), ("", 0));
        std::fs::write(own.join(format!("{id}-json.log")), "x").unwrap();
        let points = json!({"/v": {"Name": layer, "Type": "volume"}, "/h": {"Name": "", "Type": "bind"},
            "/x": {"Name": "../x"}});
        std::fs::write(own.join("config.v2.json"), json!({"MountPoints": &points}).to_string()).unwrap();
        let found = untold(&root, &id).unwrap().files;
        assert_eq!(found.volumes, [format!("{}/volumes/{layer}/_data", root.display())]);
        assert!(found.log_path.ends_with("-json.log"), "{}", found.log_path);
        // A long environment comes before the volumes.
        let env = json!(["x=".to_owned() + &"<".repeat(5 << 20)]).to_string();
        let record = format!(r#"{{"Config":{{"Env":{env}}},"MountPoints":{points}}}"#);
        std::fs::write(own.join("config.v2.json"), record).unwrap();
        let Untold { files: found, is_whole } = untold(&root, &id).unwrap();
        assert_eq!((found.volumes.len(), is_whole), (1, true));
        for wrong in ["..", "", "../x", "a/b"] {
            assert_eq!(untold(&root, wrong), None, "{wrong}");
            std::fs::write(of.join("mount-id"), wrong).unwrap();
            assert_eq!(untold(&root, &id), None, "{wrong}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
