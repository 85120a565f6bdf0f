//! A daemon that ends, dies and comes back, and a manifest directory that cannot be read: running
//! containers are adopted and kept.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::harness::history::History;
use crate::harness::pods::{IGNORES_TERM, OBEYS, Pod, container};
use crate::harness::{Bounded as _, Container, Node, Options};

fn labelled(name: &str, edition: &str) -> String {
    Pod::new(name).set("/metadata/labels", json!({"edition": edition})).text()
}

/// Waits until the daemon has looked at everything and is at rest: a pod that is requested later runs.
fn settle(node: &Node) {
    node.write("zz-probe.yaml", Pod::new("zz-probe").text());
    node.wait_phase("zz-probe", "Running");
}

/// A pod with every kind of container, and a crashed one.
fn rich() -> Pod {
    let mut sidecar = container("side", OBEYS);
    sidecar["restartPolicy"] = json!("Always");
    Pod::new("web").init(container("init", "exit 0")).init(sidecar).and(container("other", OBEYS))
}

#[test]
fn a_daemon_that_ends_or_is_killed_and_comes_back_restarts_nothing() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", rich().text());
    node.write("job.yaml", Pod::new("job").restart_policy("Never").script("exit 0").text());
    node.write("host.yaml", Pod::new("host").set("/spec/hostNetwork", true).text());
    node.wait_phase("web", "Running");
    node.wait_phase("host", "Running");
    node.wait_phase("job", "Succeeded");
    let app = node.wait_running("web", "app");
    node.kill_container(&app.id, "SIGKILL");
    node.wait_until("attempt 1 runs", || node.running("web", "app").iter().any(|c| c.attempt == 1));
    node.wait_until("nothing of the job runs", || !node.of("job").iter().any(Container::runs));
    let restarts = || node.container_status("web", "app").map(|c| c.restart_count);
    node.wait_until("the restart is counted", || restarts() == Some(1));

    let before = node.containers();
    node.restart();
    node.wait_until("web is known", || restarts() == Some(1) && node.phase("job") == "Succeeded");
    node.kill9();
    node.launch();
    node.wait_until("web is known", || restarts() == Some(1) && node.phase("job") == "Succeeded");
    settle(&node);
    let mine = |c: &Container| !c.pod.starts_with("zz-probe");
    assert_eq!(node.containers().into_iter().filter(mine).collect::<Vec<_>>(), before);
    assert_eq!(history.times(&node.full("web"), "app", "start").len(), 2);
}

/// Each restart of a container that ends with another code than 0 counted as a crash: the next one waited in back-off.
#[test]
fn a_restart_that_is_asked_for_is_no_crash_also_for_the_next_daemon() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").script(IGNORES_TERM).grace(2).text());
    let restarts = || node.container_status("web", "app").map(|it| it.restart_count);
    let runs = |n: u32| node.running("web", "app").iter().any(|c| c.attempt == n);
    for n in 0..4 {
        node.wait_until("it runs, and is told", || {
            assert_ne!(node.waits_for("web", "app"), "CrashLoopBackOff", "restart {n}");
            runs(n) && restarts() == i32::try_from(n).ok()
        });
        let last = node.container_status("web", "app").and_then(|it| it.last_state?.terminated);
        assert_eq!(last.map(|it| it.exit_code), (n > 0).then_some(137));
        node.says(&["restart", "web"]);
        if n % 2 == 1 {
            node.wait_until("it has ended", || !runs(n));
            node.kill9();
            node.launch();
        }
    }
}

#[test]
fn sigterm_ends_the_daemon_at_once_and_leaves_the_pods() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").grace(30).text());
    node.wait_phase("web", "Running");
    let before = node.containers();
    assert!(node.stop().success());
    assert_eq!(node.containers(), before);
    assert!(before.iter().all(Container::runs));
}

#[test]
fn k112814_a_manifest_edited_while_the_daemon_is_down_replaces_what_runs() {
    let node = Node::start();
    let history = History::of(&node);
    let port = crate::harness::pods::free_port();
    node.write("web.yaml", Pod::new("web").host_port(port).text());
    let old = node.wait_running("web", "app");
    node.kill9();
    node.write("web.yaml", Pod::new("web").host_port(port).set("/metadata/labels/v", "2").text());
    node.launch();
    node.wait_until("the new set runs alone", || {
        let running: Vec<_> = node.of("web").into_iter().filter(Container::runs).collect();
        running.len() == 2 && running.iter().all(|c| c.uid != old.uid)
    });
    history.check_one_set_at_a_time();
}

#[test]
fn k112814_a_manifest_removed_while_the_daemon_is_down_stops_its_pod() {
    let node = Node::start();
    node.write("stays.yaml", Pod::new("stays").text());
    node.write("goes.yaml", Pod::new("goes").text());
    node.wait_phase("stays", "Running");
    node.wait_phase("goes", "Running");
    let stays = node.of("stays");
    assert!(node.stop().success());
    node.remove("goes.yaml");
    node.launch();
    node.wait_until("nothing of it is left", || node.of("goes").is_empty());
    assert_eq!(node.of("stays"), stays);
}

