//! All probes of the node and their times: one heap. Pure: given the time, it names the probe to run; given
//! the outcome, it returns what changed. Times never drift, because each probe keeps to its own grid of
//! periods, however long an attempt takes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use super::outcome::{self, Outcome};
use super::spec::{Kind, Probing, Target};
use super::state::{Follow, Tracker};
use crate::base::clock::Mono;
use crate::plan::ProbeVerdict;
use crate::pod::PodKey;

/// Identifies a probe within a [`Schedule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(u64);

/// A stored result that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub key: PodKey,
    /// Container id.
    pub id: String,
    /// The kind of probe.
    pub kind: Kind,
    /// [`Target::started`] of the probed run.
    pub since: Mono,
    /// The result.
    pub verdict: ProbeVerdict,
}

/// The event of an attempt that did not simply pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub key: PodKey,
    /// Container id.
    pub id: String,
    /// The kind of probe.
    pub kind: Kind,
    /// The event's reason.
    pub reason: &'static str,
    pub text: String,
}

/// The results of an outcome.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// For the worker.
    pub changed: Option<Changed>,
    /// For the recorder, each time; the recorder counts them.
    pub said: Option<Said>,
}

#[derive(Debug)]
struct Entry {
    key: PodKey,
    kind: Kind,
    target: Target,
    probing: Arc<Probing>,
    tracker: Tracker,
    /// Its time in `due`.
    next: Option<Mono>,
    /// An attempt is in progress or about to start.
    busy: bool,
    /// The attempt's slot in the grid.
    slot: Mono,
    /// The next attempt repeats this one.
    again: bool,
}

#[derive(Debug)]
pub struct Schedule {
    random: u64,
    next_id: u64,
    /// Ordered by their ids.
    entries: Vec<(ProbeId, Entry)>,
    /// An entry whose time has changed since is skipped.
    due: BinaryHeap<Reverse<(Mono, ProbeId)>>,
}

impl Schedule {
    /// An empty schedule; `seed` spreads first attempts.
    #[must_use]
    pub fn new(seed: u64) -> Schedule {
        Schedule { random: seed | 1, next_id: 0, entries: Vec::new(), due: BinaryHeap::new() }
    }

    fn get(&self, id: ProbeId) -> Option<&Entry> {
        let at = self.entries.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.entries.get(at).map(|(_, entry)| entry)
    }

    fn get_mut(&mut self, id: ProbeId) -> Option<&mut Entry> {
        let at = self.entries.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.entries.get_mut(at).map(|(_, entry)| entry)
    }

    fn of(&self, key: &PodKey) -> Vec<ProbeId> {
        self.entries.iter().filter(|(_, e)| e.key == *key).map(|(id, _)| *id).collect()
    }

    /// Replaces all probes of one pod. Returns the ids of those that are no longer wanted.
    pub fn set(&mut self, key: &PodKey, targets: &[Target], now: Mono) -> Vec<ProbeId> {
        let mut gone = self.of(key);
        for target in targets {
            for kind in Kind::ALL {
                let Some(probing) = target.probe(kind) else { continue };
                let same = |id: &ProbeId| {
                    self.get(*id).is_some_and(|e| e.kind == kind && e.target.is_same_run(target))
                };
                let known = gone.iter().copied().find(same);
                gone.retain(|id| Some(*id) != known);
                match known.and_then(|id| self.get_mut(id)) {
                    Some(entry) => {
                        entry.target = target.clone();
                        entry.probing = Arc::clone(probing);
                    }
                    None => {
                        let id = ProbeId(self.next_id);
                        self.next_id = self.next_id.saturating_add(1);
                        let entry = Entry {
                            key: key.clone(),
                            kind,
                            target: target.clone(),
                            probing: Arc::clone(probing),
                            tracker: Tracker::new(kind, target.adopted),
                            next: None,
                            busy: false,
                            slot: now,
                            again: false,
                        };
                        self.entries.push((id, entry));
                    }
                }
            }
        }
        self.entries.retain(|(id, _)| !gone.contains(id));
        for id in self.of(key) {
            self.arm(id, now);
        }
        gone
    }

    /// Time of the next attempt.
    pub fn next_due(&mut self) -> Option<Mono> {
        while let Some(&Reverse((at, id))) = self.due.peek() {
            if self.get(id).is_some_and(|e| e.next == Some(at)) {
                return Some(at);
            }
            self.due.pop();
        }
        None
    }

    /// Takes a probe that is due. Its attempt is in progress until [`Schedule::finished`].
    pub fn take_due(&mut self, now: Mono) -> Option<ProbeId> {
        self.next_due().filter(|at| *at <= now)?;
        let Reverse((at, id)) = self.due.pop()?;
        let entry = self.get_mut(id)?;
        entry.next = None;
        entry.busy = true;
        if !std::mem::take(&mut entry.again) {
            entry.slot = at;
        }
        Some(id)
    }

