//! Trees -> the API's typed objects; what does not fit a type, by field.
//!
//! Typed objects are made from `serde_json::Value` only, so that one copy of k8s-openapi's code is in
//! the binary. serde stops at the first misfit and does not say where. As every field of these types may
//! be absent, the misfits are found by decoding each part of the tree alone, and only when there is one.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::node::{Data, Node};
use super::path::{Path, Report, quoted, shorten};

/// Decodes the field `name` of the pod; absent or null counts as empty. On misfits: reported, `None`.
pub(crate) fn field<T: DeserializeOwned>(name: &str, report: &mut Report<'_>) -> Option<T> {
    let path = Path::ROOT;
    let path = path.field(name);
    let node = report.written(&path).filter(|n| !n.is_null());
    let value = node.map_or_else(|| Value::Object(Map::new()), Node::to_value);
    if let Ok(typed) = serde_json::from_value(value) {
        return Some(typed);
    }
    if let Some(node) = node {
        let fits = |value: Value| serde_json::from_value::<T>(value).map(drop).map_err(|e| e.to_string());
        misfits(node, &path, &fits, report);
    }
    if report.is_good() {
        // Parts fit and the whole does not: no type of the API is like that.
        report.error(&path, "does not fit its type");
    }
    None
}

type Fits<'f> = &'f dyn Fn(Value) -> Result<(), String>;

fn misfits(node: &Node, path: &Path<'_>, fits: Fits<'_>, report: &mut Report<'_>) {
    if report.is_full_of_errors() {
        return;
    }
    let Err(message) = fits(node.to_value()) else { return };
    // When not even an empty one fits, the whole is of the wrong kind and its parts are not to blame.
    let empty = match &node.data {
        Data::Map(_) => fits(Value::Object(Map::new())),
        Data::List(_) => fits(Value::Array(Vec::new())),
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::String(_) => Err(message),
    };
    if let Err(message) = empty {
        return report.error(path, describe(node, &message));
    }
    for entry in node.entries() {
        let only = |value: Value| fits(Value::Object(Map::from_iter([(entry.key.clone(), value)])));
        misfits(&entry.value, &path.child(&entry.key), &only, report);
    }
    let only = |value: Value| fits(Value::Array(vec![value]));
    for (i, item) in node.items().iter().enumerate() {
        misfits(item, &path.index(i), &only, report);
    }
}

/// serde's message in an operator's words.
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
