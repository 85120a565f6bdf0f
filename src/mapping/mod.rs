//! Maps a desired pod to the bodies of Docker's create calls (cri-dockerd's `core/sandbox_run.go`,
//! `core/container_create.go`). Pure: no image is looked up, no container is created, and the mapping cannot
//! fail. Fields that cannot be mapped were refused or reported by `manifest/`; a field that is not mentioned
//! here is not set, so that Docker's default applies.
//!
//! Hostname, ports and resolver settings belong to the sandbox only: on a container that joins its network
//! they make the create fail.

pub mod env;
pub mod ephemeral;
pub mod image_volumes;
pub mod logs;
pub mod mounts;
pub mod needs;
pub mod network;
pub mod observe;
pub mod record;
pub mod resources;
pub mod security;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;

use crate::base::json;
use crate::base::limits;
use crate::base::order;
use crate::layout;
use crate::manifest::hash;
use crate::manifest::static_pod::CONFIG_SEEN;
use crate::mapping::env::Expanded;
use crate::mapping::logs::LogSettings;
use crate::mapping::mounts::Mounts;
use crate::mapping::needs::{Create, Needs};
use crate::network::{NetworkConfig, files};
use crate::node::{devices, runtimes};
use crate::plan::StartRef;
use crate::pod::{ContainerKind, DesiredPod, init_kind, sizes};
use crate::policy::Policies;
use crate::runtime::{CreateBody, DeviceRequest, Healthcheck, HostConfig, Mount, Namespaces, labels, names};
use crate::termination::{self, LogFile};
use crate::volumes::Parts;

/// Settings of the node that the mapping needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapConfig {
    /// `--root-dir`: marks our containers.
    pub root_dir: String,
    /// Lowest allowed `oom_score_adj`: [`crate::node::sys::oom_floor`].
    pub oom_floor: i32,
    /// Image of the sandbox.
    pub infra_image: String,
    /// Memory of the node, bytes.
    pub node_memory: i64,
    /// Settings for the output of containers.
    pub logs: LogSettings,
    pub node_name: String,
    /// The node's network.
    pub network: NetworkConfig,
    /// The policy of each source's pods; here: the host paths that they may mount.
    pub policies: Arc<Policies>,
}

/// The create call of a pod's sandbox.
#[must_use]
pub fn sandbox(pod: &DesiredPod, attempt: u32, config: &MapConfig) -> Create {
    let mut host = HostConfig {
        namespaces: Namespaces {
            ipc_mode: if flag(pod.spec.host_ipc) { "host".into() } else { "shareable".into() },
            pid_mode: if flag(pod.spec.host_pid) { "host".into() } else { String::new() },
            ..Namespaces::default()
        },
        security_opt: vec!["no-new-privileges".into()],
        privileged: pod.containers().any(|(_, c)| privileged(c)),
        // Its writable layer would count for no container: a container that shares its processes could write there
        // without a limit.
        readonly_rootfs: true,
        log_config: Some(config.logs.config(&pod.key, labels::SANDBOX_NAME)),
        runtime: runtimes::written(pod).unwrap_or_default().to_owned(),
        ..HostConfig::default()
    };
    resources::apply_sandbox(&mut host, config.oom_floor);
    let mut body = CreateBody {
        image: config.infra_image.clone(),
        labels: sandbox_labels(pod, attempt, config),
        healthcheck: Some(no_healthcheck()),
        host_config: host,
        ..CreateBody::default()
    };
    let network = network::sandbox(&mut body, pod, &config.network, &config.node_name);
    security::apply_sandbox(&mut body, pod);
    let needs = Needs { network: Some(network), ..Needs::default() };
    Create { name: names::sandbox(&pod.key, &pod.uid, attempt), body: Box::new(body), needs }
}

/// The input that is prepared before the create of one container.
#[derive(Debug)]
pub struct Ready<'a> {
    /// From [`crate::mapping::env::expand`].
    pub expanded: Expanded,
    /// The known addresses of the pod.
    pub ips: &'a [String],
    /// From [`mounts::of`].
    pub mounts: Mounts,
}

