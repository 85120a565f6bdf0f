//! Bounds of the client of a Kubernetes API server.

use std::time::Duration;

/// Largest answer, bytes: a list of a node's pods, with what each may have.
pub const API_ANSWER: u64 = 32 * 1024 * 1024;
/// Most values in an answer or an event: each is many times as large in memory as in the text.
pub const API_VALUES: usize = 500_000;
/// Largest event of a watch, bytes: more than etcd takes for one object.
pub const API_EVENT: usize = 4 * 1024 * 1024;
/// Most bytes of an answer that was no success that are read for its words.
pub const API_WORDS: usize = 1000;
/// Largest kubeconfig, bytes.
pub const API_KUBECONFIG: usize = 1024 * 1024;
/// Largest token, bytes.
pub const API_TOKEN: usize = 64 * 1024;
/// Looking the server's name up, and connecting to one of its addresses: each may take this long.
pub const API_CONNECT: Duration = Duration::from_secs(5);
/// The TLS handshake, and an answer of a proxy: each may take this long.
pub const API_HANDSHAKE: Duration = Duration::from_secs(10);
/// Most calls under way, heartbeats apart.
pub const API_CALLS: usize = 3;
/// Most connections that are kept for the next calls.
pub const API_IDLE: usize = 3;
/// A connection that was not used for so long is not used again.
pub const API_IDLE_MAX: Duration = Duration::from_secs(80);
/// Bytes that are read of a connection at once.
pub const API_BUFFER: usize = 16 * 1024;
/// Calls a second in the long run, and how many more at once; as the kubelet (`kubeAPIQPS`, `kubeAPIBurst`).
pub const API_QPS: u32 = 50;
/// See [`API_QPS`].
pub const API_BURST: u32 = 100;
/// How often files of credentials are looked at, when there is a call; as client-go's rotating transport.
pub const API_CREDENTIALS_LOOK: Duration = Duration::from_secs(10);
/// How long a credential plugin may take, and how much it may say.
pub const API_PLUGIN: Duration = Duration::from_secs(60);
/// See [`API_PLUGIN`].
pub const API_PLUGIN_BYTES: usize = 1024 * 1024;
/// The credential of a plugin is not asked for again earlier, whatever the plugin says of its end.
pub const API_PLUGIN_MIN: Duration = Duration::from_secs(10);
/// Longest wait that is taken from a server's `Retry-After`.
pub const API_RETRY_AFTER: Duration = Duration::from_secs(300);
/// A connection on which nothing comes is asked for a sign of life after this time, and then so often.
pub const API_KEEPALIVE: Duration = Duration::from_secs(30);
/// See [`API_KEEPALIVE`]: between two questions.
pub const API_KEEPALIVE_AGAIN: Duration = Duration::from_secs(5);
/// See [`API_KEEPALIVE`]: unanswered questions after which the server counts as gone.
pub const API_KEEPALIVE_TRIES: u32 = 3;

// --- The API server as a source ----------------------------------------------------------------------

/// One call of the source in all, and the beginning of a watch.
pub const API_CALL: Duration = Duration::from_secs(30);
/// The first one at a start: what is remembered waits for it.
pub const API_FIRST: Duration = Duration::from_secs(3);
/// One call for an object or a token.
pub const API_OBJECT_CALL: Duration = Duration::from_secs(10);
/// A watch lasts so long, and up to twice as long; as client-go's `minWatchTimeout`.
pub const API_WATCH_MIN: Duration = Duration::from_secs(300);
/// A watch that ends earlier and without an event has failed.
pub const API_WATCH_SHORT: Duration = Duration::from_secs(1);
/// Events that come within this time become one set.
pub const API_COALESCE: Duration = Duration::from_millis(5);
/// First wait after a failure; doubles to [`API_BACKOFF_MAX`].
pub const API_BACKOFF_MIN: Duration = Duration::from_millis(800);
/// See [`API_BACKOFF_MIN`].
pub const API_BACKOFF_MAX: Duration = Duration::from_secs(30);
/// After so long without a failure waits begin anew.
pub const API_BACKOFF_RESET: Duration = Duration::from_secs(120);
/// Objects that pods refer to are looked up again after this time, and up to [`API_OBJECTS_JITTER`] more.
pub const API_OBJECTS_EVERY: Duration = Duration::from_secs(60);
/// See [`API_OBJECTS_EVERY`].
pub const API_OBJECTS_JITTER: Duration = Duration::from_secs(10);
/// At a start pods are waited for so long whose objects the server does not give.
pub const API_OBJECTS_PATIENCE: Duration = Duration::from_secs(5);
/// Most pods of the server that are known, those that have ended and those of other sources among them.
pub const API_PODS: usize = 4000;
/// Most bytes that they take, about; on a small machine [`API_PODS_PART`] of its memory.
pub const API_PODS_BYTES: usize = 24 * 1024 * 1024;
/// See [`API_PODS_BYTES`].
pub const API_PODS_PART: usize = 32;
/// So many pods for which there is no room are known by name.
pub const API_LEFT_OUT: usize = 1000;
/// Most bytes of text of the objects that they refer to: values are longer there than in a manifest.
pub const API_OBJECTS_TEXT: usize = 24 * 1024 * 1024;
/// Most bytes of environment variables of Services that a container is given, counted as execve(2) counts them: with 8
/// MiB of stack it takes two MiB of arguments and variables, and the container has some of its own.
pub const SERVICE_VARIABLES: usize = 512 * 1024;
/// What execve(2) counts for each variable beside its name and value: `=`, the end, and a pointer.
pub const VARIABLE_BYTES: usize = 10;
/// The same of all namespaces of the node's pods, so that no object of a user is left out for them.
pub const SERVICE_VARIABLES_OF_NODE: usize = 4 * 1024 * 1024;
/// What could not be looked up is asked for again after this time. Where the server did not answer in time, twice as
/// long, doubled up to [`API_BACKOFF_MAX`].
pub const API_LOOK_UP_AGAIN: Duration = Duration::from_secs(2);
/// The server has so many times to say that this node may not read an object of its pod, before it is believed.
pub const API_REFUSALS: u32 = 5;
/// A token that could not be made is asked for again after this time.
pub const API_TOKEN_AGAIN: Duration = Duration::from_secs(10);
/// A token is made anew after this time, however long it lasts; as the kubelet (`maxTTL`).
pub const API_TOKEN_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Grace of a pod whose object vanished without one, seconds; the kubelet's `minimumGracePeriodInSeconds`.
pub const API_FORCED_GRACE: i64 = 2;
/// Most reasons for which a pod of the server is refused that are told.
pub const API_REFUSAL_REASONS: usize = 5;
