//! Parsing of Docker's answers. Pure: takes status and body, returns [`Reply`] or [`DockerError`].
//!
//! Fields that are missing, null or of another type are read as empty: an engine that drops a field of its
//! inspect must not stop a node (balena-os/meta-balena#2062). Only a missing id or state makes a bad answer:
//! a guessed state could look like a dead container.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Deserializer as _;
use serde_json::{Map, Value};

use super::list::{ListReader, Listed};
use super::refusal::refusal;
use super::types::{
    Call, ContainerDetail, ContainerFiles, ContainerSummary, DiskUsage, DockerError, DockerState, ExecDetail,
    HostDetail, ImageDetail, ImageSummary, Info, NetworkDetail, Reply,
};
use crate::base::clock::Timestamp;
use crate::base::json::items::Each;
use crate::base::order;
use crate::runtime::Resources;

/// The form of the answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Only the status matters.
    Done,
    /// [`Reply::Containers`].
    Containers,
    /// [`Reply::Container`].
    Container,
    /// [`Reply::Files`].
    Files,
    /// [`Reply::Process`].
    Process,
    /// [`Reply::Created`].
    Created,
    /// [`Reply::ExecCreated`].
    ExecCreated,
    /// [`Reply::Exec`].
    Exec,
    /// [`Reply::Image`].
    Image,
    /// [`Reply::Images`].
    Images,
    /// [`Reply::DiskUsage`].
    DiskUsage,
    /// [`Reply::Reclaimed`].
    Reclaimed,
    /// [`Reply::Info`].
    Info,
    /// [`Reply::Networks`].
    Networks,
    /// [`Reply::Network`].
    Network,
    /// [`Reply::Output`].
    Output,
}

impl Form {
    /// The form of the answer to `call`.
    #[must_use]
    pub fn of(call: &Call) -> Form {
        match call {
            Call::Start { .. }
            | Call::Kill { .. }
            | Call::Remove { .. }
            | Call::Rename { .. }
            | Call::Update { .. }
            | Call::Resize { .. }
            | Call::ExecResize { .. }
            | Call::ImageRemove { .. }
            | Call::ImageTag { .. }
            | Call::NetworkCreate { .. }
            | Call::NetworkRemove { .. } => Form::Done,
            Call::List { .. } => Form::Containers,
            Call::Inspect { .. } => Form::Container,
            Call::Files { .. } => Form::Files,
            Call::Process { .. } => Form::Process,
            Call::Create { .. } => Form::Created,
            Call::ExecCreate { .. } => Form::ExecCreated,
            Call::ExecInspect { .. } => Form::Exec,
            Call::ImageInspect { .. } => Form::Image,
            Call::ImageList { .. } => Form::Images,
            Call::DiskUsage => Form::DiskUsage,
            Call::BuildPrune => Form::Reclaimed,
            Call::Info => Form::Info,
            Call::LogTail { .. } => Form::Output,
            Call::NetworkList { .. } => Form::Networks,
            Call::NetworkInspect { .. } => Form::Network,
        }
    }
}

/// Parses the answer to a call. `what` names the call in an error.
///
/// # Errors
/// [`DockerError::Refused`] or [`DockerError::Version`] by status; [`DockerError::BadAnswer`] when the
/// body is not the JSON it must be.
pub fn reply(form: Form, what: &str, status: u16, body: &[u8]) -> Result<Reply, DockerError> {
    if status == 304 && form == Form::Done {
        return Ok(Reply::Already);
    }
    if !(200..300).contains(&status) {
        return Err(refusal(status, body));
    }
    let bad = |why: &dyn fmt::Display| DockerError::BadAnswer(format!("{what}: {why}"));
    let value = || serde_json::from_slice::<Value>(body).map_err(|e| bad(&e));
    let missing = |field: &'static str| bad(&format_args!("the answer has no {field}"));
    Ok(match form {
        Form::Done => Reply::Done,
        Form::Output => Reply::Output(body.to_vec()),
        Form::Containers | Form::Images => {
            let what = if form == Form::Images { Listed::Images } else { Listed::Containers };
            let mut list = ListReader::of(what);
            list.feed(body).and_then(|()| list.reply()).map_err(|e| bad(&e))?
        }
        Form::Container => Reply::Container(Box::new(container(value()?).map_err(missing)?)),
        Form::Files => Reply::Files(Box::new(files(&value()?))),
        Form::Process => Reply::Process(process(&value()?)),
        Form::Created => {
            let value = value()?;
            let id = id(&value, "/Id").ok_or_else(|| missing("Id"))?;
            Reply::Created { id, warnings: strings(&value, "/Warnings") }
        }
        Form::ExecCreated => Reply::ExecCreated { id: id(&value()?, "/Id").ok_or_else(|| missing("Id"))? },
        Form::Exec => {
            let value = value()?;
            let running = value.get("Running").and_then(Value::as_bool).ok_or_else(|| missing("Running"))?;
            let exit_code = value.get("ExitCode").and_then(Value::as_i64);
            let not_started = value.get("Pid").and_then(Value::as_i64) == Some(0);
            Reply::Exec(ExecDetail { running, not_started, exit_code })
        }
        Form::Image => Reply::Image(image(value()?).ok_or_else(|| missing("Id"))?),
        Form::DiskUsage => Reply::DiskUsage(disk_usage(&value()?)),
        Form::Reclaimed => Reply::Reclaimed(bytes(&value()?, "SpaceReclaimed")),
        Form::Info => Reply::Info(info(&value()?)),
        Form::Networks => Reply::Networks(each(body, |value| Some(network(&value))).map_err(|e| bad(&e))?),
        Form::Network => Reply::Network(network(&value()?)),
    })
}

