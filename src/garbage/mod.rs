//! Dead containers and unused images: which of them are removed, and when (upstream
//! `pkg/kubelet/images/image_gc_manager.go`, `pkg/kubelet/container/container_gc.go`). The policies are pure; only
//! `collector` does input and output.
//!
//! Never here: the removal of an image that a container uses, or of a container that `logs --previous`, a restart
//! count or a terminal phase is read from.

pub mod collector;
pub mod dead;
pub mod images;
pub mod pins;
pub mod records;
pub mod removal;
pub mod run;
pub mod schedule;
pub mod shares;
pub mod tie;
pub mod wants;

/// The task of a run of the collector. Each run also records which images exist, on which their ages are based.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Remove images that are older than the maximum age, if a maximum is set.
    Old,
    /// The same, and then free this many bytes by removing unused images, longest unused first.
    Free(u64),
    /// Remove dead containers that nothing needs, and then every unused image: the node is short of disk.
    All,
}

/// The result of a run of the collector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Sizes of the removed images by Docker's figures, bytes.
    pub freed: u64,
    /// Names of removed images, or ids.
    pub images: Vec<String>,
    /// Names of removed containers.
    pub containers: Vec<String>,
    /// Errors, for the operator; the run continued where it could.
    pub errors: Vec<String>,
    /// Some source had not reported, so every unused image stayed; it may report soon.
    pub unheard: bool,
    /// Docker did not list containers or images: nothing is known.
    pub blind: bool,
}
