//! The eviction of a pod: the keeper measures the pods, and the manager chooses one of them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::amounts::{Amounts, Measure, PodUse, candidates, is_any_unknown};
use super::aside::Aside;
use super::counting::Ended;
use super::mind::{Choice, Seen};
use super::{Gone, Rounds, disk, ended};
use crate::base::clock::{Clock as _, Mono};
use crate::eviction::News;
use crate::eviction::manager::End;
use crate::eviction::rank::{Candidate, Counted};
use crate::eviction::signal::Signal;
use crate::eviction::threshold::Threshold;
use crate::layout;
use crate::pod::PodKey;
use crate::pod::ends::{Ends, Known};
use crate::runtime::labels;
use crate::stats::places;
use crate::status::snapshot::{PodView, Snapshot};

/// An evicted pod.
#[derive(Debug)]
pub(super) struct Victim {
    /// Its identity; `None` where only its UID is known.
    pub(super) key: Option<PodKey>,
    pub(super) uid: String,
    /// Cgroups of its containers, which exist until these have ended.
    pub(super) cgroups: Vec<PathBuf>,
    /// The directories of its volumes, of which one exists until they are removed.
    pub(super) volumes: Vec<PathBuf>,
    /// A disk is short.
    pub(super) of_disk: bool,
    /// Its writable layers take the disk that is short: they are emptied after its end.
    pub(super) has_layers: bool,
    /// Its processes were killed because Docker did not stop it.
    pub(super) was_killed: bool,
    /// Other pods of which something is being removed.
    pub(super) beside: Vec<Known>,
}

impl Victim {
    /// Its name for the manager, which may find that it hangs: a pod whose earlier volumes hang may go itself.
    fn awaited_as(&self) -> String {
        let is_gone = self.of_disk && self.volumes.len() == 1;
        if is_gone { self.uid.clone() + "/gone" } else { self.uid.clone() }
    }

    /// What is left of it.
    pub(super) fn end(&self, snapshot: &Snapshot, ends: &Ends) -> End {
        let runs = self.cgroups.iter().any(|cgroup| cgroup.exists());
        let is_there = runs
            || self.volumes.iter().any(|volumes| volumes.exists())
            || self.has_layers && ended::is_ending(snapshot, &self.uid);
        // Without such paths the end of the pod cannot be seen, and the whole waiting time passes.
        let is_seen = !self.cgroups.is_empty() || !self.volumes.is_empty();
        if is_seen && !is_there {
            return End::Gone;
        }
        // Files that are being removed keep no shortage of memory or processes waiting for longer.
        End::Goes(if runs || self.of_disk { ends.steps(&self.uid) } else { 0 })
    }
}

impl Rounds {
    /// Begins to count the usage of pods on disks.
    pub(super) fn measure(&mut self, signal: Signal, dedicated: bool, now: Mono) {
        let snapshot = self.parts.pods.get();
        let was_evicted = !snapshot.evictions.is_empty();
        if self.waits_for_pods(&snapshot) || was_evicted && self.mind.awaits_earlier(now) {
            return self.mind.counts_later();
        }
        if !snapshot.docker.reachable {
            return self.mind.not_measured(now);
        }
        let pods = {
            let garbage = self.parts.garbage.clone();
            self.counting.begin(&self.places, signal, dedicated, garbage, snapshot)
        };
        let first = self.mind.counts(signal, pods, now);
        self.count(first, now);
    }

    /// Counts the next pod; after the last one, the results are for the next look.
    fn count(&mut self, next: Option<String>, now: Mono) {
        let Some(uid) = next else {
            self.measured = Some(self.counting.end());
            return;
        };
        if let Err(error) = self.counting.count(uid) {
            log::warn!("which pod fills the disk is not counted: no thread could be started: {error}");
            self.counting.stop();
            self.mind.not_measured(now);
        }
    }

    /// Checks whether the count of the current pod hangs.
    pub(super) fn watch_count(&mut self, now: Mono) {
        let Some(progress) = self.counting.progress() else { return };
        if let Some((_, next)) = self.mind.watch_count(progress, now) {
            self.counting.give_up();
            self.count(next, now);
        }
    }

    /// Handles the end of a counting thread. After the last one, the next look chooses a pod, by what the node has left
    /// and the pods that exist then.
    pub(super) fn counted(&mut self, at: usize, now: Mono) {
        let Some((signal, uid, ended)) = self.counting.take(at) else { return };
        match ended {
            Ended::Counted => {
                let next = self.mind.counted(signal, &uid, now);
                self.count(next, now);
            }
            Ended::Unanswered => {
                self.counting.stop();
                self.mind.not_measured(now);
            }
            Ended::Late => _ = self.mind.counted(signal, &uid, now),
        }
    }

