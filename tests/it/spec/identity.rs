//! Users and rights of containers, on the real Docker, checked from inside.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::pods::{OBEYS, Pod};
use crate::harness::{Node, Options};

/// Output of the first container, which then keeps running.
fn says(node: &Node, pod: &str, wanted: &str) -> String {
    node.wait_for(&format!("{pod} says {wanted}"), || {
        let logs = node.podkeeper(&["logs", pod, "-c", "app"]);
        let text = String::from_utf8_lossy(&logs.stdout).into_owned();
        text.contains(wanted).then_some(text)
    })
}

fn pod(name: &str, script: &str, context: Value) -> Pod {
    Pod::new(name)
        .script(&format!("{script}; echo done; {OBEYS}"))
        .set("/spec/containers/0/securityContext", context)
}

/// The value of one line of `/proc/self/status`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {text}")).trim()
}

const STATUS: &str = "cat /proc/self/status";

#[test]
fn identity_and_power() {
    let node = Node::start();
    let ids = pod("ids", STATUS, json!({"runAsGroup": 3001})).set(
        "/spec/securityContext",
        json!({"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4000]}),
    );
    let group = pod("group", STATUS, json!({"runAsGroup": 3000}));
    let caps = pod("caps", STATUS, json!({"capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}));
    let nnp = pod("nnp", STATUS, json!({"allowPrivilegeEscalation": false}));
    let open = pod("open", STATUS, json!({"seccompProfile": {"type": "Unconfined"}}));
    let read_only = pod("ro", "touch /x 2>&1; echo $?", json!({"readOnlyRootFilesystem": true}));
    for (name, pod) in
        [("ids", ids), ("group", group), ("caps", caps), ("nnp", nnp), ("open", open), ("ro", read_only)]
    {
        node.write(&format!("{name}.yaml"), pod.text());
    }
    let ids = says(&node, "ids", "done");
    assert_eq!(field(&ids, "Uid"), "1000\t1000\t1000\t1000");
    assert_eq!(field(&ids, "Gid"), "3001\t3001\t3001\t3001");
    let mut groups: Vec<&str> = field(&ids, "Groups").split_whitespace().collect();
    groups.retain(|group| *group != "3001");
    assert_eq!(groups, ["2000", "4000"]);
    let group = says(&node, "group", "done");
    assert_eq!((field(&group, "Uid"), field(&group, "Gid")), ("0\t0\t0\t0", "3000\t3000\t3000\t3000"));
    let caps = says(&node, "caps", "done");
    assert_eq!(field(&caps, "CapEff"), "0000000000001000");
    assert_eq!(field(&caps, "Seccomp"), "2", "Docker's default profile");
    assert_eq!(field(&caps, "NoNewPrivs"), "0");
    assert_eq!(field(&says(&node, "nnp", "done"), "NoNewPrivs"), "1");
    assert_eq!(field(&says(&node, "open", "done"), "Seccomp"), "0");
    assert!(says(&node, "ro", "done").contains("Read-only file system"));
}

#[test]
fn run_as_non_root() {
    let node = Node::start();
    let wants = json!({"runAsNonRoot": true});
    node.write("image.yaml", pod("image", "id", wants.clone()).text());
    let zero = json!({"runAsNonRoot": true, "runAsUser": 0});
    node.write("zero.yaml", pod("zero", "id", zero).text());
    let fine = json!({"runAsNonRoot": true, "runAsUser": 7});
    node.write("fine.yaml", pod("fine", "id", fine).text());
    let message = |pod: &str| {
        node.wait_until(&format!("{pod} is refused"), || {
            node.waits_for(pod, "app") == "CreateContainerConfigError"
        });
        let waiting = node.container_status(pod, "app").and_then(|c| c.state?.waiting).unwrap();
        waiting.message.unwrap()
    };
    assert!(message("image").starts_with("container has runAsNonRoot and image will run as root (pod: "));
    assert!(message("zero").starts_with("container's runAsUser breaks non-root policy (pod: "));
    node.wait_running("fine", "app");
    // Another manifest is tried again.
    node.write("image.yaml", pod("image", "id", json!({"runAsNonRoot": true, "runAsUser": 8})).text());
    node.wait_running("image", "app");
}

#[test]
fn a_seccomp_profile_of_the_node() {
    let node = Node::prepare(Options::default());
    let directory = node.root().join("seccomp/profiles");
    fs::create_dir_all(&directory).unwrap();
    let forbids = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}],
    });
    fs::write(directory.join("no-mkdir.json"), format!("{forbids:#}")).unwrap();
    node.launch();
    let of = |profile: &str| json!({"seccompProfile": {"type": "Localhost", "localhostProfile": profile}});
    let script = "mkdir /tmp/x 2>&1; echo $?; touch /tmp/y && echo touched";
    node.write("here.yaml", pod("here", script, of("profiles/no-mkdir.json")).text());
    node.write("late.yaml", pod("late", script, of("profiles/late.json")).text());
    let here = says(&node, "here", "done");
    assert!(here.contains("Operation not permitted") && here.contains("touched"), "{here}");
    node.wait_until("the missing profile is told", || {
        let waiting = node.container_status("late", "app").and_then(|c| c.state?.waiting);
        waiting.is_some_and(|w| {
            w.reason.as_deref() == Some("CreateContainerConfigError")
                && w.message
                    .is_some_and(|m| m.contains("cannot load seccomp profile") && m.contains("late.json"))
        })
    });
    // It is tried again by itself.
    fs::write(directory.join("late.json"), "{\"defaultAction\": \"SCMP_ACT_ALLOW\"}").unwrap();
    says(&node, "late", "touched");
}

#[test]
fn sysctls() {
    let node = Node::with(Options::flags(&["--allowed-unsafe-sysctls", "kernel.shm*,net.core.somaxconn"]));
    let script = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shmmni /proc/sys/net/core/somaxconn";
    let set = |name: &str, sysctls: Value| {
        let pod = Pod::new(name).script(&format!("{script}; echo done; {OBEYS}"));
        node.write(&format!("{name}.yaml"), pod.set("/spec/securityContext/sysctls", sysctls).text());
    };
    set(
        "set",
        json!([
            {"name": "net.ipv4.ip_unprivileged_port_start", "value": "77"},
            {"name": "kernel/shmmni", "value": "123"},
            {"name": "net.core.somaxconn", "value": "99"},
        ]),
    );
    set("no", json!([{"name": "kernel.msgmax", "value": "8192"}]));
    assert!(says(&node, "set", "done").starts_with("77\n123\n99\n"));
    node.wait_phase("no", "Failed");
    assert_eq!(node.reason("no"), "SysctlForbidden");
    let message = node.pod("no").unwrap().status.unwrap().message.unwrap();
    assert_eq!(message, "Pod was rejected: forbidden sysctl: \"kernel.msgmax\" not allowlisted");
    assert!(node.of("no").is_empty());
}

#[test]
fn devices() {
    let file = std::env::temp_dir().join(format!("podkeeper-devices-{}.yaml", std::process::id()));
    let settings = "apiVersion: podkeeper.dev/v1alpha1
kind: PodkeeperConfiguration
devices: {zero: /dev/zero:/dev/nought:r, full: [/dev/full]}
allowedDevices: [/dev/kmsg, /dev/podkeeper-*]
";
    std::fs::write(&file, settings).unwrap();
    let node = Node::with(Options::flags(&["--config", file.to_str().unwrap()]));
    let annotation = "/metadata/annotations/podkeeper.dev~1device";
    let look = "ls -l /dev | grep -c -e kmsg -e nought; head -c 3 /dev/nought | wc -c";
    let asks = |name: &str, count: u32| {
        Pod::new(name)
            .script(&format!("{look}; echo done; {OBEYS}"))
            .set("/spec/containers/0/resources/limits/podkeeper.dev~1zero", count)
    };
    node.write("has.yaml", asks("has", 1).set(annotation, "app=/dev/kmsg:r").text());
    let has = says(&node, "has", "done");
    assert!(has.starts_with("2\n3\n"), "{has}");
    // There is one unit of the device, and it is taken.
    node.write("more.yaml", asks("more", 1).text());
    node.wait_phase("more", "Failed");
    assert_eq!(node.reason("more"), "OutOfpodkeeper.dev/zero");
    node.restart();
    node.wait_running("has", "app");
    node.wait_until("it is still taken", || node.reason("more") == "OutOfpodkeeper.dev/zero");
    node.remove("has.yaml");
    node.wait_running("more", "app");
    // A device that may not be named, and one that does not exist.
    node.write("no.yaml", Pod::new("no").set(annotation, "/dev/mem").text());
    node.wait_phase("no", "Failed");
    assert_eq!(node.reason("no"), "Forbidden");
    node.write("gone.yaml", Pod::new("gone").set(annotation, "/dev/podkeeper-none").text());
    node.wait_until("the missing device is told", || {
        let waiting = node.container_status("gone", "app").and_then(|c| c.state?.waiting);
        waiting.and_then(|w| w.message).is_some_and(|m| m.contains("device /dev/podkeeper-none is not there"))
    });
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_gpu_that_nobody_has_is_told_in_dockers_words() {
    let node = Node::start();
    let pod = Pod::new("gpu").set("/spec/containers/0/resources/limits/nvidia.com~1gpu", 1);
    node.write("gpu.yaml", pod.text());
    node.wait_until("Docker's refusal is told", || {
        let state = node.container_status("gpu", "app").and_then(|c| serde_json::to_string(&c).ok());
        state.is_some_and(|text| text.contains("could not select device driver"))
    });
}

#[test]
fn windows_and_user_namespaces_are_refused_by_name() {
    let node = Node::start();
    let check = |name: &str, pod: Pod, part: &str| {
        let path = node.base.join(format!("{name}.yaml"));
        fs::write(&path, pod.text()).unwrap();
        let told = Command::new(env!("CARGO_BIN_EXE_podkeeper")).arg("check").arg(&path).output().unwrap();
        let text =
            String::from_utf8_lossy(&told.stdout).into_owned() + &String::from_utf8_lossy(&told.stderr);
        assert!(!told.status.success() && text.contains(part), "{text}");
    };
    check("users", Pod::new("users").set("/spec/hostUsers", false), "spec.hostUsers: not supported");
    let windows = json!({"runAsUserName": "x"});
    check(
        "windows",
        Pod::new("windows").set("/spec/securityContext/windowsOptions", windows),
        "spec.securityContext.windowsOptions: not supported",
    );
    let strict = Pod::new("strict").set("/spec/securityContext/supplementalGroupsPolicy", "Strict");
    check("strict", strict, "supplementalGroupsPolicy: not supported");
}