/// The create call of one container that joins the sandbox; `None` when the pod has no container at that
/// index.
#[must_use]
pub fn container(
    pod: &DesiredPod,
    at: StartRef,
    attempt: u32,
    sandbox_id: &str,
    ready: Ready<'_>,
    config: &MapConfig,
) -> Option<Create> {
    let Ready { expanded, ips, mounts } = ready;
    let (kind, spec) = match at.kind {
        ContainerKind::Regular => (ContainerKind::Regular, pod.spec.containers.get(at.index)?),
        ContainerKind::Init | ContainerKind::Sidecar => {
            let spec = pod.init_containers().get(at.index)?;
            (init_kind(spec), spec)
        }
        // `podkeeper debug` and `kubectl debug` create these.
        ContainerKind::Ephemeral => return None,
    };
    let mut host = HostConfig {
        namespaces: joined(pod, sandbox_id, None),
        privileged: privileged(spec),
        log_config: Some(config.logs.config(&pod.key, &spec.name)),
        runtime: runtimes::written(pod).unwrap_or_default().to_owned(),
        ..HostConfig::default()
    };
    resources::apply(&mut host, pod, kind, spec, config.node_memory, config.oom_floor);
    let termination_file = LogFile { uid: pod.uid.clone(), container: spec.name.clone(), attempt };
    let termination_path = termination_file.path(Path::new(&config.root_dir));
    let shown = spec.termination_message_path.as_deref().filter(|path| !path.is_empty());
    let termination_mount = termination_path.zip(shown).map(|(source, shown)| {
        Mount::bind(source.to_string_lossy().into_owned(), termination::target(shown))
    });
    // A volume mounted at the same path takes precedence.
    let termination_mount =
        termination_mount.filter(|own| !mounts.mounts.iter().any(|mount| mount.target == own.target));
    let termination_file = termination_mount.is_some().then_some(termination_file);
    host.mounts = mounts.mounts;
    host.mounts.extend(termination_mount);
    let mut body = CreateBody {
        image: image(spec).into(),
        entrypoint: expanded.command,
        cmd: expanded.args,
        env: expanded.env,
        working_dir: spec.working_dir.clone().filter(|dir| !dir.is_empty()),
        open_stdin: flag(spec.stdin),
        stdin_once: flag(spec.stdin_once),
        tty: flag(spec.tty),
        stop_signal: spec.lifecycle.as_ref().and_then(|l| l.stop_signal.clone()).filter(|s| !s.is_empty()),
        labels: container_labels(pod, spec, (kind, at.index), attempt, sandbox_id, config),
        healthcheck: Some(no_healthcheck()),
        host_config: host,
        ..CreateBody::default()
    };
    let hosts_path = files::path(Path::new(&config.root_dir), &pod.uid, layout::HOSTS);
    let hosts_path = hosts_path.to_string_lossy().into_owned();
    let network = network::container(&mut body, pod, spec, ips, &config.network, hosts_path);
    let seccomp_profile = security::apply(&mut body, pod, spec);
    body.host_config.devices = devices::of_container(pod, spec);
    let gpus = devices::gpus(spec);
    if gpus > 0 {
        let request = DeviceRequest { driver: "nvidia", count: gpus, capabilities: vec![vec!["gpu"]] };
        body.host_config.device_requests.push(request);
    }
    let needs = Needs {
        termination_file,
        network: Some(network),
        seccomp_profile,
        parts: Parts { sub_paths: mounts.sub_paths, image_volumes: Vec::new() },
    };
    let name = names::container(&pod.key, &pod.uid, &spec.name, attempt);
    Some(Create { name, body: Box::new(body), needs })
}

/// The name of a kind in label [`labels::KIND`].
#[must_use]
pub fn kind_word(kind: ContainerKind) -> &'static str {
    match kind {
        ContainerKind::Init => "init",
        ContainerKind::Sidecar => "sidecar",
        ContainerKind::Regular => "regular",
        ContainerKind::Ephemeral => "ephemeral",
    }
}

fn flag(value: Option<bool>) -> bool {
    value.unwrap_or(false)
}

fn image(container: &Container) -> &str {
    container.image.as_deref().unwrap_or("")
}

fn privileged(container: &Container) -> bool {
    container.security_context.as_ref().is_some_and(|context| flag(context.privileged))
}

/// The namespaces of a container that joins a sandbox; with `target`, it shares that container's process namespace.
fn joined(pod: &DesiredPod, sandbox: &str, target: Option<&str>) -> Namespaces {
    let joined = format!("container:{sandbox}");
    let pid_mode = match target {
        Some(target) => format!("container:{target}"),
        None if flag(pod.spec.host_pid) => "host".into(),
        None if flag(pod.spec.share_process_namespace) => joined.clone(),
        None => String::new(),
    };
    Namespaces {
        uts_mode: if pod.host_network() { "host".into() } else { String::new() },
        pid_mode,
        ipc_mode: joined.clone(),
        network_mode: joined,
    }
}

/// Disables the image's own health check, which would wake the node for a result that podkeeper does not use.
fn no_healthcheck() -> Healthcheck {
    Healthcheck { test: vec!["NONE".into()] }
}

