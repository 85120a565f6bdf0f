//! Bounds of manifests, their sources, and their remembered content.

use std::time::Duration;

// --- Manifests ---------------------------------------------------------------------------------------

/// Bytes that lists of one object of the API take when they are read, as `size_of` has it: a volume has 5 KiB and a
/// container 3, whatever stands in the manifest. Hundreds of each are no pod of anybody.
pub const DECODED_OBJECT: usize = 4 * 1024 * 1024;
/// Bytes that those of all pods of one manifest take.
pub const DECODED_MANIFEST: usize = 16 * 1024 * 1024;
/// Bytes that a text takes in memory beside its own length, at most: its head, and what the heap adds.
pub const TEXT_OVERHEAD: usize = 48;
/// Bytes that the pods which run or end may take together, as they were read from their manifests. A pod of a former
/// manifest that takes its time to end counts, or other pods at each look would add up.
pub const ACTIVE_MANIFESTS: usize = 16 * 1024 * 1024;
/// The same for each pod that the node may have, where that is more: many times what a usual pod takes.
pub const ACTIVE_MANIFEST: usize = 64 * 1024;
/// Largest manifest file in bytes.
pub const MANIFEST_BYTES: usize = 1024 * 1024;
/// Most documents (and list items) in one file.
pub const MANIFEST_DOCUMENTS: usize = 1000;
/// Most manifest files in a directory.
pub const MANIFEST_FILES: usize = 4096;
/// Deepest nesting of a document.
pub const MANIFEST_DEPTH: usize = 100;
/// Most YAML nodes in one file, after aliases are expanded: the bound against alias bombs.
pub const MANIFEST_NODES: usize = 100_000;
/// Most bytes of YAML scalars in one file, after aliases are expanded.
pub const MANIFEST_SCALARS: usize = 4 * 1024 * 1024;
/// Characters of a manifest's value that are repeated in a problem's message.
pub const PROBLEM_VALUE: usize = 100;
/// Most problems kept for one file.
pub const PROBLEMS_PER_FILE: usize = 50;
/// Most symbolic links on a manifest path that are followed and watched.
pub const MANIFEST_LINKS: usize = 8;

// --- Configuration files -----------------------------------------------------------------------------

/// Most files of `--config-dir`, each of at most [`MANIFEST_BYTES`].
pub const CONFIG_FILES: usize = 256;

// --- Sources -----------------------------------------------------------------------------------------

/// Most pods one source may want.
pub const PODS_PER_SOURCE: usize = 1000;
/// Most bytes of values in one ConfigMap or Secret, as in the API server.
pub const OBJECT_BYTES: usize = 1024 * 1024;
/// Most finalizers, owners and managers of one object, of each.
pub const METADATA_LIST: usize = 256;
/// Most local objects one source may have.
pub const OBJECTS_PER_SOURCE: usize = 1000;
/// Most bytes (keys and values) of all local objects of one source.
pub const OBJECT_BYTES_PER_SOURCE: usize = 16 * 1024 * 1024;
/// Bytes of objects that every machine accepts, even a small one.
pub const OBJECTS_LEAST: usize = 2 * 1024 * 1024;
/// Most problems kept for a source.
pub const PROBLEMS_PER_SOURCE: usize = 500;
/// How long a source waits at the daemon's start for the first set of the sources that precede it.
pub const SOURCE_HEAD_START: Duration = Duration::from_secs(1);
/// How long a source that hangs since the daemon's start keeps the names of its pods that have ended, and holds up reports
/// by which others give pods up.
pub const NAMES_KEPT: Duration = Duration::from_secs(300);
/// How long the stop of a pod that an earlier daemon had begun waits for its source to tell of the pod. After that exit codes
/// that a server wants are lost, and a pod that had ended for good may run again: other pods may need what it holds.
pub const STOPS_UNTOLD: Duration = Duration::from_secs(60);
/// How long a drain waits at the daemon's start for the sources to tell of the pods that were found.
pub const DRAIN_UNTOLD: Duration = Duration::from_secs(10);
/// How long the first reading of a directory may take before what is remembered of it is put in force.
pub const DIRECTORY_LATE: Duration = Duration::from_secs(5);
/// How long the ending daemon waits for the thread of one source.
pub const SOURCE_END: Duration = Duration::from_millis(200);
/// Most settings that `--source-policy` gives one source.
pub const SOURCE_POLICY_SETTINGS: usize = 256;

// --- The manifest path -------------------------------------------------------------------------------

