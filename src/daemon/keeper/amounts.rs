//! Measures how much pods use of the resource that the node is short of. Memory and processes are read from the kernel
//! at once. Counting files on a disk may take minutes, so it has its own threads.
//!
//! Never here: a decision about which pod is evicted.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::disk::{Disks, containers, on_disk};
use super::figures::Places;
use crate::base::table::Table;
use crate::base::{limits, order};
use crate::eviction::rank::{Candidate, ContainerUse, Counted};
use crate::eviction::signal::{Resource, Signal};
use crate::garbage::collector::Collector;
use crate::garbage::shares::Shares;
use crate::layout;
use crate::pod::{Source, is_final, priority, requests};
use crate::policy::part;
use crate::stats::cgroup::{Figures, Hierarchies};
use crate::stats::disk::FileSystem;
use crate::stats::disk_use::{DiskUse, Progress, Reach, Round};
use crate::stats::{deleted, places};
use crate::status::snapshot::{ClaimView, PodView, Snapshot, SourceView, UNMANAGED};
use crate::volumes::claim_size;

/// Usage of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PodUse {
    /// Total; `None` when it is unknown.
    used: Option<u64>,
    /// The pod has more than could be counted.
    is_cut: bool,
    /// Docker has not told where all files of its containers are.
    is_partial: bool,
    /// Bytes of images that would be removed with the pod; part of `used`.
    images: u64,
    /// See [`PodUse::excess`]; not part of `used`.
    excess: u64,
    /// Usage of its containers, by name, in the order of its status.
    containers: Vec<(String, u64)>,
    /// Cgroups of its containers, below the mount.
    pub(super) cgroups: Vec<PathBuf>,
}

/// Usage of pods, by UID.
pub(super) type Amounts = Table<String, PodUse>;

impl PodUse {
    /// Bytes or inodes that claims of the node hold above what the claims of their sources may hold together, and bytes
    /// that images take which only ended pods of a source behind others have. No pod's end gives them back.
    pub(super) fn excess(&self) -> u64 {
        self.excess
    }

    /// The pod has more than could be counted.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The same usage, or the earlier one if that was more and this count lacks files of which Docker has not told.
    pub(super) fn or_before(self, before: Option<&PodUse>) -> PodUse {
        let known = before.filter(|_| self.is_partial).and_then(|before| before.used);
        PodUse { used: self.used.max(known), ..self }
    }

    /// The usage of a pod whose count hangs: the result of an earlier count, or the part that this count has found so
    /// far.
    pub(super) fn at_least(before: Option<PodUse>, found: u64) -> PodUse {
        let known = before.unwrap_or_default();
        PodUse { used: known.used.max((found > 0).then_some(found)), ..known }
    }
}

/// The measurement of pods for one signal.
#[derive(Debug)]
pub(super) struct Measure {
    hierarchies: Hierarchies,
    /// Cgroups of containers and of pods.
    cgroups: places::Found,
    root_dir: PathBuf,
    proc: PathBuf,
    resource: Resource,
    counted: Counted,
    /// Which removed files that are still open are counted.
    deleted: deleted::Counted,
    /// Tells the sizes of images.
    garbage: Option<Arc<Collector>>,
    /// Sizes of images; asked once.
    images: OnceLock<Shares>,
    /// The most that the claims of each source may hold together.
    bounds: Vec<(Source, DiskUse)>,
    /// The amount that they hold above it.
    excess: OnceLock<u64>,
    /// The excess is being counted, or was counted.
    is_excess_counted: AtomicBool,
}

