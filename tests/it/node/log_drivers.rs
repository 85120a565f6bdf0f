//! Log drivers: the destinations of containers' output.

use std::path::Path;

use crate::harness::pods::Pod;
use crate::harness::{Container, Node, Options};

fn with_driver(driver: &str) -> Options {
    Options::flags(&[&format!("--container-log-driver={driver}")])
}

/// Standard output and error of `podkeeper logs`.
fn logs(node: &Node, pod: &str) -> (String, String) {
    let output = node.podkeeper(&["logs", pod]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn driver(node: &Node, container: &Container) -> String {
    node.inspect(&container.id)["HostConfig"]["LogConfig"]["Type"].as_str().unwrap().to_owned()
}

fn links(node: &Node) -> usize {
    let all = node.pod_logs().with_file_name("containers");
    std::fs::read_dir(all).into_iter().flatten().count()
}

/// One node with one driver after the other: running containers keep the driver that they were
/// created with.
#[test]
fn a_driver_is_of_containers_that_are_made_later_and_logs_says_where_there_are_none() {
    let node = Node::with(with_driver("local"));
    node.write("local.yaml", Pod::new("local").text());
    let local = node.wait_running("local", "app");
    assert_eq!(driver(&node, &local), "local");
    node.wait_until("its log is read", || logs(&node, "local").0.contains("started"));
    assert_eq!(links(&node), 0, "only Docker reads it");

    *node.options.borrow_mut() = with_driver("none");
    node.restart();
    node.write("none.yaml", Pod::new("none").text());
    let none = node.wait_running("none", "app");
    assert_eq!(driver(&node, &none), "none");
    let (out, err) = logs(&node, "none");
    let told = format!(
        "error: container \"app\" in pod \"{}\" has no log: it was made with --container-log-driver=none, which \
         keeps nothing of what a container writes\n",
        node.full("none")
    );
    assert_eq!((out.as_str(), err), ("", told));
    assert_eq!(node.wait_running("local", "app").id, local.id, "it is not made anew");
    assert!(logs(&node, "local").0.contains("started"), "it has its log still");

    let fails = Pod::new("fails").script("echo last words; exit 3").restart_policy("Never");
    let fails = fails.set("/spec/containers/0/terminationMessagePolicy", "FallbackToLogsOnError");
    node.write("fails.yaml", fails.text());
    let expected =
        "Error on reading termination message from logs: none is kept (--container-log-driver=none)";
    let message = || {
        let status = node.pod("fails")?.status?.container_statuses?.pop()?;
        status.state?.terminated?.message
    };
    node.wait_until("its end is told", || message().as_deref() == Some(expected));
}

#[test]
fn the_journal_takes_entries_that_name_pod_and_container() {
    let node = Node::with(with_driver("journald"));
    node.write("web.yaml", Pod::new("web").text());
    if !Path::new("/run/systemd/journal/socket").exists() {
        node.wait_until("Docker's refusal is told", || {
            node.log().contains("journald is not enabled on this host")
        });
        return;
    }
    let web = node.wait_running("web", "app");
    assert_eq!(driver(&node, &web), "journald");
    node.wait_until("its log is read", || logs(&node, "web").0.contains("started"));
    let name = format!("IO_KUBERNETES_POD_NAME={}", node.full("web"));
    let entries = std::process::Command::new("journalctl").args(["-o", "export", &name]).output().unwrap();
    let entries = String::from_utf8_lossy(&entries.stdout).into_owned();
    assert!(entries.contains(&format!("SYSLOG_IDENTIFIER=default/{}/app", node.full("web"))), "{entries}");
}
