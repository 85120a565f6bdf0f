//! Bounds of the daemon as a whole.

use std::time::Duration;

// --- The main loop -----------------------------------------------------------------------------------

/// A wait no longer than this has a relative time-out; after a stop of the process it ends late by at most
/// that much.
pub const WAIT_RELATIVE: Duration = Duration::from_secs(1);
/// How long a thread rests for whose wait the kernel has no memory.
pub const WAIT_AGAIN: Duration = Duration::from_millis(500);
/// A file of podkeeper's own that cannot be read now is tried so often before it is done without.
pub const READ_TRIES: u32 = 3;
/// How long until it is tried again.
pub const READ_AGAIN: Duration = Duration::from_millis(200);
/// Most updates queued between all sources and the main loop.
pub const EVENT_QUEUE: usize = 64;
/// Bytes of the longest record in the kernel's log.
pub const KERNEL_RECORD: usize = 8192;
/// Most kills for want of memory that are told in one [`OOM_WINDOW`].
pub const OOM_KILLS: usize = 32;
/// See [`OOM_KILLS`].
pub const OOM_WINDOW: Duration = Duration::from_secs(10);
/// A safety net that finds nothing for long looks this many times less often than its flag says.
pub const QUIET_FACTOR: u32 = 5;
/// Shortest period that a flag may give to something that is done again and again.
pub const PERIOD_MIN: Duration = Duration::from_millis(100);
/// Most signals that the main loop has not handled yet.
pub const SIGNAL_QUEUE: usize = 64;

// --- The watch over the threads, and the service manager -----------------------------------------------

/// How often the threads are looked at where no watchdog of systemd asks for more; rarer while all are at rest.
pub const WATCH_LOOK: Duration = Duration::from_secs(60);
/// A thread that two looks find at the same piece of work, begun so long ago, hangs.
pub const STUCK: Duration = Duration::from_secs(60);
/// The service manager hears after this time that podkeeper is ready, whatever Docker and the disks do.
pub const READY_PATIENCE: Duration = Duration::from_secs(20);
/// Least time between two states that the service manager is told.
pub const NOTIFY_STATUS: Duration = Duration::from_secs(10);
/// How long a datagram to the service manager may take.
pub const NOTIFY_PATIENCE: Duration = Duration::from_secs(1);

// --- Start, drain and end ----------------------------------------------------------------------------

/// Most bytes of the marker of a drained node.
pub const DRAIN_BYTES: usize = 4096;
/// Most bytes of a lock file: a process id.
pub const LOCK_BYTES: usize = 64;
/// So many lists of the kernel's locks have to lack one that is not held.
pub const LOCK_LOOKS: u32 = 8;
/// How often `drain` and `resume` check the daemon's progress.
pub const DRAIN_LOOK: Duration = Duration::from_millis(50);
/// How long the root directory may take to say at the start whether the node is drained, before that is told.
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

/// `--runonce`: nothing is decided earlier: a manifest that was written just now is read when it has rested.
pub const RUN_ONCE_REST: Duration = Duration::from_secs(2);
/// `--runonce`: a source has so long for its first set (the kubelet's `runOnceManifestDelay` is 1 s, and its URL is asked
/// later).
pub const RUN_ONCE_SETS: Duration = Duration::from_secs(10);
/// `--runonce`: all pods run after this time, or it has failed. It is the sum of the kubelet's ten waits, of 1 s, doubled
/// each time (`runOnceRetryDelay`, `runOnceMaxRetries`).
pub const RUN_ONCE_PODS: Duration = Duration::from_secs(1023);
