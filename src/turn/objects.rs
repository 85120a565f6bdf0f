//! Which worker is told of which local objects: each exactly those that its pod refers to, so that no
//! worker keeps what it has no business with.

use std::sync::Arc;

use super::{Effect, Turn};
use crate::object::refs::references;
use crate::object::{ObjectKey, Objects};
use crate::order;
use crate::pod::{DesiredPod, PodKey};

impl Turn {
    /// Of the objects in force, those that the pod refers to.
    pub(super) fn objects_of(&self, pod: &DesiredPod) -> Objects {
        let in_force = self.merge.objects();
        let wanted = references(pod).into_iter();
        order::map(wanted.filter_map(|r| Some((r.key.clone(), Arc::clone(in_force.get(&r.key)?)))))
    }

    /// Tells a worker, if to it they are news.
    pub(super) fn give_objects(&mut self, key: &PodKey, objects: Objects) {
        let Some(worker) = self.entries.get_mut(key).and_then(|e| e.worker.as_mut()) else { return };
        // Where an object is written is nothing to a container.
        let same = worker.objects.len() == objects.len()
            && worker.objects.iter().zip(&objects).all(|(a, b)| a.0 == b.0 && a.1.content == b.1.content);
        if !same {
            worker.objects = Arc::new(objects);
            self.out.push(Effect::Objects(key.clone(), Arc::clone(&worker.objects)));
        }
    }

    /// Tells every worker whose pod refers to something that is not as it was in `before`.
    pub(super) fn hand_out_objects(&mut self, before: &Arc<Objects>) {
        let now = self.merge.objects();
        if Arc::ptr_eq(before, now) {
            return;
        }
        let differs = |key: &&ObjectKey| match (before.get(*key), now.get(*key)) {
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new),
            _ => true,
        };
        let changed = order::set(before.keys().chain(now.keys()).filter(differs));
        let running = self.entries.iter().filter(|(_, entry)| entry.worker.is_some());
        let concerned = running.filter_map(|(key, entry)| {
            let pod = entry.desired.as_ref()?;
            let refers = references(pod).iter().any(|r| changed.contains(&r.key));
            refers.then(|| (key.clone(), self.objects_of(pod)))
        });
        let concerned: Vec<(PodKey, Objects)> = concerned.collect();
        for (key, objects) in concerned {
            self.give_objects(&key, objects);
        }
    }
}
