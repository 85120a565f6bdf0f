//! Limits of containers and pods on the real Docker: their cgroups, the node's capacity, and other sizes
//! for running containers.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::PodCondition;
use podkeeper::testing::cgroup::node::MOUNT;
use serde_json::{Value, json};

use crate::harness::pods::{OBEYS, Pod};
use crate::harness::{Node, Options};

const MIB: u64 = 1 << 20;

fn sized(name: &str, resources: Value) -> Pod {
    Pod::new(name).set("/spec/containers/0/resources", resources)
}

/// Whether this machine mounts a hierarchy for each controller; the files of the other version are
/// checked by the tests of `cgroup::node`.
fn is_v1() -> bool {
    !Path::new(MOUNT).join("cgroup.controllers").exists()
}

/// The cgroup of a container, in the hierarchy of one controller.
fn cgroup(node: &Node, pod: &str, controller: &str) -> PathBuf {
    let running = node.wait_running(pod, "app");
    let parent = node.inspect(&running.id)["HostConfig"]["CgroupParent"].as_str().unwrap().to_owned();
    assert!(parent.contains("/kubepods/"), "{parent:?}");
    Path::new(MOUNT).join(controller).join(parent.trim_start_matches('/')).join(&running.id)
}

fn number(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.trim().parse().unwrap_or_else(|e| panic!("{}: {text}: {e}", path.display()))
}

fn condition(node: &Node, pod: &str, kind: &str) -> Option<PodCondition> {
    node.pod(pod)?.status?.conditions?.into_iter().find(|c| c.type_ == kind)
}

