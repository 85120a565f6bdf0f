//! Bounds of the daemon as a whole.

use std::time::Duration;

// --- The main loop -----------------------------------------------------------------------------------

/// Stack of the main thread and of threads that are few, bytes.
pub const MAIN_STACK: usize = 2 * 1024 * 1024;
/// A wait up to this long uses a relative time-out; after a stop of the process it ends late by at most
/// that much.
pub const WAIT_RELATIVE: Duration = Duration::from_secs(1);
/// How long a thread pauses when the kernel has no memory for its wait.
pub const WAIT_AGAIN: Duration = Duration::from_millis(500);
/// How often a file of podkeeper's own that cannot be read is tried before podkeeper goes on without it.
pub const READ_TRIES: u32 = 3;
/// Time between these tries.
pub const READ_AGAIN: Duration = Duration::from_millis(200);
/// Time between two states that are published, in times of what the last one has taken.
pub const PUBLISHING_REST: u32 = 9;
/// Longest time for which a state waits to be published.
pub const PUBLISHING_LATE: Duration = Duration::from_millis(250);
/// Most updates queued between all sources and the main loop.
pub const EVENT_QUEUE: usize = 64;
/// So many refused pods are judged again each time when another pod changes; more of them wait for [`READMISSION`].
pub const READMITTED_AT_ONCE: usize = 32;
/// Time between two judgements of so many refused pods, each of which is compared with all others; longer for more.
pub const READMITTED_TOGETHER: usize = 256;
/// See [`READMITTED_TOGETHER`].
pub const READMISSION: Duration = Duration::from_secs(1);
/// Bytes of the longest record in the kernel's log.
pub const KERNEL_RECORD: usize = 8192;
/// Most records of the kernel's log that are read at the start, as many as fit into 16 MiB of it and more.
pub const KERNEL_RECORDS: usize = 1 << 18;
/// Most containers that are remembered of earlier out-of-memory kills.
pub const OOM_EARLIER: usize = 256;
/// Most out-of-memory kills that are reported in one [`OOM_WINDOW`].
pub const OOM_KILLS: usize = 32;
/// See [`OOM_KILLS`].
pub const OOM_WINDOW: Duration = Duration::from_secs(10);
/// Factor by which a safety net that finds nothing for long looks less often than its flag says.
pub const QUIET_FACTOR: u32 = 5;
/// Shortest period that a flag may set for a repeated action.
pub const PERIOD_MIN: Duration = Duration::from_millis(100);
/// Most signals that the main loop has not handled yet.
pub const SIGNAL_QUEUE: usize = 64;

// --- The watch over the threads, and the service manager -----------------------------------------------

/// How often the threads are checked, unless systemd's watchdog needs more; less often while all are at rest.
pub const WATCH_LOOK: Duration = Duration::from_secs(60);
/// A thread that two checks find at the same piece of work, begun at least this long ago, hangs.
pub const STUCK: Duration = Duration::from_secs(60);
/// After this time podkeeper reports to the service manager that it is ready, even if Docker or a disk does not work.
pub const READY_PATIENCE: Duration = Duration::from_secs(20);
/// Shortest time between two states for the service manager.
pub const NOTIFY_STATUS: Duration = Duration::from_secs(10);
/// How long a datagram to the service manager may take.
pub const NOTIFY_PATIENCE: Duration = Duration::from_secs(1);

// --- Start, drain and end ----------------------------------------------------------------------------

/// Most bytes of the marker of a drained node.
pub const DRAIN_BYTES: usize = 4096;
/// Most bytes of a lock file: a process id.
pub const LOCK_BYTES: usize = 64;
/// Number of lists of the kernel's locks in which a lock must be missing before it counts as free.
pub const LOCK_LOOKS: u32 = 8;
/// How long `drain` waits for another process that writes the marker of a drained node.
pub const WRITE_TURN: Duration = Duration::from_secs(5);
/// How often it looks whether that one has written.
pub const WRITE_TURN_LOOK: Duration = Duration::from_millis(5);
/// How often `drain` and `resume` check the daemon's progress.
pub const DRAIN_LOOK: Duration = Duration::from_millis(50);
/// How long the root directory may take at the start to show whether the node is drained, before this is reported.
pub const MARKER_PATIENCE: Duration = Duration::from_secs(5);
/// How long the main thread may take to end after SIGTERM before the process ends without waiting for it.
pub const END_PATIENCE: Duration = Duration::from_secs(1);

// --- Programs and files of the node ------------------------------------------------------------------

/// How long `systemctl` may take. A pod's containers wait for it as long as for a short call to Docker.
pub const SYSTEMCTL: Duration = Duration::from_secs(10);
/// How long `mount` and `umount` may take for NFS.
pub const HELPER: Duration = Duration::from_secs(60);
/// First interval at which a running program is checked.
pub const HELPER_LOOK: Duration = Duration::from_millis(5);
/// Longest interval at which a running program is checked.
pub const HELPER_LOOK_MAX: Duration = Duration::from_millis(250);
/// Bytes of a program's standard error that are kept.
pub const HELPER_WORDS: u64 = 1024;
/// Bytes read of a file of the node (its hosts, its resolver settings).
pub const NODE_FILE: usize = 1024 * 1024;

/// `--runonce`: earliest time of a decision: a manifest that was just written is read only after it has settled.
pub const RUN_ONCE_REST: Duration = Duration::from_secs(2);
/// `--runonce`: how long a source has for its first set (the kubelet's `runOnceManifestDelay` is 1 s, and its URL is
/// read later).
pub const RUN_ONCE_SETS: Duration = Duration::from_secs(10);
/// `--runonce`: if not all pods run after this time, it has failed. It is the sum of the kubelet's ten waits, of 1 s,
/// doubled each time (`runOnceRetryDelay`, `runOnceMaxRetries`).
pub const RUN_ONCE_PODS: Duration = Duration::from_secs(1023);
/// After this time without a change of a pod, the pages of the program that were used are given back. Longer than a pod's start takes, so that a burst does not pay for it.
pub const SETTLED: Duration = Duration::from_secs(10);
/// So long after the first work they are given back although there is more.
pub const SETTLED_MOST: Duration = Duration::from_secs(60);
