//! Room that is lent: a job that a waiting pod needs to have succeeded may take the room of every pod that waits, for it
//! gives it back when it ends. Waiting pods that fill the node together would otherwise keep out the jobs that they wait for.
//! A pod that has waited, and finds its room lent, has it back first.
//!
//! Never here: room of a pod that waits for nothing any more, and of one for which the job would be stopped.

use super::Why;
use crate::base::table::{Set, Table};
use crate::daemon::turn::Turn;
use crate::daemon::turn::entry::Entry;
use crate::pod::{DesiredPod, PodKey, RestartPolicy, after, priority};

/// Who is not stopped for whom, the lowest first: not of a source behind others, critical.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::daemon::turn) struct Rank(bool, bool);

/// The highest rank of the pods that wait for another one, at first or second hand.
#[derive(Debug)]
pub(in crate::daemon::turn) enum Ranks {
    /// All waiting pods have this one, as nearly always: keys of hundreds of pods need not be compared.
    Same(Rank),
    Differ(Table<PodKey, Rank>),
}

impl Turn {
    pub(in crate::daemon::turn) fn rank(&self, pod: &DesiredPod) -> Rank {
        Rank(!self.is_behind(pod), priority::is_critical(pod))
    }

    /// Whether others need this pod to succeed, and it ends by itself.
    pub(in crate::daemon::turn) fn is_needed_job(&self, pod: &DesiredPod) -> bool {
        self.waiting.needs_end_of(&pod.key) && is_job(pod)
    }

    /// The rank for which a pod may borrow, its own or that of a pod that waits for it; `None`: it may not.
    pub(in crate::daemon::turn) fn borrows(&self, pod: &DesiredPod) -> Option<Rank> {
        if !self.is_needed_job(pod) {
            return None;
        }
        let ranks = self.waiting.ranks.get_or_init(|| {
            let waiting = self.entries.values().filter_map(Entry::held).filter(|held| held.why == Why::After);
            let waiters: Vec<(Rank, &PodKey)> =
                waiting.map(|held| (self.rank(&held.pod), &held.pod.key)).collect();
            let first = waiters.first().map(|(rank, _)| *rank);
            match first.filter(|first| waiters.iter().all(|(rank, _)| rank == first)) {
                Some(same) => Ranks::Same(same),
                None => Ranks::Differ(self.waiting.highest(waiters)),
            }
        });
        let of_waiters = match ranks {
            Ranks::Same(rank) => Some(*rank),
            Ranks::Differ(ranks) => ranks.get(&pod.key).copied(),
        };
        Some(of_waiters.into_iter().fold(self.rank(pod), Rank::max))
    }

    /// Whether a waiting pod lends its room to one that may borrow for this rank.
    pub(in crate::daemon::turn) fn lends(&self, waiting: &DesiredPod, borrower: Option<Rank>) -> bool {
        borrower.is_some_and(|rank| self.rank(waiting) <= rank)
    }

    /// The jobs that may have borrowed the room of a pod that waits, or has waited: of those that run, or are about to, the ones
    /// that others need, and the ones of which it was told to wait for the end. Empty for others.
    pub(in crate::daemon::turn) fn borrowers(&self, pod: &DesiredPod) -> Set<PodKey> {
        if after::of(pod).is_none() {
            return Set::new();
        }
        let known = self.entries.get(&pod.key).map(|entry| &entry.lent_to);
        let has_borrowed = |key: &PodKey, job: &DesiredPod| {
            // Whoever would be stopped for the pod is not waited for any longer than others need it.
            let is_known = known.and_then(|known| known.get(key)).is_some_and(|uid| *uid == job.uid)
                && self.rank(pod) <= self.rank(job);
            let is_needed = || self.waiting.needs_end_for_others(key, &pod.key);
            is_job(job) && (is_known || is_needed() && self.lends(pod, self.borrows(job)))
        };
        // Of hundreds that wait or are refused, few have room.
        let has_room = |entry: &Entry| match entry.held() {
            Some(held) => held.why == Why::Room,
            None => entry.desired.is_some() && !entry.is_over(),
        };
        let others = self.entries.iter().filter(|(key, entry)| **key != pod.key && has_room(entry));
        let borrowers =
            others.filter(|(key, entry)| entry.accepted().is_some_and(|job| has_borrowed(key, job)));
        borrowers.map(|(key, _)| key.clone()).collect()
    }

    /// Notes to which jobs the room of a pod is lent that is ready: they give it back, whoever needs them.
    pub(super) fn note_lent(&mut self, pod: &DesiredPod) {
        let borrowers = self.borrowers(pod);
        let of = |key: PodKey| {
            let job = self.entries.get(&key).and_then(|entry| entry.desired.as_ref())?;
            Some((key, job.uid.clone()))
        };
        let lent_to = borrowers.into_iter().filter_map(of).collect();
        self.entries.get_or_default(pod.key.clone()).lent_to = lent_to;
    }
}

/// Whether a pod ends by itself.
fn is_job(pod: &DesiredPod) -> bool {
    RestartPolicy::parse(pod.spec.restart_policy.as_deref()) != RestartPolicy::Always
}