#[test]
fn containers_and_pods_have_their_limits_in_cgroups_of_version_1() {
    if !is_v1() {
        return;
    }
    let node = Node::with(Options::flags(&["--pod-max-pids", "50"]));
    let limits = json!({"limits": {"cpu": "200m", "memory": "32Mi"}});
    node.write("guaranteed.yaml", sized("guaranteed", limits).text());
    let requests = json!({"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}});
    node.write("burstable.yaml", sized("burstable", requests).text());
    node.write("besteffort.yaml", Pod::new("besteffort").text());
    let whole = json!({"limits": {"cpu": "300m", "memory": "48Mi"}});
    node.write("whole.yaml", Pod::new("whole").set("/spec/resources", whole).text());
    let cpu = |pod: &str| cgroup(&node, pod, "cpu");
    let memory = |pod: &str| cgroup(&node, pod, "memory");
    let of = |path: &Path, file: &str| number(&path.join(file));
    assert_eq!(of(&cpu("guaranteed"), "cpu.shares"), 204);
    assert_eq!(of(&cpu("guaranteed"), "cpu.cfs_quota_us"), 20_000);
    assert_eq!(of(&memory("guaranteed"), "memory.limit_in_bytes"), 32 * MIB);
    assert_eq!(of(&memory("burstable"), "memory.limit_in_bytes"), 64 * MIB);
    let pod_of = |path: PathBuf| path.parent().unwrap().to_owned();
    let (guaranteed, burstable) = (pod_of(cpu("guaranteed")), pod_of(cpu("burstable")));
    assert!(guaranteed.parent().unwrap().ends_with("kubepods"));
    assert!(burstable.parent().unwrap().ends_with("kubepods/burstable"));
    assert!(pod_of(cpu("besteffort")).parent().unwrap().ends_with("kubepods/besteffort"));
    assert_eq!(of(&guaranteed, "cpu.cfs_quota_us"), 20_000);
    assert_eq!(of(&burstable, "cpu.shares"), 102);
    assert_eq!(of(&pod_of(memory("burstable")), "memory.limit_in_bytes"), 64 * MIB);
    assert_eq!(of(&pod_of(cpu("besteffort")), "cpu.shares"), 2);
    assert_eq!(of(&pod_of(cgroup(&node, "besteffort", "pids")), "pids.max"), 50);
    assert_eq!(of(&pod_of(memory("whole")), "memory.limit_in_bytes"), 48 * MIB);
    assert_eq!(of(&pod_of(cpu("whole")), "cpu.cfs_quota_us"), 30_000);
    assert!(number(&memory("whole").join("memory.limit_in_bytes")) > 1 << 40, "its container has none");
    // The sandbox is in the pod's cgroup, too.
    let sandbox = node.of("burstable").into_iter().find(|c| c.is_sandbox()).unwrap();
    assert!(burstable.join(&sandbox.id).exists());
    // Nothing of it is left when the pod is gone.
    let all: Vec<PathBuf> = ["cpu", "memory", "pids", "cpuset", "freezer", "systemd"]
        .into_iter()
        .map(|controller| pod_of(cgroup(&node, "burstable", controller)))
        .collect();
    assert!(all.iter().all(|path| path.exists()), "{all:?}");
    node.remove("burstable.yaml");
    node.wait_until("its cgroups are gone", || !all.iter().any(|path| path.exists()));
    // The next daemon removes the cgroups of pods that disappeared while none ran.
    let left = pod_of(cpu("besteffort"));
    node.kill9();
    node.of("besteffort").iter().for_each(|c| node.remove_container(&c.id));
    node.remove("besteffort.yaml");
    assert!(left.exists());
    node.launch();
    node.wait_until("it is swept away", || !left.exists());
    assert!(guaranteed.exists());
}

/// From the first pod to the last the node has podkeeper's cgroups, and none before and after.
#[test]
fn no_cgroup_is_left_after_the_last_pod() {
    let root = format!("podkeeper-it-left-{}", std::process::id());
    let flag = format!("/{root}");
    let node = Node::with(Options::flags(&["--cgroup-root", &flag]));
    let all = || -> Vec<PathBuf> {
        let hierarchies = fs::read_dir(MOUNT).unwrap().flatten().map(|entry| entry.path());
        let whole = std::iter::once(PathBuf::from(MOUNT));
        let tops = whole.chain(hierarchies).map(|path| path.join(&root).join("kubepods"));
        tops.filter(|path| path.exists()).collect()
    };
    for class in ["burstable", "besteffort"] {
        let pod = match class {
            "burstable" => sized("p", json!({"requests": {"cpu": "100m"}})),
            _ => Pod::new("p"),
        };
        node.write("p.yaml", pod.text());
        node.wait_running("p", "app");
        assert!(!all().is_empty());
        node.remove("p.yaml");
        node.wait_gone("p");
        node.wait_until("no cgroup is left", || all().is_empty());
    }
    // Removed while no daemon ran.
    node.write("p.yaml", Pod::new("p").text());
    node.wait_running("p", "app");
    node.kill9();
    node.of("p").iter().for_each(|c| node.remove_container(&c.id));
    node.remove("p.yaml");
    assert!(!all().is_empty());
    node.launch();
    node.wait_until("no cgroup is left by the one before", || all().is_empty());
    for hierarchy in fs::read_dir(MOUNT).unwrap().flatten() {
        _ = fs::remove_dir(hierarchy.path().join(&root));
    }
    _ = fs::remove_dir(Path::new(MOUNT).join(&root));
}

#[test]
fn without_cgroups_of_pods_nothing_else_changes() {
    let node = Node::with(Options::flags(&["--cgroups-per-qos=false", "--pod-max-pids", "40"]));
    node.write("a.yaml", Pod::new("a").text());
    let first = node.wait_running("a", "app");
    let host = node.inspect(&first.id)["HostConfig"].clone();
    assert_eq!((host["CgroupParent"].as_str(), host["PidsLimit"].as_i64()), (Some(""), Some(40)));
    // Enabled later, it restarts nothing.
    node.options.borrow_mut().flags.clear();
    node.restart();
    node.write("b.yaml", Pod::new("b").text());
    let second = node.wait_running("b", "app");
    assert!(node.inspect(&second.id)["HostConfig"]["CgroupParent"].as_str().unwrap().contains("/kubepods/"));
    assert_eq!(node.wait_running("a", "app").id, first.id);
}

#[test]
fn sizes_change_without_a_restart() {
    let node = Node::start();
    let both = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "1", "memory": "128Mi"}});
    let pod = |cpu: &str, memory: &str| sized("r", both(cpu, memory));
    node.write("r.yaml", pod("100m", "32Mi").text());
    let first = node.wait_running("r", "app");
    let uid = node.pod("r").unwrap().metadata.uid;
    let limits =
        json!({"requests": {"cpu": "300m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "96Mi"}});
    node.write("r.yaml", sized("r", limits).text());
    let host = |id: &str| node.inspect(id)["HostConfig"].clone();
    let is = |id: &str, shares: i64, quota: i64, memory: u64| {
        let host = host(id);
        host["CpuShares"] == shares && host["CpuQuota"] == quota && host["Memory"] == memory
    };
    node.wait_until("the container has its new sizes", || is(&first.id, 307, 50_000, 96 * MIB));
    node.wait_until("the status says so", || {
        let status = node.container_status("r", "app");
        let memory = status.and_then(|s| s.resources?.limits?.get("memory").cloned());
        memory.is_some_and(|m| m.0 == "96Mi") && condition(&node, "r", "PodResizeInProgress").is_none()
    });
    if is_v1() {
        let path = cgroup(&node, "r", "memory");
        assert_eq!(number(&path.join("memory.limit_in_bytes")), 96 * MIB);
        // The pod's own cgroup shrinks after everything in it.
        let of_pod = path.parent().unwrap().join("memory.limit_in_bytes");
        node.wait_until("the pod's cgroup has its new size", || number(&of_pod) == 96 * MIB);
    }
    node.wait_until("its event is told", || node.says(&["get", "events"]).contains("ResizeCompleted"));
    // A daemon that starts now finds it in order.
    node.restart();
    node.wait_until("the pod is known again", || node.phase("r") == "Running");
    // Larger than the node: the pod keeps running with its old sizes.
    let huge =
        json!({"requests": {"cpu": "1000", "memory": "32Mi"}, "limits": {"cpu": "1000", "memory": "96Mi"}});
    node.write("r.yaml", sized("r", huge).text());
    node.wait_until("the wait for room is told", || {
        condition(&node, "r", "PodResizePending").is_some_and(|c| {
            c.reason.as_deref() == Some("Infeasible")
                && c.message.is_some_and(|m| {
                    m.starts_with("Node didn't have enough capacity: cpu, requested: 1000000")
                })
        })
    });
    node.write("r.yaml", pod("200m", "32Mi").text());
    node.wait_until("sizes that fit are given", || is(&first.id, 204, 100_000, 128 * MIB));
    node.wait_until("nothing waits", || condition(&node, "r", "PodResizePending").is_none());
    // Edited while no daemon ran.
    node.kill9();
    node.write("r.yaml", pod("400m", "32Mi").text());
    node.launch();
    node.wait_until("the edit is found", || is(&first.id, 409, 100_000, 128 * MIB));
    assert_eq!(node.wait_running("r", "app").id, first.id);
    // The first state of a daemon that has not looked yet has the UID of the edited text.
    node.wait_until("it is the same pod", || node.pod("r").unwrap().metadata.uid == uid);
}

/// The next daemon put sizes in force that the node does not have, and after a boot or a drain the pod stayed down.
#[test]
fn sizes_that_the_node_does_not_have_wait_for_ever() {
    let node = Node::start();
    node.write("r.yaml", sized("r", json!({"requests": {"cpu": "100m"}})).text());
    node.wait_phase("r", "Running");
    let first = node.wait_running("r", "app");
    // What it has got since counts, and not what it was made with.
    node.write("r.yaml", sized("r", json!({"requests": {"cpu": "200m"}})).text());
    let shares = || node.inspect(&node.wait_running("r", "app").id)["HostConfig"]["CpuShares"].clone();
    node.wait_until("it has its new sizes", || shares() == 204);
    node.write("r.yaml", sized("r", json!({"requests": {"cpu": "1000"}})).text());
    let waits = || {
        let pending = condition(&node, "r", "PodResizePending");
        let shown = node.says(&["get", "pods"]);
        pending.is_some_and(|c| c.reason.as_deref() == Some("Infeasible")) && shown.contains("Running,STALE")
    };
    node.wait_until("it waits", waits);
    node.kill9();
    node.launch();
    node.wait_until("it waits", waits);
    assert_eq!(node.wait_running("r", "app").id, first.id);
    node.kill9();
    // As after a boot: nothing runs, and the run directory is empty.
    node.of("r").iter().filter(|c| c.runs()).for_each(|c| node.kill_container(&c.id, "SIGKILL"));
    std::fs::remove_dir_all(node.run_dir()).unwrap();
    node.launch();
    let runs_anew = |old: &str| node.running("r", "app").iter().any(|now| now.id != old) && waits();
    node.wait_until("it runs as before", || runs_anew(&first.id));
    assert_eq!(shares(), 204, "shares of 200m");
    let second = node.wait_running("r", "app");
    let root = node.root().display().to_string();
    node.says(&["drain", "--root-dir", &root]);
    node.kill9();
    node.launch();
    node.says(&["resume", "--root-dir", &root]);
    node.wait_until("it runs as before", || runs_anew(&second.id));
    assert_eq!(shares(), 204, "shares of 200m");
}

#[test]
fn sizes_that_need_a_restart() {
    let node = Node::start();
    let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    let pod = |cpu: &str, memory: &str| {
        let resources = json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}});
        sized("r", resources).set("/spec/containers/0/resizePolicy", policy.clone())
    };
    node.write("r.yaml", pod("100m", "32Mi").text());
    let first = node.wait_running("r", "app");
    let sandbox = node.of("r").into_iter().find(|c| c.is_sandbox()).unwrap();
    node.write("r.yaml", pod("200m", "32Mi").text());
    node.wait_until("cpu changes in place", || node.inspect(&first.id)["HostConfig"]["CpuShares"] == 204);
    node.write("r.yaml", pod("200m", "64Mi").text());
    let second = node.wait_for("another instance runs", || {
        node.running("r", "app").into_iter().find(|c| c.id != first.id)
    });
    assert_eq!(second.attempt, first.attempt + 1);
    assert_eq!(node.inspect(&second.id)["HostConfig"]["Memory"], 64 * MIB);
    assert!(node.of("r").iter().any(|c| c.id == sandbox.id && c.runs()), "in the same sandbox");
    node.wait_until("its event is told", || {
        node.says(&["get", "events"]).contains("Container app resize requires restart")
    });
    // Another class of service means another pod.
    node.write("r.yaml", Pod::new("r").text());
    node.wait_until("it is replaced", || node.running("r", "app").iter().any(|c| c.uid != second.uid));
}

