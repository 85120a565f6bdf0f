//! Every bound, time-out and capacity, named. A number of this kind anywhere else is a mistake.

use std::time::Duration;

// --- Docker client -------------------------------------------------------------------------------

/// Deadline of an ordinary Docker call.
pub const SHORT_CALL: Duration = Duration::from_secs(10);
/// Longest answer head (status line and headers), in bytes.
pub const HTTP_HEAD: usize = 64 * 1024;
/// Most headers in an answer.
pub const HTTP_HEADERS: usize = 64;
/// Longest answer body of an ordinary call, in bytes.
pub const HTTP_BODY: usize = 32 * 1024 * 1024;
/// Bytes kept of one entry of a container list while it is read: the labels that podkeeper reads back.
pub const LIST_ENTRY: usize = 16 * 1024 * 1024;
/// Longest name of a field or label that is looked at in a container list; longer than any name podkeeper
/// reads.
pub const LIST_NAME: usize = 128;
/// Most entries of a container list.
pub const LIST_CONTAINERS: usize = 100_000;
/// A container list may take this long in all; [`SHORT_CALL`] is the longest time from one byte to the next.
pub const LIST_WHOLE: Duration = Duration::from_secs(120);
/// Most interim (1xx) answers before the real one.
pub const HTTP_INTERIM: usize = 16;
/// Longest line before a chunk (its size and extensions), in bytes.
pub const HTTP_CHUNK_LINE: usize = 1024;
/// Bytes read of one answer before its deadline is checked and other descriptors are served.
pub const HTTP_TURN: usize = 1024 * 1024;
/// Bytes asked of the socket in one read; larger buffers are freed after use.
pub const HTTP_READ: usize = 16 * 1024;
/// Bytes of an image archive sent as one chunk.
pub const LOAD_CHUNK: usize = 32 * 1024;
/// Image names kept of the answer to a load.
pub const LOAD_NAMES: usize = 1000;
/// Once a pull has begun to extract, it may be silent for this long: a big layer on slow flash storage.
pub const PULL_EXTRACT: Duration = Duration::from_secs(30 * 60);
/// A registry gets this long for its first answer when the node has a copy of the image, unless the progress
/// deadline is shorter.
pub const REGISTRY_ANSWER: Duration = Duration::from_secs(30);
/// A registry that was silent for longer than this is not asked again for a while when a local copy will do.
pub const REGISTRY_SLOW: Duration = Duration::from_secs(5);
/// How long such a registry is not asked, the first time; doubles to [`REGISTRY_SILENT_MAX`].
pub const REGISTRY_SILENT_MIN: Duration = Duration::from_secs(60);
/// See [`REGISTRY_SILENT_MIN`].
pub const REGISTRY_SILENT_MAX: Duration = Duration::from_secs(600);
/// Registries that are remembered as silent.
pub const REGISTRIES: usize = 64;
/// Checks for newer versions of local images that run at once, besides the pulls.
pub const REGISTRY_CHECKS: usize = 4;
/// How long a check for a newer version of a local image waits for `--registry-qps`; then the local copy is
/// started.
pub const RATE_TURN: Duration = Duration::from_secs(10);
/// Most remembered images that were pulled with secrets of pods.
pub const GRANTS: usize = 4096;
/// Most credentials remembered for each of them.
pub const GRANT_KEYS: usize = 100;
/// Largest file of these grants that is read, bytes.
pub const GRANTS_BYTES: usize = 32 * 1024 * 1024;
/// Longest line of a JSON stream (events, pull progress), in bytes.
pub const STREAM_LINE: usize = 1024 * 1024;
/// Idle connections to Docker that are kept for reuse.
pub const IDLE_CONNECTIONS: usize = 8;
/// Oldest Docker API version podkeeper works with.
pub const API_OLDEST: (u16, u16) = (1, 40);
/// Newest Docker API version podkeeper asks for.
pub const API_NEWEST: (u16, u16) = (1, 51);
/// Characters of Docker's message that are kept in an error.
pub const ERROR_MESSAGE: usize = 4096;

/// Longest value of a pod's label or annotation that is copied to a label of its sandbox, in bytes.
pub const LABEL_COPIED: usize = 4 * 1024;
/// Bytes (keys and values) of all labels and annotations that are copied to one sandbox.
pub const LABELS_COPIED: usize = 32 * 1024;
/// Longest value of podkeeper's own labels, in bytes.
pub const LABEL_OURS: usize = 64 * 1024;

