//! Bounds of pods: their workers, machines, volumes, networks, cgroups and probes.

use std::time::Duration;

// --- Settings of a container -------------------------------------------------------------------------

/// Longest value of a pod's label or annotation that is copied to a label of its sandbox, in bytes.
pub const LABEL_COPIED: usize = 4 * 1024;
/// Bytes (keys and values) of all labels and annotations that are copied to one sandbox.
pub const LABELS_COPIED: usize = 32 * 1024;
/// Longest value of podkeeper's own labels, in bytes.
pub const LABEL_OURS: usize = 64 * 1024;
/// Longest command argument or environment entry, in bytes: Linux's bound for a program (`MAX_ARG_STRLEN`).
pub const ARGUMENT_BYTES: usize = 128 * 1024;
/// Most bytes that `$(VAR)` references may add to one container's environment, command and arguments.
/// References nest, so without a bound a short manifest could ask for more than the node's memory.
pub const EXPANSION_BYTES: usize = 1024 * 1024;
/// Most bytes of one container's environment that come from local objects: more than Linux passes to a
/// program in total.
pub const ENVIRONMENT_BYTES: usize = 6 * 1024 * 1024;
/// Most bytes that Docker records of one container of a source behind others (environment, command, arguments, mounts),
/// without its image's configuration. The record stays on the disk as long as the container.
pub const RECORD_BEHIND: usize = 256 * 1024;
/// Most bytes of a command that a probe or a hook of such a container runs in it, with 16 for each word. Docker keeps each
/// command that was run for five to ten minutes.
pub const EXEC_BEHIND: usize = 4 * 1024;
/// Most variables of such a container: Docker keeps their list with each command. Three quarters of a thousand are those of
/// a hundred Services.
pub const EXEC_VARIABLES_BEHIND: usize = 768;
/// Most cgroups that are searched for those of containers, when figures are requested.
pub const CGROUPS: usize = 16_384;
/// Most interfaces of one network namespace whose figures are reported.
pub const INTERFACES: usize = 64;
/// Bytes read of one of the kernel's files with figures.
pub const KERNEL_FILE: u64 = 64 * 1024;
/// Directory entries that one look at a pod's disk usage counts for a request for figures; if there are more, the
/// figure is the part that was counted.
pub const DISK_USE_ENTRIES: u64 = 500_000;
/// The only bound, for each pod, of a count that decides about evictions: a pod with more files than can be counted in
/// this time uses at least the counted amount. A slow card lists some thousand files per second.
pub const DISK_USE_PATIENCE: Duration = Duration::from_secs(120);
/// Pods that can be counted in this time come before others. A pod that keeps a disk busy with a large tree delays the
/// checks of others, and their evictions, by this time plus one long count.
pub const DISK_USE_QUICK: Duration = Duration::from_secs(3);
/// How long a claim whose size is a limit may be counted before a pod starts with it.
pub const CLAIM_LOOK: Duration = Duration::from_secs(20);
/// Namespaces of claims that are counted for their source.
pub const NAMESPACES_COUNTED: usize = 10_000;
/// Number of counts of a pod whose directories move during each count.
pub const DISK_USE_COUNTS: usize = 3;
/// How often a counting walk goes on after a directory was moved during the walk.
pub const DISK_USE_MOVED: u32 = 1000;
/// How deep the walk goes down again then; directories below are given up.
pub const WALK_BACK: usize = 1000;
/// Directories of one directory that a counting walk opens before it enters them, and open directories on the whole
/// path.
pub const WALK_OPEN: usize = 16;
pub const DISK_USE_OPEN: usize = 128;
/// Files that were renamed before they were visited, and that are searched for together.
pub const WALK_LOST: usize = 65_536;
/// Number of readings in a row that find no file under its listed name, after which the search ends.
pub const WALK_VAIN: u32 = 100;
/// Directory names that a removal remembers for one directory at a time, and the depth to which it goes.
pub const WALK_BATCH: usize = 1000;
pub const WALK_DEPTH: usize = 1000;
/// Bytes of directory names that are remembered while a volume is given to a group, and the overhead of each name.
pub const WALK_NAMES: usize = 32 * 1024 * 1024;
pub const WALK_NAME: usize = 64;
/// Files with several names that are remembered while one tree is counted; beyond that, each name counts its share.
pub const DISK_USE_LINKED: usize = 16_384;
/// Descriptors of a pod's processes that are looked at: a proxy has one for each connection.
pub const DELETED_DESCRIPTORS: usize = 2_000_000;
/// The same for threads other than the first one of their process: whether they have their own table cannot be told.
pub const DELETED_OF_THREADS: usize = 1_000_000;
/// Sockets of a pod that are remembered, so that each is looked at once for all its descriptors.
pub const DELETED_SOCKETS: usize = 100_000;
/// Bytes that are read of a request ring's report, and number of tries while the ring is busy.
pub const DELETED_RING: u64 = 1 << 20;
pub const DELETED_RING_ASKED: usize = 10;
/// Bytes of the list of a cgroup's processes.
pub const DELETED_PROCESSES: u64 = 1 << 20;
/// Removed files among these.
pub const DELETED_FILES: usize = 100_000;
/// Bytes of the list of a process's mappings.
pub const DELETED_MAPS: u64 = 8 << 20;
/// Cgroups of one container whose processes are looked at.
pub const DELETED_CGROUPS: usize = 4096;
/// How often one count reads a directory again for entries that were renamed before they were visited.
pub const DISK_USE_SEARCHES: u32 = 10_000;
/// Most files of one log that are counted.
pub const LOG_FILES_COUNTED: u32 = 1000;
/// Time until the next look at the disk usage of pods near their own limits (upstream's `monitoringInterval`).
pub const LIMITS_NEAR: Duration = Duration::from_secs(10);
/// The same when half of a limit is used.
pub const LIMITS_BETWEEN: Duration = Duration::from_secs(30);
/// The same far from every limit.
pub const LIMITS_FAR: Duration = Duration::from_secs(120);
/// Longest pause before the next look at a pod whose look takes long.
pub const LIMITS_SLOW: Duration = Duration::from_secs(600);
/// Number of counts in a row in which a pod of a source that is restricted to a Pod Security level has too much to
/// count, and in which it has moved files, after which it counts as over its limits.
pub const LIMITS_UNCOUNTED: u32 = 3;
pub const LIMITS_MOVED: u32 = 10;
/// One part in this many of the time may be spent on looking at a pod.
pub const LIMITS_PART: u32 = 20;
/// How long `top` measures CPU usage.
pub const TOP_WINDOW: Duration = Duration::from_secs(1);
/// Largest seccomp profile, bytes.
pub const SECCOMP_PROFILE: u64 = 1024 * 1024;

