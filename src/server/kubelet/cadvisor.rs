//! The old endpoints for figures, in cAdvisor's format (`info/v1/container.go` and `machine.go`, and the kubelet's
//! `pkg/kubelet/server/stats/handler.go` until 1.20): `/spec/`, `/stats/…`, and cAdvisor's own paths on a port of its
//! own.
//!
//! Each answer has one present sample: there is no history, and values that the kernel does not report are left out.

use std::path::{Path, PathBuf};

use crate::base::json::json;
use serde::Deserialize;
use serde_json::Value;

use super::Node;
use super::metrics::cadvisor::{self, Row};
use crate::base::clock::{Clock as _, System, Timestamp};
use crate::base::{json, limits};
use crate::cgroup::node::MOUNT;
use crate::node::facts::Facts;
use crate::server::http::answer::{Answer, JSON};
use crate::server::service::Asked;
use crate::stats::cgroup::Hierarchies;
use crate::stats::disk::FileSystem;
use crate::stats::network::Interface;
use crate::stats::node as machine;

/// The kubelet's message for a container that does not exist.
const NO_CONTAINER: &str = "no matching container";

/// The parameters of a request, from its body (upstream `statsRequest`). Those about the past have no effect.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Wanted {
    container_name: String,
    subcontainers: bool,
}

/// Answers `/stats/…`; `rest` is the path behind it.
pub fn stats(node: &Node, rest: &str, asked: &mut Asked<'_>) -> Answer {
    let wanted = match wanted(asked) {
        Ok(wanted) => wanted,
        Err(answer) => return answer,
    };
    let rows = rows(node);
    let parts: Vec<&str> = rest.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        [""] => found(of_cgroup(&rows, "/")),
        ["container"] => of_system(&rows, &wanted),
        [pod, container] => found(of_container(&rows, "default", pod, container)),
        [namespace, pod, uid, container] => {
            let snapshot = node.pods.get();
            let mut views = snapshot.pods.iter();
            let is_it = views.any(|view| {
                view.pod.key.namespace == *namespace && view.pod.key.name == *pod && view.pod.uid == *uid
            });
            found(of_container(&rows, namespace, pod, container).filter(|_| is_it))
        }
        _ => super::not_found(),
    }
}

/// Answers `/spec/`, and cAdvisor's `/api/v1.3/machine`.
pub fn machine(node: &Node) -> Answer {
    let facts = Facts::of_machine();
    let disk = FileSystem::of(&node.root_dir);
    let filesystems: Vec<Value> = disk
        .into_iter()
        .map(|disk| {
            json!({"device": "", "capacity": disk.capacity, "type": "vfs", "inodes": disk.inodes,
                   "has_inodes": disk.inodes > 0})
        })
        .collect();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    json_of(&json!({
        "num_cores": cores,
        "memory_capacity": machine::read(Path::new("/proc")).memory,
        "machine_id": facts.machine_id,
        "system_uuid": facts.system_uuid,
        "boot_id": facts.boot_id,
        "filesystems": filesystems,
        "cloud_provider": "Unknown",
        "instance_type": "Unknown",
        "instance_id": "None",
    }))
}

/// Answers cAdvisor's own paths, without the leading slash (`cmd/internal/api/versions.go`).
pub fn answer(node: &Node, path: &str) -> Answer {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [] => Answer::text(200, PATHS),
        ["healthz"] => Answer::text(200, "ok"),
        ["metrics"] => cadvisor::page(node),
        ["api", version, "machine"] if is_version(version) => machine(node),
        ["api", version, "containers", rest @ ..] if is_version(version) => {
            found(of_cgroup(&rows(node), &format!("/{}", rest.join("/"))))
        }
        ["api", version, "subcontainers", rest @ ..] if is_version(version) => {
            let name = format!("/{}", rest.join("/"));
            let rows = rows(node);
            let all: Vec<Value> = below(&rows, &name).map(|row| info(row, &rows)).collect();
            if all.is_empty() { missing() } else { json_of(&Value::from(all)) }
        }
        ["api", version, "docker", rest @ ..] if is_version(version) => {
            let rows = rows(node);
            let name = rest.join("/");
            let is_it = |row: &&Row| {
                !row.container.is_empty() && (name.is_empty() || row.name == name || row.id.ends_with(&name))
            };
            let all =
                json::object(&mut rows.iter().filter(is_it).map(|row| (row.id.clone(), info(row, &rows))));
            if all.is_empty() && !name.is_empty() { missing() } else { json_of(&Value::from(all)) }
        }
        ["api", ..] => Answer::text(400, "unsupported API version or request: there is v1.0 to v1.3"),
        _ => super::not_found(),
    }
}

const PATHS: &str = "/api/v1.3/machine\n/api/v1.3/containers/\n/api/v1.3/subcontainers/\n/api/v1.3/docker/\n\
                     /metrics\n/healthz";

