//! `describe pod`: one pod in full, in the layout of kubectl's describer (`kubectl/pkg/describe/describe.go`), then its
//! problems and its events. The reason why a container waits is also printed below the container, because events are
//! forgotten.

mod containers;
mod probes;
mod problems;
mod volumes;

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus, Toleration};

use super::{events, table};
use crate::base::clock::{Clock, System, Timestamp};
use crate::base::human;
use crate::base::logging::one_line;
use crate::cli::flags::Options;
use crate::cli::{Outcome, fail, pods, print, say};
use crate::manifest::static_pod::CONFIG_SOURCE;
use crate::pod::is_final;
use crate::recorder::object::{self, Events, Involved};
use crate::status::snapshot::StatusFile;

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
    problems::describe(&mut page, file, pod, happened);
    page.0.push_str(&events::describe(happened, &|of| is_of(of, pod), now));
    table::align(&page.0)
}

/// Whether an event is about this pod: two pods may have one UID.
fn is_of(of: &Involved, pod: &Pod) -> bool {
    let meta = &pod.metadata;
    let is_same = |own: &Option<String>, its: &str| own.as_deref().unwrap_or_default() == its;
    let is_named = is_same(&meta.name, &of.name) && is_same(&meta.namespace, &of.namespace);
    of.kind == object::POD && is_named && is_same(&meta.uid, &of.uid)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::file::STALE;
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

    /// One that a file refuses for its UID had the events of the other one.
    #[test]
    fn pods_of_one_uid_have_their_own_events() {
        let (file, now) = (pods::tests::node().file, "2026-01-02T04:00:00Z".parse().unwrap());
        let web = &file.pods[pods::find(&file, "default", "web").unwrap()];
        let has_events = |pod: &Pod| {
            let page = describe(&file, pod, &events::tests::events(), now);
            page.lines().any(|line| line == "Events:")
        };
        assert!(has_events(web));
        let mut other = web.clone();
        other.metadata.name = Some("other-node1".to_owned());
        assert!(!has_events(&other));
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
}
