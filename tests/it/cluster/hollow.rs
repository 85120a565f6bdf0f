//! Hollow nodes at a real API server.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::control_plane::ControlPlane;
use crate::harness::PATIENCE;

const NODES: usize = 5;
const PODS_OF_NODE: usize = 3;

/// The process, which is killed at the latest when the test ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "not in {} s: {what}", PATIENCE.as_secs());
        thread::sleep(Duration::from_millis(100));
    }
}

fn items(plane: &ControlPlane, path: &str) -> Vec<Value> {
    plane.object(path).map(|list| list["items"].as_array().unwrap().clone()).unwrap_or_default()
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// A pod with a volume, a probe and a hook that nothing but a real node has.
fn pod(node: usize, number: usize) -> Value {
    let container = json!({
        "name": "app",
        "image": "registry.example/app:1",
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1},
        "lifecycle": {"postStart": {"exec": {"command": ["/warm-up"]}}},
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("p{node}-{number}"), "namespace": "hollow"},
        "spec": {
            "nodeName": format!("hollow-test-{node}"),
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "data", "hostPath": {"path": "/nonexistent", "type": "Directory"}}],
            "containers": [container],
        },
    })
}

#[test]
fn a_kubeconfig_that_cannot_be_used_ends_it_at_once() {
    let dir = std::env::temp_dir().join(format!("podkeeper-hollow-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("node.conf");
    let path = path.to_str().unwrap();
    let check = |content: Option<&str>, expected: &str| {
        if let Some(content) = content {
            std::fs::write(path, content).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_podkeeper"));
        command.args(["hollow", "--kubeconfig", path]).stderr(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        wait_until("it ends", || process.0.try_wait().unwrap().is_some());
        let mut said = String::new();
        process.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(process.0.wait().unwrap().code(), Some(2), "{said}");
        assert!(said.starts_with("error: --kubeconfig cannot be used: "), "{said}");
        assert!(said.contains(path) && said.contains(expected) && said.lines().count() == 1, "{said}");
    };
    check(None, "No such file");
    check(Some("kind: Pod"), "is of kind Pod");
    let broken = "{kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], \
                  clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: eA==}}]}";
    check(Some(broken), "certificate-authority");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn pods_of_hollow_nodes_run_end_and_go() {
    let Some(plane) = ControlPlane::get() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_podkeeper"));
    let count = NODES.to_string();
    let flags = ["hollow", "--name-prefix", "hollow-test-", "--count", &count, "--node-capacity", "cpu=3"];
    // Pods of other tests must not come here.
    command.args(flags).args(["--register-with-taints", "hollow=test:NoSchedule", "--kubeconfig"]);
    let child = command.arg(plane.file("admin.kubeconfig")).stderr(Stdio::null()).spawn().unwrap();
    let mut process = Process(child);

    let nodes = || items(plane, "/api/v1/nodes?labelSelector=podkeeper.dev/hollow=true");
    wait_until("all nodes are ready", || nodes().iter().filter(|node| is_ready(node)).count() == NODES);
    for node in nodes() {
        assert_eq!(node["status"]["capacity"]["cpu"], "3", "{node}");
        assert_eq!(node["status"]["capacity"]["memory"], "3840Mi", "{node}");
        let name = node["metadata"]["name"].as_str().unwrap();
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], name);
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
        wait_until("there is a lease", || {
            plane.object(&lease).is_some_and(|lease| lease["spec"]["holderIdentity"] == name)
        });
    }

    plane.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hollow"}}));
    wait_until("its service account is there", || {
        plane.object("/api/v1/namespaces/hollow/serviceaccounts/default").is_some()
    });
    let mut all: Vec<Value> =
        (0..NODES).flat_map(|node| (0..PODS_OF_NODE).map(move |number| pod(node, number))).collect();
    let mut short = pod(0, PODS_OF_NODE);
    short["spec"]["restartPolicy"] = "Never".into();
    short["spec"]["containers"][0]["command"] = json!(["sleep", "1"]);
    all.push(short);
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": all}));
    let pods = || items(plane, "/api/v1/namespaces/hollow/pods");
    let in_phase = |phase: &str| pods().iter().filter(|pod| pod["status"]["phase"] == phase).count();
    wait_until("all pods run, and the short one has ended", || {
        let running = pods().into_iter().filter(|pod| pod["status"]["phase"] == "Running" && is_ready(pod));
        running.count() == NODES * PODS_OF_NODE && in_phase("Succeeded") == 1
    });
    let ids = pods().into_iter().map(|pod| pod["status"]["containerStatuses"][0]["containerID"].to_string());
    let ids: std::collections::BTreeSet<String> = ids.collect();
    assert_eq!(ids.len(), all.len(), "each container has its own id: {ids:?}");
    wait_until("starts are told", || {
        let events = items(plane, "/api/v1/namespaces/hollow/events");
        events.iter().filter(|event| event["reason"] == "Started").count() == all.len()
    });

    plane.says(&["-n", "hollow", "delete", "pods", "--all", "--wait=false"]);
    wait_until("all pods are gone", || pods().is_empty());

    let pid = process.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    wait_until("the process ends", || process.0.try_wait().unwrap().is_some());
    assert!(process.0.wait().unwrap().success());
    plane.says(&["delete", "nodes", "-l", "podkeeper.dev/hollow=true"]);
    plane.says(&["delete", "namespace", "hollow", "--wait=false"]);
}
