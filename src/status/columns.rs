//! One pod as one row, in kubectl's words: the API server's pod printer
//! (`pkg/printers/internalversion/printers.go`), rule by rule. Pure. One word is ours: `,STALE` after the
//! status, as kubectl marks a cordoned node.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::base::clock::Timestamp;
use crate::base::human;
use crate::pod::{ContainerKind, init_kind};
use crate::status::file;

/// Headings of a list.
#[must_use]
pub fn headings(wide: bool, namespaces: bool) -> Vec<String> {
    let narrow = ["NAME", "READY", "STATUS", "RESTARTS", "AGE"];
    let more: &[&str] = if wide { &["IP", "NODE", "NOMINATED NODE", "READINESS GATES"] } else { &[] };
    let first: &[&str] = if namespaces { &["NAMESPACE"] } else { &[] };
    first.iter().chain(&narrow).chain(more).map(|w| (*w).to_owned()).collect()
}

/// The content of a row, without values that change as time passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    namespace: String,
    name: String,
    ready: String,
    status: String,
    restarts: i32,
    last_restart: Option<Timestamp>,
    started: Option<Timestamp>,
    ip: String,
    node: String,
}

impl Row {
    /// Reads a pod.
    #[must_use]
    pub fn of(pod: &Pod) -> Row {
        let none = PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&none);
        let counted = count(pod, status);
        let or_none =
            |text: Option<&String>| text.filter(|t| !t.is_empty()).cloned().unwrap_or("<none>".into());
        Row {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            ready: format!("{}/{}", counted.ready, counted.total),
            status: if is_stale(pod) { format!("{},STALE", counted.reason) } else { counted.reason },
            restarts: counted.restarts,
            last_restart: counted.last_restart.map(|t| t.0),
            started: status.start_time.as_ref().map(|t| t.0),
            ip: or_none(status.pod_ip.as_ref()),
            node: or_none(pod.spec.as_ref().and_then(|s| s.node_name.as_ref())),
        }
    }

    /// The pod's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both are about the same pod.
    #[must_use]
    pub fn is_same_pod(&self, other: &Row) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }

    /// The cells under [`headings`].
    #[must_use]
    pub fn cells(&self, wide: bool, namespaces: bool, now: Timestamp) -> Vec<String> {
        let since = |then: Timestamp| human::age(Some(&Time(then)), now);
        let restarts = match self.last_restart {
            Some(then) if self.restarts != 0 => format!("{} ({} ago)", self.restarts, since(then)),
            _ => self.restarts.to_string(),
        };
        let age = self.started.map_or("<unknown>".to_owned(), since);
        let mut cells = Vec::with_capacity(10);
        if namespaces {
            cells.push(self.namespace.clone());
        }
        cells.extend([self.name.clone(), self.ready.clone(), self.status.clone(), restarts, age]);
        if wide {
            cells.extend([self.ip.clone(), self.node.clone(), "<none>".into(), "<none>".into()]);
        }
        cells
    }
}

/// Whether the daemon has marked that the pod's source holds a newer version.
fn is_stale(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(file::STALE))
}

/// Sums over containers.
struct Counted {
    ready: usize,
    total: usize,
    restarts: i32,
    last_restart: Option<Time>,
    reason: String,
}

fn count(pod: &Pod, status: &PodStatus) -> Counted {
    let phase = status.phase.clone().unwrap_or_default();
    let reason = status.reason.clone().filter(|r| !r.is_empty()).unwrap_or(phase.clone());
    let mut all = Counted { ready: 0, total: 0, restarts: 0, last_restart: None, reason };
    let containers = pod.spec.as_ref().map_or(0, |s| s.containers.len());
    let sidecars = pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten());
    all.total = containers + sidecars.filter(|c| init_kind(c) == ContainerKind::Sidecar).count();

    let initializing = count_init(pod, status, &mut all);
    if !initializing || condition(status, "Initialized") {
        count_regular(pod, status, &mut all);
    }
    let leaving = pod.metadata.deletion_timestamp.is_some();
    if leaving && status.reason.as_deref() == Some("NodeLost") {
        all.reason = "Unknown".into();
    } else if leaving && phase != "Succeeded" && phase != "Failed" {
        all.reason = "Terminating".into();
    }
    all
}

/// Counts init containers: the first one that is not done gives the reason. Returns whether there is one.
fn count_init(pod: &Pod, status: &PodStatus, all: &mut Counted) -> bool {
    let number = pod.spec.as_ref().and_then(|s| s.init_containers.as_ref()).map_or(0, Vec::len);
    for (index, container) in status.init_container_statuses.iter().flatten().enumerate() {
        add_restarts(container, all);
        let waiting = container.state.as_ref().and_then(|s| s.waiting.as_ref());
        let waiting = waiting.and_then(|w| w.reason.as_deref()).unwrap_or_default();
        let ended = container.state.as_ref().and_then(|s| s.terminated.as_ref());
        match ended {
            Some(ended) if ended.exit_code == 0 => continue,
            _ if is_sidecar(pod, &container.name) && container.started == Some(true) => {
                all.ready += usize::from(container.ready);
                continue;
            }
            Some(_) => all.reason = format!("Init:{}", end_reason(container).unwrap_or_default()),
            None if !waiting.is_empty() && waiting != "PodInitializing" => {
                all.reason = format!("Init:{waiting}");
            }
            None => all.reason = format!("Init:{index}/{number}"),
        }
        return true;
    }
    false
}

