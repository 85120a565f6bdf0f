//! Pods that wait for other pods, on the real Docker.

use serde_json::json;

use crate::harness::Node;
use crate::harness::pods::Pod;

fn after(name: &str, on: &str, timeout: &str) -> Pod {
    let notes = json!({"podkeeper.dev/after": on, "podkeeper.dev/after-timeout": timeout});
    Pod::new(name).set("/metadata/annotations", notes)
}

fn message(node: &Node, pod: &str) -> String {
    node.pod(pod).and_then(|p| p.status?.message).unwrap_or_default()
}

#[test]
fn k10859_a_pod_starts_when_the_one_before_it_is_ready() {
    let node = Node::prepare(crate::harness::Options::default());
    let probe = json!({"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1});
    let db = Pod::new("db").set("/spec/containers/0/readinessProbe", probe);
    node.write("z-db.yaml", db.text());
    node.write("a-web.yaml", after("web", "db=ready", "10m").text());
    node.launch();
    node.wait_phase("db", "Running");
    node.wait_until("web waits", || {
        node.reason("web") == "WaitingForPods" && message(&node, "web").contains("pod default/db to be ready")
    });
    assert_eq!((node.phase("web").as_str(), node.of("web").len()), ("Pending", 0));
    assert_eq!(node.inside("db", "app", "touch /tmp/ready"), "");
    let web = node.wait_running("web", "app");
    // No longer ready, and a new daemon: running pods keep running.
    assert_eq!(node.inside("db", "app", "rm /tmp/ready"), "");
    node.restart();
    node.wait_phase("web", "Running");
    assert_eq!(node.wait_running("web", "app").id, web.id);
}

#[test]
fn the_wait_ends_and_an_edit_waits_beside_what_runs() {
    let node = Node::start();
    node.write("web.yaml", after("web", "nobody", "1s").text());
    let web = node.wait_running("web", "app");
    assert!(node.log().contains("Waited 1 s for pod default/nobody to run (there is no such pod)"));
    node.write("web.yaml", after("web", "job=succeeded", "10m").text());
    node.wait_until("the edit is seen", || node.log().contains("Waits for pod default/job to succeed"));
    assert_eq!(node.wait_running("web", "app").id, web.id);
    let job = Pod::new("job").script("exit 0").set("/spec/restartPolicy", "Never");
    node.write("job.yaml", job.text());
    node.wait_until("the edit runs", || {
        let running = node.running("web", "app");
        running.len() == 1 && running[0].id != web.id
    });
}

#[test]
fn a_cycle_is_refused_and_what_runs_stays() {
    let node = Node::start();
    node.write("a.yaml", Pod::new("a").text());
    let a = node.wait_running("a", "app");
    node.write("b.yaml", after("b", "a", "10m").text());
    let b = node.wait_running("b", "app");
    node.write("a.yaml", after("a", "b", "10m").text());
    let told = || {
        let status = node.status().unwrap();
        status.problems.iter().any(|p| p.path.ends_with("a.yaml") && p.message.contains("closes a cycle"))
    };
    node.wait_until("the cycle is told", told);
    node.write("c.yaml", after("c", "c", "10m").text());
    node.wait_until("the other one is refused", || node.reason("c") == "DependencyCycle");
    assert_eq!(node.wait_running("a", "app").id, a.id);
    assert_eq!(node.wait_running("b", "app").id, b.id);
    node.write("d.yaml", after("d", "a=soon", "10m").text());
    node.wait_until("the syntax is told", || {
        node.status().unwrap().problems.iter().any(|p| p.message.contains("must be ready or succeeded"))
    });
}
