//! Threads that count the files of pods on disks, one pod at a time. Which pod is next, and which hangs, is decided in
//! [`super::count_order`]. A thread that hangs is left alone: no other thread waits for it, and its result, when it
//! comes, is kept for the next count.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use super::amounts::{Amounts, Measure, PodUse, may_go};
use super::aside::Aside;
use super::count_order::{Took, patience};
use super::disk::Disks;
use super::figures::Places;
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::eviction::signal::Signal;
use crate::garbage::collector::Collector;
use crate::stats::disk_use::Progress;
use crate::status::snapshot::{PodView, Snapshot};

/// The result of one thread.
struct Found {
    disks: Disks,
    used: PodUse,
    /// How long it has waited for Docker.
    waited: Duration,
}

/// One pod that is counted.
struct Piece {
    signal: Signal,
    uid: String,
    began: Instant,
    progress: Arc<Progress>,
    run: Aside<Found>,
}

/// How the count of a pod ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The pod was counted, as far as its files are known.
    Counted,
    /// Docker does not answer: nothing can be counted.
    Unanswered,
    /// The count had been given up before.
    Late,
}

/// The count for one signal.
struct Current {
    signal: Signal,
    measure: Arc<Measure>,
    snapshot: Arc<Snapshot>,
    found: Amounts,
    at: Option<Piece>,
    began: Instant,
    /// Docker was asked about all pods, and how long that took: the time of the counts does not contain it.
    asked: Option<Duration>,
    /// Number of pods that are still to be counted.
    left: usize,
}

/// See the module.
pub(super) struct Counting {
    disks: Disks,
    current: Option<Current>,
    /// Counts that were given up and have not ended.
    hanging: Vec<Piece>,
    /// The last result of each pod.
    known: Table<(Signal, String), PodUse>,
    /// The cost of that count.
    took: Table<(Signal, String), Took>,
}

impl Counting {
    pub(super) fn new(disks: Disks) -> Counting {
        Counting { disks, current: None, hanging: Vec::new(), known: Table::new(), took: Table::new() }
    }

    /// Begins a count; returns the UIDs of the pods to count, those that are counted quickly first.
    pub(super) fn begin(
        &mut self,
        places: &Places,
        signal: Signal,
        dedicated: bool,
        garbage: Option<Arc<Collector>>,
        snapshot: Arc<Snapshot>,
    ) -> Vec<String> {
        self.disks.begin(&snapshot.pods);
        let all: Set<&str> = order::set(snapshot.pods.iter().map(|view| view.pod.uid.as_str()));
        self.known.retain(|(_, uid), _| all.contains(uid.as_str()));
        self.took.retain(|(_, uid), _| all.contains(uid.as_str()));
        let mut uids: Vec<String> =
            snapshot.pods.iter().filter(|view| may_go(view)).map(|view| view.pod.uid.clone()).collect();
        let took = |uid: &String| self.took.get(&(signal, uid.clone())).copied().unwrap_or(Took::UNKNOWN);
        order::sort_by_key(&mut uids, took);
        let measure =
            Arc::new(Measure::new(places, signal, dedicated).with_images(garbage).with_claims(&snapshot));
        self.current = Some(Current {
            signal,
            measure,
            snapshot,
            found: Amounts::new(),
            at: None,
            began: Instant::now(),
            asked: None,
            left: uids.len(),
        });
        uids
    }

    /// Starts the thread for a pod.
    ///
    /// # Errors
    /// No thread could be started.
    pub(super) fn count(&mut self, uid: String) -> io::Result<()> {
        let Some(current) = self.current.as_mut() else { return Ok(()) };
        let signal = current.signal;
        let (measure, snapshot) = (Arc::clone(&current.measure), Arc::clone(&current.snapshot));
        let (mut disks, progress) = (self.disks.clone(), Arc::<Progress>::default());
        let (watched, of) = (Arc::clone(&progress), uid.clone());
        let before = self.took.get(&(signal, uid.clone())).copied();
        let spent = current.began.elapsed().saturating_sub(current.asked.unwrap_or_default());
        let patience = patience(spent, current.left, before);
        current.left = current.left.saturating_sub(1);
        let asks = current.asked.is_none();
        let run = Aside::begin("pk-measure", move || {
            let begun = Instant::now();
            if asks {
                let all = snapshot.pods.iter().filter(|view| may_go(view));
                measure.ask(all, &mut disks, &watched);
            }
            let waited = begun.elapsed();
            // Nothing is counted in vain.
            if disks.is_docker_silent() {
                return Found { disks, used: PodUse::default(), waited };
            }
            let claims = snapshot.claims.get(&of).map(Vec::as_slice).unwrap_or_default();
            let used =
                pod(&snapshot, &of).map(|view| measure.on_disk((view, patience), claims, &disks, &watched));
            Found { disks, used: used.unwrap_or_default(), waited }
        })?;
        current.at = Some(Piece { signal, uid, began: Instant::now(), progress, run });
        Ok(())
    }

