//! Podman's compatible socket instead of Docker's. The test's own service keeps its storage, run directory,
//! locks and networks apart from the machine's; it runs in its own namespaces, so that its bridge and mounts
//! end with it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use podkeeper::testing::runtime::client::Client;
use podkeeper::testing::runtime::connection::Wait;
use podkeeper::testing::runtime::docker::Docker;
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};
use serde_json::json;

use crate::faults::{assert_untouched, lives};
use crate::harness::pods::{Pod, container};
use crate::harness::private_engine::image_archive;
use crate::harness::{Container, Node, Options, PATIENCE};

struct Podman {
    base: PathBuf,
    service: Child,
}

impl Podman {
    fn start() -> Podman {
        let found = Command::new("podman").arg("--version").stdout(Stdio::null()).status();
        let why = "podman is not installed: install podman, netavark and catatonit (sh tests/run does)";
        assert!(found.is_ok_and(|status| status.success()), "{why}");
        let base = std::env::temp_dir().join(format!("podkeeper-podman-{}", std::process::id()));
        _ = fs::remove_dir_all(&base);
        fs::create_dir_all(&base).unwrap();
        let at = |name: &str| base.join(name).display().to_string();
        // Podman's defaults are higher than what a process without CAP_SYS_RESOURCE may ask for, and it lowers
        // its own number of processes to `kernel.pid_max`, which is at least this.
        let limit = |resource: Resource| getrlimit(resource).maximum.unwrap_or(u64::MAX).min(32_768);
        let (files, processes) = (limit(Resource::Nofile), limit(Resource::Nproc));
        let config = format!(
            "[containers]\ndefault_ulimits = [\"nofile={files}:{files}\", \"nproc={processes}:{processes}\"]\n\
             [engine]\nlock_type = \"file\"\ntmp_dir = \"{}\"\nevents_logger = \"file\"\n\
             cgroup_manager = \"cgroupfs\"\n[network]\nnetwork_backend = \"netavark\"\n\
             network_config_dir = \"{}\"\n",
            at("tmp"),
            at("networks")
        );
        fs::write(base.join("containers.conf"), config).unwrap();
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
            at("root"),
            at("run")
        );
        fs::write(base.join("storage.conf"), storage).unwrap();
        let log = fs::File::create(base.join("log")).unwrap();
        let service = Command::new("unshare")
            .args(["--net", "--mount", "--", "podman", "--root", &at("root"), "--runroot", &at("run")])
            .args(["system", "service", "--time=0", &format!("unix://{}", at("sock"))])
            .env("CONTAINERS_CONF", at("containers.conf"))
            .env("CONTAINERS_STORAGE_CONF", at("storage.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("unshare");
        let podman = Podman { base, service };
        let client = Client::new(&podman.socket());
        let docker = Docker::Engine(client.clone());
        let begun = Instant::now();
        while let Err(error) = client.ping() {
            assert!(begun.elapsed() < PATIENCE, "{error}:\n{}", podman.log());
            thread::sleep(Duration::from_millis(50));
        }
        let loaded = docker.load(&mut image_archive().as_slice(), &Wait::at_most(PATIENCE)).unwrap();
        // The archive of a newer Docker has the whole name.
        let names = ["localhost/busybox:static", "docker.io/library/busybox:static"];
        assert!(loaded.len() == 1 && names.contains(&loaded[0].as_str()), "{loaded:?}");
        podman
    }

    fn socket(&self) -> PathBuf {
        self.base.join("sock")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.base.join("log")).unwrap_or_default()
    }

