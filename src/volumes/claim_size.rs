//! The size of a claim is a limit if its source is restricted to a level of Pod Security: a claim is a directory on the
//! node's disk, which a pod could fill and which evictions do not empty. A pod does not start with a claim that is over
//! its size. All claims of a source together have a limit, too, including those of removed manifests, because the
//! source itself sets the sizes.
//!
//! Never here: whether a running pod may go on.

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

/// The message for a pod whose claim is over its size: `used` and `size` in bytes, and `path` if known.
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

/// The message for a pod of a source whose claims together are over their bound: `used` and `most` in bytes.
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

/// The bound for all claims of a source together, bytes; `None` without a bound.
#[must_use]
pub fn together(root: &Path, most: Most) -> Option<u64> {
    match most {
        Most::All => None,
        Most::Bytes(bytes) => Some(bytes),
        // Without the disk's size there is no reason to evict a pod.
        Most::Percent(_) => Some(most.of(FileSystem::of(root)?.capacity)),
    }
}

/// Bytes of all claims of a source, including those of removed manifests. A mount inside is a disk of its own, and does
/// not count.
pub fn of_source(root: &Path, source: Source, round: &mut Round) -> u64 {
    let local = root.join(layout::LOCAL_STORAGE);
    let Some(own) = layout::claims_of(source) else {
        let namespaces = namespaces(&local).into_iter();
        return namespaces.fold(0, |sum: u64, path| sum.saturating_add(round.tree(&path).bytes));
    };
    round.tree(&local.join(own)).bytes
}

/// Directories of namespaces at the top level; directories of other sources begin with a dot.
fn namespaces(local: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(local).into_iter().flatten().flatten();
    let own = all.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    own.map(|entry| entry.path()).take(limits::NAMESPACES_COUNTED).collect()
}

/// Bounds of a claim that a pod wants to start with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Its size, bytes, if it is a limit.
    pub size: Option<u64>,
    /// Bound for all claims of its source together.
    pub together: Most,
}

/// Counts the claim, and all claims of its source, for a bounded time; an incomplete count is used as it is. Returns
/// the message if a bound is exceeded.
pub(super) fn look(name: &str, bounds: Bounds, source: Source, root: &Path, path: &Path) -> Option<String> {
    let round = || Round::until(Instant::now() + limits::CLAIM_LOOK, Arc::default());
    let own = bounds.size.and_then(|size| over(name, round().tree(path).bytes, size, Some(path)));
    own.or_else(|| {
        let most = together(root, bounds.together)?;
        over_together(source, of_source(root, source, &mut round()), most)
    })
}
