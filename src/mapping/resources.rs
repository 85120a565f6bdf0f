//! Requests and limits as Docker's fields, and the `oom_score_adj` of a container (upstream
//! `pkg/kubelet/cm/helpers_linux.go`, `pkg/kubelet/qos/policy.go`). Pure. The pod's own resources belong to
//! its cgroup (`cgroup::values`); here they only influence the score.

use k8s_openapi::api::core::v1::Container;

use crate::cgroup::cpu;
use crate::pod::qos::{self, Qos};
use crate::pod::{ContainerKind, DesiredPod, priority, requests};
use crate::runtime::{HostConfig, Resources};

/// `oom_score_adj` of a sandbox (`core/sandbox_helpers.go`).
const OOM_SANDBOX: i32 = -998;
/// `oom_score_adj` of guaranteed and node-critical pods (`pkg/kubelet/qos/policy.go`).
const OOM_GUARANTEED: i32 = -997;
/// `oom_score_adj` of pods that request nothing.
const OOM_BEST_EFFORT: i32 = 1000;

/// Sets a container's resource fields. `node_memory` is in bytes, `oom_floor` the lowest allowed
/// `oom_score_adj`.
pub fn apply(
    host: &mut HostConfig,
    pod: &DesiredPod,
    kind: ContainerKind,
    container: &Container,
    node_memory: i64,
    oom_floor: i32,
) {
    host.resources = sizes(container);
    host.oom_score_adj = Some(oom_score_adj(pod, kind, container, node_memory).max(oom_floor));
}

/// The resources that may change while the container runs.
#[must_use]
pub fn sizes(container: &Container) -> Resources {
    let cpu_limit = Some(limit(container, "cpu")).filter(|milli| *milli > 0);
    let memory = Some(limit(container, "memory")).filter(|bytes| *bytes > 0);
    Resources {
        cpu_shares: Some(cpu::shares(request(container, "cpu"))),
        cpu_period: cpu_limit.map(|_| cpu::PERIOD),
        cpu_quota: cpu_limit.map(cpu::quota),
        memory,
        // Equal to the memory limit means no swap; absent would allow as much swap again.
        memory_swap: memory,
    }
}

/// Sets a sandbox's resource fields: minimal CPU weight, no limits, killed last.
pub fn apply_sandbox(host: &mut HostConfig, oom_floor: i32) {
    host.resources.cpu_shares = Some(cpu::SHARES_MIN);
    host.oom_score_adj = Some(OOM_SANDBOX.max(oom_floor));
}

/// `oom_score_adj` by QoS class, before the floor is applied.
fn oom_score_adj(pod: &DesiredPod, kind: ContainerKind, container: &Container, node_memory: i64) -> i32 {
    if priority::is_node_critical(pod) {
        return OOM_GUARANTEED;
    }
    match qos::class(&pod.spec) {
        Qos::Guaranteed => return OOM_GUARANTEED,
        Qos::BestEffort => return OOM_BEST_EFFORT,
        Qos::Burstable => {}
    }
    // The part of the pod's request beyond its containers' is divided equally among them.
    let spec = &pod.spec;
    let lasting = pod.containers().filter(|(kind, _)| *kind != ContainerKind::Init).count();
    let beyond =
        requests::request(spec, "memory").saturating_sub(requests::containers_request(spec, "memory"));
    let beyond = beyond.max(0) / i64::try_from(lasting.max(1)).unwrap_or(i64::MAX);
    let of = |container: &Container| {
        burstable_score(request(container, "memory").saturating_add(beyond), node_memory)
    };
    let mut score = of(container);
    if kind == ContainerKind::Sidecar {
        score = score.min(spec.containers.iter().map(of).max().unwrap_or(OOM_BEST_EFFORT));
    }
    score.clamp(OOM_BEST_EFFORT + OOM_GUARANTEED, OOM_BEST_EFFORT - 1)
}

/// `1000 - 1000 x request / node memory`, saturating.
fn burstable_score(request: i64, node_memory: i64) -> i32 {
    let part = i128::from(request).saturating_mul(1000) / i128::from(node_memory.max(1));
    let score = i128::from(OOM_BEST_EFFORT).saturating_sub(part);
    i32::try_from(score).unwrap_or(i32::MIN)
}

fn limit(container: &Container, resource: &str) -> i64 {
    qos::limit(container.resources.as_ref(), resource)
}

fn request(container: &Container, resource: &str) -> i64 {
    qos::request(container.resources.as_ref(), resource)
}

#[cfg(test)]
mod tests;
