//! All figures of the node (`podkeeper stats`), compared with those of Docker, the kernel's files, `df` and `du`.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::pods::Pod;
use crate::harness::{Node, docker_get};

const MIB: u64 = 1 << 20;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The first number that a program prints.
fn asks(program: &str, arguments: &[&str], of: &Path) -> u64 {
    let output = Command::new(program).args(arguments).arg(of).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text.split_whitespace().find_map(|word| word.parse().ok());
    found.unwrap_or_else(|| panic!("{program} {arguments:?} {}: {text}", of.display()))
}

fn summary(node: &Node) -> Value {
    serde_json::from_str(&node.says(&["stats"])).unwrap()
}

/// Docker's own figures of a container.
fn docker_stats(node: &Node, id: &str) -> Value {
    docker_get(node.socket(), &format!("/containers/{id}/stats?stream=false&one-shot=true"))
}

fn between(low: &Value, middle: &Value, high: &Value) {
    assert!((number(low)..=number(high)).contains(&number(middle)), "{low} {middle} {high}");
}

/// A pod that uses some of every resource.
fn busy() -> Pod {
    let script = "trap 'exit 0' TERM; head -c 5000000 /dev/zero >/layer; head -c 3000000 /dev/zero >/data/file; \
                  head -c 200000 /dev/zero | tr '\\0' x; ping -c 3 -i 0.1 \
                  $(route -n | awk '$1 == \"0.0.0.0\" {print $2}') >/data/ping; touch /data/done; \
                  while :; do :; done & sleep 100000 & wait";
    let volumes =
        json!([{"name": "data", "emptyDir": {}}, {"name": "fast", "emptyDir": {"medium": "Memory"}}]);
    let mounts = json!([{"name": "data", "mountPath": "/data"}, {"name": "fast", "mountPath": "/fast"}]);
    let pod = Pod::new("busy").script(script).set("/spec/volumes", volumes);
    let limits = json!({"limits": {"memory": "64Mi"}, "requests": {"cpu": "10m"}});
    pod.set("/spec/containers/0/volumeMounts", mounts).set("/spec/containers/0/resources", limits)
}

