//! The strategic merge patch (`apimachinery/pkg/util/strategicpatch/patch.go`): maps merge, null removes, and lists
//! replace, unless the table has a key by which their elements merge.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::api::failure::Failure;
use crate::api::write::places::Places;
use crate::base::{json, limits, order};

/// How the elements of a list merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    /// Elements are maps, matched by this key.
    By(&'static str),
    /// The same, and `$retainKeys` is obeyed.
    Retain(&'static str),
    /// Elements are plain values.
    Plain,
}

/// The lists that merge: the fields above, from the list's own name backwards (empty for any place), and how
/// (`api/core/v1/types.go`, the tags `patchStrategy` and `patchMergeKey`).
static LISTS: &[(&str, &[&str], Merge)] = &[
    ("", &["metadata", "ownerReferences"], Merge::By("uid")),
    ("", &["metadata", "finalizers"], Merge::Plain),
    ("Pod", &["spec", "containers"], Merge::By("name")),
    ("Pod", &["spec", "initContainers"], Merge::By("name")),
    ("Pod", &["spec", "ephemeralContainers"], Merge::By("name")),
    ("Pod", &["spec", "imagePullSecrets"], Merge::By("name")),
    ("Pod", &["spec", "schedulingGates"], Merge::By("name")),
    ("Pod", &["spec", "volumes"], Merge::Retain("name")),
    ("Pod", &["spec", "resourceClaims"], Merge::Retain("name")),
    ("Pod", &["spec", "hostAliases"], Merge::By("ip")),
    ("Pod", &["spec", "topologySpreadConstraints"], Merge::By("topologyKey")),
    ("Pod", &["spec", "*", "ports"], Merge::By("containerPort")),
    ("Pod", &["spec", "*", "env"], Merge::By("name")),
    ("Pod", &["spec", "*", "volumeMounts"], Merge::By("mountPath")),
    ("Pod", &["spec", "*", "volumeDevices"], Merge::By("devicePath")),
    ("Pod", &["status", "conditions"], Merge::By("type")),
    ("Pod", &["status", "podIPs"], Merge::By("ip")),
    ("Pod", &["status", "hostIPs"], Merge::By("ip")),
    ("Pod", &["status", "resourceClaimStatuses"], Merge::Retain("name")),
    ("Pod", &["status", "*", "volumeMounts"], Merge::By("mountPath")),
    ("Pod", &["status", "*", "allocatedResourcesStatus"], Merge::By("name")),
    ("Node", &["spec", "podCIDRs"], Merge::Plain),
    ("Node", &["status", "conditions"], Merge::By("type")),
    ("Node", &["status", "addresses"], Merge::By("type")),
    ("PersistentVolumeClaim", &["status", "conditions"], Merge::By("type")),
    ("Namespace", &["status", "conditions"], Merge::By("type")),
];

/// How server-side apply distinguishes the elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// It does not: the list is one value.
    Atomic,
    /// By their values.
    Set,
    /// By these fields.
    Keys(&'static [&'static str]),
}

/// How elements of the list at this path are distinguished; `path` has no elements of lists.
#[must_use]
pub fn list_of(kind: &str, path: &[&str]) -> List {
    match path.last() {
        Some(&"ports") => return List::Keys(&["containerPort", "protocol"]),
        Some(&"topologySpreadConstraints") => return List::Keys(&["topologyKey", "whenUnsatisfiable"]),
        Some(&"claims") => return List::Keys(&["name"]),
        Some(&"hostIPs") => return List::Atomic,
        _ => {}
    }
    let is_it = |(of, known, _): &&(&str, &[&str], Merge)| fits(of, known, kind, path);
    match LISTS.iter().find(is_it).map(|(_, _, merge)| merge) {
        Some(Merge::By(key) | Merge::Retain(key)) => List::Keys(std::slice::from_ref(key)),
        Some(Merge::Plain) => List::Set,
        None => List::Atomic,
    }
}

