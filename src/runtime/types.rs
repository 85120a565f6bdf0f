//! Calls, replies and errors of the Docker API, as closed types shared by the real client and the fake.
//!
//! Plain data: no I/O, no policy. Field names keep Docker's words (API 1.40 and newer).

use std::collections::BTreeMap;
use std::fmt;

use crate::base::clock::Timestamp;
use crate::base::hex::short_ids;
use crate::runtime::body::{CreateBody, ExecBody, NetworkBody, Resources};

mod images;

pub use images::{DiskUsage, ImageDetail, ImageSummary};

/// Exit code of a process that SIGKILL or the OOM killer ended.
pub const KILLED: i64 = 137;

/// A short call: one request, one bounded answer, 10 s deadline ([`crate::base::limits::SHORT_CALL`]). Longer
/// ones (events, logs, attach, exec, pull, load) are methods of `docker::Docker`, not calls.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// `GET /info`.
    Info,
    /// `GET /containers/json?all=1` with label filters (`key=value` or `key`), all of which must match.
    List {
        /// Label filters.
        labels: Vec<String>,
    },
    /// `GET /containers/{id}/json`; `id` may be a name.
    Inspect {
        /// Container id or name.
        id: String,
    },
    /// The same, for where the container's files are; with `size` Docker also counts its writable layer, which takes
    /// it long.
    Files {
        /// Container id.
        id: String,
        /// Whether to count.
        size: bool,
    },
    /// `POST /containers/create?name=`.
    Create {
        /// Docker name, without the leading slash.
        name: String,
        /// Configuration of the container.
        body: Box<CreateBody>,
    },
    /// `POST /containers/{id}/start`.
    Start {
        /// Container id.
        id: String,
    },
    /// `POST /containers/{id}/kill?signal=`.
    Kill {
        /// Container id.
        id: String,
        /// `SIGTERM`, `SIGKILL`, a number …
        signal: String,
    },
    /// `DELETE /containers/{id}?v=1`.
    Remove {
        /// Container id.
        id: String,
        /// Kill the container if it runs.
        force: bool,
    },
    /// `POST /containers/{id}/update`.
    Update {
        /// Container id.
        id: String,
        /// Fields that are not set stay as they are.
        resources: Resources,
    },
    /// `POST /containers/{id}/rename?name=`.
    Rename {
        /// Container id.
        id: String,
        /// New name.
        name: String,
    },
    /// `GET /containers/{id}/logs`: the last lines of both streams.
    LogTail {
        /// Container id.
        id: String,
        /// Number of lines.
        lines: u32,
    },
    /// `POST /containers/{id}/resize`.
    Resize {
        /// Container id.
        id: String,
        /// Rows of the terminal.
        rows: u16,
        /// Columns of the terminal.
        columns: u16,
    },
    /// `POST /containers/{id}/exec`.
    ExecCreate {
        /// Container id.
        id: String,
        /// The command and its streams.
        body: ExecBody,
    },
    /// `GET /exec/{id}/json`.
    ExecInspect {
        /// Exec id.
        id: String,
    },
    /// `POST /exec/{id}/resize`.
    ExecResize {
        /// Exec id.
        id: String,
        /// Rows of the terminal.
        rows: u16,
        /// Columns of the terminal.
        columns: u16,
    },
    /// `GET /images/{name}/json`.
    ImageInspect {
        /// Reference or id.
        image: String,
    },
    /// `GET /images/json`: all images but the intermediate ones of builds.
    ImageList,
    /// `DELETE /images/{name}`: takes a name away, or with the last one the image; never by force. Large layers on
    /// slow flash need longer than a short call has ([`crate::base::limits::IMAGE_REMOVE`]).
    ImageRemove {
        /// Reference or id.
        image: String,
    },
    /// `GET /system/df`, for the build cache: engines before API 1.42 count everything else too, which takes long
    /// ([`crate::base::limits::DISK_USAGE`]).
    DiskUsage,
    /// `POST /build/prune?all=1`: all of the build cache that no build uses.
    BuildPrune,
    /// `GET /networks/{name}`.
    NetworkInspect {
        /// Name or id.
        name: String,
    },
    /// `POST /networks/create`.
    NetworkCreate {
        /// Configuration of the network.
        body: NetworkBody,
    },
    /// `GET /networks`.
    NetworkList {
        /// Label filters (`key` or `key=value`), all of which must match.
        labels: Vec<String>,
    },
    /// `DELETE /networks/{name}`; refused while containers run in it.
    NetworkRemove {
        /// Name or id.
        name: String,
    },
}

