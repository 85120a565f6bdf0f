//! Merges one set for each source into one map of wanted pods, and typed changes (upstream
//! `pkg/kubelet/config/config.go`). Pure.
//!
//! Identity is namespace/name across all sources: of several pods that claim one name, one holds it and the
//! others wait, remembered from their source's last set. Only a source's own full set removes its pods
//! (invariant 2).
//!
//! Never here: reading, starting, wall-clock order.

mod compare;
mod names;
mod objects;
#[cfg(test)]
mod tests;

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use crate::base::clock::Timestamp;
use crate::base::human::many;
use crate::base::limits;
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::pod::object::{LocalObject, Scopes};
use crate::pod::problem::Problem;
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, PodKey, Source};
use crate::policy::Policies;
use crate::source::PodSet;
use names::{Claim, Holder, Holders, Told};
use objects::ObjectClaim;

/// Kind of change of one pod in the merge.
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
    /// The meaning is the same: only the status, the source or the file changed.
    Reconcile,
    /// From the store of last good versions, before the source itself has answered: handled like Add, but
    /// does not make the source ready.
    Restore,
}

/// A pod that ran under one identity when the daemon started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Running {
    /// Pod UID.
    pub uid: String,
    /// [`DesiredPod::written`], from its containers' labels.
    pub written: Option<String>,
    /// [`DesiredPod::shape`], from its containers' labels.
    pub shape: Option<String>,
    /// Sources and paths in its containers' labels.
    pub places: Set<(Source, String)>,
    /// When it was first seen, wall time: only shown.
    pub seen: Option<Timestamp>,
    /// Whether a container of it runs.
    pub is_alive: bool,
}

/// One message of the merge: pods with one kind of change. Never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub op: Op,
    /// The pods, in order of origin. For `Remove`: as they were last wanted.
    pub pods: Vec<Arc<DesiredPod>>,
}

/// One declared source after its last set.
#[derive(Debug, Default)]
struct Known {
    /// What it has told since the daemon started.
    told: Told,
    /// Pods that it wants, including those without their name, in order of origin.
    claims: Vec<Arc<DesiredPod>>,
    /// Its local objects, including those without their name, in order of origin.
    objects: Vec<Arc<LocalObject>>,
    /// [`PodSet::broken`].
    broken: Set<String>,
    /// Set when it wants more pods than one source may have.
    crowded: Option<Problem>,
    /// Set when it has more objects than one source may have.
    crowded_objects: Option<Problem>,
}

/// The changes of one merge, by kind.
#[derive(Debug, Default)]
struct Diff {
    removed: Vec<Arc<DesiredPod>>,
    added: Vec<Arc<DesiredPod>>,
    updated: Vec<Arc<DesiredPod>>,
    deleted: Vec<Arc<DesiredPod>>,
    reconciled: Vec<Arc<DesiredPod>>,
}

/// The state of the merge. See [`Merge::full`].
#[derive(Debug)]
pub struct Merge {
    /// Declared sources only.
    sources: Table<Source, Known>,
    holders: Holders,
    /// Local objects in force.
    objects: Arc<Scopes>,
    /// Pods that ran when the daemon started, for names without a holder.
    running: Table<PodKey, Running>,
    /// Only the highest priorities of these are used; other rules were checked before.
    policies: Arc<Policies>,
}

impl Merge {
    /// A merge of these declared sources. Sets of other sources are ignored, and those sources are never
    /// ready.
    #[must_use]
    pub fn new(declared: &[Source]) -> Merge {
        let sources = declared.iter().map(|s| (*s, Known::default())).collect();
        let (holders, running) = (Holders::new(), Table::new());
        Merge { sources, holders, objects: Arc::default(), running, policies: Arc::default() }
    }

    /// The same merge, with the bounds of these policies.
    #[must_use]
    pub fn under(self, policies: Arc<Policies>) -> Merge {
        Merge { policies, ..self }
    }

    /// Whether this set lacks a pod that the source has wanted until now. A pod whose deletion has begun is not wanted.
    #[must_use]
    pub fn gives_up(&self, source: Source, set: &PodSet) -> bool {
        let known = self.sources.get(&source).into_iter().flat_map(|known| &known.claims);
        let mut wanted = known.filter(|claim| claim.metadata.deletion_timestamp.is_none());
        wanted.any(|claim| !set.pods.iter().any(|pod| pod.key == claim.key))
    }

