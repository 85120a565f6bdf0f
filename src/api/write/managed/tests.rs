//! Tests of conflicts, sharing and removal in server-side apply.

use super::*;
use crate::api::kinds::{Resource, of};

fn by(manager: &str) -> By<'_> {
    By { manager, now: "2026-01-01T00:00:00Z" }
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": data})
}

#[test]
fn appliers_own_what_they_apply() {
    let kind = of(Resource::ConfigMaps).unwrap();
    let first = apply(kind, &Value::Null, &map(json!({"a": "1", "b": "1"})), by("x"), false).unwrap();
    let owned = json!({"f:data": {"f:a": {}, "f:b": {}}});
    assert_eq!(first["metadata"]["managedFields"][0]["fieldsV1"], owned);
    // Equal values are shared; another value is a conflict.
    assert!(apply(kind, &first, &map(json!({"a": "1"})), by("y"), false).is_ok());
    let refused = apply(kind, &first, &map(json!({"a": "2"})), by("y"), false).unwrap_err();
    assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"x\": .data.a");
    assert_eq!(refused.details["causes"][0]["field"], ".data.a");
    let forced = apply(kind, &first, &map(json!({"a": "2"})), by("y"), true).unwrap();
    assert_eq!(forced["data"], json!({"a": "2", "b": "1"}));
    // A field that is not applied any more is removed, unless another manager owns it.
    let less = apply(kind, &forced, &map(json!({})), by("x"), false).unwrap();
    assert_eq!(less["data"], json!({"a": "2"}));
    assert_eq!(
        apply(kind, &first, &map(json!({"a": "1", "b": "1"})), by("x"), false).unwrap(),
        first,
        "no change"
    );
}

#[test]
fn other_writes_own_what_they_change() {
    let kind = of(Resource::ConfigMaps).unwrap();
    let first = apply(kind, &Value::Null, &map(json!({"a": "1"})), by("x"), false).unwrap();
    let mut edited = first.clone();
    edited["data"] = json!({"a": "2", "c": "3"});
    updated(kind, &first, &mut edited, by("kubectl-edit"));
    let refused = apply(kind, &edited, &map(json!({"a": "1", "c": "4"})), by("x"), false).unwrap_err();
    let words =
        "Apply failed with 2 conflicts: conflicts with \"kubectl-edit\" using v1:\n- .data.a\n- .data.c";
    assert_eq!(refused.message, words);
}

#[test]
fn elements_of_lists_have_owners() {
    let kind = of(Resource::Pods).unwrap();
    let pod = |containers: Value| json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    let live = pod(json!([{"name": "a", "image": "x", "ports": [{"containerPort": 80}]}]));
    let refused = apply(kind, &live, &pod(json!([{"name": "a", "image": "y"}])), by("k"), false).unwrap_err();
    assert!(
        refused.message.ends_with("\"before-first-apply\" using v1: .spec.containers[name=\"a\"].image"),
        "{}",
        refused.message
    );
    let forced =
        apply(kind, &live, &pod(json!([{"name": "a", "image": "y"}, {"name": "b"}])), by("k"), true).unwrap();
    assert_eq!(forced["spec"]["containers"][0]["ports"], json!([{"containerPort": 80}]));
    let own = json!({"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}}, "k:{\"name\":\"b\"}": {".": {}, "f:name": {}}});
    assert_eq!(forced["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"], own);
    let less = apply(kind, &forced, &pod(json!([{"name": "a", "image": "y"}])), by("k"), false).unwrap();
    assert_eq!(less["spec"]["containers"].as_array().unwrap().len(), 1);
}

/// 4,000 variables that two managers apply took 40 seconds, because the list was searched for each of them: with eight
/// times as many variables it took 64 times as long.
#[test]
fn long_lists_are_applied_without_searching_them_for_each_element() {
    use rustix::time::{ClockId, clock_gettime};
    let kind = of(Resource::Pods).unwrap();
    let pod =
        |env: Value| json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "env": env}]}});
    // CPU time of this thread, so that other work on the machine does not count.
    let time = || std::time::Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let applied = |count: u32| {
        let env = |value: &str| -> Value {
            (0..count).map(|n| json!({"name": format!("V{n}"), "value": value})).collect()
        };
        let begun = time();
        let first = apply(kind, &Value::Null, &pod(env("1")), by("x"), false).unwrap();
        let second = apply(kind, &first, &pod(env("1")), by("y"), false).unwrap();
        assert!(apply(kind, &second, &pod(env("2")), by("y"), false).is_err());
        let mut forced = apply(kind, &second, &pod(env("2")), by("y"), true).unwrap();
        let before = forced.clone();
        forced["spec"]["containers"][0]["env"] = env("3");
        updated(kind, &before, &mut forced, by("kubectl-edit"));
        let less = apply(kind, &first, &pod(json!([])), by("x"), false).unwrap();
        assert_eq!(less["spec"]["containers"][0]["env"], json!([]));
        time() - begun
    };
    let (few, many) = (applied(500), applied(4000));
    assert!(many < few * 24, "{few:?} for 500, {many:?} for 4,000");
}

/// Otherwise every later write of the object would be refused.
#[test]
fn owners_that_are_too_many_to_be_noted_hinder_no_write() {
    let kind = of(Resource::ConfigMaps).unwrap();
    let first = apply(kind, &Value::Null, &map(json!({"a": "1"})), by("x"), false).unwrap();
    let mut edited = first.clone();
    edited["data"]["k".repeat(limits::API_OWNERS)] = "1".into();
    updated(kind, &first, &mut edited, by("kubectl-edit"));
    assert_eq!(edited["metadata"]["managedFields"], first["metadata"]["managedFields"]);
}

/// An object of 650 KB took 170 MB before it was found to be too long.
#[test]
fn an_object_with_too_many_elements_is_refused_before_they_are_gathered() {
    let kind = of(Resource::Pods).unwrap();
    let pod = |count: usize| {
        let env: Vec<Value> = (0..count).map(|n| json!({"name": n.to_string()})).collect();
        json!({"spec": {"containers": [{"name": "a", "env": env}]}})
    };
    let many = pod(limits::API_LIST);
    for (live, body) in [(&Value::Null, &many), (&many, &pod(1))] {
        let refused = apply(kind, live, body, by("x"), true).unwrap_err();
        assert_eq!(refused.code, 400);
        assert!(refused.message.contains("10000 elements at most"), "{}", refused.message);
    }
}
