//! The size of a claim is a limit where its source is held to a level of Pod Security: a claim is a directory on the node's
//! disk, which a pod could fill and no eviction would empty. No pod begins with a claim that holds more. All claims of a
//! source together have a limit as well, those that are left of manifests that are gone among them: a size is its source's
//! own word. That limit holds for the same part of the disk's inodes: empty files fill a disk, too.
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
use crate::stats::disk_use::{DiskUse, Round};

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

/// The message of a pod whose source has claims that hold more together than they may.
#[must_use]
pub fn over_together(source: Source, used: DiskUse, most: DiskUse) -> Option<String> {
    let (limit, held) = match (used.bytes > most.bytes, used.inodes > most.inodes) {
        (true, _) => (bytes(most.bytes), bytes(used.bytes)),
        (false, true) => (format!("{} inodes", most.inodes), format!("{} inodes", used.inodes)),
        (false, false) => return None,
    };
    Some(format!(
        "Usage of all PersistentVolumeClaims of source {source} exceeds {limit} (--source-policy \
         {source}=max-claim-storage): they hold {held}. No pod of the source starts with one until something is removed \
         there."
    ))
}

/// The most that all claims of a source may hold together, if there is a bound: bytes, and the same part of the disk's
/// inodes.
/// `None` also where the disk does not tell its size: then nothing is known that would be a reason for a pod to go.
#[must_use]
pub fn together(root: &Path, most: Most) -> Option<DiskUse> {
    if most == Most::All {
        return None;
    }
    let Some(disk) = FileSystem::of(root) else {
        return match most {
            Most::Bytes(bytes) => Some(DiskUse { bytes, inodes: u64::MAX }),
            Most::Percent(_) | Most::All => None,
        };
    };
    // Some file systems have no bound of inodes, and tell 0.
    let inodes = if disk.inodes == 0 { u64::MAX } else { most.part_of(disk.inodes, disk.capacity) };
    Some(DiskUse { bytes: most.of(disk.capacity), inodes })
}

/// The content of all claims of a source, including those whose manifests are gone. A mount in there is a disk of its own.
pub fn of_source(root: &Path, source: Source, round: &mut Round) -> DiskUse {
    let local = root.join(layout::LOCAL_STORAGE);
    let Some(own) = layout::claims_of(source) else {
        let namespaces = namespaces(&local).into_iter();
        return namespaces.fold(DiskUse::default(), |sum, path| sum.and(round.tree(&path)));
    };
    round.tree(&local.join(own))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_have_the_same_part_of_bytes_and_inodes() {
        let root = crate::base::testing::scratch("claim-size");
        let disk = FileSystem::of(&root).unwrap();
        let part = together(&root, Most::Percent(10)).unwrap();
        assert_eq!(part.bytes, u64::try_from(u128::from(disk.capacity) / 10).unwrap());
        let inodes = if disk.inodes == 0 { u64::MAX } else { disk.inodes / 10 };
        assert_eq!(part.inodes, inodes);
        let half = together(&root, Most::Bytes(disk.capacity / 2)).unwrap();
        assert_eq!(half.bytes, disk.capacity / 2);
        assert!(disk.inodes == 0 || half.inodes.abs_diff(disk.inodes / 2) <= 1, "{half:?} of {disk:?}");
        assert_eq!(together(&root, Most::All), None);
        let nowhere = root.join("nowhere");
        assert_eq!(together(&nowhere, Most::Percent(10)), None);
        assert_eq!(together(&nowhere, Most::Bytes(5)), Some(DiskUse { bytes: 5, inodes: u64::MAX }));
        fs::remove_dir_all(root).unwrap();
    }
}
