//! Names on the pods' Docker network (`--docker-network`). Docker answers a name with the addresses of all
//! containers that have it, and the author of a manifest may choose almost any name: by `hostname`, by
//! `subdomain`, by the name of a pod in another namespace. So a name belongs to one source: a pod does not get a
//! name that a pod of a preceding source has or asks for, and runs without it. Inside one source pods may share a
//! name.
//!
//! Docker gives a sandbox its names when it makes it. A running sandbox keeps its names and is not made again
//! because of them: otherwise a new version of podkeeper, or a file with a common name, would restart pods.

use std::sync::Arc;

use super::{Entry, Turn};
use crate::base::clock::Now;
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::machine::Wish;
use crate::mapping::network;
use crate::plan::Owned;
use crate::pod::problem::{Problem, Severity};
use crate::pod::{DesiredPod, PodKey, Source};
use crate::recorder::{ObjectEvent, words};

/// Names in lower case that a pod asks for and does not get, and the pod that owns each.
pub(super) type Taken = Table<String, (Source, PodKey)>;

/// State about names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Pods have changed: other names may be taken now.
    pub(super) due: bool,
    index: Index,
    /// Number of times that the names of a pod were looked at.
    #[cfg(test)]
    pub(super) looked: std::cell::Cell<usize>,
}

/// Pods by lower-case name: all pods that have the name, and perhaps some that had it. Without this index, every
/// pod of one source would be compared with every pod of another.
#[derive(Debug, Default)]
struct Index {
    /// The versions of the data that the index was made from; `None`: the index is empty. Pods that came later are
    /// missing.
    of: Option<(u64, u64)>,
    by: Table<String, Set<(Source, PodKey)>>,
}

impl Index {
    fn add(&mut self, names: Vec<String>, source: Source, key: &PodKey) {
        for name in names {
            self.by.get_or_default(network::folded(&name)).insert((source, key.clone()));
        }
    }

    /// Other pods, of sources that precede the pod's own.
    fn having<'a>(&'a self, name: &str, pod: &'a DesiredPod) -> impl Iterator<Item = &'a PodKey> {
        let all = self.by.get(name).into_iter().flatten();
        all.take_while(|(source, _)| *source < pod.source).map(|(_, key)| key).filter(|key| **key != pod.key)
    }
}

/// Sources of running containers.
fn sources(all: &[Owned]) -> impl Iterator<Item = Source> {
    all.iter().filter(|c| c.state.is_running()).filter_map(|c| c.manifest.source)
}

impl Turn {
    /// The pod, with the names written on it that it does not get.
    pub(super) fn with_names(&mut self, pod: Arc<DesiredPod>) -> Arc<DesiredPod> {
        let taken = self.taken(&pod);
        without(pod, &taken)
    }

    /// Called after pods have changed: sends each worker the names that its pod's next sandbox does not get, and
    /// records an event for new ones.
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
                self.record(ObjectEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
            }
            if has_worker && !Arc::ptr_eq(&old, &pod) {
                self.wish(&pod.key.clone(), Wish::Run(pod));
            }
        }
    }

    /// The names of the pod that belong to pods of preceding sources: to wanted pods, started or not, to pods that
    /// are not gone yet, and to running pods that no source has claimed yet.
    fn taken(&mut self, pod: &DesiredPod) -> Taken {
        let asked = order::set(self.names(pod).iter().map(|name| network::folded(name)));
        if !asked.is_empty() && !self.names_index_is_fresh() {
            self.names.index = self.index();
        }
        let owned = |name: String| {
            let owner = self.owner(&name, pod)?;
            Some((name, owner))
        };
        asked.into_iter().filter_map(owned).collect()
    }

    /// The pod of a preceding source that has this name. The index may hold pods that have given the name up, so
    /// each pod is checked again.
    fn owner(&self, name: &str, pod: &DesiredPod) -> Option<(Source, PodKey)> {
        let precedes = |source: Source| source < pod.source;
        let has = |other: &DesiredPod| {
            precedes(other.source) && self.names(other).iter().any(|theirs| network::folded(theirs) == name)
        };
        let wanted = |key: &PodKey| self.merge.get(key).filter(|other| has(other)).map(|other| other.source);
        let active = |key: &PodKey| {
            let mut active = self.entries.get(key)?.active();
            active.find(|other| has(other)).map(|other| other.source)
        };
        let found = |key: &PodKey| {
            let all = self.docker.found.get(key).filter(|_| self.merge.get(key).is_none())?;
            sources(all).find(|source| {
                let theirs = || network::names_of_key(key, *source, &self.config.node_name);
                precedes(*source) && theirs().iter().any(|theirs| network::folded(theirs) == name)
            })
        };
        let all = || self.names.index.having(name, pod);
        let find = |source_of: &dyn Fn(&PodKey) -> Option<Source>| {
            all().find_map(|key| Some((source_of(key)?, key.clone())))
        };
        find(&wanted).or_else(|| find(&active)).or_else(|| find(&found))
    }

    /// Versions of the data that the index is made from.
    fn versions(&self) -> (u64, u64) {
        (self.merge.version(), self.docker.found.version())
    }

    fn names_index_is_fresh(&self) -> bool {
        self.names.index.of == Some(self.versions())
    }

    /// The names of all pods that are wanted, are not gone yet, or run unclaimed.
    fn index(&self) -> Index {
        let mut index = Index { of: Some(self.versions()), by: Table::new() };
        for pod in self.merge.pods().chain(self.entries.values().flat_map(Entry::active)) {
            index.add(self.names(pod), pod.source, &pod.key);
        }
        for (key, all) in self.docker.found.iter() {
            // Of these pods only the names that follow from the identity are known.
            for source in sources(all) {
                index.add(network::names_of_key(key, source, &self.config.node_name), source, key);
            }
        }
        index
    }

    /// Notes the version of the pod that a worker has; it may be a version that no source wants any more.
    pub(super) fn note_name(&mut self, pod: &DesiredPod) {
        if self.names_index_is_fresh() {
            self.names.index.add(self.names(pod), pod.source, &pod.key);
        }
    }

    /// The names that a pod asks for on the pods' Docker network.
    fn names(&self, pod: &DesiredPod) -> Vec<String> {
        #[cfg(test)]
        self.names.looked.set(self.names.looked.get() + 1);
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

/// The names and their owners as text: `db, db.default (pod default/db-node1 of source file)`.
fn told(taken: &Taken) -> String {
    let mut by: Table<&(Source, PodKey), Vec<&str>> = Table::new();
    for (name, whose) in taken {
        by.get_or_default(whose).push(name);
    }
    let told = |((source, key), names): (&(Source, PodKey), Vec<&str>)| {
        format!("{} (pod {key} of source {source})", names.join(", "))
    };
    by.into_iter().map(told).collect::<Vec<_>>().join("; ")
}
