//! Containers in Docker's answers: an entry of the list, the used part of an inspect, the state.
//!
//! Plain data: no I/O, no policy. Field names keep Docker's words.

use std::collections::BTreeMap;

use crate::base::clock::Timestamp;
use crate::runtime::body::Resources;

/// The state of a container, from Docker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DockerState {
    /// Created, never started (or its start failed: see the exit code).
    Created,
    /// Runs; `paused` and `restarting` count as this.
    Running,
    /// Has run and ended.
    Exited,
    /// `dead` or `removing`: stopped, and stuck in its removal (moby/moby#22312).
    Removing,
}

impl DockerState {
    /// Parses Docker's word, or libpod's. Unknown words count as exited: a new state of a newer engine must
    /// not count as running.
    #[must_use]
    pub fn parse(word: &str) -> DockerState {
        match word {
            "created" | "configured" | "initialized" => DockerState::Created,
            "running" | "paused" | "restarting" | "stopping" => DockerState::Running,
            "dead" | "removing" => DockerState::Removing,
            _ => DockerState::Exited,
        }
    }
}

/// One entry of the container list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSummary {
    /// 64 hex digits.
    pub id: String,
    /// Name without the leading slash; the first one that is not a link.
    pub name: String,
    /// Reference it was created from.
    pub image: String,
    /// `sha256:…`.
    pub image_id: String,
    /// The labels that podkeeper reads.
    pub labels: BTreeMap<String, String>,
    /// State of the container.
    pub state: DockerState,
    /// `Up 5 minutes`, `Exited (0) 3 seconds ago` …
    pub status: String,
    /// Creation, in seconds of wall time.
    pub created: i64,
    /// Addresses, as [`ContainerDetail::ips`]; `None` when the engine leaves networks out.
    pub ips: Option<Vec<String>>,
    /// Names of the Docker networks that it is on; empty when the engine leaves them out.
    pub networks: Vec<String>,
    /// Bytes of the entry as Docker sent it, with the labels that podkeeper does not read.
    pub length: usize,
}

/// The used part of a container's inspect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerDetail {
    /// 64 hex digits.
    pub id: String,
    /// Name without the leading slash.
    pub name: String,
    /// Creation, wall time.
    pub created: Option<Timestamp>,
    /// State of the container.
    pub state: DockerState,
    /// The OOM killer killed a process of the container.
    pub oom_killed: bool,
    /// Exit code; 127/128 with state `created` after a failed start.
    pub exit_code: i64,
    /// `State.Error`.
    pub error: String,
    /// `None` when never started.
    pub started_at: Option<Timestamp>,
    /// It runs, but the engine reports no start time: the engine writes the time at the end of a start, so it
    /// was killed in the middle of it. False for an engine that leaves the time out.
    pub start_unfinished: bool,
    /// `None` when never ended.
    pub finished_at: Option<Timestamp>,
    /// `sha256:…`.
    pub image_id: String,
    /// `Config.Image`: reference it was created from.
    pub image: String,
    /// `Config.Labels`.
    pub labels: BTreeMap<String, String>,
    /// `Config.StopSignal`.
    pub stop_signal: Option<String>,
    /// `Config.Tty`.
    pub tty: bool,
    /// IPv4 first, then IPv6; from the first network that has addresses. Empty under `host` and `container:`.
    pub ips: Vec<String>,
    /// Number of networks it is on; `None` when the engine leaves them out.
    pub networks: Option<usize>,
    /// `LogPath`; empty when the log driver keeps no file.
    pub log_path: String,
    /// `HostConfig`.
    pub host_config: HostDetail,
}

/// `HostConfig` of an inspect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostDetail {
    /// `NetworkMode`.
    pub network_mode: String,
    /// `LogConfig.Type`.
    pub log_driver: String,
    /// Its resources, if set.
    pub resources: Resources,
    /// Empty for Docker's default.
    pub cgroup_parent: String,
    /// `None` for no limit.
    pub pids_limit: Option<i64>,
}

/// Where a container's files are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerFiles {
    /// `GraphDriver.Data.UpperDir`: its writable layer as a directory; only some storage drivers have one.
    pub upper_dir: Option<String>,
    /// `LogPath`; empty when the log driver keeps no file, or does not report it.
    pub log_path: String,
    /// `HostConfig.LogConfig.Type`.
    pub log_driver: String,
    /// `SizeRw`: bytes of the writable layer, if it was counted.
    pub size: Option<u64>,
    /// `Source` of its `Mounts` of type `volume`: directories that Docker created for the volumes that its image
    /// declares.
    pub volumes: Vec<String>,
    /// `HostnamePath`, `HostsPath` and `ResolvConfPath`: files that Docker mounts into all containers of one sandbox,
    /// which may all write to them.
    pub shared: Vec<String>,
}

impl ContainerFiles {
    /// Whether there is a log whose path Docker does not report: the driver `local` has always kept it below Docker's
    /// root directory.
    #[must_use]
    pub fn has_hidden_log(&self) -> bool {
        self.log_path.is_empty() && self.log_driver == "local"
    }
}
