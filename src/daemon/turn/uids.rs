//! A UID belongs to one pod: directories, cgroup and volumes are named by it alone. An author of manifests
//! may write any UID, and the UIDs that podkeeper makes can be computed in advance. So a pod is refused while
//! another pod has its UID, or had it and is not gone yet. Two pods are the same only if the same source says
//! so, or if both manifests are equal word for word and refer to no object: then containers and data are the
//! same. A copy with objects in another source would run with the ConfigMaps of that source, in the volumes
//! of the first pod.
//!
//! As with names, a preceding source gets the UID in the end, even if it comes later. Otherwise an author of
//! the URL's manifests could keep a pod of the node's own files from ever starting.

use std::sync::Arc;

use super::Turn;
use super::admission::{Reason, Rejection};
use super::entry::Entry;
use crate::base::clock::Now;
use crate::base::table::Set;
use crate::pod::owner::Owner;
use crate::pod::{DesiredPod, PodKey, same_uid};

impl Entry {
    /// What waits for anything has its directories, from before a boot; an evicted pod returns.
    fn waits_with_uid(&self) -> Option<&Arc<DesiredPod>> {
        self.held().map(|held| &held.pod).or(self.evicted().map(|evicted| &evicted.pod))
    }

    /// Whether a pod of this identity, wanted or not gone yet, has that UID.
    pub(super) fn has_uid(&self, uid: &str) -> bool {
        let told = self.worker.iter().flat_map(|worker| worker.uids.keys().map(String::as_str));
        let pods = self.active().chain(self.waits_with_uid()).map(|pod| pod.uid.as_str());
        pods.chain(told).any(|other| same_uid(other, uid))
    }
}

/// Refusal: another pod has the UID.
fn duplicate(pod: &DesiredPod, whose: &str) -> Rejection {
    let message = format!(
        "metadata.uid {} is that of {whose}: no other pod may have its directories and \
         cgroup. This pod is tried again when that one is gone, or give it another metadata.uid",
        pod.uid
    );
    Rejection { reason: Reason::DuplicateUid, message, field: "metadata.uid".to_owned() }
}

/// Refusal: the same name and UID run from another source. Usually an ordinary move between sources.
fn moved(pod: &DesiredPod) -> Rejection {
    let message = format!(
        "what runs with metadata.uid {} is of another source, and its manifest says something else or refers to \
         ConfigMaps, Secrets or claims, which are others here: that is stopped, and when it is gone this pod begins \
         anew, in source {}",
        pod.uid, pod.source
    );
    Rejection { reason: Reason::DuplicateUid, message, field: "metadata.uid".to_owned() }
}

impl Turn {
    /// Refuses the pods of later sources that have this pod's UID; this pod waits until they are gone. A version of another
    /// UID that waits while the refused one runs goes on waiting.
    pub(super) fn reject_later_duplicates(&mut self, pod: &DesiredPod, now: &Now) {
        let is_later = |other: &&Arc<DesiredPod>| {
            pod.source < other.source && same_uid(&other.uid, &pod.uid) && other.key != pod.key
        };
        // A version that waits may have another UID than the one that runs.
        let others = self.entries.values().filter_map(|entry| {
            let waits = entry.waits_with_uid().filter(is_later);
            waits.or(entry.desired.as_ref().filter(is_later)).cloned()
        });
        let others: Vec<Arc<DesiredPod>> = others.collect();
        for other in others {
            let rejection = duplicate(&other, &format!("pod {} of source {}", pod.key, pod.source));
            let key = other.key.clone();
            let waits = self
                .entries
                .get_mut(&key)
                .filter(|entry| entry.waits_with_uid().is_some_and(|waits| waits.uid != other.uid));
            let waits = waits.and_then(|entry| entry.blocked.take());
            self.reject(other, &rejection, now);
            if waits.is_some() {
                self.block(&key, waits);
            }
        }
    }