fn is_version(text: &str) -> bool {
    matches!(text, "v1.0" | "v1.1" | "v1.2" | "v1.3")
}

fn rows(node: &Node) -> Vec<Row> {
    cadvisor::rows(&node.pods.get(), &Hierarchies::open(PathBuf::from(MOUNT)), Path::new("/proc"))
}

fn wanted(asked: &mut Asked<'_>) -> Result<Wanted, Answer> {
    let bytes = asked.body.read(limits::API_BODY).map_err(Answer::refused)?;
    if bytes.is_empty() {
        return Ok(Wanted::default());
    }
    serde_json::from_slice(&bytes).map_err(|error| Answer::text(500, &format!("Internal Error: {error}")))
}

fn found(info: Option<Value>) -> Answer {
    info.map_or_else(missing, |info| json_of(&info))
}

fn missing() -> Answer {
    Answer::text(404, NO_CONTAINER)
}

fn json_of(value: &Value) -> Answer {
    Answer::new(200, JSON, value.to_string())
}

fn of_cgroup(rows: &[Row], name: &str) -> Option<Value> {
    let name = if name == "/" { name } else { name.trim_end_matches('/') };
    rows.iter().find(|row| row.id == name).map(|row| info(row, rows))
}

/// The rows of a cgroup, and of all known ones below it.
fn below<'r>(rows: &'r [Row], name: &str) -> impl Iterator<Item = &'r Row> {
    let name = name.trim_end_matches('/').to_owned();
    let inside = format!("{name}/");
    rows.iter().filter(move |row| row.id == name || row.id.starts_with(&inside))
}

fn of_container(rows: &[Row], namespace: &str, pod: &str, container: &str) -> Option<Value> {
    let is_it = |row: &&Row| row.namespace == namespace && row.pod == pod && row.container == container;
    rows.iter().find(is_it).filter(|_| !container.is_empty()).map(|row| info(row, rows))
}

/// Answers `/stats/container`: the requested cgroup, by name.
fn of_system(rows: &[Row], wanted: &Wanted) -> Answer {
    let name = format!("/{}", wanted.container_name.trim_matches('/'));
    let all = match wanted.subcontainers {
        true => json::object(&mut below(rows, &name).map(|row| (row.id.clone(), info(row, rows)))),
        false => json::object(&mut of_cgroup(rows, &name).map(|info| (name.clone(), info)).into_iter()),
    };
    if all.is_empty() { missing() } else { json_of(&Value::from(all)) }
}

/// A `ContainerInfo`.
fn info(row: &Row, rows: &[Row]) -> Value {
    let inside = if row.id == "/" { row.id.clone() } else { format!("{}/", row.id) };
    let is_child = |other: &&Row| other.id.starts_with(&inside) && other.id != row.id;
    let children: Vec<Value> = rows.iter().filter(is_child).map(|other| json!({"name": other.id})).collect();
    let mut all =
        json!({"name": row.id, "spec": spec(row), "stats": [stat(row, System::start().now().wall)]});
    if !children.is_empty() {
        put(&mut all, "subcontainers", Some(children));
    }
    if !row.container.is_empty() {
        let id = row.id.rsplit(['/', '-']).next().unwrap_or_default().trim_end_matches(".scope").to_owned();
        put(&mut all, "aliases", Some(vec![row.name.clone(), id]));
        put(&mut all, "namespace", Some("docker"));
        let labels = json!({"io.kubernetes.container.name": row.container, "io.kubernetes.pod.name": row.pod,
                            "io.kubernetes.pod.namespace": row.namespace});
        put(&mut all, "labels", Some(labels));
    }
    all
}

fn spec(row: &Row) -> Value {
    let mut cpu = json!({});
    put(&mut cpu, "limit", row.counted.shares);
    put(&mut cpu, "quota", row.counted.quota);
    put(&mut cpu, "period", row.counted.period);
    let mut memory = json!({});
    put(&mut memory, "limit", row.figures.limit);
    put(&mut memory, "swap_limit", row.details.swap_limit);
    let mut spec = json!({"has_cpu": row.figures.cpu.is_some(), "cpu": cpu, "has_memory": row.figures.usage.is_some(),
        "memory": memory, "has_network": !row.interfaces.is_empty(), "has_filesystem": false,
        "has_diskio": row.counted.io.reads.is_some(), "has_custom_metrics": false});
    put(&mut spec, "creation_time", row.started.map(|started| started.to_string()));
    put(&mut spec, "image", Some(row.image.clone()).filter(|image| !image.is_empty()));
    spec
}