// --- Docker events -------------------------------------------------------------------------------

/// First wait before connecting to Docker again; doubles to [`RECONNECT_MAX`].
pub const RECONNECT_MIN: Duration = Duration::from_millis(100);
/// Longest wait before connecting to Docker again. An attempt on a socket that has no listener costs
/// microseconds; at boot all pods wait for it.
pub const RECONNECT_MAX: Duration = Duration::from_millis(500);
/// After an event that was too long to be read all containers are listed, but not sooner than this after the
/// last list.
pub const UNREAD_LIST: Duration = Duration::from_secs(2);

// --- Waiting -------------------------------------------------------------------------------------

/// A wait no longer than this has a relative time-out; after a stop of the process it ends late by at most
/// that much.
pub const WAIT_RELATIVE: Duration = Duration::from_secs(1);

// --- Manifests and sources -----------------------------------------------------------------------

/// Largest manifest file in bytes.
pub const MANIFEST_BYTES: usize = 1024 * 1024;
/// Most documents (and list items) in one file.
pub const MANIFEST_DOCUMENTS: usize = 1000;
/// Most manifest files in a directory.
pub const MANIFEST_FILES: usize = 4096;
/// Most pods one source may want.
pub const PODS_PER_SOURCE: usize = 1000;
/// Most bytes of values in one ConfigMap or Secret, as in the API server.
pub const OBJECT_BYTES: usize = 1024 * 1024;
/// Most local objects one source may have.
pub const OBJECTS_PER_SOURCE: usize = 1000;
/// Most bytes (keys and values) of all local objects of one source.
pub const OBJECT_BYTES_PER_SOURCE: usize = 16 * 1024 * 1024;
/// Deepest nesting of a document.
pub const MANIFEST_DEPTH: usize = 100;
/// Most YAML nodes in one file, after aliases are expanded: the bound against alias bombs.
pub const MANIFEST_NODES: usize = 100_000;
/// Most bytes of YAML scalars in one file, after aliases are expanded.
pub const MANIFEST_SCALARS: usize = 4 * 1024 * 1024;
/// Characters of a manifest's value that a problem's message repeats.
pub const PROBLEM_VALUE: usize = 100;
/// Most problems kept for one file.
pub const PROBLEMS_PER_FILE: usize = 50;
/// Most problems kept for a source.
pub const PROBLEMS_PER_SOURCE: usize = 500;
/// inotify hints that come within this time become one scan.
pub const SCAN_COALESCE: Duration = Duration::from_millis(5);
/// A file that failed to parse or was changed while it was read is read again after this.
pub const SCAN_SETTLE: Duration = Duration::from_millis(200);
/// A file whose times are older than this cannot change again without new times, whatever their granularity
/// (two seconds on FAT).
pub const SCAN_QUIET: Duration = Duration::from_secs(2);
/// A file that keeps changing is read again after [`SCAN_SETTLE`], doubled at most this many times.
pub const SCAN_SETTLE_DOUBLINGS: u32 = 6;
/// Most symbolic links on a manifest path that are followed and watched.
pub const MANIFEST_LINKS: usize = 8;
/// Files that are gone still count while other files come and go, but at most for this long.
pub const SCAN_GONE_MAX: Duration = Duration::from_secs(30);
/// Equal scans after which a directory that lost all its pods without an inotify event is believed.
pub const SCAN_EMPTY_LOOKS: u32 = 3;
/// First wait before a manifest path that cannot be read is tried again; doubles to the check frequency.
pub const SCAN_RETRY_MIN: Duration = Duration::from_secs(1);
/// Size of the buffer for inotify events, bytes.
pub const INOTIFY_BUFFER: usize = 16 * 1024;
/// Most reads of inotify events in a row before they are acted upon.
pub const INOTIFY_READS: u32 = 64;
/// Most bytes of a detached signature, trusted comment included (minisign's own bound is 9 KiB).
pub const SIGNATURE_BYTES: usize = 16 * 1024;
/// Most bytes of a file of public keys.
pub const VERIFY_KEYS_BYTES: usize = 64 * 1024;
/// Most public keys in all.
pub const VERIFY_KEYS: usize = 64;
/// When a manifest and its signature do not match, the other of the two gets this long to arrive.
pub const SIGNATURE_SETTLE: Duration = Duration::from_secs(2);
/// Most bytes of remembered manifests of one source, as they are on disk.
pub const LAST_GOOD_BYTES: u64 = 16 * 1024 * 1024;
/// Most files that remember the manifests of one source.
pub const LAST_GOOD_FILES: usize = 2 * MANIFEST_FILES;
/// Most bytes of one file that remembers a manifest.
pub const LAST_GOOD_FILE: usize = 16 * 1024 * 1024;
/// First wait before a manifest that could not be remembered is written again; doubles to
/// [`LAST_GOOD_RETRY_MAX`].
pub const LAST_GOOD_RETRY_MIN: Duration = Duration::from_secs(5);
/// Longest wait before a manifest that could not be remembered is written again.
pub const LAST_GOOD_RETRY_MAX: Duration = Duration::from_secs(600);
/// Most pods, local objects and URLs of one source whose highest signed version is remembered.
pub const SEEN_NAMES: usize = 8192;
/// Most damaged files of one source that are kept for the operator.
pub const LAST_GOOD_DAMAGED: usize = 4;
/// How long `podkeeper forget` waits for the daemon to have forgotten.
pub const FORGET_PATIENCE: Duration = Duration::from_secs(5);
/// How often `forget` checks in that time.
pub const FORGET_LOOK: Duration = Duration::from_millis(20);
/// Most bytes of the marker of a drained node.
pub const DRAIN_BYTES: usize = 4096;
/// Most bytes of a lock file: a process id.
pub const LOCK_BYTES: usize = 64;
/// How often `drain` and `resume` check the daemon's progress.
pub const DRAIN_LOOK: Duration = Duration::from_millis(50);
/// How long a pod waits for other pods when its annotations do not say.
pub const AFTER_TIMEOUT: Duration = Duration::from_secs(300);
/// Most pods that one pod may wait for.
pub const AFTER_PODS: usize = 64;
/// At start of the daemon, how long a source waits for the first set of the sources that take precedence over
/// it.
pub const SOURCE_HEAD_START: Duration = Duration::from_secs(1);
/// Most updates queued between all sources and the main loop.
pub const EVENT_QUEUE: usize = 64;
/// Shortest period that a flag may give to something that is done again and again.
pub const PERIOD_MIN: Duration = Duration::from_millis(100);
/// Most signals that the main loop has not handled yet.
pub const SIGNAL_QUEUE: usize = 64;

