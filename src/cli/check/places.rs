//! Where in a manifest the thing stands that a problem is about. Who refuses a pod as a whole knows fields
//! and containers only by name.

use std::collections::BTreeMap;

use crate::manifest::node::{Node, Place};
use crate::pod::problem::Problem;

/// The texts of pods, by file and name.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<(String, String), Node>);

impl Places {
    /// Remembers a pod's text. The first one of a name counts.
    pub(super) fn add(&mut self, path: &str, pod: &str, text: Node) {
        self.0.entry((path.to_owned(), pod.to_owned())).or_insert(text);
    }

    fn text(&self, path: &str, pod: &str) -> Option<&Node> {
        self.0.get(&(path.to_owned(), pod.to_owned()))
    }

    /// Of a problem that has no place yet.
    pub(super) fn of(&self, problem: &Problem) -> Option<Place> {
        let (path, pod) = (&problem.path, problem.pod.as_deref()?);
        match &problem.field {
            Some(field) => self.of_field(path, pod, field),
            None => {
                let (reason, message) = problem.message.split_once(": ").unwrap_or(("", &problem.message));
                self.of_refusal(path, pod, reason, message)
            }
        }
    }

    /// The nearest that is written of a field.
    pub(super) fn of_field(&self, path: &str, pod: &str, field: &str) -> Option<Place> {
        let text = self.text(path, pod)?;
        let (mut node, mut place) = (text, text.at);
        for step in steps(field) {
            if let Some(entry) = node.entries().iter().find(|entry| entry.key == step) {
                (node, place) = (&entry.value, entry.at);
            } else if let Some(item) = step.parse().ok().and_then(|i: usize| node.items().get(i)) {
                (node, place) = (item, item.at);
            } else {
                break;
            }
        }
        Some(place)
    }

    /// Of what a refusal of a whole pod is about.
    pub(super) fn of_refusal(&self, path: &str, pod: &str, reason: &str, message: &str) -> Option<Place> {
        let text = self.text(path, pod)?;
        let by_reason = keys(reason, message).iter().find_map(|key| find(text, key, message));
        let spec = || Some(text.entries().iter().find(|entry| entry.key == "spec")?.at);
        by_reason.or_else(|| named(text, message)).or_else(spec).or(Some(text.at))
    }
}

/// `spec.containers[0].image`, `metadata.annotations[podkeeper.dev/after]`: its steps.
fn steps(field: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        let (step, more) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        steps.push(step);
        rest = more.strip_prefix('.').unwrap_or(more);
    }
    steps
}

/// The fields that a reason is about, the likeliest first.
fn keys(reason: &str, message: &str) -> &'static [&'static str] {
    match reason {
        "NodePorts" => &["hostPort"],
        "NodeAffinity" => &["nodeSelector", "affinity"],
        "NodeName" => &["nodeName"],
        "SysctlForbidden" => &["sysctls"],
        "PodOSNotSupported" => &["os"],
        "PodOSSelectorNodeLabelDoesNotMatch" => &["kubernetes.io/os"],
        "AppArmor" => &["appArmorProfile", "annotations"],
        "Forbidden" if message.contains("host networking") => &["hostNetwork"],
        "Forbidden" if message.contains("privileged") => &["privileged"],
        "Forbidden" => &[crate::node::devices::DEVICE],
        _ if reason.starts_with("OutOf") => &["resources"],
        _ => &[],
    }
}

/// The first such key in a text; one whose value stands in the message, if there is one.
fn find(text: &Node, key: &str, message: &str) -> Option<Place> {
    let mut all = Vec::new();
    collect(text, key, &mut all);
    let is_told = |value: &Node| {
        let value = value.to_value().to_string();
        message.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == value)
    };
    let told = all.iter().find(|(_, value)| is_told(value));
    told.or(all.first()).map(|(place, _)| *place)
}

fn collect<'n>(node: &'n Node, key: &str, all: &mut Vec<(Place, &'n Node)>) {
    for entry in node.entries() {
        if entry.key == key {
            all.push((entry.at, &entry.value));
        }
        collect(&entry.value, key, all);
    }
    node.items().iter().for_each(|item| collect(item, key, all));
}

/// The container or volume that a message names first.
fn named(text: &Node, message: &str) -> Option<Place> {
    let spec = text.get("spec")?;
    let lists = ["initContainers", "containers", "ephemeralContainers", "volumes"];
    let all = || lists.iter().filter_map(|list| spec.get(list)).flat_map(Node::items);
    message.split('"').skip(1).step_by(2).find_map(|word| {
        all().find(|item| item.get("name").and_then(Node::as_str) == Some(word)).map(|item| item.at)
    })
}
