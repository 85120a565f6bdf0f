//! Who waits for whom: held pods by what they wait for, so that a status is looked at by those whom it concerns and
//! by nobody else. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::pod::after;
use crate::pod::{DesiredPod, PodKey};

/// The index. Bounded: as many entries as held pods name pods, twice.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By either identity that a name may mean.
    by: BTreeMap<PodKey, BTreeSet<PodKey>>,
}

impl Waiting {
    /// This pod waits from now on.
    pub(super) fn add(&mut self, pod: &DesiredPod, node: &str) {
        for key in awaited(pod, node) {
            self.by.entry(key).or_default().insert(pod.key.clone());
        }
    }

    /// It waits no more.
    pub(super) fn remove(&mut self, pod: &DesiredPod, node: &str) {
        for key in awaited(pod, node) {
            if let Some(all) = self.by.get_mut(&key) {
                all.remove(&pod.key);
                if all.is_empty() {
                    self.by.remove(&key);
                }
            }
        }
    }

    /// Who waits for this one.
    pub(super) fn on(&self, key: &PodKey) -> impl Iterator<Item = &PodKey> {
        self.by.get(key).into_iter().flatten()
    }

    /// Nobody waits for anybody.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty()
    }
}

fn awaited(pod: &DesiredPod, node: &str) -> impl Iterator<Item = PodKey> {
    let on = after::of(pod).map(|after| after.on).unwrap_or_default();
    on.into_iter().flat_map(move |dependency| dependency.keys(node))
}
