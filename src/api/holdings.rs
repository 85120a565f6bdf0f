//! What was written over the API: the objects, each as it is stored and as the node reads it. They are the source
//! [`Source::Api`]: after each change the main loop gets the whole set.
//!
//! Every write goes to the disk before it counts. Writers wait for one another; those who read never wait for a disk.
//! The thread `pk-store` reads the store at the start, as often as that takes, and ends.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use serde_json::Value;

use super::failure::Failure;
use super::kinds::{self, Resource};
use super::told::Told;
use super::world::Key;
use crate::base::{limits, order};
use crate::manifest::Decoded;
use crate::manifest::edition::Known;
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, Source};
use crate::source::accept::Acceptor;
use crate::source::store::{self, Store};
use crate::source::{FromSource, PodSet, SourceUpdate};

/// Resource, namespace and name.
pub type Id = (Resource, Key);

/// What readers see of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    pub objects: BTreeMap<Id, Arc<Value>>,
    /// Pods that were deleted, with a deletionTimestamp: shown until the node has stopped them.
    pub leaving: BTreeMap<Key, Arc<Value>>,
}

/// Tells the main loop; `false` when there is none any more.
pub type Send = Arc<dyn Fn(FromSource) -> bool + std::marker::Send + Sync>;

/// See the head of this file. Clones share it.
#[derive(Clone)]
pub struct Holdings(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    told: Told,
    acceptor: Acceptor,
    root_dir: PathBuf,
    send: Send,
}

struct Inner {
    store: Store,
    /// The store was read.
    is_read: bool,
    entries: BTreeMap<Id, Entry>,
    leaving: BTreeMap<Key, Arc<Value>>,
}

struct Entry {
    value: Arc<Value>,
    /// Bytes of its JSON.
    size: usize,
    decoded: Decoded,
}

