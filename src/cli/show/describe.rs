//! `describe pod`: one pod in full, in the layout of kubectl's describer (`kubectl/pkg/describe/describe.go`), then its
//! problems and its events. The reason why a container waits is also printed below the container, because events are
//! forgotten.

mod containers;
mod probes;
mod volumes;

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod, PodSpec, PodStatus, Toleration};

use super::{events, table};
use crate::base::clock::{Clock, System, Timestamp};
use crate::base::human;
use crate::base::logging::one_line;
use crate::base::order;
use crate::cli::flags::Options;
use crate::cli::{Outcome, fail, pods, print, say};
use crate::manifest::static_pod::CONFIG_SOURCE;
use crate::pod::problem::{Problem, Severity};
use crate::pod::waiting::Reason;
use crate::pod::{PodKey, is_final};
use crate::recorder::object::{self, Events};
use crate::status::REJECTED;
use crate::status::file::STALE;
use crate::status::snapshot::{StatusFile, UNMANAGED};
use crate::status::task::Task;

/// Prints each pod, with two empty lines between, as kubectl does.
pub fn run(options: &Options, names: &[String]) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    // A page without events is better than none.
    let happened = object::read(&options.directories.run).unwrap_or_else(|error| {
        say(&format!("warning: {error}"));
        Events::default()
    });
    let now = System::start().now().wall;
    let page = |pod: &Pod| describe(&status.file, pod, &happened, now);
    let (found, missing) = pods::select(&status.file, options, names);
    let texts: Vec<String> = found.iter().filter_map(|i| status.file.pods.get(*i)).map(page).collect();
    let mut exit = print(&texts.join("\n\n"));
    if found.is_empty() && missing.is_empty() {
        say(&pods::nothing(&status.file, options));
    }
    for message in missing {
        exit = fail(&message);
    }
    Ok(exit)
}

/// Length of the longest annotation that is printed behind its key (kubectl's `maxAnnotationLen`).
const ANNOTATION: usize = 140;

/// A page whose lines are aligned at the end.
#[derive(Debug, Default)]
pub(super) struct Page(pub(super) String);

impl Page {
    /// Adds a line; two spaces per level.
    pub(super) fn line(&mut self, level: usize, text: &str) {
        let _ = writeln!(self.0, "{:1$}{2}", "", level * 2, one_line(text));
    }
    /// Adds `Name:  value`.
    pub(super) fn field(&mut self, level: usize, name: &str, value: &str) {
        let _ = writeln!(self.0, "{:1$}{2}:\t{3}", "", level * 2, one_line(name), one_line(value));
    }
    /// Adds a field unless it is empty.
    pub(super) fn optional(&mut self, level: usize, name: &str, value: Option<&String>) {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            self.field(level, name, value);
        }
    }
    /// Adds a field of many lines; `<none>` when there are none.
    pub(super) fn list(&mut self, name: &str, values: impl IntoIterator<Item = String>) {
        let mut title = format!("{name}:");
        for value in values {
            let _ = writeln!(self.0, "{title}\t{}", one_line(&value));
            title.clear();
        }
        if !title.is_empty() {
            let _ = writeln!(self.0, "{title}\t<none>");
        }
    }
}

