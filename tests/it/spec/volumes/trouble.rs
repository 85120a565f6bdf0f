//! Volumes that are busy, many, late, or made by a daemon that was killed; and the effects of mounts on the host.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use podkeeper::testing::runtime::labels;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use serde_json::{Value, json};

use crate::harness::pods::Pod;
use crate::harness::{Node, Options};

use super::*;

/// A process on the host uses a volume: the volume is left alone until the process ends, and no other pod waits.
#[test]
fn a_busy_mount_holds_up_its_own_pod_alone() {
    let node = Node::start();
    let pod = |name: &str| {
        volumes(
            Pod::new(name),
            json!([{"name": "m", "emptyDir": {"medium": "Memory"}}]),
            json!([{"name": "m", "mountPath": "/m"}]),
        )
        .text()
    };
    node.write("busy.yaml", pod("busy"));
    node.write("idle.yaml", pod("idle"));
    let dir = |uid: &str| node.root().join("pods").join(uid);
    let busy = dir(&uid(&node, "busy"));
    let idle = dir(&uid(&node, "idle"));
    let volume = busy.join("volumes/kubernetes.io~empty-dir/m");
    let mut user =
        Command::new("sleep").arg("1000").current_dir(&volume).stdin(Stdio::null()).spawn().unwrap();
    node.remove("busy.yaml");
    node.remove("idle.yaml");
    node.wait_until("the other one is gone", || !idle.exists());
    node.wait_until("that it is busy is told", || {
        node.log().contains("FailedUnMount: volumes cannot be taken down")
    });
    assert!(volume.exists() && node.mounts().len() == 1);
    // The same name under another UID does not wait for it.
    node.write("busy.yaml", Pod::new("busy").text());
    node.wait_running("busy", "app");
    user.kill().unwrap();
    user.wait().unwrap();
    node.wait_until("it is taken down later", || node.mounts().is_empty() && !busy.exists());
}

#[test]
fn a_hundred_volumes_in_a_pod() {
    let node = Node::start();
    let (mut list, mut mounts, mut data) = (Vec::new(), Vec::new(), serde_json::Map::new());
    for n in 0..100 {
        data.insert(format!("k{n}"), json!(format!("value {n}")));
        let item = json!([{"key": format!("k{n}"), "path": "file"}]);
        list.push(match n % 3 {
            0 => json!({"name": format!("v{n}"), "secret": {"secretName": "s", "items": item}}),
            1 => json!({"name": format!("v{n}"), "configMap": {"name": "c", "items": item}}),
            _ => json!({"name": format!("v{n}"), "emptyDir": {}}),
        });
        mounts.push(json!({"name": format!("v{n}"), "mountPath": format!("/v/{n}")}));
    }
    let objects =
        [object("Secret", "s", Value::Object(data.clone())), object("ConfigMap", "c", Value::Object(data))];
    let pod = volumes(Pod::new("many"), Value::Array(list), Value::Array(mounts));
    let begun = Instant::now();
    node.write("many.yaml", format!("{}\n---\n{}\n---\n{}", objects[0], objects[1], pod.text()));
    node.wait_running("many", "app");
    eprintln!("a pod of 100 volumes ran in {:?}", begun.elapsed());
    let said = inside(
        &node,
        "many",
        "app",
        "cat /v/*/file | wc -c; cat /v/99/file; grep -c ' /v/' /proc/self/mountinfo",
    );
    assert!(said.ends_with("value 99100"), "{said}");
    assert_eq!(node.mounts().len(), 34);
    let begun = Instant::now();
    node.remove("many.yaml");
    wait_clean(&node);
    eprintln!("and was gone in {:?}", begun.elapsed());
}

