//! Init containers, sidecars and the order in which a pod's containers start and stop.

use serde_json::json;

use crate::harness::history::History;
use crate::harness::pods::{OBEYS, Pod, container};
use crate::harness::{Container, Node};

fn sidecar(name: &str, script: &str) -> serde_json::Value {
    let mut sidecar = container(name, script);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

#[test]
fn init_containers_run_one_after_the_other_before_the_app() {
    let node = Node::start();
    let history = History::of(&node);
    let pod = Pod::new("web").init(container("one", "exit 0")).init(container("two", "exit 0"));
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    let full = node.full("web");
    let first = |c: &str, what: &str| history.times(&full, c, what)[0];
    assert!(first("POD", "start") <= first("one", "start"));
    assert!(first("one", "die") <= first("two", "start"));
    assert!(first("two", "die") <= first("app", "start"));
    let status = node.container_status("web", "one").unwrap();
    assert_eq!(status.state.unwrap().terminated.unwrap().reason.as_deref(), Some("Completed"));
    assert_eq!(status.restart_count, 0);
}

#[test]
fn a_failing_init_container_is_tried_again_and_holds_the_app_back() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").init(container("one", "echo tried; exit 9")).text());
    node.wait_until("it backs off", || node.waits_for("web", "one") == "CrashLoopBackOff");
    assert_eq!(node.phase("web"), "Pending");
    assert_eq!(node.waits_for("web", "app"), "PodInitializing");
    assert!(!node.of("web").iter().any(|c| c.container == "app"));
    assert!(node.says(&["get", "pods"]).contains("Init:CrashLoopBackOff"));
    assert_eq!(node.says(&["logs", "web", "-c", "one"]), "tried\n");
}

#[test]
fn a_failing_init_container_of_a_pod_that_never_restarts_fails_it() {
    let node = Node::start();
    let pod = Pod::new("web").restart_policy("Never").init(container("one", "exit 9"));
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Failed");
    node.wait_gone("web");
    assert!(!node.of("web").iter().any(|c| c.container == "app"));
}

#[test]
fn a_sidecar_starts_before_the_app_and_stops_after_it() {
    let node = Node::start();
    let history = History::of(&node);
    let slow = "trap 'sleep 1; exit 0' TERM; echo started; sleep 100000 & wait";
    let pod = Pod::new("web").grace(10).script(slow);
    let pod =
        pod.init(sidecar("first", OBEYS)).init(container("init", "exit 0")).init(sidecar("second", OBEYS));
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    node.wait_until("it has begun", || {
        ["app", "first", "second"].iter().all(|c| node.says(&["logs", "web", "-c", c]) == "started\n")
    });
    assert!(node.says(&["get", "pods"]).contains("3/3"));
    node.remove("web.yaml");
    node.wait_gone("web");
    let full = node.full("web");
    // Docker may tell an event after the container has gone.
    let first = |c: &str, what: &str| {
        node.wait_for("Docker tells its event", || history.times(&full, c, what).first().copied())
    };
    assert!(first("first", "start") <= first("init", "start"));
    assert!(first("init", "die") <= first("second", "start"));
    assert!(first("second", "start") <= first("app", "start"));
    assert!(first("app", "die") <= first("second", "kill"));
    assert!(first("second", "die") <= first("first", "kill"));
    assert!(first("first", "die") <= first("POD", "die"));
}

#[test]
fn a_sidecar_that_dies_is_started_again_alone() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", Pod::new("web").init(sidecar("side", OBEYS)).text());
    node.wait_phase("web", "Running");
    let (app, side) = (node.wait_running("web", "app"), node.wait_running("web", "side"));
    node.kill_container(&side.id, "SIGKILL");
    node.wait_until("attempt 1 runs", || node.running("web", "side").iter().any(|c| c.attempt == 1));
    assert_eq!(node.running("web", "app"), [app]);
    history.check_one_set_at_a_time();
}

#[test]
fn a_job_with_a_sidecar_is_done_when_its_work_is() {
    let node = Node::start();
    let pod = Pod::new("job").restart_policy("Never").script("exit 0").init(sidecar("side", OBEYS));
    node.write("job.yaml", pod.text());
    node.wait_phase("job", "Succeeded");
    node.wait_until("nothing runs", || !node.of("job").iter().any(Container::runs));
}

#[test]
fn init_containers_run_again_in_a_new_sandbox() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", Pod::new("web").init(container("init", "exit 0")).text());
    node.wait_phase("web", "Running");
    let old = node.wait_running("web", "app");
    node.kill_container(&node.wait_running("web", "POD").id, "SIGKILL");
    node.wait_until("app runs again", || node.running("web", "app").iter().any(|c| c.id != old.id));
    let full = node.full("web");
    // Docker lists a container as running a moment before it logs the start.
    node.wait_until("its second start is logged", || history.times(&full, "app", "start").len() >= 2);
    let (init, app) = (history.times(&full, "init", "die"), history.times(&full, "app", "start"));
    assert_eq!((init.len(), app.len()), (2, 2));
    assert!(init[1] <= app[1]);
    history.check_one_set_at_a_time();
}
