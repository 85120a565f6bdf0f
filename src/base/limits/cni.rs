//! Bounds of network plugins (CNI).

use std::time::Duration;

/// How long all plugins of one network together may take to attach a pod (upstream: Mirantis/cri-dockerd's
/// `core/sandbox_run.go`, with the kubelet's default of `--runtime-request-timeout`).
pub const CNI_ADD: Duration = Duration::from_secs(220);
/// The same for detaching a pod: the pod's end waits for this.
pub const CNI_DEL: Duration = Duration::from_secs(60);
/// How long a plugin of an earlier daemon may take to end after it is killed.
pub const CNI_END: Duration = Duration::from_secs(5);
/// Bytes of a process's environment that are searched for the id of its sandbox.
pub const CNI_ENVIRONMENT: usize = 128 * 1024;
/// How long a plugin may take to report its versions.
pub const CNI_VERSION: Duration = Duration::from_secs(5);
/// How long all plugins may take to clean up after pods that are gone.
pub const CNI_GC: Duration = Duration::from_secs(60);
/// Longest configuration file, bytes.
pub const CNI_CONF: usize = 256 * 1024;
/// Most files of the configuration directory that are looked at.
pub const CNI_FILES: usize = 64;
/// Most plugins of one network.
pub const CNI_PLUGINS: usize = 32;
/// Longest output of a plugin, bytes; each is part of the input of the next one.
pub const CNI_OUTPUT: usize = 256 * 1024;
/// Most values in an output, and in a configuration.
pub const CNI_VALUES: usize = 16 * 1024;
/// Bytes of a plugin's standard error that are kept.
pub const CNI_WORDS: usize = 4 * 1024;
/// Longest record of an attached pod on the disk, bytes.
pub const CNI_RECORD: usize = 1024 * 1024;
/// Most records that are looked at.
pub const CNI_RECORDS: usize = 10_000;
/// Most pods on which plugins work at a time. A pod that has waited for [`CNI_TURN`] starts anyway, because others
/// may hang.
pub const CNI_AT_ONCE: usize = 4;
/// See [`CNI_AT_ONCE`].
pub const CNI_TURN: Duration = Duration::from_secs(10);
/// A plugin whose file is being written is run again after this time, at most [`CNI_BUSY_TRIES`] times.
pub const CNI_BUSY: Duration = Duration::from_secs(1);
/// See [`CNI_BUSY`].
pub const CNI_BUSY_TRIES: u32 = 6;
/// How often to check whether a plugin has ended, or is no longer wanted.
pub const CNI_LOOK: Duration = Duration::from_millis(200);
/// How often the configuration is checked while it is missing, as upstream.
pub const CNI_CONF_LOOK: Duration = Duration::from_secs(5);
/// Bytes that are read of a table of a pod's network namespace: processes in the pod may fill it.
pub const NAMESPACE_TABLE: usize = 256 * 1024;
/// Addresses of a pod's network namespace that are used.
pub const NAMESPACE_ADDRESSES: usize = 64;
/// How often a pod checks whether the network is ready.
pub const CNI_READY_ASK: Duration = Duration::from_secs(2);
/// The same before the first look at the network.
pub const CNI_READY_SOON: Duration = Duration::from_millis(100);
/// First wait after a pod could not be attached or detached; doubles to [`CNI_RETRY_MAX`].
pub const CNI_RETRY_MIN: Duration = Duration::from_secs(1);
/// See [`CNI_RETRY_MIN`].
pub const CNI_RETRY_MAX: Duration = Duration::from_secs(60);
/// A sandbox that could not be attached this many times is made again, because its namespace may be the cause.
pub const CNI_TRIES: u32 = 8;
/// How long the end of a sandbox waits for its network to be detached.
pub const CNI_LEAVE: Duration = Duration::from_secs(75);
