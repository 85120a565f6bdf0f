//! Pods that have limits of local storage are looked at, in a thread of its own: a tree of a million files must not hold
//! up the look at the node's memory. The thread exists only while there is such a pod, and sleeps as `eviction::local`
//! says.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::Gone;
use super::amounts::believed;
use super::disk::Disks;
use crate::base::{limits, order};
use crate::daemon::engine_root::EngineRoot;
use crate::daemon::turn::Event;
use crate::eviction::local::{self, Verdict, Wanted};
use crate::eviction::{Eviction, News};
use crate::pod::priority;
use crate::runtime::docker::Docker;
use crate::stats::disk_use::{Reach, Round};
use crate::status::snapshot::{PodView, Snapshot};

/// Seconds of grace of a pod that is over a limit (upstream `immediateEvictionGracePeriodSeconds`).
const GRACE: u32 = 1;

/// Handle of the thread, which is there only while it is needed. Dropping it ends the thread.
#[derive(Debug)]
pub(in crate::daemon) struct LimitWatch {
    shared: Arc<Shared>,
    docker: Docker,
    root: PathBuf,
    docker_root: EngineRoot,
    out: Sender<Event>,
}

#[derive(Debug, Default)]
struct Shared {
    slot: Mutex<Slot>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Slot {
    pods: Arc<Snapshot>,
    /// The thread is there.
    runs: bool,
    /// UIDs of pods with limits.
    known: BTreeSet<String>,
    /// One more has come.
    more: bool,
    ended: bool,
}

impl LimitWatch {
    pub(in crate::daemon) fn new(
        docker: Docker,
        root: PathBuf,
        docker_root: EngineRoot,
        out: Sender<Event>,
    ) -> LimitWatch {
        LimitWatch { shared: Arc::default(), docker, root, docker_root, out }
    }