/// Counts regular containers, from the last to the first: the first one with a reason decides.
fn count_regular(pod: &Pod, status: &PodStatus, all: &mut Counted) {
    // Restarts of finished init containers are not shown; those of sidecars are.
    all.restarts = 0;
    all.last_restart = None;
    for container in status.init_container_statuses.iter().flatten() {
        if is_sidecar(pod, &container.name) {
            add_restarts(container, all);
        }
    }
    let mut has_running = false;
    for container in status.container_statuses.iter().flatten().rev() {
        add_restarts(container, all);
        let state = container.state.as_ref();
        let waiting = state.and_then(|s| s.waiting.as_ref()).and_then(|w| w.reason.as_deref());
        if let Some(waiting) = waiting.filter(|r| !r.is_empty()) {
            all.reason = waiting.to_owned();
        } else if let Some(reason) = end_reason(container) {
            all.reason = reason;
        } else if container.ready && state.is_some_and(|s| s.running.is_some()) {
            has_running = true;
            all.ready += 1;
        }
    }
    if all.reason == "Completed" && has_running {
        all.reason = if condition(status, "Ready") { "Running" } else { "NotReady" }.into();
    }
}

fn add_restarts(container: &ContainerStatus, all: &mut Counted) {
    all.restarts = all.restarts.saturating_add(container.restart_count);
    let last = container.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    if let Some(then) = last.and_then(|t| t.finished_at.clone())
        && all.last_restart.as_ref().is_none_or(|known| known.0 < then.0)
    {
        all.last_restart = Some(then);
    }
}

/// `Completed`, `Signal:9`, `ExitCode:1`; `None` when the container has not ended.
fn end_reason(container: &ContainerStatus) -> Option<String> {
    let ended = container.state.as_ref()?.terminated.as_ref()?;
    Some(match (ended.reason.as_deref(), ended.signal) {
        (Some(reason), _) if !reason.is_empty() => reason.to_owned(),
        (_, Some(signal)) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", ended.exit_code),
    })
}

fn is_sidecar(pod: &Pod, name: &str) -> bool {
    let mut init = pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten());
    init.any(|c| c.name == name && init_kind(c) == ContainerKind::Sidecar)
}

