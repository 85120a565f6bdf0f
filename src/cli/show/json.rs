//! JSON as kubectl prints it. Pure.

use crate::base::json::json;
use serde_json::Value;

/// Formats with kubectl's indent, and escapes characters that control a terminal.
#[must_use]
pub fn emit(value: &Value) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // Serializing a `Value` into a `Vec` cannot fail.
    let _ = serde::Serialize::serialize(value, &mut serializer);
    let text = String::from_utf8(bytes).unwrap_or_default();
    // JSON allows these characters unescaped; some of them control a terminal.
    let escaped =
        |c: char| if c >= '\u{7f}' && c.is_control() { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    text.chars().map(escaped).collect()
}

/// One object when one name was given, else a list.
#[must_use]
pub fn objects(names: &[String], mut items: Vec<Value>) -> Value {
    match (names.len(), items.len()) {
        (1, 1) => items.remove(0),
        _ => json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}),
    }
}
