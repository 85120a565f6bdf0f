//! The owners of fields: server-side apply (`apimachinery/pkg/util/managedfields`,
//! `sigs.k8s.io/structured-merge-diff`), simplified. Pure.
//!
//! Owners are noted from the first apply on: an object that was never applied has none, and then `before-first-apply`
//! owns all of it. Other writes own the fields that they change.

mod index;
mod set;

use crate::base::json::json;
use serde_json::{Map, Value};

use super::patch::strategic::{List, list_of};
use super::places::Places;
use crate::api::failure::Failure;
use crate::api::kinds::Kind;
use crate::api::value::{part, place};
use crate::base::limits;
use index::{Cuts, Tree};
use set::{Path, Set};

/// Owner of the fields that existed before the first apply.
const BEFORE: &str = "before-first-apply";

/// Objects that are owned as a whole (`+structType=atomic`).
const ATOMIC: &[&str] = &[
    "nodeSelector",
    "labelSelector",
    "selector",
    "configMapKeyRef",
    "secretKeyRef",
    "fieldRef",
    "resourceFieldRef",
    "fileKeyRef",
    "secretRef",
    "configMapRef",
    "dataSource",
];

/// Fields of metadata without owners.
const SYSTEM: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "managedFields",
    "selfLink",
    "generateName",
];

/// One manager's fields.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    manager: String,
    applies: bool,
    version: String,
    time: Value,
    set: Set,
}

/// The writing manager, and the time.
#[derive(Debug, Clone, Copy)]
pub struct By<'a> {
    pub manager: &'a str,
    /// RFC 3339.
    pub now: &'a str,
}

/// The names of the fields of a path, without elements of lists.
fn names(path: &[String]) -> Vec<&str> {
    path.iter().filter_map(|part| part.strip_prefix("f:")).collect()
}

/// The element of a list, in the form of `fieldsV1`.
fn element(value: &Value, list: List) -> Option<String> {
    match list {
        List::Atomic => None,
        List::Set => Some(format!("v:{value}")),
        List::Keys(keys) => {
            let mut map = Map::new();
            for key in keys {
                let default = || (*key == "protocol").then(|| Value::from("TCP"));
                map.insert((*key).to_owned(), value.get(key).cloned().or_else(default)?);
            }
            Some(format!("k:{}", Value::Object(map)))
        }
    }
}

/// The fields of an object.
fn fields(kind: &str, value: &Value) -> Set {
    let mut set = Set::default();
    let mut own = value.clone();
    if let Value::Object(map) = &mut own {
        for field in ["apiVersion", "kind", "status"] {
            map.remove(field);
        }
        if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
            metadata.retain(|key, _| !SYSTEM.contains(&key.as_str()));
            if metadata.is_empty() {
                map.remove("metadata");
            }
        }
    }
    gather(kind, &own, &mut Vec::new(), &mut set);
    set
}

