//! JSON Patch (RFC 6902): operations one after the other, all or none.

use serde_json::Value;

use crate::api::failure::Failure;
use crate::api::value::is_deeper;
use crate::base::{json, limits};

/// The value after all operations.
///
/// # Errors
/// The patch is invalid (400), or an operation fails (422).
pub fn apply(object: &Value, patch: &Value) -> Result<Value, Failure> {
    let operations = patch.as_array().filter(|all| all.len() <= limits::API_PATCH);
    let operations = operations.ok_or_else(|| {
        Failure::new(400, format!("a JSON patch must be a list of at most {} operations", limits::API_PATCH))
    })?;
    let (mut value, mut copied) = (object.clone(), 0_usize);
    for (at, operation) in operations.iter().enumerate() {
        let failed = |why: String| {
            Failure::new(
                422,
                format!(
                    "the server rejected our request due to an error in our request: operation {at}: {why}"
                ),
            )
        };
        step(&mut value, operation, &mut copied).map_err(failed)?;
    }
    Ok(value)
}

/// Reference tokens of a pointer.
fn tokens(pointer: &str) -> Result<Vec<String>, String> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let rest = pointer.strip_prefix('/').ok_or_else(|| format!("{pointer:?} is no path"))?;
    Ok(rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
}

fn field<'v>(operation: &'v Value, name: &str) -> Result<&'v str, String> {
    operation.get(name).and_then(Value::as_str).ok_or_else(|| format!("{name} is missing"))
}

fn step(value: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), String> {
    let path = field(operation, "path")?;
    let given = || operation.get("value").cloned().ok_or_else(|| "value is missing".to_owned());
    let found = |value: &Value, path: &str| {
        value.pointer(path).cloned().ok_or_else(|| format!("{path:?} does not exist"))
    };
    match field(operation, "op")? {
        "add" => add(value, path, given()?),
        "remove" => remove(value, path).map(drop),
        "replace" => {
            let new = given()?;
            check_depth(path, &new)?;
            let place = value.pointer_mut(path).ok_or_else(|| format!("{path:?} does not exist"))?;
            *place = new;
            Ok(())
        }
        "test" if found(value, path)? == given()? => Ok(()),
        "test" => Err(format!("testing value {path} failed")),
        "move" => {
            let from = field(operation, "from")?;
            if path.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
                return Err("a value cannot be moved into itself".to_owned());
            }
            let moved = remove(value, from)?;
            add(value, path, moved)
        }
        "copy" => {
            let copy = found(value, field(operation, "from")?)?;
            // Copies of copies double each time. A small value takes many times the memory of its text.
            let text = copy.to_string();
            let values =
                json::values(text.as_bytes()).saturating_mul(limits::API_BODY / limits::API_BODY_VALUES);
            *copied = copied.saturating_add(text.len().max(values));
            if *copied > limits::API_BODY {
                return Err("what is copied is too large".to_owned());
            }
            add(value, path, copy)
        }
        other => Err(format!("unknown op {other:?}")),
    }
}

/// Parent and last token of a path.
fn place<'v>(value: &'v mut Value, path: &str) -> Result<(&'v mut Value, String), String> {
    let mut tokens = tokens(path)?;
    let last = tokens.pop().ok_or_else(|| "the whole object cannot be meant".to_owned())?;
    let mut at = value;
    for token in tokens {
        at = match at {
            Value::Object(map) => map.get_mut(&token),
            Value::Array(list) => token.parse::<usize>().ok().and_then(|index| list.get_mut(index)),
            _ => None,
        }
        .ok_or_else(|| format!("{path:?} does not exist"))?;
    }
    Ok((at, last))
}

/// Checks the depth of a copy: copies into copies are deeper each time, and reading, writing or dropping a value
/// recurses.
fn check_depth(path: &str, new: &Value) -> Result<(), String> {
    match limits::API_DEPTH.checked_sub(path.matches('/').count()) {
        Some(left) if !is_deeper(new, left) => Ok(()),
        _ => Err(format!("what is put there is deeper than {} fields", limits::API_DEPTH)),
    }
}

fn add(value: &mut Value, path: &str, new: Value) -> Result<(), String> {
    check_depth(path, &new)?;
    if path.is_empty() {
        *value = new;
        return Ok(());
    }
    let (parent, last) = place(value, path)?;
    match parent {
        Value::Object(map) => _ = map.insert(last, new),
        Value::Array(list) if last == "-" => list.push(new),
        Value::Array(list) => {
            let index = last.parse::<usize>().ok().filter(|index| *index <= list.len());
            list.insert(index.ok_or_else(|| format!("{path:?} is past the end of the list"))?, new);
        }
        _ => return Err(format!("{path:?} does not exist")),
    }
    Ok(())
}

