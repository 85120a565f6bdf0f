//! One change of the written objects: on the disk first, then published.

use std::sync::{Arc, MutexGuard};

use serde_json::Value;

use super::{Entry, Holdings, Id, Inner, Leaving, path};
use crate::api::failure::Failure;
use crate::api::kinds::Resource;
use crate::api::value::is_deeper;
use crate::api::write::written::grace_left;
use crate::base::clock::{Clock as _, SignedDuration, System, Timestamp};
use crate::base::limits;
use crate::manifest::Decoded;
use crate::node::sys;
use crate::pod::DesiredPod;
use crate::status::snapshot::Snapshot;

/// A change under way.
pub struct Change<'a> {
    pub(super) holdings: &'a Holdings,
    pub(super) inner: MutexGuard<'a, Inner>,
}

impl Change<'_> {
    /// The object as it is stored.
    #[must_use]
    pub fn get(&self, id: &Id) -> Option<Arc<Value>> {
        self.inner.entries.get(id).map(|entry| Arc::clone(&entry.value))
    }

    /// The stored objects of a namespace.
    #[must_use]
    pub fn within(&self, namespace: &str) -> Vec<Id> {
        self.inner.entries.keys().filter(|(_, key)| key.0 == namespace).cloned().collect()
    }

    /// Stores an object, and passes it to the node. `decoded` is its content for the node.
    ///
    /// # Errors
    /// There is no room, or the disk failed: nothing has changed.
    pub fn put(&mut self, id: &Id, value: Value, decoded: Decoded) -> Result<(), Failure> {
        self.store(id, value, decoded)?;
        self.holdings.publish(&self.inner, &[]);
        Ok(())
    }

    /// Stores a pod that waits for its finalizers, and lets the node stop it with this grace period.
    ///
    /// # Errors
    /// Those of [`Change::put`].
    pub fn put_leaving(
        &mut self,
        id: &Id,
        value: Value,
        decoded: Decoded,
        grace: i64,
    ) -> Result<(), Failure> {
        let spent = self.inner.entries.get(id).map_or(0, |entry| entry.spent);
        let going = going(&decoded.pods, grace, spent);
        self.store(id, value, decoded)?;
        self.holdings.publish(&self.inner, &going);
        self.holdings.publish(&self.inner, &[]);
        Ok(())
    }

    fn store(&mut self, id: &Id, value: Value, decoded: Decoded) -> Result<(), Failure> {
        // An object that could not be read again is refused.
        if is_deeper(&value, limits::API_DEPTH) {
            return Err(Failure::new(422, format!("the object is deeper than {} fields", limits::API_DEPTH)));
        }
        let bytes = value.to_string().into_bytes();
        if bytes.len().saturating_add(limits::API_SEAL) > limits::API_STORED {
            let why = format!(
                "the object has {} bytes with all that belongs to it, and this node stores {} of one",
                bytes.len(),
                limits::API_STORED.saturating_sub(limits::API_SEAL)
            );
            return Err(Failure::new(413, why));
        }
        let mut entry = Entry::new(value, bytes.len(), decoded);
        entry.spent = self.inner.entries.get(id).map_or(0, |old| old.spent);
        self.room(id, &entry)?;
        let path = path(id);
        self.inner.store.save(&path, bytes).map_err(|why| Failure::new(500, why))?;
        self.inner.unknown.remove(&path);
        self.inner.entries.insert(id.clone(), entry);
        Ok(())
    }

    /// Checks that there is room: all stored objects must fit into the node's limits of one source, or new ones would
    /// push others out.
    fn room(&self, id: &Id, new: &Entry) -> Result<(), Failure> {
        let old = self.inner.entries.get(id);
        if old.is_some_and(|old| new.size <= old.size && new.local <= old.local) {
            return Ok(());
        }
        let others = || self.inner.entries.iter().filter(|(other, _)| *other != id);
        let all = || others().map(|(_, entry)| entry).chain([new]);
        let bytes = |of: fn(&Entry) -> usize| all().fold(0_usize, |sum, entry| sum.saturating_add(of(entry)));
        let count = |of: fn(&Id) -> bool| others().filter(|(other, _)| of(other)).count().saturating_add(1);
        let (most, have, what) = match id.0 {
            Resource::Pods => (limits::PODS_PER_SOURCE, count(|id| id.0 == Resource::Pods), "pods"),
            Resource::Namespaces => {
                (limits::OBJECTS_PER_SOURCE, count(|id| id.0 == Resource::Namespaces), "namespaces")
            }
            _ => {
                let is_local = |id: &Id| !matches!(id.0, Resource::Pods | Resource::Namespaces);
                (limits::OBJECTS_PER_SOURCE, count(is_local), "ConfigMaps, Secrets and claims together")
            }
        };
        let full = |what: String| {
            let why = format!("exceeded quota: this node takes {what} over its API: delete some first");
            Err(Failure { reason: "Forbidden", ..Failure::new(403, why) })
        };
        if have > most {
            return full(format!("{most} {what}"));
        }
        let most = |most: usize| sys::share(most, limits::API_STORE_PART);
        let (local, all) = (most(limits::OBJECT_BYTES_PER_SOURCE), most(limits::API_STORE));
        if bytes(|entry| entry.local) > local {
            return full(format!("{local} bytes of ConfigMaps and Secrets"));
        }
        if bytes(|entry| entry.size) > all {
            return full(format!("{all} bytes of objects as JSON"));
        }
        Ok(())
    }

    /// Removes an object.
    ///
    /// # Errors
    /// The disk failed: nothing has changed.
    pub fn remove(&mut self, id: &Id) -> Result<(), Failure> {
        self.inner.store.remove(&path(id)).map_err(|why| Failure::new(500, why))?;
        self.inner.entries.remove(id);
        self.holdings.publish(&self.inner, &[]);
        Ok(())
    }

    /// Removes a pod and lets the node stop it with the grace period of `leaving`, the form to store; it is shown until
    /// it has ended, and stored as long.
    ///
    /// # Errors
    /// Those of [`Change::remove`].
    pub fn remove_pod(&mut self, id: &Id, leaving: Value, grace: i64) -> Result<(), Failure> {
        let (pods, spent) = match self.inner.entries.get(id) {
            Some(entry) => (entry.decoded.pods.clone(), entry.spent),
            None => Default::default(),
        };
        if is_over(&leaving, &self.holdings.0.told.get().snapshot) || !self.keep(id, &leaving) {
            self.inner.store.remove(&path(id)).map_err(|why| Failure::new(500, why))?;
        }
        // The deletion with its grace period is sent first, then the set without the pod.
        let going = going(&pods, grace, spent);
        self.inner.leaving.insert(id.1.clone(), Leaving { value: Arc::new(leaving), pods, spent });
        self.inner.entries.remove(id);
        self.holdings.publish(&self.inner, &going);
        self.holdings.publish(&self.inner, &[]);
        Ok(())
    }

    /// Stores the deletion of a pod. Returns false if it is not stored: a full disk must not keep a pod running.
    fn keep(&mut self, id: &Id, leaving: &Value) -> bool {
        let bytes = leaving.to_string().into_bytes();
        let fits = bytes.len().saturating_add(limits::API_SEAL) <= limits::API_STORED;
        // Without its deletion it would run again.
        fits && grace_left(leaving).is_some()
            && self.inner.store.save(&path(id), bytes).map_err(|why| log::warn!("{why}")).is_ok()
    }

    /// Shortens the grace period of a removed pod, also of one that was removed under an earlier daemon. If the disk
    /// fails, the next daemon has the former one.
    pub fn hurry(&mut self, id: &Id, leaving: Value, grace: i64) {
        let uid = leaving.pointer("/metadata/uid").cloned();
        if !self.inner.leaving.contains_key(&id.1)
            && let Some(orphan) = self.holdings.orphan(id, &leaving)
        {
            let one = Leaving { value: Arc::new(leaving.clone()), pods: vec![orphan], spent: 0 };
            self.inner.leaving.insert(id.1.clone(), one);
        }
        let Some(one) = self.inner.leaving.get_mut(&id.1) else { return };
        if one.value.pointer("/metadata/uid") != uid.as_ref() {
            return;
        }
        let going = going(&one.pods, grace, one.spent);
        one.value = Arc::new(leaving.clone());
        if !self.inner.entries.contains_key(id) {
            self.keep(id, &leaving);
        }
        self.holdings.publish(&self.inner, &going);
        self.holdings.publish(&self.inner, &[]);
    }
}

