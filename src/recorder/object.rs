//! An event as the API's object (`v1` `Event`), and the file of all events, `events.json` beside
//! `status.json`: the daemon writes it; the command line and the next daemon read it.
//!
//! It is a separate file because counts change without status changes: `status.json` contains every pod, and
//! must not be written again for each failed probe.

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::ring::Kept;
use super::{Involved as Of, List, ObjectEvent, Subject, Weight};
use crate::base::json::{self, items};
use crate::base::{limits, regular};
use crate::pod::PodKey;

/// The file's name in the run directory.
pub const NAME: &str = "events.json";
/// Format of the file.
const API_VERSION: &str = "podkeeper.dev/v1";
/// `involvedObject.kind` of a pod.
pub const POD: &str = "Pod";
/// `involvedObject.kind` of the node.
pub const NODE: &str = "Node";
/// The namespace for events of the node, which has no namespace itself (`tools/record/event.go`).
const NODE_NAMESPACE: &str = "default";
/// `source.component`: the program that reports the event.
const COMPONENT: &str = "podkeeper";

/// `metadata`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the API's fields")]
pub struct Metadata {
    pub name: String,
    pub namespace: String,
    pub creation_timestamp: Time,
}

/// `involvedObject`: a pod, a container of it, or the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the API's fields")]
pub struct Involved {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub uid: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

/// `source`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the API's fields")]
pub struct Source {
    pub component: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// `v1` `Event`, with the fields that podkeeper sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the API's fields")]
pub struct EventObject {
    pub api_version: String,
    pub kind: String,
    pub metadata: Metadata,
    pub involved_object: Involved,
    pub reason: String,
    pub message: String,
    pub source: Source,
    pub first_timestamp: Time,
    pub last_timestamp: Time,
    pub count: u32,
    #[serde(rename = "type")]
    pub weight: String,
}

impl EventObject {
    /// The object of a kept event; `node` is the node that has seen it.
    #[must_use]
    pub fn new(kept: &Kept, node: &str) -> EventObject {
        let ObjectEvent { of, uid, subject, weight, reason, message } = &kept.event;
        let (kind, namespace, name) = match of {
            Of::Pod(key) => (POD, key.namespace.as_str(), key.name.as_str()),
            Of::Node(name) => (NODE, NODE_NAMESPACE, name.as_str()),
        };
        EventObject {
            api_version: "v1".to_owned(),
            kind: "Event".to_owned(),
            metadata: Metadata {
                name: format!("{name}.{:016x}", kept.serial),
                namespace: namespace.to_owned(),
                creation_timestamp: Time(kept.first),
            },
            involved_object: Involved {
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
                namespace: match of {
                    Of::Pod(_) => namespace.to_owned(),
                    Of::Node(_) => String::new(),
                },
                name: name.to_owned(),
                uid: uid.clone(),
                field_path: subject.as_ref().map(Subject::to_string).unwrap_or_default(),
            },
            reason: reason.clone().into_owned(),
            message: message.clone(),
            source: Source { component: COMPONENT.to_owned(), host: node.to_owned() },
            first_timestamp: Time(kept.first),
            last_timestamp: Time(kept.last),
            count: kept.count,
            weight: weight.as_str().to_owned(),
        }
    }

    /// Converts back to the ring's form; `None` for an object that podkeeper does not write.
    fn into_kept(self) -> Option<Kept> {
        let EventObject { metadata, involved_object: of, reason, message, count, .. } = self;
        let weight = match self.weight.as_str() {
            "Normal" => Weight::Normal,
            "Warning" => Weight::Warning,
            _ => return None,
        };
        let subject = match of.field_path.as_str() {
            "" => None,
            path => {
                let (list, name) = path.strip_prefix("spec.")?.strip_suffix('}')?.split_once('{')?;
                Some(Subject { list: List::parse(list), name: name.to_owned() })
            }
        };
        let involved = match of.kind.as_str() {
            POD => Of::Pod(PodKey { namespace: of.namespace, name: of.name }),
            NODE => Of::Node(of.name),
            _ => return None,
        };
        let event =
            ObjectEvent { of: involved, uid: of.uid, subject, weight, reason: reason.into(), message };
        let serial =
            metadata.name.rsplit_once('.').and_then(|(_, hex)| i128::from_str_radix(hex, 16).ok())?;
        Some(Kept::restored(event, serial, self.first_timestamp.0, self.last_timestamp.0, count))
    }
}

/// The bytes of the file. Pure. Objects are created one at a time: all of them together would need several
/// times the file's size.
#[must_use]
pub fn render(node: &str, kept: &[Arc<Kept>]) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Out<'a> {
        api_version: &'static str,
        kind: &'static str,
        node: &'a str,
        items: Items<'a>,
    }
    let out = Out { api_version: API_VERSION, kind: "EventList", node, items: Items { node, kept } };
    // All fields can be serialized as JSON.
    serde_json::to_vec(&out).unwrap_or_default()
}

struct Items<'a> {
    node: &'a str,
    kept: &'a [Arc<Kept>],
}

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.kept.iter().map(|kept| EventObject::new(kept, self.node)))
    }
}

/// Events as in the file.
#[derive(Debug, Clone, Default)]
pub struct Events {
    /// For tables, the latest event last.
    pub items: Vec<EventObject>,
    /// The same as written, for `-o json` and `-o yaml`.
    pub values: Vec<Value>,
}

impl Events {
    fn push(&mut self, event: EventObject, value: Value) {
        self.items.push(event);
        self.values.push(value);
    }
}

/// Reads a file's bytes, one event at a time: `take` gets each as written. Pure.
///
/// # Errors
/// Not JSON, or of another format.
fn each_of(bytes: &[u8], take: &mut dyn FnMut(EventObject, Value)) -> Result<(), String> {
    let mut wrong = None;
    let others = items::of_list(bytes, &mut |value| match json::read_own::<EventObject>(&value) {
        Ok(event) => take(event, value),
        Err(error) => wrong = Some(error),
    });
    let others = others.map_err(|e| format!("damaged: {e}"))?;
    if !others.iter().any(|(key, value)| key == "apiVersion" && value == API_VERSION) {
        return Err("written by another version of podkeeper".to_owned());
    }
    wrong.map_or(Ok(()), |error| Err(format!("damaged: {error}")))
}

/// Gives each event of a run directory's file to `take`; a missing file has none.
///
/// # Errors
/// A message with the path.
fn each(run_dir: &Path, take: &mut dyn FnMut(EventObject, Value)) -> Result<(), String> {
    let path = run_dir.join(NAME);
    let failed = |why: String| format!("cannot read {}: {why}", path.display());
    match regular::read(&path, limits::EVENTS_FILE) {
        Ok(bytes) => each_of(&bytes, take).map_err(failed),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Reads the event file of a run directory; a missing one has no events.
///
/// # Errors
/// A message with the path.
pub fn read(run_dir: &Path) -> Result<Events, String> {
    let mut events = Events::default();
    each(run_dir, &mut |event, value| events.push(event, value))?;
    Ok(events)
}

/// The events of a file's bytes.
#[cfg(test)]
pub fn parse(bytes: &[u8]) -> Result<Events, String> {
    let mut events = Events::default();
    each_of(bytes, &mut |event, value| events.push(event, value))?;
    Ok(events)
}

/// Events that an earlier daemon wrote since the machine booted, for the ring.
///
/// # Errors
/// See [`read`].
pub fn restore(run_dir: &Path) -> Result<Vec<Kept>, String> {
    let mut kept = Vec::new();
    each(run_dir, &mut |event, _| kept.extend(event.into_kept()))?;
    Ok(kept)
}
