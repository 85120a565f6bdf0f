//! Pods that CNI plugins attach: the real bridge, host-local, portmap and firewall, on the real Docker.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::harness::pods::{Pod, free_port};
use crate::harness::{Node, Options};

/// Directory of the package containernetworking-plugins.
const PLUGINS: &str = "/usr/lib/cni";

/// A network of one test. It is removed on drop, after the node.
struct Network {
    dir: PathBuf,
    bridge: String,
    /// Beginning of its addresses.
    subnet: String,
    subnet6: String,
}

impl Network {
    fn new() -> Network {
        assert!(Path::new(PLUGINS).join("bridge").exists(), "containernetworking-plugins is not installed");
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let (pid, dir) = (std::process::id(), std::env::temp_dir());
        let dir = dir.join(format!("podkeeper-it-cni-{pid}-{n}"));
        for part in ["net.d", "bin", "cache", "store"] {
            fs::create_dir_all(dir.join(part)).unwrap();
        }
        // These subnets are rarely used elsewhere.
        let subnet = format!("10.{}.{}.", 214 + n, pid % 250);
        let subnet6 = format!("fd15:{:x}:{n:x}::/64", pid % 65_536);
        Network { dir, bridge: format!("pk{}x{n}", pid % 100_000), subnet, subnet6 }
    }

    fn flags(&self) -> Vec<String> {
        let dir = self.dir.display();
        vec![
            "--network-plugin=cni".to_owned(),
            format!("--cni-conf-dir={dir}/net.d"),
            format!("--cni-bin-dir={PLUGINS},{dir}/bin"),
            format!("--cni-cache-dir={dir}/cache"),
        ]
    }

    fn node(&self) -> Node {
        Node::with(Options { flags: self.flags(), ..Options::default() })
    }

    /// Writes the configuration: a bridge, then these plugins.
    fn configure(&self, further: &[Value]) {
        let bridge = json!({"type": "bridge", "bridge": self.bridge, "isGateway": true, "hairpinMode": true,
            "ipam": {"type": "host-local", "dataDir": self.dir.join("store"),
                "ranges": [[{"subnet": format!("{}0/24", self.subnet)}], [{"subnet": self.subnet6}]],
                "routes": [{"dst": "0.0.0.0/0"}]}});
        let plugins: Vec<Value> = std::iter::once(bridge).chain(further.iter().cloned()).collect();
        let list = json!({"cniVersion": "1.0.0", "name": "pods.net", "plugins": plugins});
        let beside = self.dir.join("being-written");
        fs::write(&beside, list.to_string()).unwrap();
        fs::rename(beside, self.dir.join("net.d/10-pods.conflist")).unwrap();
    }

    /// Writes a plugin of a few lines.
    fn script(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.dir.join("bin").join(name);
        let version = r#"{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}"#;
        let text = format!("#!/bin/sh\n[ $CNI_COMMAND != VERSION ] || exec echo '{version}'\n{text}");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Addresses that are in use.
    fn taken(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.join("store/pods.net")).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(&self.subnet)).collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        _ = Command::new("ip").args(["link", "delete", &self.bridge]).output();
        _ = fs::remove_dir_all(&self.dir);
    }
}

fn address(node: &Node, pod: &str) -> String {
    node.pod(pod).and_then(|pod| pod.status?.pod_ip).unwrap_or_default()
}

