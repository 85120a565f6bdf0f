//! `podkeeper drain` and `resume` on the real Docker.

use std::process::Output;

use super::harness::{Container, Node};
use super::pods::{IGNORES_TERM, Pod};

/// `podkeeper drain …` and `resume …` with this node's directories.
fn podkeeper(node: &Node, arguments: &[&str]) -> (Option<i32>, String, String) {
    let root = node.root();
    let all = [arguments, &["--root-dir", root.to_str().unwrap()]].concat();
    let Output { status, stdout, stderr } = node.podkeeper(&all);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn nothing_runs(node: &Node) -> bool {
    !node.containers().iter().any(Container::runs)
}

#[test]
fn a_node_is_drained_in_order_stays_so_and_is_resumed() {
    let node = Node::start();
    for (name, priority) in [("low", 0), ("middle", 5), ("high", 2_000_000_000)] {
        node.write(&format!("{name}.yaml"), Pod::new(name).set("/spec/priority", priority).text());
    }
    for name in ["low", "middle", "high"] {
        node.wait_phase(name, "Running");
    }
    let (code, said, error) = podkeeper(&node, &["drain", "--grace", "1"]);
    assert_eq!(code, Some(0), "{said}{error}");
    assert!(said.starts_with("stopping 3 pods\n"), "{said}");
    assert!(said.ends_with("drained: nothing runs, and nothing starts until podkeeper resume\n"), "{said}");
    assert!(nothing_runs(&node));
    let log = node.log();
    let at = |words: &str, pod: &str| {
        let line = format!("pod default/{} {words}", node.full(pod));
        log.find(&line).unwrap_or_else(|| panic!("{line}: {log}"))
    };
    for (first, then) in [("low", "middle"), ("middle", "high")] {
        assert!(at("has stopped", first) < at("is stopped: the node is drained", then), "{log}");
    }
    // A new pod, and a new daemon: nothing starts.
    node.write("new.yaml", Pod::new("new").text());
    node.wait_until("the new pod is shown", || node.reason("new") == "NodeShutdown");
    node.restart();
    node.wait_until("all pods are shown", || {
        ["low", "middle", "high", "new"].iter().all(|pod| node.reason(pod) == "NodeShutdown")
    });
    assert_eq!(node.phase("low"), "Pending");
    assert!(node.status().unwrap().drain.unwrap().stopped && nothing_runs(&node));
    let table = node.podkeeper(&["get", "pods"]);
    let (out, note) = (String::from_utf8(table.stdout).unwrap(), String::from_utf8(table.stderr).unwrap());
    assert!(out.contains("NodeShutdown"), "{out}");
    assert!(note.contains("note: this node is drained since "), "{note}");
    let (code, said, error) = podkeeper(&node, &["resume"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(said.starts_with("resumed: podkeeper (process "), "{said}");
    for name in ["low", "middle", "high", "new"] {
        node.wait_running(name, "app");
    }
    assert_eq!(podkeeper(&node, &["resume"]).1, "the node is not drained\n");
}

#[test]
fn a_drain_that_takes_too_long_ends_with_5_and_can_be_hurried() {
    let node = Node::start();
    node.write("stubborn.yaml", Pod::new("stubborn").script(IGNORES_TERM).grace(600).text());
    node.wait_until("it is deaf by now", || {
        node.podkeeper(&["logs", "stubborn"]).stdout.starts_with(b"started")
    });
    let (code, _, error) = podkeeper(&node, &["drain", "--timeout", "1s"]);
    assert_eq!(code, Some(5), "{error}");
    assert!(error.contains("still running: default/stubborn-"), "{error}");
    let (code, said, error) = podkeeper(&node, &["drain", "--grace", "2"]);
    assert_eq!(code, Some(0), "{said}{error}");
    assert!(nothing_runs(&node));
}

#[test]
fn without_a_daemon_the_marker_waits_for_the_next_one() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    let web = node.wait_running("web", "app");
    node.stop();
    let (code, said, _) = podkeeper(&node, &["drain"]);
    assert_eq!(code, Some(0));
    assert!(said.starts_with("drained; podkeeper is not running here"), "{said}");
    assert!(node.container(&web.id).unwrap().runs());
    node.launch();
    node.wait_until("it is stopped", || nothing_runs(&node));
    node.stop();
    let (_, said, _) = podkeeper(&node, &["resume"]);
    assert!(said.starts_with("resumed; podkeeper is not running here"), "{said}");
    // Until the next boot; and that does not shorten a drain for longer.
    podkeeper(&node, &["drain", "--until-reboot"]);
    let marker = || std::fs::read_to_string(node.root().join("drained")).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(marker().contains(boot.trim()));
    std::fs::write(node.root().join("drained"), marker().replace(boot.trim(), "an-earlier-one")).unwrap();
    node.launch();
    node.wait_running("web", "app");
    podkeeper(&node, &["drain"]);
    podkeeper(&node, &["drain", "--until-reboot"]);
    assert!(!marker().contains("boot"), "{}", marker());
}