/// A Secret's value is in memory and in its container, but not on any disk.
#[test]
fn k12396_a_secret_in_a_volume_is_on_no_disk() {
    const CANARY: &str = "canary-9f3b77c1d2-in-a-volume";
    let node = Node::with(Options::default());
    let pod = volumes(
        Pod::new("holds"),
        json!([
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "p", "projected": {"sources": [{"secret": {"name": "s"}}]}},
        ]),
        json!([
            {"name": "s", "mountPath": "/s"},
            {"name": "p", "mountPath": "/p"},
            {"name": "s", "mountPath": "/alone", "subPath": "password"},
        ]),
    );
    let secret = object("Secret", "s", json!({"password": CANARY}));
    node.write("holds.yaml", format!("{secret}\n---\n{}", pod.text()));
    let app = node.wait_running("holds", "app");
    assert_eq!(inside(&node, "holds", "app", "cat /s/password /p/password /alone"), CANARY.repeat(3));
    // The manifest itself belongs to the operator.
    let mut looked_at = 0;
    let mut open = vec![node.root(), node.run_dir(), node.pod_logs(), node.base.join("log")];
    open.push(Path::new("/var/lib/docker/containers").join(&app.id));
    let device = fs::metadata(node.root()).unwrap().dev();
    while let Some(path) = open.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() && meta.dev() == device {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if meta.is_file() && meta.dev() == device {
            looked_at += 1;
            let bytes = fs::read(&path).unwrap();
            assert!(!bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes()), "{path:?}");
        }
    }
    assert!(looked_at > 5, "{looked_at}");
    assert!(!node.inspect(&app.id).to_string().contains(CANARY));
    assert!(!node.says(&["get", "pods", "-o", "json"]).contains(CANARY));
}

/// Whenever it is killed, the next daemon reaches the same result: wanted volumes are used, others are removed.
#[test]
fn a_daemon_that_was_killed_has_a_successor_that_finishes() {
    let node = Node::start();
    let pod = |name: &str| {
        volumes(
            Pod::new(name),
            json!([
                {"name": "m", "emptyDir": {"medium": "Memory"}},
                {"name": "d", "emptyDir": {}},
                {"name": "s", "secret": {"secretName": "s"}},
            ]),
            json!([
                {"name": "m", "mountPath": "/m"},
                {"name": "d", "mountPath": "/d"},
                {"name": "s", "mountPath": "/s"},
                {"name": "d", "mountPath": "/part", "subPath": "p"},
            ]),
        )
        .text()
    };
    node.write("s.yaml", object("Secret", "s", json!({"k": "v"})).to_string());
    for name in ["stays", "stopped", "vanishes"] {
        node.write(&format!("{name}.yaml"), pod(name));
    }
    let stays = node.wait_running("stays", "app");
    inside(&node, "stays", "app", "echo kept >/m/f; echo kept >/d/f");
    for name in ["stopped", "vanishes"] {
        node.wait_running(name, "app");
    }
    node.kill9();
    // While no daemon runs, a manifest is removed, and a pod with all its containers disappears.
    node.remove("stopped.yaml");
    node.remove("vanishes.yaml");
    for container in node.of("vanishes") {
        node.remove_container(&container.id);
    }
    assert_eq!(pod_dirs(&node).len(), 3);
    node.launch();
    let only = node.root().join("pods").join(&stays.uid);
    node.wait_until("only one is left", || pod_dirs(&node) == BTreeSet::from([only.clone()]));
    assert_eq!(node.mounts().len(), 3, "{:?}", node.mounts());
    assert_eq!(node.running("stays", "app"), [stays]);
    assert_eq!(inside(&node, "stays", "app", "cat /m/f /d/f /s/k"), "kept\nkept\nv");
    // In the middle of setting up and of removing.
    for round in 0..6 {
        let name = format!("r{round}");
        node.write(&format!("{name}.yaml"), pod(&name));
        let begun = Instant::now();
        node.comes_true(|| begun.elapsed() > Duration::from_millis(round * 15));
        node.kill9();
        node.launch();
        node.wait_running(&name, "app");
        node.remove(&format!("{name}.yaml"));
        let begun = Instant::now();
        node.comes_true(|| begun.elapsed() > Duration::from_millis(round * 300));
        node.kill9();
        node.launch();
        node.wait_gone(&name);
    }
    node.wait_until("again only one is left", || pod_dirs(&node) == BTreeSet::from([only.clone()]));
    // A reboot clears the memory, and leaves the disk.
    node.stop();
    for container in node.of("stays") {
        node.kill_container(&container.id, "KILL");
    }
    node.wait_gone("stays");
    for mounted in node.mounts().iter().rev() {
        unmount(mounted, UnmountFlags::empty()).unwrap();
    }
    node.launch();
    node.wait_running("stays", "app");
    assert_eq!(inside(&node, "stays", "app", "ls /m; cat /d/f /s/k; ls -d /part"), "kept\nv/part");
    node.remove("stays.yaml");
    node.wait_gone("stays");
    wait_clean(&node);
}