fn fits(of: &str, known: &[&str], kind: &str, path: &[&str]) -> bool {
    (of.is_empty() || of == kind)
        && known.len() == path.len()
        && known.iter().zip(path).all(|(known, found)| *known == "*" || known == found)
}

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// A place in an object, without positions in lists.
#[derive(Clone)]
struct At<'a> {
    kind: &'a str,
    path: Vec<&'a str>,
}

impl<'a> At<'a> {
    fn below(&self, field: &'a str) -> At<'a> {
        let mut path = self.path.clone();
        path.push(field);
        At { kind: self.kind, path }
    }

    fn merge(&self) -> Option<Merge> {
        let is_it = |(of, known, _): &&(&str, &[&str], Merge)| fits(of, known, self.kind, &self.path);
        LISTS.iter().find(is_it).map(|(_, _, merge)| *merge)
    }
}

fn bad<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(400, why))
}

/// The object of this kind after the patch.
///
/// # Errors
/// The patch does not fit.
pub fn apply(kind: &str, object: &Value, patch: &Value) -> Result<Value, Failure> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return bad("a strategic merge patch must be an object");
    };
    let at = At { kind, path: Vec::new() };
    map(object.clone(), patch, &at, false).map(Value::Object)
}

fn map(
    mut live: Map<String, Value>,
    patch: &Map<String, Value>,
    at: &At<'_>,
    retains: bool,
) -> Result<Map<String, Value>, Failure> {
    if at.path.len() > limits::API_DEPTH {
        return bad("the patch is too deep");
    }
    match patch.get(PATCH).map(Value::as_str) {
        None => {}
        Some(Some("replace")) => {
            let rest = patch.iter().filter(|(key, _)| *key != PATCH);
            return Ok(json::object(&mut rest.map(|(key, value)| (key.clone(), value.clone()))));
        }
        Some(Some("delete")) => return Ok(Map::new()),
        Some(Some("merge")) => {}
        Some(other) => return bad(format!("unknown patch type: {}", other.unwrap_or("no text"))),
    }
    if let Some(Value::Array(kept)) = patch.get(RETAIN) {
        let kept = order::set(kept.iter().filter_map(Value::as_str));
        let is_kept = |key: &String| kept.contains(key.as_str());
        if !retains && !at.path.is_empty() && patch.keys().any(|key| !key.starts_with('$') && !is_kept(key))
            || patch.keys().any(|key| !key.starts_with('$') && !is_kept(key))
        {
            return bad("invalid patch format of $retainKeys: a key of the patch is not in the list");
        }
        live.retain(|key, _| is_kept(key));
    }
    let lists = patch.keys().filter_map(|key| key.strip_prefix(DELETE).or_else(|| key.strip_prefix(ORDER)));
    let fields = patch.keys().map(String::as_str).filter(|key| !key.starts_with('$'));
    let mut names: Vec<&str> = fields.chain(lists).collect();
    crate::base::order::sort(&mut names);
    names.dedup();
    for name in names {
        let below = at.below(name);
        let value = patch.get(name);
        if value.is_some_and(Value::is_null) {
            live.remove(name);
            continue;
        }
        let order = directive(patch, ORDER, name)?;
        let deleted = directive(patch, DELETE, name)?;
        let before = live.remove(name);
        let after = match (before, value) {
            (before, None | Some(Value::Array(_)))
                if below.merge().is_some() || order.is_some() || deleted.is_some() =>
            {
                let before = match before {
                    Some(Value::Array(list)) => list,
                    _ => Vec::new(),
                };
                let patch = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let list = list(before, patch, order, deleted, &below)?;
                Value::Array(list)
            }
            (Some(Value::Object(before)), Some(Value::Object(patch))) => {
                Value::Object(map(before, patch, &below, false)?)
            }
            (_, Some(Value::Object(patch))) => Value::Object(map(Map::new(), patch, &below, false)?),
            (_, Some(value)) => value.clone(),
            (before, None) => match before {
                Some(before) => before,
                None => continue,
            },
        };
        live.insert(name.to_owned(), after);
    }
    Ok(live)
}

fn directive<'p>(
    patch: &'p Map<String, Value>,
    prefix: &str,
    name: &str,
) -> Result<Option<&'p [Value]>, Failure> {
    match patch.get(&format!("{prefix}{name}")) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(_) => bad(format!("{prefix}{name} must be a list")),
    }
}

