//! Eviction: what happens when the node runs short of memory, disk or process numbers: which thresholds are met, what
//! is reclaimed first, which pod is evicted (upstream `pkg/kubelet/eviction`). Pure: takes figures and the time,
//! returns orders.
//!
//! Never here: reading a figure, calling Docker, stopping a pod, the wall clock.

pub mod cadence;
pub mod local;
pub mod manager;
pub mod preemption;
pub mod rank;
pub mod signal;
pub mod threshold;

use crate::node::pressure::Pressures;
use crate::pod::PodKey;
use crate::recorder::Words;

/// Messages from the keeper to the main loop.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// The resources that the node is short of, when they have changed.
    Pressures(Pressures),
    /// A pod has to be evicted.
    Evict(Eviction),
    /// Something happened on the node.
    Node(Words),
}

/// An order to evict one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pod.
    pub key: PodKey,
    /// Its UID: the order is not for another pod of this name.
    pub uid: String,
    /// Grace period in seconds; the pod's own is used if it is shorter.
    pub grace: u32,
    /// The kubelet's message, for status and event.
    pub message: String,
    /// Whether the node is short of a resource; otherwise the pod is over its own limit.
    pub of_the_node: bool,
}
