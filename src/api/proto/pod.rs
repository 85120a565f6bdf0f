//! Pods in protobuf, by a table of numbers (`api/core/v1/generated.proto`); the types of the fields are those of
//! [`fields`]. Pure.

use std::sync::OnceLock;

use crate::base::json::json;
use serde_json::{Map, Number, Value};

use super::wire::{Left, Wire};
use super::{DEPTH, time, utf8};
use crate::base::packed::Packed;
use crate::base::table::Table;
use crate::manifest::fields;

/// Each line is a message: its name, then number and name of each field. The fields of a message with `+` before its
/// name stand in JSON among those of the message around it.
static NUMBERS: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/pod.txt.packed")));

/// Decodes a pod without its status; `None` when the bytes are no pod.
pub fn decode(bytes: &[u8], left: &Left) -> Option<Map<String, Value>> {
    let mut pod = Map::new();
    message(bytes, ("Pod", "Pod"), &mut pod, left, DEPTH)?;
    Some(pod)
}

/// Fields by number.
type Numbers = Table<u64, &'static str>;

/// The fields of a message by number.
fn numbers(of: &str) -> Option<&'static Numbers> {
    // Parsed once: a body may have a hundred thousand messages.
    static TABLE: OnceLock<Table<&'static str, Numbers>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let lines = NUMBERS.text().lines().filter_map(|line| line.split_once(' '));
        lines.map(|(name, fields)| (name, fields_of(fields))).collect()
    });
    table.get(of)
}

/// The type of a field in JSON.
fn kind_of(kind: &str, field: &str) -> Option<&'static str> {
    static TABLE: OnceLock<Table<&'static str, Table<&'static str, &'static str>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let names = NUMBERS.text().lines().filter_map(|line| line.split_once(' ')).map(|(name, _)| name);
        let fields = |name| fields::of(name).map(|field| (field.name, field.kind)).collect();
        names.map(|name| (name, fields(name))).collect()
    });
    table.get(kind)?.get(field).copied()
}

fn fields_of(line: &'static str) -> Numbers {
    let mut words = line.split(' ');
    let mut all = Numbers::new();
    while let (Some(number), Some(name)) = (words.next(), words.next()) {
        all.extend(number.parse().map(|number: u64| (number, name)));
    }
    all
}

/// Reads a message into an object. `kind` is its type in JSON.
fn message(
    bytes: &[u8],
    (of, kind): (&str, &str),
    object: &mut Map<String, Value>,
    left: &Left,
    depth: usize,
) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    // A message without known fields becomes an empty object, and is refused later.
    let Some(known) = numbers(of) else { return Some(()) };
    for field in left.fields(bytes) {
        let (number, wire) = field?;
        let Some(name) = known.get(&number) else { continue };
        if let (Some(inner), Wire::Bytes(bytes)) = (name.strip_prefix('+'), &wire) {
            message(bytes, (inner, kind), object, left, depth)?;
            continue;
        }
        let own = kind_of(kind, name);
        // The only field that a container of a spec does not have.
        let own = own.unwrap_or(if *name == "targetContainerName" { "string" } else { "Object" });
        put(object, (name, own), wire, left, depth)?;
    }
    Some(())
}

fn put(
    object: &mut Map<String, Value>,
    (name, kind): (&str, &str),
    wire: Wire<'_>,
    left: &Left,
    depth: usize,
) -> Option<()> {
    if let Some(item) = kind.strip_prefix("[]") {
        let list = object.entry(name).or_insert_with(|| json!([])).as_array_mut()?;
        list.extend(value(item, wire, left, depth)?);
        return Some(());
    }
    if let Some(item) = kind.strip_prefix("map[string]") {
        let Wire::Bytes(entry) = wire else { return None };
        let map = object.entry(name).or_insert_with(|| json!({})).as_object_mut()?;
        let (mut key, mut found) = (String::new(), None);
        for field in left.fields(entry) {
            match field? {
                (1, Wire::Bytes(text)) => key = std::str::from_utf8(text).ok()?.to_owned(),
                (2, wire) => found = value(item, wire, left, depth)?,
                _ => {}
            }
        }
        map.insert(key, found.unwrap_or_else(|| "".into()));
        return Some(());
    }
    if let Some(value) = value(kind, wire, left, depth)? {
        // Go writes empty texts.
        if value != "" {
            object.insert(name.to_owned(), value);
        }
    }
    Some(())
}