#[test]
fn figures_are_those_that_docker_and_the_kernel_tell() {
    let node = Node::start();
    node.write("busy.yaml", busy().text());
    let app = node.wait_running("busy", "app");
    let uid = node.pod("busy").unwrap().metadata.uid.unwrap();
    let volume = node.root().join(format!("pods/{uid}/volumes/kubernetes.io~empty-dir/data"));
    node.wait_until("all is used", || volume.join("done").exists());
    let all = node.of("busy");
    let sandbox = all.iter().find(|it| it.is_sandbox()).unwrap().id.clone();

    let before = (docker_stats(&node, &app.id), docker_stats(&node, &sandbox));
    let told = summary(&node);
    let after = (docker_stats(&node, &app.id), docker_stats(&node, &sandbox));
    assert_eq!(told["pods"].as_array().unwrap().len(), 1, "{told}");
    let (pod, container) = (&told["pods"][0], &told["pods"][0]["containers"][0]);
    assert_eq!((&pod["podRef"]["name"], &container["name"]), (&json!(node.full("busy")), &json!("app")));

    // Processors and processes: between Docker's figures before and after.
    let total = |stats: &Value| stats["cpu_stats"]["cpu_usage"]["total_usage"].clone();
    between(&total(&before.0), &container["cpu"]["usageCoreNanoSeconds"], &total(&after.0));
    assert!(number(&pod["cpu"]["usageCoreNanoSeconds"]) >= number(&total(&before.0)), "{pod}");
    let rate = number(&container["cpu"]["usageNanoCores"]);
    assert!((1_000_000..1_500_000_000).contains(&rate), "it counts to infinity on one core: {rate}");
    assert_eq!(container["process_stats"]["process_count"], after.0["pids_stats"]["current"]);

    // Memory: nothing is allocated any more, but the kernel moves pages in batches.
    let memory = &container["memory"];
    let usage = number(&after.0["memory_stats"]["usage"]);
    let near = |a: u64, b: u64| a.abs_diff(b) < 2 * MIB;
    assert!(near(number(&memory["usageBytes"]), usage), "{memory} {usage}");
    let (working_set, rss) = (number(&memory["workingSetBytes"]), number(&memory["rssBytes"]));
    assert!(rss > 0 && working_set <= number(&memory["usageBytes"]), "{memory}");
    assert_eq!(number(&memory["availableBytes"]) + working_set, 64 * MIB);
    // For a container with a limit Docker allows as much swap again, or none, and this one uses none.
    assert_eq!(container["swap"]["swapUsageBytes"], 0);

    // The network: that of the sandbox.
    let network = &pod["network"];
    assert_eq!(network["name"], "eth0");
    for (theirs, ours) in [("rx_bytes", "rxBytes"), ("tx_bytes", "txBytes"), ("rx_packets", "rxPackets")] {
        let of = |stats: &Value| stats["networks"]["eth0"][theirs].clone();
        between(&of(&before.1), &network[ours], &of(&after.1));
    }
    assert!(number(&network["txPackets"]) >= 3, "{network}");

    // Disks: counted like du and df do.
    let find = |name: &str| pod["volume"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    let data = number(&find("data")["usedBytes"]);
    assert_eq!(data, asks("du", &["-s", "-B1"], &volume));
    assert!(number(&find("fast")["capacityBytes"]) > 0, "{pod}");
    let capacity = asks("df", &["-B1", "--output=size"], &node.root());
    assert_eq!(number(&told["node"]["fs"]["capacityBytes"]), capacity);
    assert_eq!(number(&find("data")["capacityBytes"]), capacity);
    let layer = number(&container["rootfs"]["usedBytes"]);
    let sized = docker_get(node.socket(), &format!("/containers/{}/json?size=1", app.id));
    assert!(layer >= 5_000_000 && near(layer, number(&sized["SizeRw"])), "{layer} {sized}");
    let log = asks("du", &["-B1"], Path::new(sized["LogPath"].as_str().unwrap()));
    assert_eq!(number(&container["logs"]["usedBytes"]), log);
    assert!(log >= 200_000, "{log}");
    // And the small files that Docker and podkeeper give to the pod: hosts, hostname and resolver files.
    let given = number(&pod["ephemeral-storage"]["usedBytes"]) - (layer + log + data);
    assert!((4096..=64 * 1024).contains(&given), "{given} {pod}");
    let docker_root = docker_get(node.socket(), "/info")["DockerRootDir"].as_str().unwrap().to_owned();
    let images = asks("df", &["-B1", "--output=size"], Path::new(&docker_root));
    assert_eq!(number(&told["node"]["runtime"]["imageFs"]["capacityBytes"]), images);
}

#[test]
fn the_node_and_what_runs_beside_its_pods() {
    let node = Node::start();
    node.write("busy.yaml", busy().text());
    node.wait_phase("busy", "Running");
    let told = summary(&node);
    let machine = &told["node"];
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let all = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
    let memory = &machine["memory"];
    assert_eq!(number(&memory["availableBytes"]) + number(&memory["workingSetBytes"]), all);
    assert!(number(&memory["rssBytes"]) < number(&memory["usageBytes"]), "{memory}");
    assert!(number(&machine["rlimit"]["curproc"]) < number(&machine["rlimit"]["maxpid"]), "{machine}");
    assert_eq!(machine["cpu"]["psi"].is_object(), Path::new("/proc/pressure/cpu").exists());
    let of = |name: &str| {
        let all = machine["systemContainers"].as_array().unwrap();
        all.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {machine}"))
    };
    // Usage of a cgroup counts in the cgroups above it.
    let pod = &told["pods"][0];
    let time = |of: &Value| number(&of["cpu"]["usageCoreNanoSeconds"]);
    assert!(time(of("pods")) > 0 && time(of("burstable")) > 0 && time(pod) > 0, "{told}");
    let resident =
        |pid: u32| asks("grep", &["VmRSS", "-h"], Path::new(&format!("/proc/{pid}/status"))) * 1024;
    let (ours, counted) = (resident(node.pid().unwrap()), number(&of("kubelet")["memory"]["rssBytes"]));
    assert!(ours.abs_diff(counted) < 4 * MIB, "{ours} {counted}");
    // dockerd alone has tens of MiB.
    assert!(number(&of("runtime")["memory"]["rssBytes"]) > 10 * MIB, "{machine}");
    assert!(time(of("runtime")) > 0);

    let yaml = node.says(&["stats", "-o", "yaml"]);
    assert!(yaml.starts_with("node:\n") && yaml.contains("\n  systemContainers:\n"), "{yaml}");
    node.remove("busy.yaml");
    node.wait_gone("busy");
    assert_eq!(summary(&node)["pods"], json!([]));
    node.stop();
    let last = node.podkeeper(&["stats"]);
    assert!(last.status.success(), "the daemon need not run: {last:?}");
    let last: Value = serde_json::from_slice(&last.stdout).unwrap();
    let names = last["node"]["systemContainers"].to_string();
    assert!(!names.contains("\"kubelet\"") && names.contains("\"runtime\""), "{names}");
}
