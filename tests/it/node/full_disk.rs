//! podkeeper's own directories are full: every pod stays, the problem is reported once, and work continues when there
//! is room.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::harness::pods::Pod;
use crate::harness::{Node, Options};

/// A file system of its own in place of a directory, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn at(path: PathBuf) -> Disk {
        mount("tmpfs", &path, "tmpfs", MountFlags::empty(), Some(c"size=2m")).unwrap();
        Disk(path)
    }

    fn fill(&self) {
        let mut file = File::create(self.0.join("fill")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("fill")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A pod that needs a file of podkeeper before its container can be created.
fn with_files(name: &str) -> String {
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("cm-{name}")},
        "data": {"a": "x".repeat(2000)},
    });
    let volumes = serde_json::json!([
        {"name": "cm", "configMap": {"name": format!("cm-{name}")}}, {"name": "scratch", "emptyDir": {}},
    ]);
    let mounts = serde_json::json!([
        {"name": "cm", "mountPath": "/cm"}, {"name": "scratch", "mountPath": "/scratch"},
    ]);
    let pod = Pod::new(name).set("/spec/volumes", volumes).set("/spec/containers/0/volumeMounts", mounts);
    format!("{object}\n---\n{}", pod.text())
}

/// Number of log lines that report no room below a directory.
fn told(node: &Node, below: &Path) -> usize {
    let below = below.to_string_lossy().into_owned();
    let log = node.log();
    log.lines().filter(|line| line.contains("No space left on device") && line.contains(&below)).count()
}

#[test]
fn full_directories_end_no_pod_and_hold_up_only_what_needs_room() {
    let node = Node::prepare(Options::default());
    let (root, run) = (Disk::at(node.base.join("root")), Disk::at(node.run_dir()));
    node.write("web.yaml", with_files("web"));
    node.launch();
    let web = node.wait_running("web", "app");
    node.wait_phase("web", "Running");
    root.fill();
    run.fill();
    node.write("late.yaml", with_files("late"));
    node.wait_until("what needs room says why it waits", || {
        let log = node.log();
        log.lines().any(|line| line.contains("No space left on device") && line.contains(&node.full("late")))
    });
    node.wait_until("the status file is told", || told(&node, &run.0) > 0);
    // A container can be restarted without room for data.
    node.kill_container(&web.id, "KILL");
    node.wait_until("web restarts", || node.running("web", "app").iter().any(|c| c.attempt == 1));
    let again = node.wait_running("web", "app");
    assert_eq!(told(&node, &run.0), 1, "once, however often it is tried");

    run.empty();
    node.wait_until("the status file is written", || node.log().contains("is written again"));

    // A daemon that starts now keeps the running containers.
    node.kill9();
    node.launch();
    assert_eq!(node.wait_running("web", "app").id, again.id);
    assert!(node.running("late", "app").is_empty());

    root.empty();
    node.wait_running("late", "app");
    node.wait_phase("late", "Running");
    assert_eq!(node.wait_running("web", "app").id, again.id);
    assert_eq!(told(&node, &run.0), 1);
    drop(node);
}
