//! Manifests that appear, change, move and disappear, on the real Docker.

use podkeeper::testing::runtime::DockerState;
use serde_json::json;

use crate::harness::Node;
use crate::harness::history::History;
use crate::harness::pods::{IMAGE, Pod, container};

#[test]
fn a_manifest_that_comes_is_run_and_one_that_goes_is_stopped() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    let app = node.wait_running("web", "app");
    let sandbox = node.wait_running("web", "POD");
    assert_eq!((app.attempt, sandbox.attempt), (0, 0));
    node.wait_phase("web", "Running");
    node.remove("web.yaml");
    node.wait_until("no container is left", || node.containers().is_empty());
    node.wait_until("the status forgets it", || node.pod("web").is_none());
}

#[test]
fn a_second_manifest_does_not_touch_the_first() {
    let node = Node::start();
    node.write("one.yaml", Pod::new("one").text());
    node.wait_running("one", "app");
    let before = node.of("one");
    node.write("two.yml", Pod::new("two").text());
    node.write("three.json", Pod::new("three").text());
    for pod in ["two", "three"] {
        node.wait_phase(pod, "Running");
    }
    node.remove("two.yml");
    node.wait_gone("two");
    assert_eq!(node.of("one"), before);
}

#[test]
fn an_edit_replaces_the_set_and_the_old_is_dead_before_the_new_starts() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", Pod::new("web").and(container("second", crate::harness::pods::OBEYS)).text());
    node.wait_phase("web", "Running");
    let old = node.of("web");
    node.write("web.yaml", Pod::new("web").set("/metadata/labels", json!({"edition": "2"})).text());
    node.wait_until("the new set runs alone", || {
        let now = node.of("web");
        let running: Vec<_> = now.iter().filter(|c| c.runs()).collect();
        running.len() == 2 && running.iter().all(|c| old.iter().all(|o| o.uid != c.uid))
    });
    history.check_one_set_at_a_time();
    let full = node.full("web");
    let last_death = [("app"), ("second"), ("POD")].map(|c| history.times(&full, c, "die")[0]);
    let first_start = history.times(&full, "POD", "start")[1];
    assert!(last_death.iter().all(|&died| died <= first_start), "{:#?}", history.events());
    node.wait_until("the old set is removed", || node.of("web").len() == 2);
    let new = node.wait_running("web", "app");
    assert_eq!(new.attempt, 0, "another UID counts from nought");
}

#[test]
fn a_renamed_manifest_is_another_pod_of_the_same_name() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", Pod::new("web").text());
    let old = node.wait_running("web", "app");
    std::fs::rename(node.manifests().join("web.yaml"), node.manifests().join("site.yaml")).unwrap();
    let new = node.wait_for("it runs under another UID", || {
        node.running("web", "app").into_iter().find(|c| c.uid != old.uid)
    });
    history.check_one_set_at_a_time();
    assert_eq!(node.running("web", "app"), [new]);
}

#[test]
fn with_a_fixed_uid_a_new_image_restarts_that_container_alone() {
    let node = Node::start();
    let history = History::of(&node);
    // The image under another reference: the hash covers the reference, and nothing has to be pulled.
    let id = node.inspect_image(IMAGE)["Id"].as_str().unwrap().to_owned();
    let pod = Pod::new("web")
        .set("/metadata/uid", "fixed-uid-1")
        .and(container("other", crate::harness::pods::OBEYS));
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    let (app, other) = (node.wait_running("web", "app"), node.wait_running("web", "other"));
    let sandbox = node.wait_running("web", "POD");
    assert_eq!(app.uid, "fixed-uid-1");
    node.write("web.yaml", pod.clone().set("/spec/containers/0/image", id).text());
    let new = node.wait_for("app runs in attempt 1", || {
        node.running("web", "app").into_iter().find(|c| c.attempt == 1)
    });
    assert_ne!(new.id, app.id);
    assert_eq!(node.running("web", "other"), [other]);
    assert_eq!(node.running("web", "POD"), [sandbox]);
    history.check_one_set_at_a_time();
    node.wait_until("the restart is counted", || {
        node.container_status("web", "app").is_some_and(|c| c.restart_count == 1)
    });
}

#[test]
fn with_a_fixed_uid_a_new_environment_changes_nothing_that_runs() {
    let node = Node::start();
    let pod = Pod::new("web").set("/metadata/uid", "fixed-uid-2");
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    let before = node.of("web");
    let env = json!([{"name": "MODE", "value": "edge"}]);
    node.write("web.yaml", pod.set("/spec/containers/0/env", env).text());
    node.wait_until("the status shows the new environment", || {
        let spec = node.pod("web").and_then(|p| p.spec);
        spec.is_some_and(|s| s.containers[0].env.is_some())
    });
    // A change that does count, made later: when it is done, the daemon has looked at the first one.
    node.write("probe.yaml", Pod::new("probe").text());
    node.wait_phase("probe", "Running");
    assert_eq!(node.of("web"), before);
    assert!(before.iter().all(|c| c.state == DockerState::Running));
}

#[test]
fn several_pods_in_one_file_come_and_go_one_by_one() {
    let node = Node::start();
    let (a, b) = (Pod::new("a").text(), Pod::new("b").set("/metadata/namespace", "edge").text());
    node.write("both.yaml", format!("{a}---\n{b}"));
    node.wait_running("a", "app");
    let second = node.wait_running("b", "app");
    node.write("both.yaml", &a);
    node.wait_gone("b");
    node.wait_until("the first still runs", || node.running("a", "app").len() == 1);
    assert!(second.name.contains("_edge_"), "{}", second.name);
}

#[test]
fn k40123_a_symlinked_directory_swap_is_one_change() {
    // Like a mounted volume: `..data` points at the present version.
    let node = Node::start();
    let history = History::of(&node);
    let dir = node.manifests();
    for (version, label) in [("..v1", "1"), ("..v2", "2")] {
        std::fs::create_dir(dir.join(version)).unwrap();
        let text = Pod::new("web").set("/metadata/labels", json!({"v": label})).text();
        std::fs::write(dir.join(version).join("web.yaml"), text).unwrap();
    }
    std::os::unix::fs::symlink("..v1", dir.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/web.yaml", dir.join("web.yaml")).unwrap();
    let old = node.wait_running("web", "app");
    std::os::unix::fs::symlink("..v2", dir.join("..new")).unwrap();
    std::fs::rename(dir.join("..new"), dir.join("..data")).unwrap();
    node.wait_until("version 2 runs", || node.running("web", "app").iter().any(|c| c.uid != old.uid));
    let labels = node.pod("web").and_then(|p| p.metadata.labels).unwrap();
    assert_eq!(labels["v"], "2");
    history.check_one_set_at_a_time();
}
