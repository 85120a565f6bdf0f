//! Sets per source -> one desired map and typed changes (spec/01 sections 7-9). Pure.
//!
//! Never here: reading anything, starting anything, wall-clock order.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::pod::{DesiredPod, PodKey, Source};
use crate::source::{PodSet, Problem};

/// What happened to one pod in the merge (spec/01 section 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// A UID not known before.
    Add,
    /// Known UID, its meaning changed.
    Update,
    /// Known UID, graceful deletion began (deletionTimestamp set).
    Delete,
    /// UID gone from its source.
    Remove,
    /// Only the status changed.
    Reconcile,
    /// From the last good store, before the source itself has answered: handled like Add, marks nothing
    /// ready.
    Restore,
    /// The complete state; only in the snapshot modes.
    Set,
}

/// One message of the merge: pods of one kind of change, never empty except where spec/01 section 7
/// wants an empty `Add` to mark a source seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Kind.
    pub op: Op,
    /// Which source's set caused it.
    pub source: Source,
    /// The pods, in order of origin. For `Remove`: as they were last wanted.
    pub pods: Vec<Arc<DesiredPod>>,
}

/// How changes are told (spec/01 section 8, notification modes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// One `Set` of the merged state whenever anything changed.
    Snapshot,
    /// A `Set` when pods came or went, and then typed updates.
    SnapshotAndUpdates,
    /// Typed changes only: what the daemon uses.
    Incremental,
}

/// The state of the merge. See [`Merge::full`].
#[derive(Debug)]
pub struct Merge {
    mode: Notification,
}

impl Merge {
    /// A merge of these declared sources; no other source is ever ready or not ready.
    #[must_use]
    pub fn new(mode: Notification, declared: &[Source]) -> Merge {
        let _ = declared;
        Merge { mode }
    }
    /// Takes the complete set of one source and tells what changed, in delivery order: Remove, Add,
    /// Update, Delete, (empty Add on a first set without any of these), Reconcile.
    pub fn full(&mut self, source: Source, set: &PodSet, seen: Timestamp) -> Vec<Change> {
        let _ = (source, set, seen, self.mode);
        Vec::new()
    }
    /// Takes what the last good store held for a source: `Restore`, and the source stays not ready.
    pub fn restore(&mut self, source: Source, set: &PodSet, seen: Timestamp) -> Vec<Change> {
        let _ = (source, set, seen);
        Vec::new()
    }
    /// Tells which UID runs now for each identity (from Docker's labels, at start): of two that claim
    /// one name, the running one keeps it. May move a name from one claimant to the other.
    pub fn running(&mut self, uids: &BTreeMap<PodKey, String>, seen: Timestamp) -> Vec<Change> {
        let _ = (uids, seen);
        Vec::new()
    }
    /// The pod that holds this identity now.
    #[must_use]
    pub fn get(&self, key: &PodKey) -> Option<&Arc<DesiredPod>> {
        let _ = key;
        None
    }
    /// All wanted pods, by identity.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<DesiredPod>> {
        std::iter::empty()
    }
    /// The source has sent at least one full set.
    #[must_use]
    pub fn ready(&self, source: Source) -> bool {
        let _ = source;
        false
    }
    /// Every declared source is ready.
    #[must_use]
    pub fn all_ready(&self) -> bool {
        false
    }
    /// Paths of a source that cannot be read well now ([`PodSet::broken`]).
    #[must_use]
    pub fn is_broken(&self, source: Source, path: &str) -> bool {
        let _ = (source, path);
        false
    }
    /// Two or more pods with one name: the losers, and who holds the name.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }
}
