//! Probes on the real Docker: each kind passing, failing, hanging and misnamed, and the
//! consequences.

use serde_json::{Value, json};

use crate::harness::Node;
use crate::harness::history::History;
use crate::harness::pods::{IGNORES_TERM, OBEYS, Pod, container};

/// A web server on port 8080 that serves `/www`.
const SERVER: &str = "mkdir -p /www; echo ok >/www/index.html; trap 'exit 0' TERM; \
                      httpd -f -p 8080 -h /www & wait";

/// A pod whose one container has this probe.
fn probed(script: &str, kind: &str, probe: Value) -> Pod {
    Pod::new("web").script(script).set(&format!("/spec/containers/0/{kind}"), probe)
}

fn exec(command: &str) -> Value {
    json!({"exec": {"command": ["/bin/sh", "-c", command]}, "periodSeconds": 1, "failureThreshold": 2})
}

fn condition(node: &Node, which: &str) -> String {
    let conditions = node.pod("web").and_then(|p| p.status).and_then(|s| s.conditions);
    let found = conditions.into_iter().flatten().find(|c| c.type_ == which);
    found.map_or(String::new(), |c| c.status)
}

fn wait_ready(node: &Node, ready: &str) {
    node.wait_until(&format!("Ready is {ready}"), || condition(node, "Ready") == ready);
}

fn wait_logged(node: &Node, text: &str) {
    node.wait_until(&format!("the log says {text:?}"), || node.log().contains(text));
}

#[test]
fn every_kind_can_pass() {
    let node = Node::start();
    let ports = json!([{"name": "web", "containerPort": 8080}]);
    let pod = probed(SERVER, "readinessProbe", json!({"httpGet": {"port": "web"}, "periodSeconds": 1}))
        .set("/spec/containers/0/ports", ports)
        .set("/spec/containers/0/livenessProbe", exec("test -d /www"))
        .set("/spec/containers/0/startupProbe", json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1}));
    node.write("web.yaml", pod.text());
    wait_ready(&node, "True");
    let status = node.container_status("web", "app").unwrap();
    assert_eq!((status.started, status.ready, status.restart_count), (Some(true), true, 0));
}

#[test]
fn readiness_follows_the_probe_and_restarts_nothing() {
    let node = Node::start();
    node.write("web.yaml", probed(OBEYS, "readinessProbe", exec("test -e /tmp/ready")).text());
    let app = node.wait_running("web", "app");
    wait_logged(&node, "container app: Unhealthy: Readiness probe failed:");
    assert_eq!(condition(&node, "Ready"), "False");
    assert_eq!(node.inside("web", "app", "touch /tmp/ready"), "");
    wait_ready(&node, "True");
    assert_eq!(node.inside("web", "app", "rm /tmp/ready"), "");
    wait_ready(&node, "False");
    assert_eq!(condition(&node, "ContainersReady"), "False");
    assert_eq!(node.running("web", "app"), [app]);
}

