//! How the node is looked at, and how pods are evicted.

use std::time::Duration;

/// Seconds that a pod gets to end at a hard threshold, as with the kubelet.
pub const EVICTION_GRACE: u32 = 1;
/// How long the end of an evicted pod is awaited before another one goes (`podCleanupTimeout`).
pub const EVICTION_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether an evicted pod has ended.
pub const EVICTION_POLL: Duration = Duration::from_secs(1);
/// When the count of what a pod has on a disk has come no further for so long, it hangs. Longer than all calls that
/// Docker is asked for one container may take.
pub const COUNT_PATIENCE: Duration = Duration::from_secs(60);
/// So many counts that hang, each in a thread, keep further pods from being counted for the same signal.
pub const COUNTS_HANGING: usize = 4;
/// How long all pods may be counted together, one after the other; past it each has [`COUNT_LEAST`].
pub const COUNT_ROUND: Duration = Duration::from_secs(180);
/// The least time for the count of one pod.
pub const COUNT_LEAST: Duration = Duration::from_secs(2);
/// Time between two looks at a node that is short of something or soon may be, as with the kubelet.
pub const EVICTION_NEAR: Duration = Duration::from_secs(10);
/// Longest time between two looks at a node with thresholds.
pub const EVICTION_FAR: Duration = Duration::from_secs(120);
/// Looks after the start, each soon after the other: pods start, images come, and not all can be told yet.
pub const EVICTION_FIRST_LOOKS: u32 = 6;
/// So soon all there is of something may be gone, for all that is known.
pub const EVICTION_WORST: Duration = Duration::from_secs(300);
/// A disk gets emptier when a part of this many is free that was not before.
pub const DISK_FREED_PART: u64 = 10_000;
/// So long after the end of the last evicted pod a disk that gets emptier keeps others from being evicted for it: an engine
/// may take minutes for a large layer. Who frees a little again and again would put evictions off for ever.
pub const DISK_FREED_LONGEST: Duration = Duration::from_secs(300);
/// What the kernel is asked to tell of: any task that waits for memory for 0.2 of two seconds.
pub const MEMORY_STALLS: &str = "some 200000 2000000\0";
/// Garbage that was collected in vain is collected again after this time, unless a pod was evicted meanwhile.
pub const COLLECT_AGAIN: Duration = Duration::from_secs(60);
/// See [`COLLECT_AGAIN`], which doubles with each collection in vain.
pub const COLLECT_AGAIN_MAX: Duration = Duration::from_secs(3600);
/// No pod goes for want of disk when garbage was last collected so long before: it is collected once more.
pub const COLLECT_FRESH: Duration = Duration::from_secs(30);
/// A collection that takes longer no longer keeps pods from being evicted.
pub const COLLECT_PATIENCE: Duration = Duration::from_secs(120);
