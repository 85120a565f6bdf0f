//! Sets per source -> one desired map and typed changes (upstream `pkg/kubelet/config/config.go`). Pure.
//!
//! Identity is namespace/name across all sources: of several pods that claim one name, one holds it and
//! the others wait, remembered from their source's last set. Only a source's own full set takes its pods
//! away (invariant 2).
//!
//! Never here: reading anything, starting anything, wall-clock order.

mod compare;
mod names;
mod objects;
#[cfg(test)]
mod props;
#[cfg(test)]
mod tests;

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::clock::Timestamp;
use crate::base::limits;
use crate::base::order;
use crate::base::table::Table;
use crate::pod::object::{LocalObject, Scopes};
use crate::pod::problem::Problem;
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, PodKey, Source};
use crate::source::PodSet;
use names::{Claim, Holder, Holders};
use objects::ObjectClaim;

/// What happened to one pod in the merge.
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
    /// The meaning is the same: only the status changed, or which source or file the pod is written in.
    Reconcile,
    /// From the last good store, before the source itself has answered: handled like Add, marks nothing
    /// ready.
    Restore,
}

/// What was found running under one identity when the daemon began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Running {
    /// Pod UID.
    pub uid: String,
    /// [`DesiredPod::written`], as its containers carry it.
    pub written: Option<String>,
    /// [`DesiredPod::shape`], the same way.
    pub shape: Option<String>,
    /// Sources and paths written on its containers.
    pub places: BTreeSet<(Source, String)>,
    /// When it was first seen, wall time: only for people.
    pub seen: Option<Timestamp>,
}

/// One message of the merge: pods of one kind of change, never empty except where an empty `Add` marks a
/// source seen, as upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Kind.
    pub op: Op,
    /// Which source's set caused it.
    pub source: Source,
    /// The pods, in order of origin. For `Remove`: as they were last wanted.
    pub pods: Vec<Arc<DesiredPod>>,
}

/// One declared source, as its last set left it.
#[derive(Debug, Default)]
struct Known {
    /// It has sent a full set.
    ready: bool,
    /// It has sent a set, if only what is remembered of it.
    spoke: bool,
    /// What it wants, losers included, in order of origin.
    claims: Vec<Arc<DesiredPod>>,
    /// Its local objects, losers included, in order of origin.
    objects: Vec<Arc<LocalObject>>,
    /// [`PodSet::broken`].
    broken: BTreeSet<String>,
    /// It wants more pods than one source may.
    crowded: Option<Problem>,
    /// The same of objects.
    crowded_objects: Option<Problem>,
}

/// What one merge changed, by kind.
#[derive(Debug, Default)]
struct Turn {
    removed: Vec<Arc<DesiredPod>>,
    added: Vec<Arc<DesiredPod>>,
    updated: Vec<Arc<DesiredPod>>,
    deleted: Vec<Arc<DesiredPod>>,
    reconciled: Vec<Arc<DesiredPod>>,
}

/// The state of the merge. See [`Merge::full`].
#[derive(Debug)]
pub struct Merge {
    /// The declared ones only.
    sources: Table<Source, Known>,
    holders: Holders,
    /// Local objects in force.
    objects: Arc<Scopes>,
    /// What ran when the daemon began, of names that nobody has claimed yet.
    running: BTreeMap<PodKey, Running>,
}

impl Merge {
    /// A merge of these declared sources; no other source is ever ready or not ready, and what it sends
    /// is not taken.
    #[must_use]
    pub fn new(declared: &[Source]) -> Merge {
        let sources = declared.iter().map(|s| (*s, Known::default())).collect();
        Merge { sources, holders: Holders::new(), objects: Arc::default(), running: BTreeMap::new() }
    }

    /// This set lacks a pod that the source wants until now.
    #[must_use]
    pub fn gives_up(&self, source: Source, set: &PodSet) -> bool {
        let known = self.sources.get(&source).into_iter().flat_map(|known| &known.claims);
        known.into_iter().any(|claim| !set.pods.iter().any(|pod| pod.key == claim.key))
    }

    /// Takes the complete set of one source and tells what changed, in delivery order: Remove, Add,
    /// Update, Delete, (empty Add on a first set without Add, Update and Delete), Reconcile.
    ///
    /// A name that moves to another UID is a Remove and an Add. `seen` is only printed.
    pub fn full(&mut self, source: Source, set: &PodSet, seen: Timestamp) -> Vec<Change> {
        let Some(known) = self.sources.get_mut(&source) else { return Vec::new() };
        let first = !known.ready;
        known.ready = true;
        known.take(source, set, &self.holders, &self.objects);
        self.resolve_objects();
        let turn = self.resolve(seen);
        Self::tell(turn, source, Op::Add, first)
    }

    /// Takes what the last good store held for a source: `Restore`, and the source stays not ready.
    /// Nothing happens when the source has already spoken for itself.
    pub fn restore(&mut self, source: Source, set: &PodSet, seen: Timestamp) -> Vec<Change> {
        let Some(known) = self.sources.get_mut(&source).filter(|k| !k.ready) else { return Vec::new() };
        known.take(source, set, &self.holders, &self.objects);
        self.resolve_objects();
        let turn = self.resolve(seen);
        Self::tell(turn, source, Op::Restore, false)
    }

