//! Events of pods, as the kubelet's: Pulling, Created, Started, Killing, BackOff … A machine reports each
//! event once, in the kubelet's [`words`]; the main loop counts a repeated event instead of keeping it twice
//! ([`ring`]); `events.json` holds them as the API's objects ([`object`]).
//!
//! Not Docker's event stream, which is in `events.rs`. Never here: a decision, or unbounded storage. A
//! message never has a Secret's value: its creator calls [`mask`].
//!
//! An event's log line is the only one about it. A repeated event is counted, and moves to the end; texts that
//! differ only in ids count as equal, because a full disk is reported with another layer's id each time. After
//! ten texts of one container and reason, all further ones are one event, so that a probe that prints the time
//! displaces no other events. A start or create whose answer was lost is reported when a later look finds the
//! container; containers of an earlier daemon are not reported again. Events have their own file, because counts
//! change without status changes, and the status file contains every pod. A damaged file loses the past events,
//! with no other effect.

pub mod object;
pub mod ring;
pub mod words;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::base::limits;
use crate::base::order;
use crate::pod::object::{Objects, secrets};
use crate::pod::{ContainerKind, PodKey};

pub use ring::Ring;
pub use words::Words;

/// Kind of an event (`type` of the API's object).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Normal operation.
    Normal,
    /// A problem.
    Warning,
}

impl Weight {
    /// The API's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Weight::Normal => "Normal",
            Weight::Warning => "Warning",
        }
    }

    /// Level of its log line.
    #[must_use]
    pub fn level(self) -> log::Level {
        match self {
            Weight::Normal => log::Level::Info,
            Weight::Warning => log::Level::Warn,
        }
    }
}

/// Lists of containers in a pod's spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// `initContainers`, including sidecars.
    Init,
    /// `containers`.
    Regular,
    /// `ephemeralContainers`.
    Ephemeral,
}

impl List {
    /// The list for containers of this kind.
    #[must_use]
    pub fn of(kind: ContainerKind) -> List {
        match kind {
            ContainerKind::Init | ContainerKind::Sidecar => List::Init,
            ContainerKind::Regular => List::Regular,
            ContainerKind::Ephemeral => List::Ephemeral,
        }
    }

    /// The API's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            List::Init => "initContainers",
            List::Regular => "containers",
            List::Ephemeral => "ephemeralContainers",
        }
    }

    /// The reverse; other text counts as `containers`.
    #[must_use]
    pub fn parse(text: &str) -> List {
        match text {
            "initContainers" => List::Init,
            "ephemeralContainers" => List::Ephemeral,
            _ => List::Regular,
        }
    }
}

/// The container that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The list with the container.
    pub list: List,
    /// Its name in the pod.
    pub name: String,
}

impl fmt::Display for Subject {
    /// `involvedObject.fieldPath`: `spec.containers{web}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = self.list.as_str();
        write!(f, "spec.{list}{{{}}}", self.name)
    }
}

/// The object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Involved {
    /// A pod.
    Pod(PodKey),
    /// The node, of this name.
    Node(String),
}

impl fmt::Display for Involved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Involved::Pod(key) => write!(f, "pod {key}"),
            Involved::Node(name) => write!(f, "node {name}"),
        }
    }
}

/// One event. Two events for which [`ObjectEvent::is_again`] holds count as the same event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEvent {
    /// The object.
    pub of: Involved,
    /// UID of the pod; for the node its name, as the kubelet writes it.
    pub uid: String,
    /// The container; `None`: the object as a whole.
    pub subject: Option<Subject>,
    /// Kind of the event.
    pub weight: Weight,
    /// The kubelet's reason (`pkg/kubelet/events/event.go`), one word.
    pub reason: Cow<'static, str>,
    /// The kubelet's text; at most [`limits::EVENT_MESSAGE`] bytes.
    pub message: String,
}

impl ObjectEvent {
    /// An event of a pod with these words; a text that is too long is cut.
    #[must_use]
    pub fn new(pod: PodKey, uid: String, subject: Option<Subject>, words: Words) -> ObjectEvent {
        let Words { weight, reason, message } = words;
        ObjectEvent { of: Involved::Pod(pod), uid, subject, weight, reason, message: cut(message) }
    }

