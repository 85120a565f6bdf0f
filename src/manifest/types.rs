//! Decodes trees into the API's typed objects, and reports values of the wrong type, by field.
//!
//! Typed objects are only created by [`json::read`], so that one copy of k8s-openapi's code is in the binary.
//! serde stops at the first wrong type and does not report its field. Every field of these types may be
//! absent, so the wrong ones are found by decoding each part of the tree separately; this happens only if
//! there is one.

use std::cell::Cell;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::path::{Path, Report, quoted, shorten};
use super::times;
use super::tree::{Data, Node};
use crate::base::{json, limits};

/// Decodes the field `name` of the pod; absent or null counts as empty. Values of the wrong type are reported
/// and dropped.
pub(crate) fn field<T: DeserializeOwned + Default>(name: &str, report: &mut Report<'_>) -> T {
    let path = Path::ROOT;
    let path = path.field(name);
    let Some(node) = report.written(&path).filter(|n| !n.is_null()) else { return T::default() };
    if name != "spec" {
        times::check(node, &path, report);
    }
    match within(&node.to_value(), report) {
        Ok(typed) => return typed,
        Err(Wrong::Size(most)) => {
            report.type_error(&path, too_large(most));
            return T::default();
        }
        Err(Wrong::Type) => {}
    }
    let fits = |value: Value| json::read::<T>(&value).map(drop).map_err(|e| e.to_string());
    match fitting(node, &path, &fits, report).map(|rest| within(&rest, report)) {
        Some(Ok(typed)) => return typed,
        Some(Err(Wrong::Size(most))) => report.type_error(&path, too_large(most)),
        // All parts fit but the whole does not: no type of the API is like this.
        Some(Err(Wrong::Type)) | None => report.type_error(&path, "does not fit its type"),
    }
    T::default()
}

enum Wrong {
    Type,
    /// Its lists would take more than so many bytes.
    Size(usize),
}

/// Reads a value whose lists take no more than is left for this pod and for its manifest, and takes that off.
fn within<T: DeserializeOwned>(value: &Value, report: &mut Report<'_>) -> Result<T, Wrong> {
    let most = report.room.min(limits::DECODED_OBJECT);
    let left = Cell::new(most);
    let typed = json::read_within(value, &left);
    if typed.is_ok() {
        report.room = report.room.saturating_sub(most.saturating_sub(left.get()));
    }
    typed.map_err(|_| if left.get() == 0 { Wrong::Size(most) } else { Wrong::Type })
}

/// `most`: bytes that the lists of a pod may take.
fn too_large(most: usize) -> String {
    const MIB: usize = 1024 * 1024;
    let (pod, manifest) = (limits::DECODED_OBJECT / MIB, limits::DECODED_MANIFEST / MIB);
    match most < limits::DECODED_OBJECT {
        true => {
            format!("does not fit: the pods of this manifest would take more than {manifest} MiB of memory")
        }
        false => format!("has lists that are too long: they would take more than {pod} MiB of memory"),
    }
}

type Fits<'f> = &'f dyn Fn(Value) -> Result<(), String>;

/// The node's value without the parts of the wrong type; `None` when no part fits.
fn fitting(node: &Node, path: &Path<'_>, fits: Fits<'_>, report: &mut Report<'_>) -> Option<Value> {
    let Err(message) = fits(node.to_value()) else { return Some(node.to_value()) };
    if report.is_full_of_errors() {
        return None;
    }
    if node.is_null()
        && let Some(value) = zero(fits)
    {
        report.warning(path, format!("is null, and read as {value}"));
        return Some(value);
    }
    // The typed object reads fewer years and shorter fractions than the API.
    let epoch = || Value::from("1970-01-01T00:00:00Z");
    if node.as_str().is_some_and(times::is_time) && fits(epoch()).is_ok() {
        return Some(epoch());
    }
    // When even an empty value does not fit, the whole is of the wrong type, not its parts.
    let empty = match &node.data {
        Data::Map(_) => fits(Value::Object(Map::new())),
        Data::List(_) => fits(Value::Array(Vec::new())),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::String(_) => Err(message),
    };
    if let Err(message) = empty {
        report.type_error(path, describe(node, &message));
        return None;
    }
    if let Data::Map(entries) = &node.data {
        let mut map = Map::new();
        for entry in entries {
            let only = |value: Value| {
                let mut object = Map::new();
                object.insert(entry.key.clone(), value);
                fits(Value::Object(object))
            };
            let value = fitting(&entry.value, &path.child(&entry.key), &only, report);
            map.extend(value.map(|value| (entry.key.clone(), value)));
        }
        return Some(Value::Object(map));
    }
    let only = |value: Value| fits(Value::Array(vec![value]));
    // Later items keep their indexes if one does not fit.
    let empty = [Value::Object(Map::new()), Value::String(String::new()), Value::from(0)];
    let stand_in = || empty.iter().find(|value| only((*value).clone()).is_ok()).cloned();
    let items = node.items().iter().enumerate();
    let items = items.filter_map(|(i, item)| fitting(item, &path.index(i), &only, report).or_else(stand_in));
    Some(Value::Array(items.collect()))
}

/// Go's value for a null item or map value: zero, the empty text, an empty object. A quantity accepts texts
/// and numbers, and is zero.
fn zero(fits: Fits<'_>) -> Option<Value> {
    let empty = [Value::from(0), Value::from(""), Value::Object(Map::new()), Value::Array(Vec::new())];
    empty.into_iter().find(|value| fits(value.clone()).is_ok())
}

/// serde's message as text for the operator.
fn describe(node: &Node, message: &str) -> String {
    let found = match &node.data {
        Data::String(text) => format!("the string {}", quoted(text)),
        Data::Bool(b) => format!("the boolean {b}"),
        Data::Number(n) => format!("the number {n}"),
        Data::Null | Data::List(_) | Data::Map(_) => node.kind().to_owned(),
    };
    let wanted = message.rsplit_once(", expected ").map(|(_, wanted)| wanted);
    match (wanted, &node.data) {
        (Some("i32"), Data::Number(n)) if !n.is_f64() => {
            format!("must fit a 32-bit integer, and {n} does not")
        }
        (Some("i64"), Data::Number(n)) if !n.is_f64() => {
            format!("must fit a 64-bit integer, and {n} does not")
        }
        (Some("i32" | "i64"), _) => format!("must be an integer, not {found}"),
        (Some("a string"), Data::Bool(_) | Data::Number(_)) => {
            format!("must be a string, not {found}; write it in quotes")
        }
        (Some("a boolean"), Data::String(_)) => {
            format!("must be a boolean (true or false), not {found}")
        }
        (Some("a sequence"), _) => format!("must be a list, not {found}"),
        (Some("IntOrString"), _) => format!("must be an integer or a string, not {found}"),
        (Some("Quantity"), _) => format!("must be a quantity, not {found}"),
        (Some(wanted), _) if message.starts_with("invalid type") => {
            let named = wanted.starts_with(|c: char| c.is_ascii_uppercase());
            if named {
                format!("must be a map ({wanted}), not {found}")
            } else {
                format!("must be {wanted}, not {found}")
            }
        }
        _ => format!("{found} does not fit: {}", shorten(message)),
    }
}
