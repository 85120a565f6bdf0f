//! What pods use of what is short. Memory and processes are read where the kernel tells them, at once; what lies on a
//! disk has to be counted, which may take minutes: that has threads of its own.
//!
//! Never here: a decision about which pod goes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::disk::{Disks, containers, on_disk};
use super::figures::Places;
use crate::base::{limits, order};
use crate::eviction::rank::{Candidate, ContainerUse, Counted};
use crate::eviction::signal::{Resource, Signal};
use crate::layout;
use crate::pod::{priority, requests};
use crate::stats::cgroup::{Figures, Hierarchies};
use crate::stats::disk::FileSystem;
use crate::stats::disk_use::{DiskUse, Progress, Reach, Round};
use crate::stats::{deleted, places};
use crate::status::snapshot::{PodView, Snapshot, UNMANAGED};

/// What one pod uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PodUse {
    /// All of it; `None` when nobody can tell.
    used: Option<u64>,
    /// There is more than could be counted.
    is_cut: bool,
    /// Its containers, by name, in the order of its status.
    containers: Vec<(String, u64)>,
    /// Cgroups of its containers, below the mount.
    pub(super) cgroups: Vec<PathBuf>,
}

/// What pods use, by UID.
pub(super) type Amounts = BTreeMap<String, PodUse>;

impl PodUse {
    /// A pod whose count hangs: what is known of an earlier one, or what this one has found so far.
    pub(super) fn at_least(before: Option<PodUse>, found: u64) -> PodUse {
        let known = before.unwrap_or_default();
        PodUse { used: known.used.max((found > 0).then_some(found)), ..known }
    }
}

/// How pods are measured.
#[derive(Debug)]
pub(super) struct Measure {
    hierarchies: Hierarchies,
    /// Cgroups of containers, by Docker's id.
    cgroups: BTreeMap<String, PathBuf>,
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
            cgroups: places::containers(&places.cgroups),
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

    /// Measures what the kernel tells of pods that may go and of which something runs: memory or processes.
    pub(super) fn pods(&self, snapshot: &Snapshot) -> Amounts {
        let may_go = snapshot.pods.iter().filter(|view| may_go(view));
        may_go.filter_map(|view| Some((view.pod.uid.clone(), self.pod(view)?))).collect()
    }

    fn pod(&self, view: &PodView) -> Option<PodUse> {
        let running: Vec<(&str, &PathBuf)> =
            containers(&view.status).filter_map(|(name, id)| Some((name, self.cgroups.get(id)?))).collect();
        let of = |cgroup: &PathBuf| self.of_kernel(&self.hierarchies.read(cgroup));
        let each: Vec<(String, u64)> =
            running.iter().filter_map(|(name, cgroup)| Some(((*name).to_owned(), of(cgroup)?))).collect();
        let at: Vec<PathBuf> = running.into_iter().map(|(_, cgroup)| cgroup.clone()).collect();
        // What an init container has left in a volume in memory is the pod's, and no container's.
        let used = self.whole(&view.pod.uid, &at).or_else(|| sum(&each));
        (!at.is_empty()).then_some(PodUse { used, is_cut: false, containers: each, cgroups: at })
    }

