//! An engine on a disk of 300 MiB that runs short: unneeded images are removed before any pod is evicted, and of the
//! pods the one that fills the disk with its log is evicted.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::faults::{assert_untouched, lives};
use crate::harness::Node;
use crate::harness::pods::{IMAGE, Pod};
use crate::harness::private_engine::Engine;
use crate::node::images::{make_image, names, node_on};

const MIB: u64 = 1 << 20;

/// Whether the node has this condition.
pub(super) fn has(node: &Node, condition: &str) -> bool {
    let conditions = node.status().map(|status| status.conditions).unwrap_or_default();
    conditions.iter().any(|it| it.type_ == condition && it.is_true)
}

/// Bytes that are free on the file system.
fn left(path: &Path) -> u64 {
    let disk = rustix::fs::statvfs(path).unwrap();
    disk.f_bavail * disk.f_frsize
}

fn pod(name: &str) -> Pod {
    Pod::new(name).set("/spec/hostNetwork", true)
}

#[test]
fn images_that_nobody_needs_go_and_no_pod_does() {
    const THRESHOLD: u64 = 100 * MIB;
    let mut engine = Engine::new(&[]);
    engine.put_on_a_disk_of(300);
    engine.start_with_image();
    make_image(&engine, "wanted", 1000);
    // Just above the threshold the node is checked often.
    let mut made = 0;
    while left(&engine.data()) > THRESHOLD + 25 * MIB {
        made += 1;
        make_image(&engine, &format!("garbage-{made}"), 20 << 20);
    }
    assert!(left(&engine.data()) > THRESHOLD && made > 2, "{made} images");
    let node = node_on(
        &engine,
        &[
            "--eviction-hard=imagefs.available<100Mi",
            "--eviction-pressure-transition-period=5s",
            "--minimum-image-ttl-duration=0s",
        ],
    );
    node.write("p.yaml", pod("p").text());
    let wants = pod("q").set("/spec/nodeSelector/no", "node").set("/spec/containers/0/image", "wanted:1");
    node.write("q.yaml", wants.text());
    node.launch();
    node.wait_running("p", "app");
    node.wait_phase("q", "Failed");
    let before = lives(&node);
    assert!(!has(&node, "DiskPressure"));

    make_image(&engine, "garbage-last", 27 << 20);
    node.wait_until("the node has the condition", || has(&node, "DiskPressure"));
    node.wait_until("all images go that nobody needs", || names(&engine) == [IMAGE, "wanted:1"]);
    assert!(left(&engine.data()) > THRESHOLD);
    node.wait_until("the condition goes", || !has(&node, "DiskPressure"));
    let log = node.log();
    assert!(log.contains("Attempting to reclaim ephemeral-storage"), "the event of the node: {log}");
    assert_eq!(node.reason("p"), "");
    assert_untouched(&before, &node, "images were removed");
    drop(node);
}

/// podkeeper's root directory is on Docker's file system.
#[test]
fn who_fills_the_disk_with_its_log_goes_and_nobody_else() {
    let mut engine = Engine::new(&[]);
    engine.put_on_a_disk_of(300);
    engine.start_with_image();
    let node = node_on(
        &engine,
        &[
            "--eviction-hard=nodefs.available<100Mi",
            "--eviction-pressure-transition-period=5s",
            "--container-log-max-size=-1",
        ],
    );
    let root = engine.data().join("podkeeper");
    fs::create_dir(&root).unwrap();
    let bound = Command::new("mount").arg("--bind").args([&root, &node.root()]).status().unwrap();
    assert!(bound.success());
    // Data that belongs to no pod.
    let ballast = left(&engine.data()) - 125 * MIB;
    rustix::fs::fallocate(
        fs::File::create(engine.data().join("ballast")).unwrap(),
        rustix::fs::FallocateFlags::empty(),
        0,
        ballast,
    )
    .unwrap();
    let line = "x".repeat(1000);
    let some = format!("i=0; while [ $i -lt 5000 ]; do echo {line}; i=$((i+1)); done; ");
    let modest = format!("{some} trap 'exit 0' TERM; sleep 100000 & wait");
    let endless = format!("trap 'exit 0' TERM; while :; do {some} sleep 1; done");
    node.write("modest.yaml", pod("modest").script(&modest).text());
    node.launch();
    let stays = node.wait_running("modest", "app");
    node.wait_until("it has written its log", || left(&engine.data()) < 120 * MIB);
    assert!(!has(&node, "DiskPressure"));

    node.write("endless.yaml", pod("endless").script(&endless).text());
    node.wait_until("it is evicted", || node.reason("endless") == "Evicted");
    node.wait_gone("endless");
    let message = node.pod("endless").unwrap().status.unwrap().message.unwrap();
    let told = "The node was low on resource: ephemeral-storage. Threshold quantity: 100Mi, available: ";
    assert!(message.starts_with(told) && message.contains("Container app was using "), "{message}");
    node.wait_until("its log is gone", || left(&engine.data()) > 110 * MIB);
    assert_eq!(node.reason("modest"), "");
    assert_eq!(node.wait_running("modest", "app").id, stays.id);
    drop(node);
}

