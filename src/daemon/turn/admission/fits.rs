//! Whether the node has room for a pod beside the active ones (upstream
//! `pkg/scheduler/framework/plugins/noderesources/fit.go`, `pkg/kubelet/lifecycle/predicate.go`), and whether
//! the pod may have the devices that it names. Pure.

use super::{Reason, Rejection, refuse};
use k8s_openapi::api::core::v1::Container;

use crate::daemon::config::Config;
use crate::node::Node;
use crate::node::devices::{self, DOMAIN};
use crate::pod::DesiredPod;
use crate::pod::requests::{self, HUGE_PAGES};

/// Checks that the pod fits beside the others.
pub(super) fn check(pod: &DesiredPod, others: &[&DesiredPod], node: &Node) -> Result<(), Rejection> {
    let count = i64::try_from(others.len()).unwrap_or(i64::MAX);
    enough("pods", "spec", [1, count, node.max_pods])?;
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        let capacity = match resource {
            "cpu" => node.allocatable.milli_cpu,
            "memory" => node.allocatable.memory,
            // The capacity is unknown.
            _ if node.allocatable.ephemeral_storage == 0 => continue,
            _ => node.allocatable.ephemeral_storage,
        };
        fits(resource, pod, others, capacity)?;
    }
    for resource in requests::names(&pod.spec) {
        if resource.starts_with(HUGE_PAGES) {
            fits(resource, pod, others, node.huge_pages.get(resource).copied().unwrap_or(0))?;
        } else if resource.starts_with(DOMAIN) {
            let requested = requests::request(&pod.spec, resource);
            let used = node.devices.used(resource, others.iter().copied());
            let all = node.devices.count(resource);
            let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
            enough(resource, &field(pod, resource), [requested, number(used), number(all)])?;
        }
    }
    Ok(())
}

fn fits(resource: &str, pod: &DesiredPod, others: &[&DesiredPod], capacity: i64) -> Result<(), Rejection> {
    let requested = requests::request(&pod.spec, resource);
    if requested == 0 {
        return Ok(());
    }
    let used = others.iter().map(|pod| requests::request(&pod.spec, resource)).fold(0, i64::saturating_add);
    enough(resource, &field(pod, resource), [requested, used, capacity])
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

/// `amounts`: requested, used and total amount.
fn enough(resource: &str, field: &str, amounts: [i64; 3]) -> Result<(), Rejection> {
    let [requested, used, capacity] = amounts;
    if requested == 0 || requested <= capacity.saturating_sub(used) {
        return Ok(());
    }
    let message = format!(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    );
    refuse(Reason::OutOf(resource.to_owned()), field, message)
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

/// Checks the pod's devices against the policy of its source.
pub(super) fn devices(pod: &DesiredPod, config: &Config) -> Result<(), Rejection> {
    let field = format!("metadata.annotations[{}]", devices::DEVICE);
    let named = match devices::named(pod) {
        Ok(named) => named,
        Err(why) => {
            return refuse(Reason::Forbidden, &field, format!("annotation {}: {why}", devices::DEVICE));
        }
    };
    let policy = config.policy.of(pod.source);
    let wrong = named
        .iter()
        .find_map(|(_, device)| Some((&device.path_on_host, policy.refuses_device(&device.path_on_host)?)));
    match wrong {
        None => Ok(()),
        Some((path, why)) => {
            let message =
                format!("pod with UID {:?} specified device {path}, but is disallowed ({why})", pod.uid);
            refuse(Reason::Forbidden, &field, message)
        }
    }
}