fn network(value: &Value) -> NetworkDetail {
    let configs = value.pointer("/IPAM/Config").and_then(Value::as_array);
    let subnets = configs.into_iter().flatten().filter_map(|each| each.get("Subnet")?.as_str());
    let labels = value.get("Labels").and_then(Value::as_object).into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    NetworkDetail {
        name: value.get("Name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        labels: order::map(labels),
        subnets: subnets.map(str::to_owned).collect(),
    }
}

/// Reads an array one element at a time, so that a list of thousands is never held twice. `null` is an empty
/// list; an element for which `read` returns `None` is left out.
fn each<T>(body: &[u8], read: fn(Value) -> Option<T>) -> Result<Vec<T>, serde_json::Error> {
    let mut all = Vec::new();
    let mut json = serde_json::Deserializer::from_slice(body);
    json.deserialize_any(Each(&mut |value| all.extend(read(value))))?;
    json.end()?;
    Ok(all)
}

/// An entry of the list of containers; `length` is that of the entry, bytes.
pub(super) fn summary(mut value: Value, length: usize) -> Option<ContainerSummary> {
    let status = text(&value, "/Status");
    let state = match value.get("State").and_then(Value::as_str) {
        Some(word) => DockerState::parse(word),
        None => state_of_status(&status),
    };
    let names = strings(&value, "/Names");
    let plain = |name: &&String| !name.trim_start_matches('/').contains('/');
    let name = names.iter().find(plain).or(names.first());
    Some(ContainerSummary {
        id: id(&value, "/Id")?,
        name: name.map(|n| bare(n)).unwrap_or_default(),
        image: text(&value, "/Image"),
        image_id: text(&value, "/ImageID"),
        labels: labels(value.get_mut("Labels")),
        state,
        status,
        created: value.get("Created").and_then(Value::as_i64).unwrap_or(0),
        ips: networks(&value).map(|_| ips(&value)),
        networks: networks(&value).map(|all| all.keys().cloned().collect()).unwrap_or_default(),
        length,
    })
}

/// The state from the human-readable status, for engines that leave `State` out.
fn state_of_status(status: &str) -> DockerState {
    match status.split(' ').next().unwrap_or_default() {
        "Up" | "Restarting" => DockerState::Running,
        "Created" => DockerState::Created,
        "Dead" | "Removal" => DockerState::Removing,
        _ => DockerState::Exited,
    }
}

fn container(mut value: Value) -> Result<ContainerDetail, &'static str> {
    let started_at = time(&value, "/State/StartedAt");
    let finished_at = time(&value, "/State/FinishedAt");
    let flag = |at: &str| value.pointer(at).and_then(Value::as_bool);
    let state = match value.pointer("/State/Status").and_then(Value::as_str) {
        Some(word) => DockerState::parse(word),
        None => match flag("/State/Running").ok_or("State.Status")? {
            true => DockerState::Running,
            false if flag("/State/Dead") == Some(true) => DockerState::Removing,
            false if started_at.is_none() && finished_at.is_none() => DockerState::Created,
            false => DockerState::Exited,
        },
    };
    Ok(ContainerDetail {
        id: id(&value, "/Id").ok_or("Id")?,
        name: bare(&text(&value, "/Name")),
        created: time(&value, "/Created"),
        state,
        oom_killed: flag("/State/OOMKilled").unwrap_or(false),
        exit_code: value.pointer("/State/ExitCode").and_then(Value::as_i64).unwrap_or(0),
        error: text(&value, "/State/Error"),
        start_unfinished: state == DockerState::Running && is_zero_time(&value, "/State/StartedAt"),
        started_at,
        finished_at,
        image_id: text(&value, "/Image"),
        image: text(&value, "/Config/Image"),
        stop_signal: some_text(&value, "/Config/StopSignal"),
        tty: flag("/Config/Tty").unwrap_or(false),
        ips: ips(&value),
        networks: networks(&value).map(Map::len),
        log_path: text(&value, "/LogPath"),
        host_config: HostDetail {
            network_mode: text(&value, "/HostConfig/NetworkMode"),
            log_driver: text(&value, "/HostConfig/LogConfig/Type"),
            resources: resources(&value),
            cgroup_parent: text(&value, "/HostConfig/CgroupParent"),
            pids_limit: value.pointer("/HostConfig/PidsLimit").and_then(Value::as_i64).filter(|n| *n > 0),
        },
        labels: labels(value.pointer_mut("/Config/Labels")),
    })
}

