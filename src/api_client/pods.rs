//! The server's pods of this node, in the server's version: the source of pods reads them, and the threads that
//! report to the server compare with them. One thread stores a new set after each change; others read it when
//! notified. The UID of the node object that its watch told last is handed on in the same way.
//!
//! Never here: a decision about a pod.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};
use k8s_openapi::api::core::v1::Pod;

use crate::base::table::Table;
use crate::pod::PodKey;

/// Annotation of a mirror pod: the server's copy of a pod from another source.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// One complete set.
#[derive(Debug, Clone, Default)]
pub struct PodsOfNode {
    /// The server was read since the daemon's start. Before that `pods` is empty and means nothing.
    pub is_complete: bool,
    /// All pods with `spec.nodeName` of this node, including mirror pods and pods that are being deleted.
    pub pods: Table<PodKey, Arc<Pod>>,
}

/// The latest set. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ServerPods {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    latest: Arc<PodsOfNode>,
    /// The source's version is of data that the server has no more.
    is_expired: bool,
    /// Wakes the source.
    source: Option<Sender<()>>,
    told: Vec<Sender<()>>,
    node: NodeSeen,
    /// Wakes the heartbeat.
    node_changed: Option<Sender<()>>,
}

/// The node object by its watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodeSeen {
    /// The watch has told nothing yet.
    #[default]
    Unknown,
    /// There is no such object.
    Missing,
    /// It has this UID.
    Uid(String),
}

impl ServerPods {
    /// The latest set.
    #[must_use]
    pub fn latest(&self) -> Arc<PodsOfNode> {
        Arc::clone(&self.lock().latest)
    }

    /// Stores a set, and notifies the subscribers.
    pub fn put(&self, set: PodsOfNode) {
        let mut shared = self.lock();
        shared.latest = Arc::new(set);
        // If the channel is full, the subscriber is notified already.
        shared.told.retain(|told| {
            !matches!(told.try_send(()), Err(crossbeam_channel::TrySendError::Disconnected(())))
        });
    }

    /// A channel that has a message whenever the set has changed since it was last read.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<()> {
        let (tell, told) = bounded(1);
        self.lock().told.push(tell);
        told
    }

    /// Notes that the server's data were restored from an older state: the source reads all pods again.
    pub fn expire(&self) {
        self.lock().is_expired = true;
    }

    /// Whether that has happened since the last call.
    #[must_use]
    pub fn has_expired(&self) -> bool {
        std::mem::take(&mut self.lock().is_expired)
    }

    /// Notes what wakes the source.
    pub fn set_source(&self, source: Sender<()>) {
        self.lock().source = Some(source);
    }

    /// Tells the source that the server answers again: it need not wait any longer.
    pub fn hurry(&self) {
        if let Some(source) = &self.lock().source {
            // A full channel holds the same message.
            _ = source.try_send(());
        }
    }

    /// Notes the node object that the watch tells of. The heartbeat is told of another one.
    pub fn see_node(&self, seen: NodeSeen) {
        let mut shared = self.lock();
        if shared.node != seen {
            shared.node = seen;
            // A full channel holds the same message.
            _ = shared.node_changed.as_ref().map(|changed| changed.try_send(()));
        }
    }

    /// The node object that the watch told of last.
    #[must_use]
    pub fn node(&self) -> NodeSeen {
        self.lock().node.clone()
    }

    /// A channel that has a message whenever the node object has been removed or made anew.
    #[must_use]
    pub fn subscribe_to_node(&self) -> Receiver<()> {
        let (tell, told) = bounded(1);
        self.lock().node_changed = Some(tell);
        told
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this is a mirror pod.
#[must_use]
pub fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_wants_to_know_is_told_of_each_change_once() {
        let pods = ServerPods::default();
        let (told, gone) = (pods.subscribe(), pods.subscribe());
        drop(gone);
        assert!(told.try_recv().is_err() && !pods.latest().is_complete);
        pods.put(PodsOfNode { is_complete: true, ..PodsOfNode::default() });
        pods.put(PodsOfNode { is_complete: true, ..PodsOfNode::default() });
        assert!(told.try_recv().is_ok() && told.try_recv().is_err());
        assert!(pods.latest().is_complete);
        assert_eq!(pods.lock().told.len(), 1);
    }

    #[test]
    fn the_heartbeat_is_told_of_another_node_object_once() {
        let pods = ServerPods::default();
        let told = pods.subscribe_to_node();
        for seen in [NodeSeen::Uid("u1".to_owned()), NodeSeen::Missing, NodeSeen::Uid("u2".to_owned())] {
            pods.see_node(seen.clone());
            assert!(told.try_recv().is_ok(), "{seen:?}");
            pods.see_node(seen.clone());
            assert!(told.try_recv().is_err() && pods.node() == seen);
        }
    }
}