    /// Ready when a thread has ended.
    pub(super) fn done(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.hanging.iter().chain(self.current.iter().filter_map(|it| it.at.as_ref())).map(|it| it.run.done())
    }

    /// Takes the result of the thread at this place in [`Counting::done`]: its signal and pod, and how the count ended.
    pub(super) fn take(&mut self, at: usize) -> Option<(Signal, String, Ended)> {
        let is_late = at < self.hanging.len();
        let piece = if is_late { self.hanging.remove(at) } else { self.current.as_mut()?.at.take()? };
        let (signal, uid) = (piece.signal, piece.uid);
        let time = piece.began.elapsed();
        let found = piece.run.result();
        if let Some(found) = &found {
            let time = time.saturating_sub(found.waited);
            let took = Took { is_cut: found.used.is_cut(), time };
            self.took.insert((signal, uid.clone()), took);
        }
        let ended = match found {
            // Without Docker's answer the usage is unknown.
            Some(found) if found.disks.is_docker_silent() && is_late => Ended::Late,
            Some(found) if found.disks.is_docker_silent() => Ended::Unanswered,
            Some(found) if is_late => {
                log::info!("what the pod with the UID {uid} has on the node's disks was counted after all");
                self.known.insert((signal, uid.clone()), found.used);
                Ended::Late
            }
            Some(found) => {
                self.disks = found.disks;
                let used = found.used.or_before(self.known.get(&(signal, uid.clone())));
                self.known.insert((signal, uid.clone()), used.clone());
                if let Some(current) = &mut self.current {
                    current.asked.get_or_insert(found.waited);
                    current.found.insert(uid.clone(), used.clone());
                }
                Ended::Counted
            }
            None => Ended::Counted,
        };
        Some((signal, uid, ended))
    }

    /// Progress of the current pod's count, a number that grows. `None`: no pod is being counted.
    pub(super) fn progress(&self) -> Option<u64> {
        Some(self.current.as_ref()?.at.as_ref()?.progress.steps())
    }

    /// Gives up the count of the current pod.
    pub(super) fn give_up(&mut self) {
        let Some(current) = self.current.as_mut() else { return };
        let Some(piece) = current.at.take() else { return };
        let key = pod(&current.snapshot, &piece.uid).map(|view| view.pod.key.to_string()).unwrap_or_default();
        log::warn!(
            "what pod {key} (UID {}) has on the node's disks cannot be counted: a disk hangs, or a file system that \
             somebody else serves; what was counted before stands for it, and others are counted without it",
            piece.uid
        );
        self.hanging.push(piece);
    }

    /// Ends the count: returns its results, and the known usage of pods whose count hangs.
    pub(super) fn end(&mut self) -> Amounts {
        let Some(Current { signal, measure, snapshot, found, .. }) = self.current.take() else {
            return Amounts::new();
        };
        let mut all = found;
        for view in snapshot.pods.iter().filter(|view| may_go(view)) {
            let uid = &view.pod.uid;
            if all.contains_key(uid) {
                continue;
            }
            let piece = self.hanging.iter().find(|piece| piece.signal == signal && piece.uid == *uid);
            let so_far = piece.map_or(0, |piece| measure.amount(piece.progress.sum()));
            let before = self.known.get(&(signal, uid.clone())).cloned();
            all.insert(uid.clone(), PodUse::at_least(before, so_far));
        }
        all
    }

    /// Gives the count up: Docker does not answer.
    pub(super) fn stop(&mut self) {
        self.current = None;
    }

    /// UID of the pod that is being counted.
    #[cfg(test)]
    pub(super) fn current(&self) -> Option<&str> {
        Some(&self.current.as_ref()?.at.as_ref()?.uid)
    }

    /// Whether pods are being counted.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some()
    }
}

fn pod<'a>(snapshot: &'a Snapshot, uid: &str) -> Option<&'a PodView> {
    snapshot.pods.iter().find(|view| view.pod.uid == uid)
}
