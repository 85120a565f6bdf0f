//! How far the ends of pods have come: the threads that stop a pod and remove its files count what they have done, and
//! another thread reads whether that grows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::PodKey;
use crate::base::table::{Set, Table};

/// See the module. Only watched pods are counted, so that the table stays small. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Ends(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// By UID.
    watched: Table<String, Watched>,
    /// UIDs of pods of no worker, whose files are removed one after the other.
    swept: Set<String>,
}

#[derive(Debug, Default)]
struct Watched {
    /// Its identity, as far as it is known.
    key: Option<PodKey>,
    steps: u64,
}

impl Watched {
    fn step(&mut self) {
        self.steps = self.steps.saturating_add(1);
    }
}

impl Ends {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches these pods, and no others: by UID, their identities as far as they are known.
    pub fn watch(&self, pods: Table<String, Option<PodKey>>) {
        let watched = &mut self.lock().watched;
        watched.retain(|uid, _| pods.contains_key(uid));
        for (uid, key) in pods.iter() {
            watched.get_or_default(uid.clone()).key.clone_from(key);
        }
    }

    /// Something of the pod with this UID has come to its end.
    pub fn step(&self, uid: &str) {
        self.lock().watched.get_mut(uid).into_iter().for_each(Watched::step);
    }

    /// Something of the pod with this identity has come to its end.
    pub fn step_of(&self, key: &PodKey) {
        let mut state = self.lock();
        state.watched.values_mut().filter(|it| it.key.as_ref() == Some(key)).for_each(Watched::step);
    }

    /// The number of steps of a watched pod.
    #[must_use]
    pub fn steps(&self, uid: &str) -> u64 {
        self.lock().watched.get(uid).map_or(0, |it| it.steps)
    }

    /// Whether something of the pod has come to its end since it is watched. Nothing is known of one that is not.
    #[must_use]
    pub fn gets_on(&self, uid: &str) -> bool {
        self.lock().watched.get(uid).is_none_or(|it| it.steps > 0)
    }

    /// From now on the files of these pods, which have no worker, are removed one after the other.
    pub fn sweep(&self, pods: Set<String>) {
        self.lock().swept = pods;
    }

    /// The files of this pod are removed, or cannot be.
    pub fn is_swept(&self, uid: &str) {
        self.lock().swept.remove(uid);
    }

    /// The pods whose files are removed so.
    #[must_use]
    pub fn swept(&self) -> Set<String> {
        self.lock().swept.clone()
    }

    /// Something has come to its end of one of these pods. The others are as far as it: they have to wait for it.
    pub fn step_swept(&self) {
        let State { watched, swept } = &mut *self.lock();
        swept.iter().for_each(|uid| watched.get_mut(uid).into_iter().for_each(Watched::step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watched_pods_are_counted() {
        let ends = Ends::default();
        let key = |name: &str| PodKey { namespace: "default".into(), name: name.into() };
        let steps = || ["a", "b", "c"].map(|uid| ends.steps(uid));
        let set = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect::<Set<String>>();
        ends.step("a");
        ends.watch([("a".to_owned(), Some(key("web"))), ("b".to_owned(), None)].into());
        ends.step("a");
        ends.step("c");
        assert_eq!(steps(), [1, 0, 0]);
        assert_eq!(["a", "b", "c"].map(|uid| ends.gets_on(uid)), [true, false, true]);
        ends.step_of(&key("web"));
        ends.step_of(&key("b"));
        assert_eq!(steps(), [2, 0, 0]);
        ends.sweep(set(&["b", "c"]));
        ends.step_swept();
        assert_eq!(steps(), [2, 1, 0], "a has a worker");
        ends.is_swept("b");
        ends.step_swept();
        assert_eq!((steps(), ends.swept()), ([2, 1, 0], set(&["c"])));
        ends.watch([("a".to_owned(), None)].into());
        ends.step("b");
        assert_eq!(steps(), [2, 0, 0], "b is not watched any more");
    }
}