/// The whole page of one pod.
fn describe(file: &StatusFile, pod: &Pod, happened: &Events, now: Timestamp) -> String {
    let (no_spec, no_status) = (PodSpec::default(), PodStatus::default());
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let status = pod.status.as_ref().unwrap_or(&no_status);
    let mut page = Page::default();
    head(&mut page, file, pod, spec, status);
    if let Some(init) = spec.init_containers.as_deref().filter(|i| !i.is_empty()) {
        let statuses = status.init_container_statuses.as_deref().unwrap_or_default();
        containers::describe(&mut page, "Init Containers", init, statuses, pod);
    }
    let statuses = status.container_statuses.as_deref().unwrap_or_default();
    containers::describe(&mut page, "Containers", &spec.containers, statuses, pod);
    let added = status.ephemeral_container_statuses.as_deref().unwrap_or_default();
    if !added.is_empty() {
        containers::ephemeral(&mut page, added);
    }
    if let Some(conditions) = status.conditions.as_deref().filter(|c| !c.is_empty()) {
        page.0.push_str("Conditions:\n  Type\tStatus\n");
        for c in conditions {
            let _ = writeln!(page.0, "  {} \t{} ", one_line(&c.type_), one_line(&c.status));
        }
    }
    volumes::describe(&mut page, spec);
    page.field(0, "QoS Class", status.qos_class.as_deref().unwrap_or("<unknown>"));
    page.list("Node-Selectors", pairs(spec.node_selector.as_ref()));
    page.list("Tolerations", spec.tolerations.iter().flatten().map(toleration));
    problems(&mut page, file, pod, happened);
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    page.0.push_str(&events::describe(happened, object::POD, uid, now));
    table::align(&page.0)
}

fn head(page: &mut Page, file: &StatusFile, pod: &Pod, spec: &PodSpec, status: &PodStatus) {
    let meta = &pod.metadata;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    page.field(0, "Name", &text(&meta.name));
    page.field(0, "Namespace", &text(&meta.namespace));
    if let Some(priority) = spec.priority {
        page.field(0, "Priority", &priority.to_string());
    }
    page.optional(0, "Priority Class Name", spec.priority_class_name.as_ref());
    match spec.node_name.as_ref().filter(|n| !n.is_empty()) {
        Some(node) => page.field(0, "Node", &format!("{node}/{}", text(&status.host_ip))),
        None => page.field(0, "Node", "<none>"),
    }
    if status.start_time.is_some() {
        page.field(0, "Start Time", &human::date(status.start_time.as_ref()));
    }
    page.list("Labels", pairs(meta.labels.as_ref()));
    annotations(page, meta.annotations.as_ref());
    let phase = text(&status.phase);
    match &meta.deletion_timestamp {
        Some(when) if !is_final(Some(&phase)) => {
            page.field(0, "Status", &format!("Terminating (until {})", human::date(Some(when))));
            if let Some(grace) = meta.deletion_grace_period_seconds {
                page.field(0, "Termination Grace Period", &format!("{grace}s"));
            }
        }
        _ => page.field(0, "Status", &phase),
    }
    page.optional(0, "Reason", status.reason.as_ref());
    page.optional(0, "Message", status.message.as_ref());
    page.field(0, "IP", &text(&status.pod_ip));
    match status.pod_ips.as_deref().filter(|ips| !ips.is_empty()) {
        Some(ips) => {
            page.line(0, "IPs:");
            for ip in ips {
                page.field(1, "IP", &ip.ip);
            }
        }
        None => page.field(0, "IPs", "<none>"),
    }
    let source = meta.annotations.as_ref().and_then(|a| a.get(CONFIG_SOURCE));
    page.field(0, "Source", source.map_or("<unknown>", String::as_str));
    let key = format!("{}/{}", text(&meta.namespace), text(&meta.name));
    page.optional(0, "Source Path", file.origins.get(&key));
}

fn pairs(map: Option<&BTreeMap<String, String>>) -> Vec<String> {
    map.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect()
}

