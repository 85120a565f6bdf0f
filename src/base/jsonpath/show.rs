//! Values in kubectl's output format. Pure.

use serde_json::Value;

/// A value as `-o jsonpath` prints it: texts as they are, lists and objects as JSON.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as a column prints it, in Go's format (`fmt`): `map[a:b]` and `[a b]`.
pub fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(all) => format!("[{}]", all.iter().map(go).collect::<Vec<_>>().join(" ")),
        Value::Object(all) => {
            let entries: Vec<String> =
                all.iter().map(|(key, value)| format!("{key}:{}", go(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}