#[test]
fn a_web_server_that_fails_is_not_ready() {
    let node = Node::start();
    let probe =
        json!({"httpGet": {"path": "/state", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1});
    node.write("web.yaml", probed(SERVER, "readinessProbe", probe).text());
    wait_logged(&node, "Readiness probe failed: HTTP probe failed with statuscode: 404");
    assert_eq!(node.inside("web", "app", "touch /www/state"), "");
    wait_ready(&node, "True");
    assert_eq!(node.inside("web", "app", "rm /www/state"), "");
    wait_ready(&node, "False");
}

#[test]
fn a_port_name_that_the_container_does_not_have_is_an_error_and_no_failure() {
    let node = Node::start();
    let probe = json!({"tcpSocket": {"port": "nope"}, "periodSeconds": 1, "failureThreshold": 1});
    let pod = probed(OBEYS, "livenessProbe", probe.clone()).set("/spec/containers/0/readinessProbe", probe);
    node.write("web.yaml", pod.text());
    let why = "probe errored and resulted in unknown state: strconv.Atoi: parsing \"nope\": invalid syntax";
    wait_logged(&node, &format!("Liveness {why}"));
    wait_logged(&node, &format!("Readiness {why}"));
    let status = node.container_status("web", "app").unwrap();
    assert_eq!((status.ready, status.restart_count), (false, 0));
}

#[test]
fn liveness_failure_kills_and_restarts() {
    let node = Node::start();
    let history = History::of(&node);
    let pod = probed(OBEYS, "livenessProbe", exec("test ! -e /tmp/sick")).and(container("other", OBEYS));
    node.write("web.yaml", pod.text());
    let (old, other) = (node.wait_running("web", "app"), node.wait_running("web", "other"));
    assert_eq!(node.inside("web", "app", "touch /tmp/sick"), "");
    let new =
        node.wait_for("app runs again", || node.running("web", "app").into_iter().find(|c| c.attempt == 1));
    assert_ne!(old.id, new.id);
    assert_eq!(node.running("web", "other"), [other]);
    node.wait_until("the restart is counted", || {
        node.container_status("web", "app").is_some_and(|c| c.restart_count == 1 && c.ready)
    });
    let log = node.log();
    assert!(log.contains("container app: Unhealthy: Liveness probe failed:"), "{log}");
    assert!(log.contains("Container app failed liveness probe, will be restarted"), "{log}");
    history.check_one_set_at_a_time();
}

#[test]
fn liveness_failure_under_never_ends_the_pod() {
    let node = Node::start();
    let pod = probed(OBEYS, "livenessProbe", exec("false")).restart_policy("Never");
    node.write("web.yaml", pod.text());
    node.wait_until("the pod has ended", || matches!(node.phase("web").as_str(), "Succeeded" | "Failed"));
    assert!(node.log().contains("Unhealthy: Liveness probe failed:"), "{}", node.log());
    assert_eq!(node.container_status("web", "app").unwrap().restart_count, 0);
}

/// Its probe ends with it, and each run was taken for one that the failed probe had ended: it never was done.
#[test]
fn a_job_that_ends_while_its_probe_runs_has_ended_by_itself() {
    let node = Node::start();
    // A probe runs at almost any time.
    let mut probe = exec("sleep 0.8");
    (probe["failureThreshold"], probe["timeoutSeconds"]) = (json!(1), json!(20));
    let job = probed("sleep 3.5; exit 0", "livenessProbe", probe);
    node.write("web.yaml", job.restart_policy("OnFailure").text());
    node.wait_phase("web", "Succeeded");
    assert_eq!(node.restarts("web", "app"), 0);
}

#[test]
fn a_probe_that_hangs_fails_by_its_timeout() {
    let node = Node::start();
    node.write("web.yaml", probed(OBEYS, "livenessProbe", exec("sleep 1000")).text());
    let text = "Liveness probe failed: command timed out: \"/bin/sh -c sleep 1000\" timed out after 1s";
    wait_logged(&node, text);
    node.wait_until("it is restarted", || node.running("web", "app").iter().any(|c| c.attempt > 0));
}

#[test]
fn k82440_commands_that_hang_do_not_pile_up() {
    let node = Node::start();
    node.write("web.yaml", probed(OBEYS, "readinessProbe", exec("sleep 1000")).text());
    let app = node.wait_running("web", "app");
    let running = || {
        let execs = node.inspect(&app.id)["ExecIDs"].as_array().cloned().unwrap_or_default();
        execs.len()
    };
    node.wait_until("three of them hang", || running() == 3);
    wait_logged(&node, "earlier ones still run, and no further one is made");
    assert_eq!(running(), 3);
    assert!(node.container_status("web", "app").is_some_and(|c| c.restart_count == 0 && !c.ready));
}

#[test]
fn k82440_output_of_a_probe_is_read_to_its_end() {
    let node = Node::start();
    // More than any pipe holds; if the reader stopped, the probe would hang.
    let loud = exec(
        "i=0; while [ $i -lt 2000 ]; do echo 0123456789012345678901234567890123456789; \
                     i=$((i+1)); done; exit 7",
    );
    node.write("web.yaml", probed(OBEYS, "readinessProbe", loud).text());
    wait_logged(&node, "Readiness probe failed: 0123456789");
    let app = node.wait_running("web", "app");
    node.wait_until("no exec is left between two probes", || node.inspect(&app.id)["ExecIDs"].is_null());
}

#[test]
fn startup_gates_the_other_probes() {
    let node = Node::start();
    let pod = probed(OBEYS, "startupProbe", exec("test -e /tmp/up"))
        .set("/spec/containers/0/startupProbe/failureThreshold", 1000)
        .set("/spec/containers/0/livenessProbe", exec("test -e /tmp/up"))
        .set("/spec/containers/0/readinessProbe", exec("true"));
    node.write("web.yaml", pod.text());
    let app = node.wait_running("web", "app");
    wait_logged(&node, "Unhealthy: Startup probe failed:");
    let status = node.container_status("web", "app").unwrap();
    assert_eq!((status.started, status.ready), (Some(false), false));
    assert_eq!(node.inside("web", "app", "touch /tmp/up"), "");
    wait_ready(&node, "True");
    assert_eq!(node.running("web", "app"), [app]);
    assert!(!node.log().contains("Liveness probe failed"), "{}", node.log());
}

#[test]
fn startup_failure_kills_and_restarts() {
    let node = Node::start();
    node.write("web.yaml", probed(OBEYS, "startupProbe", exec("false")).text());
    node.wait_until("it is restarted", || node.running("web", "app").iter().any(|c| c.attempt == 1));
    wait_logged(&node, "Container app failed startup probe, will be restarted");
}

#[test]
fn a_sidecar_that_has_not_started_holds_up_the_rest() {
    let node = Node::start();
    let mut sidecar = container("mesh", OBEYS);
    sidecar["restartPolicy"] = json!("Always");
    sidecar["startupProbe"] = exec("test -e /tmp/up");
    sidecar["startupProbe"]["failureThreshold"] = json!(1000);
    node.write("web.yaml", Pod::new("web").init(sidecar).text());
    node.wait_running("web", "mesh");
    wait_logged(&node, "container mesh: Unhealthy: Startup probe failed");
    assert!(node.running("web", "app").is_empty());
    assert_eq!(node.inside("web", "mesh", "touch /tmp/up"), "");
    node.wait_running("web", "app");
}

#[test]
fn the_grace_of_a_probe_replaces_that_of_the_pod() {
    let node = Node::start();
    let history = History::of(&node);
    let pod = probed(IGNORES_TERM, "livenessProbe", exec("false"))
        .set("/spec/containers/0/livenessProbe/terminationGracePeriodSeconds", 3)
        .grace(1000);
    node.write("web.yaml", pod.text());
    node.wait_until("it is restarted", || node.running("web", "app").iter().any(|c| c.attempt == 1));
    let signals = history.times(&node.full("web"), "app", "kill");
    let between = signals[1] - signals[0];
    assert!((2_000_000_000..10_000_000_000).contains(&between), "{between} ns of grace");
}

#[test]
fn k113646_readiness_survives_a_restart_of_the_daemon() {
    let node = Node::start();
    let pod = probed(OBEYS, "readinessProbe", exec("test -e /tmp/ready"))
        .set("/spec/containers/0/startupProbe", exec("test -e /tmp/ready"))
        .set("/spec/containers/0/startupProbe/failureThreshold", 1000);
    node.write("web.yaml", pod.text());
    let app = node.wait_running("web", "app");
    assert_eq!(node.inside("web", "app", "touch /tmp/ready"), "");
    wait_ready(&node, "True");
    node.stop();
    node.launch();
    let first = node.wait_for("the new daemon has looked", || {
        node.container_status("web", "app").filter(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()))
    });
    assert_eq!((first.started, first.ready), (Some(true), true), "{}", node.log());
    // From then on readiness follows the probes.
    assert_eq!(node.inside("web", "app", "rm /tmp/ready"), "");
    wait_ready(&node, "False");
    assert_eq!(node.running("web", "app"), [app]);
}

