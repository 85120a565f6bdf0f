//! Room that is lent: a job that a waiting pod needs to have succeeded may take the room of every pod that waits, for it
//! gives it back when it ends. Waiting pods that fill the node together would otherwise keep out the jobs that they wait for.
//! A pod that has waited, and finds its room lent, has it back first.
//!
//! Never here: room of a pod that waits for nothing any more, and of one for which the job would be stopped.

use crate::base::order;
use crate::base::table::Set;
use crate::daemon::turn::Turn;
use crate::daemon::turn::entry::Entry;
use crate::pod::{DesiredPod, PodKey, RestartPolicy, after, priority};

/// Who is not stopped for whom, the lowest first: not of a source behind others, critical.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::daemon::turn) struct Rank(bool, bool);

impl Turn {
    fn rank(&self, pod: &DesiredPod) -> Rank {
        Rank(!self.is_behind(pod), priority::is_critical(pod))
    }

    /// Whether others need this pod to succeed, and it ends by itself.
    pub(in crate::daemon::turn) fn is_needed_job(&self, pod: &DesiredPod) -> bool {
        self.waiting.needs_end_of(&pod.key)
            && RestartPolicy::parse(pod.spec.restart_policy.as_deref()) != RestartPolicy::Always
    }

    /// The rank for which a pod may borrow, its own or that of a pod that waits for it; `None`: it may not.
    pub(in crate::daemon::turn) fn borrows(&self, pod: &DesiredPod) -> Option<Rank> {
        if !self.is_needed_job(pod) {
            return None;
        }
        let waiters = self.waiting.all_on(&pod.key);
        let waiters = waiters.iter().filter_map(|key| self.entries.get(key)?.waits());
        waiters.map(|waiter| self.rank(waiter)).chain([self.rank(pod)]).max()
    }

    /// Whether a waiting pod lends its room to one that may borrow for this rank.
    pub(in crate::daemon::turn) fn lends(&self, waiting: &DesiredPod, borrower: Option<Rank>) -> bool {
        borrower.is_some_and(|rank| self.rank(waiting) <= rank)
    }

    /// The jobs that may have borrowed the room of a pod that waits, or has waited. Empty for others.
    pub(in crate::daemon::turn) fn borrowers(&self, pod: &DesiredPod) -> Set<PodKey> {
        if after::of(pod).is_none() {
            return Set::new();
        }
        // There may be hundreds that are refused: they have borrowed nothing.
        let counts = |entry: &&Entry| entry.active().next().is_some();
        let has_borrowed = |key: &&PodKey| {
            let job = self.entries.get(*key).filter(counts).and_then(Entry::accepted);
            **key != pod.key && job.is_some_and(|job| self.lends(pod, self.borrows(job)))
        };
        order::set(self.waiting.needed_by_others(&pod.key).filter(has_borrowed).cloned())
    }
}
