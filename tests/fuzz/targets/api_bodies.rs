//! Requests to the node's own API: patches of every kind on a pod, applies, sizes and added containers, selectors, and
//! objects as JSON, YAML and protobuf. The first byte chooses the kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::api::{
    By, Kind, Resource, Selector, added, apply, kind_of, object, resized, route, typed,
};
use podkeeper::testing::jsonpath::Template;
use serde_json::{Value, json};

const BODIES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const PATCHES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];

fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "labels": {"app": "web"}, "finalizers": ["x"]},
        "spec": {
            "containers": [{"name": "a", "image": "i", "env": [{"name": "X", "value": "1"}],
                            "ports": [{"containerPort": 80}], "resources": {"requests": {"cpu": "1"}}}],
            "ephemeralContainers": [{"name": "e", "image": "i"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "k"}],
        },
    })
}

fuzz_target!(|bytes: &[u8]| {
    let [choice, bytes @ ..] = bytes else { return };
    let choice = usize::from(*choice) % 12;
    if let Some(kind) = BODIES.get(choice) {
        let _ = object(Some(kind), bytes, 100_000);
        return;
    }
    if choice < 6 {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let _ = route(text);
        if let Ok(template) = Template::parse(text) {
            let _ = template.render(&pod());
        }
        let (labels, fields) = text.split_once('\n').unwrap_or((text, ""));
        if let Ok(selector) = Selector::parse(labels, fields, Resource::Pods) {
            let _ = selector.matches(&pod());
        }
        return;
    }
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return };
    if let Some(Ok(by)) = PATCHES.get(choice - 6).map(|kind| Kind::of(Some(kind))) {
        let Ok(patched) = by.apply("Pod", &pod(), &body) else { return };
        let _ = (added::news(&pod(), &patched), resized(&pod(), &patched));
        return;
    }
    // As an object: its known fields, and their owners after two managers have applied it.
    let Some(kind) = kind_of(Resource::Pods) else { return };
    let Ok((known, _)) = typed(kind, &body) else { return };
    if known.pointer("/metadata/managedFields").is_some() {
        return;
    }
    let by = |manager| By { manager, now: "2026-01-02T03:04:05Z" };
    let Ok(first) = apply(kind, &Value::Null, &known, by("one"), false) else { return };
    assert!(apply(kind, &first, &known, by("one"), false).is_ok(), "a manager is in conflict with itself");
    let _ = apply(kind, &pod(), &known, by("two"), choice % 2 == 0);
});