    /// The monitor processes of containers, found by the directory in their command line.
    fn monitors(&self) -> Vec<Pid> {
        let base = self.base.to_str().unwrap();
        let pids = fs::read_dir("/proc").unwrap().flatten();
        pids.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line);
                line.split('\0').next().is_some_and(|program| program.ends_with("conmon"))
                    && line.contains(base)
            })
            .filter_map(Pid::from_raw)
            .collect()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // The node has removed its containers; if it could not, they end with their monitors.
        for monitor in self.monitors() {
            let pid = monitor.as_raw_nonzero();
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
                _ = kill_process(child, Signal::KILL);
            }
            _ = kill_process(monitor, Signal::KILL);
        }
        _ = kill_process(Pid::from_child(&self.service), Signal::TERM);
        let begun = Instant::now();
        while !matches!(self.service.try_wait(), Ok(Some(_))) && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(20));
        }
        _ = self.service.kill();
        _ = self.service.wait();
        _ = fs::remove_dir_all(&self.base);
    }
}

/// A pod's whole life on Podman: created, adopted, damaged, restarted, refused, removed.
#[test]
fn a_pod_lives_on_podman() {
    let podman = Podman::start();
    let socket = Some(podman.socket());
    let node = Node::with(Options { endpoint: socket.clone(), look_at: socket, ..Options::default() });
    let pod = Pod::new("p")
        .init(container("init", "exit 0"))
        .set("/spec/containers/0/env", json!([{"name": "A", "value": "b"}]));
    node.write("p.yaml", pod.text());
    let app = node.wait_running("p", "app");
    let sandbox = node.wait_running("p", "POD");
    node.wait_phase("p", "Running");
    let ip = node.pod("p").and_then(|p| p.status).and_then(|s| s.pod_ip).unwrap_or_default();
    assert!(ip.starts_with("10."), "{ip:?}: an address of Podman's network");
    node.wait_until("the app has begun", || !node.says(&["logs", &node.full("p")]).is_empty());
    assert_eq!(node.says(&["logs", &node.full("p")]), "started\n");
    assert_eq!(node.says(&["exec", &node.full("p"), "--", "sh", "-c", "echo $A"]), "b\n");

    // Adopted after kill -9, and nothing is restarted.
    let before = lives(&node);
    node.kill9();
    node.launch();
    node.wait_phase("p", "Running");
    assert_untouched(&before, &node, "adoption");

    // An event reports a death.
    node.kill_container(&app.id, "KILL");
    node.wait_until("the container is restarted", || node.running("p", "app").iter().any(|c| c.attempt == 1));
    node.wait_until("the status counts it", || {
        node.container_status("p", "app").is_some_and(|c| c.restart_count == 1 && c.ready)
    });
    let last =
        node.container_status("p", "app").and_then(|c| c.last_state).and_then(|s| s.terminated).unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (137, Some("Error")));
    assert_eq!(node.running("p", "POD")[0].id, sandbox.id);

    // A dead sandbox takes its pod with it; Podman keeps the sandbox as long as the dead containers that
    // joined it are kept.
    node.kill9();
    node.kill_container(&sandbox.id, "KILL");
    node.launch();
    node.wait_until("the whole pod is made anew", || {
        node.running("p", "POD").iter().any(|c| c.id != sandbox.id) && node.running("p", "app").len() == 1
    });
    let warned = node.log().contains("could not be removed");
    assert!(!warned, "a sandbox that waits for its dead is nothing to warn of:\n{}", node.log());

    // A command that does not exist.
    node.write(
        "bad.yaml",
        Pod::new("bad").restart_policy("Never").set("/spec/containers/0/command", json!(["/nosuch"])).text(),
    );
    node.wait_phase("bad", "Failed");
    let state = node.container_status("bad", "app").and_then(|c| c.state).and_then(|s| s.terminated).unwrap();
    assert_eq!(state.reason.as_deref(), Some("ContainerCannotRun"), "{state:?}");

    // Edited, and removed without a trace.
    node.write("p.yaml", Pod::new("p").set("/metadata/uid", "podman-new").text());
    node.wait_until("the edited pod runs", || {
        let running: Vec<Container> = node.of("p").into_iter().filter(Container::runs).collect();
        running.len() == 2 && running.iter().all(|c| c.uid == "podman-new")
    });
    node.remove("p.yaml");
    node.remove("bad.yaml");
    node.wait_until("nothing is left", || node.containers().is_empty());
    drop(node);
}
