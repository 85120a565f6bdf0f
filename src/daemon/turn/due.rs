//! Deadlines of the main loop: a heap, so that nothing polls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::clock::Mono;
use crate::pod::PodKey;

/// What comes due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A worker whose thread could not be started is tried again.
    Spawn(PodKey),
    /// A pod has waited for others long enough.
    After(PodKey),
    /// Sources have waited long enough for the first word of those before them.
    Sources,
}

/// Earliest first; bounded by what can be due (an entry of each kind a pod).
#[derive(Debug, Default)]
pub(super) struct DueHeap {
    heap: BinaryHeap<Reverse<(Mono, Due)>>,
}

impl DueHeap {
    /// Adds; an equal entry that waits already is not doubled.
    pub(super) fn push(&mut self, at: Mono, due: Due) {
        if !self.heap.iter().any(|Reverse((_, d))| *d == due) {
            self.heap.push(Reverse((at, due)));
        }
    }

    /// Adds; an equal entry that waits already gives way.
    pub(super) fn replace(&mut self, at: Mono, due: Due) {
        self.heap.retain(|Reverse((_, d))| *d != due);
        self.heap.push(Reverse((at, due)));
    }

    pub(super) fn next(&self) -> Option<Mono> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// The earliest one that is due, if any.
    pub(super) fn pop(&mut self, now: Mono) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, due))| due)
    }
}
