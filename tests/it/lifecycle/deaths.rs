//! Containers and sandboxes that die, are killed, or are removed without podkeeper.

use std::collections::BTreeSet;

use podkeeper::testing::runtime::DockerState;
use serde_json::json;

use crate::harness::history::History;
use crate::harness::pods::{OBEYS, Pod, container};
use crate::harness::{Container, Node};

/// Runs `web` with containers `app` and `other`.
fn two_containers() -> (Node, History) {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", Pod::new("web").and(container("other", OBEYS)).text());
    node.wait_phase("web", "Running");
    (node, history)
}

fn ids(containers: &[Container]) -> BTreeSet<String> {
    containers.iter().map(|c| c.id.clone()).collect()
}

#[test]
fn a_killed_container_is_started_again_at_once_and_alone() {
    let (node, history) = two_containers();
    let (app, other) = (node.wait_running("web", "app"), node.wait_running("web", "other"));
    node.wait_until("it has spoken", || node.says(&["logs", "web", "-c", "app"]) == "started\n");
    node.kill_container(&app.id, "SIGKILL");
    let new =
        node.wait_for("attempt 1 runs", || node.running("web", "app").into_iter().find(|c| c.attempt == 1));
    assert_eq!(node.running("web", "other"), [other]);
    let dead = node.container(&app.id).expect("one dead container is kept for its log");
    assert_eq!((dead.state, dead.exit_code), (DockerState::Exited, 137));
    // The first restart does not wait for a back-off of ten seconds.
    let wait = new.started_at.unwrap().duration_since(dead.finished_at.unwrap());
    assert!(wait.as_secs() < 5, "{wait}");
    node.wait_until("the restart is counted and its cause told", || {
        node.container_status("web", "app").is_some_and(|status| {
            let end = status.last_state.and_then(|s| s.terminated);
            status.restart_count == 1 && end.is_some_and(|t| t.exit_code == 137 && t.reason.is_some())
        })
    });
    assert_eq!(node.says(&["logs", "web", "-p"]), "started\n");
    history.check_one_set_at_a_time();
}

#[test]
fn a_killed_sandbox_takes_everything_with_it_and_all_comes_again() {
    let (node, history) = two_containers();
    let old = node.of("web");
    let sandbox = node.wait_running("web", "POD");
    node.kill_container(&sandbox.id, "SIGKILL");
    node.wait_until("a new set runs", || {
        let running: Vec<_> = node.of("web").into_iter().filter(Container::runs).collect();
        running.len() == 3 && ids(&running).is_disjoint(&ids(&old))
    });
    assert_eq!(node.wait_running("web", "POD").attempt, 1);
    assert_eq!(node.wait_running("web", "app").attempt, 1);
    history.check_one_set_at_a_time();
}

#[test]
fn a_container_removed_behind_our_back_is_made_again() {
    let (node, history) = two_containers();
    let (app, other) = (node.wait_running("web", "app"), node.wait_running("web", "other"));
    node.remove_container(&app.id);
    node.wait_until("app runs again", || node.running("web", "app").iter().any(|c| c.id != app.id));
    assert_eq!(node.running("web", "other"), [other]);
    history.check_one_set_at_a_time();
}

#[test]
fn a_sandbox_removed_behind_our_back_is_made_again() {
    let (node, history) = two_containers();
    let old = node.of("web");
    node.remove_container(&node.wait_running("web", "POD").id);
    node.wait_until("a new set runs", || {
        let running: Vec<_> = node.of("web").into_iter().filter(Container::runs).collect();
        running.len() == 3 && ids(&running).is_disjoint(&ids(&old))
    });
    history.check_one_set_at_a_time();
}

#[test]
fn everything_removed_behind_our_back_is_made_again() {
    let (node, history) = two_containers();
    let old = node.of("web");
    for container in &old {
        node.remove_container(&container.id);
    }
    node.wait_until("a new set runs", || {
        let running: Vec<_> = node.of("web").into_iter().filter(Container::runs).collect();
        running.len() == 3 && ids(&running).is_disjoint(&ids(&old))
    });
    history.check_one_set_at_a_time();
}

#[test]
fn k23881_a_crash_loop_backs_off_and_leaves_one_dead_container() {
    let node = Node::start();
    node.write("crash.yaml", Pod::new("crash").script("echo crashed; exit 3").text());
    node.wait_until("it backs off", || node.waits_for("crash", "app") == "CrashLoopBackOff");
    let status = node.container_status("crash", "app").unwrap();
    // Attempt 0, then at once attempt 1, then ten seconds.
    assert_eq!(status.restart_count, 1);
    let end = status.last_state.unwrap().terminated.unwrap();
    assert_eq!((end.exit_code, end.reason.as_deref()), (3, Some("Error")));
    let message = status.state.unwrap().waiting.unwrap().message.unwrap();
    assert!(message.contains("back-off 10s restarting failed container=app"), "{message}");
    assert_eq!(node.phase("crash"), "Running");
    node.wait_until("attempt 2 has come and gone", || {
        node.of("crash").iter().any(|c| c.container == "app" && c.attempt == 2 && !c.runs())
    });
    node.wait_until("one dead container is left of three", || {
        node.of("crash").iter().filter(|c| c.container == "app").count() == 1
    });
    assert_eq!(node.says(&["logs", "crash"]), "crashed\n");
}

