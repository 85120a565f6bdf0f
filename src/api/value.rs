//! Parts of JSON values, by name.

use serde_json::{Map, Value};

/// The part at a pointer; null when there is none.
#[must_use]
pub fn part<'v>(value: &'v Value, pointer: &str) -> &'v Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// The field at a path, which is made if missing; a value on the way that is no object becomes one.
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

/// Whether values are nested more than `most` times. It needs no stack, however deep the value is.
#[must_use]
pub fn is_deeper(value: &Value, most: usize) -> bool {
    let mut rest = vec![(value, 0_usize)];
    while let Some((value, depth)) = rest.pop() {
        if depth > most {
            return true;
        }
        let below = depth.saturating_add(1);
        match value {
            Value::Array(all) => rest.extend(all.iter().map(|inner| (inner, below))),
            Value::Object(all) => rest.extend(all.values().map(|inner| (inner, below))),
            _ => {}
        }
    }
    false
}

/// Approximate memory of a value, bytes.
#[must_use]
pub fn size(value: &Value) -> usize {
    let (mut sum, mut rest) = (0_usize, vec![value]);
    while let Some(value) = rest.pop() {
        let own = match value {
            Value::String(text) => text.len(),
            Value::Array(all) => {
                rest.extend(all);
                0_usize
            }
            Value::Object(all) => {
                rest.extend(all.values());
                all.keys().fold(0_usize, |sum, key| {
                    sum.saturating_add(key.len()).saturating_add(size_of::<String>())
                })
            }
            _ => 0,
        };
        sum = sum.saturating_add(own).saturating_add(size_of::<Value>());
    }
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depths_and_sizes() {
        for (value, depth) in [(json!(1), 0), (json!([]), 0), (json!({"a": [1]}), 2), (json!([[[]], 1]), 2)] {
            assert!(is_deeper(&value, depth.max(1) - 1) == (depth > 0), "{value}");
            assert!(!is_deeper(&value, depth), "{value}");
        }
        assert!(size(&json!({"a": "x".repeat(1000)})) > 1000);
        assert!(size(&json!(vec![0; 1000])) >= 1000 * size_of::<Value>());
    }
}
