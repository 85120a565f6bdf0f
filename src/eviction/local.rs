//! Limits of local storage that pods set themselves: `sizeLimit` of emptyDir volumes on disk, `limits.ephemeral-storage`
//! of containers, and the sum of these (upstream `pkg/kubelet/eviction/eviction_manager.go`, `localStorageEviction`).
//! Also sizes of claims, where the source is restricted to a level of Pod Security.
//!
//! Unlike upstream, the sum is a limit only if every container has a limit: a container without one may use the disk
//! without a bound. A writable layer counts, wherever Docker's directory is.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Volume};

use crate::base::table::{Set, Table};
use crate::base::{limits, order, quantity};
use crate::layout::{self, Kind};
use crate::pod::{DesiredPod, qos, requests};
use crate::policy::Most;
use crate::stats::disk_use::DiskUse;
use crate::volumes::claim_size;

const RESOURCE: &str = "ephemeral-storage";

/// The parts of a pod that have to be counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Names of volumes.
    pub volumes: Set<String>,
    /// Names of containers: their writable layers and logs.
    pub containers: Set<String>,
    /// Whether containers that were added to the running pod count, too: there is a limit for the sum.
    pub added: bool,
    /// Claims whose size is a limit, by name, with their sizes in bytes.
    pub claims: Table<String, u64>,
    /// The bound for all claims of the pod's source together, if the pod writes to a claim and there is a bound.
    pub together: Option<Most>,
}

/// Bytes that were counted, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// Volumes.
    pub volumes: Table<String, u64>,
    /// Containers: writable layer and logs.
    pub containers: Table<String, u64>,
    /// Files that containers write outside of any container's own directories.
    pub files: u64,
    /// Claims, with their sizes.
    pub claims: Table<String, Claimed>,
    /// All claims of its source.
    pub together: Option<Together>,
}

/// Usage of all claims of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Together {
    /// All of them.
    pub used: DiskUse,
    /// The most that they may hold.
    pub most: DiskUse,
    /// Of the pods that write to one this pod has the fullest: it goes first.
    pub is_fullest: bool,
}

/// Usage of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// Bytes that were counted.
    pub used: u64,
    /// Upper bound, bytes.
    pub size: u64,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Within all limits. `percent`: usage of the limit that is nearest to being full; `left`: the fewest bytes below a
    /// limit.
    Within { percent: u64, left: u64 },
    /// A limit is exceeded: the kubelet's message.
    Over(String),
}

/// The parts that have to be counted for a pod's limits; `None` for a pod without limits.
#[must_use]
pub fn wanted(pod: &DesiredPod) -> Option<Wanted> {
    let limited = disk_volumes(pod).filter(|volume| size_limit(volume).is_some());
    let mut wanted = Wanted {
        volumes: order::set(limited.map(|volume| volume.name.clone())),
        containers: order::set(pod.spec.containers.iter().filter(|c| limit(c) > 0).map(|c| c.name.clone())),
        added: total(pod).is_some(),
        claims: Table::new(),
        together: None,
    };
    if wanted.added {
        wanted.volumes = order::set(disk_volumes(pod).map(|volume| volume.name.clone()));
        wanted.containers = order::set(pod.containers().map(|(_, c)| c.name.clone()));
    }
    (!wanted.volumes.is_empty() || !wanted.containers.is_empty()).then_some(wanted)
}