// --- The manifest URL ----------------------------------------------------------------------------

/// A source has this long to answer before its remembered manifests are restored.
pub const RESTORE_HEAD_START: Duration = Duration::from_millis(500);
/// Looking up the server's addresses, and connecting to one of them: each may take this long.
pub const URL_CONNECT: Duration = Duration::from_secs(5);
/// The TLS handshake, and the answer's head after the request: each may take this long.
pub const URL_FIRST_BYTE: Duration = Duration::from_secs(10);
/// One poll from the first connection to the last byte, redirects and signature included.
pub const URL_WHOLE: Duration = Duration::from_secs(30);
/// Most redirects of one request, all to the same server.
pub const URL_REDIRECTS: usize = 5;
/// Most addresses of a name that are tried.
pub const URL_ADDRESSES: usize = 16;
/// Longest answer head, bytes; less than [`URL_BUFFER`].
pub const URL_HEAD: usize = 16 * 1024;
/// Bytes of a connection's buffer in each direction, allocated for the length of one poll.
pub const URL_BUFFER: usize = 32 * 1024;
/// Largest value of `--manifest-url-max-size`, bytes.
pub const URL_BODY_MAX: usize = 64 * 1024 * 1024;
/// Largest detached signature, bytes.
pub const URL_SIGNATURE: usize = 16 * 1024;
/// Longest `ETag` and `Last-Modified` that are kept, bytes.
pub const URL_VALIDATOR: usize = 1024;
/// Largest file of certificates or keys, bytes.
pub const PEM_FILE: usize = 8 * 1024 * 1024;
/// After a failure the URL is polled again after the check frequency, but not earlier than this.
pub const URL_RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest wait after failed polls, unless the check frequency is longer.
pub const URL_RETRY_MAX: Duration = Duration::from_secs(300);
/// Stack of the thread that does one poll, bytes: enough for a TLS handshake and a manifest of the greatest
/// depth.
pub const URL_STACK: usize = 512 * 1024;
/// How long the ending daemon waits for the thread of one source.
pub const SOURCE_END: Duration = Duration::from_millis(200);

/// Longest command argument or environment entry, in bytes: Linux's bound for a program (`MAX_ARG_STRLEN`).
pub const ARGUMENT_BYTES: usize = 128 * 1024;
/// Most bytes that `$(VAR)` references may add to one container's environment, command and arguments.
/// References nest, so without a bound a short manifest could ask for more than the node's memory.
pub const EXPANSION_BYTES: usize = 1024 * 1024;