    /// Counts what a pod has on the disk, which may take long.
    pub(super) fn on_disk(&self, view: &PodView, disks: &mut Disks, progress: &Arc<Progress>) -> PodUse {
        let all: Vec<(&str, &str)> = on_disk(&view.status).collect();
        let cgroups: Vec<PathBuf> = all.iter().filter_map(|(_, id)| self.cgroups.get(*id).cloned()).collect();
        let mut each = BTreeMap::new();
        let until = Instant::now() + limits::DISK_USE_PATIENCE;
        let (reach, used) = believed(|| {
            progress.again();
            each.clear();
            // Each pod has a round of its own: what one has lying about hides nothing of another.
            let mut round = Round::until(until, Arc::clone(progress));
            for (name, id) in all.iter().filter(|_| self.counted.of_docker) {
                let disk = disks.of_container(id, &mut round);
                let sum: &mut u64 = each.entry((*name).to_owned()).or_default();
                *sum = sum.saturating_add(self.amount(disk.writable.and(disk.logs).and(disk.shared)));
            }
            let volumes = match layout::pod_dir(&self.root_dir, &view.pod.uid) {
                Some(directory) if self.counted.volumes => self.amount(round.tree(&directory)),
                _ => 0,
            };
            let counted = each.values().fold(volumes, |sum, used| sum.saturating_add(*used));
            let held = deleted::held(&self.proc, &self.hierarchies, &cgroups, &self.deleted, &mut round);
            (round.reach(), counted.saturating_add(self.amount(held)))
        });
        let is_cut = matches!(reach, Reach::Moved | Reach::Exceeded);
        PodUse { used: Some(used), is_cut, containers: each.into_iter().collect(), cgroups }
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
        self.of_kernel(&self.hierarchies.read(above))
    }

    fn of_kernel(&self, figures: &Figures) -> Option<u64> {
        match self.resource {
            Resource::Memory => figures.working_set,
            Resource::Pids => figures.tasks,
            Resource::Storage | Resource::Inodes => None,
        }
    }

    /// What of it is short.
    pub(super) fn amount(&self, used: DiskUse) -> u64 {
        match self.resource {
            Resource::Inodes => used.inodes,
            _ => used.bytes,
        }
    }
}

/// What a count is taken for. A tree that was changed meanwhile is counted again: a part of it may have been missed, or
/// counted twice, so of several such counts that in the middle holds. A disk that fails is nobody's fault, and what could
/// be read counts.
pub(super) fn believed<T: Ord>(mut count: impl FnMut() -> (Reach, T)) -> (Reach, T) {
    let mut moved = Vec::new();
    loop {
        let (reach, used) = count();
        if reach != Reach::Moved {
            return (reach, used);
        }
        moved.push(used);
        if moved.len() >= limits::DISK_USE_COUNTS {
            order::sort(&mut moved);
            let middle = moved.len() / 2;
            return (Reach::Moved, moved.swap_remove(middle));
        }
    }
}

fn sum(each: &[(String, u64)]) -> Option<u64> {
    (!each.is_empty()).then(|| each.iter().fold(0, |sum: u64, (_, used)| sum.saturating_add(*used)))
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

/// Whether it may be told to go.
pub(super) fn may_go(view: &PodView) -> bool {
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
        is_cut: found.is_cut,
        request: if name.is_empty() { 0 } else { request(requests::request(&pod.spec, name)) },
        own_request: requests::own(&pod.spec, name).map(request),
        containers: containers.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_moved_meanwhile_is_counted_several_times_before_it_is_believed() {
        let of = |counts: &[(Reach, u64)]| {
            let mut left = counts.iter().copied();
            let used = believed(|| left.next().unwrap());
            assert_eq!(left.next(), None, "{counts:?}");
            used
        };
        assert_eq!(of(&[(Reach::Whole, 7)]), (Reach::Whole, 7));
        assert_eq!(of(&[(Reach::Moved, 3), (Reach::Whole, 7)]), (Reach::Whole, 7));
        let moved = [(Reach::Moved, 30), (Reach::Moved, 4), (Reach::Moved, 7)];
        assert_eq!(of(&moved), (Reach::Moved, 7), "neither what was missed nor what was met twice");
        // A pod with many files went for what another had written.
        assert_eq!(of(&[(Reach::Exceeded, 3)]), (Reach::Exceeded, 3));
        assert_eq!(of(&[(Reach::Unreadable, 3)]), (Reach::Unreadable, 3), "that is not the pod's fault");
        assert_eq!(of(&[(Reach::Moved, 3), (Reach::Unreadable, 3)]), (Reach::Unreadable, 3));
    }
}
