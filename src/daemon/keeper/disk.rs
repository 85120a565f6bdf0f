//! What pods take of the node's disk: where their things lie, and how much they are. Docker is asked once for each
//! container, and then the file system.
//!
//! Where Docker's storage driver has no directory of a container's own (only `overlay2` and its like have), Docker itself
//! has to count, and tells no inodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::PodStatus;

use crate::eviction::local::{Used, Wanted};
use crate::layout::{self, Kind};
use crate::runtime::docker::Docker;
use crate::runtime::{Call, ContainerFiles, Reply};
use crate::stats::disk_use::{DiskUse, Round};
use crate::status::snapshot::PodView;

/// What one container takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ContainerDisk {
    /// Its writable layer.
    pub writable: DiskUse,
    /// Its log, with rotated files.
    pub logs: DiskUse,
}

/// What one pod takes. A container is the newest one of its name: the dead one that is kept beside it does not count,
/// as with the kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PodDisk {
    /// By name.
    pub containers: BTreeMap<String, ContainerDisk>,
    /// By name; volumes that lie on the node's disk and go with the pod.
    pub volumes: BTreeMap<String, DiskUse>,
}

impl PodDisk {
    /// Bytes by name, writable layer and logs together.
    pub(super) fn used(&self) -> Used {
        let of = |c: &ContainerDisk| c.writable.and(c.logs).bytes;
        Used {
            volumes: self.volumes.iter().map(|(name, it)| (name.clone(), it.bytes)).collect(),
            containers: self.containers.iter().map(|(name, it)| (name.clone(), of(it))).collect(),
        }
    }
}

/// Looks at pods' disks, and remembers where containers are.
#[derive(Debug)]
pub(super) struct Disks {
    docker: Docker,
    root: PathBuf,
    /// Docker's own directory, when it has said it.
    docker_root: Option<PathBuf>,
    /// By container id.
    places: BTreeMap<String, ContainerFiles>,
}

impl Disks {
    pub(super) fn new(docker: Docker, root: PathBuf) -> Disks {
        Disks { docker, root, docker_root: None, places: BTreeMap::new() }
    }

    /// Forgets containers that are none of these pods' any more.
    pub(super) fn retain(&mut self, pods: &[PodView]) {
        let is_there =
            |id: &str| pods.iter().any(|view| containers(&view.status).any(|(_, known)| known == id));
        self.places.retain(|id, _| is_there(id));
    }

    /// Counts what is wanted of a pod. What Docker does not tell takes nothing.
    pub(super) fn of_pod(&mut self, view: &PodView, wanted: &Wanted, round: &mut Round) -> PodDisk {
        let mut found = PodDisk::default();
        for volume in layout::volumes(&view.pod).iter().filter(|volume| wanted.volumes.contains(&volume.name))
        {
            let plugin = Kind::of(volume).plugin().unwrap_or_default();
            let parts = ["pods", &view.pod.uid, layout::VOLUMES, plugin, &volume.name];
            if let Some(path) = layout::below(&self.root, &parts) {
                found.volumes.insert(volume.name.clone(), round.tree(&path));
            }
        }
        for (name, id) in containers(&view.status).filter(|(name, _)| wanted.containers.contains(*name)) {
            found.containers.insert(name.to_owned(), self.of_container(id, round));
        }
        found
    }

    /// Counts one container.
    pub(super) fn of_container(&mut self, id: &str, round: &mut Round) -> ContainerDisk {
        let Some(files) = self.files(id) else { return ContainerDisk::default() };
        let writable = match &files.upper_dir {
            Some(upper) => round.tree(Path::new(upper)),
            // Docker counts anew each time.
            None => {
                let size = self.ask(id, true).and_then(|files| files.size).unwrap_or(0);
                DiskUse { bytes: size, inodes: 0 }
            }
        };
        ContainerDisk { writable, logs: self.logs(id, &files, round) }
    }

    fn logs(&mut self, id: &str, files: &ContainerFiles, round: &mut Round) -> DiskUse {
        if !files.log_path.is_empty() {
            return round.log(Path::new(&files.log_path));
        }
        if files.log_driver != "local" {
            return DiskUse::default();
        }
        // Docker does not tell where they are, but they have been there since it has this driver.
        let root = self.docker_root.clone().or_else(|| self.ask_root());
        root.map(|root| round.tree(&root.join("containers").join(id).join("local-logs"))).unwrap_or_default()
    }

    fn files(&mut self, id: &str) -> Option<ContainerFiles> {
        if let Some(known) = self.places.get(id) {
            return Some(known.clone());
        }
        let files = self.ask(id, false)?;
        self.places.insert(id.to_owned(), files.clone());
        Some(files)
    }

    fn ask(&self, id: &str, size: bool) -> Option<ContainerFiles> {
        match self.docker.call(&Call::Files { id: id.to_owned(), size }) {
            Ok(Reply::Files(files)) => Some(*files),
            _ => None,
        }
    }

    fn ask_root(&mut self) -> Option<PathBuf> {
        let Ok(Reply::Info(info)) = self.docker.call(&Call::Info) else { return None };
        let root = Some(info.root_dir).filter(|root| !root.is_empty()).map(PathBuf::from);
        self.docker_root.clone_from(&root);
        root
    }
}

/// Name and Docker id of each container that is there.
pub(super) fn containers(status: &PodStatus) -> impl Iterator<Item = (&str, &str)> {
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.filter_map(|c| Some((c.name.as_str(), c.container_id.as_deref()?.strip_prefix("docker://")?)))
}
