//! Real shortages: of memory in a cgroup that contains all pods' memory, of a small file system, of process ids. The
//! pod that causes one is evicted, and no other.

use std::fs;
use std::path::Path;
use std::process::Command;

use podkeeper::testing::cgroup::node::MOUNT;
use serde_json::{Value, json};

use crate::harness::pods::Pod;
use crate::harness::{Node, Options};

pub(super) const MIB: u64 = 1 << 20;

/// A pod that runs until it is told to end, with a file of this size in an emptyDir.
fn filled(name: &str, megabytes: u64, empty_dir: Value) -> Pod {
    let script = format!(
        "trap 'exit 0' TERM; dd if=/dev/zero of=/data/file bs=1M count={megabytes} && touch /data/done; \
         sleep 100000 & wait"
    );
    let pod =
        Pod::new(name).script(&script).set("/spec/volumes", json!([{"name": "data", "emptyDir": empty_dir}]));
    pod.set("/spec/containers/0/volumeMounts", json!([{"name": "data", "mountPath": "/data"}]))
}

/// Waits for a pod's eviction and returns its message.
fn wait_evicted(node: &Node, pod: &str) -> String {
    node.wait_until(&format!("{pod} is evicted"), || node.reason(pod) == "Evicted");
    let runs = || node.of(pod).iter().any(|container| container.runs());
    node.wait_until(&format!("nothing of {pod} runs"), || !runs());
    node.pod(pod).unwrap().status.unwrap().message.unwrap()
}

pub(super) fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("MemTotal:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A root of cgroups, removed on drop.
pub(super) struct Below(pub(super) String);

impl Drop for Below {
    fn drop(&mut self) {
        let hierarchies = fs::read_dir(MOUNT).into_iter().flatten().flatten().map(|entry| entry.path());
        for mount in hierarchies.chain([MOUNT.into()]) {
            for part in ["kubepods/burstable", "kubepods/besteffort", "kubepods", ""] {
                // Most of them do not exist.
                _ = fs::remove_dir(mount.join(&self.0).join(part));
            }
        }
    }
}

/// The cgroup of all pods has 300 MiB.
#[test]
fn a_pod_over_its_request_of_memory_goes_before_one_within_it() {
    let below = Below(format!("podkeeper-it-pressure-{}", std::process::id()));
    let reserved = format!("--kube-reserved=memory={}", memory() - 300 * MIB);
    let root = format!("--cgroup-root=/{}", below.0);
    let node =
        Node::with(Options::flags(&[&reserved, &root, "--eviction-hard=allocatableMemory.available<100Mi"]));
    // Data that is written there counts as the container's own memory.
    let in_memory = json!({"medium": "Memory"});
    let request = |amount: &str| json!({"requests": {"memory": amount}});
    let modest =
        filled("modest", 120, in_memory.clone()).set("/spec/containers/0/resources", request("150Mi"));
    node.write("modest.yaml", modest.text());
    let stays = node.wait_running("modest", "app");
    let greedy = filled("greedy", 100, in_memory).set("/spec/containers/0/resources", request("10Mi"));
    node.write("greedy.yaml", greedy.text());
    node.wait_running("greedy", "app");
    let message = wait_evicted(&node, "greedy");
    assert!(
        message.starts_with("The node was low on resource: memory. Threshold quantity: 100Mi, available: "),
        "{message}"
    );
    assert!(
        message.contains("Container app was using ") && message.contains(", request is 10Mi, "),
        "{message}"
    );
    assert_eq!(node.wait_running("modest", "app").id, stays.id);
    assert!(node.log().contains("Attempting to reclaim memory"), "the event of the node");
}

/// A file system in a file, mounted at a given place.
pub(super) struct Loop<'a>(&'a Path);

impl Loop<'_> {
    pub(super) fn mount<'a>(file: &Path, at: &'a Path, megabytes: u64) -> Loop<'a> {
        fs::File::create(file).unwrap().set_len(megabytes * MIB).unwrap();
        let done = |command: &mut Command| {
            let output = command.output().unwrap();
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        done(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(file));
        done(Command::new("mount").args(["-o", "loop"]).arg(file).arg(at));
        Loop(at)
    }
}

