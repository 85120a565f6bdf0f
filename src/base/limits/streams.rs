//! Bounds of the streaming protocols: SPDY and WebSocket connections of exec, attach and port-forward.

use std::time::Duration;

/// How long the client may take to create its streams; the kubelet's streamCreationTimeout.
pub const STREAMS_CREATED: Duration = Duration::from_secs(30);
/// A stream without traffic for this long is closed; the kubelet's streamingConnectionIdleTimeout.
pub const STREAM_IDLE: Duration = Duration::from_secs(4 * 60 * 60);
/// An attach whose output waits for this long, while less than [`ATTACH_PACE`] of it is taken, is ended: the container waits in
/// its writes, and Docker does not see its end.
pub const ATTACH_STALL: Duration = Duration::from_secs(10);
/// Bytes; as much as may wait on the way from the container to the client.
pub const ATTACH_PACE: usize = 1024 * 1024;
/// How long the output is awaited of a container that ended while it was attached to.
pub const ATTACH_LAST: Duration = Duration::from_secs(2);
/// How long a container may have lived whose output an attach may have missed.
pub const ATTACH_MISSED: Duration = Duration::from_secs(10);
/// Bytes that `podkeeper attach` writes at once: a pipe that can be written to takes as many without waiting.
pub const ATTACH_PIECE: usize = 4096;
/// Pause of `podkeeper attach` while a terminal has too little room.
pub const ATTACH_PAUSE: Duration = Duration::from_millis(10);
/// How long a client may take to close a connection after it was told the end: megabytes wait in the kernel for a slow reader,
/// and kubectl is silent until it has read the answer to its ping behind them.
pub const STREAM_LINGER: Duration = Duration::from_secs(5 * 60);
/// The same when it was told that it has lost its streams.
pub const STREAM_LINGER_SHORT: Duration = Duration::from_secs(5);
/// Bytes that wait for one side of a stream; beyond that, the other side is not read.
pub const STREAM_BACKLOG: usize = 256 * 1024;
/// Messages from a client that are handled before the other side is served.
pub const STREAM_TURN: usize = 64;
/// Bytes that wait for ports, for all connections of one port-forward; beyond that, its client is not read.
pub const FORWARD_WAITING: usize = 2 * 1024 * 1024;
/// A forwarded connection that accepts no data for this long, and so delays others, is closed.
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
/// Bytes of a stream that are consumed before the peer is notified; half of SPDY/3.1's initial window.
pub const SPDY_ACKNOWLEDGE: u32 = 32 * 1024;
/// Longest WebSocket message that is received, in bytes: it is buffered whole.
pub const WEBSOCKET_MESSAGE: usize = 4 * 1024 * 1024;
/// Bytes of a WebSocket connection that are parsed at once.
pub const WEBSOCKET_READ: usize = 16 * 1024;
/// Bytes in a WebSocket message that is sent.
pub const WEBSOCKET_DATA: usize = 32 * 1024;
/// Bytes of one incomplete resize message.
pub const RESIZE_MESSAGE: usize = 1024;
/// Most ports of one port-forward over WebSocket: each has two channels, and the channel number is one byte.
pub const FORWARDED_PORTS: usize = 100;
/// Most connections that one port-forward has open at once.
pub const FORWARDED: usize = 1024;
/// Longest number of a forwarded connection that a client may use, in bytes.
pub const FORWARD_REQUEST: usize = 256;
/// Bytes that are kept for a forwarded connection whose second stream is missing; for all of them together
/// [`FORWARD_WAITING`].
pub const FORWARD_EARLY: usize = 64 * 1024;
/// Connections that `podkeeper port-forward` serves at a time; more have to wait.
pub const CARRIED: usize = 256;
/// How long `podkeeper port-forward` accepts no connection after the system refused it a descriptor.
pub const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Stack of the thread that creates sockets in a pod's network, bytes.
pub const NETNS_STACK: usize = 64 * 1024;

/// Bytes of memory that a stream keeps for reuse.
pub const STREAM_KEPT: usize = 64 * 1024;
