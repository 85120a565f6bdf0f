//! Calls, replies and errors of the Docker API, as closed types shared by the real client and the fake.
//!
//! Plain data: no I/O, no policy. Field names keep Docker's words (API 1.40 and newer).

use std::collections::BTreeMap;

use crate::runtime::body::{CreateBody, ExecBody, NetworkBody, Resources};

mod answer;
mod container;
mod error;
mod images;

pub use container::{ContainerDetail, ContainerFiles, ContainerSummary, DockerState, HostDetail};
pub use error::{DockerError, Refusal, RefusalKind};
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
    /// The same request, for the places of the container's files; with `size` Docker also counts its writable layer,
    /// which takes long.
    Files {
        /// Container id.
        id: String,
        /// Whether to count the writable layer.
        size: bool,
    },
    /// The same request, for the id of its first process.
    Process {
        /// Container id.
        id: String,
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
    /// `GET /images/json`: the images.
    ImageList {
        /// Also the intermediate ones of builds, which have no name and from which others were made.
        all: bool,
    },
    /// `DELETE /images/{name}`: removes a name, or with the last one the image; never by force. Large layers on slow
    /// flash need longer than a short call may take ([`crate::base::limits::IMAGE_REMOVE`]).
    ImageRemove {
        /// Reference or id.
        image: String,
    },
    /// `POST /images/{id}/tag`.
    ImageTag {
        /// Reference or id.
        image: String,
        /// The further name, with a tag.
        name: String,
    },
    /// `GET /system/df`, for the build cache: engines before API 1.42 count everything else, too, which takes long
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
    /// Answer to [`Call::Process`]: `None` when the container does not run.
    Process(Option<u32>),
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
    /// Answer to [`Call::BuildPrune`]: number of bytes.
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

/// The used part of a network's inspect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkDetail {
    /// Name of the network.
    pub name: String,
    /// In CIDR notation.
    pub subnets: Vec<String>,
    /// Labels of the network.
    pub labels: BTreeMap<String, String>,
}

/// The used part of the answer of `/info`.
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
    /// `DockerRootDir`: where images, layers and logs are; empty when the engine does not report it.
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
    /// The command runs; may lag behind the end of its stream. Also true as soon as Docker was asked to
    /// start it.
    pub running: bool,
    /// containerd has not started the command's process yet.
    pub not_started: bool,
    /// `None` while unknown.
    pub exit_code: Option<i64>,
}