#[test]
fn memory_below_what_is_used_is_refused_and_told_in_cgroups_of_version_1() {
    if !is_v1() {
        return;
    }
    let node = Node::start();
    let pod = |limit: &str| {
        let script = format!("dd if=/dev/zero of=/dev/shm/x bs=1M count=40 && echo filled; {OBEYS}");
        let resources = json!({"requests": {"memory": "8Mi"}, "limits": {"memory": limit}});
        sized("m", resources).script(&script)
    };
    node.write("m.yaml", pod("100Mi").text());
    let first = node.wait_running("m", "app");
    node.wait_until("it is full", || node.says(&["logs", "m"]).contains("filled"));
    node.write("m.yaml", pod("16Mi").text());
    node.wait_until("the failure is told", || {
        condition(&node, "m", "PodResizeInProgress").is_some_and(|c| c.reason.as_deref() == Some("Error"))
    });
    let shown =
        || node.container_status("m", "app").and_then(|s| s.resources?.limits?.get("memory").cloned());
    assert_eq!(shown().unwrap().0, "100Mi", "what it still has");
    // Regression: the next daemon told of no resources, and an API server refuses each further resize then.
    node.restart();
    node.wait_until("the failure is told again", || {
        condition(&node, "m", "PodResizeInProgress").is_some_and(|c| c.reason.as_deref() == Some("Error"))
    });
    assert_eq!(shown().unwrap().0, "100Mi", "what it still has");
    node.wait_until("its event is told", || node.says(&["get", "events"]).contains("ResizeError"));
    node.write("m.yaml", pod("90Mi").text());
    node.wait_until("what works is done", || node.inspect(&first.id)["HostConfig"]["Memory"] == 90 * MIB);
    node.wait_until("and it is over", || condition(&node, "m", "PodResizeInProgress").is_none());
    assert_eq!(node.wait_running("m", "app").id, first.id);
}

