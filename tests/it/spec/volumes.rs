//! Volumes on the real Docker: a process's view of them, the effects of changes, and the remains in
//! the end.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::Node;
use crate::harness::pods::{OBEYS, Pod, container};

/// Time limit until a change of a manifest is seen inside.
const SOON: Duration = Duration::from_secs(30);

/// Output of a script in a container, once there is one.
fn inside(node: &Node, pod: &str, container: &str, script: &str) -> String {
    let script = format!("{script}; true");
    let output = node.wait_for(&format!("a command runs in {pod}/{container}"), || {
        let output = node.podkeeper(&["exec", pod, "-c", container, "--", "sh", "-c", &script]);
        output.status.success().then_some(output)
    });
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn volumes(pod: Pod, volumes: Value, mounts: Value) -> Pod {
    pod.set("/spec/volumes", volumes).set("/spec/containers/0/volumeMounts", mounts)
}

fn object(kind: &str, name: &str, data: Value) -> Value {
    let field = if kind == "Secret" { "stringData" } else { "data" };
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: data})
}

fn claim(name: &str, mode: &str) -> String {
    let spec = json!({"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}});
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})
        .to_string()
}

/// The directories of pods.
fn pod_dirs(node: &Node) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(node.root().join("pods"));
    entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Waits until nothing of any pod is left on the host.
fn wait_clean(node: &Node) {
    node.wait_until("nothing is mounted, and no pod has a directory", || {
        node.mounts().is_empty() && pod_dirs(node).is_empty()
    });
}

fn uid(node: &Node, pod: &str) -> String {
    node.wait_running(pod, "app").uid
}

mod trouble;

