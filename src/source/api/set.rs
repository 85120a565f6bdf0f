//! The set that is sent and remembered: pods whose objects were looked up, and those objects.
//!
//! Never here: what is asked about pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::decode::{self, Meaning, Token};
use super::{Actor, Parts, REMEMBERED, Stopped};
use crate::api_client::request::encoded;
use crate::api_client::{ApiError, Request};
use crate::base::clock::Mono;
use crate::base::concealed::Concealed;
use crate::base::{limits, order};
use crate::pod::DesiredPod;
use crate::pod::object::refs::references;
use crate::pod::object::{ObjectKey, ObjectKind};
use crate::pod::placement::{self, NodeAtServer};
use crate::pod::problem::{Problem, Severity};
use crate::source::PodSet;
use crate::source::last_good::Remembered;

impl Actor {
    pub(super) fn set(&self) -> PodSet {
        let mut set = PodSet { problems: self.waiting.clone(), ..PodSet::default() };
        for read in self.known.values() {
            match &read.meaning {
                Meaning::Wanted(pod, _) if self.ready.contains(&pod.uid) || is_deleted(pod) => {
                    set.pods.push(Arc::clone(pod));
                }
                Meaning::Finished(pod) => set.pods.push(Arc::clone(pod)),
                Meaning::Wanted(..) | Meaning::Mirror => {}
                Meaning::Refused(refused) => set.refused.push(refused.clone()),
                Meaning::Unusable(problem) => set.problems.push(problem.clone()),
            }
        }
        set.objects = self.objects.all().cloned().collect();
        set.node.clone_from(&self.node);
        set
    }

    /// Looks up the objects of new pods, and all of them when that is due.
    pub(super) fn look_up(&mut self) {
        let now = self.now();
        let wanted: Vec<(Arc<DesiredPod>, Vec<Token>)> = self
            .known
            .values()
            .filter_map(|read| match &read.meaning {
                Meaning::Wanted(pod, tokens) => Some((Arc::clone(pod), tokens.clone())),
                _ => None,
            })
            .collect();
        let keys =
            order::set(wanted.iter().flat_map(|(pod, _)| references(pod)).map(|reference| reference.key));
        self.objects.retain(|key| keys.contains(key));
        let uids = order::set(wanted.iter().map(|(pod, _)| pod.uid.clone()));
        self.ready.retain(|uid| uids.contains(uid));
        let all_due = self.objects_due <= now;
        if all_due {
            let more = self.luck() % limits::API_OBJECTS_JITTER.as_secs().max(1);
            self.objects_due = now.after(limits::API_OBJECTS_EVERY).after(Duration::from_secs(more));
        }
        self.waiting.clear();
        self.retry = None;
        let new = wanted.iter().filter(|(pod, _)| !is_deleted(pod) && !self.ready.contains(&pod.uid));
        let new: Vec<&DesiredPod> = new.map(|(pod, _)| &**pod).collect();
        let chosen =
            new.iter().any(|pod| placement::selects(&pod.spec)) || self.node.is_none() && !new.is_empty();
        if chosen || all_due && !wanted.is_empty() {
            self.look_at_node();
        }
        let (mut asked, mut is_gone) = (BTreeSet::new(), false);
        for (pod, tokens) in wanted.iter().filter(|(pod, _)| !is_deleted(pod)) {
            let is_new = !self.ready.contains(&pod.uid);
            let mut missing = None;
            let own = references(pod).into_iter().map(|reference| reference.key);
            for key in order::set(own) {
                let token = tokens.iter().find(|token| token.key == key);
                let is_due = match token {
                    Some(_) => self.objects.is_due(&key, now),
                    None if asked.contains(&key) => !self.objects.is_known(&key),
                    None => {
                        is_new || !self.objects.is_known(&key) || all_due && self.objects.can_change(&key)
                    }
                };
                if is_due && !is_gone {
                    asked.insert(key.clone());
                    if let Err(error) = self.ask(&key, token, now) {
                        // The others would wait for nothing.
                        is_gone = matches!(error, ApiError::Unreachable(_) | ApiError::Closed);
                        missing = Some(format!("waits for {key}: {error}"));
                    }
                }
                if self.objects.is_known(&key) {
                    missing = None;
                } else {
                    missing.get_or_insert_with(|| format!("waits for {key}"));
                    break;
                }
            }
            match missing {
                Some(message) => {
                    self.retry = Some(now.after(limits::API_LOOK_UP_AGAIN));
                    self.waiting.push(waiting(pod, message));
                }
                None => _ = self.ready.insert(pod.uid.clone()),
            }
        }
    }

