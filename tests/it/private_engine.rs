//! A Docker Engine of the test's own, to be killed, stopped and started at will. It has no bridge and no
//! packet filter rules, so its pods use the host's network.
//!
//! It lives in a network namespace of its own, always: a dockerd without a bridge deletes `docker0`, and in
//! the machine's namespace that would be the bridge of the engine everybody else uses.
//!
//! Whatever happens, nothing of it may be left: processes, cgroups and mounts go with the guard.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use podkeeper::testing::runtime::client::Client;
use podkeeper::testing::runtime::connection::Wait;
use podkeeper::testing::runtime::docker::Docker;
use podkeeper::testing::runtime::fake::Rng;
use rustix::process::{Pid, Signal, kill_process};

use super::faults::{Lives, assert_single, assert_untouched, lives};
use super::harness::{Container, Node, Options, PATIENCE, SOCKET};
use super::pods::{IMAGE, Pod};

/// The engine and its directories.
pub struct Engine {
    name: String,
    base: PathBuf,
    flags: Vec<String>,
    process: Option<Child>,
}

impl Engine {
    /// It does not run yet.
    pub fn new(flags: &[&str]) -> Engine {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("podkeeper-e{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let base = std::env::temp_dir().join(&name);
        fs::create_dir_all(&base).unwrap();
        Engine { name, base, flags: flags.iter().map(|&f| f.to_owned()).collect(), process: None }
    }

    pub fn socket(&self) -> PathBuf {
        self.base.join("sock")
    }

    /// Everything of this engine is below it.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Docker's root directory.
    pub fn data(&self) -> PathBuf {
        self.base.join("data")
    }

    /// Gives it a file system of its own for all its data, of so many MiB. Before its first start.
    pub fn put_on_a_disk_of(&self, mib: u64) {
        let (disk, data) = (self.base.join("disk"), self.data());
        fs::File::create(&disk).unwrap().set_len(mib << 20).unwrap();
        fs::create_dir_all(&data).unwrap();
        let made = Command::new("mkfs.ext4").arg("-q").arg(&disk).status().unwrap();
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(&disk).arg(&data).status().unwrap();
        assert!(made.success() && mounted.success(), "no file system could be made");
    }

    fn docker(&self) -> Docker {
        Docker::Engine(Client::new(&self.socket()))
    }

    /// Starts dockerd and waits until it answers.
    pub fn start(&mut self) {
        self.launch();
        let begun = Instant::now();
        while Client::new(&self.socket()).ping().is_err() {
            if begun.elapsed() > PATIENCE {
                panic!("dockerd does not answer:\n{}", fs::read_to_string(self.base.join("log")).unwrap());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// As [`Engine::start`], the first time: also with the image that the pods are made of.
    pub fn start_with_image(&mut self) {
        self.start();
        let loaded = self.docker().load(&mut image_archive().as_slice(), &Wait::at_most(PATIENCE)).unwrap();
        assert_eq!(loaded, [IMAGE]);
    }

    fn launch(&mut self) {
        assert!(self.process.is_none());
        // Of one that was killed; the numbers in them may be somebody else's by now.
        for file in ["pid", "exec/containerd/containerd.pid"] {
            _ = fs::remove_file(self.base.join(file));
        }
        let log = fs::File::options().create(true).append(true).open(self.base.join("log")).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "dockerd"]);
        for (flag, name) in [("--data-root", "data"), ("--exec-root", "exec"), ("--pidfile", "pid")] {
            command.arg(flag).arg(self.base.join(name));
        }
        command.arg("--host").arg(format!("unix://{}", self.socket().display()));
        command.args(["--bridge=none", "--iptables=false", "--ip6tables=false"]);
        // A containerd of the machine, if dockerd finds one, must not mix these containers with others.
        command.args(["--containerd-namespace", &self.name]);
        command.args(["--containerd-plugins-namespace", &format!("{}-plugins", self.name)]);
        command.args(["--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent"]);
        command.arg(format!("/{}", self.name)).args(&self.flags);
        // The machine's own settings are not for this one.
        fs::write(self.base.join("daemon.json"), "{}").unwrap();
        command.arg("--config-file").arg(self.base.join("daemon.json"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.process = Some(command.spawn().expect("unshare"));
    }

    /// Of dockerd, which runs.
    pub fn pid(&self) -> Pid {
        Pid::from_child(self.process.as_ref().expect("dockerd runs"))
    }

    pub fn kill9(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        // Its containerd dies with it, a moment later.
        let begun = Instant::now();
        while self.processes().iter().any(|(line, _)| line.starts_with("containerd\0")) {
            assert!(begun.elapsed() < PATIENCE, "containerd outlives its dockerd");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGTERM, and waits for the end.
    fn stop(&mut self) {
        let mut process = self.process.take().unwrap();
        kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
        process.wait().unwrap();
    }

    /// Its cgroups: one with version 2, one of each controller with version 1.
    fn cgroups(&self) -> Vec<PathBuf> {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
        let all = std::iter::once(root.to_owned()).chain(hierarchies);
        all.map(|path| path.join(&self.name)).filter(|path| path.is_dir()).collect()
    }

    /// Processes whose command line names this engine's directory: containerd and the shims.
    fn processes(&self) -> Vec<(String, Pid)> {
        let base = self.base.to_str().unwrap();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let program = line.split('\0').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
            let ours = program.starts_with("containerd") && line.contains(base);
            ours.then_some(())?;
            Some((line, Pid::from_raw(pid)?))
        })
        .collect()
    }

    fn kill_all(&self) -> bool {
        let mut pids: Vec<Pid> = self.processes().into_iter().map(|(_, pid)| pid).collect();
        for cgroup in self.cgroups() {
            for inner in subdirectories(&cgroup) {
                let procs = fs::read_to_string(inner.join("cgroup.procs")).unwrap_or_default();
                pids.extend(procs.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)));
            }
        }
        for pid in &pids {
            _ = kill_process(*pid, Signal::KILL);
        }
        pids.is_empty()
    }
}

/// The pods' image as the machine's own engine gives it: a tar that any engine can load.
pub fn image_archive() -> Vec<u8> {
    let mut stream = UnixStream::connect(SOCKET).unwrap();
    write!(stream, "GET /images/{IMAGE}/get HTTP/1.0\r\nHost: docker\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    answer.split_off(head)
}

/// The directory and all below it, the deepest first.
pub fn subdirectories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> =
        entries.filter(|p| p.is_dir() && !p.is_symlink()).flat_map(|p| subdirectories(&p)).collect();
    all.push(path.to_owned());
    all
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.process.is_some() {
            // A test that has failed may have left it standing still.
            _ = kill_process(self.pid(), Signal::CONT);
            self.stop();
        }
        let begun = Instant::now();
        while !self.kill_all() && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        for cgroup in self.cgroups().iter().flat_map(|cgroup| subdirectories(cgroup)) {
            _ = fs::remove_dir(cgroup);
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let ours = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let ours: Vec<&str> = ours.filter(|at| Path::new(at).starts_with(&self.base)).collect();
        for at in ours.iter().rev() {
            _ = Command::new("umount").arg("-l").arg(at).status();
        }
        _ = fs::remove_dir_all(&self.base);
    }
}

fn pod(name: &str) -> Pod {
    Pod::new(name).set("/spec/hostNetwork", true)
}

/// A node on this engine; its daemon does not run yet. Drop it before the engine.
fn node_on(engine: &Engine) -> Node {
    let socket = Some(engine.socket());
    Node::prepare(Options { endpoint: socket.clone(), look_at: socket, ..Options::default() })
}

/// Waits until each pod runs whole, exactly once, and gives what runs.
fn wait_whole(node: &Node, pods: &[&str]) -> Lives {
    node.wait_for("each pod runs exactly once", || {
        assert_single(node, "on the private engine");
        let running: Vec<Container> = node.containers().into_iter().filter(Container::runs).collect();
        let whole = pods.iter().all(|pod| {
            let full = node.full(pod);
            ["POD", "app"].iter().all(|c| running.iter().any(|r| r.pod == full && r.container == *c))
        });
        (whole && running.len() == 2 * pods.len()).then(|| lives(node))
    })
}

fn wait_unreachable(node: &Node) {
    node.wait_until("the status says that Docker is away", || {
        assert!(node.exited().is_none(), "the daemon ended:\n{}", node.log());
        node.status().is_some_and(|s| !s.docker.reachable && s.docker.problem.is_some())
    });
    let output = node.podkeeper(&["get", "pods"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("Docker is not reachable"), "{error}");
}

/// kubernetes/kubernetes#86420: the engine comes late, is killed, is stopped; the daemon stays, says so, and
/// afterwards every pod runs once.
#[test]
fn k86420_an_engine_that_comes_late_dies_and_is_stopped() {
    let mut engine = Engine::new(&[]);
    let node = node_on(&engine);
    for name in ["p", "q"] {
        node.write(&format!("{name}.yaml"), pod(name).text());
    }
    node.launch();
    let daemon = node.pid();
    wait_unreachable(&node);
    engine.start_with_image();
    let first = wait_whole(&node, &["p", "q"]);

    engine.kill9();
    wait_unreachable(&node);
    engine.start();
    // Without live-restore dockerd takes down what it finds running: all is made anew, by us alone.
    let second = node.wait_for("all run again", || {
        let now = wait_whole(&node, &["p", "q"]);
        now.keys().all(|id| !first.contains_key(id) || now[id] != first[id]).then_some(now)
    });

    engine.stop();
    wait_unreachable(&node);
    // Changes in the meantime are carried out afterwards.
    node.remove("q.yaml");
    node.write("r.yaml", pod("r").text());
    engine.start();
    let third = wait_whole(&node, &["p", "r"]);
    assert!(third.iter().all(|(id, life)| second.get(id) != Some(life)), "{third:?}");
    assert_eq!(node.pid(), daemon);
    node.wait_until("the status is well again", || node.status().is_some_and(|s| s.docker.reachable));
    node.wait_phase("r", "Running");
    drop(node);
}

/// kubernetes/kubernetes#86420: with live-restore the containers outlive dockerd, and nobody restarts them:
/// neither when dockerd dies, nor the daemon, nor both.
#[test]
fn k86420_containers_that_outlive_dockerd_are_kept() {
    let mut engine = Engine::new(&["--live-restore"]);
    engine.start_with_image();
    let node = node_on(&engine);
    node.write("p.yaml", pod("p").text());
    node.launch();
    let before = wait_whole(&node, &["p"]);
    node.wait_phase("p", "Running");
    engine.kill9();
    wait_unreachable(&node);
    engine.start();
    node.wait_until("the status is well again", || node.status().is_some_and(|s| s.docker.reachable));
    assert_untouched(&before, &node, "dockerd was killed");
    engine.kill9();
    node.kill9();
    engine.start();
    node.launch();
    node.wait_phase("p", "Running");
    assert_untouched(&before, &node, "dockerd and the daemon were killed");
    // It is watched, too.
    let app = node.wait_running("p", "app");
    node.kill_container(&app.id, "KILL");
    node.wait_until("it is restarted", || node.running("p", "app").iter().any(|c| c.attempt == 1));
    drop(node);
}

/// moby/moby#39450: dockerd and the daemon are killed at random moments, together and alone, while manifests
/// change; in the end exactly what the manifests say runs.
#[test]
fn k39450_dockerd_and_the_daemon_killed_at_random() {
    let rounds: u64 = std::env::var("PODKEEPER_POWER_CUTS").map_or(6, |n| n.parse().unwrap());
    let seed: u64 = std::env::var("PODKEEPER_SEED").map_or(1, |n| n.parse().unwrap());
    let mut rng = Rng::new(seed);
    let mut engine = Engine::new(&[]);
    engine.start_with_image();
    let node = node_on(&engine);
    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    // Two nodes with pods of one UID would share their cgroups.
    let uid = |round: u64| node.full(&format!("u{round}"));
    for round in 0..rounds {
        let names = ["a", "b", "c", "d"];
        let name = names[usize::try_from(rng.number() % 4).unwrap()];
        if round > 2 && rng.number().is_multiple_of(3) && wanted.remove(name).is_some() {
            node.remove(&format!("{name}.yaml"));
        } else {
            wanted.insert(name, round);
            node.write(&format!("{name}.yaml"), pod(name).set("/metadata/uid", uid(round)).text());
        }
        if node.pid().is_none() {
            node.launch_unawaited();
        }
        // The moment is the matter of this test: from the first call to well after the last.
        thread::sleep(Duration::from_millis(rng.number() % 1200));
        let who = rng.number() % 3;
        if who != 0 {
            engine.kill9();
        }
        if who != 1 {
            node.kill9();
        }
        if who != 0 {
            engine.start();
        }
    }
    if node.pid().is_none() {
        node.launch_unawaited();
    }
    let pods: Vec<&str> = wanted.keys().copied().collect();
    let whole = wait_whole(&node, &pods);
    for (pod, round) in &wanted {
        node.wait_phase(pod, "Running");
        let uids: Vec<String> = node.of(pod).into_iter().filter(Container::runs).map(|c| c.uid).collect();
        assert_eq!(uids, [uid(*round), uid(*round)], "seed {seed}: {pod}");
    }
    // And they stay.
    assert_eq!(lives(&node), whole, "seed {seed}");
    drop(node);
}

/// A pod that has ended for good stays ended: whether the engine is stopped, or killed, or the daemon with it.
#[test]
fn terminal_phases_outlive_the_engine_and_the_daemon() {
    let mut engine = Engine::new(&[]);
    engine.start_with_image();
    let node = node_on(&engine);
    let ended = [
        ("never-0", pod("never-0").restart_policy("Never").script("exit 0"), "Succeeded"),
        ("never-7", pod("never-7").restart_policy("Never").script("exit 7"), "Failed"),
        ("on-failure-0", pod("on-failure-0").restart_policy("OnFailure").script("exit 0"), "Succeeded"),
        ("deadline", pod("deadline").set("/spec/activeDeadlineSeconds", 4), "Failed"),
    ];
    for (name, pod, _) in &ended {
        node.write(&format!("{name}.yaml"), pod.text());
    }
    node.write("runs.yaml", pod("runs").text());
    node.launch();
    let apps = || -> Vec<String> {
        let runs = node.full("runs");
        let all = node.containers().into_iter().filter(|c| c.pod != runs && c.container == "app");
        all.map(|c| format!("{} {:?} {}", c.id, c.started_at, c.exit_code)).collect()
    };
    // Answers which attempt of the one that lasts runs: one whose start the engine's end cut off costs another.
    let check = |before: Option<u32>, when: &str| {
        let next = || node.running("runs", "app").iter().map(|c| c.attempt).find(|at| Some(*at) > before);
        // When this one runs again, the others would have been started, too.
        node.wait_until(&format!("the one that lasts runs again {when}"), || {
            next().is_some() && node.phase("runs") == "Running"
        });
        let attempt = next();
        for (name, _, phase) in &ended {
            node.wait_phase(name, phase);
            assert!(!node.of(name).iter().any(Container::runs), "{name} {when}");
        }
        assert_eq!(node.reason("deadline"), "DeadlineExceeded", "{when}");
        attempt
    };
    let begun = check(None, "at first");
    let first = apps();
    engine.stop();
    wait_unreachable(&node);
    engine.start();
    let again = check(begun, "after a stop of the engine");
    engine.kill9();
    node.kill9();
    engine.start();
    node.launch();
    check(again, "after both were killed");
    assert_eq!(apps(), first, "none was started again");
    drop(node);
}
