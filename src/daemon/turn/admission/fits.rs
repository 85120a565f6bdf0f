//! Whether the node has room for a pod beside the active ones (upstream
//! `pkg/scheduler/framework/plugins/noderesources/fit.go`, `pkg/kubelet/lifecycle/predicate.go`), and whether
//! the pod may have the devices that it names. Pure.

use super::{Reason, Rejection, refuse};
use k8s_openapi::api::core::v1::Container;

use crate::base::{limits, order};
use crate::eviction::preemption::{MANIFEST_MEMORY, PODS};
use crate::node::Node;
use crate::node::devices::DOMAIN;
use crate::pod::DesiredPod;
use crate::pod::requests::{self, HUGE_PAGES};

/// A resource of which the node has too little for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// Its name.
    pub resource: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

impl Shortage {
    /// How much more there would have to be (`GetInsufficientAmount`).
    #[must_use]
    pub fn missing(&self) -> i64 {
        self.requested.saturating_sub(self.capacity.saturating_sub(self.used))
    }
}

/// Checks that the pod fits beside the others, which are ordered by their keys.
pub(super) fn check(pod: &DesiredPod, others: &[&DesiredPod], node: &Node) -> Result<(), Rejection> {
    let Some(Shortage { resource, requested, used, capacity }) = shortages(pod, others, node).next() else {
        return Ok(());
    };
    let message = format!(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    );
    let field = if [PODS, MANIFEST_MEMORY].contains(&resource.as_str()) {
        "spec".to_owned()
    } else {
        field(pod, &resource)
    };
    refuse(Reason::OutOf(resource), &field, message)
}

/// The resources of which the node has too little for the pod beside the others, in the order of the message. The others
/// are ordered by their keys.
pub fn shortages<'a>(
    pod: &'a DesiredPod,
    others: &'a [&DesiredPod],
    node: &'a Node,
) -> impl Iterator<Item = Shortage> + 'a {
    let pods = short(PODS, [1, together(others, |_| 1), node.max_pods]);
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let used = others.iter().map(|pod| pod.weight).fold(0, usize::saturating_add);
    let manifests =
        short(MANIFEST_MEMORY, [number(pod.weight), number(used), manifest_memory(node.max_pods)]);
    let common = ["cpu", "memory", "ephemeral-storage"].into_iter().filter_map(move |resource| {
        let capacity = match resource {
            "cpu" => node.allocatable.milli_cpu,
            "memory" => node.allocatable.memory,
            // The capacity is unknown.
            _ if node.allocatable.ephemeral_storage == 0 => return None,
            _ => node.allocatable.ephemeral_storage,
        };
        beside(resource, pod, others, capacity)
    });
    // Each is named by every container that has some.
    let named = order::set(requests::names(&pod.spec)).into_iter().filter_map(move |resource| {
        if resource.starts_with(HUGE_PAGES) {
            beside(resource, pod, others, node.huge_pages.get(resource).copied().unwrap_or(0))
        } else if resource.starts_with(DOMAIN) {
            let requested = requests::request(&pod.spec, resource);
            let used = node.devices.used(resource, others.iter().copied());
            let all = node.devices.count(resource);
            short(resource, [requested, number(used), number(all)])
        } else {
            None
        }
    });
    pods.into_iter().chain(manifests).chain(common).chain(named)
}

/// Bytes that the manifests of so many pods may take in memory.
fn manifest_memory(max_pods: i64) -> i64 {
    let least = i64::try_from(limits::ACTIVE_MANIFESTS).unwrap_or(i64::MAX);
    let each = i64::try_from(limits::ACTIVE_MANIFEST).unwrap_or(i64::MAX);
    max_pods.saturating_mul(each).max(least)
}

fn beside(resource: &str, pod: &DesiredPod, others: &[&DesiredPod], capacity: i64) -> Option<Shortage> {
    let requested = requests::request(&pod.spec, resource);
    if requested == 0 {
        return None;
    }
    let used = together(others, |pod| requests::request(&pod.spec, resource));
    short(resource, [requested, used, capacity])
}

/// What the pods have together; they are ordered by their keys. Of one that is being replaced, the larger version counts:
/// the next one begins when the one before it is dead.
fn together(pods: &[&DesiredPod], amount: impl Fn(&DesiredPod) -> i64) -> i64 {
    let versions = pods.chunk_by(|a, b| a.key == b.key);
    versions.map(|pods| pods.iter().map(|pod| amount(pod)).fold(0, i64::max)).fold(0, i64::saturating_add)
}

/// Path of the first field that requests the resource.
fn field(pod: &DesiredPod, resource: &str) -> String {
    let asks = |c: &Container| {
        let all = c.resources.iter().flat_map(|r| [&r.requests, &r.limits]).flatten();
        all.into_iter().any(|list| list.contains_key(resource))
    };
    let first = pod.placed().find(|(_, _, container)| asks(container));
    first.map_or_else(|| "spec.resources".to_owned(), |(field, ..)| format!("{field}.resources"))
}

/// `amounts`: what is requested, what is used, and what there is.
fn short(resource: &str, amounts: [i64; 3]) -> Option<Shortage> {
    let [requested, used, capacity] = amounts;
    let fits = requested == 0 || requested <= capacity.saturating_sub(used);
    (!fits).then(|| Shortage { resource: resource.to_owned(), requested, used, capacity })
}

/// Message for a resize that is larger than the whole node and so can never succeed.
#[must_use]
pub fn infeasible(pod: &DesiredPod, node: &Node) -> Option<String> {
    let all = [("cpu", node.allocatable.milli_cpu), ("memory", node.allocatable.memory)];
    all.into_iter().find_map(|(resource, capacity)| {
        let requested = requests::request(&pod.spec, resource);
        (requested > capacity).then(|| {
            format!(
                "Node didn't have enough capacity: {resource}, requested: {requested}, capacity: {capacity}"
            )
        })
    })
}