/// Handle of the thread `pk-store`.
#[derive(Debug)]
pub struct Reading {
    end: Option<Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.end = None;
        // A disk that hangs would hold the end up: the process ends without that thread.
        if let Some(thread) = self.thread.take().filter(thread::JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

impl Holdings {
    /// Nothing is read yet. `key_file`: `--last-good-key-file`.
    #[must_use]
    pub fn new(
        root_dir: PathBuf,
        key_file: Option<PathBuf>,
        acceptor: Acceptor,
        told: Told,
        send: Send,
    ) -> Holdings {
        let store = Store::new(&root_dir, key_file.as_deref());
        let inner = Inner { store, is_read: false, entries: BTreeMap::new(), leaving: BTreeMap::new() };
        Holdings(Arc::new(Shared { inner: Mutex::new(inner), told, acceptor, root_dir, send }))
    }

    /// Has a thread read the store.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn read(&self) -> io::Result<Reading> {
        let (end, ended) = bounded(0);
        let this = self.clone();
        let thread = thread::Builder::new().name("pk-store".to_owned()).stack_size(limits::SERVER_STACK);
        let thread = thread.spawn(move || this.read_all(&ended))?;
        Ok(Reading { end: Some(end), thread: Some(thread) })
    }

    fn read_all(&self, ended: &Receiver<()>) {
        let mut wait = limits::API_STORE_RETRY_MIN;
        let mut told = String::new();
        loop {
            let mut inner = self.inner();
            match inner.store.load() {
                Ok(all) => {
                    for (path, bytes) in all {
                        match self.restore(&path, &bytes) {
                            Some((id, entry)) => _ = inner.entries.insert(id, entry),
                            None => log::error!(
                                "{path} of the store is no object of this version: it is left alone"
                            ),
                        }
                    }
                    inner.is_read = true;
                    self.publish(&inner);
                    return;
                }
                Err(why) => {
                    drop(inner);
                    if told != why {
                        (self.0.send)(FromSource {
                            source: Source::Api,
                            update: SourceUpdate::Failed(why.clone()),
                        });
                        told = why;
                    }
                }
            }
            match ended.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
            wait = wait.saturating_mul(2).min(limits::API_STORE_RETRY_MAX).max(Duration::from_secs(1));
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a change; nobody else changes anything meanwhile.
    ///
    /// # Errors
    /// The store is not read yet.
    pub fn begin(&self) -> Result<Change<'_>, Failure> {
        let inner = self.inner();
        if !inner.is_read {
            return Err(Failure::new(503, "the store of this node cannot be read yet: try again later"));
        }
        Ok(Change { holdings: self, inner })
    }

    fn restore(&self, path: &str, bytes: &[u8]) -> Option<(Id, Entry)> {
        let mut parts = path.split('/');
        let (plural, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
        let kind = kinds::within("", "v1").find(|kind| kind.plural == plural)?;
        let id = (kind.resource, (namespace.to_owned(), name.to_owned()));
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let decoded = self.decode(&id, &value);
        Some((id, Entry { value: Arc::new(value), size: bytes.len(), decoded }))
    }

    /// Where an object is, as the operator is told.
    fn place(&self, id: &Id) -> String {
        store::directory(&self.0.root_dir).join(path(id)).display().to_string()
    }

    /// What the node reads in an object: nothing in one that only the API has.
    pub fn decode(&self, id: &Id, value: &Value) -> Decoded {
        if id.0 == Resource::Namespaces {
            return Decoded::default();
        }
        let text = as_manifest(value).to_string();
        self.0.acceptor.accept(&self.place(id), text.as_bytes(), None, &Known::default())
    }

    fn publish(&self, inner: &Inner) {
        let objects = inner.entries.iter().map(|(id, entry)| (id.clone(), Arc::clone(&entry.value)));
        let stored = Stored { objects: order::map(objects), leaving: inner.leaving.clone() };
        self.0.told.tell_stored(stored);
        let mut set = PodSet::default();
        for entry in inner.entries.values() {
            // One that waits for its finalizers does not run any more.
            if entry.value.pointer("/metadata/deletionTimestamp").is_none() {
                set.pods.extend(entry.decoded.pods.iter().cloned());
            }
            set.objects.extend(entry.decoded.objects.iter().cloned());
            set.refused.extend(entry.decoded.refused.iter().cloned());
            set.problems.extend(entry.decoded.problems.iter().cloned());
        }
        (self.0.send)(FromSource { source: Source::Api, update: SourceUpdate::Full(set) });
    }
}

/// `pods/default/web`
fn path((resource, (namespace, name)): &Id) -> String {
    let plural = kinds::of(*resource).map_or("", |kind| kind.plural);
    // No part of a path may be empty.
    let namespace = if namespace.is_empty() { "-" } else { namespace };
    format!("{plural}/{namespace}/{name}")
}

/// An object as a manifest would have it: without what only the API keeps.
fn as_manifest(value: &Value) -> Value {
    let mut value = value.clone();
    if let Value::Object(fields) = &mut value {
        fields.remove("status");
    }
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        for field in [
            "managedFields",
            "creationTimestamp",
            "resourceVersion",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "generateName",
            "ownerReferences",
            "finalizers",
        ] {
            metadata.remove(field);
        }
    }
    value
}

/// A change that is under way.
pub struct Change<'a> {
    holdings: &'a Holdings,
    inner: MutexGuard<'a, Inner>,
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

    /// Stores an object, and has the node act on it. `decoded` is what it reads in it.
    ///
    /// # Errors
    /// There is no room, or the disk fails: nothing has changed.
    pub fn put(&mut self, id: &Id, value: Value, decoded: Decoded) -> Result<(), Failure> {
        let bytes = value.to_string().into_bytes();
        let size = bytes.len();
        let is_pod = |id: &Id| id.0 == Resource::Pods;
        let others = || self.inner.entries.iter().filter(|(other, _)| *other != id);
        let alike = others().filter(|(other, _)| is_pod(other) == is_pod(id)).count();
        let most = if is_pod(id) { limits::PODS_PER_SOURCE } else { limits::OBJECTS_PER_SOURCE };
        let used = others().fold(size, |sum, (_, entry)| sum.saturating_add(entry.size));
        if alike >= most || used > limits::API_STORE {
            let why = format!(
                "this node stores {most} objects of this kind and {} bytes at most: delete some first",
                limits::API_STORE
            );
            return Err(Failure { reason: "Forbidden", ..Failure::new(403, why) });
        }
        self.inner.store.save(&path(id), bytes).map_err(|why| Failure::new(500, why))?;
        self.inner.entries.insert(id.clone(), Entry { value: Arc::new(value), size, decoded });
        self.holdings.publish(&self.inner);
        Ok(())
    }

    /// Removes an object.
    ///
    /// # Errors
    /// The disk fails: nothing has changed.
    pub fn remove(&mut self, id: &Id) -> Result<(), Failure> {
        self.inner.store.remove(&path(id)).map_err(|why| Failure::new(500, why))?;
        self.inner.entries.remove(id);
        self.holdings.publish(&self.inner);
        Ok(())
    }

    /// Removes a pod and has the node stop it with the grace period that `leaving` has; it is shown until it has ended.
    ///
    /// # Errors
    /// As [`Change::remove`].
    pub fn remove_pod(&mut self, id: &Id, leaving: Value, grace: i64) -> Result<(), Failure> {
        let pods = self.inner.entries.get(id).map(|entry| entry.decoded.pods.clone()).unwrap_or_default();
        let latest = self.holdings.0.told.get();
        let is_there = |value: &Arc<Value>| {
            let uid = value.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
            latest.snapshot.pods.iter().any(|view| view.pod.uid == uid)
        };
        self.inner.leaving.retain(|_, value| is_there(value));
        self.inner.store.remove(&path(id)).map_err(|why| Failure::new(500, why))?;
        self.inner.leaving.insert(id.1.clone(), Arc::new(leaving));
        // First the word that it goes, with its grace period, then the set without it.
        if let Some(entry) = self.inner.entries.get_mut(id) {
            entry.decoded.pods = pods.iter().map(|pod| Arc::new(deleted(pod, grace))).collect();
        }
        self.holdings.publish(&self.inner);
        self.inner.entries.remove(id);
        self.holdings.publish(&self.inner);
        Ok(())
    }
}

/// The pod as its source deletes it.
fn deleted(pod: &DesiredPod, grace: i64) -> DesiredPod {
    use crate::base::clock::{Clock as _, System};
    let mut pod = pod.clone();
    let now = crate::status::seconds(System::start().now().wall);
    pod.metadata.deletion_timestamp = Some(now);
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    pod
}

/// The first error of what was read, if there is one, and warnings.
#[must_use]
pub fn problems(decoded: &Decoded) -> (Vec<(String, String)>, Vec<String>) {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for problem in &decoded.problems {
        let field = problem.field.clone().unwrap_or_default();
        match problem.severity {
            Severity::Error => errors.push((field, problem.message.clone())),
            Severity::Warning => warnings.push(format!("{field}: {}", problem.message)),
        }
    }
    (errors, warnings)
}