#[test]
fn a_node_gives_no_more_than_it_has() {
    let node = Node::with(Options::flags(&["--max-pods", "3", "--system-reserved", "memory=256Mi"]));
    node.write("small.yaml", sized("small", json!({"requests": {"cpu": "100m"}})).text());
    node.wait_running("small", "app");
    node.write("large.yaml", sized("large", json!({"requests": {"cpu": "400"}})).text());
    node.wait_phase("large", "Failed");
    assert_eq!(node.reason("large"), "OutOfcpu");
    let message = node.pod("large").unwrap().status.unwrap().message.unwrap();
    let expected =
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 400000, used: 100, capacity: ";
    assert!(message.starts_with(expected), "{message}");
    node.write(
        "huge.yaml",
        sized("huge", json!({"limits": {"memory": "1Mi", "hugepages-2Mi": "2Gi"}})).text(),
    );
    node.wait_phase("huge", "Failed");
    assert_eq!(node.reason("huge"), "OutOfhugepages-2Mi");
    node.write("two.yaml", Pod::new("two").text());
    node.write("three.yaml", Pod::new("three").text());
    node.wait_running("two", "app");
    node.wait_running("three", "app");
    node.write("four.yaml", Pod::new("four").text());
    node.wait_phase("four", "Failed");
    assert_eq!(node.reason("four"), "OutOfpods");
    // Room for one more.
    node.remove("two.yaml");
    node.wait_running("four", "app");
}