// --- Evicted pods ------------------------------------------------------------------------------------

/// An evicted pod does not start again before this has passed; doubles with each eviction to [`EVICTED_MAX`].
pub const EVICTED_MIN: Duration = Duration::from_secs(300);
/// See [`EVICTED_MIN`]; a pod that has run for this long starts over with the shortest wait.
pub const EVICTED_MAX: Duration = Duration::from_secs(3600);
/// How long after one evicted pod the next one starts again.
pub const EVICTED_APART: Duration = Duration::from_secs(30);
/// Longest grace period, seconds, of a pod whose source stands behind that of a pod that waits for its room.
pub const ROOM_GRACE: u32 = 30;
/// Most pods that a critical pod names that waits for their end.
pub const ROOM_NAMES: usize = 5;

// --- Workers and machines ----------------------------------------------------------------------------

/// How long a pod waits for other pods unless its annotations set a time.
pub const AFTER_TIMEOUT: Duration = Duration::from_secs(300);
/// Most pods that one pod may wait for.
pub const AFTER_PODS: usize = 64;
/// Stack of a pod worker, bytes.
pub const WORKER_STACK: usize = 256 * 1024;
/// Most earlier versions of a pod's objects whose Secrets' values are removed from messages. They are held in memory: a source
/// that edits its Secrets all the time must not have more than twice its room.
pub const OBJECTS_BEFORE: usize = 1;
/// Most container ids that a mailbox remembers as hints; beyond that, the worker looks at all containers.
pub const MAILBOX_HINTS: usize = 64;
/// Most results of probes and ends of hooks that wait for a worker.
pub const MAILBOX_NEWS: usize = 1024;
/// Most warnings of one create that are logged.
pub const WARNINGS_PER_CREATE: usize = 8;
/// Most containers of all pods that are started at a time: more would not make Docker faster.
pub const STARTS_AT_ONCE: usize = 8;
/// Of these, the most for pods of sources behind others; as many more of theirs may hang.
pub const STARTS_BEHIND: usize = 6;
/// If no start ends for this long, one more than [`STARTS_AT_ONCE`] may begin.
pub const STARTS_STUCK: Duration = Duration::from_secs(2);
/// Most Docker calls one pod may have in flight.
pub const CALLS_PER_POD: usize = 16;
/// How long Docker may still carry out a start that it did not answer. The container is removed; if
/// Docker refuses that, no container is made in its place for this long.
pub const LATE_START: Duration = Duration::from_secs(60);
/// First wait after a Docker call failed; doubles to [`CALL_RETRY_MAX`].
pub const CALL_RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest wait after a Docker call failed.
pub const CALL_RETRY_MAX: Duration = Duration::from_secs(30);
/// A create that Docker has not answered may go on for this long, as the kubelet allows a call
/// (`runtimeRequestTimeout`): no container of another name is made meanwhile.
pub const CREATE_UNFINISHED: Duration = Duration::from_secs(120);
/// How long the sandbox of a removed pod outlives its last container: taking its network down would delay the
/// start of the pod that replaces it.
pub const SANDBOX_LINGER: Duration = Duration::from_secs(1);
/// Longest wait before a leftover container's removal is tried again.
pub const REMOVE_RETRY_MAX: Duration = Duration::from_secs(300);
/// Shortest grace any container gets, seconds (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`).
pub const GRACE_MIN: u32 = 2;
/// Longest grace period of a pod whose source is behind others, seconds, unless a setting says otherwise.
pub const GRACE_BEHIND: u32 = 600;
/// The part of a machine's shutdown time that pods share: the rest is for the last KILLs.
#[must_use]
pub const fn drain_share(within: u32) -> Duration {
    Duration::from_secs((within - within / 8) as u64)
}
/// Grace period of a container whose pod does not set one, seconds.
pub const GRACE_DEFAULT: u32 = 30;
/// How long a sandbox gets between TERM and KILL: it has nothing to finish, but a TERM right after its start
/// may come before it handles signals.
pub const SANDBOX_GRACE: Duration = Duration::from_secs(2);
/// A sandbox that ends earlier than this after its start counts as failing: it is made again with growing
/// delays.
pub const SANDBOX_YOUNG: Duration = Duration::from_secs(10);
/// SIGKILL is sent again after this when the container still runs.
pub const KILL_AGAIN: Duration = Duration::from_secs(5);
/// A stop signal that Docker takes later than this after it was due makes the deadline later.
pub const STOP_DELAY: Duration = Duration::from_secs(1);
/// One that Docker takes later than this still leaves [`GRACE_MIN`].
pub const STOP_MOMENT: Duration = Duration::from_millis(100);
/// The grace begins anew with each stop signal that Docker does not confirm, at most this many times.
pub const STOP_SIGNALS_MISSED: u32 = 8;

