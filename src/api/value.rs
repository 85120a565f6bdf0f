//! Parts of JSON values, by name.

use serde_json::{Map, Value};

/// The part at a pointer; null when there is none.
#[must_use]
pub fn part<'v>(value: &'v Value, pointer: &str) -> &'v Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// The place of a field, which is made; what is no object becomes one.
pub fn place<'v>(value: &'v mut Value, path: &[&str]) -> &'v mut Value {
    let mut at = value;
    for field in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = match at {
            Value::Object(map) => map.entry(*field).or_insert(Value::Null),
            other => return other,
        };
    }
    at
}
