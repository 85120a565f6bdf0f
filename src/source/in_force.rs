//! The pods and objects in force of one path (a file, or a URL): those of the newest accepted content, and older
//! versions of pods whose newest version the policy refuses. Pure.
//!
//! The state is a fold over accepted contents, so that replaying the stored ones in order after a restart yields the
//! same pods (invariant 5).

use std::sync::Arc;

use crate::base::order;
use crate::base::table::{Set, Table};
use crate::manifest::Decoded;
use crate::manifest::edition::names_of;
use crate::pod::object::LocalObject;
use crate::pod::problem::Refused;
use crate::pod::{DesiredPod, PodKey};

/// Number of an accepted content of one path; it only grows.
pub type Version = u64;

#[derive(Debug, Clone, Default)]
pub struct InForce {
    pods: Vec<Arc<DesiredPod>>,
    objects: Vec<Arc<LocalObject>>,
    refused: Vec<Refused>,
    newest: Version,
    /// Numbers up to this one are taken.
    last: Version,
    /// Pods that an older content still provides.
    kept: Table<PodKey, Version>,
}

impl InForce {
    /// Applies accepted content (no problem of it is an error). Returns the versions of the contents that make the
    /// state now, oldest first, the new one last: others need not be stored.
    pub fn apply(&mut self, decoded: Decoded) -> Vec<Version> {
        self.replay(self.last.saturating_add(1), decoded)
    }

    /// Like [`InForce::apply`], for content that was stored under this number, larger than all before.
    pub fn replay(&mut self, version: Version, decoded: Decoded) -> Vec<Version> {
        let before = self.newest;
        self.newest = version;
        self.reserve(version);
        let mut old = std::mem::take(&mut self.kept);
        let mut pods = decoded.pods;
        for refused in &decoded.refused {
            let key = &refused.pod.key;
            let stays = self.pods.iter().find(|p| p.key == *key && !pods.iter().any(|new| new.key == *key));
            if let Some(stays) = stays {
                pods.push(Arc::clone(stays));
                self.kept.insert(key.clone(), old.remove(key).unwrap_or(before));
            }
        }
        self.pods = pods;
        self.objects = decoded.objects;
        self.refused = decoded.refused;
        let mut made_of = order::set(self.kept.values().copied());
        made_of.insert(self.newest);
        made_of.into_iter().collect()
    }

    /// Reserves the numbers up to this one: the content that was stored under it is not accepted now.
    pub fn reserve(&mut self, version: Version) {
        self.last = self.last.max(version);
    }

    /// Pods in force.
    #[must_use]
    pub fn pods(&self) -> &[Arc<DesiredPod>] {
        &self.pods
    }

    /// Objects in force.
    #[must_use]
    pub fn objects(&self) -> &[Arc<LocalObject>] {
        &self.objects
    }

    /// Pods that the policy refuses in the newest content.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Names of its pods and objects, in the form of the record of signed versions.
    #[must_use]
    pub fn names(&self) -> Set<String> {
        names_of(&self.pods, &self.refused, &self.objects)
    }

    /// Number of the newest content; 0 when nothing was ever accepted.
    #[must_use]
    pub fn newest(&self) -> Version {
        self.newest
    }

    /// Whether neither pods nor objects are in force.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.objects.is_empty() && self.refused.is_empty()
    }

    /// Whether no content was ever accepted.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.newest == 0
    }
}
