//! A UID belongs to one pod: directories, cgroup and volumes go by it alone. Whoever may write manifests may
//! write any UID, and those that podkeeper makes can be foretold; so a pod whose UID another one has, or had and
//! is not gone yet, is refused until then. Two pods are one only if the same source says so, or both manifests
//! say the same word for word and refer to no object: what runs, and on which data, is the same then, whoever says
//! it. With objects it is not: a copy in another source runs with this source's ConfigMaps, and would find what the
//! first pod left in its volumes.
//!
//! As with names, a source that precedes has the UID in the end, whoever came first: otherwise whoever writes the
//! URL's manifests could keep a pod of the node's own files from ever starting.

use std::sync::Arc;

use super::admission::Rejection;
use super::{Entry, Turn};
use crate::base::clock::Now;
use crate::plan::Owned;
use crate::pod::object::refs::references;
use crate::pod::{DesiredPod, Source, same_uid};

/// Reason of the refusal.
const DUPLICATE: &str = "DuplicateUID";

/// Under which source a worker was told to run a UID, and what its manifest said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    source: Source,
    written: Option<String>,
}

impl Told {
    pub(super) fn of(pod: &DesiredPod) -> Told {
        Told { source: pod.source, written: pod.written.clone() }
    }

    /// It is this pod, maybe moved from one source to another.
    fn is(&self, pod: &DesiredPod) -> bool {
        let same = self.written.is_some() && self.written == pod.written;
        self.source == pod.source || (same && references(pod).is_empty())
    }
}

impl Entry {
    /// Something of this identity goes by that UID.
    fn has_uid(&self, uid: &str) -> bool {
        let told = self.worker.iter().flat_map(|worker| worker.uids.keys().map(String::as_str));
        self.active().map(|pod| pod.uid.as_str()).chain(told).any(|other| same_uid(other, uid))
    }
}

/// Why this pod is refused.
fn duplicate(pod: &DesiredPod, whose: &str) -> Rejection {
    let message = format!(
        "metadata.uid {} is that of {whose}: no other pod may have its directories and \
         cgroup. This pod is tried again when that one is gone, or give it another metadata.uid",
        pod.uid
    );
    Rejection { reason: DUPLICATE.to_owned(), message }
}

/// Why this pod waits, although it goes by the same name: an ordinary move from one source to another, mostly.
fn moved(pod: &DesiredPod) -> Rejection {
    let message = format!(
        "what runs with metadata.uid {} is of another source, and its manifest says something else or refers to \
         ConfigMaps, Secrets or claims, which are others here: that is stopped, and when it is gone this pod begins \
         anew, in source {}",
        pod.uid, pod.source
    );
    Rejection { reason: DUPLICATE.to_owned(), message }
}

impl Turn {
    /// Refuses the pods of sources that come after this one's and have its UID; it waits until they are gone.
    pub(super) fn make_way(&mut self, pod: &DesiredPod, now: &Now) {
        let wanted = |entry: &Entry| {
            let held = entry.held.as_ref().map(|held| &held.pod);
            entry.desired.as_ref().or(held).cloned()
        };
        let others = self.entries.iter().filter(|(key, _)| **key != pod.key);
        let others = others.filter_map(|(_, entry)| wanted(entry));
        let after: Vec<Arc<DesiredPod>> =
            others.filter(|other| pod.source < other.source && same_uid(&other.uid, &pod.uid)).collect();
        for other in after {
            let rejection = duplicate(&other, &format!("pod {} of source {}", pod.key, pod.source));
            self.reject(other, &rejection, now);
        }
    }

    /// The pod's UID is nobody else's.
    ///
    /// # Errors
    /// Whose it is.
    pub(super) fn check_uid(&self, pod: &DesiredPod) -> Result<(), Rejection> {
        let mut others = self.entries.iter().filter(|(key, _)| **key != pod.key);
        let holder = others.find(|(_, entry)| entry.has_uid(&pod.uid)).map(|(key, _)| key);
        // Of two that run when the daemon begins one stays: the one that is looked at first.
        let holder = holder.or_else(|| {
            let mut found = self.found.iter().filter(|(key, _)| **key != pod.key);
            let is = |all: &[Owned]| all.iter().any(|c| same_uid(&c.uid, &pod.uid));
            let other = found.find(|(_, all)| is(all)).map(|(key, _)| key);
            other.filter(|_| !self.runs(&pod.key, &pod.uid))
        });
        // Refused or not: what precedes comes first when it is tried again.
        let refused = self.entries.values().filter_map(|entry| entry.rejected.as_ref());
        let mut before = refused.map(|rejected| &rejected.pod).filter(|other| {
            other.key != pod.key && other.source < pod.source && same_uid(&other.uid, &pod.uid)
        });
        match holder.or_else(|| before.next().map(|other| &other.key)) {
            Some(key) => Err(duplicate(pod, &format!("pod {key}"))),
            None if self.is_another_sources(pod) => Err(moved(pod)),
            None => Ok(()),
        }
    }

    /// The same identity runs with the same UID for another source, whose manifest says something else.
    fn is_another_sources(&self, pod: &DesiredPod) -> bool {
        let worker = self.entries.get(&pod.key).and_then(|entry| entry.worker.as_ref());
        if let Some(told) = worker.and_then(|worker| worker.uids.get(&pod.uid)) {
            return !told.is(pod);
        }
        let found = self.found.get(&pod.key).into_iter().flatten().filter(|c| c.uid == pod.uid);
        // Containers of one pod may carry both sources between which it moved.
        let told: Vec<Told> =
            found.filter_map(|c| Some(Told { source: c.source?, written: c.written.clone() })).collect();
        !told.is_empty() && !told.iter().any(|told| told.is(pod))
    }

    /// Forgets UIDs of which nothing is left, as Docker's list says.
    pub(super) fn forget_uids(&mut self) {
        for (key, entry) in &mut self.entries {
            let desired = entry.desired.as_ref().map(|pod| pod.uid.clone());
            let found = self.found.get(key).map(Vec::as_slice).unwrap_or_default();
            let Some(worker) = &mut entry.worker else { continue };
            let shown = worker.status.as_ref().map(|status| status.pod.uid.clone());
            worker.uids.retain(|uid, _| {
                desired.as_ref() == Some(uid)
                    || shown.as_ref() == Some(uid)
                    || found.iter().any(|c| c.uid == *uid)
            });
        }
    }
}