    /// The container and the probe.
    #[must_use]
    pub fn question(&self, id: ProbeId) -> Option<(&Target, &Probing)> {
        self.get(id).map(|e| (&e.target, &*e.probing))
    }

    /// The pod, the container's name and the kind of a probe.
    #[must_use]
    pub fn whose(&self, id: ProbeId) -> Option<(&PodKey, &str, Kind)> {
        self.get(id).map(|entry| (&entry.key, entry.target.container.as_str(), entry.kind))
    }

    /// Takes the end of an attempt. After an attempt that itself failed, the probe may be due again
    /// immediately.
    pub fn finished(&mut self, id: ProbeId, outcome: &Outcome, now: Mono) -> Finished {
        let Some(entry) = self.get_mut(id) else { return Finished::default() };
        entry.busy = false;
        let changed = match entry.tracker.take(outcome, &entry.probing.timing) {
            Follow::TryAgain => {
                entry.again = true;
                self.put(id, now);
                return Finished::default();
            }
            Follow::ThrownAway => None,
            Follow::Counted(changed) => changed,
        };
        let said = entry.said(outcome);
        let changed = changed.map(|verdict| Changed {
            key: entry.key.clone(),
            id: entry.target.id.clone(),
            kind: entry.kind,
            since: entry.target.started,
            verdict,
        });
        if !entry.tracker.is_held() {
            let period = entry.probing.timing.period.max(Duration::from_secs(1));
            let next = next_slot(entry.slot, period, now);
            self.put(id, next);
        }
        if let Some(Changed { key, kind: Kind::Startup, .. }) = &changed {
            for sibling in self.of(key) {
                self.arm(sibling, now);
            }
        }
        Finished { changed, said }
    }

    /// Sets the time of a probe's first attempt, if it may have one.
    fn arm(&mut self, id: ProbeId, now: Mono) {
        let Some(entry) = self.get(id) else { return };
        if entry.busy || entry.next.is_some() || entry.tracker.is_held() {
            return;
        }
        if entry.probing.action.needs_address() && entry.target.address.is_none() {
            return;
        }
        // A container that ran before the daemon counts as started, and its readiness kills no container, so
        // it is probed immediately; its liveness probe still waits.
        let open = entry.kind == Kind::Startup || (entry.target.adopted && entry.kind == Kind::Readiness);
        if !open && !self.has_started(entry) {
            return;
        }
        let timing = entry.probing.timing;
        let first = entry.target.started.after(timing.initial_delay).max(now);
        // Readiness is probed immediately, as upstream does for a container that is not ready; the others are
        // spread.
        let at_once = entry.kind == Kind::Readiness && !entry.target.adopted;
        let spread = if at_once { Duration::ZERO } else { self.part_of(timing.period) };
        self.put(id, first.after(spread));
    }

    fn has_started(&self, entry: &Entry) -> bool {
        if entry.target.probe(Kind::Startup).is_none() {
            return true;
        }
        let startup = |e: &Entry| {
            e.kind == Kind::Startup
                && e.key == entry.key
                && e.target.is_same_run(&entry.target)
                && e.tracker.stored() == Some(ProbeVerdict::Success)
        };
        self.entries.iter().any(|(_, e)| startup(e))
    }

    fn put(&mut self, id: ProbeId, at: Mono) {
        if let Some(entry) = self.get_mut(id) {
            entry.next = Some(at);
            self.due.push(Reverse((at, id)));
        }
    }

    /// A random part of a period (xorshift).
    fn part_of(&mut self, period: Duration) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let millis = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
        Duration::from_millis(self.random % millis)
    }

    /// Number of entries, and of entries with a time.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.entries.iter().filter(|(_, e)| e.next.is_some()).count())
    }
}

/// The next slot of the grid; immediately if the attempt took longer than a period, and in the grid again
/// after that.
fn next_slot(slot: Mono, period: Duration, now: Mono) -> Mono {
    let late = now.since(slot).as_nanos().checked_div(period.as_nanos()).unwrap_or(0);
    if late == 0 {
        return slot.after(period);
    }
    let skip = u32::try_from(late).unwrap_or(u32::MAX);
    slot.after(period.saturating_mul(skip))
}

impl Entry {
    fn said(&self, outcome: &Outcome) -> Option<Said> {
        let (reason, text) = outcome::event(self.kind, outcome)?;
        Some(Said { key: self.key.clone(), id: self.target.id.clone(), kind: self.kind, reason, text })
    }
}

#[cfg(test)]
mod tests;
