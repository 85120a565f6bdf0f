//! A small machine in files, with both versions of cgroups, and all its figures.

use serde_json::{Value, json};

use super::*;
use crate::stats::summary::PodRef;
use crate::stats::summary::asked::VolumePlace;
use crate::stats::testing::Tree;

const UID: &str = "0123456789abcdef0123456789abcdef";

fn id(digit: char) -> String {
    std::iter::repeat_n(digit, 64).collect()
}

/// Files of a cgroup with `n` thousand of everything.
fn cgroup(tree: &Tree, v2: bool, path: &str, n: u64) {
    if v2 {
        let at = format!("cgroup/{path}");
        tree.write(&format!("{at}/cpu.stat"), &format!("usage_usec {n}000\n"));
        tree.write(&format!("{at}/memory.current"), &format!("{n}00000\n"));
        tree.write(&format!("{at}/memory.max"), &format!("{n}000000\n"));
        let stat = format!("anon {n}7000\nfile 1\ninactive_file {n}0000\npgfault {n}11\npgmajfault {n}\n");
        tree.write(&format!("{at}/memory.stat"), &stat);
        tree.write(&format!("{at}/memory.swap.current"), &format!("{n}00\n"));
        tree.write(&format!("{at}/memory.swap.max"), &format!("{n}000\n"));
        tree.write(&format!("{at}/pids.current"), &format!("{n}\n"));
    } else {
        let at = |controller: &str| format!("cgroup/{controller}/{path}");
        tree.write(&format!("{}/cpuacct.usage", at("cpuacct")), &format!("{n}000000\n"));
        tree.write(&format!("{}/memory.usage_in_bytes", at("memory")), &format!("{n}00000\n"));
        tree.write(&format!("{}/memory.limit_in_bytes", at("memory")), &format!("{n}000000\n"));
        tree.write(&format!("{}/memory.memsw.limit_in_bytes", at("memory")), &format!("{}\n", n * 1_001_000));
        let stat = format!(
            "total_rss {n}7000\ntotal_swap {n}00\ntotal_inactive_file {n}0000\ntotal_pgfault {n}11\ntotal_pgmajfault {n}\n"
        );
        tree.write(&format!("{}/memory.stat", at("memory")), &stat);
        tree.write(&format!("{}/pids.current", at("pids")), &format!("{n}\n"));
    }
    let stall = format!(
        "some avg10=0.50 avg60=0.00 avg300=0.00 total={n}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
    );
    let unified = if v2 { format!("cgroup/{path}") } else { format!("cgroup/unified/{path}") };
    for resource in ["cpu", "memory", "io"] {
        tree.write(&format!("{unified}/{resource}.pressure"), &stall);
    }
}

fn processes(tree: &Tree, v2: bool, path: &str, pids: &str) {
    let at = if v2 { format!("cgroup/{path}") } else { format!("cgroup/memory/{path}") };
    tree.write(&format!("{at}/cgroup.procs"), pids);
}

fn process(tree: &Tree, pid: u32, name: &str, cgroup: &str) {
    let at = format!("proc/{pid}");
    tree.write(&format!("{at}/comm"), &format!("{name}\n"));
    tree.write(&format!("{at}/cgroup"), &format!("4:memory:{cgroup}\n0::{cgroup}\n"));
    let stat = format!("{pid} ({name}) S 1 7 7 0 -1 4194304 98 0 0 0 150 50 9 9 20 0 4 0 1000 3133440 413\n");
    tree.write(&format!("{at}/stat"), &stat);
    tree.write(&format!("{at}/status"), "VmRSS:\t2048 kB\nVmSwap:\t10 kB\n");
    let header = "Inter-|   Receive\n face |bytes\n";
    tree.write(
        &format!("{at}/net/dev"),
        &format!("{header}    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n  eth0: {pid}00 6 1 2 0 0 0 0 {pid}50 7 3 4 0 0 0 0\n"),
    );
}

