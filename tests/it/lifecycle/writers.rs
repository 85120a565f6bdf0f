//! Ways in which people and programs write manifests: half, in place, twice, and faster than containers
//! start.

use std::fs::{self, File};
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::harness::history::History;
use crate::harness::pods::Pod;
use crate::harness::{Container, Node};

fn labelled(name: &str, edition: &str) -> String {
    Pod::new(name).set("/metadata/labels", json!({"edition": edition})).text()
}

/// The edition of `web` by the status.
fn edition(node: &Node) -> String {
    let labels = node.pod("web").and_then(|p| p.metadata.labels).unwrap_or_default();
    labels.get("edition").cloned().unwrap_or_default()
}

/// Waits until exactly one set of this edition runs, and nothing else of the pod.
fn wait_edition(node: &Node, wanted: &str) {
    node.wait_until(&format!("exactly one set of edition {wanted} runs"), || {
        let running: Vec<Container> = node.of("web").into_iter().filter(Container::runs).collect();
        let sandbox = running.iter().find(|c| c.is_sandbox());
        let shown = sandbox.map(|s| node.inspect(&s.id)["Config"]["Labels"]["edition"] == wanted);
        running.len() == 2 && shown == Some(true) && edition(node) == wanted
    });
}

#[test]
fn k252_a_manifest_written_byte_by_byte_is_taken_when_it_is_whole() {
    let node = Node::start();
    let history = History::of(&node);
    let text = Pod::new("web").text();
    let mut file = File::create(node.manifests().join("web.yaml")).unwrap();
    for byte in text.as_bytes() {
        file.write_all(&[*byte]).unwrap();
    }
    drop(file);
    node.wait_phase("web", "Running");
    assert_eq!(history.times(&node.full("web"), "app", "create").len(), 1);
    node.wait_until("no problem is left", || node.status().is_some_and(|s| s.problems.is_empty()));
}

#[test]
fn k252_a_manifest_rewritten_byte_by_byte_never_stops_its_pod_in_between() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", labelled("web", "1"));
    node.wait_phase("web", "Running");
    let mut file = File::create(node.manifests().join("web.yaml")).unwrap();
    for byte in labelled("web", "2").as_bytes() {
        file.write_all(&[*byte]).unwrap();
        file.flush().unwrap();
        // Long enough for a scan to fall between two bytes.
        thread::yield_now();
    }
    drop(file);
    wait_edition(&node, "2");
    history.check_one_set_at_a_time();
    assert_eq!(history.times(&node.full("web"), "POD", "create").len(), 2);
}

#[test]
fn k252_truncate_then_write_is_one_edit() {
    let node = Node::start();
    let history = History::of(&node);
    node.write_in_place("web.yaml", labelled("web", "1"));
    wait_edition(&node, "1");
    node.write_in_place("web.yaml", labelled("web", "2"));
    wait_edition(&node, "2");
    history.check_one_set_at_a_time();
    assert_eq!(history.times(&node.full("web"), "POD", "create").len(), 2);
}

#[test]
fn k136962_backup_and_swap_files_are_not_manifests() {
    let node = Node::start();
    node.write("web.yaml", labelled("web", "1"));
    wait_edition(&node, "1");
    let before = node.of("web");
    for name in
        ["web.yaml.backup", ".web.yaml.swp", "web.yaml~", ".web.yaml", "web.yaml.bak", "4913", "#web.yaml#"]
    {
        node.write_in_place(name, labelled("web", "backup"));
    }
    // The daemon sees this one after all of them.
    node.write("zz-probe.yaml", Pod::new("zz-probe").text());
    node.wait_phase("zz-probe", "Running");
    assert_eq!(node.of("web"), before);
    assert_eq!(node.status().unwrap().problems, []);
}

/// `web` in two files, and the one that ran first holds the name.
fn two_files() -> Node {
    let node = Node::start();
    node.write("b.yaml", labelled("web", "b"));
    wait_edition(&node, "b");
    // Earlier by name, later in time.
    node.write("a.yaml", labelled("web", "a"));
    node.wait_until("both files are reported", || {
        let problems = node.status().map(|s| s.problems).unwrap_or_default();
        ["a.yaml", "b.yaml"]
            .iter()
            .all(|file| problems.iter().any(|p| p.path.ends_with(file) || p.message.contains(file)))
    });
    node
}