#[test]
fn k59275_with_the_file_source_alone_a_removed_manifest_is_stopped() {
    // No other source is configured, so none may delay the removal: also in a daemon that never saw the
    // pod's manifest, on an empty directory.
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    node.kill9();
    node.remove("web.yaml");
    node.launch();
    node.wait_until("nothing is left", || node.containers().is_empty());
}

#[test]
fn a_container_that_died_while_the_daemon_was_down_is_started_again() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").and(container("other", OBEYS)).text());
    node.wait_phase("web", "Running");
    let (app, other) = (node.wait_running("web", "app"), node.wait_running("web", "other"));
    node.kill9();
    node.kill_container(&app.id, "SIGKILL");
    node.launch();
    node.wait_until("attempt 1 runs", || node.running("web", "app").iter().any(|c| c.attempt == 1));
    assert_eq!(node.running("web", "other"), [other]);
}

#[test]
fn a_manifest_that_is_broken_at_start_keeps_its_pod_and_is_told() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    let before = node.of("web");
    node.kill9();
    node.write("web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web\n");
    node.launch();
    settle(&node);
    assert_eq!(node.of("web"), before);
    let status = node.status().unwrap();
    assert!(status.problems.iter().any(|p| p.path.ends_with("web.yaml") && p.at.is_some()), "{status:?}");
    let error = node.podkeeper(&["get", "pods"]);
    let shown = [error.stdout, error.stderr].concat();
    assert!(String::from_utf8_lossy(&shown).contains("web.yaml"), "get pods does not tell of the problem");
    // The same manifest as before: the same pod, untouched.
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    assert_eq!(node.of("web"), before);
    node.wait_until("the problem is gone", || node.status().is_some_and(|s| s.problems.is_empty()));
}

#[test]
fn a_manifest_that_is_broken_by_an_edit_keeps_its_pod_and_is_told() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    let before = node.of("web");
    for broken in
        ["", "kind: Pod\n", "{", "\0\0\0\0", "apiVersion: v1\nkind: Pod\nmetadata: {name: Bad_Name}\n"]
    {
        node.write("web.yaml", broken);
        node.wait_until("it is told", || {
            node.status().is_some_and(|s| s.problems.iter().any(|p| p.path.ends_with("web.yaml")))
        });
        assert_eq!(node.of("web"), before, "{broken:?}");
    }
    node.write("web.yaml", labelled("web", "2"));
    node.wait_until("the repaired manifest counts", || {
        node.running("web", "app").iter().any(|c| c.uid != before[0].uid)
    });
}

#[test]
fn a_manifest_directory_that_is_missing_at_start_keeps_the_pods() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    let before = node.containers();
    node.kill9();
    let away = node.base.join("away");
    fs::rename(node.manifests(), &away).unwrap();
    node.launch();
    node.wait_until("the source is told as failed", || {
        node.status().is_some_and(|s| s.sources[0].problem.is_some() && s.docker.reachable)
    });
    assert_eq!(node.containers(), before);
    fs::rename(&away, node.manifests()).unwrap();
    node.wait_until("the source is read", || node.status().is_some_and(|s| s.sources[0].problem.is_none()));
    node.wait_phase("web", "Running");
    settle(&node);
    assert_eq!(node.of("web"), before);
}

#[test]
fn a_manifest_directory_that_goes_away_keeps_the_pods_until_it_is_back() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.write("other.yaml", Pod::new("other").text());
    node.wait_phase("web", "Running");
    node.wait_phase("other", "Running");
    let before = node.containers();
    let away = node.base.join("away");
    fs::rename(node.manifests(), &away).unwrap();
    node.wait_until("the source is told as failed", || {
        node.status().is_some_and(|s| s.sources[0].problem.is_some())
    });
    assert_eq!(node.containers(), before);
    // The directory returns without one of the manifests: that one was removed.
    fs::remove_file(away.join("other.yaml")).unwrap();
    fs::rename(&away, node.manifests()).unwrap();
    node.wait_until("the removed one is stopped", || node.of("other").is_empty());
    assert_eq!(node.of("web"), before.into_iter().filter(|c| c.pod == node.full("web")).collect::<Vec<_>>());
}

#[test]
fn k116880_a_manifest_that_is_removed_and_comes_back_changed_during_an_outage_runs() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", labelled("web", "1"));
    node.wait_phase("web", "Running");
    let old = node.wait_running("web", "app");
    let failed = || node.status().is_some_and(|s| s.sources[0].problem.is_some());
    let away = node.base.join("away");
    fs::rename(node.manifests(), &away).unwrap();
    node.wait_until("the outage is seen", failed);
    fs::remove_file(away.join("web.yaml")).unwrap();
    fs::rename(&away, node.manifests()).unwrap();
    fs::rename(node.manifests(), &away).unwrap();
    fs::write(away.join("web.yaml"), labelled("web", "2")).unwrap();
    fs::rename(&away, node.manifests()).unwrap();
    node.wait_until("the new set runs alone", || {
        let running: Vec<_> = node.of("web").into_iter().filter(Container::runs).collect();
        running.len() == 2 && running.iter().all(|c| c.uid != old.uid)
    });
    history.check_one_set_at_a_time();
}

