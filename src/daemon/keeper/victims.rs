//! One pod has to go: which one is the manager's choice, among what was measured.

use std::time::Instant;

use super::amounts::{Amounts, Measure, candidates, is_any_unknown};
use super::aside::Aside;
use super::mind::Seen;
use super::{Gone, Measuring, Rounds};
use crate::base::clock::{Clock as _, Mono};
use crate::base::limits;
use crate::eviction::News;
use crate::eviction::signal::Signal;
use crate::eviction::threshold::Threshold;
use crate::layout;

impl Rounds {
    /// Begins to count what pods have on disks.
    pub(super) fn measure(&mut self, signal: Signal, dedicated: bool, now: Mono) {
        if self.waits_for_pods() {
            return self.mind.counts_later();
        }
        let measure = Measure::new(&self.places, signal, dedicated);
        let (snapshot, mut disks) = (self.parts.pods.get(), self.disks.clone());
        let run = Aside::begin("pk-measure", move || {
            let found = measure.pods(&snapshot, &mut disks);
            (disks, found)
        });
        match run {
            Ok(run) => {
                self.measuring = Some(Measuring { signal, since: Instant::now(), is_told: false, run })
            }
            Err(error) => {
                log::warn!("which pod fills the disk is not counted: no thread could be started: {error}");
                self.mind.not_measured(now);
            }
        }
    }

    /// A disk or a Docker that hangs may hold it up for ever, and nobody goes for a disk meanwhile.
    pub(super) fn tell_of_a_long_count(&mut self) {
        let Some(measuring) = self.measuring.as_mut().filter(|it| !it.is_told) else { return };
        if measuring.since.elapsed() >= limits::MEASURE_PATIENCE {
            measuring.is_told = true;
            log::warn!(
                "what pods have on the node's disks is still being counted after {} minutes: a disk or Docker hangs, \
                 and no pod is evicted for want of disk until it is done",
                limits::MEASURE_PATIENCE.as_secs() / 60
            );
        }
    }

    fn waits_for_pods(&self) -> bool {
        self.mind.is_early() && is_any_unknown(&self.parts.pods.get())
    }

    /// It was counted. The next look chooses, by what is left then, among the pods that are there then.
    pub(super) fn measured(&mut self) {
        let Some(Measuring { signal, run, .. }) = self.measuring.take() else { return };
        let mut found = None;
        if let Some((disks, amounts)) = run.result() {
            (self.disks, found) = (disks, amounts);
        }
        match found {
            Some(amounts) => {
                self.measured = Some(amounts);
                self.mind.measured(signal);
            }
            None => self.mind.not_measured(self.parts.clock.now().mono),
        }
    }

    pub(super) fn evict(&mut self, threshold: &Threshold, seen: &Seen, now: Mono) -> Result<(), Gone> {
        let (signal, resource) = (threshold.signal, threshold.signal.resource());
        if !signal.is_of_disk() && self.waits_for_pods() {
            return Ok(());
        }
        let snapshot = self.parts.pods.get();
        let amounts = match self.measured.take().filter(|_| signal.is_of_disk()) {
            Some(amounts) => amounts,
            // Of anything but a disk the kernel's figures are read at once.
            None => self.read(signal, seen),
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

    fn read(&mut self, signal: Signal, seen: &Seen) -> Amounts {
        if signal.is_of_disk() {
            return Amounts::new();
        }
        let measure = Measure::new(&self.places, signal, seen.dedicated);
        measure.pods(&self.parts.pods.get(), &mut self.disks).unwrap_or_default()
    }
}
