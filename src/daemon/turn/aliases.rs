//! Names on the pods' Docker network (`--docker-network`). Docker answers a name with the addresses of all
//! containers that have it, and an author of manifests may choose almost any name: by `hostname`, by `subdomain`,
//! by the name of a pod in another namespace. So a name belongs to one source: a pod does not get a name that a
//! pod of a preceding source has or asks for, and runs without it. Inside one source pods may share a name.
//!
//! Docker gives a sandbox its names when it makes it. A running sandbox keeps the names that it has, and is not
//! made anew because of them: otherwise a new version of podkeeper, or a file with a name that is common, would
//! restart pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Entry, Turn};
use crate::base::clock::Now;
use crate::base::order;
use crate::machine::Wish;
use crate::mapping::network;
use crate::pod::problem::{Problem, Severity};
use crate::pod::{DesiredPod, PodKey, Source};
use crate::recorder::{PodEvent, words};

/// Names in lower case that a pod asks for and does not get, and the pod that each belongs to.
pub(super) type Taken = BTreeMap<String, (Source, PodKey)>;

impl Turn {
    /// The pod with the names written on it that it does not get.
    pub(super) fn with_names(&self, pod: Arc<DesiredPod>) -> Arc<DesiredPod> {
        let taken = self.taken(&pod);
        without(pod, &taken)
    }

    /// After pods have changed: each worker learns which names the next sandbox of its pod does not get, and the
    /// operator is told of new ones.
    pub(super) fn settle_names(&mut self, now: &Now) {
        let running = self.entries.values().filter_map(|entry| entry.desired.as_ref());
        let running: Vec<Arc<DesiredPod>> =
            running.filter(|pod| pod.source > Source::File).cloned().collect();
        for old in running {
            let taken = self.taken(&old);
            let pod = without(Arc::clone(&old), &taken);
            let Some(entry) = self.entries.get_mut(&pod.key) else { continue };
            let has_worker = entry.worker.is_some();
            let is_new = taken.iter().any(|(name, whose)| entry.taken.get(name) != Some(whose));
            self.changed |= entry.taken != taken;
            entry.taken.clone_from(&taken);
            entry.desired = Some(Arc::clone(&pod));
            if is_new {
                let words = words::names_withheld(&told(&taken));
                self.record(PodEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
            }
            if has_worker && !Arc::ptr_eq(&old, &pod) {
                self.wish(&pod.key.clone(), Wish::Run(pod));
            }
        }
    }

    /// The names of the pod that belong to pods of preceding sources: wanted ones, started or not, those that are
    /// not gone yet, and those that run and that no source has claimed yet.
    fn taken(&self, pod: &DesiredPod) -> Taken {
        let asked = order::set(self.names(pod).iter().map(|name| network::folded(name)));
        let precedes = |source: Source, key: &PodKey| source < pod.source && *key != pod.key;
        let mut taken = Taken::new();
        if asked.is_empty() {
            return taken;
        }
        let mut take = |names: Vec<String>, source: Source, key: &PodKey| {
            let names = names.iter().map(|name| network::folded(name)).filter(|name| asked.contains(name));
            for name in names {
                taken.entry(name).or_insert_with(|| (source, key.clone()));
            }
        };
        let known = self.merge.pods().chain(self.entries.values().flat_map(Entry::active));
        for other in known.filter(|other| precedes(other.source, &other.key)) {
            take(self.names(other), other.source, &other.key);
        }
        // Of these only the names that follow from the identity are known.
        let found = self.found.iter().filter(|(key, _)| self.merge.get(key).is_none());
        for (key, all) in found {
            let mut sources = all.iter().filter(|c| c.state.is_running()).filter_map(|c| c.source);
            if let Some(source) = sources.find(|source| precedes(*source, key)) {
                take(network::names_of_key(key, source, &self.config.node_name), source, key);
            }
        }
        taken
    }

    /// The names that a pod asks for on the pods' Docker network.
    fn names(&self, pod: &DesiredPod) -> Vec<String> {
        let network = &self.config.network;
        if network.docker_network.is_none() || pod.host_network() {
            return Vec::new();
        }
        network::names(pod, network, &self.config.node_name)
    }

    /// Pods that lack names.
    pub(super) fn name_problems(&self) -> impl Iterator<Item = Problem> {
        let all = self.entries.values().filter(|entry| !entry.taken.is_empty());
        all.filter_map(|entry| Some((entry.desired.as_ref()?, &entry.taken))).map(|(pod, taken)| Problem {
            severity: Severity::Warning,
            path: pod.origin.path.clone(),
            at: None,
            pod: Some(pod.key.to_string()),
            field: None,
            message: words::names_withheld(&told(taken)).message,
        })
    }
}

/// The pod with these names written on it as withheld.
fn without(mut pod: Arc<DesiredPod>, taken: &Taken) -> Arc<DesiredPod> {
    if !pod.withheld.iter().eq(taken.keys()) {
        Arc::make_mut(&mut pod).withheld = order::set(taken.keys().cloned());
    }
    pod
}

/// `db, db.default (pod default/db-node1 of source file)`.
fn told(taken: &Taken) -> String {
    let mut by: BTreeMap<&(Source, PodKey), Vec<&str>> = BTreeMap::new();
    for (name, whose) in taken {
        by.entry(whose).or_default().push(name);
    }
    let told = |((source, key), names): (&(Source, PodKey), Vec<&str>)| {
        format!("{} (pod {key} of source {source})", names.join(", "))
    };
    by.into_iter().map(told).collect::<Vec<_>>().join("; ")
}