/// A value; an inner `None` for a value that is left out.
fn value(kind: &str, wire: Wire<'_>, left: &Left, depth: usize) -> Option<Option<Value>> {
    Some(Some(match (kind, wire) {
        ("integer", Wire::Number(number)) => Value::Number(Number::from(number.cast_signed())),
        ("boolean", Wire::Number(number)) => Value::Bool(number != 0),
        ("string", Wire::Bytes(text)) => utf8(text)?,
        ("Time" | "MicroTime", Wire::Bytes(inner)) => return time(inner, left),
        ("Quantity", Wire::Bytes(inner)) => {
            let mut text = Value::from("0");
            for field in left.fields(inner) {
                if let (1, Wire::Bytes(bytes)) = field? {
                    text = utf8(bytes)?;
                }
            }
            text
        }
        ("IntOrString", Wire::Bytes(inner)) => int_or_string(inner, left)?,
        (kind, Wire::Bytes(inner)) if !["integer", "boolean", "number"].contains(&kind) => {
            let mut object = Map::new();
            message(inner, (kind, kind), &mut object, left, depth)?;
            Value::Object(object)
        }
        _ => return None,
    }))
}

fn int_or_string(bytes: &[u8], left: &Left) -> Option<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, Value::from(""));
    for field in left.fields(bytes) {
        match field? {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = value.cast_signed(),
            (3, Wire::Bytes(bytes)) => text = utf8(bytes)?,
            _ => {}
        }
    }
    Some(if is_text { text } else { number.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let key = [(number << 3 | 2) | if number > 15 { 0x80 } else { 0 }, 1];
        let key = if number > 15 { &key[..] } else { &key[..1] };
        [key, &[u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    #[test]
    fn each_message_of_the_table_has_its_fields() {
        for line in NUMBERS.text().lines() {
            let (name, _) = line.split_once(' ').unwrap();
            let numbers = numbers(name).unwrap();
            assert!(!numbers.is_empty(), "{name}");
            let is_inner = NUMBERS.text().contains(&format!("+{name}"));
            for field in numbers.values().filter(|field| !field.starts_with('+')) {
                let of_type = fields::of(name).any(|known| known.name == *field);
                assert!(is_inner || of_type || *field == "targetContainerName", "{name}.{field}");
            }
        }
    }

    #[test]
    fn a_pod_is_read() {
        let env = field(7, &[field(1, b"A"), field(2, b"b")].concat());
        let cpu = field(2, &[field(1, b"cpu"), field(2, &field(1, b"10m"))].concat());
        let get = field(2, &[field(1, b"/x"), field(2, &[8, 0, 16, 80])].concat());
        let probe = field(10, &[field(1, &get), vec![16, 5]].concat());
        let container =
            [field(1, b"a"), field(2, b"img"), field(3, b"sh"), env, field(8, &cpu), probe].concat();
        let volume = [field(1, b"v"), field(2, &field(2, &field(1, b"")))].concat();
        let meta =
            [field(1, b"p"), field(8, b""), field(11, &[field(1, b"k"), field(2, b"v")].concat())].concat();
        let spec = [field(1, &volume), field(2, &container), vec![32, 7], vec![88, 1]].concat();
        let pod =
            decode(&[field(1, &meta), field(2, &spec), field(3, b"")].concat(), &Left::new(1000)).unwrap();
        let expected = json!({
            "metadata": {"name": "p", "labels": {"k": "v"}},
            "spec": {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "a", "image": "img", "command": ["sh"], "env": [{"name": "A", "value": "b"}],
                                "resources": {"requests": {"cpu": "10m"}},
                                "livenessProbe": {"httpGet": {"path": "/x", "port": 80}, "initialDelaySeconds": 5}}],
                "terminationGracePeriodSeconds": 7,
                "hostNetwork": true,
            },
        });
        assert_eq!(Value::Object(pod), expected);
        assert!(decode(&field(2, &[0xff]), &Left::new(1000)).is_none());
    }
}