    /// The pods as they are now. Starts the thread when it is needed; it is woken only for more pods with limits.
    pub(in crate::daemon) fn tell(&self, snapshot: Arc<Snapshot>) {
        let known = order::set(limited(&snapshot).map(|(view, _)| view.pod.uid.clone()));
        let mut slot = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.pods = snapshot;
        let more = !known.is_subset(&slot.known);
        slot.known = known;
        slot.more |= more;
        if slot.runs && more {
            self.shared.wake.notify_one();
        }
        if slot.runs || slot.known.is_empty() {
            return;
        }
        let mut rounds = Rounds {
            shared: Arc::clone(&self.shared),
            disks: Disks::new(self.docker.clone(), self.root.clone(), self.docker_root.clone()),
            out: self.out.clone(),
            before: BTreeMap::new(),
        };
        let spawned = thread::Builder::new()
            .name("pk-disk-limits".to_owned())
            .stack_size(limits::WORKER_STACK)
            .spawn(move || rounds.run());
        match spawned {
            Ok(_) => slot.runs = true,
            // The next change of any pod tries again.
            Err(error) => log::error!("limits of local storage are not watched: {error}"),
        }
    }
}

impl Drop for LimitWatch {
    fn drop(&mut self) {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.shared.wake.notify_one();
    }
}

/// Pods that run and have limits.
fn limited(snapshot: &Snapshot) -> impl Iterator<Item = (&PodView, Wanted)> {
    let alive = snapshot.pods.iter().filter(|view| view.leaving.is_none() && !has_ended(view));
    let may_go = alive.filter(|view| !priority::is_critical(&view.pod));
    may_go.filter_map(|view| Some((view, local::wanted(&view.pod)?)))
}

fn has_ended(view: &PodView) -> bool {
    matches!(view.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

struct Rounds {
    shared: Arc<Shared>,
    disks: Disks,
    out: Sender<Event>,
    /// By pod UID.
    before: BTreeMap<String, Before>,
}

/// The last look at a pod.
#[derive(Debug, Clone, Copy)]
struct Before {
    /// Bytes left below the nearest limit.
    left: u64,
    at: Instant,
    /// When to look again.
    due: Instant,
    /// More was there than could be counted.
    is_cut: bool,
}

impl Rounds {
    /// Until no pod has a limit.
    fn run(&mut self) {
        // A pod that has just come has not written yet.
        let mut pause = limits::LIMITS_NEAR;
        while let Some(pods) = self.sleep(pause) {
            let Ok(next) = self.look(&pods) else { return };
            pause = next.saturating_duration_since(Instant::now());
        }
    }

    /// Waits; `None`: there is nothing to look at any more. A pod that comes meanwhile is looked at soon.
    fn sleep(&self, pause: Duration) -> Option<Arc<Snapshot>> {
        let mut slot = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = pause;
        loop {
            if slot.ended || slot.known.is_empty() {
                slot.runs = false;
                return None;
            }
            if std::mem::take(&mut slot.more) {
                left = left.min(limits::LIMITS_NEAR);
            }
            let begun = Instant::now();
            slot = self.shared.wake.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner).0;
            left = left.saturating_sub(begun.elapsed());
            if left.is_zero() && !slot.ended && !slot.known.is_empty() {
                return Some(Arc::clone(&slot.pods));
            }
        }
    }

    /// Looks at every pod with limits that is due, and tells those that are over one. Returns when to look again. Each pod
    /// has a count and a pause of its own, so that one with many files hides no other, and makes none wait long.
    fn look(&mut self, pods: &Snapshot) -> Result<Instant, Gone> {
        let begun = Instant::now();
        self.disks.begin(&pods.pods);
        let all: Vec<(&PodView, Wanted)> = limited(pods).collect();
        self.before.retain(|uid, _| all.iter().any(|(view, _)| view.pod.uid == *uid));
        for (view, wanted) in &all {
            if self.before.get(&view.pod.uid).is_none_or(|before| before.due <= begun) {
                self.look_at(view, wanted)?;
            }
        }
        let far = begun.checked_add(limits::LIMITS_FAR).unwrap_or(begun);
        Ok(self.before.values().map(|before| before.due).chain([far]).min().unwrap_or(far))
    }

    fn look_at(&mut self, view: &PodView, wanted: &Wanted) -> Result<(), Gone> {
        let begun = Instant::now();
        let until = begun + limits::DISK_USE_PATIENCE;
        let (verdict, is_cut) = judged(|| {
            let mut round = Round::until(until, Arc::default());
            let used = self.disks.of_pod(view, wanted, &mut round).used();
            (round.reach(), local::verdict(&view.pod, &used))
        });
        let uid = view.pod.uid.clone();
        let before = self.before.get(&uid).copied();
        if is_cut && !before.is_some_and(|before| before.is_cut) {
            log::warn!(
                "what pod {} (UID {uid}) has of local storage cannot be counted whole: it has too much for the time of a \
                 count, or moves it meanwhile; its limits are compared with what was counted",
                view.pod.key
            );
        }
        let (left, pause) = match verdict {
            Verdict::Within { percent, left } => {
                let (then, at) = before.map_or((left, begun), |before| (before.left, before.at));
                let (grown, since) = (then.saturating_sub(left), begun.saturating_duration_since(at));
                (left, local::pause(percent, left, grown, since))
            }
            Verdict::Over(message) => {
                let (key, uid) = (view.pod.key.clone(), uid.clone());
                let eviction = Eviction { key, uid, grace: GRACE, message, of_the_node: false };
                self.out.send(Event::Node(News::Evict(eviction))).map_err(|_| Gone)?;
                (0, limits::LIMITS_FAR)
            }
        };
        let ended = Instant::now();
        let pause = paused(pause, ended.saturating_duration_since(begun));
        let due = ended.checked_add(pause).unwrap_or(ended);
        self.before.insert(uid, Before { left, at: begun, due, is_cut });
        Ok(())
    }
}

/// A pod is over a limit when it was counted so; where its directories were moved meanwhile, when the count in the middle
/// says so. Says also whether there was more than could be counted.
fn judged(mut count: impl FnMut() -> (Reach, Verdict)) -> (Verdict, bool) {
    let (reach, Judged(verdict)) = believed(|| {
        let (reach, verdict) = count();
        (reach, Judged(verdict))
    });
    (verdict, matches!(reach, Reach::Moved | Reach::Exceeded))
}

/// Ordered by how near it is to a limit.
struct Judged(Verdict);

impl Judged {
    fn nearness(&self) -> u64 {
        match self.0 {
            Verdict::Within { left, .. } => u64::MAX - left,
            Verdict::Over(_) => u64::MAX,
        }
    }
}

impl Ord for Judged {
    fn cmp(&self, other: &Judged) -> Ordering {
        self.nearness().cmp(&other.nearness())
    }
}

impl PartialOrd for Judged {
    fn partial_cmp(&self, other: &Judged) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Judged {
    fn eq(&self, other: &Judged) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Judged {}

/// How long a pod rests whose look took so long: of the time it is looked at for one part in twenty, and never later than
/// ten minutes after the last look.
fn paused(pause: Duration, took: Duration) -> Duration {
    pause.max(took.saturating_mul(limits::LIMITS_PART).min(limits::LIMITS_SLOW))
}

#[cfg(test)]
mod tests;
