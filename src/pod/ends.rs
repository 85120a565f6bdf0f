//! How far the ends of pods have come: the threads that stop a pod and remove its files count what they have done, and
//! another thread reads whether that grows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::PodKey;
use crate::base::table::Set;

/// See the module. Only watched pods are counted, so that the table stays small. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Ends(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    watched: Vec<Watched>,
    /// UIDs of pods of no worker, whose files are removed one after the other.
    swept: Set<String>,
}

/// A pod by its UID, and its identity as far as it is known.
pub type Known = (String, Option<PodKey>);

#[derive(Debug)]
struct Watched {
    pod: Known,
    steps: u64,
}

impl Ends {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn steps_of(&self, is: impl Fn(&Known) -> bool) -> Option<u64> {
        self.lock().watched.iter().filter(|it| is(&it.pod)).map(|it| it.steps).max()
    }

    /// Watches these pods, and no others.
    pub fn watch(&self, pods: Vec<Known>) {
        let watched = &mut self.lock().watched;
        watched.retain(|it| pods.contains(&it.pod));
        for pod in pods {
            if !watched.iter().any(|it| it.pod == pod) {
                watched.push(Watched { pod, steps: 0 });
            }
        }
    }

    /// Something of the pod with this UID has come to its end.
    pub fn step(&self, uid: &str) {
        self.step_each(|pod, _| pod.0 == uid);
    }

    /// Something of the pod with this identity has come to its end.
    pub fn step_of(&self, key: &PodKey) {
        self.step_each(|pod, _| pod.1.as_ref() == Some(key));
    }

    fn step_each(&self, is: impl Fn(&Known, &Set<String>) -> bool) {
        let State { watched, swept } = &mut *self.lock();
        for it in watched.iter_mut().filter(|it| is(&it.pod, swept)) {
            it.steps = it.steps.saturating_add(1);
        }
    }

    /// The number of steps of a watched pod.
    #[must_use]
    pub fn steps(&self, uid: &str) -> u64 {
        self.steps_of(|pod| pod.0 == uid).unwrap_or_default()
    }

    /// Whether something of the pod has come to its end since it is watched. Nothing is known of one that is not.
    #[must_use]
    pub fn gets_on(&self, uid: &str) -> bool {
        self.steps_of(|pod| pod.0 == uid).is_none_or(|steps| steps > 0)
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
        self.step_each(|pod, swept| swept.contains(&pod.0));
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
        ends.watch(vec![("a".to_owned(), Some(key("web"))), ("b".to_owned(), None)]);
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
        ends.watch(vec![("a".to_owned(), Some(key("web")))]);
        ends.step("b");
        assert_eq!(steps(), [2, 0, 0], "b is not watched any more");
    }
}
