//! The status file: the daemon writes it, and the command line reads it. It lies on tmpfs, so it is written
//! without fsync, and atomically: a reader sees the new version or the previous one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::snapshot::{
    ConditionView, DockerView, DrainView, EvictionView, KeptImages, NodeView, PodView, Snapshot, SourceView,
    StatusFile, UNMANAGED,
};
use super::task::Task;
use crate::base::clock::{SignedDuration, Timestamp};
use crate::base::durable;
use crate::base::json::{self, through_value};
use crate::base::limits;
use crate::base::order;
use crate::base::regular;
use crate::base::table::{Set, Table};
use crate::pod::problem::Problem;
use crate::policy;

/// Name of the file in the run directory.
pub const NAME: &str = "status.json";
/// Annotation, in the status file only, of a pod that runs from an older version than its source holds, or
/// from the store of last good versions.
pub const STALE: &str = "podkeeper.dev/stale";
/// Format of the file. A reader refuses other formats.
pub const API_VERSION: &str = "podkeeper.dev/v1";
const KIND: &str = "NodeStatus";

/// Renders the status file. Borrows everything: no pod is copied. `addresses` are the node's, at most one of
/// each family; pods on the host's network have them too.
///
/// A pod that is being stopped has a `deletionTimestamp`: the source's, or, as in the API, the end of its
/// grace period. It has the grace period too: kubectl's describer breaks on a pod that has only one of the
/// two.
#[must_use]
pub fn render(
    snapshot: &Snapshot,
    pid: u32,
    version: &str,
    addresses: &[String],
    kept_images: &KeptImages,
) -> Vec<u8> {
    let file = FileOut {
        api_version: API_VERSION,
        kind: KIND,
        version,
        pid,
        node: &snapshot.node,
        root_dir: &snapshot.root_dir,
        addresses,
        docker: &snapshot.docker,
        drain: snapshot.drain.as_ref(),
        conditions: &snapshot.conditions,
        stuck: &snapshot.stuck,
        info: &snapshot.info,
        kept_images,
        also_wanted: &snapshot.also_wanted,
        evictions: &snapshot.evictions,
        sources: &snapshot.sources,
        policies: &snapshot.policies,
        problems: &snapshot.problems,
        origins: order::map(snapshot.pods.iter().map(|v| (v.pod.key.to_string(), v.pod.origin.to_string()))),
        pods: snapshot.pods.iter().map(|view| PodOut::new(view, addresses)).collect(),
    };
    // Only a map with keys that are not text, or a failing `Serialize`, could fail: there is neither.
    serde_json::to_vec(&file).unwrap_or_default()
}

/// The pods in the form of the kubelet's `/pods`: a `PodList`, whose items have no kind of their own. A pod that no
/// manifest in force names is not desired, and is left out. `addresses` as for [`render`].
#[must_use]
pub fn pod_list(snapshot: &Snapshot, addresses: &[String]) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ListOut<'a> {
        kind: &'static str,
        api_version: &'static str,
        metadata: BTreeMap<String, String>,
        items: Vec<PodOut<'a>>,
    }
    let is_desired = |view: &&PodView| view.status.reason.as_deref() != Some(UNMANAGED);
    let item = |view| PodOut { api_version: None, kind: None, ..PodOut::new(view, addresses) };
    let list = ListOut {
        kind: "PodList",
        api_version: "v1",
        metadata: BTreeMap::new(),
        items: snapshot.pods.iter().filter(is_desired).map(item).collect(),
    };
    // See above.
    serde_json::to_vec(&list).unwrap_or_default()
}

/// One pod in the API's form. `addresses` as for [`render`].
#[must_use]
pub fn pod_value(view: &PodView, addresses: &[String]) -> Value {
    // See above.
    serde_json::to_value(PodOut::new(view, addresses)).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileOut<'a> {
    api_version: &'static str,
    kind: &'static str,
    version: &'a str,
    pid: u32,
    node: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    root_dir: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    addresses: &'a [String],
    docker: &'a DockerView,
    #[serde(skip_serializing_if = "Option::is_none")]
    drain: Option<&'a DrainView>,
    conditions: &'a [ConditionView],
    #[serde(skip_serializing_if = "<[Task]>::is_empty")]
    stuck: &'a [Task],
    info: &'a NodeView,
    kept_images: &'a KeptImages,
    #[serde(skip_serializing_if = "Table::is_empty")]
    also_wanted: &'a Table<String, Set<String>>,
    #[serde(skip_serializing_if = "Table::is_empty")]
    evictions: &'a Table<String, EvictionView>,
    sources: &'a [SourceView],
    policies: &'a Table<String, policy::PolicyView>,
    problems: &'a [Problem],
    origins: BTreeMap<String, String>,
    pods: Vec<PodOut<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    metadata: MetadataOut<'a>,
    #[serde(serialize_with = "through_value")]
    spec: &'a PodSpec,
    status: StatusOut<'a>,
}

/// A status with the node's addresses: only the writer knows them, and they may change.
struct StatusOut<'a> {
    status: &'a PodStatus,
    host_network: bool,
    addresses: &'a [String],
}

impl Serialize for StatusOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        through_value(&*addressed(self.status, self.host_network, self.addresses), serializer)
    }
}

