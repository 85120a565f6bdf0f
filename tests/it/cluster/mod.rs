//! The daemon as a node of a real cluster.

mod added;
mod beside;
pub mod control_plane;
mod hollow;
mod joining;
mod node;
mod reports;
mod setbacks;
mod source;
mod streams;
mod volumes;
mod workloads;

use serde_json::{Value, json};

use self::control_plane::{ControlPlane, Way};
use crate::harness::{Bounded as _, Node, Options};

/// A pod that is bound to a node.
pub fn pod(name: &str, node: &Node, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node.name,
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "app",
                "image": "busybox:static",
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/busybox", "sh", "-c", "trap 'exit 0' TERM; while :; do /bin/busybox sleep 0.1; done"],
            }],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

/// A node that gets pods of the server through this connection.
pub fn node(plane: &ControlPlane, way: Option<&Way>, options: Options) -> Node {
    let node = Node::prepare(options);
    let own = plane.node(&node.name);
    let kubeconfig = way.map_or(own.clone(), |way| way.kubeconfig(plane, &own));
    node.options.borrow_mut().flags.push(format!("--kubeconfig={}", kubeconfig.display()));
    node.launch();
    node
}

/// A pod at the server.
pub fn get(plane: &ControlPlane, name: &str) -> Option<Value> {
    plane.object(&format!("/api/v1/namespaces/default/pods/{name}"))
}

/// Waits until the server has a pod in a phase, and returns the pod.
pub fn in_phase(plane: &ControlPlane, node: &Node, name: &str, phase: &str) -> Value {
    node.wait_for(&format!("the server has {name} as {phase}"), || {
        get(plane, name).filter(|pod| pod["status"]["phase"] == phase)
    })
}

/// Events of a pod: reason and count.
pub fn events(plane: &ControlPlane, name: &str) -> Vec<(String, i64)> {
    let all = plane.object("/api/v1/namespaces/default/events").unwrap();
    let of = all["items"].as_array().unwrap().iter().filter(|e| e["involvedObject"]["name"] == name);
    let of = of.filter(|e| e["source"]["component"] == "kubelet");
    let mut of: Vec<(String, i64)> =
        of.map(|e| (e["reason"].as_str().unwrap().to_owned(), e["count"].as_i64().unwrap())).collect();
    of.sort();
    of
}

/// A pod that runs one shell command, once.
pub fn job(name: &str, node: &Node, command: &str) -> Value {
    let mut pod = pod(name, node, &json!({"restartPolicy": "Never", "automountServiceAccountToken": false}));
    pod["spec"]["containers"][0]["command"] = json!(["/bin/busybox", "sh", "-c", command]);
    pod
}

/// Phase of a pod of the server, by its name there.
pub fn phase(node: &Node, name: &str) -> String {
    let pods = node.status().map(|status| status.pods).unwrap_or_default();
    let pod = pods.into_iter().find(|pod| pod.metadata.name.as_deref() == Some(name));
    pod.and_then(|pod| pod.status?.phase).unwrap_or_default()
}

/// Ids of a pod's running containers, without its sandbox.
pub fn ids(node: &Node, name: &str) -> Vec<String> {
    let all = node.containers().into_iter().filter(|it| it.runs() && !it.is_sandbox());
    all.filter(|it| it.pod == name).map(|it| it.id).collect()
}

pub fn inside(id: &str, file: &str) -> String {
    let output = std::process::Command::new("docker").args(["exec", id, "/bin/busybox", "cat", file]).ends();
    String::from_utf8(output.stdout).unwrap()
}

/// A node that has the API server as its only source.
pub fn without_files() -> Options {
    Options { no_files: true, ..Options::default() }
}
