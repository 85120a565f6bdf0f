//! Pods of every kind are removed, and then no trace of them is left: no containers, networks, mounts, files,
//! links or cgroups, and in the daemon itself no threads and descriptors.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use podkeeper::testing::base::limits::IDLE_CONNECTIONS;
use podkeeper::testing::cgroup::node::MOUNT;

use crate::harness::pods::free_port;
use crate::harness::{Node, Options, docker_get};

/// Pods of every kind, in one file each; `PORT` is a free port of the host, `HOST` a directory of it.
const PODS: &[(&str, &str)] = &[
    ("volumes", include_str!("away/volumes.yaml")),
    ("lives", include_str!("away/lives.yaml")),
    ("ends", include_str!("away/ends.yaml")),
    ("host", include_str!("away/host.yaml")),
];
/// The pods that run, and those that never do.
const RUNNING: &[&str] = &["volumes", "lives", "sized", "shared", "port", "host"];

/// The threads that start when they are first needed, and stay.
const LATE: &[&str] = &["pk-probe", "pk-probe-dns"];

/// Time without any change that counts as rest.
const REST: Duration = Duration::from_secs(1);

struct Place {
    node: Node,
    port: u16,
    network: String,
    /// UIDs of all pods that ever existed.
    uids: RefCell<BTreeSet<String>>,
}

/// Everything that exists at one moment. Two of these are compared.
#[derive(Debug, Clone, PartialEq)]
struct Left {
    containers: Vec<String>,
    mounts: Vec<PathBuf>,
    networks: usize,
    /// Files below the directories of the node, without the files that pods leave by design: only those of claims.
    files: BTreeSet<PathBuf>,
    cgroups: BTreeSet<PathBuf>,
    port_is_free: bool,
}

/// Resources that a daemon holds.
#[derive(Debug, Clone, PartialEq)]
struct Held {
    threads: BTreeSet<String>,
    /// Without sockets.
    descriptors: Vec<String>,
    sockets: usize,
}

impl Held {
    /// Whether no more is held than before. Connections to Docker are kept for reuse, as many as were needed at once.
    fn is_like(&self, before: &Held) -> bool {
        self.threads == before.threads
            && self.descriptors == before.descriptors
            && self.sockets <= before.sockets + IDLE_CONNECTIONS
    }
}

/// Lists everything below a directory, without following links.
fn below(dir: &Path, all: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below(&path, all);
        }
        all.insert(path);
    }
}

/// The result of a look once it has stayed the same for a while: a file that is being written has a name of its own,
/// and a thread that does one piece of work ends with it.
fn settled<T: Clone + PartialEq>(node: &Node, look: impl Fn() -> T) -> T {
    let mut last = (look(), Instant::now());
    node.wait_for("the daemon is at rest", || {
        let now = look();
        if now != last.0 {
            last = (now, Instant::now());
        }
        (last.1.elapsed() >= REST).then(|| last.0.clone())
    })
}

impl Place {
    fn new() -> Place {
        let network = format!("away-{}", std::process::id());
        let flags = [
            "--docker-network",
            &network,
            "--host-network-sources=file",
            "--allow-privileged",
            "--cgroups-per-qos",
        ];
        let node = Node::with(Options::flags(&flags));
        fs::create_dir(node.base.join("host")).unwrap();
        Place { node, port: free_port(), network, uids: RefCell::default() }
    }

    fn left(&self) -> Left {
        let node = &self.node;
        self.uids.borrow_mut().extend(node.containers().into_iter().map(|c| c.uid));
        let mut files = BTreeSet::new();
        for dir in [node.root(), node.run_dir(), node.base.join("var-log"), node.base.join("host")] {
            below(&dir, &mut files);
        }
        // Data of claims stays, and remembered manifests of removed files do not concern pods.
        let (claims, remembered) = (node.root().join("local-storage"), node.root().join("last-good"));
        files.retain(|path| !path.starts_with(&claims) && !path.starts_with(&remembered));
        let mut cgroups = BTreeSet::new();
        below(Path::new(MOUNT), &mut cgroups);
        let uids = self.uids.borrow();
        let of_ours = |path: &PathBuf| {
            let path = path.to_string_lossy();
            uids.iter().any(|uid| path.contains(uid.as_str()) || path.contains(&uid.replace('-', "_")))
        };
        cgroups.retain(of_ours);
        let networks = docker_get(node.socket(), "/networks");
        let networks = networks.as_array().unwrap().iter().filter(|n| n["Name"] == self.network.as_str());
        Left {
            containers: node.containers().into_iter().map(|c| c.name).collect(),
            mounts: node.mounts(),
            networks: networks.count(),
            files,
            cgroups,
            port_is_free: TcpListener::bind(("0.0.0.0", self.port)).is_ok(),
        }
    }

