//! Strategic merge patches between two statuses, as JSON. Pure.
//!
//! Upstream: `apimachinery/pkg/util/strategicpatch/patch.go`, `CreateTwoWayMergePatch`, and the merge keys in
//! `k8s.io/api/core/v1/types.go`. Never here: the choice of a status.

use crate::base::json::json;
use serde_json::{Map, Value};

/// The field that identifies elements of this list; `None`: the list is sent whole. Applies to conditions of pods and
/// nodes, and to addresses of pods: no status has a list of these names with another key.
fn merge_key(list: &str) -> Option<&'static str> {
    match list {
        "conditions" => Some("type"),
        "podIPs" | "hostIPs" => Some("ip"),
        _ => None,
    }
}

/// The patch from `old` to `new`; `None` when they are equal. A null field counts as absent.
#[must_use]
pub fn diff(old: &Value, new: &Value) -> Option<Value> {
    let none = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
    let mut patch = Map::new();
    for (name, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        let before = old.get(name).filter(|before| !before.is_null());
        let changed = match (before, value, merge_key(name)) {
            (Some(before), value, _) if same(before, value) => None,
            (before, Value::Array(list), Some(key)) => {
                let before = before.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let order = list.iter().filter_map(|item| Some(json!({ key: item.get(key)? })));
                // The API server answers an order of nothing with 500.
                if !list.is_empty() {
                    patch.insert(format!("$setElementOrder/{name}"), order.collect());
                }
                Some(items(before, list, key)).filter(|items| !items.is_empty()).map(Value::Array)
            }
            (Some(before @ Value::Object(_)), value @ Value::Object(_), _) => diff(before, value),
            (_, value, _) => Some(value.clone()),
        };
        if let Some(changed) = changed {
            patch.insert(name.clone(), changed);
        }
    }
    let gone =
        old.iter().filter(|(name, value)| !value.is_null() && new.get(*name).is_none_or(Value::is_null));
    for (name, before) in gone {
        let removed = match (before.as_array(), merge_key(name)) {
            (Some(list), Some(key)) => Value::Array(items(list, &[], key)),
            _ => Value::Null,
        };
        patch.insert(name.clone(), removed);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The changed elements of a list with this key, and directives for the removed ones.
fn items(old: &[Value], new: &[Value], key: &str) -> Vec<Value> {
    let of = |list: &[Value], wanted: &Value| list.iter().find(|item| item.get(key) == Some(wanted)).cloned();
    let mut out = Vec::new();
    for item in new {
        let Some(id) = item.get(key) else { continue };
        let Some(before) = of(old, id) else {
            out.push(item.clone());
            continue;
        };
        if let Some(Value::Object(mut changed)) = diff(&before, item) {
            changed.insert(key.to_owned(), id.clone());
            out.push(Value::Object(changed));
        }
    }
    let ids = old.iter().filter_map(|item| item.get(key));
    let gone = ids.filter(|id| of(new, id).is_none());
    out.extend(gone.map(|id| json!({ "$patch": "delete", key: id })));
    out
}

/// Whether two values are equal, if null and an empty object of an unknown state count as absent.
#[must_use]
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let all = a.keys().chain(b.keys());
            all.into_iter().all(|name| match (a.get(name), b.get(name)) {
                (Some(a), Some(b)) => same(a, b),
                (Some(only), None) | (None, Some(only)) => is_nothing(name, only),
                (None, None) => true,
            })
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b,
    }
}

/// Values that the server writes when a client leaves them out.
fn is_nothing(name: &str, value: &Value) -> bool {
    let is_empty = value.as_object().is_some_and(Map::is_empty);
    value.is_null() || is_empty && matches!(name, "lastState" | "resources")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches() {
        let check = |old: Value, new: Value, expected: Option<Value>| {
            assert_eq!(diff(&old, &new), expected, "{old} -> {new}");
        };
        check(json!({}), json!({}), None);
        check(json!({"a": null}), json!({}), None);
        check(json!({"a": 1}), json!({"a": 1, "b": null}), None);
        check(json!({"phase": "Pending"}), json!({"phase": "Running"}), Some(json!({"phase": "Running"})));
        check(json!({"podIP": "1"}), json!({}), Some(json!({"podIP": null})));
        check(
            json!({"m": {"a": "1", "b": "2"}}),
            json!({"m": {"a": "3"}}),
            Some(json!({"m": {"a": "3", "b": null}})),
        );
        // Regression: an order of nothing, which the API server answers with 500.
        check(json!({}), json!({"conditions": []}), None);
        check(json!({"conditions": []}), json!({"conditions": []}), None);
        check(
            json!({"conditions": [{"type": "A"}]}),
            json!({"conditions": []}),
            Some(json!({"conditions": [{"$patch": "delete", "type": "A"}]})),
        );
        // Statuses of containers are sent whole.
        let one = |ready: bool| json!({"containerStatuses": [{"name": "a", "ready": ready}, {"name": "b"}]});
        check(one(false), one(true), Some(one(true)));
        check(
            json!({"containerStatuses": [{"name": "a", "lastState": {}, "state": {"waiting": {}}}]}),
            json!({"containerStatuses": [{"name": "a", "state": {"waiting": {}}}]}),
            None,
        );
        check(
            json!({"containerStatuses": [{"name": "a", "state": {"waiting": {}}}]}),
            json!({"containerStatuses": [{"name": "a", "state": {"running": {}}}]}),
            Some(json!({"containerStatuses": [{"name": "a", "state": {"running": {}}}]})),
        );
    }

    #[test]
    fn lists_that_are_merged() {
        let of = |list: Value| json!({"conditions": list});
        let old = of(json!([
            {"type": "A", "status": "False", "reason": "x", "lastProbeTime": null},
            {"type": "B", "status": "True"},
            {"type": "Gone", "status": "True"}
        ]));
        let new =
            of(json!([{"type": "A", "status": "True"}, {"type": "B", "status": "True"}, {"type": "C"}]));
        assert_eq!(
            diff(&old, &new).unwrap(),
            json!({
                "$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}, {"type": "C"}],
                "conditions": [
                    {"type": "A", "status": "True", "reason": null},
                    {"type": "C"},
                    {"$patch": "delete", "type": "Gone"}
                ]
            })
        );
        let ips = |list: Value| json!({"podIPs": list});
        let (none, one) = (json!({}), ips(json!([{"ip": "1.2.3.4"}])));
        assert_eq!(diff(&none, &one).unwrap()["podIPs"], json!([{"ip": "1.2.3.4"}]));
        assert_eq!(diff(&one, &none).unwrap(), ips(json!([{"$patch": "delete", "ip": "1.2.3.4"}])));
    }
}
