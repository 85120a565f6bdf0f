//! Bounds of the status file, the event file and the command line.

use std::time::Duration;

// --- Command line ------------------------------------------------------------------------------------

/// A command that waits this long for Docker prints a message.
pub const DOCKER_SLOW: Duration = Duration::from_secs(3);
/// Most manifest errors that `get pods` repeats; the status file and the log have them all.
pub const ERRORS_SHOWN: usize = 5;
/// How long `exec` waits for the exit code after the command's streams ended.
pub const EXEC_EXIT: Duration = Duration::from_secs(2);
/// How often `exec` checks for the exit code.
pub const EXEC_EXIT_LOOK: Duration = Duration::from_millis(10);

// --- Status file -------------------------------------------------------------------------------------

/// Status files are written at most this often; changes in between are written together.
pub const STATUS_COALESCE: Duration = Duration::from_millis(20);
/// Most bytes of the file of sizes that pods got after their sandboxes were made.
pub const RESIZED_BYTES: usize = 1024 * 1024;
/// Wait before that file is tried again, if it could not be written and nothing changes.
pub const RESIZED_RETRY: Duration = Duration::from_secs(60);
/// Wait before a status that could not be written (a full disk) is tried again although nothing changed.
pub const STATUS_RETRY: Duration = Duration::from_secs(2);
/// Wait after the removal of a file in the run directory, before missing files are written again: others may follow.
pub const RUN_DIR_SETTLE: Duration = Duration::from_secs(1);
/// Time in which a command that watches a file of the run directory waits for the daemon to make both anew. Longer than
/// the daemon takes, or a start of its service.
pub const RUN_DIR_AGAIN: Duration = Duration::from_secs(5);
/// Time between two looks of such a command.
pub const RUN_DIR_LOOKS: Duration = Duration::from_millis(100);
/// Wait before a run directory that is not there is looked for again.
pub const RUN_DIR_RETRY: Duration = Duration::from_secs(2);
/// A daemon that does not answer for this long hangs: the command line then says that its state is old.
pub const DAEMON_ANSWER: Duration = Duration::from_secs(3);
/// How often the command line checks for the daemon's answer.
pub const DAEMON_LOOK: Duration = Duration::from_millis(5);
/// A daemon that has just begun gets this long to write its first state, before the command line says that it has not.
pub const DAEMON_BEGINS: Duration = Duration::from_secs(3);
/// So soon after its start a daemon may not have looked at all pods: the command line waits that long.
pub const DAEMON_LOOKS: Duration = Duration::from_millis(500);
/// How often the command line checks for that.
pub const DAEMON_BEGINS_LOOK: Duration = Duration::from_millis(50);
/// Largest `/proc/PID/status` that is read, bytes.
pub const PROCESS_STATUS_BYTES: usize = 64 * 1024;
/// Largest status file the command line reads, bytes.
pub const STATUS_BYTES: usize = 64 * 1024 * 1024;

// --- Events of pods ----------------------------------------------------------------------------------

/// Most events that are kept; past it, the one that was not seen for longest is dropped.
pub const EVENTS: usize = 500;
/// Most bytes of all events together.
pub const EVENTS_BYTES: usize = 256 * 1024;
/// Longest message of an event, bytes (as in `events.k8s.io`).
pub const EVENT_MESSAGE: usize = 1024;
/// Most events of one container and reason that differ only in their text; later ones become one.
pub const EVENT_VARIANTS: usize = 10;
/// A hexadecimal number of this many digits in an event's message counts as an id: Docker's short ids have that many.
pub const EVENT_ID: usize = 12;
/// A repeated event is logged again after this, and at each power of ten of its count.
pub const EVENT_LOG_AGAIN: Duration = Duration::from_secs(600);
/// Shortest value of a Secret that is hidden in messages, bytes.
pub const EVENT_SECRET: usize = 4;
/// The event file is written at most this often while there are new events.
pub const EVENTS_NEW: Duration = Duration::from_millis(500);
/// The event file is written at most this often when only counts changed.
pub const EVENTS_REPEATED: Duration = Duration::from_secs(10);
/// Largest event file that is read, bytes.
pub const EVENTS_FILE: usize = 4 * 1024 * 1024;
/// Bytes of keys and values of all ConfigMaps that are available to the command line: their file is in memory.
pub const OBJECTS_SHOWN: usize = 512 * 1024;
/// Longest file of objects that is read: names and labels come on top of the values.
pub const OBJECTS_FILE: usize = 32 * 1024 * 1024;
