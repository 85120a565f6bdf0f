//! A root directory on a disk of its own that is full, or has failed and is read-only: the daemon starts all the same,
//! keeps what runs, starts again what ends, and the node can be drained.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::mount::{UnmountFlags, unmount};

use crate::harness::pods::Pod;
use crate::harness::{Container, Node, Options};

/// The sizes of writes that fill a disk, each to a file of its own.
const SIZES: [usize; 2] = [65536, 512];

/// A real file system of 16 MiB in place of a directory, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn at(path: PathBuf) -> Disk {
        let image = path.with_extension("disk");
        File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let made =
            Command::new("mkfs.ext4").args(["-q", "-m", "0", "-N", "128"]).arg(&image).status().unwrap();
        let mounted = Command::new("mount")
            .args(["-o", "loop,errors=remount-ro"])
            .arg(&image)
            .arg(&path)
            .status()
            .unwrap();
        assert!(made.success() && mounted.success(), "no file system could be made");
        Disk(path)
    }

    /// Takes every block.
    fn fill(&self) {
        for size in SIZES {
            let mut file = File::create(self.0.join(format!("fill-{size}"))).unwrap();
            while file.write_all(&vec![0; size]).is_ok() {}
            _ = file.sync_all();
        }
    }

    /// Takes every inode, for which the directory needs some room.
    fn fill_names(&self) {
        for size in SIZES {
            fs::remove_file(self.0.join(format!("fill-{size}"))).unwrap();
        }
        for number in 0.. {
            if File::create(self.0.join(format!("name-{number}"))).is_err() {
                return;
            }
        }
    }

    /// Becomes read-only as after an error of the disk, whoever has a file open.
    fn fail(&self) {
        let device = fs::metadata(&self.0).unwrap().dev();
        let name = format!("/sys/fs/ext4/loop{}/trigger_fs_error", rustix::fs::minor(device));
        fs::write(name, "1").unwrap();
        assert_eq!(File::create(self.0.join("new")).unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// `podkeeper drain …` and `resume …` with this node's directories.
fn podkeeper(node: &Node, arguments: &[&str]) -> (Option<i32>, String) {
    let root = node.root();
    let all = [arguments, &["--root-dir", root.to_str().unwrap()]].concat();
    let Output { status, stdout, stderr } = node.podkeeper(&all);
    (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

fn nothing_runs(node: &Node) -> bool {
    !node.containers().iter().any(Container::runs)
}

/// The whole way of a shutdown: the pods end in order, also where nothing can be written, and run again afterwards.
fn is_drained_and_resumed(node: &Node, name: &str) {
    let (code, said) = podkeeper(node, &["drain", "--until-reboot", "--timeout", "20s"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("podkeeper resume or the next boot of this machine\n"), "{said}");
    assert!(nothing_runs(node) && node.run_dir().join("drained-until-reboot").exists());
    // A new daemon finds the marker, too.
    node.kill9();
    node.launch();
    node.wait_until("it is drained", || node.reason(name) == "NodeShutdown");
    let (code, said) = podkeeper(node, &["resume"]);
    assert_eq!(code, Some(0), "{said}");
    node.wait_running(name, "app");
}

/// A second daemon on the same root directory, with a run directory of its own.
fn second(node: &Node, root: &Path) -> Option<i32> {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "10", env!("CARGO_BIN_EXE_podkeeper"), "run", "--pod-manifest-path"]);
    command.arg(node.base.join("none")).arg("--root-dir").arg(root);
    command.arg("--run-dir").arg(node.base.join("other-run")).arg("--eviction-hard=");
    command.output().unwrap().status.code()
}

#[test]
fn a_full_root_directory_keeps_no_daemon_from_starting() {
    let node = Node::prepare(Options::default());
    let disk = Disk::at(node.root());
    node.write("web.yaml", Pod::new("web").text());
    node.launch();
    let web = node.wait_running("web", "app");
    node.kill9();
    // What a daemon left that gave its block away, and had none for its process id.
    File::create(disk.0.join("lock")).unwrap();
    disk.fill();
    node.launch();
    assert_eq!(node.wait_running("web", "app").id, web.id);
    assert_eq!(second(&node, &disk.0), Some(3));
    node.kill_container(&web.id, "KILL");
    node.wait_until("web restarts", || node.running("web", "app").iter().any(|c| c.attempt == 1));
    let log = node.log();
    assert_eq!(log.matches("no process id could be written").count(), 1, "{log}");
    is_drained_and_resumed(&node, "web");

    // Without a lock, and without an inode for one.
    node.kill9();
    fs::remove_file(disk.0.join("lock")).unwrap();
    disk.fill_names();
    node.launch();
    node.wait_running("web", "app");
    assert!(!disk.0.join("lock").exists());
    assert_eq!(second(&node, &disk.0), Some(3));
    assert!(podkeeper(&node, &["resume"]).1.contains("the node is not drained"));
    drop((node, disk));
}

#[test]
fn a_read_only_root_directory_keeps_no_daemon_from_starting_and_no_container_from_starting_again() {
    let node = Node::prepare(Options::default());
    let disk = Disk::at(node.root());
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "x"},
    });
    let volumes = serde_json::json!([
        {"name": "cm", "configMap": {"name": "cm"}}, {"name": "scratch", "emptyDir": {}},
        {"name": "api", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]);
    let mounts = serde_json::json!([
        {"name": "cm", "mountPath": "/cm"}, {"name": "scratch", "mountPath": "/scratch"},
        {"name": "api", "mountPath": "/api"}, {"name": "cm", "mountPath": "/part", "subPath": "a"},
    ]);
    let pod = Pod::new("web").set("/spec/volumes", volumes).set("/spec/containers/0/volumeMounts", mounts);
    node.write("web.yaml", format!("{object}\n---\n{}", pod.text()));
    node.launch();
    let web = node.wait_running("web", "app");
    node.wait_phase("web", "Running");
    // As another address of its next sandbox would, this leaves a hosts file that would have to be written.
    node.inside("web", "app", "echo 192.0.2.1 another >>/etc/hosts");
    disk.fail();
    node.kill_container(&web.id, "KILL");
    node.wait_until("web restarts", || node.running("web", "app").iter().any(|c| c.attempt == 1));
    let again = node.wait_running("web", "app");
    assert_eq!(node.inside("web", "app", "cat /cm/a /part"), "xx");

    node.kill9();
    node.launch();
    assert_eq!(node.wait_running("web", "app").id, again.id);
    assert_eq!(second(&node, &disk.0), Some(3));
    is_drained_and_resumed(&node, "web");
    let log = node.log();
    assert!(log.contains("is on a read-only file system"), "{log}");
    assert!(log.contains("etc-hosts keeps its former content"), "{log}");

    // What needs a new file says so, and waits.
    node.write("late.yaml", Pod::new("late").text());
    node.wait_until("it says why it waits", || {
        node.log()
            .lines()
            .any(|line| line.contains("Read-only file system") && line.contains(&node.full("late")))
    });
    assert!(node.running("late", "app").is_empty());
    drop((node, disk));
}