fn list(
    live: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    deleted: Option<&[Value]>,
    at: &At<'_>,
) -> Result<Vec<Value>, Failure> {
    let named = order.map_or(0, <[Value]>::len).saturating_add(deleted.map_or(0, <[Value]>::len));
    if live.len().saturating_add(patch.len()).saturating_add(named) > limits::API_LIST {
        return bad(format!("a list may have {} elements at most", limits::API_LIST));
    }
    let merged = match at.merge() {
        Some(Merge::Plain) | None => plain(live, patch, deleted.unwrap_or_default()),
        Some(Merge::By(key)) => elements(live, patch, key, false, at)?,
        Some(Merge::Retain(key)) => elements(live, patch, key, true, at)?,
    };
    let identity = |value: &Value| match at.merge() {
        Some(Merge::By(key) | Merge::Retain(key)) => word(value.get(key).unwrap_or(&Value::Null)),
        _ => word(value),
    };
    Ok(match order {
        None => merged,
        Some(order) => ordered(merged, order.iter().map(identity), identity),
    })
}

/// Equal for equal values only, so that elements are found without comparing each with each.
fn word(value: &Value) -> String {
    value.to_string()
}

fn plain(mut live: Vec<Value>, patch: &[Value], deleted: &[Value]) -> Vec<Value> {
    let mut there: HashSet<String> = live.iter().map(word).collect();
    live.extend(patch.iter().filter(|value| there.insert(word(value))).cloned());
    let deleted = order::set(deleted.iter().map(word));
    live.retain(|value| !deleted.contains(&word(value)));
    live
}

fn elements(
    live: Vec<Value>,
    patch: &[Value],
    key: &'static str,
    retains: bool,
    at: &At<'_>,
) -> Result<Vec<Value>, Failure> {
    let directive = |value: &Value| value.get(PATCH).and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|one| directive(one).as_deref() == Some("replace")) {
        return Ok(patch.iter().filter(|one| one.get(PATCH).is_none()).cloned().collect());
    }
    // The first element of each key, and of each element the next one of its key. The place of a deleted element stays empty.
    let mut places = Places::default();
    let mut next: Vec<Option<usize>> = vec![None; live.len()];
    for ((place, one), next) in live.iter().enumerate().zip(&mut next).rev() {
        if let Some(found) = one.get(key) {
            *next = places.insert(word(found), place);
        }
    }
    let mut all: Vec<Option<Value>> = live.into_iter().map(Some).collect();
    for one in patch {
        let Value::Object(fields) = one else { return bad("an element of the patch is no object") };
        let Some(wanted) = fields.get(key).map(word) else {
            return bad(format!("map: {one} does not contain declared merge key: {key}"));
        };
        if directive(one).as_deref() == Some("delete") {
            let mut found = places.remove(&wanted);
            while let Some(place) = found {
                all.get_mut(place).map(Option::take);
                // Later than this one.
                found = next.get(place).copied().flatten();
            }
            continue;
        }
        match places.get(&wanted).and_then(|place| all.get_mut(place)) {
            Some(Some(Value::Object(found))) => {
                let merged = map(std::mem::take(found), fields, at, retains)?;
                *found = merged;
            }
            _ => {
                places.insert(wanted, all.len());
                all.push(Some(Value::Object(map(Map::new(), fields, at, retains)?)));
            }
        }
    }
    Ok(all.into_iter().flatten().collect())
}