    fn held(&self) -> Held {
        let proc = PathBuf::from(format!("/proc/{}", self.node.pid().unwrap()));
        let list = |name: &str| fs::read_dir(proc.join(name)).unwrap().flatten().map(|entry| entry.path());
        let threads = list("task").filter_map(|task| fs::read_to_string(task.join("comm")).ok());
        let threads = threads.map(|name| name.trim().to_owned());
        let threads = threads.filter(|name| !LATE.contains(&name.as_str())).collect();
        let kind = |path: PathBuf| {
            let target = fs::read_link(path).ok()?.display().to_string();
            Some(target.split(":[").next().unwrap_or_default().to_owned())
        };
        let mut descriptors: Vec<String> = list("fd").filter_map(kind).collect();
        descriptors.sort();
        let all = descriptors.len();
        descriptors.retain(|kind| kind != "socket");
        Held { threads, sockets: all - descriptors.len(), descriptors }
    }

    /// Starts all pods, with everything that they do.
    fn up(&self) {
        let node = &self.node;
        let host = node.base.join("host").display().to_string();
        for (name, text) in PODS {
            let text = text.replace("PORT", &self.port.to_string()).replace("HOST", &host);
            node.write(&format!("{name}.yaml"), text);
        }
        for pod in RUNNING {
            node.wait_phase(pod, "Running");
        }
        node.wait_phase("done", "Failed");
        node.wait_phase("late", "Failed");
        node.wait_until("one crashes", || node.waits_for("crashes", "app") == "CrashLoopBackOff");
        node.wait_until("one has no image", || node.waits_for("imageless", "app") == "ErrImageNeverPull");
        node.wait_until("one has no object", || !node.waits_for("objectless", "app").is_empty());
        node.wait_until("one is refused", || node.phase("refused") == "Failed");
        let ready = |pod: &str| node.container_status(pod, "app").is_some_and(|c| c.ready);
        node.wait_until("probes have succeeded", || ready("lives"));
        self.left();
        let uids = self.uids.borrow();
        let there = self.left_quietly(&uids);
        assert!(there, "nothing would show");
    }

    /// While the pods run, every kind of trace exists: otherwise their later absence would prove nothing.
    fn left_quietly(&self, uids: &BTreeSet<String>) -> bool {
        let mut cgroups = BTreeSet::new();
        below(Path::new(MOUNT), &mut cgroups);
        let has_cgroup =
            cgroups.iter().any(|path| uids.iter().any(|uid| path.to_string_lossy().contains(uid)));
        let links = fs::read_dir(self.node.pod_logs()).is_ok_and(|entries| entries.count() > 0);
        let sub_paths = self.node.mounts().iter().any(|at| at.to_string_lossy().contains("subpaths"));
        let port_is_taken = TcpListener::bind(("0.0.0.0", self.port)).is_err();
        has_cgroup && links && sub_paths && port_is_taken
    }

    fn down(&self) {
        for (name, _) in PODS {
            self.node.remove(&format!("{name}.yaml"));
        }
    }

    /// Waits until the state is as it was before; reports what is left over.
    fn wait_as(&self, before: &Left, held: Option<&Held>, when: &str) {
        let mut last = None;
        let same = self.node.comes_true(|| {
            let (left, now) = (self.left(), self.held());
            let same = left == *before && held.is_none_or(|held| now.is_like(held));
            last = Some((left, now));
            same
        });
        let (left, now) = last.unwrap();
        let files: Vec<_> = left.files.symmetric_difference(&before.files).collect();
        assert!(
            same,
            "{when}: files {files:#?}\n{:#?}\n{now:#?}, before {held:#?}\n{}",
            Left { files: BTreeSet::new(), ..left },
            self.node.picture()
        );
    }
}

#[test]
fn of_pods_that_are_gone_nothing_is_left() {
    let place = Place::new();
    let node = &place.node;
    // The files of a daemon at rest, besides those that pods bring.
    let mut before = settled(node, || place.left());
    // The first pod creates these, and no pod removes them.
    let logs = node.base.join("var-log");
    for path in [
        node.run_dir().join("events.json"),
        node.run_dir().join("signalled"),
        node.root().join("pods"),
        node.root().join("images-seen"),
        node.root().join("stage"),
        node.root().join("stage/directory"),
        node.root().join("stage/file"),
        logs.join("pods"),
        logs.join("containers"),
    ] {
        before.files.insert(path);
    }
    place.up();
    place.down();
    place.wait_as(&before, None, "after the first time");
    let held = settled(node, || place.held());

    // Again, to see that nothing accumulates.
    place.up();
    place.down();
    place.wait_as(&before, Some(&held), "after the second time");

    // The daemon is killed while the pods run, and the next daemon removes them.
    place.up();
    node.kill9();
    node.launch();
    node.wait_until("they are adopted", || RUNNING.iter().all(|pod| node.phase(pod) == "Running"));
    place.down();
    place.wait_as(&before, None, "after a daemon was killed");

    // The daemon is killed, and the next daemon never sees the manifests of these pods.
    place.up();
    node.kill9();
    place.down();
    node.launch();
    place.wait_as(&before, None, "after their manifests went unseen");
}