    /// Asks Docker for the containers of the pod that is being evicted, in a thread of its own: a request that it can
    /// always answer, and as slow as the others that the end of the pod takes.
    pub(super) fn ask(&mut self, now: Mono) {
        if self.asking.is_some() {
            // The answer to this request is for all pods that are being evicted.
            return;
        }
        if !self.parts.pods.get().docker.reachable {
            return self.docker_answers(None, now);
        }
        let docker = self.parts.docker.clone();
        let labels = vec![format!("{}={}", labels::POD_UID, self.mind.ending().unwrap_or_default())];
        let ask = move || {
            let begun = Instant::now();
            docker.list(labels).is_ok().then(|| begun.elapsed())
        };
        match Aside::begin("pk-measure", ask) {
            Ok(run) => self.asking = Some(run),
            Err(error) => {
                log::warn!("whether Docker answers is not known: no thread could be started: {error}");
                self.docker_answers(None, now);
            }
        }
    }

    fn docker_answers(&mut self, took: Option<Duration>, now: Mono) {
        if let Some(line) = self.mind.asked(took, now) {
            log::warn!("{line}");
        }
    }

    /// Docker has answered, or has timed out.
    pub(super) fn asked(&mut self, now: Mono) {
        let Some(run) = self.asking.take() else { return };
        self.docker_answers(run.result().unwrap_or_default(), now);
    }

    /// Puts an eviction off to empty the layers of ended pods before it; returns whether it does.
    fn puts_off(
        &mut self,
        (signal, dedicated): (Signal, bool),
        snapshot: &Snapshot,
        pods: &[Candidate],
        now: Mono,
    ) -> bool {
        if !signal.is_of_disk() || self.parts.garbage.is_none() || self.collecting.is_some() {
            self.put_off.none();
            return false;
        }
        let has_more = Counted::of(signal, dedicated).of_docker && self.emptied.has_more;
        let goes_first = pods.iter().any(|pod| pod.goes_first && !pod.is_critical());
        let mut put_off = self.put_off;
        let puts_off = put_off.decide(has_more, goes_first, &|| self.has_ended_since(snapshot), now);
        self.put_off = put_off;
        puts_off
    }

    /// Whether a pod has ended since garbage was collected, or its layers are not empty yet: no pod is evicted before that.
    fn has_ended_since(&self, snapshot: &Snapshot) -> bool {
        let go_on = ended::going_on(snapshot);
        self.emptied.went_on.iter().any(|uid| !go_on.contains(uid))
            || self.over(snapshot).keys().any(|id| !self.emptied.done.contains(id))
    }

    fn waits_for_pods(&self, snapshot: &Snapshot) -> bool {
        self.mind.is_early() && is_any_unknown(snapshot)
    }

    /// Whether to wait for a pod that is evicted for its own usage or by an earlier daemon, or is gone and leaves files that
    /// are being removed, as for a pod that this keeper has chosen: otherwise another pod would be evicted for the
    /// resource that it is about to free.
    pub(super) fn awaits_evicted(
        &mut self,
        signal: Signal,
        snapshot: &Snapshot,
        pods: &[Candidate],
        now: Mono,
    ) -> bool {
        let wall = self.parts.clock.now().wall;
        let is_told = |view: &&PodView| {
            let of = snapshot.evictions.get(&view.pod.key.to_string());
            let is_evicted = of.is_some_and(|eviction| eviction.uid == view.pod.uid);
            // A pod that has ended by itself leaves its volumes, too.
            let leaves = ended::has_left(view) || ended::has_just_ended(view, wall);
            let is_removed = signal.is_of_disk() && leaves;
            is_removed || !view.is_kept && is_evicted
        };
        let mut told: Vec<Known> = snapshot
            .pods
            .iter()
            .filter(is_told)
            .map(|view| (view.pod.uid.clone(), Some(view.pod.key.clone())))
            .collect();
        let gone = snapshot.removing.iter().cloned().chain(self.parts.ends.swept());
        let gone = gone.filter(|_| signal.is_of_disk()).map(|uid| (uid, None));
        told.extend(gone);
        if told.is_empty() {
            return false;
        }
        // Removing files takes long, and must not delay an eviction for another resource.
        let of_disk = signal.is_of_disk();
        let found = if of_disk { places::Found::default() } else { places::all(&self.places.cgroups) };
        let tree = self.places.cgroups.tree();
        let left = told.into_iter().filter_map(|(uid, key)| {
            let cgroups: Vec<PathBuf> = found.of_pod(&uid).map(|path| tree.join(path)).into_iter().collect();
            let mut volumes = if of_disk { self.volumes_of(&uid) } else { Vec::new() };
            // A pod that runs, for it came back, has other volumes than those that are being removed.
            let shown = snapshot.pods.iter().find(|view| view.pod.uid == uid);
            if key.is_none() && shown.is_some_and(|view| disk::runs(&view.status)) {
                volumes.retain(|volumes| volumes.ends_with(layout::GONE));
            }
            let is_there = cgroups.iter().chain(&volumes).any(|path| path.exists());
            is_there.then_some(Victim {
                key,
                uid,
                cgroups,
                volumes,
                of_disk,
                has_layers: false,
                was_killed: false,
                beside: Vec::new(),
            })
        });
        let left: Vec<Victim> = left.collect();
        // All are watched, so that the wait for one that cannot be removed shows which others can.
        let beside: Vec<Known> = left.iter().map(|other| (other.uid.clone(), other.key.clone())).collect();
        let ends = self.parts.ends.clone();
        let awaited = left.into_iter().find(|other| {
            self.mind.awaits(signal, (&other.awaited_as(), ends.gets_on(&other.uid)), pods, now)
        });
        let Some(victim) = awaited else { return false };
        self.follow(signal, Victim { beside, ..victim });
        true
    }

