//! Pods at an API server: the statuses that the server should have, the mirror pods, and the pods that may be deleted
//! for good. Pure.
//!
//! Upstream: `pkg/kubelet/status/status_manager.go`, `pkg/kubelet/pod/mirror_client.go`, and the mirror pods in
//! `pkg/kubelet/kubelet.go`. Never here: a socket, or a status: `status/` computes it.
//!
//! Each request follows from a new comparison of both sides: nothing is queued, so nothing grows while the server is
//! gone, and two changes may be sent as one.

pub mod added;
pub mod desk;
mod finish;
mod known;
pub mod mirror;
#[cfg(test)]
mod tests;
pub mod wanted;
