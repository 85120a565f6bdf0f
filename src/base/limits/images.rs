//! Bounds of pulls, credentials and image archives.

use std::time::Duration;

use super::SCAN_QUIET;

// --- Archives and preloading -------------------------------------------------------------------------

/// Bytes of an image archive sent as one chunk.
pub const LOAD_CHUNK: usize = 32 * 1024;
/// Image names kept from the answer to a load.
pub const LOAD_NAMES: usize = 1000;
/// Most archives in the preload directory; further ones are reported and ignored.
pub const PRELOAD_FILES: usize = 1000;
/// Most image names kept for all archives together.
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

// --- Pulls -------------------------------------------------------------------------------------------

/// A pull without progress for this long is given up, if no flag sets another time.
pub const PULL_SILENCE: Duration = Duration::from_secs(60);
/// A pull without a byte of a layer for this long is assumed to wait for Docker, which downloads three layers at a time
/// for all pulls: a pull that makes almost no progress is stopped in its favor.
pub const PULL_STARVED: Duration = Duration::from_secs(20);
/// Bytes that a pull must receive within its deadline while others wait for its place.
pub const PULL_LEAST: u64 = 64 * 1024;
/// Once a pull has begun to extract, it may be silent for this long: a big layer on slow flash storage.
pub const PULL_EXTRACT: Duration = Duration::from_secs(30 * 60);
/// An image back-off entry is forgotten this long after its last failure.
pub const PULL_RESET: Duration = Duration::from_secs(600);
/// Bytes of the configuration of a pulled image, as JSON. Usual ones have a few thousand; Docker copies the labels into
/// each container, and shows them in each list.
pub const IMAGE_CONFIGURATION: usize = 256 * 1024;
/// Labels, variables and words of commands of a pulled image. Usual ones have some dozens; Docker keeps the last 256
/// events of its containers, each of which takes 150 bytes for each label.
pub const IMAGE_ENTRIES: usize = 512;
/// Volumes that a pulled image declares. Each of its containers has a directory for each.
pub const IMAGE_VOLUMES: usize = 32;
/// What a volume of a container counts among Docker's records, bytes: it takes a few inodes.
pub const VOLUME_RECORD: usize = 8 * 1024;
/// A container of a source behind others counts among Docker's records for this long from its create, for Docker may not
/// list it yet.
pub const RECORD_UNLISTED: Duration = Duration::from_secs(30);
/// Most images that are judged at a time. Docker takes several times an image's configuration to show it.
pub const JUDGED_AT_ONCE: usize = 2;
/// How long the refusal of an image's configuration holds for all who ask: each further inspect costs Docker as much.
pub const REFUSED_FOR: Duration = Duration::from_secs(30);
/// Most images whose refusal is remembered.
pub const REFUSED_IMAGES: usize = 64;
/// So often Docker is asked about an image that it has pulled before it counts as too large to be shown.
pub const JUDGED_TIMES: u32 = 3;
/// Bytes of Docker's records of all containers, with the configurations of their images, beyond which pods of sources
/// behind others get no more containers. Docker shows most of them in each list, and takes many times as much to make it.
pub const RECORDS_BEHIND: usize = 8 << 20;
/// Most images of one source that wait to be pulled; pods that want the same image share an entry.
pub const PULL_QUEUE: usize = 256;
/// Most requests of one source for one image.
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

// --- Registries --------------------------------------------------------------------------------------

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

// --- Credentials -------------------------------------------------------------------------------------

/// Most remembered images that were pulled with secrets of pods.
pub const GRANTS: usize = 4096;
/// Number of further images that are noted for pulls that began while there was room.
pub const GRANTS_UNDER_WAY: usize = 64;
/// Most credentials remembered for each of these images.
pub const GRANT_KEYS: usize = 100;
/// Largest file of these grants that is read, bytes.
pub const GRANTS_BYTES: usize = 32 * 1024 * 1024;
/// Most registries of one credential file.
pub const CREDENTIALS: usize = 1000;
/// Largest credential file, bytes.
pub const CREDENTIALS_BYTES: usize = 1024 * 1024;

// --- Garbage -----------------------------------------------------------------------------------------

/// Shortest time between two collections of images, and between looks for one; `ImageGCPeriod` of the kubelet.
pub const IMAGE_GC_PERIOD: Duration = Duration::from_secs(300);
/// A run of the collector starts no further removal after this time.
pub const GARBAGE_RUN: Duration = Duration::from_secs(600);
/// A run removes dead containers no longer than this: its images must go, too.
pub const GARBAGE_DEAD: Duration = Duration::from_secs(60);
/// Number of removals in a row without an answer that end the run, too.
pub const GARBAGE_TIMEOUTS: u32 = 2;
/// Longest wait for the id of an image that an event names: the events of pods wait behind it.
pub const IMAGE_ASKED: Duration = Duration::from_millis(500);
/// After such a wait without an answer no id is asked for so long.
pub const IMAGE_NOT_ASKED: Duration = Duration::from_secs(60);
/// An answer that took longer than this delays the events of pods.
pub const IMAGE_ASKED_SLOW: Duration = Duration::from_millis(20);
/// After such an answer no id is asked for so many times as long as it took.
pub const IMAGE_ASKED_SHARE: u32 = 9;
/// When Docker gave no stream of the events of images, it is asked for one with the next list after this.
pub const IMAGE_STREAM_AGAIN: Duration = Duration::from_secs(300);
/// A stream of them that ends within this time was refused.
pub const IMAGE_STREAM_EARLY: Duration = Duration::from_secs(1);
/// Most events of images that are taken before those of containers.
pub const IMAGE_EVENTS: usize = 64;
/// Most images whose use is recorded, and most names that are kept for them; others are never too young, and are removed last.
pub const IMAGE_RECORDS: usize = 4096;
/// Largest file of these records that is read, bytes.
pub const IMAGE_RECORDS_BYTES: usize = 2 * 1024 * 1024;
/// Longest entry of `--pinned-images`, characters.
pub const PIN: usize = 512;
