//! Which worker gets which local objects: exactly those that its pod refers to, so that no worker holds
//! others.
//!
//! A pod sees the objects of its own source. If that source has no object of a name, the pod sees an
//! object that another source shares with it by policy. Environments, volumes, pull secrets and claims
//! all use these functions.

use std::sync::Arc;

use super::{Effect, Turn};
use crate::base::table::Table;
use crate::layout;
use crate::pod::object::refs::{Reference, references};
use crate::pod::object::{Content, LocalObject, ObjectKey, ObjectKind, Objects, Scopes};
use crate::pod::problem::{Problem, Severity};
use crate::pod::{DesiredPod, PodKey, Source};
use crate::policy::Policies;
use crate::status::snapshot::{ClaimView, PodView};

/// The object of this name that pods of `source` see.
fn visible<'o>(
    all: &'o Scopes,
    policies: &Policies,
    source: Source,
    key: &ObjectKey,
) -> Option<&'o Arc<LocalObject>> {
    let sharing = policies.of(source).sharing(key);
    [source].into_iter().chain(sharing).find_map(|source| all.get(&(source, key.clone())))
}

impl Turn {
    /// All local objects in force.
    #[must_use]
    pub fn local_objects(&self) -> &Arc<Scopes> {
        self.merge.objects()
    }

    /// The objects in force that the pod refers to and sees.
    pub(super) fn objects_of(&self, pod: &DesiredPod) -> Objects {
        let (all, policies) = (self.merge.objects(), &self.config.policy);
        let wanted = references(pod).into_iter();
        let found = wanted.filter_map(|r| {
            let object = visible(all, policies, pod.source, &r.key)?;
            Some((r.key, Arc::clone(object)))
        });
        found.collect()
    }

    /// The claims on this node's own disk that pods may write to, by the pod's UID.
    pub(super) fn claim_views(&self, pods: &[PodView]) -> Table<String, Vec<ClaimView>> {
        let (all, policies) = (self.merge.objects(), &self.config.policy);
        let view = |pod: &DesiredPod, name: &str| {
            let (kind, namespace) = (ObjectKind::PersistentVolumeClaim, pod.key.namespace.clone());
            let key = ObjectKey { kind, namespace, name: name.to_owned() };
            let storage = match visible(all, policies, pod.source, &key).map(|object| &object.content) {
                Some(Content::ClusterClaim(_)) => return None,
                Some(Content::Claim { storage, .. }) => Some(*storage),
                _ => None,
            };
            let (is_held, together) =
                (policies.of(pod.source).is_held(), policies.max_claim_storage(pod.source));
            Some(ClaimView { name: name.to_owned(), storage, is_held, together })
        };
        let of = |pod: &DesiredPod| -> Vec<ClaimView> {
            layout::written_claims(pod).filter_map(|name| view(pod, name)).collect()
        };
        let each = pods.iter().map(|it| (&it.pod.uid, of(&it.pod))).filter(|(_, claims)| !claims.is_empty());
        each.map(|(uid, claims)| (uid.clone(), claims)).collect()
    }

    /// References to objects that only another source has: the operator may share them.
    pub(super) fn object_problems(&self) -> Vec<Problem> {
        let (all, policies) = (self.merge.objects(), &self.config.policy);
        let mut found = Vec::new();
        for pod in self.entries.values().filter_map(|entry| entry.desired.as_ref()) {
            for Reference { key, field, optional, .. } in references(pod) {
                let has = |source: &Source| all.contains_key(&(*source, key.clone()));
                let Some(other) = Source::ALL.into_iter().find(has) else { continue };
                if visible(all, policies, pod.source, &key).is_some() {
                    continue;
                }
                let (source, kind) = (pod.source, key.kind.as_str());
                let rest = match key.kind {
                    ObjectKind::PersistentVolumeClaim => "claims are never shared".to_owned(),
                    _ => format!(
                        "--source-policy {source}=shared-objects={other}/{kind}/{}/{} shares it",
                        key.namespace, key.name
                    ),
                };
                found.push(Problem {
                    severity: if optional { Severity::Warning } else { Severity::Error },
                    path: pod.origin.path.clone(),
                    at: None,
                    pod: Some(pod.key.to_string()),
                    field: Some(field),
                    message: format!(
                        "{key} is in source {other}, whose objects pods of source {source} do not see: {rest}"
                    ),
                });
            }
        }
        found
    }

    /// Sends objects to a worker when they differ from the last ones.
    pub(super) fn send_objects(&mut self, key: &PodKey, objects: Objects) {
        let Some(worker) = self.entries.get_mut(key).and_then(|e| e.worker.as_mut()) else { return };
        // The file of an object does not matter to a container.
        let same = worker.objects.len() == objects.len()
            && worker.objects.iter().zip(&objects).all(|(a, b)| a.0 == b.0 && a.1.content == b.1.content);
        if !same {
            worker.objects = Arc::new(objects);
            self.out.push(Effect::Objects(key.clone(), Arc::clone(&worker.objects)));
        }
    }

    /// Sends objects to every worker whose pod refers to one that has changed since `before`.
    pub(super) fn send_changed_objects(&mut self, before: &Arc<Scopes>) {
        let now = self.merge.objects();
        if Arc::ptr_eq(before, now) {
            return;
        }
        let policies = &self.config.policy;
        let differs = |source: Source, key: &ObjectKey| match (
            visible(before, policies, source, key),
            visible(now, policies, source, key),
        ) {
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new),
            (None, None) => false,
            _ => true,
        };
        let running = self.entries.iter().filter(|(_, entry)| entry.worker.is_some());
        let concerned = running.filter_map(|(key, entry)| {
            let pod = entry.desired.as_ref()?;
            let refers = references(pod).iter().any(|r| differs(pod.source, &r.key));
            refers.then(|| (key.clone(), self.objects_of(pod)))
        });
        let concerned: Vec<(PodKey, Objects)> = concerned.collect();
        for (key, objects) in concerned {
            self.send_objects(&key, objects);
        }
    }
}
