//! All objects of the API at one moment, with resource versions, and the latest changes for watches.
//!
//! It is updated on request ([`World::now`]): without requests nothing is made or compared. Two changes in between
//! count as one. Versions are decimal numbers that grow across restarts: the number of the daemon's start, then that of
//! the change ([`EPOCH_BITS`]).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::kinds::Resource;
use super::objects::{self, Fresh, Origin};
use super::told::ApiBoard;
use super::value::size;
use crate::base::limits;
use crate::base::table::Table;
use crate::node::facts::Facts;

/// Bits of a version for the number of the change; the upper bits count starts of the daemon.
const EPOCH_BITS: u32 = 32;

/// Namespace (empty for none) and name.
pub type Key = (String, String);

/// An object at one version. Its value has kind, apiVersion and resourceVersion.
#[derive(PartialEq)]
pub struct Object {
    pub version: u64,
    pub value: Value,
}

/// Without the value, which may be a Secret's.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<an object of version {}>", self.version)
    }
}

/// The change of an object.
#[derive(Debug, Clone)]
pub struct Change {
    pub version: u64,
    pub resource: Resource,
    pub key: Key,
    pub before: Option<Arc<Object>>,
    pub after: Option<Arc<Object>>,
}

/// An object, with the data that it was made of.
#[derive(Debug)]
struct Held {
    origin: Origin,
    object: Arc<Object>,
}

/// The objects of the API, and their history.
#[derive(Debug)]
pub struct World {
    told: ApiBoard,
    /// Addresses from flags.
    node_ips: Vec<std::net::IpAddr>,
    state: Mutex<State>,
}

/// The objects of one moment.
#[derive(Debug, Default)]
pub struct State {
    kinds: Table<Resource, Table<Key, Held>>,
    /// The latest changes, with the bytes of each.
    history: VecDeque<(Change, usize)>,
    history_bytes: usize,
    /// Version of the latest change.
    version: u64,
    /// Changes up to this one are forgotten.
    forgotten: u64,
    /// The published round of the last update.
    round: Option<u64>,
    facts: Facts,
}

/// A watch starts at a version that is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooOld;

impl World {
    /// An empty world. `epoch` is the number of this start of the daemon.
    #[must_use]
    pub fn new(told: ApiBoard, node_ips: Vec<std::net::IpAddr>, epoch: u32) -> World {
        let version = u64::from(epoch) << EPOCH_BITS;
        let facts = Facts::of_machine();
        let state = State { version, forgotten: version, facts, ..State::default() };
        World { told, node_ips, state: Mutex::new(state) }
    }

    /// The state that the main loop publishes.
    #[must_use]
    pub fn told(&self) -> &ApiBoard {
        &self.told
    }

    /// Updates the world and locks it.
    pub fn now(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = self.told.get();
        if state.round != Some(latest.round) {
            let addresses = crate::network::address::of_node(&self.node_ips);
            let facts = state.facts.clone();
            for (resource, fresh) in objects::all(&latest, &addresses, &facts) {
                state.renew(resource, fresh);
            }
            state.round = Some(latest.round);
        }
        state
    }
}

impl State {
    /// Version of the latest change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// One object.
    #[must_use]
    pub fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.kinds.get(&resource)?.get(&key).map(|held| Arc::clone(&held.object))
    }

    /// All objects of a resource, by namespace and name; only those of one namespace, if one is named.
    pub fn list(
        &self,
        resource: Resource,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        let all = self.kinds.get(&resource).into_iter().flatten().map(|(key, held)| (key, &held.object));
        all.filter(move |(key, _)| namespace.is_none_or(|wanted| key.0 == wanted))
    }

    /// The changes of a resource after a version.
    ///
    /// # Errors
    /// Some of them are forgotten.
    pub fn since(&self, resource: Resource, version: u64) -> Result<Vec<Change>, TooOld> {
        if version < self.forgotten {
            return Err(TooOld);
        }
        let new = self.history.iter().rev().map(|(change, _)| change);
        let new = new.take_while(|change| change.version > version);
        let mut all: Vec<Change> = new.filter(|change| change.resource == resource).cloned().collect();
        all.reverse();
        Ok(all)
    }

    /// Replaces the objects of a resource, and notes the changes.
    fn renew(&mut self, resource: Resource, fresh: Table<Key, Fresh<'_>>) {
        let mut held = self.kinds.remove(&resource).unwrap_or_default();
        let gone: Vec<Key> = held.keys().filter(|key| !fresh.contains_key(*key)).cloned().collect();
        for key in gone {
            if let Some(old) = held.remove(&key) {
                self.note(resource, key, Some(old.object), None);
            }
        }
        for (key, fresh) in fresh {
            let before = held.get(&key);
            if before.is_some_and(|before| before.origin.is(&fresh.origin)) {
                continue;
            }
            let mut value = (fresh.make)();
            if let Some(before) = before {
                set_version(&mut value, before.object.version);
                if value == before.object.value {
                    let object = Arc::new(Object { version: before.object.version, value });
                    held.insert(key, Held { origin: fresh.origin, object });
                    continue;
                }
            }
            let before = before.map(|before| Arc::clone(&before.object));
            let version = self.version.saturating_add(1);
            set_version(&mut value, version);
            let object = Arc::new(Object { version, value });
            self.note(resource, key.clone(), before, Some(Arc::clone(&object)));
            held.insert(key, Held { origin: fresh.origin, object });
        }
        self.kinds.insert(resource, held);
    }

    fn note(
        &mut self,
        resource: Resource,
        key: Key,
        before: Option<Arc<Object>>,
        after: Option<Arc<Object>>,
    ) {
        self.version = self.version.saturating_add(1);
        let version = self.version;
        let bytes = [&before, &after].into_iter().flatten().map(|object| size(&object.value));
        let bytes = bytes.fold(0, usize::saturating_add);
        self.history.push_back((Change { version, resource, key, before, after }, bytes));
        self.history_bytes = self.history_bytes.saturating_add(bytes);
        while (self.history.len() > limits::API_HISTORY || self.history_bytes > limits::API_HISTORY_BYTES)
            && self.history.len() > 1
            && let Some((first, bytes)) = self.history.pop_front()
        {
            self.forgotten = first.version;
            self.history_bytes = self.history_bytes.saturating_sub(bytes);
        }
    }
}

/// Sets `metadata.resourceVersion`.
pub fn set_version(value: &mut Value, version: u64) {
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
    }
}

#[cfg(test)]
mod tests;
