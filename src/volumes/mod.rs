//! Volumes of pods: the host's disk, objects and fields. [`payload`] is pure, as is `crate::layout`; the rest does
//! I/O: a [`manager::PodVolumes`] of each worker sets volumes up before the first container of a pod and
//! takes them down after the last, in a thread when it is its turn ([`turns`]).
//!
//! The state is the kernel's mount table and the directories themselves, never a state file. Never here:
//! the time of an action; a recursive delete that crosses a mount or follows a link; a Secret's value on
//! a disk.
//!
//! A worker orders *set up* before a sandbox is made, after objects changed, and once in each daemon; and
//! *tear down* when no container of a UID runs and that UID is not the wanted one, or its pod has ended. Both
//! determine the present state, so they may be ordered at any time, again, and after any death. The layout is
//! the kubelet's, below `ROOT/pods/<uid>`:
//!
//! - Mounts are in the kernel's table. Everything below the pod's directory is unmounted, the last first;
//!   only then [`walk`] removes the tree. It enters directories with `openat2(RESOLVE_NO_XDEV)` and leaves
//!   them by `..`, so neither a mount nor a link leads it out, and depth costs no descriptors.
//! - An emptyDir or a claim is complete when `plugins/<plugin>/<name>/ready` exists. Its fsGroup is not
//!   applied again in a pod's life.
//! - A claim in use is a link `volumes/kubernetes.io~local-volume/<claim>` with the text
//!   `<source>:<namespace>/<claim>`, which is never followed. The data are in `ROOT/local-storage`, separate
//!   for each source. Docker mounts that directory itself, so there is no mount to lose, and
//!   `ReadWriteOncePod` is a look into the other pods' directories.
//!
//! The current files of an object are those behind the link `..data`.
//!
//! A create whose mounts have a `subPath` waits in the worker's thread until [`sub_path`] has bound it.
//! The bound place is compared with the current mount by device and inode, so that a restarted container
//! sees new files.

mod atomic;
pub mod claim_move;
pub mod claim_size;
mod claim_use;
pub(crate) mod helper;
mod host_path;
mod image;
mod in_memory;
mod interest;
mod jobs;
pub mod manager;
pub mod mounts;
mod owner;
pub mod payload;
mod set_up;
mod sub_path;
mod sweep;
mod tear_down;
mod turns;
mod walk;

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Mode;

use crate::base::table::Set;
use crate::layout;
use crate::pod::DesiredPod;
use crate::pod::object::Objects;
pub use interest::{Interest, Wanted};
pub use sweep::Gone;

/// An order of a machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Set up all volumes of a pod, or update them.
    SetUp(SetUp),
    /// Take down and remove all volumes of a pod.
    TearDown {
        /// Pod UID.
        uid: String,
    },
}

/// See [`Order::SetUp`].
#[derive(Debug, Clone, PartialEq)]
pub struct SetUp {
    pub pod: Arc<DesiredPod>,
    /// Objects for the files.
    pub objects: Arc<Objects>,
    /// When this is over, the set-up ends before the next volume.
    pub wanted: Wanted,
}

/// Result or progress of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A set-up has ended.
    SetUp {
        /// Pod UID.
        uid: String,
        /// Volumes that could not be set up.
        failed: Vec<Failure>,
    },
    /// A note on a volume that did not fail.
    Note {
        /// Pod UID.
        uid: String,
        volume: String,
        /// The note.
        note: Note,
    },
    /// A tear-down has ended.
    TornDown {
        /// Pod UID.
        uid: String,
        /// Why some volumes could not be removed.
        result: Result<(), String>,
    },
}

/// A note on a volume that was set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The change of its ownership takes long; files so far.
    Slow(u64),
    /// It is empty, but there are data that may belong to it; with a message for the operator.
    BeginsEmpty(String),
}

/// A volume that could not be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its name in the pod.
    pub volume: String,
    /// The reason, in the kubelet's words.
    pub why: String,
    /// Whether it has its old content, with which containers may run on.
    pub usable: bool,
}

/// A part of a volume for a container: bound to its own path before the container is created, because
/// Docker follows links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubPath {
    /// Pod UID.
    pub uid: String,
    /// Name of the volume.
    pub volume: String,
    /// Path of the volume on the host.
    pub base: PathBuf,
    /// Relative, without `..`; missing directories are created.
    pub path: String,
    /// Name of the container.
    pub container: String,
    /// Index of the mount among the container's.
    pub index: usize,
}

impl SubPath {
    /// Where it is mounted, below the pod's directory.
    fn place(&self) -> String {
        [layout::SUB_PATHS, &self.volume, &self.container, &self.index.to_string()].join("/")
    }
}

/// What a container needs of its pod's volumes before it is created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// Its subPaths, to be bound.
    pub sub_paths: Vec<SubPath>,
    /// Names of the directories of volumes that its image declares.
    pub image_volumes: Vec<String>,
}

impl Parts {
    /// Whether nothing is needed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sub_paths.is_empty() && self.image_volumes.is_empty()
    }
}

/// Whether some volume of the pod has files from local objects.
#[must_use]
pub fn use_objects(pod: &DesiredPod) -> bool {
    layout::volumes(pod).any(|volume| {
        matches!(
            layout::Kind::of(volume),
            layout::Kind::ConfigMap(_)
                | layout::Kind::Secret(_)
                | layout::Kind::Projected(_)
                | layout::Kind::Claim(_)
        )
    })
}

/// Removes everything in a directory, but not the directory. No link is followed, and no mount crossed. `goes_on` is
/// called before each entry; once it returns false, the rest stays, and so does the result: whether all is removed.
///
/// # Errors
/// It is not a directory, something is mounted in it, or another error of the system. Entries that were removed before
/// the error are gone.
pub fn empty(directory: &Path, goes_on: &mut dyn FnMut() -> bool) -> io::Result<bool> {
    walk::empty(rustix::fs::open(directory, walk::DIRECTORY, Mode::empty())?, goes_on)
}

/// What stays of a file that is made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// At most so many bytes of its end.
    End(usize),
    /// The whole lines in so many bytes of its end.
    Lines(usize),
}

impl Kept {
    /// The bytes.
    #[must_use]
    pub fn most(self) -> u64 {
        let (Kept::End(most) | Kept::Lines(most)) = self;
        u64::try_from(most).unwrap_or(u64::MAX)
    }
}

/// Makes a regular file shorter that has this name alone, and frees what is allocated behind its end. The last name is no
/// link.
///
/// # Errors
/// An error of the system.
pub fn shorten(path: &Path, kept: Kept) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let parent = rustix::fs::open(parent, walk::DIRECTORY, Mode::empty())?;
    walk::shorten(&parent, &CString::new(name.as_bytes())?, kept)
}

/// Where other volumes are mounted inside this one, relative to it. The writer of the volume's files
/// creates these mount points, because they cannot be created later (upstream
/// `pkg/volume/util/nested_volumes.go`).
#[must_use]
pub fn nested(pod: &DesiredPod, volume: &str) -> Set<String> {
    let mut found = Set::new();
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
