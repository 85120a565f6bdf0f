//! The keeper's figures of each look: how much the node has left. This module remembers and decides nothing, and asks
//! neither Docker nor file trees, which may take long.

use std::path::{Path, PathBuf};

use super::mind::Seen;
use crate::eviction::manager::Observation;
use crate::eviction::signal::Signal;
use crate::eviction::threshold::Threshold;
use crate::garbage::schedule::Disk;
use crate::runtime::engine_root::EngineRoot;
use crate::stats::cgroup::Hierarchies;
use crate::stats::disk::FileSystem;
use crate::stats::{cgroup, node};

/// Where the figures are read.
#[derive(Debug)]
pub(super) struct Places {
    /// `/proc`.
    pub(super) proc: PathBuf,
    /// The mounted cgroups.
    pub(super) cgroups: Hierarchies,
    /// podkeeper's root directory.
    pub(super) root_dir: PathBuf,
    /// Docker's root directory.
    pub(super) docker_root: EngineRoot,
}

/// The figures of one look.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) seen: Seen,
    /// Cgroups, each with the usage in bytes at which the kernel should notify.
    pub(super) usages: Vec<(PathBuf, u64)>,
}

impl Places {
    /// Reads the node's figures. `pods`: the path of the cgroup of all pods.
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
            // The usage at which the working set reaches the threshold, if the page cache stays as it is.
            let cache = figures.usage.unwrap_or(working_set).saturating_sub(working_set);
            Some((seen, self.cgroups.threshold_events(cgroup), cache))
        };
        let mut of_memory = |signal: Signal, seen: Option<(Observation, Option<PathBuf>, u64)>| {
            let Some((seen, events, cache)) = seen else { return };
            look.seen.found.insert(signal, seen);
            let Some(events) = events else { return };
            // The kernel notifies at one usage only: the largest threshold is the first to be met.
            let value =
                thresholds.iter().filter(|t| t.signal == signal).map(|t| t.value.of(seen.capacity)).max();
            let usage = value.map(|value| seen.capacity.saturating_sub(value).saturating_add(cache));
            // With much page cache the usage never gets there, because the kernel reclaims the cache first. It reports
            // stalls then.
            if let Some(usage) = usage.filter(|usage| *usage < seen.capacity) {
                look.usages.push((events, usage));
            }
        };
        if watched(&[Signal::Memory]) {
            let root = self.cgroups.read(Path::new(""));
            let seen = memory(Path::new(""), &root, machine.working_set);
            of_memory(
                Signal::Memory,
                seen.map(|(seen, events, cache)| (of_kernel(seen, &machine), events, cache)),
            );
        }
        if let Some(pods) = pods.filter(|_| watched(&[Signal::AllocatableMemory])) {
            let figures = self.cgroups.read(pods);
            // Without a limit the pods' cgroup cannot run short by itself.
            if figures.limit.is_some() {
                // Before it kills, the kernel reclaims used page cache, too. Half of it counts as available: the pods
                // may need the rest to work.
                let spare = figures.active_cache.unwrap_or(0) / 2;
                let seen = memory(pods, &figures, None).map(|(seen, events, cache)| {
                    let available = seen.available.saturating_add(spare).min(seen.capacity);
                    (Observation { available, ..seen }, events, cache.saturating_add(spare))
                });
                of_memory(Signal::AllocatableMemory, seen);
            }
        }
        if let (Some(tasks), Some(most)) = (machine.tasks, machine.most_tasks) {
            let seen = Observation { available: most.saturating_sub(tasks), capacity: most };
            look.seen.found.insert(Signal::Pid, seen);
        }
        let nodefs = FileSystem::of(&self.root_dir);
        let images = self.docker_root.get().as_deref().and_then(FileSystem::of);
        look.seen.images = images.map(|it| Disk { capacity: it.capacity, available: it.available });
        look.seen.dedicated = match (nodefs, images) {
            (Some(node), Some(images)) => !node.shares_space_with(&images),
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
}

/// On a small node most of the working set is page cache that the kernel would reclaim, and memory of sockets is in no
/// cgroup, so the kernel's own figure counts. If the node is only a part of the machine, the kernel's figure covers
/// more than the node, and the larger of both counts.
fn of_kernel(seen: Observation, machine: &node::Figures) -> Observation {
    let available = match machine.available {
        Some(available) if Some(seen.capacity) == machine.memory => available,
        available => seen.available.max(available.unwrap_or(0)),
    };
    Observation { available: available.min(seen.capacity), ..seen }
}
