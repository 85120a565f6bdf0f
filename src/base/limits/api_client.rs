//! Bounds of the client of a Kubernetes API server.

use std::time::Duration;

/// Largest answer, bytes: a list of a node's pods, each of any allowed size.
pub const API_ANSWER: u64 = 32 * 1024 * 1024;
/// Most values in an answer or an event: each takes many times more memory than its text.
pub const API_VALUES: usize = 500_000;
/// Largest event of a watch, bytes: larger than etcd's bound for one object.
pub const API_EVENT: usize = 4 * 1024 * 1024;
/// Most bytes of a failed answer that are read for its message.
pub const API_WORDS: usize = 1000;
/// Largest kubeconfig, bytes.
pub const API_KUBECONFIG: usize = 1024 * 1024;
/// Largest token, bytes.
pub const API_TOKEN: usize = 64 * 1024;
/// Time for looking up the server's name, and for connecting to one of its addresses, each.
pub const API_CONNECT: Duration = Duration::from_secs(5);
/// Time for the TLS handshake, and for an answer of a proxy, each.
pub const API_HANDSHAKE: Duration = Duration::from_secs(10);
/// Most calls at a time, without heartbeats.
pub const API_CALLS: usize = 6;
/// A connection that was idle for this long is not used again.
pub const API_IDLE_MAX: Duration = Duration::from_secs(80);
/// Bytes that are read from a connection at once.
pub const API_BUFFER: usize = 16 * 1024;
/// Calls per second in the long run, and the burst on top; the kubelet's values (`kubeAPIQPS`, `kubeAPIBurst`).
pub const API_QPS: u32 = 50;
/// See [`API_QPS`].
pub const API_BURST: u32 = 100;
/// How often credential files are checked, when there is a call; the value of client-go's rotating transport.
pub const API_CREDENTIALS_LOOK: Duration = Duration::from_secs(10);
/// How long a credential plugin may take, and the size of its output.
pub const API_PLUGIN: Duration = Duration::from_secs(60);
/// See [`API_PLUGIN`].
pub const API_PLUGIN_BYTES: usize = 1024 * 1024;
/// A plugin's credential is requested again at the earliest after this, whatever expiry the plugin reports.
pub const API_PLUGIN_MIN: Duration = Duration::from_secs(10);
/// Longest `Retry-After` of a server that is respected.
pub const API_RETRY_AFTER: Duration = Duration::from_secs(300);
/// A silent connection is probed after this time, and then at [`API_KEEPALIVE_AGAIN`].
pub const API_KEEPALIVE: Duration = Duration::from_secs(30);
/// See [`API_KEEPALIVE`]: time between two probes.
pub const API_KEEPALIVE_AGAIN: Duration = Duration::from_secs(5);
/// See [`API_KEEPALIVE`]: unanswered probes after which the server counts as gone.
pub const API_KEEPALIVE_TRIES: u32 = 3;

// --- The API server as a source ----------------------------------------------------------------------