// --- Cgroups -----------------------------------------------------------------------------------------

/// Most containers that are noted as signalled beside the status file.
pub const SIGNALLED: usize = 4096;
/// How often podkeeper tries to kill the processes in the cgroup of a pod without containers and to remove
/// it.
pub const CGROUP_KILL_ROUNDS: u32 = 6;
/// How often the remaining children of the topmost cgroup are looked up.
pub const CGROUP_ROUNDS: u32 = 10;
/// How long to wait for other podkeepers that create or remove cgroups: each takes milliseconds.
pub const CGROUP_ALONE: Duration = Duration::from_secs(2);
/// Interval of the tries.
pub const CGROUP_ALONE_POLL: Duration = Duration::from_millis(2);
/// A podkeeper that has kept the lock for [`CGROUP_ALONE`] is not waited for during this time.
pub const CGROUP_NOT_ALONE: Duration = Duration::from_secs(60);
/// How long another podkeeper may take between creating a cgroup and marking it.
pub const CGROUP_MARK: Duration = Duration::from_millis(50);
/// How long a pod's cgroup without a mark must have had processes before it counts as another program's.
pub const CGROUP_STRANGER: Duration = Duration::from_secs(5);
/// Most of those cgroups that are remembered.
pub const CGROUP_STRANGERS: usize = 64;
/// Most cgroups that are searched, once per start, for those made under other flags.
pub const CGROUP_WALK: usize = 8192;
/// Most containers that are looked up by their cgroup in a pod's cgroup; a pod has far fewer.
pub const CGROUP_CONTAINERS: usize = 64;

