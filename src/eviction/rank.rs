//! Which pod goes first, and what is said to it (`pkg/kubelet/eviction/helpers.go`, `rankMemoryPressure` and its like,
//! `evictionMessage`).

use std::cmp::Ordering;

use super::signal::{Resource, Signal};
use crate::base::order;
use crate::pod::priority::SYSTEM_CRITICAL;
use crate::pod::{PodKey, Source};

/// What one container uses of the resource that is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerUse {
    /// Its name.
    pub name: String,
    /// What it uses.
    pub used: u64,
    /// What it asked for.
    pub request: u64,
}

/// A pod of which something runs, with what it uses of the resource that is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The pod.
    pub key: PodKey,
    /// Its UID.
    pub uid: String,
    /// Where it comes from.
    pub source: Source,
    /// Its priority.
    pub priority: i32,
    /// What all of it uses; `None` when nobody can tell.
    pub used: Option<u64>,
    /// It has more than could be counted.
    pub is_cut: bool,
    /// Of it, images that only its source has here.
    pub images: u64,
    /// Its source stands behind others: it goes before their pods, whatever each is known to use.
    pub goes_first: bool,
    /// What its request counts as.
    pub request: u64,
    /// What all of it asked for, which is more where its source may not have so much.
    pub asked: u64,
    /// What the pod asked for itself, beside its containers.
    pub own_request: Option<u64>,
    /// Its containers, in the order of its manifest.
    pub containers: Vec<ContainerUse>,
}

impl Candidate {
    /// The node cannot do without it. Unlike the kubelet, podkeeper takes no pod for that because it is of a file or a
    /// URL: here all are.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.priority >= SYSTEM_CRITICAL
    }

    fn order(&self, other: &Candidate, resource: Resource) -> Ordering {
        // What is true comes first.
        let first = |a: bool, b: bool| b.cmp(&a);
        first(self.goes_first, other.goes_first).then_with(|| self.order_of_alike(other, resource))
    }

    /// Of pods whose sources stand alike.
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

/// Sorts the pods: who goes first stands first. Equals stand by name, so that the same figures choose the same pod.
pub fn rank(resource: Resource, pods: &mut [Candidate]) {
    order::sort_by(pods, |a, b| a.order(b, resource).then_with(|| (&a.key, &a.uid).cmp(&(&b.key, &b.uid))));
}

/// Which parts of what a pod has on disks lie on the file system of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Writable layers and logs, which are Docker's.
    pub of_docker: bool,
    /// Volumes below the root directory.
    pub volumes: bool,
}

impl Counted {
    /// `dedicated`: Docker's root directory is on another file system than podkeeper's. Unlike with the kubelet, logs
    /// count where Docker writes them.
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

/// What the evicted pod is told. `threshold` and `available` as amounts of the signal.
#[must_use]
pub fn message(resource: Resource, pod: &Candidate, threshold: u64, available: u64) -> String {
    let text = |amount| resource.text(amount);
    let mut message = format!(
        "The node was low on resource: {resource}. Threshold quantity: {}, available: {}. ",
        text(threshold),
        text(available)
    );
    // What could not be counted is not told as a number.
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
