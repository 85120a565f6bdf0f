//! One pod has to go: which one is the manager's choice, among what was measured.

use super::amounts::{Amounts, Measure, candidates, is_any_unknown};
use super::aside::Aside;
use super::counting::Ended;
use super::mind::Seen;
use super::{Gone, Rounds};
use crate::base::clock::{Clock as _, Mono};
use crate::eviction::News;
use crate::eviction::signal::Signal;
use crate::eviction::threshold::Threshold;
use crate::layout;
use crate::runtime::Call;

impl Rounds {
    /// Begins to count what pods have on disks.
    pub(super) fn measure(&mut self, signal: Signal, dedicated: bool, now: Mono) {
        let was_evicted = !self.parts.pods.get().evictions.is_empty();
        if self.waits_for_pods() || was_evicted && self.mind.awaits_earlier(now) {
            return self.mind.counts_later();
        }
        let snapshot = self.parts.pods.get();
        if !snapshot.docker.reachable {
            return self.mind.not_measured(now);
        }
        let pods = self.counting.begin(&self.places, signal, dedicated, snapshot);
        let first = self.mind.counts(signal, pods, now);
        self.count(first, now);
    }

    /// Counts the next pod; when there is none, what was counted serves the next look.
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

    /// Whether the pod that is being counted hangs.
    pub(super) fn watch_count(&mut self, now: Mono) {
        let Some(progress) = self.counting.progress() else { return };
        if let Some((_, next)) = self.mind.watch_count(progress, now) {
            self.counting.give_up();
            self.count(next, now);
        }
    }

    /// A thread that counts is done. After the last one the next look chooses, by what is left then, among the pods that
    /// are there then.
    pub(super) fn counted(&mut self, at: usize) {
        let Some((signal, uid, ended)) = self.counting.take(at) else { return };
        let now = self.parts.clock.now().mono;
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

    /// Has Docker asked for something that it always knows, in a thread of its own.
    pub(super) fn ask(&mut self, now: Mono) {
        if !self.parts.pods.get().docker.reachable {
            return self.mind.asked(false, now);
        }
        let docker = self.parts.docker.clone();
        match Aside::begin("pk-measure", move || docker.call(&Call::Info).is_ok()) {
            Ok(run) => self.asking = Some(run),
            Err(error) => {
                log::warn!("whether Docker answers is not known: no thread could be started: {error}");
                self.mind.asked(false, now);
            }
        }
    }

    /// Docker has answered, or its time is over.
    pub(super) fn asked(&mut self) {
        let Some(run) = self.asking.take() else { return };
        let now = self.parts.clock.now().mono;
        self.mind.asked(run.result().unwrap_or_default(), now);
    }

    fn waits_for_pods(&self) -> bool {
        self.mind.is_early() && is_any_unknown(&self.parts.pods.get())
    }

    /// One pod goes, by what was `measured` of the disk before this look.
    pub(super) fn evict(
        &mut self,
        threshold: &Threshold,
        seen: &Seen,
        measured: Option<&Amounts>,
        now: Mono,
    ) -> Result<(), Gone> {
        let (signal, resource) = (threshold.signal, threshold.signal.resource());
        if !signal.is_of_disk() && self.waits_for_pods() {
            return Ok(());
        }
        let snapshot = self.parts.pods.get();
        if !snapshot.docker.reachable {
            // Nobody could be stopped. The next look tries again.
            return Ok(());
        }
        let amounts = match measured {
            Some(amounts) if signal.is_of_disk() => amounts.clone(),
            None if signal.is_of_disk() => Amounts::new(),
            // Of anything but a disk the kernel's figures are read at once.
            _ => Measure::new(&self.places, signal, seen.dedicated).pods(&snapshot),
        };
        let pods = candidates(&snapshot, resource, &amounts);
        let Some((told, eviction)) = self.mind.choose(threshold, &seen.found, pods, now) else {
            return Ok(());
        };
        let tree = self.places.cgroups.tree();
        let cgroups = amounts.get(&eviction.uid).into_iter().flat_map(|found| &found.cgroups);
        self.traces = cgroups.map(|cgroup| tree.join(cgroup)).collect();
        self.traces.extend(layout::volumes_dir(&self.places.root_dir, &eviction.uid));
        self.tell(told)?;
        self.tell(News::Evict(eviction))
    }
}
