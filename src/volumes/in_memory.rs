//! The memory that files of Secrets, tokens and fields take. They lie on a tmpfs that podkeeper writes, so no limit of a
//! pod bounds them and no eviction finds them: one Secret in hundreds of volumes would take all of a small node.
//!
//! A pod may always have a little. Only while all such volumes of the node take little, it may have more.

use std::path::Path;

use super::mounts::{self, Mounted};
use super::payload::Payload;
use crate::base::limits;
use crate::layout;
use crate::runtime::progress::bytes;

/// A page of the kernel: each file takes whole ones, and one for itself.
const PAGE: u64 = 4096;

/// Checks that the files may be written to the volume at `path`. `memory`: that of the node, bytes.
///
/// # Errors
/// They may not, or the mounts cannot be read: the reason.
pub(super) fn check(root: &Path, uid: &str, path: &Path, files: &Payload, memory: u64) -> Result<(), String> {
    let wanted = size(files);
    let table = mounts::table().map_err(|error| format!("cannot read the mounts: {error}"))?;
    let pods = root.join("pods");
    let others: Vec<&Path> = written(&table, &pods).filter(|at| *at != path).collect();
    let own = sum(others.iter().copied().filter(|at| at.starts_with(pods.join(uid)))).saturating_add(wanted);
    if own <= limits::IN_MEMORY_OF_POD {
        return Ok(());
    }
    let all = sum(others.into_iter()).saturating_add(wanted);
    verdict(own, all, memory)
}

/// `own` and `all`: bytes that the pod and all pods would take.
fn verdict(own: u64, all: u64, memory: u64) -> Result<(), String> {
    let most = memory / limits::IN_MEMORY_PART;
    // Of a node whose memory is unknown nothing can be said.
    if own <= limits::IN_MEMORY_OF_POD || all <= most || memory == 0 {
        return Ok(());
    }
    Err(format!(
        "its files lie in memory, and with them volumes of Secrets, tokens and fields would take {} there, {} of it this pod: \
         a pod gets more than {} only while all together take at most {}",
        bytes(all),
        bytes(own),
        bytes(limits::IN_MEMORY_OF_POD),
        bytes(most)
    ))
}

/// Volumes that podkeeper has written to memory.
fn written<'t>(table: &'t [Mounted], pods: &'t Path) -> impl Iterator<Item = &'t Path> {
    let is_written = move |mounted: &&Mounted| {
        let parts: Vec<_> = mounted.at.strip_prefix(pods).into_iter().flatten().collect();
        let plugin = parts.get(2).and_then(|plugin| plugin.to_str());
        let is_volume = parts.len() == 4 && parts.get(1).is_some_and(|part| *part == layout::VOLUMES);
        mounted.kind == "tmpfs"
            && is_volume
            && plugin.is_some_and(|plugin| layout::IN_MEMORY.contains(&plugin))
    };
    table.iter().filter(is_written).map(|mounted| mounted.at.as_path())
}

fn sum<'p>(places: impl Iterator<Item = &'p Path>) -> u64 {
    let used = |place: &Path| {
        let found = rustix::fs::statvfs(place).ok()?;
        let blocks = found.f_blocks.saturating_sub(found.f_bfree);
        Some(blocks.saturating_mul(found.f_frsize))
    };
    places.filter_map(used).fold(0, u64::saturating_add)
}

fn size(files: &Payload) -> u64 {
    let of = |length: usize| u64::try_from(length).unwrap_or(u64::MAX).div_ceil(PAGE).saturating_mul(PAGE);
    files.values().fold(0, |sum, file| sum.saturating_add(of(file.data.len())).saturating_add(PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::payload::PayloadFile;

    const MI: u64 = 1 << 20;

    /// One Secret of 450 KB in 650 volumes took 290 MB, and the daemon of a node of 256 MiB was killed at each start.
    #[test]
    fn a_pod_gets_much_memory_for_secrets_only_while_little_is_taken() {
        let is_good = |own, all| verdict(own, all, 256 * MI).is_ok();
        assert!(is_good(MI / 2, 300 * MI), "a pod may always have a little");
        assert!(is_good(8 * MI, 32 * MI) && is_good(32 * MI, 32 * MI));
        assert!(!is_good(MI, 32 * MI + 1) && !is_good(33 * MI, 33 * MI));
        let why = verdict(33 * MI, 34 * MI, 256 * MI).unwrap_err();
        assert!(why.contains("would take 34.0 MiB there, 33.0 MiB of it this pod"), "{why}");
        assert!(why.ends_with("more than 512.0 KiB only while all together take at most 32.0 MiB"), "{why}");
    }

    #[test]
    fn each_file_takes_whole_pages() {
        let file = |length| PayloadFile { data: vec![0; length], mode: 0o644, user: None };
        let files: Payload =
            [("a", 1), ("b", 0), ("c", 4097)].map(|(name, n)| (name.to_owned(), file(n))).into();
        assert_eq!(size(&files), 3 * PAGE + 3 * PAGE);
    }

    #[test]
    fn volumes_that_podkeeper_writes_are_told_from_others() {
        let of = |kind: &str, at: &str| Mounted { at: at.into(), kind: kind.into() };
        let table = [
            of("tmpfs", "/r/pods/u/volumes/kubernetes.io~secret/s"),
            of("tmpfs", "/r/pods/u/volumes/kubernetes.io~projected/p"),
            of("tmpfs", "/r/pods/u/volumes/kubernetes.io~downward-api/d"),
            of("tmpfs", "/r/pods/u/volumes/kubernetes.io~empty-dir/e"),
            of("ext4", "/r/pods/u/volumes/kubernetes.io~secret/x"),
            of("tmpfs", "/r/pods/u/volumes/kubernetes.io~secret/s/below"),
            of("tmpfs", "/other/pods/u/volumes/kubernetes.io~secret/s"),
            of("tmpfs", "/r/pods"),
        ];
        let found: Vec<&Path> = written(&table, Path::new("/r/pods")).collect();
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