/// Most bytes of one container's environment that come from local objects: more than Linux passes to a
/// program in all.
pub const ENVIRONMENT_BYTES: usize = 6 * 1024 * 1024;

/// How often podkeeper tries to kill the processes in the cgroup of a pod without containers and to remove
/// it.
pub const CGROUP_KILL_ROUNDS: u32 = 6;
/// How long a worker waits for the pod network before it goes on without.
pub const NETWORK_PATIENCE: Duration = Duration::from_secs(2);
/// How long another podkeeper may take between making a cgroup and marking it.
pub const CGROUP_MARK: Duration = Duration::from_millis(50);
/// Most cgroups that are searched, once per start, for those made under other flags.
pub const CGROUP_WALK: usize = 8192;
/// Largest seccomp profile, bytes.
pub const SECCOMP_PROFILE: u64 = 1024 * 1024;

// --- Workers -------------------------------------------------------------------------------------

/// Stack of a pod worker, bytes.
pub const WORKER_STACK: usize = 256 * 1024;
/// Most container ids a mailbox remembers as hints; past it, the worker looks at all containers.
pub const MAILBOX_HINTS: usize = 64;
/// Most results of probes and ends of hooks that wait for a worker.
pub const MAILBOX_NEWS: usize = 1024;
/// Most warnings of one create that are logged.
pub const WARNINGS_PER_CREATE: usize = 8;
/// Most containers of all pods that are being started at once: Docker gets no faster by more.
pub const STARTS_AT_ONCE: usize = 8;
/// After so long without the end of any start, one more than [`STARTS_AT_ONCE`] may begin.
pub const STARTS_STUCK: Duration = Duration::from_secs(2);
/// Most containers that are looked up by their cgroup in a pod's cgroup; a pod has far fewer.
pub const CGROUP_CONTAINERS: usize = 64;
/// A command that Docker lets wait for so long says so.
pub const DOCKER_SLOW: Duration = Duration::from_secs(3);
/// How long the root directory may take to say at the start whether the node is drained, before that is told.
pub const MARKER_PATIENCE: Duration = Duration::from_secs(5);
/// How long the main thread may take to end after SIGTERM before the process ends without waiting for it.
pub const END_PATIENCE: Duration = Duration::from_secs(1);
/// Most Docker calls one pod may have in flight.
pub const CALLS_PER_POD: usize = 16;
/// How long Docker may still carry out a start whose answer never came. The container is removed; where
/// Docker refuses that, no container is made in its place for this long.
pub const LATE_START: Duration = Duration::from_secs(60);
/// First wait after a Docker call failed; doubles to [`CALL_RETRY_MAX`].
pub const CALL_RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest wait after a Docker call failed.
pub const CALL_RETRY_MAX: Duration = Duration::from_secs(30);
/// How long the sandbox of a removed pod outlives its last container: taking its network down would delay the
/// start of the pod that replaces it.
pub const SANDBOX_LINGER: Duration = Duration::from_secs(1);
/// Longest wait before a leftover container's removal is tried again.
pub const REMOVE_RETRY_MAX: Duration = Duration::from_secs(300);
/// Shortest grace any container gets, seconds (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`).
pub const GRACE_MIN: u32 = 2;
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

// --- Volumes -------------------------------------------------------------------------------------

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
/// Most files that other processes make or change in a volume during its change of ownership; past it the
/// volume cannot be set up. Links that the walk meets a second time count too, so it is far more than a disk
/// takes in a minute.
pub const OWNERSHIP_CHANGED: u64 = 10_000_000;
/// Most links on the way to a subPath, as in the kernel.
pub const SUB_PATH_LINKS: u32 = 40;
/// Most parts of a subPath: each needs a descriptor.
pub const SUB_PATH_PARTS: usize = 128;
/// Most settings that `--source-policy` gives one source.
pub const SOURCE_POLICY_SETTINGS: usize = 256;
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

// --- Termination messages (upstream `pkg/kubelet/container/runtime.go`) ---------------------------

/// Bytes read from the end of a container's termination file.
pub const TERMINATION_FILE: usize = 4096;
/// Most bytes of all messages of a pod together.
pub const TERMINATION_POD: usize = 12 * 1024;
/// Bytes of the log that replace a missing message.
pub const TERMINATION_LOG: usize = 2048;
/// Lines of the log that replace a missing message.
pub const TERMINATION_LOG_LINES: u32 = 80;

