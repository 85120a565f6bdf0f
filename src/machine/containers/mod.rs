//! The containers of one identity that Docker is known to hold, and one record about each: what is under way, what
//! failed, what its probes said. A record begins with its container and goes with it, so nothing about a container
//! outlives it, and no code has to forget it.
//!
//! The plan and the status read what Docker says of the containers as it is, so that is a row of its own ([`Observed`]).
//! Each row and its records change here alone, so that they keep step.

pub(super) mod look;
pub(super) mod merge;
pub(super) mod run;

use crate::base::clock::Mono;
use crate::plan::{Observed, Owned, RunState};
use crate::runtime::Resources;

use crate::machine::calls::Retry;
use crate::machine::stop::Stop;

pub(super) use run::Run;

/// The need of an inspection, the lesser first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    /// Nothing: what is known of it counts.
    #[default]
    Settled,
    /// It should be inspected; nothing waits for that.
    Wanted,
    /// It must be inspected before anything is decided.
    Needed,
}

/// Everything known of one container that Docker does not say.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// What it needs of an inspection.
    pub look: Look,
    /// Inspections of it that failed, since one worked.
    pub look_retry: Retry,
    /// What is known of its run alone.
    pub run: Run,
    /// It is being given other sizes.
    pub resizing: bool,
    /// Starts that were refused though Docker may take them: the first costs no wait.
    pub start_retry: Option<Retry>,
    /// Until when a start of it may still be carried out: one without an answer, or one of a daemon that died.
    pub late_start: Option<Mono>,
    /// Why its start failed, though Docker may still say `created`.
    pub start_error: Option<String>,
    /// Removals of it that failed.
    pub removal: Retry,
    /// The sizes that Docker was asked for last.
    pub size: Option<Resources>,
    /// Why other sizes were refused.
    pub size_failure: Option<Box<(Retry, String)>>,
}

impl Record {
    /// It needs at least this of an inspection.
    pub fn needs(&mut self, look: Look) {
        self.look = self.look.max(look);
    }
}

/// Containers, and the record of each at the same place.
#[derive(Debug, Default)]
struct Row {
    seen: Observed,
    records: Vec<Record>,
}

impl Row {
    fn place(&self, id: &str) -> Option<usize> {
        self.seen.all.iter().position(|c| c.id == id)
    }

    fn pairs(&self) -> impl Iterator<Item = (&Owned, &Record)> {
        self.seen.all.iter().zip(&self.records)
    }

    fn pairs_mut(&mut self) -> impl Iterator<Item = (&mut Owned, &mut Record)> {
        self.seen.all.iter_mut().zip(&mut self.records)
    }

    /// Most pods have few containers: room for four of them would be mostly empty.
    fn push(&mut self, owned: Owned, record: Record) {
        let grow = 1_usize.saturating_add(self.records.len() / 2);
        if self.seen.all.len() == self.seen.all.capacity() {
            self.seen.all.reserve_exact(grow);
        }
        if self.records.len() == self.records.capacity() {
            self.records.reserve_exact(grow);
        }
        self.seen.all.push(owned);
        self.records.push(record);
    }

    fn remove(&mut self, id: &str) -> Option<(Owned, Record)> {
        let at = self.place(id)?;
        let pair = (self.seen.all.remove(at), self.records.remove(at));
        if self.records.is_empty() {
            *self = Row::default();
        }
        Some(pair)
    }
}

/// All containers of one identity. See the module.
#[derive(Debug, Default)]
pub(super) struct Containers {
    /// What lives, and the dead that count.
    current: Row,
    /// The dead of an earlier life of this identity: they only wait for removal.
    earlier: Row,
    /// How many dead instances of each name the node allows for now; `None` for as many as usual.
    pub dead_allowed: Option<usize>,
}

impl Containers {
    /// What lives, and the dead that count.
    pub fn current(&self) -> &Observed {
        &self.current.seen
    }

    /// The dead of an earlier life: they only wait for removal.
    pub fn earlier(&self) -> &Observed {
        &self.earlier.seen
    }

    /// All of both.
    pub fn all(&self) -> impl Iterator<Item = &Owned> {
        self.current.seen.all.iter().chain(&self.earlier.seen.all)
    }

    /// All of both, each with its record.
    pub fn records(&self) -> impl Iterator<Item = (&Owned, &Record)> {
        self.current.pairs().chain(self.earlier.pairs())
    }

    /// The same, to be changed.
    pub fn records_mut(&mut self) -> impl Iterator<Item = (&mut Owned, &mut Record)> {
        self.current.pairs_mut().chain(self.earlier.pairs_mut())
    }

    /// Ids of those of which `test` says so, in their order.
    pub fn ids(&self, test: impl Fn(&Owned, &Record) -> bool) -> Vec<String> {
        let found = self.records().filter(|(c, record)| test(c, record));
        let mut ids: Vec<String> = found.map(|(c, _)| c.id.clone()).collect();
        crate::base::order::sort(&mut ids);
        ids
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.current.records.len() + self.earlier.records.len()
    }

    /// Something runs.
    pub fn any_runs(&self) -> bool {
        self.all().any(|c| c.state.is_running())
    }

    /// The container with this id.
    pub fn get(&self, id: &str) -> Option<&Owned> {
        self.all().find(|c| c.id == id)
    }

    /// The container with this id and its record, to be changed.
    pub fn get_mut(&mut self, id: &str) -> Option<(&mut Owned, &mut Record)> {
        self.records_mut().find(|(c, _)| c.id == id)
    }