#[test]
fn a_pod_that_ended_gives_its_volumes_back_and_one_that_waits_gets_them_late() {
    let node = Node::start();
    let ends = volumes(
        Pod::new("ends").script("echo done >/m/f").restart_policy("Never"),
        json!([{"name": "m", "emptyDir": {"medium": "Memory"}}, {"name": "d", "emptyDir": {}}]),
        json!([{"name": "m", "mountPath": "/m"}, {"name": "d", "mountPath": "/d"}]),
    );
    node.write("ends.yaml", ends.text());
    node.wait_phase("ends", "Succeeded");
    node.wait_until("its volumes are gone", || node.mounts().is_empty());
    assert!(node.of("ends").iter().any(|c| c.container == "app"), "its container is kept for the log");
    let late = volumes(
        Pod::new("late"),
        json!([{"name": "c", "configMap": {"name": "c"}}, {"name": "h", "hostPath": {"path": node.base.join("f").display().to_string(), "type": "File"}}]),
        json!([{"name": "c", "mountPath": "/c"}, {"name": "h", "mountPath": "/h"}]),
    );
    node.write("late.yaml", late.text());
    node.wait_until("both failures are told", || {
        let events = node.says(&["get", "events"]);
        events.contains("FailedMount")
            && events.contains("MountVolume.SetUp failed for volume \"c\" : configmap \"c\" not found")
            && events.contains("hostPath type check failed")
    });
    assert_eq!(node.waits_for("late", "app"), "ContainerCreating");
    assert!(node.of("late").is_empty(), "not even a sandbox");
    fs::write(node.base.join("f"), "host").unwrap();
    node.write("c.yaml", object("ConfigMap", "c", json!({"k": "v"})).to_string());
    node.wait_running("late", "app");
    assert_eq!(inside(&node, "late", "app", "cat /c/k /h"), "vhost");
}

/// Docker would show an empty directory in place of a Secret: that is reported, and no pod starts without the Secret.
#[test]
fn a_daemon_whose_mounts_docker_does_not_see_says_so() {
    let node = Node::with(Options { own_mounts: true, ..Options::default() });
    node.write("s.yaml", object("Secret", "s", json!({"k": "v"})).to_string());
    let hidden = volumes(
        Pod::new("hidden"),
        json!([{"name": "s", "secret": {"secretName": "s"}}]),
        json!([{"name": "s", "mountPath": "/s"}]),
    );
    let plain = volumes(
        Pod::new("plain"),
        json!([{"name": "d", "emptyDir": {}}]),
        json!([{"name": "d", "mountPath": "/d"}]),
    );
    node.write("hidden.yaml", hidden.text());
    node.write("plain.yaml", plain.text());
    node.wait_running("plain", "app");
    node.wait_until("it says why", || {
        node.says(&["get", "events"]).contains("Docker does not see what podkeeper mounts")
    });
    assert!(node.of("hidden").is_empty());
    node.remove("hidden.yaml");
    node.remove("plain.yaml");
    node.wait_until("nothing is left", || pod_dirs(&node).is_empty());
}

/// A later mount on the host is visible where that was requested, and only there.
#[test]
fn mounts_of_the_host_spread_into_a_container() {
    let node = Node::start();
    let shared = node.base.join("shared");
    fs::create_dir(&shared).unwrap();
    mount("tmpfs", &shared, "tmpfs", MountFlags::empty(), None).unwrap();
    mount_change(&shared, MountPropagationFlags::SHARED).unwrap();
    fs::create_dir(shared.join("below")).unwrap();
    let pod = volumes(
        Pod::new("spread"),
        json!([{"name": "h", "hostPath": {"path": shared.display().to_string()}}]),
        json!([
            {"name": "h", "mountPath": "/slave", "mountPropagation": "HostToContainer"},
            {"name": "h", "mountPath": "/private"},
        ]),
    );
    node.write("spread.yaml", pod.text());
    node.wait_running("spread", "app");
    mount("tmpfs", shared.join("below"), "tmpfs", MountFlags::empty(), None).unwrap();
    fs::write(shared.join("below/new"), "").unwrap();
    assert_eq!(inside(&node, "spread", "app", "ls /slave/below"), "new");
    assert_eq!(inside(&node, "spread", "app", "ls /private/below"), "");
    let sandbox = node.running("spread", labels::SANDBOX_NAME);
    assert_eq!(sandbox.len(), 1);
    node.remove("spread.yaml");
    node.wait_gone("spread");
    unmount(shared.join("below"), UnmountFlags::empty()).unwrap();
    unmount(&shared, UnmountFlags::empty()).unwrap();
}