// --- Network -------------------------------------------------------------------------------------

/// Most bytes of one setting of a slice, as systemd keeps it in a file.
pub const UNIT_FILE: usize = 64 * 1024;
/// Bytes read of a file of the node (its hosts, its resolver settings).
pub const NODE_FILE: usize = 1024 * 1024;

// --- Back-off ------------------------------------------------------------------------------------

/// Crash-loop and image-pull back-off: first delay (upstream `pkg/kubelet/kubelet.go`).
pub const BACKOFF_MIN: Duration = Duration::from_secs(10);
/// Longest delay.
pub const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// A crash-loop entry is forgotten when the container ran this long.
pub const CRASH_RESET: Duration = Duration::from_secs(600);
/// An image back-off entry is forgotten this long after its last failure.
pub const PULL_RESET: Duration = Duration::from_secs(600);
/// Most entries of one back-off table; past it, the entry that was advanced longest ago is dropped.
pub const BACKOFF_ENTRIES: usize = 1024;

// --- Pulls ---------------------------------------------------------------------------------------

/// Most images waiting to be pulled; pods that want the same image share an entry.
pub const PULL_QUEUE: usize = 256;
/// Most pods waiting for one image.
pub const PULL_ASKERS: usize = 4096;
/// Pulls at once when `--serialize-image-pulls=false` sets no limit: each has a thread.
pub const PULLS_AT_ONCE: usize = 16;
/// Most layers of one pull whose progress is followed; Docker allows 127.
pub const PULL_LAYERS: usize = 256;
/// The progress of a pull is reported to its pods at most this often: each report writes the status file.
pub const PULL_PROGRESS: Duration = Duration::from_secs(5);
/// Longest name of a repository, characters.
pub const REPOSITORY_NAME: usize = 255;
/// Most credentials tried for one pull.
pub const PULL_CREDENTIALS: usize = 8;
/// Most registries of one credential file.
pub const CREDENTIALS: usize = 1000;
/// Largest credential file, bytes.
pub const CREDENTIALS_BYTES: usize = 1024 * 1024;

// --- Preloaded images ----------------------------------------------------------------------------

/// Most archives in the preload directory; further ones are reported and ignored.
pub const PRELOAD_FILES: usize = 1000;
/// Most image names kept of all archives together.
pub const PRELOAD_NAMES: usize = 10_000;
/// A file whose times are younger than this may still be being written, so it is looked at again.
pub const PRELOAD_SETTLE: Duration = SCAN_QUIET;
/// First wait after Docker could not load an archive; doubles to [`PRELOAD_RETRY_MAX`].
pub const PRELOAD_RETRY_MIN: Duration = Duration::from_secs(2);
/// Longest wait before an archive is tried again.
pub const PRELOAD_RETRY_MAX: Duration = Duration::from_secs(300);
/// Longest time without a byte while an archive is sent to Docker.
pub const PRELOAD_PROGRESS: Duration = Duration::from_secs(120);
/// Largest file of remembered archives that is read, bytes.
pub const PRELOAD_MEMORY_BYTES: usize = 8 * 1024 * 1024;
/// Largest window of a zstd archive, bytes: unpacking needs that much memory.
pub const ZSTD_WINDOW: u64 = 32 * 1024 * 1024;
/// Stack of the preload thread, bytes: a zstd decoder runs on it.
pub const PRELOAD_STACK: usize = 512 * 1024;
/// Nice value of the preload thread.
pub const PRELOAD_NICE: i32 = 10;

// --- Probes and hooks ----------------------------------------------------------------------------

