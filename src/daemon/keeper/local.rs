//! Pods that have limits of local storage are looked at, in a thread of its own: a tree of a million files must not hold
//! up the look at the node's memory. The thread exists only while there is such a pod, and sleeps as `eviction::local`
//! says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::Gone;
use super::disk::Disks;
use crate::base::{limits, order};
use crate::daemon::engine_root::EngineRoot;
use crate::daemon::turn::Event;
use crate::eviction::local::{self, Verdict, Wanted};
use crate::eviction::{Eviction, News};
use crate::pod::priority;
use crate::runtime::docker::Docker;
use crate::stats::disk_use::Round;
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
            first: None,
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
    /// By pod UID: bytes left below the nearest limit at the last look, and when that was.
    before: BTreeMap<String, (u64, Instant)>,
    /// UID of the pod with which the next round begins.
    first: Option<String>,
}

impl Rounds {
    /// Until no pod has a limit.
    fn run(&mut self) {
        // A pod that has just come has not written yet.
        let mut pause = limits::LIMITS_NEAR;
        while let Some(pods) = self.sleep(pause) {
            let begun = Instant::now();
            let Ok(next) = self.look(&pods) else { return };
            // Of the time it takes there is at most one part in twenty.
            pause = next.max(begun.elapsed().saturating_mul(20));
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

    /// Looks at every pod with limits, and tells those that are over one. Returns how long to wait.
    fn look(&mut self, pods: &Snapshot) -> Result<Duration, Gone> {
        let mut pause = limits::LIMITS_FAR;
        let mut before = BTreeMap::new();
        let mut round = Round::default();
        self.disks.begin(&pods.pods);
        let all: Vec<(&PodView, Wanted)> = limited(pods).collect();
        // Those come first that the last round did not come to.
        let first = self.first.take().and_then(|uid| all.iter().position(|(view, _)| view.pod.uid == uid));
        let (later, sooner) = all.split_at_checked(first.unwrap_or(0)).unwrap_or((&all, &[]));
        for (view, wanted) in sooner.iter().chain(later) {
            if round.is_over() {
                self.first.get_or_insert_with(|| view.pod.uid.clone());
                continue;
            }
            let begun = Instant::now();
            let used = self.disks.of_pod(view, wanted, &mut round).used();
            let uid = &view.pod.uid;
            match local::verdict(&view.pod, &used) {
                Verdict::Within { percent, left } => {
                    let (then, at) = self.before.get(uid).copied().unwrap_or((left, begun));
                    let (grown, since) = (then.saturating_sub(left), begun.duration_since(at));
                    pause = pause.min(local::pause(percent, left, grown, since));
                    before.insert(uid.clone(), (left, begun));
                }
                Verdict::Over(message) => {
                    let (key, uid) = (view.pod.key.clone(), uid.clone());
                    let eviction = Eviction { key, uid, grace: GRACE, message, of_the_node: false };
                    self.out.send(Event::Node(News::Evict(eviction))).map_err(|_| Gone)?;
                }
            }
        }
        self.before = before;
        Ok(pause)
    }
}