fn gather(kind: &str, value: &Value, path: &mut Path, set: &mut Set) {
    let is_atomic = names(path).last().is_some_and(|name| ATOMIC.contains(name));
    match value {
        Value::Object(map) if !is_atomic && (!map.is_empty() || path.is_empty()) => {
            for (key, inner) in map {
                path.push(format!("f:{key}"));
                gather(kind, inner, path, set);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() && list_of(kind, &names(path)) != List::Atomic => {
            let list = list_of(kind, &names(path));
            for item in items {
                let Some(element) = element(item, list) else { continue };
                path.push(element);
                set.add(path);
                if item.is_object() {
                    gather(kind, item, path, set);
                }
                path.pop();
            }
        }
        _ if path.is_empty() => {}
        _ => set.add(path),
    }
}

/// Whether a path ends in a field, not in an element of a list.
fn is_field(path: &&Path) -> bool {
    path.last().is_some_and(|last| last.starts_with("f:"))
}

/// Merges the applied object into the live one.
fn merged(kind: &str, live: &Value, body: &Value, path: &mut Vec<String>) -> Value {
    let is_atomic = path.last().is_some_and(|name| ATOMIC.contains(&name.as_str()));
    match (live, body) {
        (Value::Object(live), Value::Object(body)) if !is_atomic => {
            let mut map = live.clone();
            for (key, value) in body {
                path.push(key.clone());
                let value =
                    live.get(key).map_or_else(|| value.clone(), |live| merged(kind, live, value, path));
                path.pop();
                map.insert(key.clone(), value);
            }
            Value::Object(map)
        }
        (Value::Array(live), Value::Array(body)) => {
            let words: Vec<&str> = path.iter().map(String::as_str).collect();
            let list = list_of(kind, &words);
            if list == List::Atomic {
                return body.clone().into();
            }
            let mut items = live.clone();
            // The first one of two with the same name counts.
            let name = |item: &Value| element(item, list).map_or_else(String::new, |name| format!("={name}"));
            let mut places = Places::default();
            for (place, item) in items.iter().enumerate() {
                places.get_or_insert(name(item), place);
            }
            for item in body {
                let place = places.get_or_insert(name(item), items.len());
                match items.get_mut(place) {
                    Some(found) => *found = merged(kind, found, item, path),
                    None => items.push(item.clone()),
                }
            }
            items.into()
        }
        _ => body.clone(),
    }
}

fn entries(value: &Value) -> Vec<Entry> {
    let text =
        |entry: &Value, name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let all = value.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    all.map(|entry| Entry {
        manager: text(entry, "manager"),
        applies: text(entry, "operation") == "Apply",
        version: text(entry, "apiVersion"),
        time: entry.get("time").cloned().unwrap_or(Value::Null),
        set: Set::read(part(entry, "/fieldsV1")),
    })
    .collect()
}

fn note(value: &mut Value, entries: &[Entry]) {
    let write = |entry: &Entry| {
        json!({"manager": entry.manager, "operation": if entry.applies { "Apply" } else { "Update" },
               "apiVersion": entry.version, "time": entry.time, "fieldsType": "FieldsV1",
               "fieldsV1": entry.set.write()})
    };
    let all = entries.iter().filter(|entry| !entry.set.below.is_empty());
    *place(value, &["metadata", "managedFields"]) = all.map(write).collect();
}

/// Number of elements of all lists in a value.
fn elements(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(elements).fold(list.len(), usize::saturating_add),
        Value::Object(map) => map.values().map(elements).fold(0, usize::saturating_add),
        _ => 0,
    }
}

/// The object after an apply. `live` is null when there is none yet.
///
/// # Errors
/// Another manager owns a field that would change (409), and the apply is not forced.
pub fn apply(kind: &Kind, live: &Value, body: &Value, by: By<'_>, force: bool) -> Result<Value, Failure> {
    let name = kind.kind;
    // Sets of more elements would exceed the size of an object, and take hundreds of MiB until that is noticed.
    if [live, body].into_iter().any(|object| elements(object) > limits::API_LIST) {
        let message =
            format!("the lists of an object that is applied may have {} elements at most", limits::API_LIST);
        return Err(Failure::new(400, message));
    }
    let wanted = fields(name, body);
    let mut all = entries(live);
    if all.is_empty() && !live.is_null() {
        let set = fields(name, live);
        let (manager, version) = (BEFORE.to_owned(), kind.api_version());
        all.push(Entry { manager, applies: false, version, time: by.now.into(), set });
    }
    let mut conflicts: Vec<(String, Path)> = Vec::new();
    let (there, sent) = (Tree::new(name, live), Tree::new(name, body));
    for path in wanted.paths().iter().filter(is_field) {
        let found = there.at(path);
        if found.is_none() || found == sent.at(path) {
            continue;
        }
        for entry in all.iter_mut().filter(|entry| entry.manager != by.manager || !entry.applies) {
            if entry.set.has(path) {
                let using = if entry.applies { String::new() } else { format!(" using {}", entry.version) };
                conflicts.push((format!("{:?}{using}", entry.manager), path.clone()));
                if force {
                    entry.set.take(path);
                }
            }
        }
    }
    if !force && !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    let base = if live.is_null() { json!({}) } else { live.clone() };
    let mut result = merged(name, &base, body, &mut Vec::new());
    let is_own = |entry: &Entry| entry.applies && entry.manager == by.manager;
    let before = all.iter().find(|entry| is_own(entry)).cloned();
    let mut cuts = Cuts::default();
    for path in before.iter().flat_map(|before| before.set.paths()) {
        let others = all.iter().filter(|entry| !is_own(entry));
        if !wanted.has(&path) && !others.into_iter().any(|entry| entry.set.has(&path)) {
            cuts.add(&path);
        }
    }
    cuts.take_from(name, &mut result);
    let time = match &before {
        Some(before) if before.set == wanted => before.time.clone(),
        _ => by.now.into(),
    };
    all.retain(|entry| !is_own(entry));
    all.insert(
        0,
        Entry {
            manager: by.manager.to_owned(),
            applies: true,
            version: kind.api_version(),
            time,
            set: wanted,
        },
    );
    note(&mut result, &all);
    Ok(result)
}

/// Notes the changes of another write in the owners of an object.
pub fn updated(kind: &Kind, live: &Value, new: &mut Value, by: By<'_>) {
    let mut all = entries(new);
    if all.is_empty() {
        return;
    }
    let (before, after) = (fields(kind.kind, live), fields(kind.kind, new));
    let mut changed = Set::default();
    let (old, now) = (Tree::new(kind.kind, live), Tree::new(kind.kind, new));
    for path in after.paths().iter().filter(is_field) {
        if old.at(path) != now.at(path) {
            changed.add(path);
        }
    }
    let gone: Vec<Path> = before.paths().into_iter().filter(|path| now.at(path).is_none()).collect();
    if changed.below.is_empty() && gone.is_empty() {
        return;
    }
    let paths = changed.paths();
    for entry in &mut all {
        paths.iter().chain(&gone).for_each(|path| entry.set.take(path));
    }
    let own = all.iter_mut().find(|entry| !entry.applies && entry.manager == by.manager);
    match own {
        Some(own) => {
            paths.iter().for_each(|path| own.set.add(path));
            own.time = by.now.into();
        }
        None => all.push(Entry {
            manager: by.manager.to_owned(),
            applies: false,
            version: kind.api_version(),
            time: by.now.into(),
            set: changed,
        }),
    }
    let before = part(new, "/metadata/managedFields").clone();
    note(new, &all);
    if is_too_large(part(new, "/metadata/managedFields")) {
        // The write matters more than the note of its owner.
        *place(new, &["metadata", "managedFields"]) = before;
    }
}

/// Whether the owners exceed their bound.
#[must_use]
pub fn is_too_large(owners: &Value) -> bool {
    !owners.is_null() && owners.to_string().len() > limits::API_OWNERS
}

/// `.spec.containers[name="app"].image`
fn shown(path: &[String]) -> String {
    let mut out = String::new();
    for part in path {
        match part.split_once(':') {
            Some(("f", name)) => out.push_str(&format!(".{name}")),
            Some(("k", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                out.push_str(&format!("[{}]", keys.join(",")));
            }
            Some((_, value)) => out.push_str(&format!("[={value}]")),
            None => {}
        }
    }
    out
}

fn conflict(all: &[(String, Path)]) -> Failure {
    let causes: Vec<Value> = all
        .iter()
        .map(|(who, path)| {
            json!({"reason": "FieldManagerConflict", "message": format!("conflict with {who}"), "field": shown(path)})
        })
        .collect();
    let message = match all {
        [(who, path)] => format!("Apply failed with 1 conflict: conflict with {who}: {}", shown(path)),
        several => {
            let mut text = format!("Apply failed with {} conflicts: ", several.len());
            let mut last = "";
            for (who, path) in several {
                if who != last {
                    text.push_str(&format!(
                        "{}conflicts with {who}:",
                        if last.is_empty() { "" } else { "\n" }
                    ));
                    last = who;
                }
                text.push_str(&format!("\n- {}", shown(path)));
            }
            text
        }
    };
    Failure { details: json!({"causes": causes}), ..Failure::new(409, message) }
}

#[cfg(test)]
mod tests;