/// The answer to a [`Call`] that Docker carried out.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// 204 and other answers without content.
    Done,
    /// 304: the container was started, or stopped, already.
    Already,
    /// Answer to [`Call::List`].
    Containers(Vec<ContainerSummary>),
    /// Answer to [`Call::Inspect`].
    Container(Box<ContainerDetail>),
    /// Answer to [`Call::Files`].
    Files(Box<ContainerFiles>),
    /// Answer to [`Call::Create`].
    Created {
        /// 64 hex digits.
        id: String,
        /// Docker's warnings.
        warnings: Vec<String>,
    },
    /// Answer to [`Call::ExecCreate`].
    ExecCreated {
        /// Exec id.
        id: String,
    },
    /// Answer to [`Call::ExecInspect`].
    Exec(ExecDetail),
    /// Answer to [`Call::ImageInspect`].
    Image(ImageDetail),
    /// Answer to [`Call::ImageList`].
    Images(Vec<ImageSummary>),
    /// Answer to [`Call::DiskUsage`].
    DiskUsage(DiskUsage),
    /// Answer to [`Call::BuildPrune`]: so many bytes.
    Reclaimed(u64),
    /// Answer to [`Call::Info`].
    Info(Info),
    /// Answer to [`Call::NetworkList`].
    Networks(Vec<NetworkDetail>),
    /// Answer to [`Call::NetworkInspect`].
    Network(NetworkDetail),
    /// Answer to [`Call::LogTail`]: framed, or raw for a container with a terminal.
    Output(Vec<u8>),
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DockerError {
    /// The request was not sent: no socket, no permission, no listener. The call may be made again.
    Unreachable(String),
    /// No answer in time. Docker may have carried the call out: check before calling again.
    Timeout(String),
    /// A long call makes no progress, and Docker waits for another party; the text is complete.
    Stalled(String),
    /// The connection broke after the request was sent. Docker may have carried the call out.
    Lost(String),
    /// The answer is not HTTP, not JSON, or past a bound.
    BadAnswer(String),
    /// Docker speaks only versions older than 1.40 (or only newer than ours).
    Version(String),
    /// Docker refused.
    Refused(Refusal),
}

impl Refusal {
    /// A request that was not sent, for this reason.
    #[must_use]
    pub fn not_sent(message: String) -> DockerError {
        DockerError::Refused(Refusal { kind: RefusalKind::NotSent, status: 0, message })
    }
}

/// Docker's refusal, with the meanings that podkeeper acts upon (kubernetes/kubernetes#40443,
/// moby/moby#22312).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its meaning.
    pub kind: RefusalKind,
    /// HTTP status.
    pub status: u16,
    /// Docker's own message.
    pub message: String,
}

/// The meaning of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalKind {
    /// 404 about a container.
    NoSuchContainer,
    /// 404 about an image.
    NoSuchImage,
    /// 404 about something else.
    NotFound,
    /// 409: the name is taken, by this container id if Docker said so.
    NameInUse(Option<String>),
    /// 409: the container does not run (kill, exec).
    NotRunning,
    /// 409: the sandbox whose namespaces to join does not run.
    SandboxNotRunning,
    /// 409: the container is already being removed.
    RemovalInProgress,
    /// 409: the container runs and is not removed without force.
    StillRunning,
    /// Podman: other containers, even dead ones, still use its namespaces and must be removed first.
    HasDependents,
    /// 409: the image has several names, and is not removed by its id.
    SeveralNames,
    /// The container's log driver keeps nothing that could be read.
    LogNotKept,
    /// 409 of another kind.
    Conflict,
    /// 400: the request makes no sense to Docker; repeating it will not help.
    BadRequest,
    /// 400: the image's name does not parse.
    BadImageName,
    /// The command is not in the image, or not executable (400, or 500 in some versions).
    CannotRun,
    /// A host port is taken (500).
    PortInUse,
    /// From podkeeper itself: the request needs a resource of the node that is missing, and was not sent.
    NotSent,
    /// 500 and all other statuses.
    Server,
}