    /// Checks that no other pod has the pod's UID.
    ///
    /// # Errors
    /// Another pod has it; the refusal names that pod.
    pub(super) fn check_uid(&self, pod: &DesiredPod) -> Result<(), Rejection> {
        let mut others = self.entries.iter().filter(|(_, entry)| entry.has_uid(&pod.uid));
        let holder = others.find(|(key, _)| **key != pod.key).map(|(key, _)| key);
        // Of two pods that run when the daemon starts, the one that is considered first stays.
        let holder = holder.or_else(|| {
            let mut found = self.docker.found.keys().filter(|key| self.is_found_with(key, &pod.uid));
            found.find(|key| **key != pod.key).filter(|_| !self.runs(&pod.key, &pod.uid))
        });
        // A refused pod counts too: a preceding source comes first at the next try.
        let refused = self.entries.values().filter_map(Entry::rejected);
        let mut before = refused.map(|rejected| &rejected.pod).filter(|other| {
            other.source < pod.source && same_uid(&other.uid, &pod.uid) && other.key != pod.key
        });
        match holder.or_else(|| before.next().map(|other| &other.key)) {
            Some(key) => Err(duplicate(pod, &format!("pod {key}"))),
            None if self.is_another_sources(pod) => Err(moved(pod)),
            None => Ok(()),
        }
    }

    /// Whether Docker's last list has a container of this identity with that UID.
    pub(super) fn is_found_with(&self, key: &PodKey, uid: &str) -> bool {
        self.docker.found.get(key).into_iter().flatten().any(|c| same_uid(&c.uid, uid))
    }

    /// Whether the same identity runs with the same UID from another source, with a different manifest.
    fn is_another_sources(&self, pod: &DesiredPod) -> bool {
        let worker = self.entries.get(&pod.key).and_then(|entry| entry.worker.as_ref());
        if let Some(told) = worker.and_then(|worker| worker.uids.get(&pod.uid)) {
            return !told.is(pod);
        }
        let found = self.docker.found.get(&pod.key).into_iter().flatten().filter(|c| c.uid == pod.uid);
        // After a move the containers of one pod may carry both sources.
        let told: Vec<Owner> = found
            .filter_map(|c| Some(Owner { source: c.manifest.source?, written: c.manifest.written.clone() }))
            .collect();
        !told.is_empty() && !told.iter().any(|told| told.is(pod))
    }

    /// Forgets UIDs without a container in Docker's list. Returns true if there were such.
    pub(super) fn forget_uids(&mut self) -> bool {
        let mut is_free = false;
        for (key, entry) in &mut self.entries {
            let desired = entry.desired.as_ref().map(|pod| pod.uid.clone());
            let found = self.docker.found.get(key).map(Vec::as_slice).unwrap_or_default();
            let Some(worker) = &mut entry.worker else { continue };
            let shown = worker.status.as_ref().map(|status| status.pod.uid.clone());
            let before = worker.uids.len();
            worker.uids.retain(|uid, _| {
                desired.as_ref() == Some(uid)
                    || shown.as_ref() == Some(uid)
                    || found.iter().any(|c| c.uid == *uid)
            });
            is_free |= worker.uids.len() < before;
        }
        is_free
    }

    /// A pod has nothing left of these UIDs, which it had before an edit. Lists are minutes apart, and another pod may wait.
    pub(super) fn freed(&mut self, key: &PodKey, uids: &Set<String>, now: &Now) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let desired = entry.desired.as_ref().map(|pod| &pod.uid);
        let Some(worker) = &mut entry.worker else { return };
        let shown = worker.status.as_ref().map(|status| &status.pod.uid);
        let is_free = |uid: &String| uids.contains(uid) && Some(uid) != desired && Some(uid) != shown;
        worker.uids.retain(|uid, _| !is_free(uid));
        self.changed = true;
        if let Some(found) = self.docker.found.change().get_mut(key) {
            found.retain(|container| !is_free(&container.uid));
        }
        self.readmit(&[], now);
    }
}