impl Measure {
    /// A measurement for this signal. `dedicated`: Docker's root directory has space of its own.
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
            cgroups: places::all(&places.cgroups),
            root_dir: places.root_dir.clone(),
            proc: places.proc.clone(),
            resource: signal.resource(),
            counted,
            deleted: deleted::Counted {
                layers: counted.of_docker,
                devices: devices.into_iter().flatten().collect(),
            },
            garbage: None,
            images: OnceLock::new(),
            bounds: Vec::new(),
            excess: OnceLock::new(),
            is_excess_counted: AtomicBool::new(false),
        }
    }

    /// Adds the bounds of claims, if claims lie on the disk that is short.
    pub(super) fn with_claims(self, snapshot: &Snapshot) -> Measure {
        let all = snapshot.standings.iter();
        let bounds = all.filter_map(|(of, it)| Some((*of, claim_size::together(&self.root_dir, it.claims)?)));
        let is_of_disk = matches!(self.resource, Resource::Storage | Resource::Inodes);
        let bounds = if self.counted.volumes && is_of_disk { bounds.collect() } else { Vec::new() };
        Measure { bounds, ..self }
    }

    /// Only the first caller counts: if a claim lies on a disk that hangs, the other pods' counts do not wait for it.
    fn excess(&self, progress: &Arc<Progress>) -> u64 {
        if !self.is_excess_counted.swap(true, Ordering::Relaxed) {
            _ = self.excess.set(self.count_excess(progress));
        }
        self.excess.get().copied().unwrap_or(0)
    }

    fn count_excess(&self, progress: &Arc<Progress>) -> u64 {
        let until = Instant::now() + limits::CLAIM_LOOK;
        let of = |(source, most): &(Source, DiskUse)| {
            let mut round = Round::until(until, Arc::clone(progress));
            let used = claim_size::of_source(&self.root_dir, *source, &mut round);
            self.amount(used).saturating_sub(self.amount(*most))
        };
        self.bounds.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Adds the sizes of images, if images lie on the disk that is short.
    pub(super) fn with_images(self, garbage: Option<Arc<Collector>>) -> Measure {
        let counts = self.counted.of_docker && self.resource == Resource::Storage;
        Measure { garbage: garbage.filter(|_| counts), ..self }
    }

    /// Measures the running pods that may be evicted, by the kernel's figures: memory or processes.
    pub(super) fn pods(&self, snapshot: &Snapshot) -> Amounts {
        let may_go = snapshot.pods.iter().filter(|view| may_go(view));
        may_go.filter_map(|view| Some((view.pod.uid.clone(), self.pod(view)?))).collect()
    }

    fn pod(&self, view: &PodView) -> Option<PodUse> {
        let running: Vec<(&str, &PathBuf)> = containers(&view.status)
            .filter_map(|(name, id)| Some((name, self.cgroups.containers.get(id)?)))
            .collect();
        let of = |cgroup: &PathBuf| self.of_kernel(&self.hierarchies.read(cgroup));
        let each: Vec<(String, u64)> =
            running.iter().filter_map(|(name, cgroup)| Some(((*name).to_owned(), of(cgroup)?))).collect();
        let at: Vec<PathBuf> = running.into_iter().map(|(_, cgroup)| cgroup.clone()).collect();
        // Files in a volume in memory count for the pod even while none of its containers runs.
        let whole = self.cgroups.of_pod(&view.pod.uid);
        let used = whole.and_then(of).or_else(|| sum(&each));
        (whole.is_some() || !at.is_empty()).then_some(PodUse {
            used,
            containers: each,
            cgroups: at,
            ..PodUse::default()
        })
    }

    /// Asks Docker for all that it has to tell before pods are counted: the places of the files of these pods, and the
    /// sizes of images. Waits for Docker, for a bounded time.
    pub(super) fn ask<'v>(
        &self,
        pods: impl Iterator<Item = &'v PodView>,
        disks: &mut Disks,
        progress: &Progress,
    ) {
        if self.counted.of_docker {
            let ids = pods.flat_map(|view| on_disk(&view.status).map(|(_, id)| id));
            disks.ask(ids, &|| progress.step());
        }
        if !disks.is_docker_silent() {
            _ = self.shares();
        }
        progress.step();
    }

    fn shares(&self) -> &Shares {
        self.images.get_or_init(|| self.garbage.as_ref().map(|garbage| garbage.shares()).unwrap_or_default())
    }

    /// Counts the files of a pod on the disk, after [`Measure::ask`]. This may take long, but no longer than `patience`.
    pub(super) fn on_disk(
        &self,
        (view, patience): (&PodView, Duration),
        claims: &[ClaimView],
        disks: &Disks,
        progress: &Arc<Progress>,
    ) -> PodUse {
        let all: Vec<(&str, &str)> = on_disk(&view.status).collect();
        let cgroups: Vec<PathBuf> =
            all.iter().filter_map(|(_, id)| self.cgroups.containers.get(*id).cloned()).collect();
        let mut each = Table::new();
        let until = Instant::now() + patience;
        let (reach, used) = believed(|| {
            progress.again();
            each.clear();
            // Each container has its own round, so that a container with many files hides no files of another.
            let mut round = Round::until(until, Arc::clone(progress));
            for (name, id) in all.iter().filter(|_| self.counted.of_docker) {
                let disk = disks.of_container(id, &mut round);
                let sum: &mut u64 = each.get_or_default((*name).to_owned());
                *sum = sum.saturating_add(self.amount(disk.writable.and(disk.logs).and(disk.shared)));
            }
            let volumes = match layout::pod_dir(&self.root_dir, &view.pod.uid) {
                Some(directory) if self.counted.volumes => self.amount(round.tree(&directory)),
                _ => 0,
            };
            let claims = claims.iter().filter(|_| self.counted.volumes);
            let claims = claims.map(|claim| self.amount(self.claim(view, claim, &mut round)));
            let volumes = claims.fold(volumes, u64::saturating_add);
            let counted = each.values().fold(volumes, |sum, used| sum.saturating_add(*used));
            let held = deleted::held(&self.proc, &self.hierarchies, &cgroups, &self.deleted, &mut round);
            (round.reach(), counted.saturating_add(self.amount(held)))
        });
        let is_cut = matches!(reach, Reach::Moved | Reach::Exceeded);
        let is_partial = self.counted.of_docker && !all.iter().all(|(_, id)| disks.knows(id));
        let shares = self.shares();
        let images = shares.pods.get(&view.pod.uid).copied().unwrap_or(0);
        let used = Some(used.saturating_add(images));
        let excess = self.excess(progress).saturating_add(shares.ended);
        PodUse { used, is_cut, is_partial, images, excess, containers: each.into_iter().collect(), cgroups }
    }

    /// Counts a claim for each pod that may write to it, because the writer of a file is unknown. Evicting the pod
    /// leaves the claim as it is, but stops its growth. Usage up to the size that the operator has set does not count;
    /// a size that a source with a restricted Pod Security level has set itself does not protect the pod.
    fn claim(&self, view: &PodView, claim: &ClaimView, round: &mut Round) -> DiskUse {
        let parts = layout::claim(view.pod.source, &view.pod.key.namespace, &claim.name);
        let Some(path) = layout::below(&self.root_dir, &parts) else { return DiskUse::default() };
        let device = |path: &Path| FileSystem::of(path).map(|it| it.device);
        // The claim may be a disk of its own.
        if device(&path) != device(&self.root_dir) {
            return DiskUse::default();
        }
        let used = round.tree(&path);
        let given = claim.storage.filter(|_| !claim.is_held).unwrap_or(0);
        let bytes = used.bytes.saturating_sub(given);
        DiskUse { bytes, inodes: if bytes > 0 { used.inodes } else { 0 } }
    }

    fn of_kernel(&self, figures: &Figures) -> Option<u64> {
        match self.resource {
            Resource::Memory => figures.working_set,
            Resource::Pids => figures.tasks,
            Resource::Storage | Resource::Inodes => None,
        }
    }

    /// The amount of the resource that is short: inodes or bytes.
    pub(super) fn amount(&self, used: DiskUse) -> u64 {
        match self.resource {
            Resource::Inodes => used.inodes,
            _ => used.bytes,
        }
    }
}

