//! The order in which pods are evicted, and their messages (`pkg/kubelet/eviction/helpers.go`, `rankMemoryPressure`
//! and similar functions, `evictionMessage`).

use std::cmp::Ordering;

use super::signal::{Resource, Signal};
use crate::base::order;
use crate::pod::priority::SYSTEM_CRITICAL;
use crate::pod::{PodKey, Source};

/// Usage of one container of the resource that is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerUse {
    /// Its name.
    pub name: String,
    /// Usage.
    pub used: u64,
    /// Request.
    pub request: u64,
}

/// A running pod, with its usage of the resource that is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The pod.
    pub key: PodKey,
    /// Its UID.
    pub uid: String,
    /// Source of the pod.
    pub source: Source,
    /// Its priority.
    pub priority: i32,
    /// Usage of the whole pod; `None` when it is unknown.
    pub used: Option<u64>,
    /// The pod has more than could be counted.
    pub is_cut: bool,
    /// Part of `used`: images that only the pod's source has here.
    pub images: u64,
    /// Its source has `evict-first`: it is evicted before pods of other sources, whatever their known usage.
    pub goes_first: bool,
    /// The part of its request that counts.
    pub request: u64,
    /// The sum of its requests, which is larger than `request` if its source may not request so much.
    pub asked: u64,
    /// The request of the pod itself, in addition to its containers'.
    pub own_request: Option<u64>,
    /// Its containers, in the order of its manifest.
    pub containers: Vec<ContainerUse>,
}

impl Candidate {
    /// Whether the pod is critical for the node. Unlike the kubelet, podkeeper does not treat pods of files or URLs as
    /// critical: on this node all pods come from them.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.priority >= SYSTEM_CRITICAL
    }

    fn order(&self, other: &Candidate, resource: Resource) -> Ordering {
        // True sorts first.
        let first = |a: bool, b: bool| b.cmp(&a);
        first(self.goes_first, other.goes_first).then_with(|| self.order_of_alike(other, resource))
    }

    /// The order of two pods whose sources have the same rank.
    fn order_of_alike(&self, other: &Candidate, resource: Resource) -> Ordering {
        let first = |a: bool, b: bool| b.cmp(&a);
        let (Some(a), Some(b)) = (self.used, other.used) else {
            let unknown = first(self.used.is_none(), other.used.is_none());
            return match resource {
                Resource::Pids => self.priority.cmp(&other.priority).then(unknown),
                _ => unknown.then(self.priority.cmp(&other.priority)),
            };
        };
        let above = |used: u64, candidate: &Candidate| i128::from(used) - i128::from(candidate.request);
        let by_priority = self.priority.cmp(&other.priority);
        match resource {
            Resource::Pids => by_priority.then(b.cmp(&a)),
            Resource::Memory | Resource::Storage | Resource::Inodes => {
                first(a > self.request, b > other.request)
                    .then(by_priority)
                    .then(above(b, other).cmp(&above(a, self)))
            }
        }
    }
}

/// Sorts the pods: the first to be evicted comes first. Ties are sorted by name, so that the same figures choose the
/// same pod.
pub fn rank(resource: Resource, pods: &mut [Candidate]) {
    order::sort_by(pods, |a, b| a.order(b, resource).then_with(|| (&a.key, &a.uid).cmp(&(&b.key, &b.uid))));
}

/// The parts of a pod's disk usage that lie on the file system of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Writable layers and logs, in Docker's directory.
    pub of_docker: bool,
    /// Volumes below the root directory.
    pub volumes: bool,
}

impl Counted {
    /// `dedicated`: Docker's root directory is on a different file system than podkeeper's. Unlike with the kubelet,
    /// logs count where Docker writes them.
    #[must_use]
    pub fn of(signal: Signal, dedicated: bool) -> Counted {
        match signal {
            Signal::NodeFs | Signal::NodeFsInodes => Counted { of_docker: !dedicated, volumes: true },
            Signal::ImageFs | Signal::ImageFsInodes => Counted { of_docker: true, volumes: !dedicated },
            Signal::Memory | Signal::AllocatableMemory | Signal::Pid => {
                Counted { of_docker: false, volumes: false }
            }
        }
    }
}

/// Message for the evicted pod. `threshold` and `available` as amounts of the signal.
#[must_use]
pub fn message(resource: Resource, pod: &Candidate, threshold: u64, available: u64) -> String {
    let text = |amount| resource.text(amount);
    let mut message = format!(
        "The node was low on resource: {resource}. Threshold quantity: {}, available: {}. ",
        text(threshold),
        text(available)
    );
    // A usage that could not be counted whole is not shown as a number.
    if pod.is_cut {
        message.push_str(&format!("What pod {} has of it could not be counted whole. ", pod.key.name));
    } else if let (Some(request), Some(used)) = (pod.own_request, pod.used) {
        message.push_str(&format!(
            "Pod {} was using {}, request is {}, has larger consumption of {resource}. ",
            pod.key.name,
            text(used),
            text(request)
        ));
    }
    if pod.images > 0 {
        message.push_str(&format!(
            "Images that only its source uses count for pod {}: {}. ",
            pod.key.name,
            text(pod.images)
        ));
    }
    if pod.request < pod.asked {
        message.push_str(&format!(
            "The request of pod {} counts as {}: its source asks for more than pods of it may have. ",
            pod.key.name,
            text(pod.request)
        ));
    }
    let named = matches!(resource, Resource::Memory | Resource::Storage);
    for container in pod.containers.iter().filter(|c| named && c.used > c.request) {
        message.push_str(&format!(
            "Container {} was using {}, request is {}, has larger consumption of {resource}. ",
            container.name,
            text(container.used),
            text(container.request)
        ));
    }
    message
}

#[cfg(test)]
mod tests;