fn remove(value: &mut Value, path: &str) -> Result<Value, String> {
    let missing = || format!("{path:?} does not exist");
    let (parent, last) = place(value, path)?;
    match parent {
        Value::Object(map) => map.remove(&last).ok_or_else(missing),
        Value::Array(list) => {
            let index = last.parse::<usize>().ok().filter(|index| *index < list.len());
            index.map(|index| list.remove(index)).ok_or_else(missing)
        }
        _ => Err(missing()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_of_the_standard() {
        for (target, patch, expected) in [
            (json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": 2}]), json!({"a": 1, "b": 2})),
            (
                json!({"a": [1, 3]}),
                json!([{"op": "add", "path": "/a/1", "value": 2}]),
                json!({"a": [1, 2, 3]}),
            ),
            (json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]})),
            (json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), json!({"b": 2})),
            (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/0"}]), json!({"a": [2]})),
            (json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": 2}]), json!({"a": 2})),
            (json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1})),
            (json!({"a": 1}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": 1, "b": 1})),
            (
                json!({"a/b": {"c~d": 1}}),
                json!([{"op": "test", "path": "/a~1b/c~0d", "value": 1}]),
                json!({"a/b": {"c~d": 1}}),
            ),
        ] {
            assert_eq!(apply(&target, &patch), Ok(expected));
        }
    }

    /// Five copies made a value of 3,200 nested fields; dropping it overflowed the stack.
    #[test]
    fn copies_into_copies_are_not_deeper_than_a_stack() {
        let chain = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"a": inner}));
        let mut patch = vec![json!({"op": "add", "path": "/x", "value": chain(40)})];
        for depth in [40, 80, 160, 320, 640, 1280] {
            patch.push(json!({"op": "copy", "from": "/x", "path": format!("/x{}", "/a".repeat(depth))}));
        }
        let failure = apply(&json!({}), &patch.into()).unwrap_err();
        assert!(failure.code == 422 && failure.message.contains("deeper than 64 fields"), "{failure:?}");
        let object = json!({"x": chain(60), "y": {"z": {"z": {"z": {}}}}});
        for operation in [
            json!({"op": "move", "from": "/x", "path": "/y/z/z/z/z"}),
            json!({"op": "replace", "path": "/y/z/z/z", "value": chain(62)}),
        ] {
            assert_eq!(apply(&object, &json!([operation])).unwrap_err().code, 422);
        }
        assert!(apply(&object, &json!([{"op": "move", "from": "/x", "path": "/y/z"}])).is_ok());
    }

    /// Copies of little text became 250,000 values, and 180 MiB.
    #[test]
    fn copies_of_copies_are_no_more_values_than_a_body_may_have() {
        let mut patch = vec![json!({"op": "add", "path": "/q", "value": {"a": 1}})];
        patch.extend((0..18).map(|n| json!({"op": "copy", "from": "/q", "path": format!("/q/k{n}")})));
        let failure = apply(&json!({}), &patch.clone().into()).unwrap_err();
        assert!(failure.message.contains("operation 16: what is copied is too large"), "{failure:?}");
        patch.truncate(12);
        assert!(apply(&json!({}), &patch.into()).is_ok());
    }

    #[test]
    fn what_fails_changes_nothing() {
        let object = json!({"a": [1], "b": {}});
        for (patch, code) in [
            (json!({}), 400),
            (json!([{"op": "test", "path": "/a", "value": 2}]), 422),
            (json!([{"op": "remove", "path": "/x"}]), 422),
            (json!([{"op": "remove", "path": ""}]), 422),
            (json!([{"op": "replace", "path": "/x", "value": 1}]), 422),
            (json!([{"op": "add", "path": "/a/2", "value": 1}]), 422),
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), 422),
            (json!([{"op": "add", "path": "b", "value": 1}]), 422),
            (json!([{"op": "move", "from": "/b", "path": "/b/c"}]), 422),
            (json!([{"op": "x", "path": "/b"}]), 422),
            (json!(["x"]), 422),
        ] {
            assert_eq!(apply(&object, &patch).unwrap_err().code, code, "{patch}");
        }
    }
}
