//! Cgroups of processes outside pods, in the kernel's own files: the reserved amounts are their limits, and podkeeper,
//! its Docker and the rest of the system are in the cgroups that the flags name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use podkeeper::testing::cgroup::node::MOUNT;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::private_engine::Engine;
use crate::harness::{Node, Options};
use crate::node::images::node_on;

/// Directories whose trees show the cgroups that podkeeper writes.
fn hierarchies() -> Vec<PathBuf> {
    let mount = Path::new(MOUNT);
    if mount.join("cgroup.controllers").exists() {
        return vec![mount.to_owned()];
    }
    let all = ["cpu", "memory", "pids", "hugetlb"].map(|controller| mount.join(controller));
    all.into_iter().filter(|path| path.is_dir()).collect()
}

/// A cgroup for everything of a test, with the cgroups below it. Removed on drop.
struct Ground(String);

impl Ground {
    fn new(name: &str, below: &[&str]) -> Ground {
        let ground = Ground(format!("podkeeper-it-{name}-{}", std::process::id()));
        for hierarchy in hierarchies() {
            for part in below.iter().chain([&""]) {
                fs::create_dir_all(hierarchy.join(&ground.0).join(part)).unwrap();
            }
        }
        ground
    }

    fn processes(&self, below: &str) -> Vec<u32> {
        let text = fs::read_to_string(self.path("memory", below).join("cgroup.procs")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn path(&self, controller: &str, below: &str) -> PathBuf {
        let mount = Path::new(MOUNT);
        let top = if is_whole() { mount.to_owned() } else { mount.join(controller) };
        top.join(&self.0).join(below)
    }

    /// A value that was set, in files of version 1 or of version 2.
    fn figure(&self, below: &str, (controller, v1): (&str, &str), v2: &str) -> String {
        let file = if is_whole() { v2 } else { v1 };
        fs::read_to_string(self.path(controller, below).join(file)).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        fn remove(at: &Path) {
            let below = fs::read_dir(at).into_iter().flatten().flatten();
            below
                .filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir()))
                .for_each(|it| remove(&it.path()));
            // A process that has ended takes a moment to leave.
            for _ in 0..50 {
                if !at.exists() || fs::remove_dir(at).is_ok() {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        hierarchies().iter().for_each(|hierarchy| remove(&hierarchy.join(&self.0)));
    }
}

/// Whether the machine has only the tree of version 2.
fn is_whole() -> bool {
    Path::new(MOUNT).join("cgroup.controllers").exists()
}

fn cgroup(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

#[test]
fn podkeeper_docker_and_what_is_reserved_stand_where_flags_say() {
    let ground = Ground::new("reserved", &["kube", "system"]);
    let mut engine = Engine::new(&[]);
    engine.start();
    let flag = |flag: &str, below: &str| format!("--{flag}=/{}/{below}", ground.0);
    let flags = [
        "--enforce-node-allocatable=pods,kube-reserved,system-reserved".to_owned(),
        "--kube-reserved=cpu=200m,memory=64Mi".to_owned(),
        "--system-reserved=cpu=300m,memory=96Mi".to_owned(),
        format!("--cgroup-root=/{}", ground.0),
        flag("kube-reserved-cgroup", "kube"),
        flag("system-reserved-cgroup", "system"),
        flag("kubelet-cgroups", "podkeeper"),
        flag("runtime-cgroups", "engine"),
    ];
    let node = node_on(&engine, &flags.each_ref().map(String::as_str));
    node.launch();
    node.wait_until("limits are set", || node.log().contains("limits on system reserved cgroup"));
    let memory = ("memory", "memory.limit_in_bytes");
    assert_eq!(ground.figure("kube", memory, "memory.max"), (64 << 20).to_string());
    assert_eq!(ground.figure("system", memory, "memory.max"), (96 << 20).to_string());
    if !is_whole() {
        let shares = |below| ground.figure(below, ("cpu", "cpu.shares"), "");
        assert_eq!((shares("kube"), shares("system")), ("204".to_owned(), "307".to_owned()));
    }
    let daemon = node.pid().unwrap();
    assert_eq!(ground.processes("podkeeper"), [daemon], "{}", cgroup(daemon));
    // This engine's dockerd, and none of the other engines on this machine.
    let dockerd = engine.pid().as_raw_pid().cast_unsigned();
    let there = ground.processes("engine");
    assert!(there.contains(&dockerd), "{there:?} {}", cgroup(dockerd));
    for pid in there {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let parent: u32 =
            stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(pid == dockerd || parent == dockerd, "{pid} is no process of this Docker: {stat}");
        let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        // Some machines do not let the test lower it.
        assert!(
            score.trim() == "-999" || node.log().contains("oom_score_adj of dockerd stays as it is"),
            "{score}"
        );
    }
    assert!(node.log().contains("Updated Node Allocatable limit across pods"), "{}", node.log());
    drop(node);
    drop(engine);
}

/// A process that is ended and awaited on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// For this daemon a cgroup of the test is the topmost one: the machine's own processes stay where they are.
#[test]
fn what_stands_in_the_topmost_cgroup_is_gathered() {
    let ground = Ground::new("system", &[]);
    let tops: Vec<String> = hierarchies().iter().map(|it| it.display().to_string()).collect();
    let binds =
        tops.iter().map(|top| format!("mount --bind {top}/{0} {top} && ", ground.0)).collect::<String>();
    let script = format!("{binds} echo bound && exec sleep 1000");
    let mut view = Command::new("unshare");
    view.args(["--mount", "--propagation", "private", "--", "sh", "-c", &script]).stdout(Stdio::piped());
    let mut view = Process(view.spawn().unwrap());
    let mut bound = [0; 6];
    std::io::Read::read_exact(view.0.stdout.as_mut().unwrap(), &mut bound).unwrap();
    let other = Process(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = other.0.id();
    for hierarchy in hierarchies() {
        fs::write(hierarchy.join(&ground.0).join("cgroup.procs"), pid.to_string()).unwrap();
    }
    assert_eq!(ground.processes(""), [pid]);
    let flags = [
        "--cgroup-root=/",
        "--system-cgroups=/rest",
        "--cgroups-per-qos=false",
        "--enforce-node-allocatable=",
    ];
    let node = Node::prepare(Options { within: Some(view.0.id()), ..Options::flags(&flags) });
    node.launch_unawaited();
    // Killing the program that brought the daemon there would leave the daemon behind.
    let daemon = node.wait_for("the daemon writes its status", || node.status().map(|status| status.pid));
    let moved = node.comes_true(|| ground.processes("rest") == [pid]);
    let left = ground.processes("");
    kill_process(Pid::from_raw(daemon.cast_signed()).unwrap(), Signal::KILL).unwrap();
    assert!(moved && left.is_empty(), "{left:?}: {}", node.log());
    drop((node, other, view));
}
