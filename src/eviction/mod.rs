//! What happens when the node runs short of memory, disk or process numbers: which thresholds are met, what is
//! reclaimed first, which pod goes (upstream `pkg/kubelet/eviction`). Pure: figures and the time go in, orders come out.
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

/// What the keeper tells the main loop.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// What the node is short of, when that has changed.
    Pressures(Pressures),
    /// A pod has to go.
    Evict(Eviction),
    /// Something happened on the node.
    Node(Words),
}

/// An order to evict one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pod.
    pub key: PodKey,
    /// Its UID: another pod of the name is not meant.
    pub uid: String,
    /// Seconds of grace; the pod's own is the most it gets.
    pub grace: u32,
    /// The kubelet's message, for status and event.
    pub message: String,
    /// Whether the node is short of something; else the pod is over a limit of its own.
    pub of_the_node: bool,
}