    /// Takes the complete set of one source. Returns the changes in order of delivery: Remove, Add,
    /// Update, Delete, Reconcile.
    ///
    /// A name that moves to another UID is a Remove and an Add. `seen` is only shown.
    pub fn full(&mut self, source: Source, set: &PodSet, seen: Timestamp) -> Vec<Change> {
        let Some(known) = self.sources.get_mut(&source) else { return Vec::new() };
        known.told = Told::All;
        known.take(source, set, &self.holders, &self.objects);
        self.resolve_objects();
        let diff = self.resolve(seen);
        Self::tell(diff, Op::Add)
    }

    /// Takes a source's set from the store of last good versions: `Restore`, and the source stays not
    /// ready. Does nothing when the source has already sent a full set.
    pub fn restore(&mut self, source: Source, set: &PodSet, seen: Timestamp) -> Vec<Change> {
        let Some(known) = self.sources.get_mut(&source).filter(|k| k.told != Told::All) else {
            return Vec::new();
        };
        known.told = Told::NotAll;
        known.take(source, set, &self.holders, &self.objects);
        self.resolve_objects();
        let diff = self.resolve(seen);
        Self::tell(diff, Op::Restore)
    }

    /// Takes the running pods (from Docker's labels, at the start). Of two claims of one name in one source,
    /// the running pod keeps the name, and a pod that moved between sources is recognized. A name may move
    /// from one claim to another.
    pub fn running(&mut self, found: &Table<PodKey, Running>, seen: Timestamp) -> Vec<Change> {
        self.running.clone_from(found);
        Self::tell(self.resolve(seen), Op::Add)
    }

    /// Takes over which of the running pods without a holder do not run any more. Changes nothing when `runs` is true for
    /// all of them.
    pub fn ended(&mut self, runs: impl Fn(&PodKey) -> bool, seen: Timestamp) -> Vec<Change> {
        let before = self.alive().count();
        for (key, running) in &mut self.running {
            running.is_alive = running.is_alive && runs(key);
        }
        if self.alive().count() == before {
            return Vec::new();
        }
        Self::tell(self.resolve(seen), Op::Add)
    }

    /// The source has reported that it cannot be read, or has taken too long for its first report: its pods that have
    /// ended keep their names no longer.
    pub fn heard(&mut self, source: Source, seen: Timestamp) -> Vec<Change> {
        let Some(known) = self.sources.get_mut(&source).filter(|known| known.told == Told::Nothing) else {
            return Vec::new();
        };
        known.told = Told::NotAll;
        Self::tell(self.resolve(seen), Op::Add)
    }

    /// Names without a holder under which containers run.
    pub fn alive(&self) -> impl Iterator<Item = &PodKey> {
        self.running.iter().filter(|(_, running)| running.is_alive).map(|(key, _)| key)
    }

    /// The pod as its source wrote it, without the source's bounds.
    #[must_use]
    pub fn as_written(&self, key: &PodKey) -> Option<&DesiredPod> {
        self.holders.get(key).map(|holder| &*holder.raw)
    }

    /// The pod that holds this identity.
    #[must_use]
    pub fn get(&self, key: &PodKey) -> Option<&Arc<DesiredPod>> {
        self.holders.get(key).map(|h| &h.pod)
    }

