//! A source that is not trusted asks for hundreds of volumes of Secrets, which lie in memory.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use podkeeper::testing::base::limits;
use serde_json::json;

use crate::harness::hostile::{Server, ok};
use crate::harness::pods::Pod;
use crate::harness::{Node, Options};

const MIB: u64 = 1 << 20;
const PODS: usize = 60;
const VOLUMES: usize = 40;

/// A figure of a file of `/proc`, in bytes when the kernel gives KiB.
fn figure(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap().trim();
    let number = line.trim_end_matches(" kB");
    number.parse::<u64>().unwrap() * if number == line { 1 } else { 1024 }
}

fn threads_at_volumes(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks.filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|it| it == "pk-vol\n")).count()
}

/// Bytes in the file systems that are mounted below the node's root directory.
fn in_memory(node: &Node) -> u64 {
    let used =
        |at: &std::path::PathBuf| rustix::fs::statvfs(at).map_or(0, |it| (it.f_blocks - it.f_bfree) * 4096);
    node.mounts().iter().map(used).sum()
}

fn pod(name: &str, volumes: usize) -> Pod {
    let volume = |n| json!({"name": format!("v{n}"), "secret": {"secretName": "s"}});
    let mount = |n| json!({"name": format!("v{n}"), "mountPath": format!("/v{n}")});
    let context =
        json!({"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}});
    let own = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    Pod::new(name)
        .set("/spec/volumes", (0..volumes).map(volume).collect::<Vec<_>>())
        .set("/spec/securityContext", context)
        .set("/spec/containers/0/volumeMounts", (0..volumes).map(mount).collect::<Vec<_>>())
        .set("/spec/containers/0/securityContext", own)
        .set("/spec/containers/0/imagePullPolicy", "IfNotPresent")
}

fn secret(bytes: usize) -> String {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "x".repeat(bytes)}})
        .to_string()
}

/// 109 threads held files, mounts and tables of mounts at once: 177 MB on a node of 256, and both of its processors.
#[test]
fn many_volumes_of_secrets_of_one_source_take_little_of_the_node() {
    let server = Server::start();
    let url = format!("--manifest-url={}", server.url());
    let reserved = (figure("/proc/meminfo", "MemTotal") - 256 * MIB) / MIB;
    let reserved = format!("--system-reserved=memory={reserved}Mi");
    let node = Node::with(Options::flags(&[
        "--docker-endpoint=fake://",
        &url,
        "--http-check-frequency=200ms",
        "--source-policy=http=pod-security=restricted",
        &reserved,
    ]));
    let pid = node.pid().unwrap();
    let status = format!("/proc/{pid}/status");
    let before = figure(&status, "VmRSS");
    let items: Vec<String> =
        (0..PODS).map(|n| pod(&format!("p{n}"), VOLUMES).text()).chain([secret(400_000)]).collect();
    server.send(ok("", format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, items.join(","))));
    node.wait_until("the pods are known", || node.status().is_some_and(|it| it.pods.len() > PODS / 2));
    // A pod of the trusted source gets what the other one cannot take.
    node.write("mine.yaml", format!("{}\n---\n{}\n", pod("mine", 20).text(), secret(400_000)));
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        let threads = threads_at_volumes(pid);
        assert!(threads <= 2 * limits::VOLUMES_AT_ONCE + 2, "{threads} threads");
        let mounts = node.mounts().len();
        assert!(mounts <= 20 + 16 * MIB as usize / 400_000, "{mounts} mounts");
        sleep(Duration::from_millis(20));
    }
    node.wait_phase("mine", "Running");
    let (taken, peak) = (in_memory(&node), figure(&status, "VmHWM"));
    assert!(taken <= 8 * MIB + 16 * MIB, "{taken} bytes in memory");
    assert!(peak - before <= 40 * MIB, "{before} bytes before, {peak} at most");
    let words = "of sources that are behind others would take";
    let has_words = |n| serde_json::to_string(&node.pod(&format!("p{n}"))).unwrap().contains(words);
    assert!((0..PODS).any(has_words), "{}", node.full("p0"));
}
