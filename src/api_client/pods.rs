//! The pods that the server has for this node, as it has them: what the source of pods reads and those who write back
//! to the server compare with. One thread puts a new set in after each change, others look when they are told.
//!
//! Never here: a decision about a pod.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};
use k8s_openapi::api::core::v1::Pod;

use crate::pod::PodKey;

/// Annotation of a mirror pod: the server's picture of a pod that another source wants.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// One complete set.
#[derive(Debug, Clone, Default)]
pub struct PodsOfNode {
    /// The server was heard since the daemon's start. Before that `pods` is empty and means nothing.
    pub is_complete: bool,
    /// All pods with `spec.nodeName` of this node, mirror pods and those that are being deleted among them.
    pub pods: BTreeMap<PodKey, Arc<Pod>>,
}

/// The latest set. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ServerPods {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    latest: Arc<PodsOfNode>,
    told: Vec<Sender<()>>,
}

impl ServerPods {
    /// The latest set.
    #[must_use]
    pub fn latest(&self) -> Arc<PodsOfNode> {
        Arc::clone(&self.lock().latest)
    }

    /// Puts in a set, and tells those who want to know.
    pub fn put(&self, set: PodsOfNode) {
        let mut shared = self.lock();
        shared.latest = Arc::new(set);
        // A full channel holds the same word.
        shared.told.retain(|told| {
            !matches!(told.try_send(()), Err(crossbeam_channel::TrySendError::Disconnected(())))
        });
    }

    /// A channel that holds a word whenever the set has changed since it was read.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<()> {
        let (tell, told) = bounded(1);
        self.lock().told.push(tell);
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
}