    /// Tells what runs now for each identity (from Docker's labels, at start): of two that claim one name,
    /// the running one keeps it (within one source), and a pod that moved between sources is recognised. May move a name from one claimant to the other; that is told
    /// under the source of the one that now holds it.
    pub fn running(&mut self, found: &BTreeMap<PodKey, Running>, seen: Timestamp) -> Vec<Change> {
        self.running.clone_from(found);
        let mut turn = self.resolve(seen);
        let mut changes = Vec::new();
        let sources: Vec<Source> = self.sources.keys().copied().collect();
        for source in sources {
            let mine = |p: &Arc<DesiredPod>| self.get(&p.key).is_some_and(|now| now.source == source);
            let part = turn.take(mine);
            changes.extend(Self::tell(part, source, Op::Add, false));
        }
        changes
    }

    /// The pod that holds this identity now.
    #[must_use]
    pub fn get(&self, key: &PodKey) -> Option<&Arc<DesiredPod>> {
        self.holders.get(key).map(|h| &h.pod)
    }

    /// All wanted pods, by identity.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<DesiredPod>> {
        self.holders.values().map(|h| &h.pod)
    }

    /// All local objects in force, of each source. Another `Arc` only when something changed.
    #[must_use]
    pub fn objects(&self) -> &Arc<Scopes> {
        &self.objects
    }

    /// The source has sent at least one full set.
    #[must_use]
    pub fn ready(&self, source: Source) -> bool {
        self.sources.get(&source).is_some_and(|k| k.ready)
    }

    /// Every declared source is ready. True when none is declared.
    #[must_use]
    pub fn all_ready(&self) -> bool {
        self.sources.values().all(|k| k.ready)
    }

    /// How many pods and objects a source holds, losers included.
    #[must_use]
    pub fn claims(&self, source: Source) -> usize {
        self.sources.get(&source).map_or(0, |k| k.claims.len().saturating_add(k.objects.len()))
    }

    /// What is wrong with a source that wants too much.
    #[must_use]
    pub fn crowded(&self, source: Source) -> Vec<Problem> {
        let known = self.sources.get(&source);
        known.into_iter().flat_map(|k| k.crowded.iter().chain(&k.crowded_objects)).cloned().collect()
    }

    /// Something that the source holds was made from this path.
    #[must_use]
    pub fn has_of(&self, source: Source, path: &str) -> bool {
        self.sources.get(&source).is_some_and(|k| {
            k.claims.iter().any(|pod| pod.origin.path == path)
                || k.objects.iter().any(|o| o.origin.path == path)
        })
    }

    /// Paths of a source that cannot be read well now ([`PodSet::broken`]).
    #[must_use]
    pub fn is_broken(&self, source: Source, path: &str) -> bool {
        self.sources.get(&source).is_some_and(|k| k.broken.contains(path))
    }

    /// Two or more pods or objects with one name: the losers, and who holds the name. Also one UID under
    /// several names, changes of immutable objects, and sources that want too much. At most [`limits::PROBLEMS_PER_SOURCE`].
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let crowded = self.sources.values().flat_map(|k| k.crowded.iter().chain(&k.crowded_objects));
        let mut found: Vec<Problem> = crowded.cloned().collect();
        found.extend(names::problems(claims(&self.sources), &self.holders));
        found.extend(objects::problems(object_claims(&self.sources), &self.objects));
        found.truncate(limits::PROBLEMS_PER_SOURCE);
        found
    }

    fn resolve_objects(&mut self) {
        if let Some(objects) = objects::resolve(object_claims(&self.sources), &self.objects) {
            self.objects = objects;
        }
    }

    /// Chooses the holder of every name anew from what all sources last said, and compares with before.
    fn resolve(&mut self, seen: Timestamp) -> Turn {
        let mut turn = Turn::default();
        let silent: Vec<Source> = self.sources.iter().filter(|(_, k)| !k.spoke).map(|(s, _)| *s).collect();
        let winners = names::winners(claims(&self.sources), &self.holders, &self.running, &silent);
        self.holders.retain(|key, holder| {
            let stays = winners.contains_key(key);
            if !stays {
                turn.removed.push(Arc::clone(&holder.pod));
            }
            stays
        });
        for (key, claim) in winners {
            let raw = Arc::clone(claim.pod);
            let uid = names::uid(claim, self.holders.get(key), self.running.get(key)).to_owned();
            // What runs was seen by an earlier daemon first.
            let ran = self.running.get(key).filter(|ran| ran.uid == uid).and_then(|ran| ran.seen);
            let seen = ran.unwrap_or(seen);
            let Some(holder) = self.holders.get_mut(key) else {
                let pod = compare::annotate(&raw, &uid, claim.source, seen, None);
                turn.added.push(Arc::clone(&pod));
                self.holders.insert(key.clone(), Holder { pod, raw });
                continue;
            };
            let same_uid = holder.pod.uid == uid;
            if same_uid && Arc::ptr_eq(&holder.raw, &raw) && holder.pod.source == claim.source {
                if ran.is_some() {
                    holder.pod = compare::annotate(&raw, &uid, claim.source, seen, None);
                }
                continue;
            }
            let old = Some(&*holder.pod).filter(|_| same_uid && ran.is_none());
            let new = compare::annotate(&raw, &uid, claim.source, seen, old);
            if !same_uid {
                turn.removed.push(Arc::clone(&holder.pod));
                holder.pod = new;
                turn.added.push(Arc::clone(&holder.pod));
            } else if let Some(op) = compare::outcome(&holder.pod, &new) {
                holder.pod = new;
                turn.of(op).push(Arc::clone(&holder.pod));
            }
            holder.raw = raw;
        }
        self.running.retain(|key, _| !self.holders.contains_key(key));
        turn
    }

    /// Words the turn. `added` is what an addition is called, `first` that the source became ready just now.
    fn tell(turn: Turn, source: Source, added: Op, first: bool) -> Vec<Change> {
        let silent = first && turn.added.is_empty() && turn.updated.is_empty() && turn.deleted.is_empty();
        let mut changes = Vec::new();
        let mut typed = |op, pods: Vec<Arc<DesiredPod>>, even_empty| {
            if even_empty || !pods.is_empty() {
                changes.push(Change { op, source, pods: in_order(pods) });
            }
        };
        typed(Op::Remove, turn.removed, false);
        typed(added, turn.added, false);
        typed(Op::Update, turn.updated, false);
        typed(Op::Delete, turn.deleted, false);
        typed(Op::Add, Vec::new(), silent);
        typed(Op::Reconcile, turn.reconciled, false);
        changes
    }
}