// --- Network -----------------------------------------------------------------------------------------

/// How long a worker waits for the pod network before it goes on without it.
pub const NETWORK_PATIENCE: Duration = Duration::from_secs(8);
/// Most bytes of one setting of a slice, as systemd keeps it in a file.
pub const UNIT_FILE: usize = 64 * 1024;
/// Name servers that a resolver reads from resolv.conf. This bound and the two after it are upstream's
/// (`pkg/apis/core/validation`): a pod with more is refused, and the node's further ones are left out.
pub const RESOLVER_SERVERS: usize = 3;
/// Search domains that a resolver reads.
pub const RESOLVER_SEARCHES: usize = 32;
/// Bytes of the line of search domains.
pub const RESOLVER_SEARCH_BYTES: usize = 2048;

// --- Volumes -----------------------------------------------------------------------------------------

/// First wait after volumes could not be set up or torn down; doubles to [`VOLUME_RETRY_MAX`] (upstream
/// `pkg/util/goroutinemap/exponentialbackoff`).
pub const VOLUME_RETRY_MIN: Duration = Duration::from_millis(500);
/// Longest wait after volumes could not be set up or torn down.
pub const VOLUME_RETRY_MAX: Duration = Duration::from_secs(122);
/// How often podkeeper tries to remove the volumes of a vanished pod: for about a quarter of an hour.
pub const SWEEP_TRIES: u32 = 14;
/// A change of ownership that takes longer is reported.
pub const OWNERSHIP_SLOW: Duration = Duration::from_secs(30);
/// The report is repeated after this.
pub const OWNERSHIP_SLOW_AGAIN: Duration = Duration::from_secs(60);
/// Most files that other processes create or change in a volume during its change of ownership; beyond that,
/// the volume cannot be set up. Links that the walk meets a second time count, too, so it is far more than a
/// disk can do in a minute.
pub const OWNERSHIP_CHANGED: u64 = 10_000_000;
/// How long the set-up or removal of a pod's volumes may take before it is reported: the kubelet waits two minutes
/// (upstream `pkg/kubelet/volumemanager/volume_manager.go`).
pub const VOLUMES_SLOW: Duration = Duration::from_secs(120);
/// How long a create waits for its subPaths: their file system may hang. After that it is given up and tried again.
pub const SUB_PATHS: Duration = Duration::from_secs(30);
/// Most links on the way to a subPath, as in the kernel.
pub const SUB_PATH_LINKS: u32 = 40;
/// Most parts of a subPath: each needs a descriptor.
pub const SUB_PATH_PARTS: usize = 128;
/// Most mounts over one another that are ended where a subPath is to be bound.
pub const SUB_PATH_MOUNTS: u32 = 8;
/// Bytes that volumes of one pod may always take in memory: files of Secrets, tokens and fields, and mounts.
pub const IN_MEMORY_OF_POD: u64 = 512 * 1024;
/// All pods together may take this part of the node's memory for them before a pod gets no more than that.
pub const IN_MEMORY_PART: u64 = 8;
/// Pods that are evicted first get this part of that part, all of them together.
pub const IN_MEMORY_BEHIND: u64 = 2;
/// Most volumes in memory and `subPath` mounts of pods that are evicted first, all of them together: each is a mount, and the kernel and
/// podkeeper read through all mounts of the machine for each that they make or end.
pub const MOUNTS_BEHIND: usize = 1024;
/// Most pods of one source whose volumes are being set up or removed at once.
pub const VOLUMES_AT_ONCE: usize = 4;
/// Work on volumes that takes longer gives its place to another pod.
pub const VOLUMES_BUSY: Duration = Duration::from_secs(2);
/// Most pods of one source whose work takes longer at once: beyond that, others wait for them.
pub const VOLUMES_LATE: usize = 32;
/// Bytes of a file of a volume that are compared at once.
pub const FILE_PART: usize = 16 * 1024;