/// podkeeper in its own unit, Docker beside other programs, and one pod of the class besteffort.
fn machine(name: &str, v2: bool) -> Tree {
    let tree = Tree::new(name);
    if v2 {
        tree.write("cgroup/cgroup.controllers", "cpu memory pids\n");
    }
    tree.write("proc/stat", "cpu  10 2 30 400 50 6 7 800 9 0\nbtime 1790000000\n");
    tree.write(
        "proc/meminfo",
        "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 600 kB\nInactive(file): 200 kB\nAnonPages: 150 kB\n\
         SwapTotal: 64 kB\nSwapFree: 60 kB\n",
    );
    tree.write("proc/loadavg", "0.52 2.09 3.03 1/345 4711\n");
    tree.write("proc/sys/kernel/pid_max", "32768\n");
    tree.write("proc/pressure/cpu", "some avg10=1.00 avg60=2.00 avg300=3.00 total=5\n");
    process(&tree, 1, "init", "/");
    process(&tree, 20, "podkeeper", "/system.slice/podkeeper.service");
    process(&tree, 30, "dockerd", "/all");
    process(&tree, 31, "containerd", "/all");
    process(&tree, 40, "pause", "/k");
    process(&tree, 41, "app", "/k");
    cgroup(&tree, v2, "system.slice/podkeeper.service", 2);
    processes(&tree, v2, "system.slice/podkeeper.service", "20\n");
    processes(&tree, v2, "all", "30\n31\n99\n");
    let pod = format!("kubepods/besteffort/pod{UID}");
    cgroup(&tree, v2, "kubepods", 9);
    cgroup(&tree, v2, "kubepods/besteffort", 8);
    cgroup(&tree, v2, &pod, 7);
    for (digit, pid, n) in [('a', 40, 1), ('b', 41, 6)] {
        let path = format!("{pod}/{}", id(digit));
        cgroup(&tree, v2, &path, n);
        processes(&tree, v2, &path, &format!("{pid}\n"));
    }
    tree
}

fn asked(tree: &Tree) -> Asked {
    let container = |name: &str, digit| ContainerPlace {
        name: name.to_owned(),
        id: id(digit),
        started: Timestamp::new(1_795_000_001, 999).ok(),
        files: None,
    };
    let pod = PodPlace {
        reference: PodRef { name: "web-n1".into(), namespace: "default".into(), uid: UID.into() },
        started: Timestamp::new(1_795_000_000, 0).ok(),
        host_network: false,
        sandbox: Some(id('a')),
        containers: vec![container("app", 'b'), container("gone", 'c')],
        volumes: Vec::new(),
    };
    Asked {
        socket: None,
        node: "n1".into(),
        daemon: Some(20),
        root_dir: tree.root().join("nowhere"),
        docker_root: None,
        pods: vec![pod],
    }
}

fn take(tree: &Tree, asked: &Asked, before: &Counters) -> Value {
    let cgroups = Hierarchies::open(tree.root().join("cgroup"));
    let reader = Reader::new(tree.root().join("proc"), cgroups, asked);
    serde_json::to_value(reader.summary(before, Timestamp::new(1_795_000_010, 5).unwrap())).unwrap()
}

/// Both versions give the same figures for the same machine.
#[test]
fn a_machine_in_full() {
    for v2 in [false, true] {
        let tree = machine(&format!("stats-summary-{v2}"), v2);
        let value = take(&tree, &asked(&tree), &Counters::new());
        let text = format!("{}\n", serde_json::to_string_pretty(&value).unwrap());
        crate::base::testing::golden("stats/summary.json", &text);
    }
}

#[test]
fn rates_are_of_two_readings() {
    let tree = machine("stats-summary-rates", true);
    let asked = asked(&tree);
    let cgroups = Hierarchies::open(tree.root().join("cgroup"));
    let mut before = Reader::new(tree.root().join("proc"), cgroups, &asked).counters();
    let keys: Vec<&str> = before.keys().map(String::as_str).collect();
    let pod = format!("pod {UID}");
    assert_eq!(keys, [id('b').as_str(), "besteffort", "kubelet", "node", &pod, "pods", "runtime"]);
    // One second ago, and one millisecond of CPU time less.
    for (cpu, at) in before.values_mut() {
        (*cpu, *at) = (*cpu - 1_000_000, *at - Duration::from_secs(1));
    }
    let value = take(&tree, &asked, &before);
    for cpu in [&value["node"]["cpu"], &value["pods"][0]["cpu"], &value["pods"][0]["containers"][0]["cpu"]] {
        let rate = cpu["usageNanoCores"].as_u64().unwrap();
        assert!((1..=1_000_000).contains(&rate), "{cpu}");
    }
}

