//! What pods see of the host's disk, of objects and of fields. [`layout`] and [`payload`] are pure;
//! the rest is the rim: a [`manager::PodVolumes`] of each worker sets volumes up before the first container of a pod
//! and takes them down after the last, on a thread of its own that ends when it is done.
//!
//! What is true is asked of the kernel's mount table and of the directories themselves, never of a state file.
//! Never here: deciding when; a recursive delete that crosses a mount or follows a link; a Secret's value on
//! a disk.
//!
//! A worker orders *set up* before a sandbox is made, after objects changed, and once in each daemon; and *tear down* when
//! nothing of a UID runs and it is not the wanted one, or its pod has ended. Both find out what is there, so they may be
//! ordered at any time, again, and after any death. The layout is the kubelet's, below `ROOT/pods/<uid>`:
//!
//! - What is mounted stands in the kernel's table. Everything below the pod's directory is unmounted, the last first; only
//!   then [`walk`] removes the tree. It enters directories with `openat2(RESOLVE_NO_XDEV)` and leaves them by `..`, so
//!   neither a mount nor a link leads it out, and depth costs no descriptors.
//! - An emptyDir or a claim is complete when `plugins/<plugin>/<name>/ready` is there. Its fsGroup is not applied again in
//!   a pod's life.
//! - A claim in use is a link `volumes/kubernetes.io~local-volume/<claim>` that says `<source>:<namespace>/<claim>` and is
//!   never followed. The data lie in `ROOT/local-storage`, apart for each source. Docker is given that directory itself, so
//!   there is no mount to lose, and `ReadWriteOncePod` is a look into the other pods' directories.
//! - The files of an object that are in force are those of the link `..data`.
//!
//! A create whose mounts have a `subPath` is held back in the worker's thread until [`sub_path`] has bound the place. The
//! place is compared with what is mounted there by device and inode, so that a container that is restarted sees new files.

mod atomic;
pub mod claim_move;
mod claim_use;
pub(crate) mod helper;
mod host_path;
pub mod manager;
pub mod mounts;
pub mod payload;
mod set_up;
mod sub_path;
mod tear_down;
mod walk;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::layout;
use crate::pod::DesiredPod;
use crate::pod::object::Objects;

/// What a machine wants done about volumes.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Set up, or bring up to date, all volumes of a pod.
    SetUp(SetUp),
    /// Take down whatever a pod has, and remove it.
    TearDown {
        /// Pod UID.
        uid: String,
    },
}

/// See [`Order::SetUp`].
#[derive(Debug, Clone, PartialEq)]
pub struct SetUp {
    /// Whose.
    pub pod: Arc<DesiredPod>,
    /// What files are written from.
    pub objects: Arc<Objects>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A set-up has ended.
    SetUp {
        /// Pod UID.
        uid: String,
        /// Volumes that could not be set up.
        failed: Vec<Failure>,
    },
    /// A change of ownership takes long.
    Slow {
        /// Pod UID.
        uid: String,
        /// The volume.
        volume: String,
        /// Files so far.
        files: u64,
    },
    /// A tear-down has ended.
    TornDown {
        /// Pod UID.
        uid: String,
        /// Why something is left.
        result: Result<(), String>,
    },
}

/// A volume that could not be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its name in the pod.
    pub volume: String,
    /// In the kubelet's words.
    pub why: String,
    /// It holds what it held before, and containers may go on with that.
    pub usable: bool,
}

/// A part of a volume that a container is to see: bound to a place of its own before the container is made,
/// for Docker follows links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubPath {
    /// Pod UID.
    pub uid: String,
    /// Name of the volume.
    pub volume: String,
    /// Where the volume lies on the host.
    pub base: PathBuf,
    /// Relative, without `..`; what is missing is made.
    pub path: String,
    /// Name of the container.
    pub container: String,
    /// Of the mount, among the container's.
    pub index: usize,
}

/// Whether a pod's volumes are made of local objects.
#[must_use]
pub fn use_objects(pod: &DesiredPod) -> bool {
    layout::volumes(pod).iter().any(|volume| {
        matches!(
            layout::Kind::of(volume),
            layout::Kind::ConfigMap(_)
                | layout::Kind::Secret(_)
                | layout::Kind::Projected(_)
                | layout::Kind::Claim(_)
        )
    })
}

/// Where other volumes are mounted below this one, relative to it: whoever writes the volume's files makes
/// these places, for nobody else can (upstream `pkg/volume/util/nested_volumes.go`).
#[must_use]
pub fn nested(pod: &DesiredPod, volume: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, container) in pod.containers() {
        let mounts = container.volume_mounts.as_deref().unwrap_or_default();
        let whole = mounts.iter().filter(|mount| {
            mount.name == volume && mount.sub_path.is_none() && mount.sub_path_expr.is_none()
        });
        for outer in whole {
            let outer = parts(&outer.mount_path);
            for inner in mounts {
                let inner = parts(&inner.mount_path);
                if let Some(rest) = inner.strip_prefix(outer.as_slice())
                    && layout::inside(&rest.join("/")).is_ok()
                {
                    found.insert(rest.join("/"));
                }
            }
        }
    }
    found
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !matches!(*part, "" | ".")).collect()
}

#[cfg(test)]
mod tests;
