//! What pods use of what is short. Memory and processes are read where the kernel tells them, at once; what lies on a
//! disk has to be counted, which may take minutes: that has a thread of its own.
//!
//! Never here: a decision about which pod goes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::disk::{Disks, containers};
use super::figures::Places;
use crate::eviction::rank::{Candidate, ContainerUse, Counted};
use crate::eviction::signal::{Resource, Signal};
use crate::layout;
use crate::pod::{priority, requests};
use crate::stats::cgroup::Hierarchies;
use crate::stats::disk::FileSystem;
use crate::stats::disk_use::{DiskUse, Round};
use crate::stats::{deleted, places};
use crate::status::snapshot::{PodView, Snapshot, UNMANAGED};

/// What one pod uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodUse {
    /// All of it; `None` when nobody can tell.
    used: Option<u64>,
    /// Its containers, by name, in the order of its status.
    containers: Vec<(String, u64)>,
    /// Cgroups of its containers, below the mount.
    pub(super) cgroups: Vec<PathBuf>,
}

/// What pods use, by UID.
pub(super) type Amounts = BTreeMap<String, PodUse>;

/// How pods are measured.
#[derive(Debug)]
pub(super) struct Measure {
    hierarchies: Hierarchies,
    root_dir: PathBuf,
    proc: PathBuf,
    resource: Resource,
    counted: Counted,
    /// Of files that were removed and are still open.
    deleted: deleted::Counted,
}

impl Measure {
    /// For this signal. `dedicated`: Docker's root directory has space of its own.
    pub(super) fn new(places: &Places, signal: Signal, dedicated: bool) -> Measure {
        let counted = Counted::of(signal, dedicated);
        let device = |directory: Option<PathBuf>, counts: bool| {
            directory.filter(|_| counts).and_then(|directory| FileSystem::of(&directory)).map(|it| it.device)
        };
        let devices = [
            device(Some(places.root_dir.clone()), counted.volumes),
            device(places.docker_root.get(), counted.of_docker),
        ];
        Measure {
            hierarchies: places.cgroups.clone(),
            root_dir: places.root_dir.clone(),
            proc: places.proc.clone(),
            resource: signal.resource(),
            counted,
            deleted: deleted::Counted {
                layers: counted.of_docker,
                devices: devices.into_iter().flatten().collect(),
            },
        }
    }

    /// Measures pods that may go and of which something runs. `None`: Docker does not answer, and nothing is known.
    pub(super) fn pods(&self, snapshot: &Snapshot, disks: &mut Disks) -> Option<Amounts> {
        let cgroups = places::containers(&self.hierarchies);
        disks.begin(&snapshot.pods);
        let mut all = Amounts::new();
        for view in snapshot.pods.iter().filter(|view| may_go(view)) {
            // Each pod has a round of its own: what one has lying about hides nothing of another.
            if let Some(found) = self.pod(view, &cgroups, disks, &mut Round::default()) {
                all.insert(view.pod.uid.clone(), found);
            }
            if disks.is_docker_silent() {
                return None;
            }
        }
        Some(all)
    }

    fn pod(
        &self,
        view: &PodView,
        cgroups: &BTreeMap<String, PathBuf>,
        disks: &mut Disks,
        round: &mut Round,
    ) -> Option<PodUse> {
        let of_disk = matches!(self.resource, Resource::Storage | Resource::Inodes);
        // On a disk lies also what a container has left that has ended: a pod that fills it and crashes is no better.
        let running: Vec<(&str, &str)> =
            containers(&view.status).filter(|(_, id)| of_disk || cgroups.contains_key(*id)).collect();
        if running.is_empty() && !of_disk {
            return None;
        }
        let at: Vec<PathBuf> = running.iter().filter_map(|(_, id)| cgroups.get(*id).cloned()).collect();
        let mut each = Vec::new();
        for (name, id) in &running {
            let used = self.container(id, cgroups.get(*id), disks, round);
            each.extend(used.map(|used| ((*name).to_owned(), used)));
        }
        let of_containers =
            (!each.is_empty()).then(|| each.iter().fold(0, |sum: u64, (_, used)| sum.saturating_add(*used)));
        let uid = &view.pod.uid;
        let used = match self.resource {
            // What an init container has left in a volume in memory is the pod's, and no container's.
            Resource::Memory | Resource::Pids => self.whole(uid, &at).or(of_containers),
            Resource::Storage | Resource::Inodes => {
                let volumes = match layout::pod_dir(&self.root_dir, uid) {
                    Some(directory) if self.counted.volumes => self.amount(round.tree(&directory)),
                    _ => 0,
                };
                let held = deleted::held(&self.proc, &self.hierarchies, &at, &self.deleted);
                let counted = of_containers.unwrap_or(0).saturating_add(volumes);
                // Who has more than can be counted, or hides it, counts as the one that has most.
                let held = held.filter(|_| round.is_whole()).map_or(u64::MAX, |held| self.amount(held));
                Some(counted.saturating_add(held))
            }
        };
        Some(PodUse { used, containers: each, cgroups: at })
    }