impl Known {
    /// Remembers a set. Past [`limits::PODS_PER_SOURCE`] the pods that hold their names stay, then the
    /// names they hold, then the first in order: a manifest too many never stops what runs.
    fn take(&mut self, source: Source, set: &PodSet, holders: &Holders, in_force: &Scopes) {
        self.spoke = true;
        (self.objects, self.crowded_objects) = objects::bounded(source, &set.objects, in_force);
        let mut claims = set.pods.clone();
        order::sort_by(&mut claims, in_place);
        self.crowded = None;
        if claims.len() > limits::PODS_PER_SOURCE {
            order::sort_by_key(&mut claims, |pod| {
                let held = holders.get(&pod.key).map(|h| &h.pod).filter(|h| h.source == source);
                Reverse((held.is_some_and(|h| h.uid == pod.uid), held.is_some()))
            });
            let left_out = claims.split_off(limits::PODS_PER_SOURCE);
            let first = left_out.iter().min_by_key(|pod| &pod.origin);
            self.crowded = first.map(|first| {
                let message = format!(
                    "source {source} wants {} pods more than the {} it may have: this one and the others past \
                     the limit are not taken",
                    left_out.len(),
                    limits::PODS_PER_SOURCE
                );
                names::problem(Severity::Error, first, message)
            });
            order::sort_by(&mut claims, in_place);
        }
        self.claims = claims;
        self.broken = order::set(set.broken.iter().cloned());
    }
}

impl Turn {
    /// The list of a kind of change that keeps its UID.
    fn of(&mut self, op: Op) -> &mut Vec<Arc<DesiredPod>> {
        match op {
            Op::Update => &mut self.updated,
            Op::Delete => &mut self.deleted,
            _ => &mut self.reconciled,
        }
    }

    /// Splits off the part that is about these pods.
    fn take(&mut self, mine: impl Fn(&Arc<DesiredPod>) -> bool) -> Turn {
        let part = |pods: &mut Vec<Arc<DesiredPod>>| pods.extract_if(.., |pod| mine(pod)).collect();
        Turn {
            removed: part(&mut self.removed),
            added: part(&mut self.added),
            updated: part(&mut self.updated),
            deleted: part(&mut self.deleted),
            reconciled: part(&mut self.reconciled),
        }
    }
}

fn claims(sources: &Table<Source, Known>) -> impl Iterator<Item = Claim<'_>> {
    sources.iter().flat_map(|(source, known)| known.claims.iter().map(|pod| Claim { source: *source, pod }))
}

fn object_claims(sources: &Table<Source, Known>) -> impl Iterator<Item = ObjectClaim<'_>> + Clone {
    sources.iter().flat_map(|(source, known)| {
        known.objects.iter().map(|object| ObjectClaim { source: *source, object })
    })
}

/// By place, and then by what is at one place.
fn in_place(a: &Arc<DesiredPod>, b: &Arc<DesiredPod>) -> Ordering {
    (&a.origin, &a.key, &a.uid).cmp(&(&b.origin, &b.key, &b.uid))
}

fn in_order(mut pods: Vec<Arc<DesiredPod>>) -> Vec<Arc<DesiredPod>> {
    order::sort_by(&mut pods, |a, b| (a.source, &a.origin, &a.key).cmp(&(b.source, &b.origin, &b.key)));
    pods
}
