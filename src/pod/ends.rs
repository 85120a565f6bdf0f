//! How far the ends of pods have come: the threads that stop a pod and remove its files count what they have done, and
//! another thread reads whether that grows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::PodKey;
use crate::base::table::{Set, Table};

/// See the module. Only watched pods are counted, so that the table stays small. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Ends(Arc<Mutex<Table<PodKey, u64>>>);

impl Ends {
    fn lock(&self) -> MutexGuard<'_, Table<PodKey, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches these pods, and no others.
    pub fn watch(&self, pods: Set<PodKey>) {
        let mut steps = self.lock();
        steps.retain(|key, _| pods.contains(key));
        for key in pods {
            steps.get_or_default(key);
        }
    }

    /// Something of this pod has come to its end.
    pub fn step(&self, key: &PodKey) {
        if let Some(steps) = self.lock().get_mut(key) {
            *steps = steps.saturating_add(1);
        }
    }

    /// Something has come to its end of a pod that may be a watched one.
    pub fn step_any(&self) {
        self.lock().values_mut().for_each(|steps| *steps = steps.saturating_add(1));
    }

    /// The number of steps of a watched pod.
    #[must_use]
    pub fn steps(&self, key: &PodKey) -> u64 {
        self.lock().get(key).copied().unwrap_or_default()
    }
}