/// Like the old kubelet: no pod is admitted while so little is free, running pods stay, and a refused pod is tried
/// again when there is room.
#[test]
fn a_disk_that_is_nearly_full_admits_no_pod() {
    let mut engine = Engine::new(&[]);
    engine.put_on_a_disk_of(300);
    engine.start_with_image();
    let node = node_on(
        &engine,
        &[
            "--low-diskspace-threshold-mb=100",
            "--eviction-hard=memory.available<1Mi",
            "--eviction-pressure-transition-period=5s",
        ],
    );
    node.write("early.yaml", pod("early").text());
    node.launch();
    let early = node.wait_running("early", "app");
    assert!(!has(&node, "OutOfDisk"));

    let ballast = engine.data().join("ballast");
    let file = fs::File::create(&ballast).unwrap();
    let length = left(&engine.data()) - 80 * MIB;
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, length).unwrap();
    node.wait_until("the node has the condition", || has(&node, "OutOfDisk"));
    node.write("late.yaml", pod("late").text());
    node.wait_until("it is refused", || node.reason("late") == "OutOfDisk");
    let message = node.pod("late").unwrap().status.unwrap().message.unwrap();
    assert_eq!(message, "Pod was rejected: cannot be started due to lack of disk space.");
    assert_eq!(node.wait_running("early", "app").id, early.id);
    // A pod that already runs when the daemon starts is not stopped either.
    node.remove("late.yaml");
    node.wait_until("it is gone", || node.pod("late").is_none());
    node.restart();
    node.wait_until("the new daemon knows", || has(&node, "OutOfDisk"));
    node.write("late.yaml", pod("late").text());
    node.wait_until("it is refused again", || node.reason("late") == "OutOfDisk");
    assert_eq!(node.wait_running("early", "app").id, early.id);

    fs::remove_file(&ballast).unwrap();
    node.wait_until("the condition goes", || !has(&node, "OutOfDisk"));
    node.wait_running("late", "app");
    assert_eq!(node.wait_running("early", "app").id, early.id);
    drop(node);
}

/// Its data is removed after its end, which takes a while: no other pod is evicted for the room that is freed then.
#[test]
fn who_fills_the_disk_in_its_layer_goes_and_what_it_leaves_is_awaited() {
    let mut engine = Engine::new(&[]);
    engine.put_on_a_disk_of(300);
    engine.start_with_image();
    let flags = ["--eviction-hard=imagefs.available<100Mi", "--eviction-pressure-transition-period=5s"];
    let node = node_on(&engine, &flags);
    let writes = |name: &str, mebibytes: u32| {
        let script = format!(
            "dd if=/dev/zero of=/data bs=1M count={mebibytes}; trap 'exit 0' TERM; sleep 100000 & wait"
        );
        pod(name).script(&script).text()
    };
    let names = ["modest-a", "modest-b", "modest-c"];
    for name in names {
        node.write(&format!("{name}.yaml"), writes(name, 12));
    }
    node.launch();
    let stay: Vec<String> = names.iter().map(|name| node.wait_running(name, "app").id).collect();
    node.wait_until("they have written", || left(&engine.data()) < 240 * MIB);
    let most = left(&engine.data()) / MIB;
    node.write("greedy.yaml", writes("greedy", u32::try_from(most - 60).unwrap()));
    node.wait_until("it is evicted", || node.reason("greedy") == "Evicted");
    node.wait_gone("greedy");
    node.wait_until("the condition goes", || !has(&node, "DiskPressure"));
    for (name, id) in names.iter().zip(stay) {
        assert_eq!((node.reason(name), node.wait_running(name, "app").id), (String::new(), id), "{name}");
    }
    drop(node);
}

/// Regression: the container is kept for its log, and is not garbage: no pod was evicted for it, and the node stayed
/// short for ever.
#[test]
fn who_has_left_much_in_a_container_that_has_crashed_goes() {
    let mut engine = Engine::new(&[]);
    engine.put_on_a_disk_of(300);
    engine.start_with_image();
    let flags = ["--eviction-hard=imagefs.available<100Mi", "--eviction-pressure-transition-period=5s"];
    let node = node_on(&engine, &flags);
    let most = left(&engine.data()) / MIB;
    let script = format!(
        "trap 'exit 0' TERM; if [ -e /data/x ]; then sleep 100000 & wait; fi; touch /data/x; \
         dd if=/dev/zero of=/big bs=1M count={}; exit 1",
        most - 60
    );
    let volume = serde_json::json!([{"name": "data", "emptyDir": {}}]);
    let mounts = serde_json::json!([{"name": "data", "mountPath": "/data"}]);
    let crashed = pod("crashed").script(&script).set("/spec/volumes", volume);
    node.write("crashed.yaml", crashed.set("/spec/containers/0/volumeMounts", mounts).text());
    node.launch();
    node.wait_until("it is evicted", || node.reason("crashed") == "Evicted");
    node.wait_until("the room is free", || left(&engine.data()) > 150 * MIB);
    node.wait_until("the condition goes", || !has(&node, "DiskPressure"));
    drop(node);
}
