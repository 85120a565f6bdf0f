//! Whether a disk still gets emptier. Docker and podkeeper may take long to remove a pod's files, some of them after
//! the pod's end: while that frees room, another pod would be evicted for space that is free soon.
//!
//! If a pod fills the disk while it is being freed, the free space does not reach a new maximum, so the wait ends. If a
//! pod frees a little space again and again, the wait is bounded, too.

use super::Observations;
use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::{Set, Table};
use crate::eviction::signal::Signal;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// The largest free space on each short disk since the last eviction.
    most: Table<Signal, u64>,
    /// Evictions wait at least until then.
    until: Option<Mono>,
    /// When the last evicted pod had ended, or, before any eviction, when the disk began to get emptier.
    since: Option<Mono>,
    /// An eviction was put off because of this.
    has_kept: bool,
}

impl Settling {
    /// Takes the free space of the disks that are short.
    pub(super) fn see(&mut self, short: &Set<Signal>, found: &Observations, now: Mono) {
        self.most.retain(|signal, _| short.contains(signal));
        if self.most.is_empty() {
            self.since = None;
        }
        let disks = short.iter().filter(|signal| signal.is_of_disk());
        for (signal, seen) in disks.filter_map(|signal| Some((*signal, found.get(signal)?))) {
            let most = *self.most.get_or_insert(signal, seen.available);
            let step = (seen.capacity / limits::DISK_FREED_PART).max(1);
            if seen.available >= most.saturating_add(step) {
                self.most.insert(signal, seen.available);
                let since = *self.since.get_or_insert(now);
                if now.since(since) < limits::DISK_FREED_LONGEST {
                    self.until = Some(now.after(limits::EVICTION_NEAR));
                }
            }
        }
    }

    /// Podkeeper has caused a removal: evictions wait for its effect.
    pub(super) fn begin(&mut self, now: Mono) {
        self.since = Some(now);
        self.until = Some(now.after(limits::EVICTION_NEAR));
    }

    /// Whether there was no wait yet.
    pub(super) fn is_new(&self) -> bool {
        self.until.is_none()
    }

    /// A pod is evicted: earlier free space no longer counts.
    pub(super) fn forget(&mut self) {
        self.most.clear();
    }

    /// Whether the disk may still get emptier, so that no pod is evicted yet.
    pub(super) fn keeps(&mut self, now: Mono) -> bool {
        let keeps = self.until.is_some_and(|until| now < until);
        self.has_kept |= keeps;
        keeps
    }

    /// Ends a wait that has put off an eviction. Returns true, once, if there was one.
    pub(super) fn end_time(&mut self, now: Mono) -> bool {
        self.until.is_none_or(|until| now >= until) && std::mem::take(&mut self.has_kept)
    }
}