fn condition(status: &PodStatus, kind: &str) -> bool {
    status.conditions.iter().flatten().any(|c| c.type_ == kind && c.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: &str = "2026-01-02T03:10:00Z";

    /// READY, STATUS and RESTARTS of a pod with this spec and status.
    fn check(spec: &Value, status: &Value, expected: [&str; 3]) {
        check_with(&json!({"name": "p"}), spec, status, expected);
    }

    fn check_with(metadata: &Value, spec: &Value, status: &Value, expected: [&str; 3]) {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap();
        let cells = Row::of(&pod).cells(false, false, NOW.parse().unwrap());
        assert_eq!(cells[1..4], expected, "{status}");
    }

    fn containers(number: usize) -> Value {
        let all: Vec<_> = (0..number).map(|i| json!({"name": format!("c{i}")})).collect();
        json!({"containers": all})
    }

    fn container(name: &str, ready: bool, restarts: i32, state: Value) -> Value {
        json!({"name": name, "ready": ready, "restartCount": restarts, "image": "", "imageID": "",
               "state": state, "started": ready})
    }

    fn status(phase: &str, init: &[Value], regular: &[Value]) -> Value {
        json!({"phase": phase, "initContainerStatuses": init, "containerStatuses": regular})
    }

    fn ended(code: i32, reason: &str, signal: i32) -> Value {
        json!({"terminated": {"exitCode": code, "reason": reason, "signal": signal}})
    }

    fn waiting(reason: &str) -> Value {
        json!({"waiting": {"reason": reason}})
    }

    #[test]
    fn regular_containers() {
        let one = containers(1);
        let c = |ready, restarts, state| [container("c0", ready, restarts, state)];
        let running = json!({"running": {}});
        check(&one, &json!({"phase": "Pending"}), ["0/1", "Pending", "0"]);
        check(&one, &status("Running", &[], &c(true, 0, running.clone())), ["1/1", "Running", "0"]);
        check(&one, &status("Running", &[], &c(false, 0, running.clone())), ["0/1", "Running", "0"]);
        check(
            &one,
            &status("Pending", &[], &c(false, 0, waiting("ContainerCreating"))),
            ["0/1", "ContainerCreating", "0"],
        );
        check(
            &one,
            &status("Running", &[], &c(false, 4, waiting("CrashLoopBackOff"))),
            ["0/1", "CrashLoopBackOff", "4"],
        );
        check(
            &one,
            &status("Succeeded", &[], &c(false, 0, ended(0, "Completed", 0))),
            ["0/1", "Completed", "0"],
        );
        check(&one, &status("Failed", &[], &c(false, 0, ended(1, "Error", 0))), ["0/1", "Error", "0"]);
        check(
            &one,
            &status("Failed", &[], &c(false, 0, ended(137, "OOMKilled", 0))),
            ["0/1", "OOMKilled", "0"],
        );
        check(&one, &status("Failed", &[], &c(false, 0, ended(137, "", 9))), ["0/1", "Signal:9", "0"]);
        check(&one, &status("Failed", &[], &c(false, 0, ended(3, "", 0))), ["0/1", "ExitCode:3", "0"]);
        check(
            &one,
            &json!({"phase": "Failed", "reason": "NodeAffinity", "message": "x"}),
            ["0/1", "NodeAffinity", "0"],
        );
    }

    #[test]
    fn one_container_done_and_one_running() {
        let both = [
            container("c0", true, 0, json!({"running": {}})),
            container("c1", false, 0, ended(0, "Completed", 0)),
        ];
        let mut s = status("Running", &[], &both);
        check(&containers(2), &s, ["1/2", "NotReady", "0"]);
        s["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        check(&containers(2), &s, ["1/2", "Running", "0"]);
    }

    #[test]
    fn restarts_tell_when_the_last_one_was() {
        let mut c = container("c0", true, 3, json!({"running": {}}));
        c["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": "2026-01-02T03:08:00Z"}});
        check(&containers(1), &status("Running", &[], &[c]), ["1/1", "Running", "3 (2m ago)"]);
    }

    #[test]
    fn init_containers() {
        let spec =
            json!({"containers": [{"name": "c0"}], "initContainers": [{"name": "i0"}, {"name": "i1"}]});
        let later = container("c0", false, 0, waiting("PodInitializing"));
        let check_init = |first: Value, second: Value, expected: [&str; 3]| {
            let init = [container("i0", false, 2, first), container("i1", false, 0, second)];
            check(&spec, &status("Pending", &init, std::slice::from_ref(&later)), expected);
        };
        let wait = || waiting("PodInitializing");
        check_init(json!({"running": {}}), wait(), ["0/1", "Init:0/2", "2"]);
        check_init(wait(), wait(), ["0/1", "Init:0/2", "2"]);
        check_init(ended(0, "Completed", 0), json!({"running": {}}), ["0/1", "Init:1/2", "2"]);
        check_init(waiting("CrashLoopBackOff"), wait(), ["0/1", "Init:CrashLoopBackOff", "2"]);
        check_init(ended(1, "Error", 0), wait(), ["0/1", "Init:Error", "2"]);
        check_init(ended(1, "", 0), wait(), ["0/1", "Init:ExitCode:1", "2"]);
        check_init(ended(137, "", 9), wait(), ["0/1", "Init:Signal:9", "2"]);
        check_init(ended(0, "Completed", 0), ended(0, "Completed", 0), ["0/1", "PodInitializing", "0"]);
    }

    #[test]
    fn sidecars_count_as_containers() {
        let spec = json!({"containers": [{"name": "c0"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]});
        let side = container("s", true, 1, json!({"running": {}}));
        let app = container("c0", true, 2, json!({"running": {}}));
        check(&spec, &status("Running", &[side], &[app]), ["2/2", "Running", "3"]);
        let side = container("s", false, 1, json!({"running": {}}));
        let app = container("c0", false, 0, waiting("PodInitializing"));
        check(&spec, &status("Pending", &[side], &[app]), ["0/2", "Init:0/1", "1"]);
    }

    #[test]
    fn an_older_version_than_the_source_holds() {
        let old = json!({"name": "p", "annotations": {"podkeeper.dev/stale": "true"}});
        let app = [container("c0", true, 0, json!({"running": {}}))];
        check_with(&old, &containers(1), &status("Running", &[], &app), ["1/1", "Running,STALE", "0"]);
    }

    #[test]
    fn pods_on_their_way_out() {
        let leaving = json!({"name": "p", "deletionTimestamp": "1970-01-01T00:00:00Z"});
        let app = [container("c0", true, 0, json!({"running": {}}))];
        check_with(&leaving, &containers(1), &status("Running", &[], &app), ["1/1", "Terminating", "0"]);
        let app = [container("c0", false, 0, ended(0, "Completed", 0))];
        check_with(&leaving, &containers(1), &status("Succeeded", &[], &app), ["0/1", "Completed", "0"]);
    }
}
