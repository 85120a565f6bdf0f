//! The set that is sent and stored: the pods whose objects were looked up, and those objects.
//!
//! Never here: requests for pods.

use std::sync::Arc;

use serde_json::Value;

use super::decode::{self, Meaning};
use super::look_up::{Apart, is_deleted};
use super::{Actor, REMEMBERED, Stopped};
use super::{claims, classes, services};
use crate::base::concealed::Concealed;
use crate::base::limits;
use crate::pod::object::ObjectKind;
use crate::source::PodSet;
use crate::source::last_good::{Remembered, Saver};

impl Actor {
    pub(super) fn set(&self) -> PodSet {
        let problems = self.left_out.problem(&self.server).into_iter();
        let problems = problems
            .chain(self.objects.problems(&self.server))
            .chain(self.waiting.values().map(Apart::problem));
        let mut set = PodSet {
            problems: problems.collect(),
            broken: self.left_out.paths(&self.server),
            waiting: self.waiting.values().filter_map(Apart::told).collect(),
            ..PodSet::default()
        };
        for read in self.known.values() {
            if let Some(problem) = &read.unread {
                set.broken.push(problem.path.clone());
                set.problems.push(problem.clone());
            }
            match &read.meaning {
                Meaning::Wanted(pod, _) if self.ready.contains(&pod.uid) || is_deleted(pod) => {
                    set.pods.push(self.classes.write(pod));
                }
                Meaning::Finished(pod) => set.pods.push(Arc::clone(pod)),
                // An earlier daemon may have started the pod.
                Meaning::Wanted(pod, _) => set.broken.push(pod.origin.path.clone()),
                Meaning::Mirror => {}
                Meaning::Refused(refused) => set.refused.push(refused.clone()),
                Meaning::Unusable(problem) => {
                    set.broken.push(problem.path.clone());
                    set.problems.push(problem.clone());
                }
            }
        }
        set.problems.truncate(limits::PROBLEMS_PER_SOURCE);
        set.objects = self.objects.all().cloned().collect();
        set.node.clone_from(&self.node.latest);
        set
    }

    /// Reads the stored set.
    pub(super) fn restore(&mut self) {
        let Some(store) = self.parts.store.as_mut().and_then(Saver::here) else { return };
        let Some(Remembered { version, bytes, .. }) =
            store.load().into_iter().rfind(|it| it.path == REMEMBERED)
        else {
            return;
        };
        store.keep(REMEMBERED, &[version]);
        let Ok(mut list) = serde_json::from_slice::<Value>(&bytes) else { return };
        services::rename_earlier(&mut list);
        let mut set = PodSet::default();
        for item in list.get("items").and_then(Value::as_array).into_iter().flatten() {
            let kind = match item.get("kind").and_then(Value::as_str) {
                Some("ConfigMap") => ObjectKind::ConfigMap,
                Some("Secret") => ObjectKind::Secret,
                Some(classes::KIND) => {
                    self.classes.remember(item);
                    continue;
                }
                Some("PersistentVolumeClaim") => {
                    if let Some(object) = claims::recalled(item, &self.server) {
                        self.objects.remember(Arc::clone(&object), item.to_string());
                        set.objects.push(object);
                    }
                    continue;
                }
                _ => {
                    set.pods.extend(decode::read_remembered(item, &self.parts.acceptor, &self.server));
                    continue;
                }
            };
            if let Ok(object) = decode::object(item, kind, &self.parts.acceptor, &self.server) {
                self.objects.remember(Arc::clone(&object), item.to_string());
                set.objects.push(object);
            }
        }
        // A pod whose handler is not known is left alone.
        let (known, unknown): (Vec<_>, Vec<_>) =
            set.pods.into_iter().partition(|pod| self.classes.is_known(pod));
        known.iter().for_each(|pod| self.classes.give(pod));
        set.pods = known.iter().map(|pod| self.classes.write(pod)).collect();
        set.broken = unknown.iter().map(|pod| pod.origin.path.clone()).collect();
        self.remembered = (version, String::from_utf8_lossy(&bytes).into_owned());
        self.restored = Some(set);
    }

    /// Stores the set that was sent last, and reports the state of the store.
    pub(super) fn save(&mut self) -> Result<(), Stopped> {
        let now = self.now();
        let Some(store) = &mut self.parts.store else { return Ok(()) };
        let forgotten = store.was_forgotten(true);
        if self.sent.is_some() {
            let pods = self.known.values().filter(|read| matches!(read.meaning, Meaning::Wanted(..)));
            let classes: Vec<String> = self.classes.texts().collect();
            let items = pods.map(|read| read.text.as_str()).chain(self.objects.texts());
            let items: Vec<&str> = items.chain(classes.iter().map(String::as_str)).collect();
            let text = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, items.join(","));
            if text != self.remembered.1 || forgotten {
                let version = self.remembered.0.saturating_add(1);
                let bytes = Concealed(text.clone().into_bytes());
                let content =
                    Remembered { path: REMEMBERED.to_owned(), version, bytes, ..Remembered::default() };
                store.remember(content, &[version]);
                self.remembered = (version, text);
            }
        }
        store.save(now);
        match store.take_news() {
            Some(update) => self.send(update),
            None => Ok(()),
        }
    }
}