/// Repeats a count until it can be trusted. A tree that changed during the count is counted again, because parts of it
/// may have been missed or counted twice; after several such counts the median is used. When a disk fails, the part
/// that could be read counts.
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

/// The pods that may be evicted now, with their measured usage. Pods without a measurement are new or use nothing, and
/// are left out. `capacity`: total amount of the resource that is short.
pub(super) fn candidates(
    snapshot: &Snapshot,
    resource: Resource,
    capacity: u64,
    amounts: &Amounts,
) -> Vec<Candidate> {
    let may_go = || snapshot.pods.iter().filter(|view| may_go(view));
    let mut sums: Table<Source, u64> = Table::new();
    for view in may_go() {
        let sum = sums.get_or_default(view.pod.source);
        *sum = sum.saturating_add(request_of(view, resource));
    }
    let right = |view: &PodView| {
        let percent = snapshot.standings.get(&view.pod.source).map_or(100, |of| of.requests);
        let (sum, most) = (sums.get(&view.pod.source).copied().unwrap_or(0), part(capacity, percent));
        let is_held = percent < 100 && sum > most;
        let asked = request_of(view, resource);
        if is_held { scaled(asked, most, sum) } else { asked }
    };
    may_go()
        .filter_map(|view| {
            let found = amounts.get(&view.pod.uid)?;
            let goes_first = snapshot.standings.get(&view.pod.source).is_some_and(|of| of.evict_first);
            Some(Candidate { goes_first, ..candidate(view, resource, right(view), found) })
        })
        .collect()
}

