//! A pod's view of the network, on the real Docker: names, addresses, resolver and hosts files, and
//! containers that are added to running pods. The examples show the rest.

use std::fs;
use std::path::{Path, PathBuf};

use podkeeper::testing::base::clock::System;
use podkeeper::testing::runtime::docker::Docker;
use podkeeper::testing::runtime::docker::Endpoint;
use podkeeper::testing::runtime::{Call, DockerError, NetworkBody};
use serde_json::json;

use crate::harness::hostile::{Server, ok};
use crate::harness::pods::Pod;
use crate::harness::proxy::Proxy;
use crate::harness::{Node, Options, SOCKET, docker_get, remove_network};

/// Everything below the pods' directories on the node.
fn left(node: &Node) -> Vec<PathBuf> {
    let entries = fs::read_dir(node.root().join("pods"));
    entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// A network that is removed on drop, after the node.
struct Network(String);

impl Network {
    fn new() -> Network {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        Network(format!("podkeeper-it-{}-{n}", std::process::id()))
    }

    fn exists(&self) -> bool {
        let path = format!("/networks/{}", self.0);
        docker_get(Path::new("/var/run/docker.sock"), &path)["Name"] == json!(self.0)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove_network(&self.0);
    }
}

#[test]
fn pods_find_each_other_by_name_also_after_one_was_replaced() {
    let network = Network::new();
    // These subnets are rarely used elsewhere.
    let third = std::process::id() % 250;
    let cidrs = format!("10.213.{third}.0/24,fd13:{third:x}::/64");
    let flags = ["--docker-network", &network.0, "--docker-network-cidr", &cidrs];
    let node = Node::with(Options::flags(&flags));
    let pod = |name: &str, version: &str| Pod::new(name).set("/metadata/annotations/version", version);
    node.write("a.yaml", pod("a", "1").text());
    node.write("b.yaml", pod("b", "1").text());
    node.wait_running("a", "app");
    node.wait_running("b", "app");
    let address = |name: &str| {
        let ips = node.pod(name).and_then(|p| p.status?.pod_ips).unwrap_or_default();
        ips.into_iter().map(|ip| ip.ip).collect::<Vec<_>>()
    };
    node.wait_until("b has both addresses", || address("b").len() == 2);
    let before = address("b");
    assert!(before[0].starts_with(&format!("10.213.{third}.")), "{before:?}");
    assert!(before[1].starts_with("fd13:"), "{before:?}");
    let finds = |name: &str, ip: &str| {
        let look = format!("nslookup {name} | grep -c '{ip}$'");
        node.wait_until(&format!("{name} is {ip}"), || node.inside("a", "app", &look) == "1");
    };
    for name in ["b", "b.default", &node.full("b")] {
        finds(name, &before[0]);
    }
    assert!(node.inside("a", "app", "ping -c 1 -w 5 b").contains("1 packets received"));
    assert!(node.inside("b", "app", "cat /etc/hosts").contains(&format!(
        "{}\t{}",
        before[1],
        node.full("b")
    )));
    // Another pod takes its place, and its address.
    node.write("other.yaml", pod("other", "1").text());
    node.remove("b.yaml");
    node.wait_gone("b");
    node.wait_running("other", "app");
    node.write("b.yaml", pod("b", "2").text());
    node.wait_running("b", "app");
    node.wait_until("b has both addresses again", || address("b").len() == 2);
    finds("b", &address("b")[0]);
}

/// Docker alone resolves a name to the addresses of all containers that have it, as an alias or as hostname.
#[test]
fn a_pod_of_the_url_does_not_take_the_names_of_a_pod_of_a_file() {
    let network = Network::new();
    let server = Server::start();
    let claims = |name: &str| Pod::new("evil").set("/spec/hostname", name);
    let answer = |pods: &[Pod]| {
        let items: Vec<String> = pods.iter().map(Pod::text).collect();
        ok("", format!("{{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"items\":[{}]}}", items.join(",")))
    };
    server.send(answer(&[]));
    let url = format!("--manifest-url={}", server.url());
    let flags = ["--docker-network", &network.0, &url, "--http-check-frequency=200ms"];
    let node = Node::with(Options::flags(&flags));
    for pod in ["db", "asks"] {
        node.write(&format!("{pod}.yaml"), Pod::new(pod).text());
    }
    node.wait_running("db", "app");
    node.wait_running("asks", "app");
    server.send(answer(&[claims("db"), Pod::new("db.default")]));
    node.wait_running("evil", "app");
    node.wait_running("db.default", "app");
    let finds = |name: &str, pod: &str| {
        let ip = || node.pod(pod).and_then(|p| p.status?.pod_ip).unwrap_or_default();
        node.wait_until(&format!("{pod} has an address"), || !ip().is_empty());
        let look = format!("nslookup {name} | grep '^Address: '");
        let found = node.inside("asks", "app", &look);
        assert_eq!(found, format!("Address: {}", ip()), "{name} is {pod}");
    };
    for name in ["db", "DB", "db.default", &node.full("db")] {
        finds(name, "db");
    }
    // They run, under the names that are still free.
    for name in ["evil", "evil.default", &node.full("evil")] {
        finds(name, "evil");
    }
    finds("db.default.default", "db.default");
    assert_eq!(node.inside("evil", "app", "hostname"), node.full("evil"));
    let full = node.full("db");
    let told = format!("db, db.default (pod default/{full} of source file)");
    node.wait_until("the operator is told", || {
        let status = node.status().unwrap();
        status.problems.iter().any(|problem| problem.message.contains(&told))
    });
    assert!(node.log().contains(&told), "{}", node.log());
}

#[test]
fn a_network_is_there_as_long_as_its_pods() {
    let network = Network::new();
    let node = Node::with(Options::flags(&["--docker-network", &network.0]));
    assert!(!network.exists());
    for pod in ["a", "b"] {
        node.write(&format!("{pod}.yaml"), Pod::new(pod).text());
    }
    node.wait_running("a", "app");
    node.wait_running("b", "app");
    assert!(network.exists());
    node.remove("a.yaml");
    node.wait_gone("a");
    assert!(network.exists());
    node.remove("b.yaml");
    node.wait_gone("b");
    node.wait_until("the network is removed", || !network.exists());
    node.write("c.yaml", Pod::new("c").text());
    node.wait_running("c", "app");
    assert!(network.exists());
}

/// A network that another program made, or uses, is not removed.
#[test]
fn a_network_of_others_stays_and_is_made_again_when_they_remove_it() {
    let network = Network::new();
    let body = NetworkBody { name: network.0.clone(), driver: "bridge", ..NetworkBody::default() };
    Docker::connect(&Endpoint::Unix("/var/run/docker.sock".into()), System::start())
        .call(&Call::NetworkCreate { body })
        .unwrap();
    let node = Node::with(Options::flags(&["--docker-network", &network.0]));
    node.write("a.yaml", Pod::new("a").text());
    node.wait_running("a", "app");
    node.remove("a.yaml");
    node.wait_gone("a");
    // A later pod runs: so everything that had to be done after the first pod has been done.
    node.write("b.yaml", Pod::new("b").text());
    node.wait_running("b", "app");
    node.remove("b.yaml");
    node.wait_gone("b");
    assert!(network.exists());
    remove_network(&network.0);
    node.write("c.yaml", Pod::new("c").text());
    node.wait_running("c", "app");
}

/// The first pod comes while Docker is not running.
#[test]
fn a_network_is_made_once_docker_answers_again() {
    let network = Network::new();
    let socket = std::env::temp_dir().join(format!("podkeeper-late-{}", std::process::id()));
    let options =
        Options { endpoint: Some(socket.clone()), ..Options::flags(&["--docker-network", &network.0]) };
    let docker = Proxy::start(Path::new(SOCKET), &socket);
    let node = Node::with(options);
    let reachable = |expected: bool| {
        node.wait_until("Docker's state is known", || node.status().unwrap().docker.reachable == expected);
    };
    reachable(true);
    drop(docker);
    reachable(false);
    node.write("a.yaml", Pod::new("a").text());
    let tells = format!("network {} of the pods: ", network.0);
    node.wait_until("the network is missed", || node.log().contains(&tells));
    assert!(!network.exists());
    let _docker = Proxy::start(Path::new(SOCKET), &socket);
    node.wait_running("a", "app");
    assert!(network.exists());
    let missing = format!("network {} not found", network.0);
    assert!(!node.log().contains(&missing), "no pod was started before it");
    node.remove("a.yaml");
    node.wait_gone("a");
    node.wait_until("the network is removed", || !network.exists());
}

/// Docker alone would direct pods of a node without name servers to a public one.
#[test]
fn a_resolver_file_of_the_pods_own_where_dockers_would_be_wrong() {
    let file = std::env::temp_dir().join(format!("podkeeper-it-resolv-{}", std::process::id()));
    fs::write(&file, "search lab.example\n").unwrap();
    let node = Node::with(Options::flags(&["--resolv-conf", file.to_str().unwrap()]));
    node.write("plain.yaml", Pod::new("plain").text());
    node.write("host.yaml", Pod::new("host").set("/spec/hostNetwork", true).text());
    let config = json!({"nameservers": ["192.0.2.77"], "options": [{"name": "rotate"}]});
    let own = Pod::new("own").set("/spec/dnsPolicy", "None").set("/spec/dnsConfig", config);
    node.write("own.yaml", own.text());
    for (pod, expected) in [
        ("plain", "search lab.example"),
        ("host", "search lab.example"),
        ("own", "nameserver 192.0.2.77\noptions rotate"),
    ] {
        node.wait_running(pod, "app");
        node.wait_until(&format!("{pod} has its settings"), || {
            // Newer engines say in comments where the settings come from.
            node.inside(pod, "app", "sed '/^#/d;/^$/d' /etc/resolv.conf") == expected
        });
    }
    assert_eq!(left(&node).len(), 3);
    for pod in ["plain", "host", "own"] {
        node.remove(&format!("{pod}.yaml"));
        node.wait_gone(pod);
    }
    node.wait_until("nothing is left on the disk", || left(&node).is_empty());
    fs::remove_file(file).unwrap();
}

#[test]
fn hosts_files_outlive_the_daemon_and_go_with_their_pod() {
    let node = Node::start();
    node.write("a.yaml", Pod::new("a").text());
    node.write("b.yaml", Pod::new("b").text());
    let first = node.wait_running("a", "app");
    node.wait_running("b", "app");
    let ip = node.wait_for("a has an address", || node.pod("a")?.status?.pod_ip);
    let line = format!("{ip}\t{}", node.full("a"));
    assert_eq!(node.inside("a", "app", "tail -n 1 /etc/hosts"), line);
    node.kill9();
    node.remove("b.yaml");
    node.launch();
    node.wait_gone("b");
    assert_eq!(node.wait_running("a", "app").id, first.id);
    assert_eq!(node.inside("a", "app", "tail -n 1 /etc/hosts"), line);
    node.wait_until("b's files are gone", || left(&node).len() == 1);
    // The sandbox comes back with another address, and the file contains it.
    node.kill_container(&node.of("a").iter().find(|c| c.is_sandbox()).unwrap().id, "KILL");
    node.wait_until("a is back", || node.running("a", "app").iter().any(|c| c.id != first.id));
    node.wait_until("the file says where it is", || {
        let ip = node.pod("a").and_then(|p| p.status?.pod_ip).unwrap_or_default();
        node.inside("a", "app", "tail -n 1 /etc/hosts") == format!("{ip}\t{}", node.full("a"))
    });
    node.remove("a.yaml");
    node.wait_gone("a");
    node.wait_until("nothing is left on the disk", || left(&node).is_empty());
}

#[test]
fn debug_adds_a_container_that_goes_with_its_pod() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    let app = node.wait_running("web", "app");
    node.wait_phase("web", "Running");
    let image = ["--image", "busybox:static"];
    let debug = |more: &[&str]| node.podkeeper(&[&["debug", "web"], &image[..], more].concat());
    let script = "echo up; trap exit TERM; sleep 1000 & wait";
    let output = debug(&["-c", "look", "--target", "app", "--", "sh", "-c", script]);
    assert!(output.status.success(), "{output:?}");
    node.wait_until("it is told", || {
        let status = node.pod("web").and_then(|p| p.status?.ephemeral_container_statuses).unwrap_or_default();
        status.iter().any(|s| s.name == "look" && s.state.as_ref().is_some_and(|s| s.running.is_some()))
    });
    node.wait_until("it has a log", || node.says(&["logs", "web", "-c", "look"]).trim() == "up");
    // Shows the target's first process, and the pod's own name.
    assert!(node.inside("web", "look", "cat /proc/1/cmdline").contains("echo started"));
    assert_eq!(node.inside("web", "look", "hostname"), node.full("web"));
    assert!(node.says(&["describe", "pod", "web"]).contains("Ephemeral Containers:\n  look:"));
    // The new container may look into the target's files, and has the pod's limits.
    assert!(node.inside("web", "look", "ls /proc/1/root/bin").contains("busybox"));
    let status = node.pod("web").and_then(|p| p.status?.ephemeral_container_statuses).unwrap();
    let id = status[0].container_id.clone().unwrap().replace("docker://", "");
    let (own, theirs) = (node.inspect(&id), node.inspect(&app.id));
    for field in ["CgroupParent", "OomScoreAdj", "CpuShares"] {
        assert_eq!(own["HostConfig"][field], theirs["HostConfig"][field], "{field}");
    }
    let taken = debug(&["-c", "app"]);
    assert!(String::from_utf8_lossy(&taken.stderr).contains("is in pod"), "{taken:?}");
    // With input attached, it ends with its input.
    let mut child = node.command(&["debug", "web", "--image", "busybox:static", "-i", "--", "cat"]);
    child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = child.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"back and forth\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "back and forth\n");
    node.wait_until("its end is told", || {
        let status = node.pod("web").and_then(|p| p.status?.ephemeral_container_statuses).unwrap_or_default();
        status.iter().any(|s| s.state.as_ref().is_some_and(|s| s.terminated.is_some()))
    });
    assert_eq!(node.wait_running("web", "app").id, app.id, "the pod goes on as it was");
    node.remove("web.yaml");
    node.wait_gone("web");
    node.wait_until("all its containers are gone", || node.containers().is_empty());
    node.wait_until("it is not shown any more", || node.pod("web").is_none());
    let gone = debug(&[]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("not found"), "{gone:?}");
}

