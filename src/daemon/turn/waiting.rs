//! Held pods, indexed by the pods that they wait for, so that only the pods that wait for a pod look at its
//! status. Pure.

use std::cell::OnceCell;

use super::hold::{Rank, Ranks};
use crate::base::clock::Mono;
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::pod::after::{self, Graph, Need};
use crate::pod::{DesiredPod, PodKey};

/// The index. Bounded: six entries for each pod that a held pod names.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By both identities that a name may mean.
    by: Table<PodKey, Set<PodKey>>,
    /// Those of them that wait for a pod to succeed.
    ends: Table<PodKey, Set<PodKey>>,
    /// What each of them waits for.
    on: Table<PodKey, Vec<(PodKey, Need)>>,
    /// Once they are asked for.
    pub(super) ranks: OnceCell<Ranks>,
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
    pub(super) fn add(&mut self, pod: &DesiredPod, rank: Rank, node: &str) {
        let on: Vec<(PodKey, Need)> = awaited(pod, node).collect();
        self.on.insert(pod.key.clone(), on.clone());
        // Hundreds are added one after the other.
        match self.ranks.get_mut() {
            Some(Ranks::Differ(highest)) => {
                // It waits for others on behalf of those that wait for it.
                let rank = highest.get(&pod.key).map_or(rank, |of_waiters| rank.max(*of_waiters));
                raise(&self.on, highest, rank, &pod.key);
            }
            Some(Ranks::Same(same)) if *same == rank => {}
            Some(Ranks::Same(_)) | None => _ = self.ranks.take(),
        }
        for (key, need) in on {
            if need == Need::Succeeded {
                self.ends.get_or_default(key.clone()).insert(pod.key.clone());
            }
            self.by.get_or_default(key).insert(pod.key.clone());
        }
    }

    /// Removes a pod that no longer waits.
    pub(super) fn remove(&mut self, pod: &DesiredPod, node: &str) {
        self.ranks.take();
        self.on.remove(&pod.key);
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

    /// What a pod waits for; `None` when it does not.
    pub(super) fn awaited_by(&self, key: &PodKey) -> Option<&[(PodKey, Need)]> {
        self.on.get(key).map(Vec::as_slice)
    }

    /// The highest of these ranks of waiting pods for each pod that they wait for, at first or second hand.
    pub(super) fn highest(&self, mut waiters: Vec<(Rank, &PodKey)>) -> Table<PodKey, Rank> {
        // The highest first, so that nothing is raised twice.
        order::sort_by(&mut waiters, |a, b| b.cmp(a));
        let mut highest = Table::new();
        waiters.into_iter().for_each(|(rank, waiter)| raise(&self.on, &mut highest, rank, waiter));
        highest
    }

    /// Whether a pod waits for this one to succeed.
    pub(super) fn needs_end_of(&self, key: &PodKey) -> bool {
        self.ends.contains_key(key)
    }

    /// Whether another pod than this one waits for it to succeed.
    pub(super) fn needs_end_for_others(&self, key: &PodKey, than: &PodKey) -> bool {
        self.ends.get(key).is_some_and(|waiters| waiters.iter().any(|waiter| waiter != than))
    }

    /// The pods that wait for this one, or for one that does.
    pub(super) fn all_on(&self, key: &PodKey) -> Set<PodKey> {
        let (mut all, mut next) = (Set::new(), vec![key]);
        while let Some(key) = next.pop() {
            for waiter in self.on(key) {
                if all.insert(waiter.clone()) {
                    next.push(waiter);
                }
            }
        }
        all
    }

    /// Whether no pod waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty() && self.ends.is_empty() && self.on.is_empty()
    }
}

/// Raises the ranks of all that a pod waits for, at first or second hand, to its own. `on`: what each pod waits for.
fn raise(
    on: &Table<PodKey, Vec<(PodKey, Need)>>,
    highest: &mut Table<PodKey, Rank>,
    rank: Rank,
    waiter: &PodKey,
) {
    let mut next = vec![waiter];
    while let Some(key) = next.pop() {
        for (awaited, _) in on.get(key).into_iter().flatten() {
            match highest.get_mut(awaited) {
                Some(known) if *known >= rank => continue,
                Some(known) => *known = rank,
                None => _ = highest.insert(awaited.clone(), rank),
            }
            next.push(awaited);
        }
    }
}

fn awaited(pod: &DesiredPod, node: &str) -> impl Iterator<Item = (PodKey, Need)> {
    let on = after::of(pod).map(|after| after.on).unwrap_or_default();
    on.into_iter().flat_map(move |dependency| dependency.keys(node).map(|key| (key, dependency.need)))
}