/// `asked` scaled down, so that all requests of the source, `sum`, fit into `most`.
fn scaled(asked: u64, most: u64, sum: u64) -> u64 {
    let part = u128::from(asked) * u128::from(most) / u128::from(sum.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Whether the usage of some pod may still be unknown right after the daemon's start, because Docker or a source has
/// not reported yet, or a worker has not reported its pod. Without waiting, another pod would be evicted in its place.
pub(super) fn is_any_unknown(snapshot: &Snapshot) -> bool {
    !snapshot.docker.reachable
        || snapshot.sources.iter().any(SourceView::is_silent)
        || snapshot.pods.iter().any(|view| may_go(view) && !view.is_told && !is_unmanaged(view))
}

/// Everything known about the pod comes from Docker's list.
fn is_unmanaged(view: &PodView) -> bool {
    view.status.reason.as_deref() == Some(UNMANAGED)
}

/// Whether the pod may be ordered to stop.
pub(super) fn may_go(view: &PodView) -> bool {
    let has_ended = is_final(view.status.phase.as_deref());
    // An order to stop a pod that cannot be stopped has no effect, and the keeper would wait for it in vain. A pod that
    // no source wants is being stopped already and can be hurried, or is left alone until its manifest can be read.
    view.is_kept && !has_ended
}

/// Name of the resource in requests; empty when it cannot be requested.
fn name_of(resource: Resource) -> &'static str {
    match resource {
        Resource::Memory => "memory",
        Resource::Storage => "ephemeral-storage",
        Resource::Inodes | Resource::Pids => "",
    }
}

fn request(spec: i64) -> u64 {
    u64::try_from(spec).unwrap_or(0)
}

fn request_of(view: &PodView, resource: Resource) -> u64 {
    let name = name_of(resource);
    if name.is_empty() { 0 } else { request(requests::request(&view.pod.spec, name)) }
}

/// `right`: the part of its request that counts.
fn candidate(view: &PodView, resource: Resource, right: u64, found: &PodUse) -> Candidate {
    let (pod, name) = (&view.pod, name_of(resource));
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
        source: pod.source,
        priority: priority::of(pod),
        used: found.used,
        // Of what Docker does not tell, as little is known as of what cannot be counted.
        is_cut: found.is_cut || found.is_partial,
        images: found.images,
        goes_first: false,
        request: right,
        asked: request_of(view, resource),
        own_request: requests::own(&pod.spec, name).map(request),
        containers: containers.collect(),
    }
}

#[cfg(test)]
mod tests;