/// The container belongs to the pod, so it has the pod's rights and runs as the pod's user.
#[test]
fn debug_keeps_to_the_policy_and_to_the_pods_identity() {
    let node = Node::with(Options::flags(&["--pod-security=restricted", "--allowed-images=busybox"]));
    let pod = Pod::new("web")
        .set(
            "/spec/securityContext",
            json!({"runAsNonRoot": true, "runAsUser": 1234, "supplementalGroups": [77],
                   "seccompProfile": {"type": "RuntimeDefault"}}),
        )
        .set(
            "/spec/containers/0/securityContext",
            json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}),
        );
    node.write("web.yaml", pod.text());
    node.wait_running("web", "app");
    let debug = |more: &[&str]| {
        let output = node.podkeeper(&[&["debug", "web"], more, &["--", "sleep", "1000"]].concat());
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let busybox = ["--image", "busybox:static"];
    for profile in ["general", "baseline", "netadmin", "sysadmin"] {
        let (done, told) = debug(&[&busybox[..], &["--profile", profile]].concat());
        assert!(!done && told.contains("PodSecurity: violates PodSecurity \"restricted:latest\""), "{told}");
    }
    let (done, told) = debug(&["--image", "alpine", "--profile", "restricted"]);
    assert!(!done && told.contains("ImageNotAllowed: container \"debugger-"), "{told}");
    assert!(node.of("web").iter().all(|c| c.container == "app" || c.is_sandbox()), "nothing was added");
    let (done, told) = debug(&[&busybox[..], &["--profile", "restricted", "-c", "look"]].concat());
    assert!(done, "{told}");
    node.wait_running("web", "look");
    let identity =
        node.inside("web", "look", "id -u; id -G; grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/self/status");
    let words: Vec<&str> = identity.split_whitespace().collect();
    let expected = ["1234", "0", "77", "CapBnd:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"];
    assert_eq!(words, expected);
}