#[test]
fn a_pod_that_is_stopped_can_still_turn_unready_but_is_not_killed_by_its_probes() {
    let node = Node::start();
    let pod = probed(IGNORES_TERM, "readinessProbe", exec("test ! -e /tmp/sick"))
        .set("/spec/containers/0/livenessProbe", exec("test ! -e /tmp/sick"))
        .grace(600);
    node.write("web.yaml", pod.text());
    wait_ready(&node, "True");
    let app = node.wait_running("web", "app");
    node.remove("web.yaml");
    node.wait_until("it is being stopped", || {
        node.pod("web").is_some_and(|p| p.metadata.deletion_timestamp.is_some())
    });
    assert_eq!(node.inside("web", "app", "touch /tmp/sick"), "");
    wait_ready(&node, "False");
    assert!(!node.log().contains("failed liveness probe"), "{}", node.log());
    node.kill_container(&app.id, "SIGKILL");
    node.wait_gone("web");
}

#[test]
fn a_node_without_probes_has_no_thread_for_them() {
    let node = Node::start();
    let threads = || -> Vec<String> {
        let dir = format!("/proc/{}/task", node.pid().unwrap());
        let read = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
        let names = std::fs::read_dir(dir).unwrap().flatten().filter_map(read);
        names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("pk-probe")).collect()
    };
    node.write("plain.yaml", Pod::new("plain").text());
    node.wait_phase("plain", "Running");
    assert_eq!(threads(), [""; 0]);
    for name in ["a", "b"] {
        let pod = Pod::new(name).set("/spec/containers/0/readinessProbe", exec("true"));
        node.write(&format!("{name}.yaml"), pod.text());
    }
    for name in ["a", "b"] {
        node.wait_until("it is ready", || node.container_status(name, "app").is_some_and(|c| c.ready));
    }
    assert_eq!(threads(), ["pk-probe"]);
}