/// A `ContainerStats`.
fn stat(row: &Row, now: Timestamp) -> Value {
    let (figures, counted, details) = (&row.figures, &row.counted, &row.details);
    let mut usage = json!({});
    put(&mut usage, "total", figures.cpu);
    put(&mut usage, "user", counted.user);
    put(&mut usage, "system", counted.system);
    let mut cfs = json!({});
    put(&mut cfs, "periods", counted.periods);
    put(&mut cfs, "throttled_periods", counted.throttled_periods);
    put(&mut cfs, "throttled_time", counted.throttled);
    let mut memory = json!({});
    put(&mut memory, "usage", figures.usage);
    put(&mut memory, "max_usage", counted.max_usage);
    put(&mut memory, "cache", counted.cache);
    put(&mut memory, "rss", details.rss);
    put(&mut memory, "swap", details.swap);
    put(&mut memory, "mapped_file", counted.mapped_file);
    put(&mut memory, "working_set", figures.working_set);
    put(&mut memory, "failcnt", counted.failures);
    let mut faults = json!({});
    put(&mut faults, "pgfault", details.page_faults);
    put(&mut faults, "pgmajfault", details.major_page_faults);
    put(&mut memory, "hierarchical_data", Some(faults));
    let mut stat =
        json!({"timestamp": now.to_string(), "cpu": {"usage": usage, "cfs": cfs}, "memory": memory});
    put(&mut stat, "diskio", disk(row));
    let interfaces: Vec<Value> = row.interfaces.iter().map(interface).collect();
    if let Some(first) = interfaces.first().cloned() {
        let mut network = first;
        put(&mut network, "interfaces", Some(interfaces));
        put(&mut stat, "network", Some(network));
    }
    put(&mut stat, "processes", figures.tasks.map(|tasks| json!({"threads_current": tasks})));
    stat
}

fn disk(row: &Row) -> Option<Value> {
    let io = row.counted.io;
    let one = |read: Option<u64>, write: Option<u64>| json!([{"device": "", "stats": {"Read": read, "Write": write}}]);
    io.reads?;
    Some(
        json!({"io_service_bytes": one(io.read_bytes, io.written_bytes), "io_serviced": one(io.reads, io.writes)}),
    )
}

fn interface(it: &Interface) -> Value {
    json!({"name": it.name, "rx_bytes": it.received.bytes, "rx_packets": it.received.packets,
           "rx_errors": it.received.errors, "rx_dropped": it.received.dropped, "tx_bytes": it.sent.bytes,
           "tx_packets": it.sent.packets, "tx_errors": it.sent.errors, "tx_dropped": it.sent.dropped})
}

/// Sets a field, if there is a value.
fn put<T: Into<Value>>(object: &mut Value, name: &str, value: Option<T>) {
    if let (Value::Object(map), Some(value)) = (object, value) {
        map.insert(name.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, container: &str) -> Row {
        let mut row = Row::of(id);
        row.container = container.to_owned();
        if !container.is_empty() {
            (row.namespace, row.pod) = ("a".to_owned(), "web".to_owned());
            row.name = "k8s_app_web".to_owned();
        }
        row.figures.cpu = Some(7);
        row.figures.usage = Some(4096);
        row.counted.io.reads = Some(3);
        row
    }

    #[test]
    fn an_answer_is_in_cadvisors_shape() {
        let rows = [row("/", ""), row("/kubepods/pod1", ""), row("/kubepods/pod1/abc", "app")];
        let root = of_cgroup(&rows, "/").unwrap();
        let names: Vec<_> =
            root["subcontainers"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
        assert_eq!(names, ["/kubepods/pod1", "/kubepods/pod1/abc"]);
        let app = of_container(&rows, "a", "web", "app").unwrap();
        assert_eq!(app["aliases"], json!(["k8s_app_web", "abc"]));
        assert_eq!(app["stats"][0]["cpu"]["usage"], json!({"total": 7}), "what is not told is not 0");
        assert_eq!(app["stats"][0]["memory"]["usage"], json!(4096));
        assert_eq!(app["stats"][0]["diskio"]["io_serviced"][0]["stats"]["Read"], json!(3));
        assert_eq!(app["spec"]["has_network"], json!(false));
        assert!(
            of_container(&rows, "a", "web", "none").is_none()
                && of_container(&rows, "b", "web", "app").is_none()
        );
        assert!(of_container(&rows, "a", "web", "").is_none());
        let wanted = |name: &str, subcontainers| Wanted { container_name: name.to_owned(), subcontainers };
        let names = |wanted: &Wanted| {
            let answer = of_system(&rows, wanted);
            let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            (answer.status, value.as_object().map_or(0, serde_json::Map::len))
        };
        assert_eq!(names(&wanted("/kubepods/pod1", false)), (200, 1));
        assert_eq!(names(&wanted("kubepods/pod1", true)), (200, 2));
        assert_eq!(names(&wanted("", true)), (200, 3));
        assert_eq!(names(&wanted("/none", true)).0, 404);
    }
}