#[test]
fn a_pod_without_a_cgroup_is_the_sum_of_its_containers() {
    let tree = machine("stats-summary-sum", true);
    cgroup(&tree, true, &format!("docker/{}", id('c')), 3);
    cgroup(&tree, true, &format!("docker/{}", id('d')), 4);
    let mut asked = asked(&tree);
    asked.pods[0].containers.remove(0);
    let other = ContainerPlace { id: id('d'), ..asked.pods[0].containers[0].clone() };
    asked.pods[0].containers.push(other);
    asked.pods[0].host_network = true;
    let value = take(&tree, &asked, &Counters::new());
    let pod = &value["pods"][0];
    assert_eq!(pod["cpu"]["usageCoreNanoSeconds"], json!(7_000_000));
    assert_eq!(pod["memory"]["usageBytes"], json!(700_000));
    assert_eq!(pod["memory"]["rssBytes"], json!(37_000 + 47_000));
    assert_eq!(pod["process_stats"]["process_count"], json!(7));
    assert_eq!(pod["network"], Value::Null, "the node's is not the pod's");
    let names: Vec<&Value> =
        value["node"]["systemContainers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["kubelet", "runtime"], "nobody is in a kubepods");
}

#[test]
fn disks_and_volumes() {
    let tree = machine("stats-summary-disks", false);
    let mut asked = asked(&tree);
    tree.write("disk/file", &"x".repeat(10_000));
    tree.write("claim/file", "x");
    tree.write("upper/file", &"x".repeat(5000));
    tree.write("log", "x");
    let at = |path: &str| tree.root().join(path);
    asked.root_dir = tree.root();
    asked.docker_root = Some(tree.root());
    asked.pods[0].containers[0].files = Some(crate::runtime::ContainerFiles {
        upper_dir: Some(at("upper").display().to_string()),
        log_path: at("log").display().to_string(),
        ..Default::default()
    });
    let claim = crate::stats::summary::ClaimRef { name: "data".into(), namespace: "default".into() };
    asked.pods[0].volumes = vec![
        VolumePlace { name: "disk".into(), path: at("disk"), is_ephemeral: true, claim: None },
        VolumePlace { name: "data".into(), path: at("claim"), is_ephemeral: false, claim: Some(claim) },
    ];
    let value = take(&tree, &asked, &Counters::new());
    let (pod, node) = (&value["pods"][0], &value["node"]);
    let on = FileSystem::of(&tree.root()).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!(number(&node["fs"]["capacityBytes"]), on.capacity);
    assert_eq!(number(&node["runtime"]["imageFs"]["capacityBytes"]), on.capacity);
    let app = &pod["containers"][0];
    let (layer, log) = (number(&app["rootfs"]["usedBytes"]), number(&app["logs"]["usedBytes"]));
    assert!(layer >= 5000 && log >= 1, "{app}");
    assert_eq!((number(&app["rootfs"]["inodesUsed"]), number(&app["logs"]["inodesUsed"])), (2, 1));
    assert_eq!(number(&node["runtime"]["containerFs"]["usedBytes"]), layer);
    let volume = &pod["volume"][0];
    assert!(number(&volume["usedBytes"]) >= 10_000 && number(&volume["inodesUsed"]) == 2, "{volume}");
    assert_eq!(volume["name"], "disk");
    assert_eq!(pod["volume"][1]["pvcRef"], json!({"name": "data", "namespace": "default"}));
    // The claim outlives the pod, so it does not count.
    let local = layer + log + number(&volume["usedBytes"]);
    assert_eq!(number(&pod["ephemeral-storage"]["usedBytes"]), local);
}

/// Docker in two units has no single cgroup of its own, and podkeeper beside a shell has none.
#[test]
fn programs_that_share_a_cgroup_are_counted_by_themselves() {
    let tree = machine("stats-summary-programs", true);
    let memory = |value: &Value, name: &str| {
        let all = value["node"]["systemContainers"].as_array().unwrap();
        all.iter().find(|it| it["name"] == name).unwrap()["memory"]["usageBytes"].as_u64().unwrap()
    };
    let asked = asked(&tree);
    let value = take(&tree, &asked, &Counters::new());
    assert_eq!((memory(&value, "kubelet"), memory(&value, "runtime")), (200_000, 4 << 20));
    processes(&tree, true, "system.slice/podkeeper.service", "20\n41\n");
    // Docker's shim counts as Docker.
    process(&tree, 99, "containerd-shim", "/all");
    cgroup(&tree, true, "all", 5);
    let value = take(&tree, &asked, &Counters::new());
    assert_eq!((memory(&value, "kubelet"), memory(&value, "runtime")), (2 << 20, 500_000));
    process(&tree, 31, "containerd", "/system.slice/containerd.service");
    assert_eq!(memory(&take(&tree, &asked, &Counters::new()), "runtime"), 4 << 20);
}

/// The files of this machine's kernel.
#[test]
fn this_machine() {
    let asked = Asked {
        node: "n1".into(),
        daemon: Some(std::process::id()),
        root_dir: "/".into(),
        ..Asked::default()
    };
    let cgroups = Hierarchies::open(PathBuf::from("/sys/fs/cgroup"));
    let reader = Reader::new(PathBuf::from("/proc"), cgroups, &asked);
    let before = reader.counters();
    let summary = reader.summary(&before, Timestamp::UNIX_EPOCH);
    let node = &summary.node;
    let memory = node.used.memory.as_ref().unwrap();
    assert!(memory.rss_bytes.unwrap() <= memory.usage_bytes.unwrap(), "{memory:?}");
    assert!(node.start_time.unwrap() > Timestamp::UNIX_EPOCH);
    let this = node.system_containers.iter().find(|it| it.name == "kubelet").unwrap();
    assert!(this.used.memory.as_ref().unwrap().rss_bytes.unwrap() > 1 << 20, "{this:?}");
    assert!(this.used.cpu.as_ref().unwrap().usage_core_nano_seconds.is_some());
}