/// inotify hints within this time become one scan.
pub const SCAN_COALESCE: Duration = Duration::from_millis(5);
/// A file that failed to parse or was changed while it was read is read again after this.
pub const SCAN_SETTLE: Duration = Duration::from_millis(200);
/// A file whose times are older than this cannot change again without new times, whatever their granularity
/// (two seconds on FAT).
pub const SCAN_QUIET: Duration = Duration::from_secs(2);
/// Content counts as whole after this time, whatever is not read yet.
pub const SCAN_PARTIAL: Duration = Duration::from_secs(30);
/// A file that keeps changing is read again after [`SCAN_SETTLE`], doubled at most this many times.
pub const SCAN_SETTLE_DOUBLINGS: u32 = 6;
/// Vanished files still count while other files come and go, but at most for this long.
pub const SCAN_GONE_MAX: Duration = Duration::from_secs(30);
/// Equal scans after which a directory that lost all its pods without an inotify event is believed.
pub const SCAN_EMPTY_LOOKS: u32 = 3;
/// First wait before a manifest path that cannot be read is tried again; doubles to the check frequency.
pub const SCAN_RETRY_MIN: Duration = Duration::from_secs(1);
/// Size of the buffer for inotify events, bytes.
pub const INOTIFY_BUFFER: usize = 16 * 1024;
/// Most reads of inotify events in a row before they are acted upon.
pub const INOTIFY_READS: u32 = 64;

// --- Signatures --------------------------------------------------------------------------------------

/// Most bytes of a detached signature, trusted comment included (minisign's own bound is 9 KiB).
pub const SIGNATURE_BYTES: usize = 16 * 1024;
/// Most bytes of a file of public keys.
pub const VERIFY_KEYS_BYTES: usize = 64 * 1024;
/// Most public keys in all.
pub const VERIFY_KEYS: usize = 64;
/// When a manifest and its signature do not match, the other of the two gets this long to arrive.
pub const SIGNATURE_SETTLE: Duration = Duration::from_secs(2);

// --- Remembered content of a source ------------------------------------------------------------------

/// Most bytes of remembered manifests of one source, as stored on disk.
pub const LAST_GOOD_BYTES: u64 = 16 * 1024 * 1024;
/// Number of bytes that are read: old files are removed only after their replacements were written.
pub const LAST_GOOD_READ: u64 = 2 * LAST_GOOD_BYTES;
/// Most files that remember the manifests of one source.
pub const LAST_GOOD_FILES: usize = 2 * MANIFEST_FILES;
/// Most bytes of one file that remembers a manifest.
pub const LAST_GOOD_FILE: usize = 16 * 1024 * 1024;
/// First wait before a manifest that could not be stored is written again; doubles to
/// [`LAST_GOOD_RETRY_MAX`].
pub const LAST_GOOD_RETRY_MIN: Duration = Duration::from_secs(5);
/// Longest wait before a manifest that could not be stored is written again.
pub const LAST_GOOD_RETRY_MAX: Duration = Duration::from_secs(600);
/// How long a source waits for its store when an operator's command requires a look at it.
pub const LAST_GOOD_ASKED: Duration = Duration::from_millis(500);
/// First interval of the checks whether a source's content was written; doubles to [`LAST_GOOD_LOOK_MAX`].
pub const LAST_GOOD_LOOK_MIN: Duration = Duration::from_millis(20);
/// Longest interval of the checks whether the store's disk answers again.
pub const LAST_GOOD_LOOK_MAX: Duration = Duration::from_secs(10);
/// Most pods, local objects and URLs of one source whose highest signed version is remembered.
pub const SEEN_NAMES: usize = 8192;
/// Most damaged files of one source that are renamed for the operator; more stay where they are.
pub const LAST_GOOD_DAMAGED: usize = 4;
/// How long `podkeeper forget` waits for the daemon to do it.
pub const FORGET_PATIENCE: Duration = Duration::from_secs(5);
/// Interval of `forget`'s checks during that time.
pub const FORGET_LOOK: Duration = Duration::from_millis(20);
/// A source has this long to answer before its remembered manifests are restored.
pub const RESTORE_HEAD_START: Duration = Duration::from_millis(500);

// --- The manifest URL --------------------------------------------------------------------------------

/// Looking up the server's addresses, and connecting to one of them: each may take this long.
pub const URL_CONNECT: Duration = Duration::from_secs(5);
/// The TLS handshake, and the answer's head after the request: each may take this long.
pub const URL_FIRST_BYTE: Duration = Duration::from_secs(10);
/// One poll from the first connection to the last byte, redirects and signature included.
pub const URL_WHOLE: Duration = Duration::from_secs(30);
/// Most redirects of one request, all to the same server.
pub const URL_REDIRECTS: usize = 5;
/// Most addresses of a server's name that are tried.
pub const URL_ADDRESSES: usize = 16;
/// Longest URL, bytes.
pub const URL_LENGTH: usize = 65_534;
/// Longest answer head with its interim ones, bytes.
pub const URL_HEAD: usize = 16 * 1024;
/// Bytes of a body that are read at once; the buffer exists for one request.
pub const URL_BUFFER: usize = 32 * 1024;
/// Largest value of `--manifest-url-max-size`, bytes.
pub const URL_BODY_MAX: usize = 64 * 1024 * 1024;
/// Largest detached signature, bytes.
pub const URL_SIGNATURE: usize = 16 * 1024;
/// Longest `ETag` and `Last-Modified` that are used, bytes.
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
