//! `podkeeper drain` and `resume` on the real Docker.

use std::process::{Output, Stdio};

use rustix::process::Signal;

use crate::harness::pods::{IGNORES_TERM, IMAGE, Pod};
use crate::harness::{Container, Node};

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
    // With a new pod and a new daemon nothing starts.
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

/// One of two failed on a temporary file that the other had renamed, or waited for a drain that the other had replaced. The
/// same when the node is resumed and drained again while the first one waits.
#[test]
fn drains_in_the_same_moment_and_a_resume_between_end_together() {
    let node = Node::start();
    node.write(
        "web.yaml",
        Pod::new("web").script("trap 'sleep 2; exit' TERM; while :; do sleep 0.1; done").text(),
    );
    node.wait_running("web", "app");
    let drained = "drained: nothing runs, and nothing starts until podkeeper resume\n";
    let root = node.root();
    let drain = || {
        let mut command = node.command(&["drain", "--timeout", "60s", "--root-dir", root.to_str().unwrap()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let together = |resume: bool| {
        let mut running: Vec<_> = (0..4).map(|_| drain()).collect();
        if resume {
            node.wait_until("the drain is known", || node.status().is_some_and(|it| it.drain.is_some()));
            podkeeper(&node, &["resume"]);
            running.push(drain());
        }
        let mut whole = 0;
        for process in running {
            let Output { status, stdout, stderr } = process.wait_with_output().unwrap();
            let (said, error) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            let resumed = resume && error.contains("the node was resumed meanwhile");
            let is_whole = status.code() == Some(0) && said.ends_with(drained);
            assert!(resumed || is_whole, "{status} {said}{error}");
            whole += usize::from(is_whole);
        }
        assert!(whole > 0 && nothing_runs(&node));
        podkeeper(&node, &["resume"]);
        node.wait_running("web", "app");
    };
    together(false);
    together(true);
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

/// Regression: it waited for its whole timeout, and said that the pods were being stopped.
#[test]
fn a_drain_whose_end_cannot_come_any_more_ends() {
    let node = Node::start();
    node.write("stubborn.yaml", Pod::new("stubborn").script(IGNORES_TERM).grace(8).text());
    node.wait_until("it is deaf by now", || {
        node.podkeeper(&["logs", "stubborn"]).stdout.starts_with(b"started")
    });
    let ends_after = |happens: &dyn Fn()| {
        let root = node.root();
        let arguments = ["drain", "--timeout", "10m", "--root-dir", root.to_str().unwrap()];
        let drain = node.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        node.wait_until("the drain has begun", || node.status().is_some_and(|status| status.drain.is_some()));
        happens();
        let Output { status, stderr, .. } = drain.wait_with_output().unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    };
    let resumed = ends_after(&|| _ = podkeeper(&node, &["resume"]));
    assert_eq!(
        resumed,
        (Some(1), "error: the node was resumed meanwhile: its pods start again\n".to_owned())
    );
    node.wait_running("stubborn", "app");
    let restarted = ends_after(&|| {
        node.kill9();
        node.launch();
    });
    assert_eq!(restarted, (Some(1), "error: podkeeper ended meanwhile; the next one goes on\n".to_owned()));
    node.wait_until("the next one goes on", || nothing_runs(&node));
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
    // A drain until the next boot; it does not shorten a longer drain.
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

/// Regression: after `systemctl soft-reboot`, which is no boot of the kernel, all pods stayed down.
#[test]
fn a_shutdown_that_no_boot_follows_is_undone_and_an_operators_drain_is_not() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.wait_running("web", "app");
    let shutdown = || {
        let (code, said, error) = podkeeper(&node, &["drain", "--shutdown", "--timeout", "80s"]);
        assert_eq!(code, Some(0), "{said}{error}");
        assert!(nothing_runs(&node));
        node.restart();
        node.wait_until("the new daemon is drained, too", || node.reason("web") == "NodeShutdown");
        podkeeper(&node, &["resume", "--shutdown"]).1
    };
    assert!(shutdown().starts_with("resumed: podkeeper (process "));
    node.wait_running("web", "app");
    for arguments in [&["drain"][..], &["drain", "--until-reboot"]] {
        podkeeper(&node, arguments);
        assert_eq!(shutdown(), "the node is not drained by a shutdown\n", "{arguments:?}");
        assert_eq!(node.reason("web"), "NodeShutdown");
        // What a drain that was killed leaves of a shutdown.
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let marker =
            format!(r#"{{"since": "2026-01-02T03:04:05Z", "by": "shutdown", "boot": "{}"}}"#, boot.trim());
        std::fs::write(node.run_dir().join("drained-until-reboot"), marker).unwrap();
        let (code, said, error) = podkeeper(&node, &["resume", "--shutdown"]);
        let expected = "the drain of the shutdown is undone; the node stays drained by an operator\n";
        assert_eq!((code, said.as_str()), (Some(0), expected), "{error}");
        assert!(podkeeper(&node, &["resume"]).1.starts_with("resumed: "));
        node.wait_running("web", "app");
    }
}

#[test]
fn a_daemon_that_hangs_stops_nothing_and_drain_says_so() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    node.signal(Signal::STOP);
    let (code, said, error) = podkeeper(&node, &["drain", "--timeout", "4s"]);
    node.signal(Signal::CONT);
    assert_eq!((code, said.as_str()), (Some(5), ""), "{error}");
    let pid = node.pid().unwrap();
    let says = format!("podkeeper (process {pid}) does not answer");
    assert!(error.starts_with(&format!("warning: {says}")), "{error}");
    assert!(error.contains(&format!("error: not drained after 4s; {says}")), "{error}");
    assert!(!error.contains("being stopped\n"), "{error}");
    let (code, _, error) = podkeeper(&node, &["resume"]);
    assert_eq!(code, Some(0), "{error}");
    // Nothing of another node's root directory is drained.
    let other = node.base.join("other");
    let Output { status, stderr, .. } =
        node.podkeeper(&["drain", "--timeout", "1s", "--root-dir", other.to_str().unwrap()]);
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{error}");
    assert!(
        error.contains("give the --root-dir of the one, or the --run-dir of the other; nothing is"),
        "{error}"
    );
    assert!(!other.exists());
}

/// A reader of the README tries this pod first.
#[test]
fn the_pod_of_the_readme_ends_at_once() {
    let readme = include_str!("../../../README.md");
    let (_, pod) = readme.split_once("    # /etc/podkeeper/manifests/web.yaml\n").unwrap();
    let (pod, _) = pod.split_once("\n\n").unwrap();
    let lines = pod.lines().map(|line| line.strip_prefix("    ").unwrap());
    // Other tests run at the same time.
    let lines: Vec<&str> = lines.filter(|line| !line.contains("hostPort")).collect();
    let node = Node::start();
    // Its image comes from a registry; the tests' image has the same program.
    node.write("web.yaml", lines.join("\n").replace("busybox:stable", IMAGE));
    node.wait_phase("web", "Running");
    node.inside(
        "web",
        "httpd",
        "while ! wget -q -O - http://127.0.0.1/bin 2>&1 | grep -q 404; do usleep 10000; done",
    );
    let (code, said, error) = podkeeper(&node, &["drain", "--timeout", "15s"]);
    assert_eq!(code, Some(0), "{said}{error}");
}
