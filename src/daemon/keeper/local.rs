//! Watches pods that have limits of local storage, in a thread of its own: counting a tree of a million files must not
//! delay the look at the node's memory. The thread exists only while there is such a pod, and sleeps as
//! `eviction::local` says. A count that needs no Docker waits for no answer of it.

mod verdicts;

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::Gone;
use super::amounts::believed;
use super::disk::{Disks, runs};
use crate::base::table::{Set, Table};
use crate::base::{limits, order, thread};
use crate::daemon::turn::Event;
use crate::eviction::local::{self, Together, Used, Verdict, Wanted};
use crate::eviction::{Eviction, News};
use crate::layout;
use crate::pod::{Source, is_final, priority};
use crate::policy::{Most, PolicyView};
use crate::runtime::docker::Docker;
use crate::runtime::engine_root::EngineRoot;
use crate::stats::disk_use::{DiskUse, Reach, Round};
use crate::status::snapshot::{ClaimView, PodView, Snapshot};
use crate::volumes::claim_size;
use verdicts::{is_cut, is_hopeless, judged, over_uncounted};

/// Handle of the thread, which runs only while it is needed. Dropping it ends the thread.
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
    known: Set<String>,
    /// A pod with limits was added.
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

    /// Takes the current pods. Starts the thread if it is needed; wakes it only when a pod with limits was added.
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
            before: Table::new(),
        };
        let spawned = thread::spawn("pk-disk-limits", limits::WORKER_STACK, move || rounds.run());
        match spawned {
            Ok(_) => slot.runs = true,
            // The next change of any pod tries to start the thread again.
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
    let alive = snapshot.pods.iter().filter(|view| view.is_kept && !has_ended(view));
    let may_go = alive.filter(|view| !priority::is_critical(&view.pod));
    may_go.filter_map(|view| Some((view, wanted(snapshot, view)?)))
}

/// A pod that does not run yet writes nothing into its claims: it waits until they hold less, and then starts by
/// itself.
fn wanted(snapshot: &Snapshot, view: &PodView) -> Option<Wanted> {
    let written = written_claims(snapshot, view);
    let held = written.clone().filter(|claim| claim.is_held);
    let claims: Table<_, _> = held.filter_map(|claim| Some((claim.name.clone(), claim.storage?))).collect();
    let together = written.map(|claim| claim.together).find(|most| *most != Most::All);
    let own = local::wanted(&view.pod);
    let is_any = own.is_some() || together.is_some() || !claims.is_empty();
    is_any.then(|| Wanted { claims, together, ..own.unwrap_or_default() })
}

/// Claims that a pod can write to now.
fn written_claims<'s>(snapshot: &'s Snapshot, view: &PodView) -> impl Iterator<Item = &'s ClaimView> + Clone {
    let all = snapshot.claims.get(&view.pod.uid).filter(|_| runs(&view.status));
    all.into_iter().flatten()
}

fn has_ended(view: &PodView) -> bool {
    is_final(view.status.phase.as_deref())
}

struct Rounds {
    shared: Arc<Shared>,
    disks: Disks,
    out: Sender<Event>,
    /// By pod UID.
    before: Table<String, Before>,
}

/// Usage of all claims of a source.
struct OfSource {
    reach: Reach,
    used: DiskUse,
    most: DiskUse,
    /// UID of the pod that writes to the fullest one.
    fullest: Option<String>,
}

impl OfSource {
    fn of(&self, uid: &str) -> Together {
        Together { used: self.used, most: self.most, is_fullest: self.fullest.as_deref() == Some(uid) }
    }
}

/// How far a pod was counted.
enum Looked {
    Whole,
    /// The pod needs another look with more time.
    Cut,
    /// Docker has to tell where the files of these containers are.
    Unknown(Vec<String>),
}

/// The last look at a pod.
#[derive(Debug, Clone, Copy)]
struct Before {
    /// Bytes left below the nearest limit.
    left: u64,
    at: Instant,
    /// When to look again.
    due: Instant,
    /// Duration of the look.
    took: Duration,
    /// Number of looks in a row, with the longest time allowed, that could not count the pod whole.
    uncounted: u32,
    /// Counting the pod takes longer than a normal look may take.
    is_slow: bool,
}

impl Rounds {
    /// Looks at pods until none has a limit.
    fn run(&mut self) {
        // A pod that has just come has not written yet.
        let mut pause = limits::LIMITS_NEAR;
        while let Some(pods) = self.sleep(pause) {
            let Ok(next) = self.look(&pods) else { return };
            pause = next.saturating_duration_since(Instant::now());
        }
    }

    /// Waits. Returns `None` when no pod is left to watch. A pod that is added meanwhile is looked at soon.
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

