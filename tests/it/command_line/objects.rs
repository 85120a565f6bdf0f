//! `get configmaps`, `get secrets` and `get images` beside a daemon without a port.

use std::fs;

use serde_json::{Value, json};

use crate::harness::Node;

#[test]
fn objects_in_force_are_listed_and_no_value_of_a_secret_is_anywhere() {
    let node = Node::start();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "labels": {"app": "web"}},
                     "data": {"a": "open", "b": ""}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pass", "namespace": "other"},
                        "type": "kubernetes.io/basic-auth", "stringData": {"username": "canary", "password": "canary2"}});
    node.write("web.yaml", map.to_string());
    node.write("pass.yaml", secret.to_string());
    node.wait_until("both are in force", || {
        node.says(&["get", "cm", "-o", "name"]) == "configmap/web\n"
            && node.says(&["get", "secrets", "-A", "-o", "name"]) == "secret/pass\n"
    });
    let row = node.says(&["get", "configmaps", "-l", "app=web", "--no-headers", "-o", "wide"]);
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        (words.first(), words.get(1), words.last()),
        (Some(&"web"), Some(&"2"), Some(&"file")),
        "{row}"
    );
    let one: Value = serde_json::from_str(&node.says(&["get", "configmap/web", "-o", "json"])).unwrap();
    assert_eq!(one["data"], json!({"a": "open", "b": ""}));
    let shown = node.says(&["get", "secret", "pass", "-n", "other", "-o", "jsonpath={.data.password}"]);
    assert_eq!(shown, "<7 bytes>");
    for entry in fs::read_dir(node.run_dir()).unwrap().flatten().filter(|it| it.path().is_file()) {
        let text = String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned();
        assert!(!text.contains("canary") && !text.contains("Y2FuYXJ5"), "{:?} has a value", entry.path());
    }
    let none = node.podkeeper(&["get", "secrets", "pass"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("secrets \"pass\" not found"), "{none:?}");
    node.remove("web.yaml");
    node.wait_until("it is not in force any more", || {
        node.says(&["get", "cm", "-A", "-o", "name"]).is_empty()
    });
    assert!(node.says(&["get", "images", "-o", "name"]).contains("image/busybox:static\n"));
}