impl fmt::Display for DockerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DockerError::Unreachable(why) => write!(f, "Docker is not reachable: {why}"),
            DockerError::Timeout(what) => write!(f, "Docker did not answer in time: {}", short_ids(what)),
            DockerError::Stalled(why) => f.write_str(&short_ids(why)),
            DockerError::Lost(why) => write!(f, "connection to Docker lost: {}", short_ids(why)),
            DockerError::BadAnswer(why) => write!(f, "Docker's answer is not understood: {}", short_ids(why)),
            DockerError::Version(why) => f.write_str(why),
            DockerError::Refused(r) => f.write_str(&short_ids(&r.message)),
        }
    }
}

impl std::error::Error for DockerError {}

impl DockerError {
    /// The meaning of a refusal, if it is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&RefusalKind> {
        match self {
            DockerError::Refused(r) => Some(&r.kind),
            _ => None,
        }
    }
}

/// The state of a container, from Docker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DockerState {
    /// Created, never started (or its start failed: see the exit code).
    Created,
    /// Runs; `paused` and `restarting` count as this.
    Running,
    /// Has run and ended.
    Exited,
    /// `dead` or `removing`: stopped, and stuck on the way out (moby/moby#22312).
    Removing,
}

impl DockerState {
    /// Parses Docker's word, or libpod's. Unknown words count as exited: a state of a newer engine must not
    /// look alive.
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
}

/// An inspect of a container, reduced to what podkeeper uses.
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
    /// It runs, and the engine says that it has no time of its start, which it notes when a start is over: the
    /// engine ended in the middle of it. False where an engine leaves the time out.
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
    /// `HostConfig.NetworkMode`.
    pub network_mode: String,
    /// IPv4 first, then IPv6; of the first network that has any. Empty under `host` and `container:`.
    pub ips: Vec<String>,
    /// Number of networks it is on; `None` when the engine leaves them out.
    pub networks: Option<usize>,
    /// `LogPath`; empty when the log driver keeps no file.
    pub log_path: String,
    /// `HostConfig.LogConfig.Type`.
    pub log_driver: String,
    /// Resources of `HostConfig`, as far as they are set.
    pub resources: Resources,
    /// `HostConfig.CgroupParent`; empty for Docker's own.
    pub cgroup_parent: String,
    /// `HostConfig.PidsLimit`; `None` for no limit.
    pub pids_limit: Option<i64>,
}

/// Where a container's files are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerFiles {
    /// `GraphDriver.Data.UpperDir`: its writable layer as a directory; only some storage drivers have one.
    pub upper_dir: Option<String>,
    /// `LogPath`; empty when the log driver keeps no file, or does not say where.
    pub log_path: String,
    /// `HostConfig.LogConfig.Type`.
    pub log_driver: String,
    /// `SizeRw`: bytes of the writable layer, when it was counted.
    pub size: Option<u64>,
    /// `Source` of its `Mounts` of type `volume`: directories that Docker made for what its image declares as volumes.
    pub volumes: Vec<String>,
}

impl ContainerFiles {
    /// Whether there is a log whose place Docker does not tell: below its root directory, as it has been since it has
    /// the driver `local`.
    #[must_use]
    pub fn has_hidden_log(&self) -> bool {
        self.log_path.is_empty() && self.log_driver == "local"
    }
}

/// An inspect of a network, reduced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkDetail {
    /// Name of the network.
    pub name: String,
    /// In CIDR notation.
    pub subnets: Vec<String>,
    /// Labels of the network.
    pub labels: BTreeMap<String, String>,
}

/// The answer of `/info`, reduced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Info {
    /// `ServerVersion`.
    pub server_version: String,
    /// `cgroupfs` or `systemd`.
    pub cgroup_driver: String,
    /// `1` or `2`.
    pub cgroup_version: String,
    /// `Architecture` as Docker words it (`x86_64`).
    pub architecture: String,
    /// Kernel release.
    pub kernel_version: String,
    /// `DockerRootDir`: where images, layers and logs are; empty when the engine does not say.
    pub root_dir: String,
    /// Default log driver of the engine.
    pub logging_driver: String,
    /// Number of CPUs.
    pub cpus: i64,
    /// Memory in bytes.
    pub memory: i64,
}

/// State of an exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecDetail {
    /// The command runs; may lag behind the end of its stream. Also true as soon as Docker was told to start
    /// it.
    pub running: bool,
    /// containerd has not started the command's process yet.
    pub not_started: bool,
    /// `None` while unknown.
    pub exit_code: Option<i64>,
}
