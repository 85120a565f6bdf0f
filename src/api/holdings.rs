//! The objects that were written over the API, each as stored and as the node reads it. They are the source
//! [`Source::Api`]: the main loop gets the whole set after each change.
//!
//! Every write is on the disk before it counts. Writers wait for one another; readers never wait for a disk. The thread
//! `pk-store` reads the store at the start, retries until that succeeds, and ends.

mod change;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::failure::Failure;
use super::kinds::{self, Resource};
use super::told::ApiBoard;
use super::world::Key;
use crate::base::human::many;
use crate::base::table::{Set, Table};
use crate::base::{limits, thread};
use crate::manifest::edition::Known;
use crate::manifest::{Decoded, stored_metadata};
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, Source};
use crate::source::accept::Acceptor;
use crate::source::entry::whole_file;
use crate::source::store::{self, Store};
use crate::source::{FromSource, PodSet, SourceUpdate};

pub use change::Change;

/// Resource, namespace and name.
pub type Id = (Resource, Key);

/// The part that readers see.
#[derive(Clone, Default, PartialEq)]
pub struct Stored {
    pub objects: Table<Id, Arc<Value>>,
    /// Pods that were deleted, with a deletionTimestamp: shown until the node has stopped them.
    pub leaving: Table<Key, Arc<Value>>,
}

/// Names without values, for one may be a Secret's.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (objects, leaving): (Vec<_>, Vec<_>) =
            (self.objects.keys().collect(), self.leaving.keys().collect());
        f.debug_struct("Stored").field("objects", &objects).field("leaving", &leaving).finish()
    }
}

/// Tells the main loop; `false` when there is none any more.
pub type Send = Arc<dyn Fn(FromSource) -> bool + std::marker::Send + Sync>;

/// The objects and their store. Clones share them.
#[derive(Clone)]
pub struct Holdings(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    told: ApiBoard,
    acceptor: Acceptor,
    root_dir: PathBuf,
    send: Send,
}

struct Inner {
    store: Store,
    /// The store was read.
    is_read: bool,
    entries: Table<Id, Entry>,
    leaving: Table<Key, Leaving>,
    /// Stored paths that this version cannot use. Pods that were made of them keep running.
    unknown: Set<String>,
}

struct Entry {
    value: Arc<Value>,
    /// Bytes of its JSON.
    size: usize,
    /// Bytes of its local objects for the node.
    local: usize,
    decoded: Decoded,
    /// Seconds of its grace period that had passed when this daemon read it.
    spent: i64,
}

impl Entry {
    fn new(value: Value, size: usize, decoded: Decoded) -> Entry {
        // What is in memory counts; text takes so many times its size there.
        let size = size.max(decoded.lists / limits::API_STORE_GROWTH);
        let local = decoded.objects.iter().fold(0_usize, |sum, object| sum.saturating_add(object.size()));
        Entry { value: Arc::new(value), size, local, decoded, spent: 0 }
    }
}

/// A deleted pod that may still run. Its file stays until it has ended, so that the next daemon knows its grace period.
struct Leaving {
    value: Arc<Value>,
    pods: Vec<Arc<DesiredPod>>,
    /// As [`Entry::spent`].
    spent: i64,
}

/// Handle of the thread `pk-store`.
#[derive(Debug)]
pub struct Reading {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.end = None;
        // A disk that hangs must not delay the end: the process ends without that thread.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

impl Holdings {
    /// Holdings that are not read yet. `key_file`: `--last-good-key-file`.
    #[must_use]
    pub fn new(
        root_dir: PathBuf,
        key_file: Option<PathBuf>,
        acceptor: Acceptor,
        told: ApiBoard,
        send: Send,
    ) -> Holdings {
        let store = Store::new(&root_dir, key_file.as_deref());
        let inner = Inner {
            store,
            is_read: false,
            entries: Table::new(),
            leaving: Table::new(),
            unknown: Set::new(),
        };
        Holdings(Arc::new(Shared { inner: Mutex::new(inner), told, acceptor, root_dir, send }))
    }

    /// Starts a thread that reads the store.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn read(&self) -> io::Result<Reading> {
        let (end, ended) = bounded(0);
        let this = self.clone();
        let thread = thread::spawn("pk-store", limits::SERVER_STACK, move || this.read_all(&ended))?;
        Ok(Reading { end: Some(end), thread: Some(thread) })
    }