    /// Looks at every pod with limits that is due, and has those that are over a limit evicted. Returns when to look
    /// again. Each pod has its own count and pause, so that a pod with many files hides no other and delays no other: a
    /// pod that cannot be counted quickly waits until all others were looked at, and each round takes one of these.
    fn look(&mut self, pods: &Snapshot) -> Result<Instant, Gone> {
        let begun = Instant::now();
        self.disks.begin(&pods.pods);
        let all: Vec<(&PodView, Wanted)> = limited(pods).collect();
        self.before.retain(|uid, _| all.iter().any(|(view, _)| view.pod.uid == *uid));
        let before = |view: &PodView| self.before.get(&view.pod.uid).copied();
        let mut due: Vec<&(&PodView, Wanted)> =
            all.iter().filter(|(view, _)| before(view).is_none_or(|before| before.due <= begun)).collect();
        // The quickest pods first; of the slow ones, the one that has waited longest.
        order::sort_by_key(&mut due, |(view, _)| {
            let at = before(view);
            let is_slow = at.is_some_and(|at| at.is_slow);
            (is_slow, at.filter(|_| !is_slow).map(|at| at.took), at.map(|at| at.due))
        });
        let mut sums = Table::new();
        let mut slow = None;
        let mut waiting: Vec<(&PodView, &Wanted, Vec<String>)> = Vec::new();
        for (view, wanted) in due {
            let view: &PodView = view;
            let is_slow = self.before.get(&view.pod.uid).is_some_and(|before| before.is_slow);
            let looked = if is_slow {
                Looked::Cut
            } else {
                self.look_at(pods, &all, (view, wanted), &mut sums, limits::DISK_USE_QUICK)?
            };
            match looked {
                Looked::Whole => {}
                Looked::Cut => slow = slow.or(Some((view, wanted))),
                Looked::Unknown(ids) => waiting.push((view, wanted, ids)),
            }
        }
        // All others were looked at: only now Docker is waited for.
        let of_slow = slow.iter().flat_map(|(view, wanted)| self.disks.unknown(view, wanted));
        let unknown: Vec<String> =
            waiting.iter().flat_map(|(_, _, ids)| ids.iter().cloned()).chain(of_slow).collect();
        self.disks.ask(unknown.iter().map(String::as_str), &|| ());
        for (view, wanted, ids) in waiting {
            // A pod of which Docker has told nothing new would be counted in vain.
            if !ids.iter().any(|id| self.disks.knows(id)) {
                continue;
            }
            let looked = self.look_at(pods, &all, (view, wanted), &mut sums, limits::DISK_USE_QUICK)?;
            slow = slow.or(matches!(looked, Looked::Cut).then_some((view, wanted)));
        }
        if let Some((view, wanted)) = slow {
            self.look_at(pods, &all, (view, wanted), &mut Table::new(), limits::DISK_USE_PATIENCE)?;
        }
        let far = begun.checked_add(limits::LIMITS_FAR).unwrap_or(begun);
        Ok(self.before.values().map(|before| before.due).chain([far]).min().unwrap_or(far))
    }

    /// Usage of all claims of a source, and, if it is over the bound, the pod with the fullest claim that is being
    /// written to.
    fn of_source(
        &self,
        pods: &Snapshot,
        all: &[(&PodView, Wanted)],
        (source, most): (Source, Most),
        until: Instant,
    ) -> Option<OfSource> {
        let root = self.disks.root();
        let most = claim_size::together(root, most)?;
        let round = || Round::until(until, Arc::default());
        let (reach, used) = believed(|| {
            let mut round = round();
            let used = claim_size::of_source(root, source, &mut round);
            (round.reach(), (used.bytes, used.inodes))
        });
        let used = DiskUse { bytes: used.0, inodes: used.1 };
        let too_much = |it: DiskUse| if used.bytes > most.bytes { it.bytes } else { it.inodes };
        let is_over = used.bytes > most.bytes || used.inodes > most.inodes;
        let own = all.iter().filter(|(view, _)| view.pod.source == source && is_over);
        let each = own.flat_map(|(view, _)| {
            let claims = written_claims(pods, view);
            claims.map(|claim| {
                (view.pod.uid.clone(), layout::claim(source, &view.pod.key.namespace, &claim.name))
            })
        });
        let held = each
            .filter_map(|(uid, parts)| Some((too_much(round().tree(&layout::below(root, &parts)?)), uid)));
        Some(OfSource { reach, used, most, fullest: held.max().map(|(_, uid)| uid) })
    }

