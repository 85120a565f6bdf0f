//! Bounds of the client of a Kubernetes API server.

use std::time::Duration;

/// Largest answer, bytes: a list of a node's pods, with what each may have.
pub const API_ANSWER: u64 = 32 * 1024 * 1024;
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