/// Puts the named elements into this order; the others keep the live order, each before the named one that followed it.
fn ordered(
    all: Vec<Value>,
    order: impl Iterator<Item = String>,
    identity: impl Fn(&Value) -> String,
) -> Vec<Value> {
    let mut places = Places::default();
    let mut count = 0_usize;
    for name in order {
        places.get_or_insert(name, count);
        count = count.saturating_add(1);
    }
    // By the places of the named ones: the others that come before each.
    let mut named: Vec<Vec<Value>> = Vec::new();
    named.resize_with(count, Vec::new);
    let mut waiting = Vec::new();
    for value in all {
        let place = places.get(&identity(&value));
        waiting.push(value);
        if let Some(named) = place.and_then(|place| named.get_mut(place)) {
            named.append(&mut waiting);
        }
    }
    named.into_iter().flatten().chain(waiting).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(live: Value, patch: Value, expected: Value) {
        assert_eq!(apply("Pod", &live, &patch), Ok(expected), "{patch}");
    }

    #[test]
    fn maps_merge_and_lists_merge_by_key() {
        check(
            json!({"spec": {"containers": [{"name": "a", "image": "x", "args": ["1"]}, {"name": "b"}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "y"}, {"name": "c"}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "y", "args": ["1"]}, {"name": "b"}, {"name": "c"}]}}),
        );
        check(
            json!({"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}], "args": ["1"]}]}}),
            json!({"spec": {"containers": [{"name": "a", "env": [{"name": "Y"}], "args": ["2"]}]}}),
            json!({"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y"}], "args": ["2"]}]}}),
        );
        check(
            json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]}}),
            json!({"metadata": {"labels": {"a": null}, "finalizers": ["z"], "$deleteFromPrimitiveList/finalizers": ["x"]}}),
            json!({"metadata": {"labels": {"b": "2"}, "finalizers": ["y", "z"]}}),
        );
    }

    #[test]
    fn directives() {
        let live = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "v", "emptyDir": {}}]}});
        check(
            live.clone(),
            json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
            json!({"spec": {"containers": [{"name": "b"}], "volumes": [{"name": "v", "emptyDir": {}}]}}),
        );
        check(
            live.clone(),
            json!({"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}], "volumes": null}}),
            json!({"spec": {"containers": [{"name": "c"}]}}),
        );
        check(live.clone(), json!({"spec": {"$patch": "replace", "x": 1}}), json!({"spec": {"x": 1}}));
        check(live.clone(), json!({"spec": {"$patch": "delete"}}), json!({"spec": {}}));
        check(
            live.clone(),
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}),
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}),
        );
        check(
            live.clone(),
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}),
            json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}], "volumes": [{"name": "v", "emptyDir": {}}]}}),
        );
        for wrong in [
            json!({"spec": {"containers": [{"image": "x"}]}}),
            json!({"spec": {"$patch": "x"}}),
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "hostPath": {}}]}}),
            json!({"spec": {"containers": ["x"]}}),
            json!([]),
        ] {
            assert_eq!(apply("Pod", &live, &wrong).unwrap_err().code, 400, "{wrong}");
        }
    }

    /// An order of 100,000 texts took 89 seconds: each was compared with each of 3,000 elements.
    #[test]
    fn long_lists_merge_without_comparing_each_with_each() {
        let begun = std::time::Instant::now();
        let texts = |from: usize, to: usize| -> Value { (from..to).map(|n| format!("x.y/{n}")).collect() };
        let object = json!({"metadata": {"finalizers": texts(0, 3000)}});
        let order = |last: usize| json!({"metadata": {"finalizers": texts(2000, 3000), "$setElementOrder/finalizers": texts(0, last)}});
        let refused = apply("ConfigMap", &object, &order(100_000)).unwrap_err();
        assert!(refused.message.contains("10000 elements at most"), "{}", refused.message);
        assert_eq!(apply("ConfigMap", &object, &order(6000)), Ok(object));
        let env = |value: &str| -> Value {
            (0..4500).map(|n| json!({"name": format!("{n}"), "value": value})).collect()
        };
        let pod = |value: &str| json!({"spec": {"containers": [{"name": "a", "env": env(value)}]}});
        check(pod("1"), pod("2"), pod("2"));
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn elements_that_nobody_orders_stay_before_their_followers() {
        let list = |names: &str| -> Value { names.chars().map(|c| json!({"name": c.to_string()})).collect() };
        let live = json!({"spec": {"containers": list("axbyz")}});
        let patch = json!({"spec": {"$setElementOrder/containers": list("ba")}});
        check(live, patch, json!({"spec": {"containers": list("xbayz")}}));
    }
}