/// Time for one call of the source, and for the beginning of a watch.
pub const API_CALL: Duration = Duration::from_secs(30);
/// Time for the first call after the start: remembered content waits for it.
pub const API_FIRST: Duration = Duration::from_secs(3);
/// The first call for an object or a token; each one that is not answered in time gives the next one more.
pub const API_OBJECT_FIRST: Duration = Duration::from_secs(3);
/// Most calls for objects and tokens at a time, of [`API_CALLS`]: there is one at a time unless some of them are slow.
pub const API_LOOK_UPS_AT_ONCE: usize = 4;
/// Most of them for objects whose last call failed: those that hang leave room for others.
pub const API_LOOK_UPS_FAILED: usize = 2;
/// How long events wait for the answer to such a call.
pub const API_LOOK_UP_QUICK: Duration = Duration::from_millis(300);
/// How often it is looked whether an answer that took longer has come.
pub const API_LOOK_UP_POLL: Duration = Duration::from_millis(50);
/// One call for an object or a token.
pub const API_OBJECT_CALL: Duration = Duration::from_secs(10);
/// Shortest duration of a watch; the longest is twice that; client-go's `minWatchTimeout`.
pub const API_WATCH_MIN: Duration = Duration::from_secs(300);
/// A watch that ends earlier than this without an event has failed.
pub const API_WATCH_SHORT: Duration = Duration::from_secs(1);
/// Of so many requests one after the other that were cut the last one is a list: what cuts watches may let it through.
pub const API_LOST_THEN_LIST: u32 = 3;
/// Events within this time become one set.
pub const API_COALESCE: Duration = Duration::from_millis(5);
/// Events that do not pause for [`API_COALESCE`] become one set each time that this has passed.
pub const API_COALESCE_MAX: Duration = Duration::from_millis(200);
/// First wait after a failure; doubles to [`API_BACKOFF_MAX`].
pub const API_BACKOFF_MIN: Duration = Duration::from_millis(800);
/// See [`API_BACKOFF_MIN`].
pub const API_BACKOFF_MAX: Duration = Duration::from_secs(30);
/// After this time without a failure the waits start from the beginning.
pub const API_BACKOFF_RESET: Duration = Duration::from_secs(120);
/// Objects that pods refer to are read again after this time, plus up to [`API_OBJECTS_JITTER`].
pub const API_OBJECTS_EVERY: Duration = Duration::from_secs(60);
/// See [`API_OBJECTS_EVERY`].
pub const API_OBJECTS_JITTER: Duration = Duration::from_secs(10);
/// How long pods wait at the daemon's start for objects that the server does not return.
pub const API_OBJECTS_PATIENCE: Duration = Duration::from_secs(5);
/// Most known pods of the server, including pods that have ended and pods of other sources.
pub const API_PODS: usize = 4000;
/// Approximate bound for the bytes of these pods; on a small machine, [`API_PODS_PART`] of its memory.
pub const API_PODS_BYTES: usize = 24 * 1024 * 1024;
/// See [`API_PODS_BYTES`].
pub const API_PODS_PART: usize = 32;
/// Number of pods over the bound that are remembered by name.
pub const API_LEFT_OUT: usize = 1000;
/// Most bytes of text of the objects that pods refer to: values are encoded longer there than in a manifest.
pub const API_OBJECTS_TEXT: usize = 24 * 1024 * 1024;
/// Most bytes of a container's environment variables for Services, counted like execve(2): with 8 MiB of stack it
/// accepts two MiB of arguments and variables, and the container has its own, too.
pub const SERVICE_VARIABLES: usize = 512 * 1024;
/// Bytes that execve(2) counts for each variable in addition to its name and value: `=`, the end, and a pointer.
pub const VARIABLE_BYTES: usize = 10;
/// The same for all namespaces of the node's pods, so that no user's object is left out because of them.
pub const SERVICE_VARIABLES_OF_NODE: usize = 4 * 1024 * 1024;
/// An object that could not be read is requested again after this time. If the server did not answer in time, the wait
/// is doubled each time, up to [`API_OBJECT_CALL`].
pub const API_LOOK_UP_AGAIN: Duration = Duration::from_secs(2);
/// Number of times in a row that the server must refuse this node an object of its pod before the refusal counts.
pub const API_REFUSALS: u32 = 5;
/// A token that could not be requested is requested again after this time.
pub const API_TOKEN_AGAIN: Duration = Duration::from_secs(10);
/// A token is replaced after this time, even if it lasts longer; the kubelet's value (`maxTTL`).
pub const API_TOKEN_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Grace period of a pod whose object vanished without one, seconds; the kubelet's `minimumGracePeriodInSeconds`.
pub const API_FORCED_GRACE: i64 = 2;
/// Most reasons in the message about a refused pod of the server.
pub const API_REFUSAL_REASONS: usize = 5;