fn annotations(page: &mut Page, map: Option<&BTreeMap<String, String>>) {
    let mut lines = Vec::new();
    for (key, value) in map.into_iter().flatten() {
        let value = value.strip_suffix('\n').unwrap_or(value);
        if key.len() + value.len() + 2 > ANNOTATION || value.contains('\n') {
            lines.push(format!("{key}:"));
            lines.extend(value.split('\n').map(|line| format!("  {}", shorten(line))));
        } else {
            lines.push(format!("{key}: {value}"));
        }
    }
    page.list("Annotations", lines);
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(ANNOTATION - 2) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn toleration(t: &Toleration) -> String {
    let part = |prefix: &str, value: &Option<String>| match value.as_deref() {
        Some(value) if !value.is_empty() => format!("{prefix}{value}"),
        _ => String::new(),
    };
    let mut text = part("", &t.key) + &part("=", &t.value) + &part(":", &t.effect);
    if t.operator.as_deref() == Some("Exists") && t.value.as_deref().unwrap_or_default().is_empty() {
        text.push_str(if text.is_empty() { "op=Exists" } else { " op=Exists" });
    }
    if let Some(seconds) = t.toleration_seconds {
        text.push_str(&format!(" for {}", human::duration(seconds)));
    }
    text
}

/// Adds the problems of this pod: errors first.
fn problems(page: &mut Page, file: &StatusFile, pod: &Pod, happened: &Events) {
    let mut list: Vec<&Problem> = file.problems.iter().filter(|p| is_about(p, file, pod)).collect();
    order::sort_by_key(&mut list, |p| p.severity);
    // The reader must learn that the pod's source fails, or that its content is not stored.
    let annotations = pod.metadata.annotations.as_ref();
    let source = annotations.and_then(|a| a.get(CONFIG_SOURCE));
    let source = file.sources.iter().find(|known| Some(&known.name) == source);
    let failing = source.and_then(|source| source.problem.as_ref().map(|why| (&source.name, why)));
    let mut told = of_status(pod, &list, happened);
    let part = |name: &Option<String>| name.clone().unwrap_or_default();
    let key = PodKey { namespace: part(&pod.metadata.namespace), name: part(&pod.metadata.name) };
    if file.stuck.contains(&Task::Pod(key).to_string()) {
        told.push(
            "podkeeper hangs at its work for this pod: a file system or the system does not answer"
                .to_owned(),
        );
    }
    told.extend(probes::unready(pod, happened));
    if annotations.is_some_and(|all| all.contains_key(STALE)) {
        let is_unread = source.is_some_and(|source| source.restored);
        let older = "what runs is an older version of the pod than its source holds now";
        let remembered = "it is what is remembered of its source, which was not read since podkeeper started";
        told.push(if is_unread { remembered } else { older }.to_owned());
    }
    // Otherwise a pod whose containers are not known looks like one that waits.
    let away = pods::without_docker(&file.docker);
    if list.is_empty() && failing.is_none() && told.is_empty() && away.is_none() {
        return page.field(0, "Problems", "<none>");
    }
    page.line(0, "Problems:");
    if let Some(away) = away {
        let _ = writeln!(page.0, "  Error\t{}", one_line(&away));
    }
    if let Some((name, why)) = failing {
        let _ = writeln!(page.0, "  Error\tsource {name}: {}", one_line(why));
    }
    for text in told {
        let _ = writeln!(page.0, "  Error\t{}", one_line(&text));
    }
    for problem in list {
        let word = match problem.severity {
            Severity::Error => "Error",
            Severity::Warning => "Warning",
        };
        // The page is about this pod: its name is left out.
        let text = Problem { pod: None, ..problem.clone() };
        let _ = writeln!(page.0, "  {word}\t{}", one_line(&text.to_string()));
    }
}

/// Problems that the pod's status shows, without those that `list` has already.
fn of_status(pod: &Pod, list: &[&Problem], happened: &Events) -> Vec<String> {
    let Some(status) = &pod.status else { return Vec::new() };
    let mut told = Vec::new();
    let is_wrong = status.phase.as_deref() == Some("Failed") || status.reason.as_deref() == Some(UNMANAGED);
    if let Some(reason) = status.reason.as_deref().filter(|_| is_wrong) {
        let message = status.message.as_deref().unwrap_or_default();
        let message = message.strip_prefix(REJECTED).unwrap_or(message);
        if message.is_empty() || !list.iter().any(|problem| problem.message.contains(message)) {
            told.push(joined(&[reason, message]));
        }
    }
    // Sizes that an edit asks for and that are not in force.
    let pending = status.conditions.iter().flatten().filter(|it| it.type_ == "PodResizePending");
    for resize in pending.filter(|it| it.status == "True") {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        told.push(joined(&[&resize.type_, &part(&resize.reason), &part(&resize.message)]));
    }
    let all =
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    for container in all.into_iter().flatten().flatten() {
        let name = format!("container {}", container.name);
        let state = container.state.as_ref();
        let waiting = state.and_then(|state| state.waiting.as_ref());
        if let Some((reason, message)) = waiting.and_then(|w| Some((w.reason.as_deref()?, &w.message))) {
            let message = message.as_deref().unwrap_or_default();
            // At first each container waits for one of these reasons.
            let starts = [Reason::ContainerCreating, Reason::PodInitializing].map(Reason::as_str);
            if !message.is_empty() || !starts.contains(&reason) {
                let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
                let probe = last.and_then(|ended| probes::killed(pod, &container.name, ended, happened));
                let last = last.map(|ended| format!("it ended with {}", end(ended)));
                let last = last.into_iter().chain(probe).collect::<Vec<_>>().join(": ");
                told.push(joined(&[&name, reason, message, &last]));
            }
        }
        let ended = state.and_then(|state| state.terminated.as_ref()).filter(|ended| ended.exit_code != 0);
        if let Some(ended) = ended {
            let probe = probes::killed(pod, &container.name, ended, happened);
            told.push(joined(&[&name, &end(ended), &probe.unwrap_or_default()]));
        }
    }
    told
}

/// `OOMKilled: exit code 137`, with its termination message.
fn end(ended: &ContainerStateTerminated) -> String {
    let code = format!("exit code {}", ended.exit_code);
    let (reason, message) = (ended.reason.as_deref(), ended.message.as_deref());
    joined(&[reason.unwrap_or_default(), &code, message.unwrap_or_default()])
}

/// `container app: ErrImagePull: no such host`.
fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

/// Whether a problem is about this pod. Problems name a pod as written: without the node's suffix. A problem without a
/// name is about its whole file or answer.
fn is_about(problem: &Problem, file: &StatusFile, pod: &Pod) -> bool {
    let full = pod.metadata.name.as_deref().unwrap_or_default();
    let Some(about) = problem.pod.as_deref() else {
        let key = format!("{}/{full}", pod.metadata.namespace.as_deref().unwrap_or_default());
        let origin = file.origins.get(&key).and_then(|origin| origin.strip_prefix(&problem.path));
        return origin.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'));
    };
    let Some((namespace, name)) = about.split_once('/') else { return false };
    let written = full.strip_suffix(&file.node).and_then(|n| n.strip_suffix('-')).unwrap_or(full);
    pod.metadata.namespace.as_deref() == Some(namespace) && (name == full || name == written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::snapshot::DockerView;

    #[test]
    fn pages_are_kubectls() {
        let file = pods::tests::node().file;
        let (events, now) = (events::tests::events(), "2026-01-02T04:00:00Z".parse().unwrap());
        for name in ["web", "stack", "job", "broken", "leaving", "refused"] {
            let index = pods::find(&file, "default", name).unwrap();
            crate::base::testing::golden(
                &format!("cli/describe-{name}.txt"),
                &describe(&file, &file.pods[index], &events, now),
            );
        }
    }

    #[test]
    fn a_pod_of_a_source_that_was_not_read_is_not_called_older() {
        let mut file = pods::tests::node().file;
        let web = pods::find(&file, "default", "web").unwrap();
        let annotations = file.pods[web].metadata.annotations.get_or_insert_default();
        annotations.insert(STALE.to_owned(), "true".to_owned());
        let source = annotations.get(CONFIG_SOURCE).cloned();
        let page = |file: &StatusFile| {
            let now = "2026-01-02T04:00:00Z".parse().unwrap();
            describe(file, &file.pods[web], &Events::default(), now)
        };
        assert!(page(&file).contains("an older version of the pod than its source holds now"));
        let source = file.sources.iter_mut().find(|known| Some(&known.name) == source.as_ref()).unwrap();
        source.restored = true;
        assert!(page(&file).contains("which was not read since podkeeper started"), "{}", page(&file));
    }

    #[test]
    fn a_page_says_why_nothing_is_known_where_docker_never_answered() {
        let mut file = pods::tests::node().file;
        let web = pods::find(&file, "default", "web").unwrap();
        file.docker = DockerView { version: None, reachable: false, ..file.docker };
        file.docker.problem = Some("nobody listens".to_owned());
        file.pods[web].status = None;
        let now = "2026-01-02T04:00:00Z".parse().unwrap();
        let page = describe(&file, &file.pods[web], &Events::default(), now);
        let why = "Docker is not reachable (nobody listens): it has not answered since podkeeper began";
        assert!(page.contains(why), "{page}");
    }

    #[test]
    fn tolerations_in_kubectls_words() {
        let check = |t: Toleration, expected: &str| assert_eq!(toleration(&t), expected);
        let some = |text: &str| Some(text.to_owned());
        check(Toleration { operator: some("Exists"), ..Toleration::default() }, "op=Exists");
        let t = Toleration {
            key: some("k"),
            operator: some("Exists"),
            effect: some("NoExecute"),
            ..Toleration::default()
        };
        check(Toleration { toleration_seconds: Some(300), ..t.clone() }, "k:NoExecute op=Exists for 5m");
        check(Toleration { operator: some("Equal"), value: some("v"), ..t }, "k=v:NoExecute");
    }

    #[test]
    fn what_a_manifest_says_cannot_drive_the_terminal() {
        let mut page = Page::default();
        page.field(0, "A", "x\u{1b}[2J\ty\nName: forged");
        assert_eq!(table::align(&page.0), "A:  x\\u{1b}[2J\\ty\\nName: forged\n");
    }
    #[test]
    fn what_the_status_says_is_wrong_is_a_problem() {
        let check = |status: serde_json::Value, expected: &[&str]| {
            let pod = Pod { status: serde_json::from_value(status).unwrap(), ..Pod::default() };
            assert_eq!(of_status(&pod, &[], &Events::default()), expected);
        };
        let waits = |reason: &str, message: &str| {
            serde_json::json!({"phase": "Pending", "containerStatuses": [{"name": "app", "image": "", "imageID": "",
                "ready": false, "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}}]})
        };
        check(waits("ContainerCreating", ""), &[]);
        check(waits("PodInitializing", ""), &[]);
        check(waits("ContainerCreating", "no disk"), &["container app: ContainerCreating: no disk"]);
        check(waits("ImagePullBackOff", "Back-off"), &["container app: ImagePullBackOff: Back-off"]);
        check(
            waits("CreateContainerConfigError", "configmap \"c\" not found"),
            &["container app: CreateContainerConfigError: configmap \"c\" not found"],
        );
        let refused = serde_json::json!({"phase": "Failed", "reason": "NodePorts",
            "message": "Pod was rejected: host port 80 is taken"});
        check(refused, &["NodePorts: host port 80 is taken"]);
        check(
            serde_json::json!({"phase": "Pending", "reason": "WaitingForPods", "message": "Waits for a"}),
            &[],
        );
        let ended = serde_json::json!({"phase": "Failed", "initContainerStatuses": [{"name": "first", "image": "",
            "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}]});
        check(ended, &["container first: Error: exit code 2"]);
        let resize = |status: &str| {
            serde_json::json!({"phase": "Running", "conditions": [{"type": "PodResizePending", "status": status,
                "reason": "Infeasible", "message": "Node didn't have enough capacity: memory"}]})
        };
        check(resize("True"), &["PodResizePending: Infeasible: Node didn't have enough capacity: memory"]);
        check(resize("False"), &[]);
        let mut crashes = waits("CrashLoopBackOff", "back-off 10s");
        crashes["containerStatuses"][0]["lastState"] =
            serde_json::json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "bye"}});
        check(
            crashes,
            &["container app: CrashLoopBackOff: back-off 10s: it ended with OOMKilled: exit code 137: bye"],
        );
    }
}