/// The process id; `None` for Docker's 0, which means that the container does not run.
fn process(value: &Value) -> Option<u32> {
    let pid = value.pointer("/State/Pid")?.as_u64()?;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

fn files(value: &Value) -> ContainerFiles {
    ContainerFiles {
        upper_dir: some_text(value, "/GraphDriver/Data/UpperDir").filter(|path| path.starts_with('/')),
        log_path: text(value, "/LogPath"),
        log_driver: text(value, "/HostConfig/LogConfig/Type"),
        size: value.get("SizeRw").and_then(Value::as_u64),
        volumes: volumes(value).unwrap_or_default(),
        shared: ["/HostnamePath", "/HostsPath", "/ResolvConfPath"]
            .iter()
            .filter_map(|place| some_text(value, place))
            .filter(|path| path.starts_with('/'))
            .collect(),
    }
}

fn volumes(value: &Value) -> Option<Vec<String>> {
    let is_volume = |mount: &&Value| mount.get("Type").and_then(Value::as_str) == Some("volume");
    let source = |mount: &Value| mount.get("Source")?.as_str().map(str::to_owned);
    let all = value.get("Mounts")?.as_array()?.iter().filter(is_volume).filter_map(source);
    Some(all.filter(|source| source.starts_with('/')).collect())
}

/// Resources, with Docker's zero read as not set.
fn resources(value: &Value) -> Resources {
    let number = |name: &str| value.get("HostConfig")?.get(name)?.as_i64().filter(|n| *n != 0);
    Resources {
        cpu_shares: number("CpuShares"),
        cpu_period: number("CpuPeriod"),
        cpu_quota: number("CpuQuota"),
        memory: number("Memory"),
        memory_swap: number("MemorySwap"),
    }
}

/// The addresses on the default bridge, else those of the first network that has any. Engines from 29 on
/// leave the addresses of the default bridge out of the top level.
fn ips(value: &Value) -> Vec<String> {
    let of = |network: &Value| -> Vec<String> {
        ["IPAddress", "GlobalIPv6Address"]
            .iter()
            .filter_map(|key| network.get(key)?.as_str())
            .filter(|ip| !ip.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let Some(settings) = value.get("NetworkSettings") else { return Vec::new() };
    let networks = settings.get("Networks").and_then(Value::as_object);
    std::iter::once(settings)
        .chain(networks.into_iter().flat_map(|all| all.values()))
        .map(of)
        .find(|ips| !ips.is_empty())
        .unwrap_or_default()
}

/// The networks that the container is on, by name; `None` when the engine does not report them.
fn networks(value: &Value) -> Option<&Map<String, Value>> {
    value.pointer("/NetworkSettings/Networks")?.as_object()
}

/// Docker's placeholder for a missing name of an image.
const NO_NAME: &str = "<none>";

/// The names of an image.
fn named(value: &Value, at: &str) -> Vec<String> {
    strings(value, at).into_iter().filter(|name| !name.starts_with(NO_NAME)).collect()
}

/// The number of entries of a list or a map.
fn count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len).saturating_add(value.as_object().map_or(0, Map::len))
}

fn image(value: Value) -> Option<ImageDetail> {
    let config = value.get("Config");
    Some(ImageDetail {
        id: id(&value, "/Id")?,
        tags: named(&value, "/RepoTags"),
        digests: named(&value, "/RepoDigests"),
        size: value.get("Size").and_then(Value::as_i64).unwrap_or(0),
        user: text(&value, "/Config/User"),
        stop_signal: some_text(&value, "/Config/StopSignal"),
        configuration: config.map_or(0, |config| config.to_string().len()),
        entries: config.and_then(Value::as_object).map_or(0, |all| all.values().map(count).sum()),
        volumes: config
            .and_then(|config| config.get("Volumes")?.as_object())
            .map_or(Vec::new(), |all| all.keys().cloned().collect()),
    })
}

/// `None` without an id: such an image could not be removed.
pub(super) fn image_summary(value: Value) -> Option<ImageSummary> {
    Some(ImageSummary {
        id: id(&value, "/Id")?,
        parent: text(&value, "/ParentId"),
        tags: named(&value, "/RepoTags"),
        digests: named(&value, "/RepoDigests"),
        size: bytes(&value, "Size"),
        created: value.get("Created").and_then(Value::as_i64).unwrap_or(0),
    })
}

/// Bytes of the unused build cache, as in `docker system df`: shared cache counts with its other users.
fn disk_usage(value: &Value) -> DiskUsage {
    let caches = value.get("BuildCache").and_then(Value::as_array).into_iter().flatten();
    let is = |cache: &Value, field: &str| cache.get(field).and_then(Value::as_bool) == Some(true);
    let free = caches.filter(|cache| !is(cache, "InUse") && !is(cache, "Shared"));
    DiskUsage { build_cache: free.fold(0, |sum, cache| sum.saturating_add(bytes(cache, "Size"))) }
}

/// A number of bytes; Docker writes -1 if it has not counted.
fn bytes(value: &Value, field: &str) -> u64 {
    value.get(field).and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

fn info(value: &Value) -> Info {
    let number = |at: &str| value.get(at).and_then(Value::as_i64).unwrap_or(0);
    Info {
        server_version: text(value, "/ServerVersion"),
        cgroup_driver: text(value, "/CgroupDriver"),
        // Engines before 20.10 support only cgroup v1 and do not report the version.
        cgroup_version: some_text(value, "/CgroupVersion").unwrap_or_else(|| "1".to_owned()),
        architecture: text(value, "/Architecture"),
        kernel_version: text(value, "/KernelVersion"),
        root_dir: text(value, "/DockerRootDir"),
        logging_driver: text(value, "/LoggingDriver"),
        cpus: number("NCPU"),
        memory: number("MemTotal"),
    }
}

fn text(value: &Value, at: &str) -> String {
    some_text(value, at).unwrap_or_default()
}

fn some_text(value: &Value, at: &str) -> Option<String> {
    value.pointer(at).and_then(Value::as_str).filter(|s| !s.is_empty()).map(str::to_owned)
}

fn id(value: &Value, at: &str) -> Option<String> {
    some_text(value, at)
}

fn bare(name: &str) -> String {
    name.strip_prefix('/').unwrap_or(name).to_owned()
}

fn strings(value: &Value, at: &str) -> Vec<String> {
    let items = value.pointer(at).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(|s| s.as_str().map(str::to_owned)).collect()
}

/// Takes a map of strings from a JSON value.
pub(super) fn labels(value: Option<&mut Value>) -> BTreeMap<String, String> {
    let Some(Value::Object(all)) = value.map(Value::take) else { return BTreeMap::new() };
    order::map(all.into_iter().filter_map(|(key, value)| match value {
        Value::String(text) => Some((key, text)),
        _ => None,
    }))
}

/// `None` for Docker's zero time (year 1) and for an invalid time.
fn time(value: &Value, at: &str) -> Option<Timestamp> {
    let text = value.pointer(at)?.as_str()?;
    if text.starts_with(ZERO_TIME) { None } else { text.parse().ok() }
}

/// Go's zero time, which Docker prints for events that did not happen.
const ZERO_TIME: &str = "0001-01-01T00:00:00";

fn is_zero_time(value: &Value, at: &str) -> bool {
    value.pointer(at).and_then(Value::as_str).is_some_and(|text| text.starts_with(ZERO_TIME))
}

#[cfg(test)]
mod tests;