    /// All wanted pods, by identity.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<DesiredPod>> {
        self.holders.values().map(|h| &h.pod)
    }

    /// All local objects in force, of each source. The `Arc` is the same until an object changes.
    #[must_use]
    pub fn objects(&self) -> &Arc<Scopes> {
        &self.objects
    }

    /// Whether the source has sent a full set.
    #[must_use]
    pub fn ready(&self, source: Source) -> bool {
        self.sources.get(&source).is_some_and(|k| k.told == Told::All)
    }

    /// Whether every declared source is ready. True when none is declared.
    #[must_use]
    pub fn all_ready(&self) -> bool {
        self.sources.values().all(|k| k.told == Told::All)
    }

    /// Number of pods and objects of a source, including those without their name.
    #[must_use]
    pub fn claims(&self, source: Source) -> usize {
        self.sources.get(&source).map_or(0, |k| k.claims.len().saturating_add(k.objects.len()))
    }

    /// Whether a pod or object of the source comes from this path.
    #[must_use]
    pub fn has_of(&self, source: Source, path: &str) -> bool {
        self.sources.get(&source).is_some_and(|k| {
            k.claims.iter().any(|pod| pod.origin.path == path)
                || k.objects.iter().any(|o| o.origin.path == path)
        })
    }

    /// Whether this path of a source cannot be read properly ([`PodSet::broken`]).
    #[must_use]
    pub fn is_broken(&self, source: Source, path: &str) -> bool {
        self.sources.get(&source).is_some_and(|k| k.broken.contains(path))
    }

    /// Whether a pod from this path of a source may still be wanted by content that cannot be read now: the path
    /// itself, or a file of unknown name beside it.
    #[must_use]
    pub fn may_be_wanted(&self, source: Source, path: &str) -> bool {
        let is_below =
            |known: &&Known| known.broken.iter().any(|dir| dir.ends_with('/') && path.starts_with(dir));
        self.is_broken(source, path) || self.sources.get(&source).filter(is_below).is_some()
    }

    /// Problems of pods or objects with the same name: the ones without the name, and the holder. Also the
    /// same UID under several names, changes of immutable objects, and sources that want more than their
    /// bounds. At most [`limits::PROBLEMS_PER_SOURCE`].
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let crowded = self.sources.values().flat_map(|k| k.crowded.iter().chain(&k.crowded_objects));
        let mut found: Vec<Problem> = crowded.cloned().collect();
        let told = |source| told(&self.sources, source);
        found.extend(names::problems(claims(&self.sources), &self.holders, &self.running, told));
        found.extend(objects::problems(object_claims(&self.sources), &self.objects));
        if found.len() > limits::PROBLEMS_PER_SOURCE {
            // Each ignored pod causes a warning for the holder, too; such warnings must not displace the error of an
            // ignored pod.
            order::sort_by_key(&mut found, |problem| problem.severity);
        }
        found.truncate(limits::PROBLEMS_PER_SOURCE);
        found
    }

    fn resolve_objects(&mut self) {
        if let Some(objects) = objects::resolve(object_claims(&self.sources), &self.objects) {
            self.objects = objects;
        }
    }

    /// Chooses the holder of every name from the last sets of all sources, and compares with the previous holders.
    fn resolve(&mut self, seen: Timestamp) -> Diff {
        let mut diff = Diff::default();
        let told = |source| told(&self.sources, source);
        let winners = names::winners(claims(&self.sources), &self.holders, &self.running, told);
        let is_lent = |key: &PodKey, holder: &Holder| {
            self.running.get(key).is_some_and(|running| running.is_lent_to(holder, told))
        };
        self.holders.retain(|key, holder| {
            // A claim that waits leaves the pod as it is.
            let stays = winners.contains_key(key) || is_lent(key, holder);
            if !stays {
                diff.removed.push(Arc::clone(&holder.pod));
            }
            stays
        });
        for (key, claim) in winners {
            let raw = Arc::clone(claim.pod);
            let uid = names::uid(claim, self.holders.get(key), self.running.get(key)).to_owned();
            // An earlier daemon saw the running pod first.
            let ran = self.running.get(key).filter(|ran| ran.uid == uid).and_then(|ran| ran.seen);
            let seen = ran.unwrap_or(seen);
            let most = compare::Most {
                priority: self.policies.max_priority(claim.source),
                grace: self.policies.max_grace(claim.source),
            };
            let annotate = |old| compare::annotate(&raw, &uid, claim.source, most, seen, old);
            let Some(holder) = self.holders.get_mut(key) else {
                let pod = annotate(None);
                diff.added.push(Arc::clone(&pod));
                self.holders.insert(key.clone(), Holder { pod, raw });
                continue;
            };
            let same_uid = holder.pod.uid == uid;
            if same_uid && Arc::ptr_eq(&holder.raw, &raw) && holder.pod.source == claim.source {
                if ran.is_some() {
                    holder.pod = annotate(None);
                }
                continue;
            }
            let old = Some(&*holder.pod).filter(|_| same_uid && ran.is_none());
            let new = annotate(old);
            if !same_uid {
                diff.removed.push(Arc::clone(&holder.pod));
                holder.pod = new;
                diff.added.push(Arc::clone(&holder.pod));
            } else if let Some(op) = compare::outcome(&holder.pod, &new) {
                holder.pod = new;
                diff.of(op).push(Arc::clone(&holder.pod));
            }
            holder.raw = raw;
        }
        self.running.retain(|key, running| {
            self.holders.get(key).is_none_or(|holder| running.is_lent_to(holder, told))
        });
        diff
    }

    /// The changes as messages. `added` is the kind of an addition.
    fn tell(diff: Diff, added: Op) -> Vec<Change> {
        let typed = [
            (Op::Remove, diff.removed),
            (added, diff.added),
            (Op::Update, diff.updated),
            (Op::Delete, diff.deleted),
            (Op::Reconcile, diff.reconciled),
        ];
        let some = typed.into_iter().filter(|(_, pods)| !pods.is_empty());
        some.map(|(op, pods)| Change { op, pods: in_order(pods) }).collect()
    }
}