/// Bytes kept of an exec's output and of an HTTP body (upstream `pkg/probe/exec/exec.go`,
/// `pkg/probe/http/http.go`).
pub const PROBE_OUTPUT: usize = 10 * 1024;
/// How often in a row a probe that cannot be made is tried.
pub const PROBE_TRIES: u32 = 3;
/// Most redirects that a probe follows.
pub const PROBE_REDIRECTS: usize = 10;
/// Most exec probes that are being started at once: Docker starts them slowly, and 100 at once would all be
/// late.
pub const PROBE_EXECS: usize = 8;
/// An exec that runs longer than this no longer counts as being started.
pub const PROBE_EXEC_BUSY: Duration = Duration::from_secs(2);
/// How long Docker may take to answer a call about a command of a probe or a hook, as with the kubelet
/// (`--runtime-request-timeout`); not part of the probe's own time-out.
pub const PROBE_DOCKER: Duration = Duration::from_secs(120);
/// An answer that took longer comes from a Docker that was stalled: its word that a command is too slow is
/// not believed at once.
pub const PROBE_DOCKER_SLOW: Duration = Duration::from_secs(1);
/// Bytes of a command's output that are read before other descriptors are served.
pub const EXEC_TURN: usize = 32 * 1024;
/// Most commands of one probe that outlived their time-out and still run; past it no further one is started.
pub const PROBE_EXECS_LEFT: usize = 3;
/// Most host names waiting to be looked up.
pub const PROBE_NAMES: usize = 64;
/// Longest HTTP/2 frame, header block and message that a gRPC probe reads, bytes.
pub const GRPC_BYTES: usize = 16 * 1024;
/// Most bytes that a gRPC probe reads in all.
pub const GRPC_ANSWER: usize = 256 * 1024;
/// Most bytes of a TLS handshake and answer that wait to be read.
pub const TLS_BYTES: usize = 64 * 1024;
/// An HTTP hook without an answer ends after this: upstream would wait for ever.
pub const HOOK_HTTP: Duration = Duration::from_secs(600);

// --- Status --------------------------------------------------------------------------------------

/// Status files are written at most this often; changes in between are written together.
pub const STATUS_COALESCE: Duration = Duration::from_millis(20);
/// Wait before a status that could not be written (a full disk) is tried again although nothing changed.
pub const STATUS_RETRY: Duration = Duration::from_secs(2);
/// A daemon that does not answer for this long hangs: the command line then says that its state is old.
pub const DAEMON_ANSWER: Duration = Duration::from_secs(3);
/// How often the command line checks for the daemon's answer.
pub const DAEMON_LOOK: Duration = Duration::from_millis(5);
/// Largest status file the command line reads, bytes.
pub const STATUS_BYTES: usize = 64 * 1024 * 1024;

// --- Events of pods ------------------------------------------------------------------------------

/// Most events that are kept; past it, the one that was not seen for longest is dropped.
pub const EVENTS: usize = 500;
/// Most bytes of all events together.
pub const EVENTS_BYTES: usize = 256 * 1024;
/// Longest message of an event, bytes (as in `events.k8s.io`).
pub const EVENT_MESSAGE: usize = 1024;
/// Most events of one container and reason that differ only in their text; later ones become one.
pub const EVENT_VARIANTS: usize = 10;
/// A hexadecimal number of so many digits in an event's message is an id: as many as Docker's short ids have.
pub const EVENT_ID: usize = 12;
/// A repeated event is logged again after this, and at each power of ten of its count.
pub const EVENT_LOG_AGAIN: Duration = Duration::from_secs(600);
/// Shortest value of a Secret that is searched for in messages, bytes.
pub const EVENT_SECRET: usize = 4;
/// The event file is written at most this often while there are new events.
pub const EVENTS_NEW: Duration = Duration::from_millis(500);
/// The event file is written at most this often when only counts changed.
pub const EVENTS_REPEATED: Duration = Duration::from_secs(10);
/// Largest event file that is read, bytes.
pub const EVENTS_FILE: usize = 4 * 1024 * 1024;

// --- The in-memory Docker ------------------------------------------------------------------------

/// Events that it keeps for replay, as many as Docker does.
pub const FAKE_EVENTS: usize = 256;
/// Most execs that it remembers.
pub const FAKE_EXECS: usize = 1024;
/// How long it waits before it writes again to a stream whose reader is slow.
pub const FAKE_SLOW_READER: Duration = Duration::from_millis(10);
// --- Command line --------------------------------------------------------------------------------

/// Most manifest errors that `get pods` repeats; the status file and the log have them all.
pub const ERRORS_SHOWN: usize = 5;
/// How long `exec` waits for the exit code after the command's streams ended.
pub const EXEC_EXIT: Duration = Duration::from_secs(2);
/// How often `exec` checks for it.
pub const EXEC_EXIT_LOOK: Duration = Duration::from_millis(10);

/// Name servers that a resolver reads of resolv.conf. It, and the two that follow, are upstream's
/// (`pkg/apis/core/validation`): more are refused in a pod, and left out of the node's.
pub const RESOLVER_SERVERS: usize = 3;

/// Search domains that a resolver reads.
pub const RESOLVER_SEARCHES: usize = 32;

/// Bytes of the line of search domains.
pub const RESOLVER_SEARCH_BYTES: usize = 2048;
