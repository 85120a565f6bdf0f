//! The begin of the daemon: reports of the sources wait for each other, so that a pod in two sources is started from the
//! one that gets it in the end, and a source that cannot be read, or hangs, does not hold up the others for ever.

use std::sync::Arc;

use super::Turn;
use super::due::Due;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::table::Table;
use crate::pod::Source;
use crate::source::{FromSource, PodSet, SourceUpdate};

/// Reports at the daemon's start that came too early to be handled at once.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Reports by which sources give pods up; they wait until every source was heard, for `limits::NAMES_KEPT`.
    pub(super) contents: Table<Source, GivesUp>,
    /// Reports that wait for preceding sources, in order.
    parked: Vec<FromSource>,
    /// How long they wait at most, counted from the first report of any source.
    until: Option<Mono>,
    /// Sources that have not reported are not waited for any longer.
    pub(super) is_over: bool,
    /// Remembered content of sources that are being read for the first time.
    pub(super) remembered: Table<Source, PodSet>,
}

/// A report by which a source may give pods up.
#[derive(Debug)]
pub(super) enum GivesUp {
    Full(PodSet),
    Forgotten,
}

impl Turn {
    /// Handles a source's report when it is its turn. A pod in two sources must be started from the one that
    /// gets it in the end, so reports wait for the first report of preceding sources, up to
    /// `limits::SOURCE_HEAD_START`.
    pub(super) fn hear(&mut self, from: FromSource, now: &Now) {
        if let SourceUpdate::Remembered(set) = from.update {
            // Others do not get the names of its pods meanwhile.
            let until = now.mono.after(limits::DIRECTORY_LATE);
            self.early.until = Some(until);
            self.early.remembered.insert(from.source, set);
            return self.due.push(until, Due::Remembered);
        }
        let until = *self.early.until.get_or_insert(now.mono.after(limits::SOURCE_HEAD_START));
        self.early.parked.push(from);
        self.unpark(now);
        if !self.early.parked.is_empty() {
            self.due.push(until, Due::Sources);
        }
        if !self.all_heard() && !self.early.is_over {
            self.due.push(now.mono.after(limits::NAMES_KEPT), Due::Names);
        }
    }

    /// Whether every source before this one was heard.
    fn precede(&self, source: Source) -> bool {
        self.sources.iter().all(|(other, state)| *other >= source || state.heard)
    }

    /// Handles the parked reports whose turn has come: preceding sources first, and the reports of one source in
    /// order.
    pub(super) fn unpark(&mut self, now: &Now) {
        let over = self.early.until.is_some_and(|until| until <= now.mono);
        loop {
            let parked = self.early.parked.iter().enumerate();
            let ready = parked.filter(|(_, from)| over || self.precede(from.source));
            let Some((at, _)) = ready.min_by_key(|(at, from)| (from.source, *at)) else { return };
            let from = self.early.parked.remove(at);
            self.update(from.source, from.update, now);
        }
    }

    /// Names that were kept for this source are free, unless it has sent a set with them or they run.
    pub(super) fn heard(&mut self, source: Source, now: &Now) {
        let objects = Arc::clone(self.merge.objects());
        let changes = self.merge.change().heard(source, now.wall);
        self.put_in_force(changes, &objects, now);
    }

    /// The first reading of sources takes long: what is remembered of them is put in force.
    pub(super) fn put_remembered_in_force(&mut self, now: &Now) {
        for (source, set) in std::mem::take(&mut self.early.remembered) {
            self.update(source, SourceUpdate::Restored(set), now);
        }
        self.unpark(now);
    }

    /// A source that hangs keeps the names of its ended pods from others no longer, and their reports wait no longer for
    /// it. Nothing is remembered of it, or it would have been heard.
    pub(super) fn give_up_waiting(&mut self, now: &Now) {
        let silent: Vec<Source> =
            self.sources.iter().filter(|(_, state)| !state.heard).map(|(source, _)| *source).collect();
        for source in silent {
            self.heard(source, now);
        }
        self.early.is_over = true;
        self.put_contents_in_force(now);
    }

    /// The reports by which sources give pods up.
    pub(super) fn put_contents_in_force(&mut self, now: &Now) {
        for (source, gives_up) in std::mem::take(&mut self.early.contents) {
            self.changed = true;
            match gives_up {
                GivesUp::Full(set) => self.full(source, &set, now),
                GivesUp::Forgotten => self.forgotten(source, now),
            }
        }
    }
}