#[test]
fn a_process_sees_what_was_asked_for_and_nothing_is_left() {
    let node = Node::start();
    let pod = volumes(
        Pod::new("sees").and(container("other", OBEYS)),
        json!([
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "c", "items": [{"key": "k", "path": "a/b/c"}]}},
                {"downwardAPI": {"items": [{"path": "uid", "fieldRef": {"fieldPath": "metadata.uid"}}]}}]}},
            {"name": "host", "hostPath": {"path": node.base.join("host/x").display().to_string()}},
        ]),
        json!([
            {"name": "disk", "mountPath": "/disk"},
            {"name": "disk", "mountPath": "/disk-ro", "readOnly": true},
            {"name": "memory", "mountPath": "/memory"},
            {"name": "config", "mountPath": "/config"},
            {"name": "secret", "mountPath": "/secret"},
            {"name": "all", "mountPath": "/all"},
            {"name": "host", "mountPath": "host/relative"},
            {"name": "disk", "mountPath": "/part", "subPath": "p/q"},
        ]),
    );
    let objects = [object("ConfigMap", "c", json!({"k": "v"})), object("Secret", "s", json!({"p": "w"}))];
    node.write("sees.yaml", format!("{}\n---\n{}\n---\n{}", objects[0], objects[1], pod.text()));
    let uid = uid(&node, "sees");
    node.wait_running("sees", "other");
    let mounts = inside(&node, "sees", "app", "cat /proc/self/mountinfo");
    let of = |place: &str| {
        let line = mounts.lines().find(|line| line.split(' ').nth(4) == Some(place));
        line.unwrap_or_else(|| panic!("{place} is no mount: {mounts}")).to_owned()
    };
    for place in ["/disk", "/memory", "/host/relative", "/part"] {
        assert!(of(place).contains(" rw,"), "{place}: {}", of(place));
    }
    for place in ["/disk-ro", "/config", "/secret", "/all"] {
        assert!(of(place).contains(" ro,"), "{place}: {}", of(place));
    }
    for (place, is) in
        [("/disk", false), ("/config", false), ("/memory", true), ("/secret", true), ("/all", true)]
    {
        assert_eq!(of(place).contains(" - tmpfs "), is, "{place}: {}", of(place));
    }
    let said = inside(
        &node,
        "sees",
        "app",
        "stat -c '%n %a %u:%g' /disk /disk/p/q; stat -Lc '%n %a %u:%g' /config/k /secret/p /all/a/b/c; cat /all/uid",
    );
    let expected =
        "/disk 777 0:0\n/disk/p/q 777 0:0\n/config/k 644 0:0\n/secret/p 400 0:0\n/all/a/b/c 644 0:0\n";
    assert_eq!(said, format!("{expected}{uid}"));
    assert_eq!(inside(&node, "sees", "app", "touch /part/x; ls /disk/p/q"), "x");
    assert_eq!(fs::metadata(node.base.join("host/x")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(node.mounts().len(), 4, "memory, secret, all, part: {:?}", node.mounts());
    let pod_dir = node.root().join("pods").join(uid);
    assert_eq!(fs::metadata(&pod_dir).unwrap().permissions().mode() & 0o7777, 0o750);
    node.remove("sees.yaml");
    wait_clean(&node);
    assert!(node.base.join("host/x").exists(), "what is the host's stays");
}

/// Changes reach files of running containers, except files that were bound individually and
/// immutable objects.
#[test]
fn a_changed_object_is_seen_by_a_running_process() {
    let node = Node::start();
    let text = |value: &str| {
        let mut fixed = object("ConfigMap", "fixed", json!({"k": value}));
        fixed["immutable"] = json!(true);
        let all = [
            object("ConfigMap", "c", json!({"k": value, value: "named"})),
            object("Secret", "s", json!({"p": format!("secret {value}")})),
            fixed,
        ];
        all.map(|one| one.to_string()).join("\n---\n")
    };
    node.write("objects.yaml", text("one"));
    // Prints a line whenever the content changes.
    let script = "trap 'exit 0' TERM; while :; do now=\"$(cat /c/k) $(cat /s/p)\"; [ \"$now\" = \"$last\" ] || echo \"$now\"; last=$now; usleep 50000; done";
    let pod = volumes(
        Pod::new("live").script(script),
        json!([
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "fixed", "configMap": {"name": "fixed"}},
        ]),
        json!([
            {"name": "c", "mountPath": "/c"},
            {"name": "s", "mountPath": "/s"},
            {"name": "fixed", "mountPath": "/fixed"},
            {"name": "c", "mountPath": "/alone", "subPath": "k"},
        ]),
    );
    node.write("live.yaml", pod.text());
    let before = node.wait_running("live", "app");
    let log = || node.says(&["logs", "live"]);
    node.wait_until("it sees the first values", || log() == "one secret one\n");
    let begun = Instant::now();
    node.write("objects.yaml", text("two"));
    node.wait_until("it sees the second ones", || log().ends_with("two secret two\n"));
    let took = begun.elapsed();
    assert!(took < SOON, "{took:?}");
    assert_eq!(
        inside(&node, "live", "app", "cat /alone; echo; cat /fixed/k; echo; ls /c"),
        "one\none\nk\ntwo"
    );
    assert_eq!(node.running("live", "app").first(), Some(&before), "nothing was restarted");
    // A new container gets the new content of the file.
    node.kill_container(&before.id, "KILL");
    node.wait_until("it runs again", || node.running("live", "app").first().is_some_and(|c| c.attempt == 1));
    node.wait_until("its part is the new one", || inside(&node, "live", "app", "cat /alone") == "two");
    // Without its objects the pod keeps running with its old data, also under a daemon that comes
    // back.
    node.remove("objects.yaml");
    node.wait_until("that is told", || {
        node.says(&["get", "events"])
            .contains("MountVolume.SetUp failed for volume \"c\" : configmap \"c\" not found")
    });
    node.restart();
    assert_eq!(inside(&node, "live", "app", "cat /c/k"), "two");
    node.remove("live.yaml");
    wait_clean(&node);
}

