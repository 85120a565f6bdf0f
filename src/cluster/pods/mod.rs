//! Pods at an API server: which status the server should have, which mirror pods there should be, and which pod may be
//! deleted for good. Pure.
//!
//! Upstream: `pkg/kubelet/status/status_manager.go`, `pkg/kubelet/pod/mirror_client.go`, and the mirror pods in
//! `pkg/kubelet/kubelet.go`. Never here: a socket, or a status: `status/` computes it.
//!
//! What is sent follows from what the server has and what is so, each time anew: nothing is queued, so nothing grows
//! while the server is gone, and what has changed twice is sent once.

pub mod desk;
mod finish;
pub mod mirror;
#[cfg(test)]
mod tests;
pub mod wanted;