impl Drop for Loop<'_> {
    fn drop(&mut self) {
        // Lazily: a container that is being killed may still use it.
        _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// The root directory is on a file system of 64 MiB.
#[test]
fn who_fills_the_disk_with_an_empty_dir_goes_and_nobody_else() {
    let node = Node::prepare(Options::default());
    let (file, root) = (node.base.join("disk"), node.root());
    let _disk = Loop::mount(&file, &root, 64);
    node.launch();
    node.write("small.yaml", filled("small", 5, json!({})).text());
    node.write("large.yaml", filled("large", 30, json!({})).text());
    let stays = node.wait_running("small", "app");
    for pod in ["small", "large"] {
        node.wait_running(pod, "app");
        let uid = node.pod(pod).unwrap().metadata.uid.unwrap();
        let done = root.join("pods").join(uid).join("volumes/kubernetes.io~empty-dir/data/done");
        node.wait_until("the volume is filled", || done.exists());
    }
    assert_eq!(node.reason("large"), "");
    node.options.borrow_mut().flags.push("--eviction-hard=nodefs.available<30Mi".to_owned());
    node.restart();
    let message = wait_evicted(&node, "large");
    let expected = "The node was low on resource: ephemeral-storage. Threshold quantity: 30Mi, available: ";
    assert!(message.starts_with(expected), "{message}");
    node.wait_until("there is room again", || {
        let found = rustix::fs::statvfs(&root).unwrap();
        found.f_bavail * found.f_frsize > 30 * MIB
    });
    assert_eq!(node.wait_running("small", "app").id, stays.id);
    assert_eq!(node.reason("small"), "");
}

/// The root directory is on a file system of 64 MiB. A removed file that is still open is not found by walking the
/// directories.
#[test]
fn who_fills_the_disk_with_a_file_that_has_no_name_goes_and_nobody_else() {
    let node = Node::prepare(Options::default());
    let (file, root) = (node.base.join("disk"), node.root());
    let _disk = Loop::mount(&file, &root, 64);
    node.launch();
    node.write("small.yaml", filled("small", 8, json!({})).text());
    let script = "trap 'exit 0' TERM; exec 3>/data/file; rm /data/file; dd if=/dev/zero bs=1M count=30 >&3; \
                  touch /data/done; sleep 100000 & wait";
    let unseen =
        Pod::new("unseen").script(script).set("/spec/volumes", json!([{"name": "data", "emptyDir": {}}]));
    let unseen =
        unseen.set("/spec/containers/0/volumeMounts", json!([{"name": "data", "mountPath": "/data"}]));
    node.write("unseen.yaml", unseen.text());
    let stays = node.wait_running("small", "app");
    for pod in ["small", "unseen"] {
        node.wait_running(pod, "app");
        let uid = node.pod(pod).unwrap().metadata.uid.unwrap();
        let done = root.join("pods").join(uid).join("volumes/kubernetes.io~empty-dir/data/done");
        node.wait_until("the volume is filled", || done.exists());
    }
    node.options.borrow_mut().flags.push("--eviction-hard=nodefs.available<30Mi".to_owned());
    node.restart();
    wait_evicted(&node, "unseen");
    assert_eq!(node.wait_running("small", "app").id, stays.id);
    assert_eq!(node.reason("small"), "");
}

/// More process ids are needed than the machine has.
#[test]
fn who_has_most_processes_goes_and_a_critical_pod_stays() {
    let node = Node::with(Options::default());
    let sleeps = |name: &str, number: u32| {
        Pod::new(name).script(&format!(
            "trap 'exit 0' TERM; for i in $(seq {number}); do sleep 100000 & done; echo made; sleep 100000 & wait"
        ))
    };
    let critical = sleeps("critical", 40).set("/spec/priorityClassName", "system-node-critical");
    node.write("critical.yaml", critical.text());
    node.write("many.yaml", sleeps("many", 30).text());
    let stays = node.wait_running("critical", "app");
    for pod in ["many", "critical"] {
        node.wait_running(pod, "app");
        node.wait_until("its processes run", || node.says(&["logs", pod]).contains("made"));
    }
    node.options.borrow_mut().flags.push("--eviction-hard=pid.available<4194304".to_owned());
    node.restart();
    let message = wait_evicted(&node, "many");
    assert!(
        message.starts_with("The node was low on resource: pids. Threshold quantity: 4194304, available: "),
        "{message}"
    );
    node.wait_until("nobody else may go", || node.log().contains("no pod whose end would help"));
    assert_eq!(node.wait_running("critical", "app").id, stays.id);
}