/// Huge pages that this machine has until this is dropped.
struct HugePages(u64);

impl HugePages {
    const FILE: &str = "/proc/sys/vm/nr_hugepages";

    fn more(pages: u64) -> HugePages {
        fs::write(HugePages::FILE, (number(Path::new(HugePages::FILE)) + pages).to_string()).unwrap();
        HugePages(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let now = number(Path::new(HugePages::FILE));
        _ = fs::write(HugePages::FILE, now.saturating_sub(self.0).to_string());
    }
}

#[test]
fn huge_pages_are_limited_and_mounted() {
    // The daemon counts them when it starts.
    let _pages = HugePages::more(4);
    let node = Node::start();
    let limits = json!({"limits": {"memory": "32Mi", "hugepages-2Mi": "4Mi"}});
    let pod = sized("h", limits)
        .set("/spec/volumes", json!([{"name": "v", "emptyDir": {"medium": "HugePages", "sizeLimit": "2Mi"}}]))
        .set("/spec/containers/0/volumeMounts", json!([{"name": "v", "mountPath": "/huge"}]));
    node.write("h.yaml", pod.text());
    let mounted = node.inside("h", "app", "grep ' /huge ' /proc/mounts");
    assert!(mounted.contains(" hugetlbfs ") && mounted.contains("pagesize=2M"), "{mounted}");
    assert!(mounted.contains("size=2"), "{mounted}");
    assert_eq!(node.inside("h", "app", "truncate -s 2M /huge/a && stat -c %s /huge/a"), "2097152");
    if is_v1() {
        let of_pod = cgroup(&node, "h", "hugetlb").parent().unwrap().join("hugetlb.2MB.limit_in_bytes");
        assert_eq!(number(&of_pod), 4 * MIB);
    }
    node.remove("h.yaml");
    node.wait_gone("h");
    node.wait_until("nothing is mounted", || node.mounts().is_empty());
}