#[test]
fn k136962_of_two_files_with_one_pod_the_running_one_keeps_the_name() {
    let node = two_files();
    let before = node.of("web");
    node.remove("a.yaml");
    node.wait_until("the problem is gone", || node.status().is_some_and(|s| s.problems.is_empty()));
    assert_eq!(node.of("web"), before, "deleting the loser changes nothing");
    assert_eq!(edition(&node), "b");
}

#[test]
fn k136962_when_the_winner_of_two_files_is_deleted_the_loser_takes_over() {
    let node = two_files();
    let history = History::of(&node);
    node.remove("b.yaml");
    wait_edition(&node, "a");
    history.check_one_set_at_a_time();
    node.wait_until("the problem is gone", || node.status().is_some_and(|s| s.problems.is_empty()));
}

#[test]
fn k136962_the_running_one_of_two_files_keeps_the_name_over_a_restart() {
    let node = two_files();
    let before = node.of("web");
    node.restart();
    node.wait_phase("web", "Running");
    node.write("zz-probe.yaml", Pod::new("zz-probe").text());
    node.wait_phase("zz-probe", "Running");
    assert_eq!(node.of("web"), before);
}

/// Removes the manifest, waits for `gap`, writes it again with this text.
fn check_recreated(node: &Node, history: &History, gap: Duration, text: &str, wanted: &str) {
    node.remove("web.yaml");
    thread::sleep(gap);
    node.write("web.yaml", text);
    wait_edition(node, wanted);
    history.check_one_set_at_a_time();
}

#[test]
fn k104648_delete_and_recreate_within_0_1_and_5_seconds_and_with_new_content() {
    let node = Node::start();
    let history = History::of(&node);
    // The grace outlasts the shorter gaps: the pod is still terminating when it is wanted again.
    let slow = "trap 'sleep 2; exit 0' TERM; echo started; sleep 100000 & wait";
    let text = |edition: &str| {
        Pod::new("web").grace(10).script(slow).set("/metadata/labels/edition", edition).text()
    };
    node.write("web.yaml", text("0"));
    wait_edition(&node, "0");
    let mut last = "0".to_owned();
    for seconds in [0, 1, 5] {
        // First the same content, so the same UID; then another one.
        check_recreated(&node, &history, Duration::from_secs(seconds), &text(&last), &last);
        last = format!("after-{seconds}");
        check_recreated(&node, &history, Duration::from_secs(seconds.min(1)), &text(&last), &last);
    }
    assert_eq!(node.of("web").iter().filter(|c| c.runs()).count(), 2);
}

#[test]
fn k104648_delete_and_recreate_with_a_fixed_uid() {
    let node = Node::start();
    let history = History::of(&node);
    let text = |edition: &str| {
        Pod::new("web").set("/metadata/uid", "fixed-uid-3").set("/metadata/labels/edition", edition).text()
    };
    node.write("web.yaml", text("1"));
    wait_edition(&node, "1");
    let old = node.wait_running("web", "POD");
    node.remove("web.yaml");
    node.wait_until("it is being stopped", || !history.times(&node.full("web"), "app", "kill").is_empty());
    node.write("web.yaml", text("2"));
    wait_edition(&node, "2");
    history.check_one_set_at_a_time();
    assert_ne!(node.wait_running("web", "POD").id, old.id);
}

#[test]
fn k107733_ten_edits_in_a_second_end_with_the_last_one_once() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", labelled("web", "0"));
    wait_edition(&node, "0");
    for edition in 1..=10 {
        node.write("web.yaml", labelled("web", &edition.to_string()));
        thread::sleep(Duration::from_millis(90));
    }
    wait_edition(&node, "10");
    history.check_one_set_at_a_time();
    node.wait_until("only the last set is left", || node.of("web").len() == 2);
}

#[test]
fn a_burst_of_files_that_come_and_go_ends_with_what_is_there() {
    let node = Node::start();
    let history = History::of(&node);
    for round in 0..3 {
        for pod in ["a", "b", "c"] {
            node.write(&format!("{pod}.yaml"), labelled(pod, &round.to_string()));
        }
        node.remove("b.yaml");
    }
    node.wait_phase("a", "Running");
    node.wait_phase("c", "Running");
    node.wait_until("only a and c are left", || {
        let all = node.containers();
        all.len() == 4 && all.iter().all(|c| c.runs() && c.pod != node.full("b"))
    });
    history.check_one_set_at_a_time();
    assert_eq!(fs::read_dir(node.manifests()).unwrap().count(), 2);
}
