//! Deadlines of the main loop, in a heap, so that no thread polls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::clock::Mono;
use crate::pod::PodKey;

/// Kind of deadline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A worker's thread could not be started: try again.
    Spawn(PodKey),
    /// A pod has waited for other pods long enough.
    After(PodKey),
    /// Sources were given enough time for their first reading. This comes before the next one.
    Remembered,
    /// Sources have waited long enough for the first report of the sources before them.
    Sources,
    /// Names are kept for sources that have not reported for no longer.
    Names,
    /// Stops of an earlier daemon wait no longer until a server has told of their pods.
    Unfinished,
    /// The time of the pods that are not critical is over: the machine goes down.
    Shutdown,
    /// A pod was evicted long enough ago.
    Evicted(PodKey),
    /// Another evicted pod may start.
    Returns,
    /// Many refused pods are judged again.
    Refused,
}

/// Earliest first. At most one entry of each kind for each pod.
#[derive(Debug, Default)]
pub(super) struct DueHeap {
    heap: BinaryHeap<Reverse<(Mono, Due)>>,
}

impl DueHeap {
    /// Adds an entry; does nothing when an equal one is in the heap.
    pub(super) fn push(&mut self, at: Mono, due: Due) {
        if !self.heap.iter().any(|Reverse((_, d))| *d == due) {
            self.heap.push(Reverse((at, due)));
        }
    }

    /// Adds an entry; an equal one is removed first.
    pub(super) fn replace(&mut self, at: Mono, due: Due) {
        self.heap.retain(|Reverse((_, d))| *d != due);
        self.heap.push(Reverse((at, due)));
    }

    pub(super) fn next(&self) -> Option<Mono> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns the earliest entry that is due.
    pub(super) fn pop(&mut self, now: Mono) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, due))| due)
    }
}