fn get(port: u16) -> String {
    let url = format!("http://127.0.0.1:{port}/");
    let output = Command::new("curl").args(["-s", "--max-time", "2", &url]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

const SERVES: &str = "mkdir -p /w && hostname -i >/w/index.html && exec httpd -f -p 80 -h /w";

#[test]
fn pods_are_attached_reached_kept_and_taken_off() {
    let network = Network::new();
    network.configure(&[
        json!({"type": "portmap", "capabilities": {"portMappings": true}}),
        json!({"type": "firewall"}),
    ]);
    let node = network.node();
    let port = free_port();
    let served = json!([{"containerPort": 80, "hostPort": port}]);
    node.write("a.yaml", Pod::new("a").script(SERVES).set("/spec/containers/0/ports", served).text());
    node.write("b.yaml", Pod::new("b").text());
    node.wait_running("a", "app");
    let b = node.wait_running("b", "app");
    ["a", "b"].iter().for_each(|pod| node.wait_phase(pod, "Running"));
    let (ip_a, ip_b) = (address(&node, "a"), address(&node, "b"));
    assert!(ip_a.starts_with(&network.subnet) && ip_b.starts_with(&network.subnet), "{ip_a} {ip_b}");
    let all = node.pod("a").and_then(|pod| pod.status?.pod_ips).unwrap_or_default();
    assert!(all.len() == 2 && all[1].ip.starts_with("fd15:"), "{all:?}");
    node.wait_until("the host's port leads to the pod", || get(port) == ip_a);
    let look = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {ip_a} 80");
    node.wait_until("b reaches a", || node.inside("b", "app", &look).ends_with(&ip_a));
    assert!(node.inside("b", "app", "cat /etc/hosts").contains(&format!("{ip_b}\t{}", node.full("b"))));
    assert!(node.inside("b", "app", "ip addr show lo").contains("UP"));
    // Nothing changes for the pods when the daemon is killed; and its reports about them stay.
    node.kill9();
    node.launch();
    node.wait_until("the addresses are told", || address(&node, "a") == ip_a && address(&node, "b") == ip_b);
    assert_eq!((node.wait_running("b", "app").id, get(port)), (b.id, ip_a.clone()));
    node.remove("b.yaml");
    node.wait_gone("b");
    node.wait_until("its address is free", || network.taken() == [ip_a.clone()]);
    // Attachments of containers that disappear while the daemon is not running are freed all the same.
    node.kill9();
    for container in node.of("a") {
        node.remove_container(&container.id);
    }
    node.remove("a.yaml");
    node.launch();
    node.wait_until("nothing is held", || network.taken().is_empty());
    assert_ne!(get(port), ip_a);
}

#[test]
fn pods_wait_for_a_network_and_for_its_plugins() {
    let network = Network::new();
    let node = network.node();
    node.write("host.yaml", Pod::new("host").set("/spec/hostNetwork", true).text());
    node.write("own.yaml", Pod::new("own").text());
    node.wait_running("host", "app");
    let why = "NetworkReady=false reason:NetworkPluginNotReady message:docker: network plugin is not ready: cni config \
        uninitialized";
    let says = |what: &str| {
        let state = node.container_status("own", "app").and_then(|c| c.state);
        state.and_then(|s| s.waiting?.message).is_some_and(|message| message.contains(what))
    };
    node.wait_until("it says that it waits", || says(why));
    let ready =
        |node: &Node| node.status().unwrap().conditions.iter().any(|c| c.type_ == "Ready" && c.is_true);
    assert!(!ready(&node), "the node is ready without a network");
    network.script("late", r#"echo '{"code": 11, "msg": "not now", "details": "later"}'; exit 1"#);
    network.configure(&[json!({"type": "late"})]);
    node.wait_until("it says which plugin fails", || {
        node.log().contains("FailedCreatePodSandBox")
            && says(&format!(
                "networkPlugin cni failed to set up pod \"{}_default\" network: plugin type=\"late\" failed (add): not \
                 now; later",
                node.full("own")
            ))
    });
    assert!(ready(&node));
    // A plugin that once prints nothing and would run for ever: the daemon dies meanwhile.
    network.script(
        "late",
        &format!(
            "[ $CNI_COMMAND = ADD ] || exit 0\nif mkdir {0}/once 2>/dev/null; then touch {0}/begun; sleep 60; fi\n\
             sed 's/.*\"prevResult\"://; s/,\"type\":\"late\"}}$//'",
            network.dir.display()
        ),
    );
    node.wait_until("the plugin hangs", || network.dir.join("begun").exists());
    node.kill9();
    node.launch();
    node.wait_running("own", "app");
    assert_eq!(network.taken(), [address(&node, "own")]);
    // A file that is no longer a valid network takes no pod's network away.
    fs::write(network.dir.join("net.d/10-pods.conflist"), "{").unwrap();
    node.write("later.yaml", Pod::new("later").text());
    node.wait_running("later", "app");
    node.remove("own.yaml");
    node.wait_gone("own");
    node.wait_until("its address is free", || network.taken() == [address(&node, "later")]);
}