/// An init container leaves links in a volume, and a later container requests the files behind
/// them.
#[test]
fn k56625_a_link_in_a_volume_leads_nowhere() {
    let node = Node::start();
    let links = "cd /v && ln -s / root && ln -s ../../../../../.. up && mkdir d && ln -s ../.. d/out && ln -s d inner && echo mine >d/f";
    let with_mount = |mut it: Value, path: &str| {
        it["volumeMounts"] = json!([{"name": "v", "mountPath": "/v", "subPath": path}]);
        it
    };
    let mut init = container("init", links);
    init["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let mut pod = Pod::new("attack").init(init).set("/spec/volumes", json!([{"name": "v", "emptyDir": {}}]));
    for (name, path) in
        [("root", "root/var/run"), ("root2", "root"), ("up", "up"), ("out", "d/out/x"), ("fine", "inner")]
    {
        pod = pod.and(with_mount(container(name, OBEYS), path));
    }
    node.write("attack.yaml", pod.text());
    node.wait_running("attack", "fine");
    assert_eq!(inside(&node, "attack", "fine", "cat /v/f"), "mine", "a link that stays inside is followed");
    for (name, path) in [("root", "root/var/run"), ("root2", "root"), ("up", "up"), ("out", "d/out/x")] {
        // Each try shows it as being created for a moment.
        let message = node.wait_for(&format!("{name} is refused"), || {
            let waiting = node.container_status("attack", name)?.state?.waiting?;
            waiting.message.filter(|_| waiting.reason.as_deref() == Some("CreateContainerConfigError"))
        });
        let told = format!(
            "failed to prepare subPath for volumeMount \"v\" of container {name:?}: {path:?}: it leads out of the volume"
        );
        assert_eq!(message, told);
        assert!(node.of("attack").iter().all(|c| c.container != name));
    }
    node.remove("attack.yaml");
    wait_clean(&node);
    assert!(Path::new("/var/run").exists());
}

#[test]
fn a_claim_of_ten_thousand_files_is_given_to_a_group_and_outlives_its_pod() {
    const FILES: u32 = 10_000;
    let node = Node::start();
    let data = node.root().join("local-storage/default/data");
    for n in 0..FILES {
        let dir = data.join(format!("d{}", n % 100));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("f{n}")), "x").unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", data.join("link")).unwrap();
    let host = fs::metadata("/etc/passwd").unwrap();
    let pod = |name: &str, policy: &str| {
        volumes(
            Pod::new(name)
                .set("/spec/securityContext", json!({"fsGroup": 4242, "fsGroupChangePolicy": policy})),
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
            json!([{"name": "v", "mountPath": "/v"}]),
        )
    };
    node.write("claim.yaml", claim("data", "ReadWriteOncePod"));
    let begun = Instant::now();
    node.write("first.yaml", pod("first", "OnRootMismatch").text());
    node.wait_running("first", "app");
    eprintln!("{FILES} files were given to a group, and the pod ran, in {:?}", begun.elapsed());
    let right = |path: &Path| {
        let meta = fs::symlink_metadata(path).unwrap();
        let bits = if meta.is_dir() { 0o2770 } else { 0o660 };
        meta.gid() == 4242 && (meta.is_symlink() || meta.mode() & bits == bits)
    };
    for n in (0..FILES).step_by(97) {
        let path = data.join(format!("d{}/f{n}", n % 100));
        assert!(right(&path) && right(path.parent().unwrap()), "{path:?}");
    }
    assert!(right(&data) && right(&data.join("link")));
    let after = fs::metadata("/etc/passwd").unwrap();
    assert_eq!((host.gid(), host.mode(), host.ctime()), (after.gid(), after.mode(), after.ctime()));
    // The pod only needs the claim, and waits for it; a root directory that has the group already
    // is not walked again.
    std::os::unix::fs::chown(data.join("d1/f1"), None, Some(0)).unwrap();
    node.write("second.yaml", pod("second", "OnRootMismatch").text());
    node.wait_until("the second one waits", || {
        node.says(&["get", "events"]).contains("with the same name and ReadWriteOncePod access mode")
    });
    assert!(node.of("second").is_empty());
    node.remove("first.yaml");
    node.wait_running("second", "app");
    assert!(!right(&data.join("d1/f1")), "it was walked again");
    node.remove("second.yaml");
    wait_clean(&node);
    node.write("third.yaml", pod("third", "Always").text());
    node.wait_running("third", "app");
    assert!(right(&data.join("d1/f1")));
    assert_eq!(inside(&node, "third", "app", "ls /v/d7 | wc -l"), "100");
    node.remove("third.yaml");
    wait_clean(&node);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 101, "the claim's data are kept");
}
