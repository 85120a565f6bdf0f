//! Pods, events and the node as the page shows them: the few fields that it draws. Pure.
//!
//! Never here: a Secret's value, a variable or an argument of a container.

use crate::base::json::json;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::base::clock::Timestamp;
use crate::base::json;
use crate::base::{limits, quantity};
use crate::pod::problem::Severity;
use crate::pod::waiting::Reason;
use crate::pod::{ContainerKind, init_kind};
use crate::status::columns::Row;
use crate::status::snapshot::Snapshot;

/// A pod's state as a colour and a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Good,
    Waits,
    Bad,
    Done,
}

impl Tone {
    fn word(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Waits => "waits",
            Tone::Bad => "bad",
            Tone::Done => "done",
        }
    }
}

/// Reasons of a container that is about to start.
const ON_ITS_WAY: [&str; 3] = ["", Reason::ContainerCreating.as_str(), Reason::PodInitializing.as_str()];

/// A pod; `None` when the object is no pod.
#[must_use]
pub fn pod(object: &Value, now: Timestamp) -> Option<Value> {
    let pod = json::read::<Pod>(object).ok()?;
    let (none, no_spec) = (PodStatus::default(), PodSpec::default());
    let (status, spec) = (pod.status.as_ref().unwrap_or(&none), pod.spec.as_ref().unwrap_or(&no_spec));
    let mut cells = Row::of(&pod).cells(false, false, now).into_iter().skip(1);
    let (ready, word) = (cells.next()?, cells.next()?);
    let is_leaving = pod.metadata.deletion_timestamp.is_some();
    let restarts = all(status).map(|one| i64::from(one.restart_count)).fold(0, i64::saturating_add);
    let tone = tone(status, is_leaving, &word);
    let metadata = &pod.metadata;
    let source = metadata.annotations.as_ref().and_then(|all| all.get("kubernetes.io/config.source"));
    Some(json!({
        "uid": metadata.uid,
        "ns": metadata.namespace,
        "name": metadata.name,
        "ready": ready,
        "status": word,
        "tone": tone.word(),
        "restarts": restarts,
        "since": seconds(status.start_time.as_ref().or(metadata.creation_timestamp.as_ref())),
        "ip": status.pod_ip,
        "source": source,
        "qos": status.qos_class,
        "memory": limit(spec, "memory", |text| quantity::value(text).ok().map(|bytes| bytes / 1024)),
        "cpu": limit(spec, "cpu", |text| quantity::milli(text).ok()),
        "why": why(status, tone),
        "containers": containers(spec, status),
    }))
}

fn all(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let all =
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    all.into_iter().flatten().flatten()
}

fn waits_for(status: &ContainerStatus) -> Option<&str> {
    Some(status.state.as_ref()?.waiting.as_ref()?.reason.as_deref().unwrap_or_default())
}

fn tone(status: &PodStatus, is_leaving: bool, word: &str) -> Tone {
    let is_stuck = |one| waits_for(one).is_some_and(|reason| !ON_ITS_WAY.contains(&reason));
    let mut regular = status.container_statuses.iter().flatten();
    match status.phase.as_deref() {
        _ if is_leaving => Tone::Waits,
        Some("Succeeded") => Tone::Done,
        Some("Failed") => Tone::Bad,
        _ if all(status).any(is_stuck) || word == "Error" || word == "OOMKilled" => Tone::Bad,
        Some("Running") if regular.all(|one| one.ready) => Tone::Good,
        _ => Tone::Waits,
    }
}

/// The sum of a limit over the containers, where each has one.
fn limit(spec: &PodSpec, name: &str, read: impl Fn(&str) -> Option<i64>) -> Option<i64> {
    let mut sum: i64 = 0;
    for container in &spec.containers {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        sum = sum.saturating_add(read(&limits?.get(name)?.0)?);
    }
    Some(sum).filter(|sum| *sum > 0)
}

/// The problems of a pod: where, what, and a sentence.
fn why(status: &PodStatus, tone: Tone) -> Vec<Value> {
    let line = |who: &str, what: &str, text: &str| json!([who, what, short(text)]);
    let mut lines = Vec::new();
    if let Some(reason) = status.reason.as_deref().filter(|reason| !reason.is_empty()) {
        lines.push(line("", reason, status.message.as_deref().unwrap_or_default()));
    }
    if matches!(tone, Tone::Good | Tone::Done) {
        return lines;
    }
    for one in all(status) {
        let state = one.state.as_ref();
        if let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) {
            let reason = waiting.reason.as_deref().unwrap_or("Waiting");
            lines.push(line(&one.name, reason, waiting.message.as_deref().unwrap_or_default()));
        }
        if let Some(ended) =
            state.and_then(|state| state.terminated.as_ref()).filter(|ended| ended.exit_code != 0)
        {
            let text =
                format!("exit code {}. {}", ended.exit_code, ended.message.as_deref().unwrap_or_default());
            lines.push(line(&one.name, ended.reason.as_deref().unwrap_or("Error"), text.trim_end()));
        }
        let is_stuck = waits_for(one).is_some_and(|reason| !ON_ITS_WAY.contains(&reason));
        let last = one.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        if let Some(last) = last.filter(|_| is_stuck) {
            let reason = last.reason.as_deref().unwrap_or("Error");
            let message = last.message.as_deref().unwrap_or_default();
            let text = format!("The last run ended with exit code {} ({reason}). {message}", last.exit_code);
            lines.push(line(&one.name, "", text.trim_end()));
        }
    }
    let is_false = |kind: &str| kind != "Ready" && kind != "ContainersReady" || lines.is_empty();
    let conditions =
        status.conditions.iter().flatten().filter(|one| one.status == "False" && is_false(&one.type_));
    let told: Vec<Value> = conditions
        .filter_map(|one| {
            Some(line("", one.reason.as_deref().unwrap_or(&one.type_), one.message.as_deref()?))
        })
        .collect();
    // The same sentence is in several conditions.
    for one in told {
        if !lines.iter().any(|known| known.get(2) == one.get(2)) {
            lines.push(one);
        }
    }
    lines
}