    /// Looks at one pod, as far as Docker has told where its files are, for as long as `patience`. A pod of which Docker
    /// has not told all is looked at again soon.
    fn look_at(
        &mut self,
        pods: &Snapshot,
        all: &[(&PodView, Wanted)],
        (view, wanted): (&PodView, &Wanted),
        sums: &mut Table<Source, Option<OfSource>>,
        patience: Duration,
    ) -> Result<Looked, Gone> {
        let begun = Instant::now();
        let until = begun + patience;
        let sum = wanted.together.and_then(|most| {
            let source = view.pod.source;
            // The claims of a source are counted on a time of their own, so that they make no pod look uncountable.
            sums.get_or_insert_with(source, || self.of_source(pods, all, (source, most), until)).as_ref()
        });
        let together = sum.map(|sum| sum.of(&view.pod.uid));
        let until = Instant::now() + patience;
        let policy = pods.policies.get(&view.pod.source.to_string());
        let is_held = policy.is_some_and(PolicyView::is_held);
        let mut unknown = Vec::new();
        let (verdict, reach) = judged(|| {
            let mut round = Round::until(until, Arc::default());
            let mut found = self.disks.of_pod(view, wanted, &mut round);
            unknown = std::mem::take(&mut found.unknown);
            let mut used = Used { together, ..found.used() };
            // The kubelet counts only files in directories; an untrusted pod could write into removed files instead.
            if is_held {
                used.files = used.files.saturating_add(self.disks.removed(view, &mut round));
            }
            (round.reach(), local::verdict(&view.pod, &used))
        });
        let is_cut = is_cut(reach) || sum.is_some_and(|sum| is_cut(sum.reach));
        let uid = view.pod.uid.clone();
        let before = self.before.get(&uid).copied();
        let is_last = patience >= limits::DISK_USE_PATIENCE;
        let is_slow = is_cut || begun.elapsed() >= limits::DISK_USE_QUICK;
        if is_cut && !is_last && matches!(verdict, Verdict::Within { .. }) {
            let fresh =
                Before { left: u64::MAX, at: begun, due: begun, took: patience, uncounted: 0, is_slow };
            self.before.get_or_insert(uid, fresh).is_slow = true;
            return Ok(Looked::Cut);
        }
        let rounds = before.map_or(0, |before| before.uncounted);
        let uncounted = if is_cut && is_last { rounds.saturating_add(1) } else { 0 };
        if uncounted == 1 {
            log::warn!(
                "what pod {} (UID {uid}) has of local storage cannot be counted whole: it has too much for the time of a \
                 count, moves it meanwhile, or keeps files where nobody is shown them; its limits are compared with what \
                 was counted, and where its source is held to a level of Pod Security, it goes when that stays so",
                view.pod.key
            );
        }
        let is_hopeless = is_held && is_hopeless(reach, uncounted);
        let verdict = if is_hopeless { over_uncounted(verdict) } else { verdict };
        let is_unknown = !unknown.is_empty() && matches!(verdict, Verdict::Within { .. });
        let (left, mut pause) = rest(&verdict, before, begun);
        if before.is_none() {
            // It may have begun to write only now: how fast it grows is known after the next look.
            pause = pause.min(limits::LIMITS_NEAR);
        }
        // What was not counted says nothing about the growth.
        let (left, at, pause) = match before {
            _ if !is_unknown => (left, begun, pause),
            Some(before) => (before.left, before.at, limits::LIMITS_NEAR),
            None => (u64::MAX, begun, limits::LIMITS_NEAR),
        };
        if let Verdict::Over(message) = verdict {
            let (key, uid) = (view.pod.key.clone(), uid.clone());
            let eviction = Eviction { key, uid, grace: limits::EVICTION_GRACE, message, of_the_node: false };
            self.out.send(Event::Node(News::Evict(eviction))).map_err(|_| Gone)?;
        }
        let ended = Instant::now();
        let took = ended.saturating_duration_since(begun);
        let due = ended.checked_add(paused(pause, took)).unwrap_or(ended);
        self.before.insert(uid, Before { left, at, due, took, uncounted, is_slow });
        Ok(if is_unknown { Looked::Unknown(unknown) } else { Looked::Whole })
    }
}

/// Returns the bytes left below the nearest limit, and how long to wait before the next look, for a look that began
/// `now`. A pod over its limit is being evicted, and needs no look meanwhile.
fn rest(verdict: &Verdict, before: Option<Before>, now: Instant) -> (u64, Duration) {
    match *verdict {
        Verdict::Within { percent, left } => {
            let before = before.filter(|before| before.left < u64::MAX);
            let (then, at) = before.map_or((left, now), |before| (before.left, before.at));
            let (grown, since) = (then.saturating_sub(left), now.saturating_duration_since(at));
            (left, local::pause(percent, left, grown, since))
        }
        Verdict::Over(_) => (0, limits::LIMITS_FAR),
    }
}

/// The pause after a look that took so long: looking may take one twentieth of the time, but the pause is not extended
/// beyond ten minutes.
fn paused(pause: Duration, took: Duration) -> Duration {
    pause.max(took.saturating_mul(limits::LIMITS_PART).min(limits::LIMITS_SLOW))
}

#[cfg(test)]
mod tests;