/// The pod ends in `phase` and stays there, also under a daemon that is started again.
fn check_final(policy: &str, script: &str, phase: &str, restarts: i32) {
    let node = Node::start();
    node.write("job.yaml", Pod::new("job").restart_policy(policy).script(script).text());
    node.wait_phase("job", phase);
    node.wait_until("nothing runs", || !node.of("job").iter().any(Container::runs));
    let status = node.container_status("job", "app").unwrap();
    assert_eq!(status.restart_count, restarts, "{policy} {script}");
    let before = ids(&node.of("job"));
    node.restart();
    node.wait_phase("job", phase);
    // This pod comes later: when it runs, the daemon has looked at the job.
    node.write("probe.yaml", Pod::new("probe").text());
    node.wait_phase("probe", "Running");
    assert_eq!(node.phase("job"), phase);
    assert_eq!(ids(&node.of("job")), before);
}

#[test]
fn a_job_that_never_restarts_succeeds_for_good() {
    check_final("Never", "exit 0", "Succeeded", 0);
}

#[test]
fn a_job_that_never_restarts_fails_for_good() {
    check_final("Never", "exit 7", "Failed", 0);
}

#[test]
fn a_job_that_restarts_on_failure_is_done_once_it_succeeds() {
    check_final("OnFailure", "exit 0", "Succeeded", 0);
}

#[test]
fn a_job_that_fails_is_restarted_under_on_failure() {
    let node = Node::start();
    let script = "trap 'exit 5' TERM; trap 'exit 0' USR1; echo up; sleep 100000 & wait";
    node.write("job.yaml", Pod::new("job").restart_policy("OnFailure").script(script).text());
    let end = |attempt: u32, signal: &str| {
        let app = node.wait_for("the next attempt runs", || {
            node.running("job", "app").into_iter().find(|c| c.attempt == attempt)
        });
        node.wait_until("its traps are set", || node.says(&["logs", "job"]) == "up\n");
        node.kill_container(&app.id, signal);
    };
    end(0, "SIGTERM");
    end(1, "SIGUSR1");
    node.wait_phase("job", "Succeeded");
    assert_eq!(node.container_status("job", "app").map(|c| c.restart_count), Some(1));
}

#[test]
fn a_pod_of_two_is_failed_only_when_both_have_ended() {
    let node = Node::start();
    let pod = Pod::new("job").restart_policy("Never").script("exit 1").and(container("long", OBEYS));
    node.write("job.yaml", pod.text());
    node.wait_until("app has ended", || {
        let state = node.container_status("job", "app").and_then(|c| c.state);
        state.is_some_and(|s| s.terminated.is_some())
    });
    // Pending until the second one runs, too.
    let long = node.wait_running("job", "long");
    node.wait_phase("job", "Running");
    node.wait_until("long has begun", || node.says(&["logs", "job", "-c", "long"]) == "started\n");
    node.kill_container(&long.id, "SIGTERM");
    node.wait_phase("job", "Failed");
    assert_eq!(node.container_status("job", "long").unwrap().state.unwrap().terminated.unwrap().exit_code, 0);
}

#[test]
fn a_command_that_does_not_exist_is_told_and_backed_off() {
    let node = Node::start();
    let command = json!(["/no/such/program"]);
    node.write("bad.yaml", Pod::new("bad").set("/spec/containers/0/command", command).text());
    node.wait_until("the status says why", || {
        ["CrashLoopBackOff", "RunContainerError"].contains(&node.waits_for("bad", "app").as_str())
    });
    let describe = node.says(&["describe", "pod", "bad"]);
    assert!(describe.contains("/no/such/program"), "{describe}");
    node.wait_until("it backs off", || node.waits_for("bad", "app") == "CrashLoopBackOff");
}

#[test]
fn an_exit_with_restart_all_containers_starts_the_pod_over_in_its_sandbox() {
    let node = Node::start();
    let mut watch = container("watch", "test -e /tmp/x || { sleep 1; exit 42; }");
    watch["restartPolicy"] = json!("Never");
    let when = json!({"operator": "In", "values": [42]});
    watch["restartPolicyRules"] = json!([{"action": "RestartAllContainers", "exitCodes": when}]);
    let pod = Pod::new("web").restart_policy("Never").init(container("setup", "exit 0")).and(watch);
    node.write("web.yaml", pod.text());
    let app = node.wait_running("web", "app");
    let sandbox = || node.of("web").into_iter().find(Container::is_sandbox).map(|c| c.id);
    let before = sandbox().expect("a sandbox");
    node.wait_until("app runs anew", || node.running("web", "app").iter().any(|c| c.id != app.id));
    assert_eq!(sandbox().as_deref(), Some(before.as_str()), "in place");
    assert!(node.container(&app.id).is_none(), "removed");
    let count = |name: &str| node.container_status("web", name).map_or(0, |c| c.restart_count);
    node.wait_until("both restarts are counted", || count("app") >= 1 && count("watch") >= 1);
    let setup = node.pod("web").and_then(|p| p.status?.init_container_statuses).unwrap_or_default();
    assert!(setup.iter().all(|status| status.restart_count >= 1), "it ran again: {setup:?}");
    assert_eq!(node.phase("web"), "Running");
}