#[test]
fn k40123_a_manifest_directory_that_is_replaced_is_followed() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    let before = node.of("web");
    // Moved into place complete: a directory with one of the two would mean that the other one was
    // removed.
    let fresh = node.base.join("fresh");
    fs::create_dir(&fresh).unwrap();
    fs::write(fresh.join("new.yaml"), Pod::new("new").text()).unwrap();
    fs::write(fresh.join("web.yaml"), Pod::new("web").text()).unwrap();
    fs::rename(node.manifests(), node.base.join("old")).unwrap();
    fs::rename(&fresh, node.manifests()).unwrap();
    node.wait_phase("new", "Running");
    assert_eq!(node.of("web"), before);
    node.remove("new.yaml");
    node.wait_gone("new");
}

#[test]
fn a_manifest_directory_that_is_emptied_file_by_file_stops_everything() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.write("other.yaml", Pod::new("other").text());
    node.wait_phase("web", "Running");
    node.wait_phase("other", "Running");
    node.remove("web.yaml");
    node.remove("other.yaml");
    node.wait_until("nothing is left", || node.containers().is_empty());
}

#[test]
fn a_manifest_that_may_not_be_read_keeps_its_pod() {
    // Root can read every file, so the unreadable file is a dangling link.
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    let before = node.of("web");
    let beside = node.base.join("link");
    std::os::unix::fs::symlink("/no/such/file", &beside).unwrap();
    fs::rename(beside, node.manifests().join("web.yaml")).unwrap();
    node.wait_until("it is told", || {
        node.status().is_some_and(|s| s.problems.iter().any(|p| p.path.ends_with("web.yaml")))
    });
    settle(&node);
    assert_eq!(node.of("web"), before);
}

#[test]
fn a_single_file_may_be_the_manifest_path() {
    let node = Node::prepare(Options::default());
    let file = node.base.join("pod.yaml");
    fs::write(&file, Pod::new("web").text()).unwrap();
    // If a flag is given twice, the last one counts.
    node.options.borrow_mut().flags = vec!["--pod-manifest-path".into(), file.display().to_string()];
    node.launch();
    node.wait_phase("web", "Running");
    let before = node.of("web");
    let beside = node.base.join("beside");
    fs::write(&beside, labelled("web", "2")).unwrap();
    fs::rename(&beside, &file).unwrap();
    node.wait_until("the edit counts", || node.running("web", "app").iter().any(|c| c.uid != before[0].uid));
}

#[test]
fn a_second_daemon_on_one_root_directory_is_refused_and_changes_nothing() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    let before = node.containers();
    let output = node.run_command().ends();
    assert_eq!(output.status.code(), Some(3));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("another podkeeper runs on"), "{error}");
    assert_eq!(node.containers(), before);
    assert!(node.exited().is_none());
}

#[test]
fn the_run_directory_is_for_root_alone() {
    let node = Node::start();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&node.run_dir()), 0o700);
    assert_eq!(mode(&node.run_dir().join("status.json")) & 0o077, 0);
}

/// A torn state file stopped the kubelet at start. Here no file is needed to run, and no file in the
/// directories, whether torn, zeroed or of another version, is a reason to stop.
#[test]
fn k135711_rubbish_in_its_directories_stops_nothing() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    let app = node.wait_running("web", "app");
    let whole = fs::read(node.run_dir().join("status.json")).unwrap();
    let half = whole.get(..whole.len() / 2).unwrap().to_vec();
    for rubbish in [vec![], half, vec![0; 4096], br#"{"apiVersion":"podkeeper.dev/v99"}"#.to_vec()] {
        node.kill9();
        for file in ["status.json", ".status.json.tmp", "lock"] {
            fs::write(node.run_dir().join(file), &rubbish).unwrap();
            fs::write(node.root().join(file), &rubbish).unwrap();
        }
        node.launch_unawaited();
        let written = || fs::read(node.run_dir().join("status.json")).ok();
        let whole = |bytes: Vec<u8>| {
            serde_json::from_slice::<serde_json::Value>(&bytes).is_ok_and(|v| v["pid"].is_u64())
        };
        node.wait_until("the status is written anew", || written().is_some_and(whole));
        node.wait_until("the pod is shown again", || node.phase("web") == "Running");
        let now = node.wait_running("web", "app").id;
        assert_eq!(now, app.id, "the same container; {}", node.log());
    }
    let log = node.log();
    let told =
        log.matches("status.json: ").zip(log.matches("what runs goes on, but it is not known which pods"));
    assert_eq!(told.count(), 4, "what is not known any more is told: {log}");
}
