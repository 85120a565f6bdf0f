//! Bounds of the streaming protocols: SPDY and WebSocket connections of exec, attach and port-forward.

use std::time::Duration;

/// How long the client may take to create the streams that it asked for, as the kubelet's streamCreationTimeout.
pub const STREAMS_CREATED: Duration = Duration::from_secs(30);
/// A stream on which nothing is sent or received for so long is closed, as the kubelet's
/// streamingConnectionIdleTimeout.
pub const STREAM_IDLE: Duration = Duration::from_secs(4 * 60 * 60);
/// How long a client may take to close a connection of which it has been told the end.
pub const STREAM_LINGER: Duration = Duration::from_secs(5);
/// Bytes that wait for one side of a stream, beyond which nothing more is read of the other.
pub const STREAM_BACKLOG: usize = 256 * 1024;
/// News of a client before the other side gets its turn.
pub const STREAM_TURN: usize = 64;
/// Bytes that ports have not taken, of all connections of one port-forward, beyond which nothing more is read of its
/// client.
pub const FORWARD_WAITING: usize = 2 * 1024 * 1024;
/// A forwarded connection that takes nothing for so long, and so holds up others, is closed.
pub const FORWARD_STALL: Duration = Duration::from_secs(30);
/// Longest output of a command of `/run`, in bytes.
pub const RUN_OUTPUT: usize = 4 * 1024 * 1024;
/// How long a command of `/run` may take.
pub const RUN_PATIENCE: Duration = Duration::from_secs(120);

/// Longest SPDY control frame, in bytes; data frames are never held whole.
pub const SPDY_CONTROL: usize = 64 * 1024;
/// Longest header block of a SPDY frame when it is inflated, in bytes.
pub const SPDY_HEADERS: usize = 64 * 1024;
/// Most headers in such a block.
pub const SPDY_HEADER_COUNT: usize = 128;
/// Most SPDY streams open at once on a connection: two for each forwarded port's connection, and some to spare.
pub const SPDY_STREAMS: usize = 2 * FORWARDED + 16;
/// Bytes in a SPDY data frame that is sent.
pub const SPDY_DATA: usize = 32 * 1024;
/// Bytes taken of a stream before the peer is told so; half of the window with which SPDY/3.1 begins.
pub const SPDY_ACKNOWLEDGE: u32 = 32 * 1024;
/// Longest WebSocket message that is received, in bytes: it is held whole.
pub const WEBSOCKET_MESSAGE: usize = 4 * 1024 * 1024;
/// Bytes of a WebSocket connection that are looked at in one go.
pub const WEBSOCKET_READ: usize = 16 * 1024;
/// Bytes in a WebSocket message that is sent.
pub const WEBSOCKET_DATA: usize = 32 * 1024;
/// Bytes of one resize message that is not whole yet.
pub const RESIZE_MESSAGE: usize = 1024;
/// Most ports that one port-forward over WebSocket names: each has two channels, and a channel is a byte.
pub const FORWARDED_PORTS: usize = 100;
/// Most connections that one port-forward has open at once.
pub const FORWARDED: usize = 1024;
/// Longest number that a client gives a forwarded connection, in bytes.
pub const FORWARD_REQUEST: usize = 256;
/// Bytes that are kept of a forwarded connection whose second stream is not there yet; of all of them together
/// [`FORWARD_WAITING`].
pub const FORWARD_EARLY: usize = 64 * 1024;
/// Connections that `podkeeper port-forward` carries at once; more wait.
pub const CARRIED: usize = 256;
/// How long `podkeeper port-forward` takes no connection after the system refused it a descriptor.
pub const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of the stack of the thread that makes sockets in the network of a pod.
pub const NETNS_STACK: usize = 64 * 1024;

/// Bytes of memory that a stream keeps for the next ones.
pub const STREAM_KEPT: usize = 64 * 1024;
