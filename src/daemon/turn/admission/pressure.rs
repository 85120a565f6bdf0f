//! Admission while the node is short of something (upstream `pkg/kubelet/eviction/eviction_manager.go`, `Admit`). Pure.

use k8s_openapi::api::core::v1::Taint;

use super::{Reason, Rejection, refuse};
use crate::node::pressure::{Pressure, Pressures};
use crate::pod::qos::{self, Qos};
use crate::pod::{DesiredPod, placement, priority};

/// Reason of pods that are refused here, and of pods that were evicted.
pub const EVICTED: &str = "Evicted";
/// The taint of a node that is short of memory (`pkg/apis/core/well_known_taints.go`).
const MEMORY_TAINT: &str = "node.kubernetes.io/memory-pressure";

/// Critical pods are always admitted, unless the node is out of disk; if only memory is short, pods that request a
/// resource and pods that tolerate the taint are admitted, too.
pub(super) fn check(pod: &DesiredPod, pressures: &Pressures) -> Result<(), Rejection> {
    evicting(pod, pressures)?;
    if pressures.contains(&Pressure::OutOfDisk) {
        // The kubelet until 1.7 (`pkg/kubelet/kubelet.go`, `canAdmitPod`) refused critical pods, too.
        return refuse(Reason::OutOfDisk, "spec", "cannot be started due to lack of disk space.".to_owned());
    }
    Ok(())
}

fn evicting(pod: &DesiredPod, pressures: &Pressures) -> Result<(), Rejection> {
    let pressures: Vec<Pressure> =
        pressures.iter().copied().filter(|pressure| *pressure != Pressure::OutOfDisk).collect();
    if pressures.is_empty() || priority::is_critical(pod) {
        return Ok(());
    }
    let only_memory = pressures.iter().all(|pressure| *pressure == Pressure::Memory);
    if only_memory && (qos::class(&pod.spec) != Qos::BestEffort || tolerates_memory(pod)) {
        return Ok(());
    }
    let names: Vec<&str> = pressures.iter().map(|pressure| pressure.condition()).collect();
    refuse(Reason::Evicted, "spec", format!("The node had condition: [{}].", names.join(" ")))
}

fn tolerates_memory(pod: &DesiredPod) -> bool {
    let taint = Taint { key: MEMORY_TAINT.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    pod.spec.tolerations.iter().flatten().any(|toleration| placement::tolerates(toleration, &taint))
}
