//! Held pods, indexed by the pods that they wait for, so that only the pods that wait for a pod look at its
//! status. Pure.

use crate::base::clock::Mono;
use crate::base::table::{Set, Table};
use crate::pod::after::{self, Graph, Need};
use crate::pod::{DesiredPod, PodKey};

/// The index. Bounded: four entries for each pod that a held pod names.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By both identities that a name may mean.
    by: Table<PodKey, Set<PodKey>>,
    /// Those of them that wait for a pod to succeed.
    ends: Table<PodKey, Set<PodKey>>,
    /// Pods that a policy refuses, or refused before: those that wait for them say so.
    pub(super) refused: Set<PodKey>,
    /// Who waits for whom among accepted pods, as known last.
    pub(super) graph: Graph,
    /// It has changed: a cycle of waiting may be open now.
    pub(super) cycles_due: bool,
    /// When pods that would close a cycle were judged again last.
    pub(super) cycles_judged: Option<Mono>,
    /// When refused pods were judged again last.
    pub(super) readmitted: Option<Mono>,
    /// How often a held pod was judged.
    #[cfg(test)]
    pub(super) judged: usize,
    /// How often the graph was made.
    #[cfg(test)]
    pub(super) graphs: usize,
    /// How often a pod's admission was decided.
    #[cfg(test)]
    pub(super) admitted: std::cell::Cell<usize>,
}

impl Waiting {
    /// Adds a pod that waits.
    pub(super) fn add(&mut self, pod: &DesiredPod, node: &str) {
        for (key, need) in awaited(pod, node) {
            if need == Need::Succeeded {
                self.ends.get_or_default(key.clone()).insert(pod.key.clone());
            }
            self.by.get_or_default(key).insert(pod.key.clone());
        }
    }

    /// Removes a pod that no longer waits.
    pub(super) fn remove(&mut self, pod: &DesiredPod, node: &str) {
        for (key, _) in awaited(pod, node) {
            for index in [&mut self.by, &mut self.ends] {
                if let Some(all) = index.get_mut(&key) {
                    all.remove(&pod.key);
                    if all.is_empty() {
                        index.remove(&key);
                    }
                }
            }
        }
    }

    /// The pods that wait for this one.
    pub(super) fn on(&self, key: &PodKey) -> impl Iterator<Item = &PodKey> {
        self.by.get(key).into_iter().flatten()
    }

    /// Whether a pod waits for this one to succeed.
    pub(super) fn needs_end_of(&self, key: &PodKey) -> bool {
        self.ends.contains_key(key)
    }

    /// The pods that others than this one wait for to succeed, by the identities that their names may mean.
    pub(super) fn needed_by_others(&self, than: &PodKey) -> impl Iterator<Item = &PodKey> {
        let by_others = move |waiters: &Set<PodKey>| waiters.iter().any(|waiter| waiter != than);
        self.ends.iter().filter(move |(_, waiters)| by_others(waiters)).map(|(key, _)| key)
    }

    /// The pods that wait for this one, or for one that does.
    pub(super) fn all_on(&self, key: &PodKey) -> Set<PodKey> {
        let (mut all, mut next) = (Set::new(), vec![key.clone()]);
        while let Some(key) = next.pop() {
            for waiter in self.on(&key).filter(|waiter| !all.contains(*waiter)).cloned().collect::<Vec<_>>() {
                all.insert(waiter.clone());
                next.push(waiter);
            }
        }
        all
    }

    /// Whether no pod waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty() && self.ends.is_empty()
    }
}

fn awaited(pod: &DesiredPod, node: &str) -> impl Iterator<Item = (PodKey, Need)> {
    let on = after::of(pod).map(|after| after.on).unwrap_or_default();
    on.into_iter().flat_map(move |dependency| dependency.keys(node).map(|key| (key, dependency.need)))
}
