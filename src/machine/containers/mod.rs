//! The containers of one identity that Docker is known to have, with one record about each: calls under way, failures,
//! results of probes. A record is made and removed with its container, so nothing about a container outlives it, and no
//! code has to forget it.
//!
//! The plan and the status read the containers as Docker shows them, so these are a row of their own ([`Observed`]).
//! Only this file changes a row or its records, so that they correspond.

pub(super) mod look;
pub(super) mod merge;
pub(super) mod run;

use crate::base::clock::Mono;
use crate::plan::{Observed, Owned, RunState};
use crate::runtime::Resources;

use crate::machine::calls::Retry;
use crate::machine::stop::Stop;

pub(super) use run::Run;

/// The need for an inspect, in rising order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    /// None: the known state counts.
    #[default]
    Settled,
    /// An inspect is wanted; nothing waits for it.
    Wanted,
    /// An inspect is needed before anything is decided.
    Needed,
}

/// Everything known about a container that Docker does not show.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The need for an inspect.
    pub look: Look,
    /// Failed inspects since the last good one.
    pub look_retry: Retry,
    /// Facts about its present run.
    pub run: Run,
    /// Its resources are being changed.
    pub resizing: bool,
    /// Starts that Docker refused though it may accept them: there is no wait after the first.
    pub start_retry: Option<Retry>,
    /// Until when a start may still be carried out: one without an answer, or one of a daemon that died.
    pub late_start: Option<Mono>,
    /// The reason why its start failed; Docker may still show `created`.
    pub start_error: Option<String>,
    /// Removals that failed.
    pub removal: Retry,
    /// Docker said of the dead container that it runs, as it may for a moment after the end.
    pub is_removed_early: bool,
    /// The resources that Docker was asked for last.
    pub size: Option<Resources>,
    /// Retries and reason of a refused change of resources.
    pub size_failure: Option<Box<(Retry, String)>>,
}

impl Record {
    /// Raises the need for an inspect to at least this.
    pub fn needs(&mut self, look: Look) {
        self.look = self.look.max(look);
    }
}

/// Containers, and at the same index the record of each.
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

    /// Grows in small steps: most pods have few containers.
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

/// All containers of one identity.
#[derive(Debug, Default)]
pub(super) struct Containers {
    /// Live containers, and dead ones that count.
    current: Row,
    /// Dead containers of an earlier life of this identity, which wait for removal.
    earlier: Row,
    /// Number of dead instances of each name that the node allows now; `None` for the usual number.
    pub dead_allowed: Option<usize>,
}

impl Containers {
    /// Live containers, and dead ones that count.
    pub fn current(&self) -> &Observed {
        &self.current.seen
    }

    /// Dead containers of an earlier life, which wait for removal.
    pub fn earlier(&self) -> &Observed {
        &self.earlier.seen
    }

    /// All containers.
    pub fn all(&self) -> impl Iterator<Item = &Owned> {
        self.current.seen.all.iter().chain(&self.earlier.seen.all)
    }

    /// All containers with their records.
    pub fn records(&self) -> impl Iterator<Item = (&Owned, &Record)> {
        self.current.pairs().chain(self.earlier.pairs())
    }

    /// All containers with their records, mutable.
    pub fn records_mut(&mut self) -> impl Iterator<Item = (&mut Owned, &mut Record)> {
        self.current.pairs_mut().chain(self.earlier.pairs_mut())
    }

    /// Ids of the containers that match `test`, in order.
    pub fn ids(&self, test: impl Fn(&Owned, &Record) -> bool) -> Vec<String> {
        let found = self.records().filter(|(c, record)| test(c, record));
        let mut ids: Vec<String> = found.map(|(c, _)| c.id.clone()).collect();
        crate::base::order::sort(&mut ids);
        ids
    }

    /// Number of containers.
    pub fn len(&self) -> usize {
        self.current.records.len() + self.earlier.records.len()
    }

    /// Whether any container runs.
    pub fn any_runs(&self) -> bool {
        self.all().any(|c| c.state.is_running())
    }

    /// The container with this id.
    pub fn get(&self, id: &str) -> Option<&Owned> {
        self.all().find(|c| c.id == id)
    }

    /// The container with this id and its record, mutable.
    pub fn get_mut(&mut self, id: &str) -> Option<(&mut Owned, &mut Record)> {
        self.records_mut().find(|(c, _)| c.id == id)
    }

    /// The same, unless it belongs to an earlier life.
    pub fn current_mut(&mut self, id: &str) -> Option<(&mut Owned, &mut Record)> {
        self.current.pairs_mut().find(|(c, _)| c.id == id)
    }

    /// The record of the container with this id.
    pub fn record(&self, id: &str) -> Option<&Record> {
        self.records().find(|(c, _)| c.id == id).map(|(_, record)| record)
    }

    /// The record of the container with this id, mutable.
    pub fn record_mut(&mut self, id: &str) -> Option<&mut Record> {
        self.get_mut(id).map(|(_, record)| record)
    }

    /// Raises a container's need for an inspect; does nothing for one that is gone.
    pub fn needs(&mut self, id: &str, look: Look) {
        if let Some(record) = self.record_mut(id) {
            record.needs(look);
        }
    }

    /// Sets the known state of a container. A new one gets a record.
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

    /// Puts a container into an earlier life.
    pub fn put_earlier(&mut self, owned: Owned) {
        self.remove(&owned.id);
        self.earlier.push(owned, Record::default());
    }

    /// Removes a container and its record.
    pub fn remove(&mut self, id: &str) -> Option<Owned> {
        let (gone, _) = self.current.remove(id).or_else(|| self.earlier.remove(id))?;
        Some(gone)
    }

    /// Moves all containers to an earlier life.
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

    /// Whether Docker may still carry out a start of this container.
    pub fn may_start_late(&self, id: &str, now: Mono) -> bool {
        self.record(id).and_then(|record| record.late_start).is_some_and(|until| now < until)
    }

    /// Notes that a start of this container may be carried out until then. It never gets another start: once it has
    /// run, no start is left that could run it again beside its successor.
    pub fn start_may_come(&mut self, id: &str, until: Mono) {
        if let Some((made, record)) = self.get_mut(id) {
            record.late_start = Some(until);
            made.start_sent = made.state == RunState::Created;
        }
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;
    use crate::base::table::Set;
    use crate::plan::testing;

    fn owned(id: u8) -> Owned {
        let pod = testing::pod("{containers: [{name: app}]}");
        let mut owned = testing::observed(&pod, "app running").all.remove(0);
        owned.id = format!("id{id}");
        owned
    }

    /// Checks that records and containers correspond.
    fn check(all: &Containers, marked: &Set<String>) {
        for row in [&all.current, &all.earlier] {
            assert_eq!(row.seen.all.len(), row.records.len());
        }
        let ids: Vec<&String> = all.all().map(|c| &c.id).collect();
        assert_eq!(ids.iter().collect::<Set<_>>().len(), ids.len(), "{ids:?}");
        assert_eq!(all.len(), ids.len());
        let known: Set<String> = all.ids(|_, record| record.run.out_of_memory).into_iter().collect();
        assert_eq!(known, *marked);
    }

    proptest! {
        #[test]
        fn a_record_goes_with_its_container_and_never_to_another(steps in proptest::collection::vec((0_u8..6, 0_u8..5), 0..60)) {
            let (mut all, mut marked) = (Containers::default(), Set::new());
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
        // Nothing is kept about a container that is gone.
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
