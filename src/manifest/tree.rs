//! The tree of a manifest's text: JSON's kinds of data, each with its place in the text.
//!
//! Never here: parsing text (`yaml.rs`), Kubernetes types.

use std::fmt;

use serde_json::{Map, Number, Value};

use super::path::{Path, Step};
use super::scalar;

use crate::base::{limits, order};

/// 1-based line and column.
pub(crate) type Place = (u32, u32);

/// A value and its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// The place where it begins.
    pub at: Place,
    /// The value.
    pub data: Data,
}

/// JSON's kinds of data. A map keeps the written order and has no duplicate keys.
#[derive(Clone, PartialEq)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

impl fmt::Debug for Data {
    /// Without the values, which may be a Secret's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Data::Null => f.write_str("Null"),
            Data::Bool(_) => f.write_str("Bool"),
            Data::Number(_) => f.write_str("Number"),
            Data::String(text) => write!(f, "String of {} bytes", text.len()),
            Data::List(items) => f.debug_list().entries(items).finish(),
            Data::Map(entries) => f.debug_list().entries(entries).finish(),
        }
    }
}

/// One key of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// The key's text.
    pub key: String,
    /// Where the key is.
    pub at: Place,
    pub value: Node,
}

impl Node {
    /// The value of a key; `None` when this is not a map or has no such key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|e| &e.value)
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|e| e.key == key)
    }

    /// The keys and values of a map; empty for other data.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.data {
            Data::Map(entries) => entries,
            _ => &[],
        }
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.data {
            Data::Map(entries) => entries.iter_mut().find(|e| e.key == key).map(|e| &mut e.value),
            _ => None,
        }
    }

    /// The items of a list; empty for other data.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.data {
            Data::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a string; `None` for other data.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.data {
            Data::String(text) => Some(text),
            _ => None,
        }
    }

    /// True for `null`, which means the same as an absent key.
    pub(crate) fn is_null(&self) -> bool {
        self.data == Data::Null
    }

    /// The place of a field, such as `spec.containers[0].image`, or of the nearest field above it that is written.
    pub(crate) fn nearest(&self, field: &str) -> Place {
        let (mut node, mut place) = (self, self.at);
        for step in steps(field) {
            if let Some(entry) = node.entry(step) {
                (node, place) = (&entry.value, entry.at);
            } else if let Some(item) = step.parse().ok().and_then(|i: usize| node.items().get(i)) {
                (node, place) = (item, item.at);
            } else {
                break;
            }
        }
        place
    }

    /// The kind of data, as text.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.data {
            Data::Null => "null",
            Data::Bool(_) => "a boolean",
            Data::Number(_) => "a number",
            Data::String(_) => "a string",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }

    /// Bytes that its texts take in memory, with what an allocation of each costs.
    pub(crate) fn texts(&self) -> usize {
        let sum = |all: &mut dyn Iterator<Item = usize>| all.fold(0, usize::saturating_add);
        match &self.data {
            Data::Null | Data::Bool(_) | Data::Number(_) => 0,
            Data::String(text) => text.len().saturating_add(limits::TEXT_OVERHEAD),
            Data::List(items) => sum(&mut items.iter().map(Node::texts)),
            Data::Map(entries) => sum(&mut entries.iter().map(|entry| {
                entry.value.texts().saturating_add(entry.key.len()).saturating_add(limits::TEXT_OVERHEAD)
            })),
        }
    }

    /// The same data without places.
    pub(crate) fn to_value(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(b) => Value::Bool(*b),
            Data::Number(n) => Value::Number(n.clone()),
            Data::String(s) => Value::String(s.clone()),
            Data::List(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Data::Map(entries) => {
                let mut all = Map::new();
                for entry in entries {
                    all.insert(entry.key.clone(), entry.value.to_value());
                }
                Value::Object(all)
            }
        }
    }

    /// The place of a field: its key, or the list item, or the nearest existing parent.
    pub(crate) fn place(&self, path: &Path<'_>) -> Place {
        self.walk(path).1
    }

    /// The node of a field, if it was written.
    pub(crate) fn find(&self, path: &Path<'_>) -> Option<&Node> {
        self.walk(path).0
    }

    fn walk(&self, path: &Path<'_>) -> (Option<&Node>, Place) {
        let Some(parent) = path.parent() else { return (Some(self), self.at) };
        let (node, place) = self.walk(parent);
        let Some(node) = node else { return (None, place) };
        match path.step() {
            Step::Root => (Some(node), place),
            Step::Field(key) | Step::Key(key) => match node.entry(key) {
                Some(entry) => (Some(&entry.value), entry.at),
                None => (None, place),
            },
            Step::Index(i) => match node.items().get(i) {
                Some(item) => (Some(item), item.at),
                None => (None, place),
            },
        }
    }
}

/// The canonical text of a pod without its containers' amounts of cpu and memory: limits only show that they
/// exist, requests are removed. Init containers that run to their end keep theirs: they cannot be resized.
pub(crate) fn without_sizes(pod: &Node) -> String {
    let mut pod = pod.clone();
    for list in ["containers", "initContainers"] {
        let items = pod.get_mut("spec").and_then(|spec| spec.get_mut(list));
        let Some(Node { data: Data::List(items), .. }) = items else { continue };
        for container in items {
            let is_sidecar = container.get("restartPolicy").and_then(Node::as_str) == Some("Always");
            if list == "containers" || is_sidecar {
                forget_sizes(container);
            }
        }
    }
    canonical(&pod)
}

fn forget_sizes(container: &mut Node) {
    let Data::Map(fields) = &mut container.data else { return };
    let Some(at) = fields.iter().position(|field| field.key == "resources") else { return };
    let Some(Entry { value: Node { data: Data::Map(resources), .. }, .. }) = fields.get_mut(at) else {
        return;
    };
    let sized = |entry: &Entry| matches!(entry.key.as_str(), "cpu" | "memory");
    for list in resources.iter_mut() {
        let Data::Map(entries) = &mut list.value.data else { continue };
        match list.key.as_str() {
            "limits" => entries.iter_mut().filter(|e| sized(e)).for_each(|e| e.value.data = Data::Null),
            "requests" => entries.retain(|e| !sized(e)),
            _ => {}
        }
    }
    resources.retain(|list| !matches!(&list.value.data, Data::Map(entries) if entries.is_empty()));
    if resources.is_empty() {
        fields.remove(at);
    }
}

/// JSON without spaces and with sorted keys: the same for every spelling of the same data.
pub(crate) fn canonical(node: &Node) -> String {
    let mut out = String::new();
    write_canonical(node, &mut out);
    out
}

fn write_canonical(node: &Node, out: &mut String) {
    match &node.data {
        Data::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Data::Map(entries) => {
            let mut sorted: Vec<&Entry> = entries.iter().collect();
            order::sort_by(&mut sorted, |a, b| a.key.cmp(&b.key));
            out.push('{');
            for (i, entry) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(entry.key.as_str()).to_string());
                out.push(':');
                write_canonical(&entry.value, out);
            }
            out.push('}');
        }
        // JSON has points where YAML has none.
        Data::Number(number) => {
            let whole = number.as_f64().filter(|_| number.is_f64()).and_then(scalar::as_integer);
            out.push_str(&whole.unwrap_or_else(|| number.clone()).to_string());
        }
        Data::Null | Data::Bool(_) | Data::String(_) => {
            out.push_str(&node.to_value().to_string());
        }
    }
}

/// The steps of a path such as `spec.containers[0].image` or `metadata.annotations[podkeeper.dev/after]`.
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
