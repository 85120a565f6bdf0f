//! Hooks on the real Docker.

use serde_json::json;

use crate::harness::Node;
use crate::harness::history::History;
use crate::harness::pods::{IGNORES_TERM, OBEYS, Pod, container};

fn hook(kind: &str, handler: serde_json::Value) -> Pod {
    Pod::new("web").set(&format!("/spec/containers/0/lifecycle/{kind}"), handler)
}

fn exec(command: &str) -> serde_json::Value {
    json!({"exec": {"command": ["/bin/sh", "-c", command]}})
}

#[test]
fn the_next_container_waits_for_post_start() {
    let node = Node::start();
    let wait = exec("until test -e /tmp/go; do sleep 0.1; done; echo hooked >/proc/1/fd/1");
    node.write("web.yaml", hook("postStart", wait).and(container("second", OBEYS)).text());
    let app = node.wait_running("web", "app");
    node.wait_until("it is shown running and not ready", || {
        node.container_status("web", "app").is_some_and(|c| c.started == Some(true) && !c.ready)
    });
    assert!(node.running("web", "second").is_empty());
    node.says(&["exec", "web", "-c", "app", "--", "touch", "/tmp/go"]);
    node.wait_running("web", "second");
    node.wait_until("both are ready", || {
        ["app", "second"].iter().all(|c| node.container_status("web", c).is_some_and(|c| c.ready))
    });
    assert_eq!(node.running("web", "app"), [app]);
    assert_eq!(node.says(&["logs", "web", "-c", "app"]).matches("hooked").count(), 1);
}

#[test]
fn a_post_start_that_fails_kills_its_container() {
    let node = Node::start();
    node.write("web.yaml", hook("postStart", exec("echo secret; exit 3")).text());
    node.wait_until("it is made again", || {
        node.of("web").iter().any(|c| c.container == "app" && c.attempt == 1)
    });
    let log = node.log();
    assert!(log.contains("container app: FailedPostStartHook: PostStartHook failed"), "{log}");
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn a_tcp_socket_hook_is_an_error_as_upstream() {
    let node = Node::start();
    node.write("web.yaml", hook("postStart", json!({"tcpSocket": {"port": 80}})).text());
    node.wait_until("it fails", || node.log().contains("FailedPostStartHook"));
}

#[test]
fn pre_stop_runs_before_term_and_within_the_grace() {
    let node = Node::start();
    let history = History::of(&node);
    let pod = hook("preStop", exec("echo stopping >/proc/1/fd/1; sleep 2"))
        .script("trap 'echo term; exit 0' TERM; echo started; while :; do sleep 0.1; done")
        .grace(60);
    node.write("web.yaml", pod.text());
    node.wait_until("it has begun", || {
        node.phase("web") == "Running" && node.says(&["logs", "web"]) == "started\n"
    });
    let app = node.wait_running("web", "app");
    let mut follow =
        node.command(&["logs", "-f", "web"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    node.remove("web.yaml");
    node.wait_gone("web");
    let mut log = String::new();
    std::io::Read::read_to_string(&mut follow.stdout.take().unwrap(), &mut log).unwrap();
    follow.wait().unwrap();
    assert!(log.ends_with("stopping\nterm\n"), "{log}");
    let signals = history.times(&node.full("web"), "app", "kill");
    assert_eq!(signals.len(), 1, "TERM alone: {app:?}");
}

#[test]
fn a_pre_stop_that_hangs_ends_with_the_grace_and_two_seconds_are_left() {
    let node = Node::start();
    let history = History::of(&node);
    let pod = hook("preStop", exec("sleep 1000")).script(IGNORES_TERM).grace(3);
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    node.remove("web.yaml");
    node.wait_gone("web");
    let full = node.full("web");
    let signals = history.times(&full, "app", "kill");
    let left = signals[1] - signals[0];
    assert!((1_000_000_000..10_000_000_000).contains(&left), "{left} ns for TERM");
}

#[test]
fn pre_stop_of_a_pod_whose_manifest_is_gone_and_failure_only_reports() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", hook("preStop", exec("echo x; exit 1")).grace(30).text());
    node.wait_phase("web", "Running");
    node.stop();
    node.remove("web.yaml");
    node.launch();
    node.wait_until("nothing is left", || node.containers().is_empty());
    let log = node.log();
    assert!(log.contains("container app: FailedPreStopHook: PreStopHook failed"), "{log}");
    assert_eq!(history.times(&node.full("web"), "app", "kill").len(), 1);
}

#[test]
fn http_hooks_reach_the_pod() {
    let node = Node::start();
    let server = "mkdir -p /www; trap 'exit 0' TERM; httpd -f -v -p 8080 -h /www 2>&1 & wait";
    let pod = Pod::new("web")
        .script(server)
        .set("/spec/containers/0/ports", json!([{"name": "web", "containerPort": 8080}]))
        .set("/spec/containers/0/readinessProbe", json!({"tcpSocket": {"port": "web"}, "periodSeconds": 1}))
        .set("/spec/containers/0/lifecycle/preStop", json!({"httpGet": {"path": "/bye", "port": "web"}}))
        .grace(30);
    node.write("web.yaml", pod.text());
    node.wait_until("it serves", || node.container_status("web", "app").is_some_and(|c| c.ready));
    let mut follow =
        node.command(&["logs", "-f", "web"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    node.remove("web.yaml");
    node.wait_gone("web");
    let mut log = String::new();
    std::io::Read::read_to_string(&mut follow.stdout.take().unwrap(), &mut log).unwrap();
    follow.wait().unwrap();
    assert!(log.contains("response:404"), "the status does not matter: {log}");
    assert!(!node.log().contains("FailedPreStopHook"), "{}", node.log());
}