/// Compares a pod's usage with its limits. Parts that were not counted count as zero.
#[must_use]
pub fn verdict(pod: &DesiredPod, used: &Used) -> Verdict {
    let (mut percent, mut left) = (0, u64::MAX);
    let mut is_over = |used: u64, limit: i64| {
        let limit = u64::try_from(limit).unwrap_or(0);
        percent = percent.max(used.saturating_mul(100).checked_div(limit).unwrap_or(0));
        left = left.min(limit.saturating_sub(used));
        used > limit
    };
    for (name, claim) in &used.claims {
        let is_over = is_over(claim.used, i64::try_from(claim.size).unwrap_or(i64::MAX));
        if let Some(message) = claim_size::over(name, claim.used, claim.size, None).filter(|_| is_over) {
            return Verdict::Over(format!("{message} "));
        }
    }
    if let Some(Together { used, most, is_fullest }) = used.together {
        is_over(used.bytes, i64::try_from(most.bytes).unwrap_or(i64::MAX));
        is_over(in_bytes(used.inodes, most), i64::try_from(most.bytes).unwrap_or(i64::MAX));
        if let Some(message) = claim_size::over_together(pod.source, used, most).filter(|_| is_fullest) {
            return Verdict::Over(format!("{message} "));
        }
    }
    for volume in disk_volumes(pod) {
        let Some((limit, text)) = size_limit(volume) else { continue };
        if is_over(used.volumes.get(&volume.name).copied().unwrap_or(0), limit) {
            let text = quantity::canonical(limit, text);
            return Verdict::Over(format!(
                "Usage of EmptyDir volume {:?} exceeds the limit {text:?}. ",
                volume.name
            ));
        }
    }
    if let Some((limit, like)) = total(pod) {
        let sum = used.volumes.values().chain(used.containers.values());
        if is_over(sum.fold(used.files, |sum, bytes| sum.saturating_add(*bytes)), limit) {
            let text = quantity::canonical(limit, like);
            return Verdict::Over(format!(
                "Pod ephemeral local storage usage exceeds the total limit of containers {text}. "
            ));
        }
    }
    for container in pod.spec.containers.iter().filter(|c| limit(c) > 0) {
        if is_over(used.containers.get(&container.name).copied().unwrap_or(0), limit(container)) {
            let text = quantity::canonical(limit(container), written(container).unwrap_or_default());
            return Verdict::Over(format!(
                "Container {} exceeded its local ephemeral storage limit {text:?}. ",
                container.name
            ));
        }
    }
    Verdict::Within { percent, left }
}

/// How long until the next look: ten seconds near a limit, as always with the kubelet, two minutes far from it, and
/// less if the growth since the last look would reach the limit earlier.
#[must_use]
pub fn pause(percent: u64, left: u64, grown: u64, since: Duration) -> Duration {
    let by_distance = match percent {
        75.. => limits::LIMITS_NEAR,
        50..75 => limits::LIMITS_BETWEEN,
        _ => limits::LIMITS_FAR,
    };
    // Half of the time until the limit is reached.
    let seconds = since.as_secs().saturating_mul(left).checked_div(grown.saturating_mul(2));
    let by_pace = seconds.map_or(by_distance, Duration::from_secs).max(limits::LIMITS_NEAR);
    by_distance.min(by_pace)
}

/// Volumes on the node's disk that are removed with the pod.
fn disk_volumes(pod: &DesiredPod) -> impl Iterator<Item = &Volume> {
    layout::volumes(pod).filter(|volume| Kind::of(volume).is_on_disk())
}

fn size_limit(volume: &Volume) -> Option<(i64, &str)> {
    let text = volume.empty_dir.as_ref()?.size_limit.as_ref()?.0.as_str();
    let limit = quantity::value(text).ok().filter(|limit| *limit > 0)?;
    Some((limit, text))
}

fn limit(container: &Container) -> i64 {
    qos::limit(container.resources.as_ref(), RESOURCE)
}

fn written(container: &Container) -> Option<&str> {
    Some(container.resources.as_ref()?.limits.as_ref()?.get(RESOURCE)?.0.as_str())
}

/// The bytes that are the same part of their limit as these inodes are of theirs.
fn in_bytes(inodes: u64, most: DiskUse) -> u64 {
    let part = u128::from(inodes) * u128::from(most.bytes) / u128::from(most.inodes.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// The limit of all together, and how it is written.
fn total(pod: &DesiredPod) -> Option<(i64, &str)> {
    let limit = requests::limit(&pod.spec, RESOURCE)?;
    Some((limit, pod.spec.containers.iter().find_map(written)?))
}

#[cfg(test)]
mod tests;
