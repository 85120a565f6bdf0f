//! Limits of local storage that pods set themselves: who is over one goes, and nobody else.

use super::super::harness::{Node, Options};
use super::super::pods::{Pod, container};

/// Writes so many MiB to a place, and goes on.
fn writes(to: &str, mebibytes: u32) -> String {
    let bytes = mebibytes * 1024 * 1024;
    format!(
        "head -c {bytes} /dev/zero | tr '\\0' x | fold -w 1000 > {to}; trap 'exit 0' TERM; \
         sleep 100000 & wait"
    )
}

/// Reason and message of the pod's status.
fn told(node: &Node, pod: &str) -> (String, String) {
    let status = node.pod(pod).and_then(|pod| pod.status).unwrap_or_default();
    (status.reason.unwrap_or_default(), status.message.unwrap_or_default())
}

#[test]
fn the_pod_that_is_over_a_limit_of_its_own_goes_and_no_other() {
    const LIMIT: &str = "/spec/containers/0/resources/limits/ephemeral-storage";
    let node = Node::with(Options::flags(&["--container-log-max-size=4Mi"]));
    let volume = |name: &str, mebibytes: u32, limit: &str| {
        let volume = serde_json::json!([{"name": "data", "emptyDir": {"sizeLimit": limit}}]);
        let mounts = serde_json::json!([{"name": "data", "mountPath": "/data"}]);
        let pod = Pod::new(name).script(&writes("/data/file", mebibytes)).set("/spec/volumes", volume);
        pod.set("/spec/containers/0/volumeMounts", mounts)
    };
    let log = |name: &str, limit: &str| Pod::new(name).script(&writes("/dev/stdout", 3)).set(LIMIT, limit);
    let layer = |name: &str, limit: &str| Pod::new(name).script(&writes("/file", 6)).set(LIMIT, limit);
    let sum = |name: &str| {
        let second = container("second", &writes("/file", 3));
        layer(name, "7Mi").and(second).set("/spec/containers/1/resources/limits/ephemeral-storage", "1Mi")
    };
    let staying = [volume("volume-fine", 2, "4Mi"), log("log-fine", "8Mi"), layer("layer-fine", "8Mi")];
    let free = container("free", "trap 'exit 0' TERM; sleep 100000 & wait");
    let going = [volume("volume", 6, "4Mi"), log("log", "2Mi"), layer("layer", "4Mi").and(free), sum("sum")];
    for (name, pod) in ["volume-fine", "log-fine", "layer-fine"].iter().zip(&staying) {
        node.write(&format!("{name}.yaml"), pod.text());
    }
    let before: Vec<String> = ["volume-fine", "log-fine", "layer-fine"]
        .iter()
        .map(|name| node.wait_running(name, "app").id)
        .collect();
    for (name, pod) in ["volume", "log", "layer", "sum"].iter().zip(&going) {
        node.write(&format!("{name}.yaml"), pod.text());
    }
    for (name, message) in [
        ("volume", "Usage of EmptyDir volume \"data\" exceeds the limit \"4Mi\"."),
        // Of one container the sum is its limit, and is looked at first, as with the kubelet.
        ("log", "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi."),
        ("layer", "Container app exceeded its local ephemeral storage limit \"4Mi\"."),
        ("sum", "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi."),
    ] {
        node.wait_until(&format!("{name} is evicted"), || told(&node, name).0 == "Evicted");
        let (_, told) = told(&node, name);
        assert!(told.starts_with(message), "{name}: {told}");
        node.wait_until(&format!("{name} is stopped"), || node.running(name, "app").is_empty());
    }
    for (name, id) in ["volume-fine", "log-fine", "layer-fine"].iter().zip(before) {
        assert_eq!(node.wait_running(name, "app").id, id, "{name}");
        assert_eq!(told(&node, name), (String::new(), String::new()));
    }
}