// --- Termination messages (upstream `pkg/kubelet/container/runtime.go`) ------------------------------

/// Bytes read from the end of a container's termination file.
pub const TERMINATION_FILE: usize = 4096;
/// Most bytes of all messages of a pod together.
pub const TERMINATION_POD: usize = 12 * 1024;
/// Bytes of the log that replace a missing message.
pub const TERMINATION_LOG: usize = 2048;
/// Lines of the log that replace a missing message.
pub const TERMINATION_LOG_LINES: u32 = 80;

// --- Back-off ----------------------------------------------------------------------------------------

/// Crash-loop and image-pull back-off: first delay (upstream `pkg/kubelet/kubelet.go`).
pub const BACKOFF_MIN: Duration = Duration::from_secs(10);
/// Longest delay.
pub const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// Least value of `--max-container-restart-period` (upstream `pkg/kubelet/apis/config/validation/validation.go`).
pub const RESTART_PERIOD_MIN: Duration = Duration::from_secs(1);
/// A crash-loop entry is forgotten when the container ran this long.
pub const CRASH_RESET: Duration = Duration::from_secs(600);
/// Most entries of one back-off table; beyond that, the entry that was advanced longest ago is dropped.
pub const BACKOFF_ENTRIES: usize = 1024;

// --- Probes and hooks --------------------------------------------------------------------------------

/// Bytes kept of an exec's output and of an HTTP body (upstream `pkg/probe/exec/exec.go`,
/// `pkg/probe/http/http.go`).
pub const PROBE_OUTPUT: usize = 10 * 1024;
/// Number of tries in a row for a probe that cannot be started.
pub const PROBE_TRIES: u32 = 3;
/// Most redirects that a probe follows.
pub const PROBE_REDIRECTS: usize = 10;
/// Most exec probes of one source that are being started at once: Docker starts them slowly, and 100 at once would all be
/// late.
pub const PROBE_EXECS: usize = 8;
/// An exec that runs longer than this no longer counts as being started.
pub const PROBE_EXEC_BUSY: Duration = Duration::from_secs(2);
/// How long Docker may take to answer a call about a command of a probe or a hook, as with the kubelet
/// (`--runtime-request-timeout`); not part of the probe's own time-out.
pub const PROBE_DOCKER: Duration = Duration::from_secs(120);
/// How long after a failed liveness or startup probe Docker is asked whether the container still runs: it sees an end later
/// than what ends with it.
pub const PROBE_DOUBT: Duration = Duration::from_millis(500);
/// An answer that took longer comes from a Docker that was stalled: its report that a command is too slow
/// is checked again.
pub const PROBE_DOCKER_SLOW: Duration = Duration::from_secs(1);
/// Bytes of a command's output that are read before other descriptors are served.
pub const EXEC_TURN: usize = 32 * 1024;
/// Most commands of one probe that still run after their time-out; with more, no further one is started.
pub const PROBE_EXECS_LEFT: usize = 3;
/// Most host names waiting to be looked up.
pub const PROBE_NAMES: usize = 64;
/// Longest HTTP/2 frame, header block and message that a gRPC probe reads, bytes.
pub const GRPC_BYTES: usize = 16 * 1024;
/// Most bytes that a gRPC probe reads in total.
pub const GRPC_ANSWER: usize = 256 * 1024;
/// Most bytes of a TLS handshake and answer that wait to be read.
pub const TLS_BYTES: usize = 64 * 1024;
/// An HTTP hook without an answer ends after this time: upstream would wait for ever.
pub const HOOK_HTTP: Duration = Duration::from_secs(600);
/// Number of ended containers that are kept among those that were added to earlier sandboxes of a pod.
pub const ADDED_DEAD: usize = 32;

/// Reads of the table of mounts until two agree.
pub const MOUNT_READS: u32 = 5;

/// Names of a volume's data directories that are tried for one time stamp.
pub const DATA_NAMES: u32 = 100;
