//! Bodies that podkeeper sends to Docker: exactly the fields it sets, under Docker's own names.
//!
//! Plain data, filled in by `mapping`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::base::json::json;
use crate::base::table::Table;
use crate::node::devices::Device;

/// Body of an exec create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecBody {
    /// Attach standard input.
    pub attach_stdin: bool,
    /// Attach standard output.
    pub attach_stdout: bool,
    /// Attach standard error.
    pub attach_stderr: bool,
    /// Give the command a terminal.
    pub tty: bool,
    /// Command and arguments.
    pub cmd: Vec<String>,
}

/// Keys of a terminal that end its session, which nobody types: Docker's own, Ctrl-P and Ctrl-Q, would keep every Ctrl-P
/// back from the command until the next key.
pub const NO_DETACH_KEYS: &str = "ctrl-@,ctrl-_,ctrl-@,ctrl-_,ctrl-@";

impl ExecBody {
    /// As Docker takes it.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "AttachStdin": self.attach_stdin,
            "AttachStdout": self.attach_stdout,
            "AttachStderr": self.attach_stderr,
            "Tty": self.tty,
            "Cmd": self.cmd.clone(),
            "DetachKeys": NO_DETACH_KEYS,
        })
    }
}

/// Body of a container create: exactly the fields podkeeper sets. Absent means Docker's default.
///
/// `Debug` leaves out environment, command and arguments: they may hold secrets.
#[derive(Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
#[allow(missing_docs, reason = "Docker's own names, documented by its API")]
pub struct CreateBody {
    pub image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domainname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub open_stdin: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stdin_once: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub exposed_ports: Table<String, Empty>,
    pub labels: BTreeMap<String, String>,
    /// `{"Test":["NONE"]}`: disables the image's own health check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthcheck: Option<Healthcheck>,
    pub host_config: HostConfig,
    /// Names on a network, which the container joins at its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking_config: Option<NetworkingConfig>,
}

impl fmt::Debug for CreateBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("CreateBody");
        out.field("image", &self.image).field("labels", &self.labels).field("host_config", &self.host_config);
        out.finish_non_exhaustive()
    }
}

/// Serializes as `{}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Empty {}

/// Docker's health check block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Healthcheck {
    /// `["NONE"]` switches it off.
    pub test: Vec<String>,
}

/// `HostConfig` of a create.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
#[allow(missing_docs, reason = "Docker's own names, documented by its API")]
pub struct HostConfig {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    #[serde(flatten)]
    pub namespaces: Namespaces,
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub port_bindings: Table<String, Vec<PortBinding>>,
    #[serde(flatten)]
    pub resolver: Dns,
    pub restart_policy: RestartPolicyBody,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub privileged: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_opt: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group_add: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cap_add: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cap_drop: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub readonly_rootfs: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_requests: Vec<DeviceRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids_limit: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_score_adj: Option<i32>,
    #[serde(flatten)]
    pub resources: Resources,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cgroup_parent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_config: Option<LogConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
}

/// Body of a network create.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkBody {
    /// Name of the network.
    pub name: String,
    /// Refuses a second network of the same name; without this, Docker would create it.
    pub check_duplicate: bool,
    /// `bridge`.
    pub driver: &'static str,
    /// The network has IPv6 addresses too.
    #[serde(rename = "EnableIPv6")]
    pub enable_ipv6: bool,
    /// Subnets; Docker's choice when absent.
    #[serde(rename = "IPAM", skip_serializing_if = "Option::is_none")]
    pub ipam: Option<Ipam>,
    /// The podkeeper that owns it.
    pub labels: BTreeMap<String, String>,
}

/// Subnets of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Ipam {
    /// One entry for each subnet.
    pub config: Vec<Subnet>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Subnet {
    /// In CIDR notation.
    pub subnet: String,
}

/// A container's networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkingConfig {
    /// By the network's name.
    pub endpoints_config: Table<String, Endpoint>,
}

/// A container's endpoint in one network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Endpoint {
    /// Names by which other containers on that network find it.
    pub aliases: Vec<String>,
}

/// A file or directory of the host in the container. Its source must exist: unlike with `Binds`, Docker does
/// not create it. The colons of `Binds` would also limit the paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Mount {
    /// `bind` or `volume`.
    #[serde(rename = "Type")]
    pub kind: &'static str,
    /// Absolute path on the host; empty for a volume of the container's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Absolute path in the container.
    pub target: String,
    /// The container may not write to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Options of the bind; `None` for Docker's defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_options: Option<BindOptions>,
    /// Options of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_options: Option<VolumeOptions>,
}

impl Mount {
    /// A writable bind mount.
    #[must_use]
    pub fn bind(source: String, target: String) -> Mount {
        Mount { kind: "bind", source, target, read_only: false, bind_options: None, volume_options: None }
    }

    /// A volume that goes with the container, and has nothing of the image in it.
    #[must_use]
    pub fn empty_volume(target: String) -> Mount {
        let volume_options = Some(VolumeOptions { no_copy: true });
        Mount { kind: "volume", volume_options, ..Mount::bind(String::new(), target) }
    }
}

/// Options of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct VolumeOptions {
    /// Nothing is copied into it from the image.
    pub no_copy: bool,
}

/// Options of a bind mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindOptions {
    /// `rslave` or `rshared`; `None` for Docker's `rprivate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation: Option<&'static str>,
    /// Mounts below a read-only one stay as they are. From API 1.44 on; before, they always do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only_non_recursive: bool,
    /// Mounts below a read-only one must be read-only too. From API 1.44 on; before, they cannot be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only_force_recursive: bool,
}

/// The namespaces of a container: `host`, `container:ID`, or its own.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
#[allow(missing_docs, reason = "Docker's own names, documented by its API")]
pub struct Namespaces {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub network_mode: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ipc_mode: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pid_mode: String,
    #[serde(rename = "UTSMode", skip_serializing_if = "String::is_empty")]
    pub uts_mode: String,
}

/// Settings of a container's resolver file.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
#[allow(missing_docs, reason = "Docker's own names, documented by its API")]
pub struct Dns {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns_search: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns_options: Vec<String>,
}

/// Devices that a device driver of the engine provides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeviceRequest {
    /// `nvidia`.
    pub driver: &'static str,
    /// Number of devices.
    pub count: i64,
    /// Alternatives; each lists capabilities that are needed together.
    pub capabilities: Vec<Vec<&'static str>>,
}

/// The fields that may change while a container runs: the body of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Resources {
    /// Relative weight, 2 to 262144.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_shares: Option<i64>,
    /// Length of a period, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_period: Option<i64>,
    /// CPU time in each period, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<i64>,
    /// Memory limit, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Memory and swap together, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_swap: Option<i64>,
}

/// Docker's restart policy: podkeeper is the only restarter (invariant 9), so this is always `no`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RestartPolicyBody {
    /// `no`.
    pub name: &'static str,
}

impl Default for RestartPolicyBody {
    fn default() -> Self {
        RestartPolicyBody { name: "no" }
    }
}

/// A host port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PortBinding {
    /// Empty for all addresses.
    pub host_ip: String,
    /// Port number, decimal.
    pub host_port: String,
}

/// Log driver and its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LogConfig {
    /// Name of the driver; empty for the engine's default.
    #[serde(rename = "Type")]
    pub driver: String,
    /// Options of the driver.
    pub config: BTreeMap<String, String>,
}
