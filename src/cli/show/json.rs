//! JSON as kubectl prints it. Pure.

use serde_json::Value;

/// With kubectl's indent, and without a character that a terminal takes for an order.
#[must_use]
pub fn emit(value: &Value) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // A `Value` has nothing that cannot be written, and a `Vec` takes everything.
    let _ = serde::Serialize::serialize(value, &mut serializer);
    let text = String::from_utf8(bytes).unwrap_or_default();
    // JSON may have these as they are; a terminal takes some of them for orders.
    let escaped =
        |c: char| if c >= '\u{7f}' && c.is_control() { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    text.chars().map(escaped).collect()
}