    fn read_all(&self, ended: &Receiver<()>) {
        let mut wait = limits::API_STORE_RETRY_MIN;
        let (mut told, mut tries) = (String::new(), 0_u32);
        loop {
            let mut inner = self.inner();
            tries = tries.saturating_add(1);
            match inner.store.load(tries < limits::API_STORE_TRIES) {
                Ok(all) => {
                    let mut going = Vec::new();
                    for (path, bytes) in all {
                        match self.restore(&path, &bytes) {
                            Some((id, entry)) => going.append(&mut inner.take(id, entry)),
                            None => {
                                log::error!(
                                    "{path} of the store is no object of this version: it is left alone"
                                );
                                inner.unknown.insert(path);
                            }
                        }
                    }
                    inner.is_read = true;
                    self.publish(&inner, &going);
                    if !going.is_empty() {
                        self.publish(&inner, &[]);
                    }
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

    /// Starts a change; other changes wait until it is dropped.
    ///
    /// # Errors
    /// The store is not read yet.
    pub fn begin(&self) -> Result<Change<'_>, Failure> {
        let mut inner = self.inner();
        if !inner.is_read {
            return Err(Failure::new(503, "the store of this node cannot be read yet: try again later"));
        }
        inner.forget_ended(&self.0.told.get().snapshot);
        Ok(Change { holdings: self, inner })
    }

    fn restore(&self, path: &str, bytes: &[u8]) -> Option<(Id, Entry)> {
        let mut parts = path.split('/');
        let (plural, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
        let kind = kinds::within("", "v1").find(|kind| kind.plural == plural)?;
        let namespace = if kind.namespaced { namespace } else { "" };
        let id = (kind.resource, (namespace.to_owned(), name.to_owned()));
        // An older version that accepted every name wrote it; it cannot be requested.
        if path != self::path(&id) || !kind.namespaced && !is_label(name) {
            return None;
        }
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let decoded = self.decode(&id, &value);
        Some((id, Entry::new(value, bytes.len(), decoded)))
    }

    /// The place of an object, for the operator.
    fn place(&self, id: &Id) -> String {
        self.place_of(&path(id))
    }

    fn place_of(&self, path: &str) -> String {
        store::directory(&self.0.root_dir).join(path).display().to_string()
    }

    /// A pod of this store that was deleted under an earlier daemon and is being stopped: only its containers describe
    /// it. `value`: the pod as shown.
    #[must_use]
    pub fn orphan(&self, id: &Id, value: &Value) -> Option<Arc<DesiredPod>> {
        let uid = value.pointer("/metadata/uid")?.as_str()?;
        let latest = self.0.told.get();
        let view = latest.snapshot.pods.iter().find(|view| view.pod.uid == uid)?;
        let is_ours = view.pod.source == Source::Api && view.pod.origin.path == self.place(id);
        (is_ours && view.leaving.is_some()).then(|| Arc::clone(&view.pod))
    }

    /// The pods and local objects in an object: none in one that only the API has.
    pub fn decode(&self, id: &Id, value: &Value) -> Decoded {
        if id.0 == Resource::Namespaces {
            return Decoded::default();
        }
        let text = as_manifest(value).to_string();
        let mut decoded = self.0.acceptor.accept(&self.place(id), text.as_bytes(), None, &Known::default());
        decoded.problems.retain(|problem| !is_default(problem.field.as_deref(), value));
        decoded
    }

    /// Checks that an object can be read again after a restart, when it has its defaults, which make it larger.
    ///
    /// # Errors
    /// It would not be accepted again.
    pub fn check_again(&self, id: &Id, value: &Value) -> Result<(), Failure> {
        match problems(&self.decode(id, value)).0.first() {
            None => Ok(()),
            Some((field, why)) => {
                let why = format!("the object with its defaults is invalid: {field}: {why}");
                Err(Failure::new(422, why))
            }
        }
    }

    /// Publishes the objects, and sends the set. `going`: pods that are deleted now, with their grace periods.
    fn publish(&self, inner: &Inner, going: &[Arc<DesiredPod>]) {
        let objects = inner.entries.iter().map(|(id, entry)| (id.clone(), Arc::clone(&entry.value)));
        let leaving = inner.leaving.iter().map(|(key, one)| (key.clone(), Arc::clone(&one.value)));
        let stored = Stored { objects: objects.collect(), leaving: leaving.collect() };
        self.0.told.tell_stored(stored);
        let mut set = PodSet { pods: going.to_vec(), ..PodSet::default() };
        set.broken.extend(inner.unknown.iter().map(|path| self.place_of(path)));
        if inner.store.unread() > 0 {
            let dir = self.place_of("");
            let why = format!(
                "{} of the store cannot be read: pods that no other file names go on as they are; who does not miss \
                 one removes the files that end in .damaged and starts podkeeper again",
                many(inner.store.unread(), "file")
            );
            set.problems.push(whole_file(Severity::Error, &dir, why));
            set.broken.push(dir);
        }
        for (id, entry) in &inner.entries {
            // Another version may have accepted it: its running containers stay.
            if !entry.decoded.is_good() {
                set.broken.push(self.place(id));
            }
            // A pod that waits for its finalizers does not run any more.
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
    // A part of a path must not be empty.
    let namespace = if namespace.is_empty() { "-" } else { namespace };
    format!("{plural}/{namespace}/{name}")
}

/// Whether the name is valid for a namespace.
fn is_label(name: &str) -> bool {
    let meta = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    stored_metadata(&meta, true).is_empty()
}

/// Whether a field has the value that this API gives it itself: no warning is due, because nobody may have written it.
fn is_default(field: Option<&str>, value: &Value) -> bool {
    let of = |path: &str| value.pointer(path);
    match field {
        Some("spec.volumeName") => of("/spec/volumeName") == of("/metadata/name"),
        Some("metadata.creationTimestamp") => true,
        Some("spec.enableServiceLinks") => of("/spec/enableServiceLinks") == Some(&Value::Bool(true)),
        _ => false,
    }
}

/// An object in the form of a manifest: without the fields that only the API has. A local object keeps its time, which
/// is shown; that of a pod's own is not in manifests.
fn as_manifest(value: &Value) -> Value {
    let mut value = value.clone();
    let is_pod = value.get("kind").and_then(Value::as_str) == Some("Pod");
    if let Value::Object(fields) = &mut value {
        fields.remove("status");
    }
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        for field in [
            "managedFields",
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
        if is_pod {
            metadata.remove("creationTimestamp");
        }
    }
    value
}

/// The first error of a decoded object, if there is one, and its warnings.
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

#[cfg(test)]
mod tests;