    fn volumes_of(&self, uid: &str) -> Vec<PathBuf> {
        let root = &self.places.root_dir;
        [layout::volumes_dir(root, uid), layout::gone_dir(root, uid)].into_iter().flatten().collect()
    }

    fn follow(&mut self, signal: Signal, victim: Victim) {
        self.victims.insert(signal.pressure(), victim);
        let own = self.victims.values().map(|victim| (victim.uid.clone(), victim.key.clone()));
        let beside = self.victims.values().flat_map(|victim| victim.beside.iter().cloned());
        let watched = beside.chain(own);
        self.parts.ends.watch(watched.collect());
    }

    /// Evicts one pod, by the usage of the disk that was `measured` before this look.
    pub(super) fn evict(
        &mut self,
        threshold: &Threshold,
        seen: &Seen,
        measured: Option<&Amounts>,
        now: Mono,
    ) -> Result<(), Gone> {
        let (signal, resource) = (threshold.signal, threshold.signal.resource());
        let snapshot = self.parts.pods.get();
        if !signal.is_of_disk() && self.waits_for_pods(&snapshot) {
            return Ok(());
        }
        if !snapshot.docker.reachable {
            // Docker could not stop a pod. The next look tries again.
            return Ok(());
        }
        let amounts = match measured {
            Some(amounts) if signal.is_of_disk() => amounts.clone(),
            None if signal.is_of_disk() => Amounts::new(),
            // For other resources than a disk, the kernel's figures are read at once.
            _ => Measure::new(&self.places, signal, seen.dedicated).pods(&snapshot),
        };
        let (capacity, available) =
            seen.found.get(&signal).map_or((0, 0), |seen| (seen.capacity, seen.available));
        let mut pods = candidates(&snapshot, resource, capacity, &amounts);
        // Claims above the bound of their source are no reason to evict a pod of another source.
        let excess = amounts.values().map(PodUse::excess).max().unwrap_or(0);
        let is_behind = snapshot.standings.values().any(|it| it.evict_first);
        if is_behind && excess > 0 && available.saturating_add(excess) >= threshold.value.of(capacity) {
            pods.retain(|pod| pod.goes_first);
        }
        if self.puts_off((signal, seen.dedicated), &snapshot, &pods, now) {
            self.mind.collects_again();
            return Ok(());
        }
        if self.awaits_evicted(signal, &snapshot, &pods, now) {
            return Ok(());
        }
        let (told, eviction) = match self.mind.choose(threshold, &seen.found, pods, now) {
            Choice::Evict(told, eviction) => (told, eviction),
            Choice::Nobody(None) => return Ok(()),
            Choice::Nobody(Some((line, event))) => {
                log::warn!("{line}");
                return self.tell(event);
            }
        };
        let tree = self.places.cgroups.tree();
        let cgroups = amounts.get(&eviction.uid).into_iter().flat_map(|found| &found.cgroups);
        let cgroups = cgroups.map(|cgroup| tree.join(cgroup)).collect();
        let volumes = self.volumes_of(&eviction.uid);
        let of_disk = signal.is_of_disk();
        let has_layers = of_disk && Counted::of(signal, seen.dedicated).of_docker;
        let (key, uid) = (Some(eviction.key.clone()), eviction.uid.clone());
        if has_layers {
            self.left_over.push((uid.clone(), ended::of_pod(&snapshot, &uid)));
        }
        self.follow(
            signal,
            Victim { key, uid, cgroups, volumes, of_disk, has_layers, was_killed: false, beside: Vec::new() },
        );
        self.tell(told)?;
        self.tell(News::Evict(eviction))
    }
}