    /// Asks how the node is at the server: others label and taint it. What is known stays when there is no answer, and
    /// a node that is not registered yet has neither.
    fn look_at_node(&mut self) {
        let path = format!("/api/v1/nodes/{}", encoded(&self.parts.acceptor.node_name));
        match self.parts.client.call(&Request::get(path), limits::API_OBJECT_CALL) {
            Ok(node) => {
                let part = |path: &str| node.pointer(path).cloned().unwrap_or_default();
                let labels = serde_json::from_value(part("/metadata/labels")).unwrap_or_default();
                let taints = serde_json::from_value(part("/spec/taints")).unwrap_or_default();
                self.node = Some(NodeAtServer { labels, taints });
            }
            Err(error) => log::debug!("the node's labels and taints are not known anew: {error}"),
        }
    }

    fn ask(&mut self, key: &ObjectKey, token: Option<&Token>, now: Mono) -> Result<(), ApiError> {
        let Parts { client, acceptor, .. } = &self.parts;
        match token {
            Some(token) => self.objects.make_token(client, token, &self.server, now),
            None => self.objects.look_up(client, key, acceptor, &self.server),
        }
    }

    /// Reads what is remembered.
    pub(super) fn restore(&mut self) {
        let Some(store) = &mut self.parts.store else { return };
        let Some(Remembered { version, bytes, .. }) =
            store.load().into_iter().rfind(|it| it.path == REMEMBERED)
        else {
            return;
        };
        store.keep(REMEMBERED, &[version]);
        let Ok(list) = serde_json::from_slice::<Value>(&bytes) else { return };
        let mut set = PodSet::default();
        for item in list.get("items").and_then(Value::as_array).into_iter().flatten() {
            let kind = match item.get("kind").and_then(Value::as_str) {
                Some("ConfigMap") => ObjectKind::ConfigMap,
                Some("Secret") => ObjectKind::Secret,
                _ => {
                    set.pods.extend(decode::read_remembered(item, &self.parts.acceptor, &self.server));
                    continue;
                }
            };
            set.objects.extend(decode::object(item, kind, &self.parts.acceptor, &self.server));
        }
        self.remembered = (version, String::from_utf8_lossy(&bytes).into_owned());
        self.restored = Some(set);
    }

    /// Remembers the set that was sent last, and tells how that goes.
    pub(super) fn save(&mut self) -> Result<(), Stopped> {
        let now = self.now();
        let Some(store) = &mut self.parts.store else { return Ok(()) };
        let forgotten = store.was_forgotten();
        if self.sent.is_some() {
            let pods = self.known.values().filter(|read| matches!(read.meaning, Meaning::Wanted(..)));
            let items: Vec<&str> = pods.map(|read| read.text.as_str()).chain(self.objects.texts()).collect();
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
        while store.is_behind(now) {
            store.save_some(now);
        }
        match store.take_news() {
            Some(update) => self.send(update),
            None => Ok(()),
        }
    }
}

fn is_deleted(pod: &DesiredPod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn waiting(pod: &DesiredPod, message: String) -> Problem {
    Problem {
        severity: Severity::Warning,
        path: pod.origin.path.clone(),
        at: None,
        pod: Some(pod.key.to_string()),
        field: None,
        message,
    }
}