    /// Of the cgroup of the pod, when its containers have one in common.
    fn whole(&self, uid: &str, containers: &[PathBuf]) -> Option<u64> {
        let above = containers.first()?.parent()?;
        let name = above.file_name()?.to_str()?;
        // systemd's names have `_` for `-`.
        let is_of_pod = name.ends_with(&format!("pod{uid}"))
            || name.ends_with(&format!("pod{}.slice", uid.replace('-', "_")));
        if !is_of_pod {
            return None;
        }
        let figures = self.hierarchies.read(above);
        match self.resource {
            Resource::Memory => figures.working_set,
            Resource::Pids => figures.tasks,
            Resource::Storage | Resource::Inodes => None,
        }
    }

    fn container(
        &self,
        id: &str,
        cgroup: Option<&PathBuf>,
        disks: &mut Disks,
        round: &mut Round,
    ) -> Option<u64> {
        let figures = || cgroup.map(|path| self.hierarchies.read(path));
        match self.resource {
            Resource::Memory => figures()?.working_set,
            Resource::Pids => figures()?.tasks,
            Resource::Storage | Resource::Inodes if self.counted.of_docker => {
                let disk = disks.of_container(id, round);
                Some(self.amount(disk.writable.and(disk.logs)))
            }
            Resource::Storage | Resource::Inodes => Some(0),
        }
    }

    fn amount(&self, used: DiskUse) -> u64 {
        match self.resource {
            Resource::Inodes => used.inodes,
            _ => used.bytes,
        }
    }
}

/// The pods that may go now, with what was measured of them. One that was not measured has come since, or has nothing.
pub(super) fn candidates(snapshot: &Snapshot, resource: Resource, amounts: &Amounts) -> Vec<Candidate> {
    let may_go = snapshot.pods.iter().filter(|view| may_go(view));
    may_go.filter_map(|view| Some(candidate(view, resource, amounts.get(&view.pod.uid)?))).collect()
}

/// Whether a pod that may go has not been told of by its worker yet, right after the daemon's start: what it has is not
/// known, and another one would go for it.
pub(super) fn is_any_unknown(snapshot: &Snapshot) -> bool {
    snapshot.pods.iter().any(|view| may_go(view) && !view.is_told)
}

fn may_go(view: &PodView) -> bool {
    // What no source wants is not evicted: it is stopped, or left alone until its manifest can be read.
    let is_wanted = view.status.reason.as_deref() != Some(UNMANAGED);
    let has_ended = matches!(view.status.phase.as_deref(), Some("Failed" | "Succeeded"));
    // An order about a pod that nobody could stop would be lost, and waited for in vain.
    let can_go = view.is_kept && view.leaving.is_none();
    can_go && is_wanted && !has_ended
}

fn candidate(view: &PodView, resource: Resource, found: &PodUse) -> Candidate {
    let pod = &view.pod;
    let name = match resource {
        Resource::Memory => "memory",
        Resource::Storage => "ephemeral-storage",
        Resource::Inodes | Resource::Pids => "",
    };
    let request = |spec: i64| u64::try_from(spec).unwrap_or(0);
    let asked = |container: &str| {
        let found = pod.containers().find(|(_, c)| c.name == container);
        found.map_or(0, |(_, c)| request(requests::of_container(c, name)))
    };
    let containers = found.containers.iter().map(|(container, used)| ContainerUse {
        name: container.clone(),
        used: *used,
        request: asked(container),
    });
    Candidate {
        key: pod.key.clone(),
        uid: pod.uid.clone(),
        priority: priority::of(pod),
        used: found.used,
        request: if name.is_empty() { 0 } else { request(requests::request(&pod.spec, name)) },
        own_request: requests::own(&pod.spec, name).map(request),
        containers: containers.collect(),
    }
}