    /// An event of the node of this name.
    #[must_use]
    pub fn of_node(name: &str, words: Words) -> ObjectEvent {
        let Words { weight, reason, message } = words;
        let (of, uid) = (Involved::Node(name.to_owned()), name.to_owned());
        ObjectEvent { of, uid, subject: None, weight, reason, message: cut(message) }
    }

    /// Whether the two differ at most in their messages.
    #[must_use]
    pub fn is_like(&self, other: &ObjectEvent) -> bool {
        self.uid == other.uid
            && self.reason == other.reason
            && self.weight == other.weight
            && self.subject == other.subject
            && self.of == other.of
    }

    /// Whether the two differ at most in ids in their messages.
    #[must_use]
    pub fn is_again(&self, other: &ObjectEvent) -> bool {
        self.is_like(other) && without_ids(&self.message).eq(without_ids(&other.message))
    }

    /// Approximate size in memory, in bytes.
    fn size(&self) -> usize {
        let name = self.subject.as_ref().map_or(0, |s| s.name.len());
        let of = match &self.of {
            Involved::Pod(key) => key.namespace.len().saturating_add(key.name.len()),
            Involved::Node(name) => name.len(),
        };
        [of, self.uid.len(), name, self.reason.len(), self.message.len(), std::mem::size_of::<ObjectEvent>()]
            .iter()
            .fold(0, |sum, part| sum.saturating_add(*part))
    }
}

/// The words of a message, without ids: hexadecimal numbers of at least [`limits::EVENT_ID`] digits (containers,
/// layers, digests), and parts of paths that are numbers (containerd's snapshots). Only events of one container
/// are compared, and its image has one digest.
fn without_ids(message: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| !c.is_ascii_alphanumeric();
    let mut in_path = false;
    message.split_inclusive(is_end).map(move |part| {
        let word = part.trim_end_matches(is_end);
        let is_hex = word.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        let is_number = !word.is_empty() && word.bytes().all(|c| c.is_ascii_digit());
        let is_id = is_hex && word.len() >= limits::EVENT_ID || is_number && in_path;
        in_path = part.ends_with('/');
        if is_id { part.get(word.len()..).unwrap_or_default() } else { part }
    })
}

/// At most [`limits::EVENT_MESSAGE`] bytes, without white space at the end.
fn cut(mut message: String) -> String {
    message.truncate(message.trim_end().len());
    if message.len() > limits::EVENT_MESSAGE {
        let dots = "...";
        let mut end = limits::EVENT_MESSAGE.saturating_sub(dots.len());
        while !message.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        message.truncate(end);
        message.push_str(dots);
    }
    message
}

/// Removes the values of these Secrets from a message: Docker's errors repeat commands, and probes repeat a
/// container's output. Values shorter than [`limits::EVENT_SECRET`] occur in ordinary text, and stay.
#[must_use]
pub fn mask(mut message: String, objects: &Objects) -> String {
    let values = secrets(objects).flat_map(BTreeMap::values);
    let values = values.filter_map(|value| std::str::from_utf8(value.expose()).ok()).map(str::trim);
    let mut values: Vec<&str> =
        values.filter(|v| (limits::EVENT_SECRET..=message.len()).contains(&v.len())).collect();
    // One value may be part of another.
    order::sort_by_key(&mut values, |value| std::cmp::Reverse(value.len()));
    for value in values {
        // Also in the quoted form of Docker, Go and podkeeper.
        let quoted = format!("{value:?}");
        let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
        for shown in [value, &value.escape_default().to_string(), inside, &go_escaped(value)] {
            if message.contains(shown) {
                message = message.replace(shown, "<secret>");
            }
        }
    }
    message
}

/// The value as Go's `%q` writes it, without the quotes (`strconv/quote.go`): containerd and runc quote so.
fn go_escaped(value: &str) -> String {
    let shown = value.chars().map(|c| match u32::from(c) {
        7 => "\\a".to_owned(),
        8 => "\\b".to_owned(),
        11 => "\\v".to_owned(),
        12 => "\\f".to_owned(),
        9 | 10 | 13 | 34 | 92 => c.escape_default().to_string(),
        code @ (0..32 | 127) => format!("\\x{code:02x}"),
        // What cannot be printed.
        code if c.escape_debug().len() > 1 && c != '\'' => match u16::try_from(code) {
            Ok(code) => format!("\\u{code:04x}"),
            Err(_) => format!("\\U{code:08x}"),
        },
        _ => c.to_string(),
    });
    shown.collect()
}

#[cfg(test)]
mod tests;
