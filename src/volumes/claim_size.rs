//! The size of a claim is a limit where its source is held to a level of Pod Security: a claim is a directory on the node's
//! disk, which a pod could fill and no eviction would empty. No pod begins with a claim that holds more. All claims of a
//! source together have a limit as well, those that are left of manifests that are gone among them: a size is its source's
//! own word.
//!
//! Never here: whether a pod that runs goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::base::{limits, quantity};
use crate::layout;
use crate::pod::Source;
use crate::policy::Most;
use crate::runtime::progress::bytes;
use crate::stats::disk::FileSystem;
use crate::stats::disk_use::Round;

/// What a pod is told whose claim holds more than its size: `used` and `size` in bytes, and `path` where it is known.
#[must_use]
pub fn over(name: &str, used: u64, size: u64, path: Option<&Path>) -> Option<String> {
    let at = path.map(|path| format!(" in {}", path.display())).unwrap_or_default();
    let limit = quantity::bytes(i64::try_from(size).unwrap_or(i64::MAX));
    (used > size).then(|| {
        format!(
            "Usage of PersistentVolumeClaim {name:?} exceeds its size {limit:?}: it holds {}{at}. No pod of its source \
             starts with it until something is removed there, or the claim asks for more.",
            bytes(used)
        )
    })
}

/// What a pod is told whose source has claims that hold more together than they may: `used` and `most` in bytes.
#[must_use]
pub fn over_together(source: Source, used: u64, most: u64) -> Option<String> {
    (used > most).then(|| {
        let limit = bytes(most);
        format!(
            "Usage of all PersistentVolumeClaims of source {source} exceeds {limit} (--source-policy \
             {source}=max-claim-storage): they hold {}. No pod of the source starts with one until something is removed \
             there.",
            bytes(used)
        )
    })
}

/// Bytes that all claims of a source may hold together, where that has a bound.
#[must_use]
pub fn together(root: &Path, most: Most) -> Option<u64> {
    match most {
        Most::All => None,
        Most::Bytes(bytes) => Some(bytes),
        // Without a figure nothing is known that would be a reason for a pod to go.
        Most::Percent(_) => Some(most.of(FileSystem::of(root)?.capacity)),
    }
}

/// What all claims of a source hold, those of manifests that are gone among them. A mount in there is a disk of its own.
pub fn of_source(root: &Path, source: Source, round: &mut Round) -> u64 {
    let local = root.join(layout::LOCAL_STORAGE);
    let Some(own) = layout::claims_of(source) else {
        let namespaces = namespaces(&local).into_iter();
        return namespaces.fold(0, |sum: u64, path| sum.saturating_add(round.tree(&path).bytes));
    };
    round.tree(&local.join(own)).bytes
}

/// Directories of namespaces that are directly there; those of other sources begin with a dot.
fn namespaces(local: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(local).into_iter().flatten().flatten();
    let own = all.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    own.map(|entry| entry.path()).take(limits::NAMESPACES_COUNTED).collect()
}

/// A claim that a pod is to begin with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Its size, bytes, where that is a limit.
    pub size: Option<u64>,
    /// What all of its source may hold together.
    pub together: Most,
}

/// Counts what it holds, and all of its source, for a bounded time: what was counted until then has to do.
pub(super) fn look(name: &str, bounds: Bounds, source: Source, root: &Path, path: &Path) -> Option<String> {
    let round = || Round::until(Instant::now() + limits::CLAIM_LOOK, Arc::default());
    let own = bounds.size.and_then(|size| over(name, round().tree(path).bytes, size, Some(path)));
    own.or_else(|| {
        let most = together(root, bounds.together)?;
        over_together(source, of_source(root, source, &mut round()), most)
    })
}