impl Inner {
    /// Takes an object of the store. Returns its pods that are being deleted, with the rest of their grace periods.
    pub(super) fn take(&mut self, id: Id, mut entry: Entry) -> Vec<Arc<DesiredPod>> {
        let value = &entry.value;
        let Some(grace) = grace_left(value).filter(|_| id.0 == Resource::Pods) else {
            self.entries.insert(id, entry);
            return Vec::new();
        };
        entry.spent = spent(value, grace);
        let going = going(&entry.decoded.pods, grace, entry.spent);
        let finalizers = value.pointer("/metadata/finalizers").and_then(Value::as_array);
        if finalizers.is_some_and(|all| !all.is_empty()) {
            self.entries.insert(id, entry);
        } else {
            let Entry { value, decoded, spent, .. } = entry;
            self.leaving.insert(id.1, Leaving { value, pods: decoded.pods, spent });
        }
        going
    }

    /// Forgets the deleted pods that have ended.
    pub(super) fn forget_ended(&mut self, latest: &Snapshot) {
        let Inner { store, entries, leaving, .. } = self;
        leaving.retain(|key, one| {
            let id = (Resource::Pods, key.clone());
            // If its file cannot be removed now, the next change tries again.
            !is_over(&one.value, latest) || !entries.contains_key(&id) && store.remove(&path(&id)).is_err()
        });
    }
}

/// Whether none of the node's pods has its UID; false as long as the node does not know its pods.
fn is_over(value: &Value, latest: &Snapshot) -> bool {
    let uid = value.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    latest.docker.reachable && !latest.pods.iter().any(|view| view.pod.uid == uid)
}

/// Seconds of the grace period of a deletion that have passed, by the wall clock: 0 to `grace`, whatever it shows.
fn spent(value: &Value, grace: i64) -> i64 {
    let end = value.pointer("/metadata/deletionTimestamp").and_then(Value::as_str);
    let end = end.and_then(|end| end.parse::<Timestamp>().ok()).map_or(0, Timestamp::as_second);
    let left = end.saturating_sub(System::start().now().wall.as_second());
    grace.saturating_sub(left).clamp(0, grace.max(0))
}

fn going(pods: &[Arc<DesiredPod>], grace: i64, spent: i64) -> Vec<Arc<DesiredPod>> {
    pods.iter().map(|pod| Arc::new(deleted(pod, grace.saturating_sub(spent).max(0)))).collect()
}

/// The pod with the deletion by its source.
fn deleted(pod: &DesiredPod, grace: i64) -> DesiredPod {
    let mut pod = pod.clone();
    let now = System::start().now().wall;
    let end = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    pod.metadata.deletion_timestamp = Some(crate::status::seconds(end));
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    pod
}
