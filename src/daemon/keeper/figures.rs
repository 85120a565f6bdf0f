//! What the keeper reads: how much the node has left, and what pods use. Nothing is remembered and nothing decided.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::disk::{Disks, containers};
use super::mind::Seen;
use crate::eviction::manager::Observation;
use crate::eviction::rank::{Candidate, ContainerUse, Counted};
use crate::eviction::signal::{Resource, Signal};
use crate::eviction::threshold::Threshold;
use crate::garbage::schedule::Disk;
use crate::layout;
use crate::pod::{priority, requests};
use crate::stats::cgroup::Hierarchies;
use crate::stats::disk::FileSystem;
use crate::stats::disk_use::{DiskUse, Round};
use crate::stats::{cgroup, node, places};
use crate::status::snapshot::{PodView, Snapshot, UNMANAGED};

/// Where the figures are.
#[derive(Debug)]
pub(super) struct Places {
    /// `/proc`.
    pub(super) proc: PathBuf,
    /// The mounted cgroups.
    pub(super) cgroups: Hierarchies,
    /// podkeeper's root directory.
    pub(super) root_dir: PathBuf,
    /// Docker's, once it has told.
    pub(super) docker_root: Option<PathBuf>,
}

/// One look.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) seen: Seen,
    /// Cgroups with the usage at which the kernel should tell, bytes.
    pub(super) usages: Vec<(PathBuf, u64)>,
}

impl Places {
    /// Looks at the node. `pods`: the path of the cgroup of all pods.
    pub(super) fn look(&self, thresholds: &[Threshold], pods: Option<&Path>) -> Look {
        let mut look = Look::default();
        let watched = |signals: &[Signal]| thresholds.iter().any(|t| signals.contains(&t.signal));
        let machine = node::read(&self.proc);
        let memory = |cgroup: &Path, figures: &cgroup::Figures, fallback: Option<u64>| {
            let working_set = figures.working_set.or(fallback)?;
            let capacity = match figures.limit {
                Some(limit) => machine.memory?.min(limit),
                None => machine.memory?,
            };
            let seen = Observation { available: capacity.saturating_sub(working_set), capacity };
            // The usage that the working set has at the threshold, the page cache being as it is.
            let cache = figures.usage.unwrap_or(working_set).saturating_sub(working_set);
            Some((seen, self.cgroups.threshold_events(cgroup), cache))
        };
        let mut of_memory = |signal: Signal, seen: Option<(Observation, Option<PathBuf>, u64)>| {
            let Some((seen, events, cache)) = seen else { return };
            look.seen.found.insert(signal, seen);
            let Some(events) = events else { return };
            // The kernel tells of one of them only; the others are above or below it.
            let value =
                thresholds.iter().filter(|t| t.signal == signal).map(|t| t.value.of(seen.capacity)).max();
            if let Some(value) = value {
                look.usages.push((events, seen.capacity.saturating_sub(value).saturating_add(cache)));
            }
        };
        if watched(&[Signal::Memory]) {
            let root = self.cgroups.read(Path::new(""));
            let seen = memory(Path::new(""), &root, machine.working_set);
            // On a small node most of what counts as a working set is cache that the kernel would give back: nobody goes
            // while it says that there is enough.
            let seen = seen.map(|(seen, events, cache)| {
                let available = seen.available.max(machine.available.unwrap_or(0)).min(seen.capacity);
                (Observation { available, ..seen }, events, cache)
            });
            of_memory(Signal::Memory, seen);
        }
        if let Some(pods) = pods.filter(|_| watched(&[Signal::AllocatableMemory])) {
            let figures = self.cgroups.read(pods);
            // Without a limit there is nothing that it could run short of by itself.
            if figures.limit.is_some() {
                of_memory(Signal::AllocatableMemory, memory(pods, &figures, None));
            }
        }
        if let (Some(tasks), Some(most)) = (machine.tasks, machine.most_tasks) {
            let seen = Observation { available: most.saturating_sub(tasks), capacity: most };
            look.seen.found.insert(Signal::Pid, seen);
        }
        let nodefs = FileSystem::of(&self.root_dir);
        let images = self.docker_root.as_deref().and_then(FileSystem::of);
        look.seen.images = images.map(|it| Disk { capacity: it.capacity, available: it.available });
        look.seen.dedicated = match (nodefs, images) {
            (Some(node), Some(images)) => node.device != images.device,
            _ => false,
        };
        for (disk, bytes, inodes) in
            [(nodefs, Signal::NodeFs, Signal::NodeFsInodes), (images, Signal::ImageFs, Signal::ImageFsInodes)]
        {
            let Some(disk) = disk.filter(|disk| disk.capacity > 0) else { continue };
            let found = &mut look.seen.found;
            found.insert(bytes, Observation { available: disk.available, capacity: disk.capacity });
            if disk.inodes > 0 {
                found.insert(inodes, Observation { available: disk.inodes_free, capacity: disk.inodes });
            }
        }
        look
    }