/// A status with the addresses of the node that its pod is on, the first one first. As with the kubelet, a pod that was
/// refused or not started has no addresses.
#[must_use]
pub fn addressed<'a>(status: &'a PodStatus, host_network: bool, addresses: &[String]) -> Cow<'a, PodStatus> {
    let Some(first) = addresses.first().filter(|_| status.conditions.is_some()) else {
        return Cow::Borrowed(status);
    };
    let mut status = status.clone();
    let ips = || addresses.iter();
    status.host_ip = Some(first.clone());
    status.host_ips = Some(ips().map(|ip| HostIP { ip: ip.clone() }).collect());
    if host_network && status.pod_ip.is_none() {
        status.pod_ip = Some(first.clone());
        status.pod_ips = Some(ips().map(|ip| PodIP { ip: ip.clone() }).collect());
    }
    Cow::Owned(status)
}

/// Metadata, with a deletion timestamp or a stale mark if needed.
struct MetadataOut<'a> {
    metadata: &'a ObjectMeta,
    /// When its stop began, and its own grace period in seconds.
    leaving: Option<(Timestamp, i64)>,
    stale: bool,
}

impl<'a> PodOut<'a> {
    fn new(view: &'a PodView, addresses: &'a [String]) -> Self {
        let grace = view.pod.spec.termination_grace_period_seconds;
        let leaving = view.leaving.map(|at| (at, grace.unwrap_or(i64::from(limits::GRACE_DEFAULT))));
        let metadata = MetadataOut { metadata: &view.pod.metadata, leaving, stale: view.stale };
        let status = StatusOut { status: &view.status, host_network: view.pod.host_network(), addresses };
        let spec = &view.pod.spec;
        PodOut { api_version: Some("v1"), kind: Some("Pod"), metadata, spec, status }
    }
}

impl Serialize for MetadataOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.leaving.is_none() && !self.stale {
            return through_value(self.metadata, serializer);
        }
        let mut metadata = self.metadata.clone();
        if let Some((since, grace)) = self.leaving {
            let end = since.checked_add(SignedDuration::from_secs(grace)).unwrap_or(since);
            metadata.deletion_timestamp.get_or_insert(Time(end));
            metadata.deletion_grace_period_seconds.get_or_insert(grace);
        }
        if self.stale {
            metadata.annotations.get_or_insert_default().insert(STALE.to_owned(), "true".to_owned());
        }
        through_value(&metadata, serializer)
    }
}

/// Replaces a file of the run directory. Mode 0600: environment variables of pods are in the status. A killed
/// daemon leaves at most one half-written `.NAME.tmp` of each name.
///
/// # Errors
/// An error of the file system, with the path.
pub fn write_atomically(run_dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (temporary, path) = (run_dir.join(format!(".{name}.tmp")), run_dir.join(name));
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let write = || -> io::Result<()> {
        durable::open(&temporary)?.write_all(bytes)?;
        fs::rename(&temporary, &path)
    };
    write().map_err(named)
}

/// Gives the status file the current time, without changing its content.
///
/// # Errors
/// An error of the file system, with the path.
pub fn touch(run_dir: &Path) -> io::Result<()> {
    let path = run_dir.join(NAME);
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    utimensat(CWD, &path, &times, AtFlags::empty())
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Why there is no status to show.
#[derive(Debug)]
pub enum ReadError {
    /// No such file: the daemon has not run since boot, or has another run directory.
    Missing(PathBuf),
    /// The reader is not root.
    Denied(PathBuf),
    /// Another error of the file system.
    Io(PathBuf, io::Error),
    /// Larger than [`limits::STATUS_BYTES`], not JSON, or of another format.
    Unreadable(PathBuf, String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Missing(path) => write!(
                f,
                "no status file {}: podkeeper has not run since boot (podkeeper run), or with another --run-dir",
                path.display()
            ),
            ReadError::Denied(path) => {
                write!(f, "cannot read {}: permission denied; only root may look at pods", path.display())
            }
            ReadError::Io(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            ReadError::Unreadable(path, why) => write!(f, "cannot read {}: {why}", path.display()),
        }
    }
}

impl std::error::Error for ReadError {}

/// The status file, as typed data and as the JSON it was made from.
#[derive(Debug, Clone)]
pub struct Status {
    /// For tables and lookups.
    pub file: StatusFile,
    /// The pods as written, in the same order: what `-o json` and `-o yaml` print.
    pub pods: Vec<Value>,
}

/// Reads the status file of a run directory.
///
/// # Errors
/// See [`ReadError`].
pub fn read(run_dir: &Path) -> Result<Status, ReadError> {
    let path = run_dir.join(NAME);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ReadError::Missing(path.clone()),
        io::ErrorKind::PermissionDenied => ReadError::Denied(path.clone()),
        _ => ReadError::Io(path.clone(), error),
    };
    let bytes = regular::read(&path, limits::STATUS_BYTES).map_err(failed)?;
    parse(&bytes).map_err(|why| ReadError::Unreadable(path, why))
}

/// Reads a status file's bytes. Pure.
///
/// # Errors
/// Not JSON, or of another format.
pub fn parse(bytes: &[u8]) -> Result<Status, String> {
    // One `Value` first: the binary has only one copy of the Kubernetes types' decoding.
    let value: Value = serde_json::from_slice(bytes).map_err(|e| format!("damaged: {e}"))?;
    match value.get("apiVersion").and_then(Value::as_str) {
        Some(API_VERSION) => {}
        other => {
            let other = other.unwrap_or("none");
            return Err(format!(
                "written by another version of podkeeper (format {other}, not {API_VERSION})"
            ));
        }
    }
    let pods = value.get("pods").and_then(Value::as_array).cloned().unwrap_or_default();
    let file = json::read_own::<StatusFile>(&value).map_err(|e| format!("damaged: {e}"))?;
    Ok(Status { file, pods })
}

#[cfg(test)]
pub(crate) mod tests;