/// The pod's own labels and annotations, as far as there is room, overridden by podkeeper's. Docker sends
/// all labels of a container with each of its events and in every list, so long ones are left out.
fn sandbox_labels(pod: &DesiredPod, attempt: u32, config: &MapConfig) -> BTreeMap<String, String> {
    let theirs = pod.metadata.labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
    // For these keys only the annotations are used, which podkeeper writes.
    let theirs =
        theirs.filter(|(key, _)| ![labels::ASSIGNED_DEVICES, labels::RUNTIME].contains(&key.as_str()));
    let notes = pod.metadata.annotations.iter().flatten();
    let notes = notes.map(|(key, value)| (format!("{}{key}", labels::ANNOTATION), value.clone()));
    let mut room = limits::LABELS_COPIED;
    let copied = theirs.chain(notes).filter(|(key, value)| {
        let length = key.len().saturating_add(value.len());
        let fits = !labels::is_read(key) && value.len() <= limits::LABEL_COPIED && length <= room;
        room = room.saturating_sub(if fits { length } else { 0 });
        fits
    });
    let mut all = order::map(copied);
    put(&mut all, labels::TYPE, labels::TYPE_SANDBOX);
    put(&mut all, labels::CONTAINER_NAME, labels::SANDBOX_NAME);
    put(&mut all, labels::SANDBOX_ATTEMPT, attempt.to_string());
    put(&mut all, labels::HOST_NETWORK, pod.host_network().to_string());
    let devices = pod.metadata.annotations.as_ref().and_then(|all| all.get(devices::ASSIGNED));
    put(&mut all, labels::ASSIGNED_DEVICES, devices.cloned().unwrap_or_default());
    if let Some(runtime) = runtimes::written(pod) {
        put(&mut all, labels::RUNTIME, runtime);
    }
    let seen = pod.metadata.annotations.as_ref().and_then(|all| all.get(CONFIG_SEEN));
    put(&mut all, labels::SEEN, seen.cloned().unwrap_or_default());
    // A pod without a shape is not resized.
    if pod.shape.is_some() {
        put_short(&mut all, labels::SIZES, sizes::text(&pod.spec));
    }
    pod_labels(&mut all, pod, config);
    seal(&mut all);
    all
}

fn container_labels(
    pod: &DesiredPod,
    spec: &Container,
    (kind, index): (ContainerKind, usize),
    attempt: u32,
    sandbox_id: &str,
    config: &MapConfig,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    put(&mut all, labels::TYPE, labels::TYPE_CONTAINER);
    put(&mut all, labels::SANDBOX_ID, sandbox_id);
    put(&mut all, labels::SEALED, sandbox_id);
    put(&mut all, labels::CONTAINER_NAME, &*spec.name);
    put(&mut all, labels::KIND, format!("{}.{index}", kind_word(kind)));
    put(&mut all, labels::HASH, format!("{:x}", hash::container_hash(&spec.name, image(spec))));
    put(&mut all, labels::RESTART_COUNT, attempt.to_string());
    if let Some(path) = &spec.termination_message_path {
        put_short(&mut all, labels::TERMINATION_MESSAGE_PATH, path.clone());
    }
    if let Some(policy) = &spec.termination_message_policy {
        put(&mut all, labels::TERMINATION_MESSAGE_POLICY, &**policy);
    }
    if let Some(seconds) = pod.metadata.deletion_grace_period_seconds {
        put(&mut all, labels::DELETION_GRACE, seconds.to_string());
    }
    if let Some(seconds) = pod.spec.termination_grace_period_seconds {
        put(&mut all, labels::TERMINATION_GRACE, seconds.to_string());
    }
    if let Some(handler) = spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref()) {
        put_short(&mut all, labels::PRE_STOP, json::text(handler));
    }
    if let Some(ports) = spec.ports.as_ref().filter(|ports| !ports.is_empty()) {
        put_short(&mut all, labels::PORTS, json::text(ports));
    }
    pod_labels(&mut all, pod, config);
    seal(&mut all);
    all
}

/// The labels of every object of a pod.
fn pod_labels(all: &mut BTreeMap<String, String>, pod: &DesiredPod, config: &MapConfig) {
    put(all, labels::POD_NAME, &*pod.key.name);
    put(all, labels::POD_NAMESPACE, &*pod.key.namespace);
    put(all, labels::POD_UID, &*pod.uid);
    put(all, labels::ROOT_DIR, &*config.root_dir);
    put(all, labels::SOURCE, pod.source.as_str());
    put(all, labels::ORIGIN, &*pod.origin.path);
    if let Some(written) = &pod.written {
        put(all, labels::WRITTEN, &**written);
    }
    if let Some(shape) = &pod.shape {
        put(all, labels::SHAPE, &**shape);
    }
}

/// Writes every label that is read back, empty if it has no value: otherwise Docker would use the
/// image's label. So a label that is read back never comes from an image.
fn seal(all: &mut BTreeMap<String, String>) {
    for key in labels::OURS {
        all.entry((*key).to_owned()).or_default();
    }
}

/// Adds a value whose length the manifest determines, unless it is too long. Without it, an orphaned
/// container stops without its preStop hook.
fn put_short(all: &mut BTreeMap<String, String>, key: &str, value: String) {
    if value.len() <= limits::LABEL_OURS {
        put(all, key, value);
    }
}

fn put(all: &mut BTreeMap<String, String>, key: &str, value: impl Into<String>) {
    all.insert(key.into(), value.into());
}

#[cfg(test)]
pub(crate) mod tests;