    /// The pods of which something runs, with what they use of what is short; and the cgroups of their containers.
    pub(super) fn candidates(
        &self,
        snapshot: &Snapshot,
        signal: Signal,
        dedicated: bool,
        disks: &mut Disks,
    ) -> Vec<(Candidate, Vec<PathBuf>)> {
        let cgroups = places::containers(&self.cgroups);
        let measure = Measure { places: self, signal, counted: Counted::of(signal, dedicated), cgroups };
        disks.retain(&snapshot.pods);
        // Each pod has a round of its own: what one has lying about hides nothing of another.
        let candidate = |view| measure.candidate(view, disks, &mut Round::default());
        snapshot.pods.iter().filter_map(candidate).collect()
    }
}

struct Measure<'a> {
    places: &'a Places,
    signal: Signal,
    counted: Counted,
    cgroups: BTreeMap<String, PathBuf>,
}

impl Measure<'_> {
    fn candidate(
        &self,
        view: &PodView,
        disks: &mut Disks,
        round: &mut Round,
    ) -> Option<(Candidate, Vec<PathBuf>)> {
        let phase = view.status.phase.as_deref();
        // What no source wants is not evicted: it is stopped, or left alone until its manifest can be read.
        let is_wanted = view.status.reason.as_deref() != Some(UNMANAGED);
        // An order about a pod that nobody could stop would be lost, and waited for in vain.
        let can_go = view.is_kept && view.leaving.is_none();
        if !can_go || !is_wanted || matches!(phase, Some("Failed" | "Succeeded")) {
            return None;
        }
        let (pod, resource) = (&view.pod, self.signal.resource());
        let of_disk = matches!(resource, Resource::Storage | Resource::Inodes);
        // On a disk lies also what a container has left that has ended: a pod that fills it and crashes is no better.
        let running: Vec<(&str, &str)> =
            containers(&view.status).filter(|(_, id)| of_disk || self.cgroups.contains_key(*id)).collect();
        if running.is_empty() && !of_disk {
            return None;
        }
        let at = |id: &str| self.cgroups.get(id).cloned();
        let paths: Vec<PathBuf> = running.iter().filter_map(|(_, id)| at(id)).collect();
        let name = match resource {
            Resource::Memory => "memory",
            Resource::Storage => "ephemeral-storage",
            Resource::Inodes | Resource::Pids => "",
        };
        let request = |spec: i64| u64::try_from(spec).unwrap_or(0);
        let each: Vec<(&str, Option<u64>)> =
            running.iter().map(|(name, id)| (*name, self.container(id, disks, round))).collect();
        let known: Vec<u64> = each.iter().filter_map(|(_, used)| *used).collect();
        let of_containers =
            (!known.is_empty()).then(|| known.iter().fold(0, |a: u64, b| a.saturating_add(*b)));
        let used = match resource {
            // What an init container has left in a volume in memory is the pod's, and no container's.
            Resource::Memory | Resource::Pids => self.whole(&pod.uid, &paths).or(of_containers),
            Resource::Storage | Resource::Inodes => {
                let volumes = match layout::pod_dir(&self.places.root_dir, &pod.uid) {
                    Some(directory) if self.counted.volumes => self.amount(round.tree(&directory)),
                    _ => 0,
                };
                let counted = of_containers.unwrap_or(0).saturating_add(volumes);
                // Who has more than can be counted, or hides it, counts as the one that has most.
                Some(if round.is_whole() { counted } else { u64::MAX })
            }
        };
        let asked = |container: &str| {
            let found = pod.containers().find(|(_, c)| c.name == container);
            found.map_or(0, |(_, c)| request(requests::of_container(c, name)))
        };
        let containers = each.iter().filter_map(|(container, used)| {
            Some(ContainerUse { name: (*container).to_owned(), used: (*used)?, request: asked(container) })
        });
        let candidate = Candidate {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            priority: priority::of(pod),
            used,
            request: if name.is_empty() { 0 } else { request(requests::request(&pod.spec, name)) },
            own_request: requests::own(&pod.spec, name).map(request),
            containers: containers.collect(),
        };
        Some((candidate, paths))
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
        let figures = self.places.cgroups.read(above);
        match self.signal.resource() {
            Resource::Memory => figures.working_set,
            Resource::Pids => figures.tasks,
            Resource::Storage | Resource::Inodes => None,
        }
    }

    fn container(&self, id: &str, disks: &mut Disks, round: &mut Round) -> Option<u64> {
        let figures = || self.cgroups.get(id).map(|path| self.places.cgroups.read(path));
        match self.signal.resource() {
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
        match self.signal.resource() {
            Resource::Inodes => used.inodes,
            _ => used.bytes,
        }
    }
}
