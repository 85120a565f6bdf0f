//! Bounds of the looks at the node, and of evictions.

use std::time::Duration;

/// Grace period of a pod at a hard threshold, seconds, as with the kubelet.
pub const EVICTION_GRACE: u32 = 1;
/// How long the end of an evicted pod is awaited before another one is evicted (`podCleanupTimeout`).
pub const EVICTION_PATIENCE: Duration = Duration::from_secs(30);
/// The number of calls to Docker that a pod's end may take, one after the other: its end is awaited for so many times as
/// long as Docker takes for one.
pub const EVICTION_CALLS: u32 = 20;
/// Longest wait for the end of one evicted pod while Docker answers, however the end gets on; also how long after its
/// first answer Docker may be silent again and again before the wait for it no longer begins anew.
pub const EVICTION_LONGEST: Duration = Duration::from_secs(300);
/// Number of rounds in which the processes of a pod are killed one by one, because they make new ones meanwhile.
pub const EVICTION_KILLS: u32 = 5;
/// Number of processes that are killed at a time: each has a descriptor meanwhile.
pub const EVICTION_KILLS_AT_ONCE: usize = 64;
/// Largest list of the processes of one cgroup, bytes.
pub const CGROUP_PROCS: usize = 1 << 20;
/// How deep, and how many entries of each directory, is looked whether Docker gets on with a removal.
pub const REMOVAL_DEPTH: usize = 64;
/// See [`REMOVAL_DEPTH`].
pub const REMOVAL_ENTRIES: usize = 256;
/// Bytes of what Docker has written down of a container: it has the container's labels and its environment, in which Docker
/// writes six bytes for some characters.
pub const DOCKER_CONFIG: u64 = 64 << 20;
/// Bytes of its volumes in it.
pub const DOCKER_MOUNTS: usize = 4 << 20;
/// Most values in these.
pub const DOCKER_CONFIG_VALUES: usize = 50_000;
/// Bytes of the name of a layer in Docker's root directory.
pub const LAYER_NAME: usize = 256;
/// How often to check whether an evicted pod has ended.
pub const EVICTION_POLL: Duration = Duration::from_secs(1);
/// A count of a pod's files without progress for this long hangs. It is longer than all calls to Docker for one
/// container may take.
pub const COUNT_PATIENCE: Duration = Duration::from_secs(60);
/// Number of hanging counts, each in a thread, at which no further pod is counted for the same signal.
pub const COUNTS_HANGING: usize = 4;
/// How long all pods together may be counted, one after the other; after that, each has [`COUNT_LEAST`].
pub const COUNT_ROUND: Duration = Duration::from_secs(180);
/// Shortest time for the count of one pod.
pub const COUNT_LEAST: Duration = Duration::from_secs(2);
/// Time between two looks at a node that is short of something or soon may be, as with the kubelet.
pub const EVICTION_NEAR: Duration = Duration::from_secs(10);
/// Longest time between two looks at a node with thresholds.
pub const EVICTION_FAR: Duration = Duration::from_secs(120);
/// Longest time between two looks while the policy names a source whose pods are evicted before others: a pod of it may
/// fill a disk faster than any other is seen to.
pub const EVICTION_BEHIND: Duration = Duration::from_secs(30);
/// Number of looks in quick succession after the start: pods start, images come, and some data may be missing.
pub const EVICTION_FIRST_LOOKS: u32 = 6;
/// Shortest time in which a whole resource is assumed to be used up.
pub const EVICTION_WORST: Duration = Duration::from_secs(300);
/// A disk gets emptier when its free space grows by one part in this many.
pub const DISK_FREED_PART: u64 = 10_000;
/// How long after the end of the last evicted pod a disk that gets emptier puts off further evictions: an engine may
/// take minutes for a large layer. Without this bound, a pod that frees a little again and again would put evictions
/// off for ever.
pub const DISK_FREED_LONGEST: Duration = Duration::from_secs(300);
/// The notification that the kernel is asked for: tasks waited for memory for 0.2 of two seconds.
pub const MEMORY_STALLS: &str = "some 200000 2000000\0";
/// If collecting garbage did not help, it is repeated after this time, unless a pod was evicted meanwhile.
pub const COLLECT_AGAIN: Duration = Duration::from_secs(60);
/// See [`COLLECT_AGAIN`], which doubles with each collection that did not help.
pub const COLLECT_AGAIN_MAX: Duration = Duration::from_secs(3600);
/// If the last collection of garbage is older than this, garbage is collected once more before a pod is evicted for a
/// lack of disk.
pub const COLLECT_FRESH: Duration = Duration::from_secs(30);
/// A collection that does not get on for so long no longer puts off evictions.
pub const COLLECT_PATIENCE: Duration = Duration::from_secs(120);
/// The same for a collection that takes so long in all, however it gets on.
pub const COLLECT_LONGEST: Duration = Duration::from_secs(300);
/// Bytes of a block of a file system: a file takes at least that.
pub const BLOCK: u64 = 4096;
/// Bytes of a log's end that stay of an ended pod whose files are emptied.
pub const ENDED_LOG: usize = 64 * 1024;
/// Most entries of a directory of an ended pod's or container's files.
pub const ENDED_FILES: usize = 4096;
/// Least bytes and inodes of a place that is emptied, however many there are.
pub const ENDED_LEAST: (u64, u64) = (16 * 1024, 4);
/// How long one run empties the layers of pods that have ended; the rest is left for the next run.
pub const EMPTY_LAYERS: Duration = Duration::from_secs(30);
