//! Whether a disk still gets emptier. Docker and podkeeper may take long to remove what a pod leaves behind, some of it
//! after the pod is gone: as long as that frees room, another pod would go for what is free soon.
//!
//! Who fills a disk while it is being freed keeps it from getting emptier than it ever was in this shortage, so this ends.
//! Who gives back a little again and again is not waited for without end, either.

use std::collections::BTreeSet;

use super::Observations;
use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::Table;
use crate::eviction::signal::Signal;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// The most that was left of each disk that is short, since the last pod went.
    most: Table<Signal, u64>,
    /// The disks are watched at least until then.
    until: Option<Mono>,
    /// When the last pod had gone, or, before one went, when the disk began to get emptier.
    since: Option<Mono>,
    /// That has kept a pod from going.
    has_kept: bool,
}

impl Settling {
    /// What is left of the disks that are short.
    pub(super) fn see(&mut self, short: &BTreeSet<Signal>, found: &Observations, now: Mono) {
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

    /// Podkeeper has something removed: it is awaited.
    pub(super) fn begin(&mut self, now: Mono) {
        self.since = Some(now);
        self.until = Some(now.after(limits::EVICTION_NEAR));
    }

    /// Whether nothing was awaited yet.
    pub(super) fn is_new(&self) -> bool {
        self.until.is_none()
    }

    /// A pod goes: what was free before counts no more.
    pub(super) fn forget(&mut self) {
        self.most.clear();
    }

    /// Whether more is to be expected, and no pod goes yet.
    pub(super) fn keeps(&mut self, now: Mono) -> bool {
        let keeps = self.until.is_some_and(|until| now < until);
        self.has_kept |= keeps;
        keeps
    }

    /// Ends a time in which it kept a pod from going. True: there was one, which is told once.
    pub(super) fn end_time(&mut self, now: Mono) -> bool {
        self.until.is_none_or(|until| now >= until) && std::mem::take(&mut self.has_kept)
    }
}