fn containers(spec: &PodSpec, status: &PodStatus) -> Vec<Value> {
    let of = |name: &str| all(status).find(|one| one.name == name);
    let mut rows = Vec::new();
    for container in spec.init_containers.iter().flatten() {
        let kind = if init_kind(container) == ContainerKind::Sidecar { "sidecar" } else { "init" };
        rows.push(row(&container.name, kind, container.image.as_deref(), of(&container.name)));
    }
    for container in &spec.containers {
        rows.push(row(&container.name, "", container.image.as_deref(), of(&container.name)));
    }
    let debugging = status.ephemeral_container_statuses.iter().flatten();
    rows.extend(debugging.map(|one| row(&one.name, "debug", Some(&one.image), Some(one))));
    rows
}

fn row(name: &str, kind: &str, image: Option<&str>, status: Option<&ContainerStatus>) -> Value {
    let (state, since) = status.and_then(|one| one.state.as_ref()).map_or(("Waiting".to_owned(), None), told);
    let last = status.and_then(|one| one.last_state.as_ref()).and_then(|state| state.terminated.as_ref());
    json!({
        "name": name,
        "kind": kind,
        "image": image,
        "state": state,
        "since": since,
        "ready": status.is_some_and(|one| one.ready),
        "restarts": status.map_or(0, |one| one.restart_count),
        "previous": last.is_some_and(|last| last.container_id.is_some()),
    })
}

/// A state in a few words, and since when.
fn told(state: &ContainerState) -> (String, Option<i64>) {
    if let Some(running) = &state.running {
        return ("Running".to_owned(), seconds(running.started_at.as_ref()));
    }
    if let Some(ended) = &state.terminated {
        let reason = ended.reason.as_deref().unwrap_or("Terminated");
        return (format!("{reason} ({})", ended.exit_code), seconds(ended.finished_at.as_ref()));
    }
    let reason = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
    (reason.unwrap_or_else(|| "Waiting".to_owned()), None)
}

/// An event.
#[must_use]
pub fn event(object: &Value) -> Value {
    let at = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let time = |path: &str| at(path).parse::<Timestamp>().ok().map(Timestamp::as_second);
    json!({
        "key": format!("{}/{}", at("/metadata/namespace"), at("/metadata/name")),
        "type": at("/type"),
        "reason": at("/reason"),
        "kind": at("/involvedObject/kind"),
        "ns": at("/involvedObject/namespace"),
        "name": at("/involvedObject/name"),
        "text": short(at("/message").trim()),
        "count": object.get("count").and_then(Value::as_i64).unwrap_or(1),
        "last": time("/lastTimestamp").or_else(|| time("/metadata/creationTimestamp")),
    })
}

/// The node, its problems, and the problems of manifests.
#[must_use]
pub fn node(snapshot: &Snapshot) -> Value {
    let capacity = |name: &str| snapshot.info.capacity.get(name);
    let ready = snapshot.conditions.iter().find(|condition| condition.type_ == "Ready");
    let mut notes = Vec::new();
    if let Some(problem) = &snapshot.docker.problem {
        notes.push(json!(["Docker", short(problem)]));
    }
    for condition in &snapshot.conditions {
        if condition.is_true != (condition.type_ == "Ready") {
            notes.push(json!([condition.type_, short(&condition.message)]));
        }
    }
    if let Some(drain) = &snapshot.drain {
        let text = if drain.stopped { "all pods have stopped" } else { "pods are being stopped" };
        notes.push(json!(["Drained", text]));
    }
    notes.extend(snapshot.stuck.iter().map(|what| json!(["Hangs", short(&what.to_string())])));
    let refused = snapshot.problems.iter().filter(|problem| problem.severity == Severity::Error);
    let refused = refused.take(limits::PAGE_PROBLEMS);
    notes.extend(refused.map(|problem| json!(["Not run", short(&problem.to_string())])));
    json!({
        "name": snapshot.node,
        "ready": ready.is_none_or(|ready| ready.is_true),
        "version": env!("CARGO_PKG_VERSION"),
        "docker": snapshot.docker.version,
        "cpu": capacity("cpu").and_then(|text| quantity::milli(text).ok()),
        "memory": capacity("memory").and_then(|text| quantity::value(text).ok()).map(|bytes| bytes / 1024),
        "notes": notes,
    })
}

fn seconds(time: Option<&Time>) -> Option<i64> {
    time.map(|time| time.0.as_second())
}

/// The text, cut to the length that the page shows.
fn short(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(limits::PAGE_TEXT).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
