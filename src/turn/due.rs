//! Deadlines of the main loop: a heap, so that nothing polls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Mono;
use crate::pod::PodKey;

/// What comes due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A worker whose thread could not be started is tried again.
    Spawn(PodKey),
}

/// Earliest first; bounded by what can be due (one entry a pod).
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