impl Known {
    /// Takes over a set. Over [`limits::PODS_PER_SOURCE`], the pods that hold their names stay, then
    /// other versions of them, then the first in order: one manifest too many never stops a running pod.
    fn take(&mut self, source: Source, set: &PodSet, holders: &Holders, in_force: &Scopes) {
        (self.objects, self.crowded_objects) = objects::bounded(source, &set.objects, in_force);
        let mut claims = set.pods.clone();
        order::sort_by(&mut claims, in_place);
        self.crowded = None;
        if claims.len() > limits::PODS_PER_SOURCE {
            let holder = |pod: &DesiredPod| holders.get(&pod.key).filter(|h| h.pod.source == source);
            // A resized one has kept the UID of an earlier version.
            let holds =
                |pod: &DesiredPod| holder(pod).is_some_and(|h| h.pod.uid == pod.uid || h.raw.uid == pod.uid);
            // A further pod of a name keeps no other name out.
            let mut names: Set<PodKey> =
                claims.iter().filter(|pod| holds(pod)).map(|pod| pod.key.clone()).collect();
            let is_first = |pod: &Arc<DesiredPod>| names.insert(pod.key.clone()) || holds(pod);
            let firsts: Vec<bool> = claims.iter().map(is_first).collect();
            let mut ranked: Vec<_> = firsts.into_iter().zip(claims).collect();
            order::sort_by_key(&mut ranked, |(is_first, pod)| {
                Reverse((holds(pod), holder(pod).is_some() && *is_first, *is_first))
            });
            claims = ranked.into_iter().map(|(_, pod)| pod).collect();
            let left_out = claims.split_off(limits::PODS_PER_SOURCE);
            let first = left_out.iter().min_by_key(|pod| &pod.origin);
            self.crowded = first.map(|first| {
                let message = format!(
                    "source {source} wants {} more than the {} it may have: this one and the others past \
                     the limit are not taken",
                    many(left_out.len(), "pod"),
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

impl Diff {
    /// The list for a kind of change that keeps the UID.
    fn of(&mut self, op: Op) -> &mut Vec<Arc<DesiredPod>> {
        match op {
            Op::Update => &mut self.updated,
            Op::Delete => &mut self.deleted,
            _ => &mut self.reconciled,
        }
    }
}

/// What a source has told; a source that is not declared wants nothing.
fn told(sources: &Table<Source, Known>, source: Source) -> Told {
    sources.get(&source).map_or(Told::All, |known| known.told)
}

fn claims(sources: &Table<Source, Known>) -> impl Iterator<Item = Claim<'_>> {
    sources.iter().flat_map(|(source, known)| known.claims.iter().map(|pod| Claim { source: *source, pod }))
}

fn object_claims(sources: &Table<Source, Known>) -> impl Iterator<Item = ObjectClaim<'_>> + Clone {
    sources.iter().flat_map(|(source, known)| {
        known.objects.iter().map(|object| ObjectClaim { source: *source, object })
    })
}

/// Order by origin, then by name and UID.
fn in_place(a: &Arc<DesiredPod>, b: &Arc<DesiredPod>) -> Ordering {
    (&a.origin, &a.key, &a.uid).cmp(&(&b.origin, &b.key, &b.uid))
}

fn in_order(mut pods: Vec<Arc<DesiredPod>>) -> Vec<Arc<DesiredPod>> {
    order::sort_by(&mut pods, |a, b| (a.source, &a.origin, &a.key).cmp(&(b.source, &b.origin, &b.key)));
    pods
}
