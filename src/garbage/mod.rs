//! Dead containers and unused images: which of them go, and when (upstream `pkg/kubelet/images/image_gc_manager.go`,
//! `pkg/kubelet/container/container_gc.go`). The policies are pure; `collector` is the one rim.
//!
//! Never here: the removal of what a container uses, or of what `logs --previous`, a restart count or a terminal phase
//! is read from.

pub mod collector;
pub mod dead;
pub mod images;
pub mod pins;
pub mod records;
pub mod removal;
pub mod run;
pub mod schedule;
pub mod shares;
pub mod wants;

/// What a run of the collector is to do. Each also looks which images are there, which is where their ages come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Remove images that are older than the maximum age, if there is one.
    Old,
    /// The same, and then free so many bytes by removing unused images, longest unused first.
    Free(u64),
    /// Remove dead containers that nothing needs, and then every unused image: the node is short of disk.
    All,
}

/// What a run of the collector did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Sizes of the removed images, as Docker tells them, bytes.
    pub freed: u64,
    /// Names of removed images, or ids.
    pub images: Vec<String>,
    /// Names of removed containers.
    pub containers: Vec<String>,
    /// What went wrong, for the operator; the run went on where it could.
    pub errors: Vec<String>,
    /// Not every source had said what it wants, so that every unused image stayed; it may do so soon.
    pub unheard: bool,
    /// Docker did not even tell what is there: nothing is known.
    pub blind: bool,
}