/// The in-memory engine answers network calls like the real one.
#[test]
fn networks_of_both_engines_are_alike() {
    let network = Network::new();
    let name = network.0.clone();
    let body = NetworkBody {
        name: name.clone(),
        check_duplicate: true,
        driver: "bridge",
        enable_ipv6: false,
        ipam: None,
        labels: Default::default(),
    };
    let tell = |endpoint: Endpoint| {
        let docker = Docker::connect(&endpoint, System::start());
        let inspect = Call::NetworkInspect { name: name.clone() };
        let create = Call::NetworkCreate { body: body.clone() };
        let remove = Call::NetworkRemove { name: name.clone() };
        [inspect.clone(), create.clone(), create, inspect, remove.clone(), remove].map(|call| {
            match docker.call(&call) {
                Ok(podkeeper::testing::runtime::Reply::Network(found)) => found.name,
                Ok(other) => format!("{other:?}"),
                Err(DockerError::Refused(no)) => format!("{} {:?} {}", no.status, no.kind, no.message),
                Err(other) => other.to_string(),
            }
        })
    };
    let real = tell(Endpoint::Unix("/var/run/docker.sock".into()));
    assert_eq!(real, tell(Endpoint::Fake));
    assert_eq!(real[0], format!("404 NotFound network {name} not found"));
}

/// Like after `docker network disconnect`: the address may go to another pod at any time.
#[test]
fn a_sandbox_that_lost_its_network_is_made_anew() {
    let node = Node::with(Options::flags(&["--sync-frequency", "1s"]));
    node.write("web.yaml", Pod::new("web").text());
    node.wait_running("web", "app");
    node.wait_until("its address is told", || node.pod("web").and_then(|p| p.status?.pod_ip).is_some());
    let sandbox = node.of("web").into_iter().find(|c| c.is_sandbox()).expect("a sandbox");
    let body = format!(r#"{{"Container": "{}", "Force": true}}"#, sandbox.id);
    let request = format!(
        "POST /networks/bridge/disconnect HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = std::os::unix::net::UnixStream::connect(node.socket()).unwrap();
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
    let serves = |c: &crate::harness::Container| c.is_sandbox() && c.runs() && c.id != sandbox.id;
    node.wait_until("another sandbox serves", || node.of("web").iter().any(serves));
    node.wait_running("web", "app");
    node.wait_until("its address is told", || node.pod("web").and_then(|p| p.status?.pod_ip).is_some());
}