    /// The same, unless it is of an earlier life.
    pub fn current_mut(&mut self, id: &str) -> Option<(&mut Owned, &mut Record)> {
        self.current.pairs_mut().find(|(c, _)| c.id == id)
    }

    /// The record of the container with this id.
    pub fn record(&self, id: &str) -> Option<&Record> {
        self.records().find(|(c, _)| c.id == id).map(|(_, record)| record)
    }

    /// The same, to be changed.
    pub fn record_mut(&mut self, id: &str) -> Option<&mut Record> {
        self.get_mut(id).map(|(_, record)| record)
    }

    /// The container needs at least this of an inspection. One that is gone needs nothing.
    pub fn needs(&mut self, id: &str, look: Look) {
        if let Some(record) = self.record_mut(id) {
            record.needs(look);
        }
    }

    /// What is known of a container from now on. One that was not known begins its record.
    pub fn put(&mut self, owned: Owned) {
        match self.get_mut(&owned.id) {
            Some((place, record)) => {
                record.run.goes_on_as(&owned.state);
                *place = owned;
            }
            None => {
                let mut record = Record::default();
                record.run.goes_on_as(&owned.state);
                self.current.push(owned, record);
            }
        }
    }

    /// A container of an earlier life, whatever it was held for.
    pub fn put_earlier(&mut self, owned: Owned) {
        self.remove(&owned.id);
        self.earlier.push(owned, Record::default());
    }

    /// The container is gone, and its record with it.
    pub fn remove(&mut self, id: &str) -> Option<Owned> {
        let (gone, _) = self.current.remove(id).or_else(|| self.earlier.remove(id))?;
        Some(gone)
    }

    /// Everything belongs to an earlier life from now on.
    pub fn retire(&mut self) {
        let Row { seen, records } = std::mem::take(&mut self.current);
        for (owned, record) in seen.all.into_iter().zip(records) {
            self.earlier.push(owned, record);
        }
    }

    /// The stop of this container, if one is under way.
    pub fn stop_of(&self, id: &str) -> Option<Stop> {
        self.record(id).and_then(|record| record.run.stop.as_deref().copied())
    }

    /// A start of this container may still be carried out by Docker.
    pub fn may_start_late(&self, id: &str, now: Mono) -> bool {
        self.record(id).and_then(|record| record.late_start).is_some_and(|until| now < until)
    }

    /// A start of this container may be carried out at any time until then. It is never sent another one, so that
    /// once it has run no start of it is left that could run it again beside its successor.
    pub fn start_may_come(&mut self, id: &str, until: Mono) {
        if let Some((made, record)) = self.get_mut(id) {
            record.late_start = Some(until);
            made.start_sent = made.state == RunState::Created;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::testing;

    fn owned(id: u8) -> Owned {
        let pod = testing::pod("{containers: [{name: app}]}");
        let mut owned = testing::observed(&pod, "app running").all.remove(0);
        owned.id = format!("id{id}");
        owned
    }

    /// The records keep step with the containers.
    fn check(all: &Containers, marked: &BTreeSet<String>) {
        for row in [&all.current, &all.earlier] {
            assert_eq!(row.seen.all.len(), row.records.len());
        }
        let ids: Vec<&String> = all.all().map(|c| &c.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
        assert_eq!(all.len(), ids.len());
        let known: BTreeSet<String> = all.ids(|_, record| record.run.out_of_memory).into_iter().collect();
        assert_eq!(known, *marked);
    }

    proptest! {
        #[test]
        fn a_record_goes_with_its_container_and_never_to_another(steps in proptest::collection::vec((0_u8..6, 0_u8..5), 0..60)) {
            let (mut all, mut marked) = (Containers::default(), BTreeSet::new());
            for (step, n) in steps {
                let id = format!("id{n}");
                match step {
                    0 | 1 => all.put(owned(n)),
                    2 => {
                        if let Some(record) = all.record_mut(&id) {
                            record.run.out_of_memory = true;
                            marked.insert(id);
                        }
                    }
                    3 => {
                        let was_there = all.get(&id).is_some();
                        prop_assert_eq!(all.remove(&id).is_some(), was_there);
                        marked.remove(&id);
                    }
                    4 => {
                        all.put_earlier(owned(n));
                        marked.remove(&id);
                    }
                    _ => {
                        all.retire();
                        prop_assert!(all.current().all.is_empty());
                    }
                }
                check(&all, &marked);
            }
        }
    }

    #[test]
    fn the_greater_need_of_an_inspection_stays() {
        let mut all = Containers::default();
        all.put(owned(1));
        all.needs("id1", Look::Needed);
        all.needs("id1", Look::Wanted);
        assert_eq!(all.record("id1").unwrap().look, Look::Needed);
        // Of one that is gone nothing is kept.
        all.needs("id2", Look::Needed);
        assert!(all.record("id2").is_none());
    }

    #[test]
    fn only_what_is_made_waits_for_a_late_start() {
        let mut all = Containers::default();
        all.put(owned(1));
        all.put(Owned { state: RunState::Created, ..owned(2) });
        for id in ["id1", "id2"] {
            all.start_may_come(id, Mono(std::time::Duration::from_secs(9)));
        }
        let sent: Vec<bool> = all.all().map(|c| c.start_sent).collect();
        assert_eq!(sent, [false, true]);
        assert!(all.may_start_late("id2", Mono::default()));
        assert!(!all.may_start_late("id2", Mono(std::time::Duration::from_secs(9))));
    }
}
