//! The daemon, or `prune`, is killed in the middle of each kind of collection, before a call, after it, and after its
//! answer: nothing that is needed is removed, and in the end nothing is left over.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use podkeeper::testing::cgroup::node::MOUNT;

use crate::faults::{Lives, assert_untouched, lives};
use crate::harness::pods::{IMAGE, Pod};
use crate::harness::private_engine::{Engine, subdirectories};
use crate::harness::proxy::{Moment, Proxy, Verdict};
use crate::harness::{Node, Options};
use crate::node::images::{make_image, names};

const MOMENTS: [Moment; 3] = [Moment::BeforeRequest, Moment::BeforeReply, Moment::AfterReply];
const GARBAGE: usize = 4;
/// The first of them keeps running while no daemon looks, the other one ends.
const GONE: [&str; 2] = ["gone-0", "gone-1"];

/// The engine is dropped last.
struct Rig {
    node: Node,
    proxy: Proxy,
    engine: Engine,
}

fn pod(name: &str) -> Pod {
    let volumes = serde_json::json!([{"name": "data", "emptyDir": {}}]);
    let mounts = serde_json::json!([{"name": "data", "mountPath": "/data"}]);
    let pod = Pod::new(name).set("/spec/hostNetwork", true).set("/spec/volumes", volumes);
    pod.set("/spec/containers/0/volumeMounts", mounts)
}

/// All names below a directory, without those of a pod's own files.
fn entries(directory: &Path) -> BTreeSet<String> {
    let all = fs::read_dir(directory).into_iter().flatten().flatten();
    all.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

impl Rig {
    /// A node that is always short of disk, with a pod that runs, one whose image is wanted, and images that nothing
    /// needs. Its daemon is not started yet.
    fn new() -> Rig {
        let mut engine = Engine::new(&[]);
        engine.start_with_image();
        let socket = engine.base().join("proxy");
        let proxy = Proxy::start(&engine.socket(), &socket);
        let flags = [
            "--eviction-hard=imagefs.available<99.9%",
            "--minimum-image-ttl-duration=0s",
            "--pinned-images=pin*:1",
        ];
        let (endpoint, look_at) = (Some(socket), Some(engine.socket()));
        let node = Node::prepare(Options { endpoint, look_at, ..Options::flags(&flags) });
        for name in ["wanted", "pinned"] {
            make_image(&engine, name, 1000);
        }
        node.write("stays.yaml", pod("stays").text());
        let wants = pod("q").set("/spec/nodeSelector/no", "node").set("/spec/containers/0/image", "wanted:1");
        node.write("q.yaml", wants.text());
        Rig { node, proxy, engine }
    }

    fn make_garbage(&self) {
        (0..GARBAGE).for_each(|n| make_image(&self.engine, &format!("garbage-{n}"), 1000));
    }

    fn only_needed_images(&self) -> bool {
        names(&self.engine) == [IMAGE, "pinned:1", "wanted:1"]
    }

    fn needed_images_are_there(&self) {
        let names = names(&self.engine);
        for image in [IMAGE, "pinned:1", "wanted:1"] {
            assert!(names.contains(&image.to_owned()), "{image}: {names:?}");
        }
    }

    /// Cgroups of pods with these UIDs, in any hierarchy.
    fn cgroups(&self, uids: &[String]) -> Vec<String> {
        let all = subdirectories(Path::new(MOUNT)).into_iter().map(|path| path.display().to_string());
        all.filter(|path| uids.iter().any(|uid| path.contains(uid.as_str()))).collect()
    }

    /// Goes from one death to the next, until `done` with the daemon alive. Returns the number of deaths.
    fn die_until(&self, before: &Lives, done: impl Fn() -> bool) -> usize {
        for step in 0.. {
            let (moment, at) = (MOMENTS[step % 3], step % 2);
            self.proxy.forget();
            self.proxy.rule(move |request| (request.mutation == Some(at)).then_some(Verdict::Kill(moment)));
            self.node.launch_unawaited();
            self.proxy.victim(self.node.pid().unwrap());
            self.node.wait_until("the daemon is killed, or nothing is left to do", || {
                self.proxy.killed() || done() && self.proxy.changes() <= at
            });
            self.needed_images_are_there();
            assert_untouched(before, &self.node, &format!("step {step}"));
            if !self.proxy.killed() {
                self.proxy.no_rule();
                return step;
            }
            self.node.wait_for("the killed daemon is collected", || self.node.exited());
        }
        unreachable!()
    }
}

#[test]
fn a_daemon_that_is_killed_in_a_collection_leaves_nothing_and_takes_nothing_that_is_needed() {
    let rig = Rig::new();
    let node = &rig.node;
    for name in GONE {
        node.write(&format!("{name}.yaml"), pod(name).text());
    }
    node.options.borrow_mut().flags[0] = "--eviction-hard=".to_owned();
    node.launch();
    // One restart, so that `logs --previous` has to show the first run.
    let first = node.wait_running("stays", "app");
    node.wait_phase("stays", "Running");
    // Killed earlier, it would have no log.
    node.wait_until("it has begun", || node.says(&["logs", "stays"]).contains("started"));
    node.kill_container(&first.id, "KILL");
    node.wait_until("it restarts", || node.running("stays", "app").iter().any(|c| c.attempt == 1));
    for name in GONE.iter().chain(&["stays"]) {
        node.wait_phase(name, "Running");
    }
    node.wait_until("the restart is told", || {
        node.container_status("stays", "app").is_some_and(|status| status.restart_count == 1)
    });
    let previous = || node.says(&["logs", "--previous", "stays"]);
    node.wait_until("the first run's log is read", || previous().contains("started"));
    node.kill9();
    let uids = GONE.map(|name| node.wait_running(name, "app").uid);
    assert!(!rig.cgroups(&uids).is_empty());
    for name in GONE {
        node.remove(&format!("{name}.yaml"));
    }
    node.of(GONE[1]).iter().for_each(|container| node.kill_container(&container.id, "KILL"));
    node.wait_gone(GONE[1]);
    rig.make_garbage();
    let stays = node.of("stays");
    let before: Lives = lives(node).into_iter().filter(|(id, _)| stays.iter().any(|c| c.id == *id)).collect();
    assert_eq!((stays.len(), before.len()), (3, 2));

    node.options.borrow_mut().flags[0] = "--eviction-hard=imagefs.available<99.9%".to_owned();
    let left = || node.containers().len() - stays.len();
    let deaths = rig.die_until(&before, || left() == 0 && rig.only_needed_images());
    assert!(deaths >= GARBAGE + 2 * GONE.len() - 2, "{deaths}");

    assert_eq!(node.containers(), stays, "what has died is there still, for its log and its count");
    node.wait_until("the last daemon knows its pod", || {
        node.status().is_some_and(|status| Some(status.pid) == node.pid()) && node.phase("stays") == "Running"
    });
    assert_eq!(node.container_status("stays", "app").unwrap().restart_count, 1);
    assert!(previous().contains("started"));
    let uid = &stays[0].uid;
    node.wait_until("only one pod has files", || entries(&node.root().join("pods")) == [uid.clone()].into());
    let links = || entries(&node.pod_logs());
    node.wait_until("only one pod has links to logs", || {
        links().len() == 1 && links().iter().all(|name| name.ends_with(uid.as_str()))
    });
    node.wait_until("no cgroup is left", || rig.cgroups(&uids).is_empty());
    let half = |name: &String| name.contains("tmp") || name.contains("new") || name.contains("damaged");
    let files: Vec<String> = entries(&node.root()).into_iter().filter(half).collect();
    assert_eq!(files, Vec::<String>::new(), "half-written files");
    assert_eq!(node.reason("stays"), "", "no pod goes while garbage does");
}

#[test]
fn a_prune_that_is_killed_is_made_up_for_by_the_next_one() {
    let rig = Rig::new();
    let node = &rig.node;
    node.options.borrow_mut().flags[0] = "--eviction-hard=".to_owned();
    node.launch();
    node.wait_running("stays", "app");
    node.wait_phase("stays", "Running");
    node.wait_phase("q", "Failed");
    rig.make_garbage();
    let before = lives(node);
    let mut killed = 0;
    loop {
        let moment = MOMENTS[killed % 3];
        rig.proxy.forget();
        rig.proxy.rule(move |request| (request.mutation == Some(0)).then_some(Verdict::Kill(moment)));
        let mut prune = node.command(&["prune"]).spawn().unwrap();
        rig.proxy.victim(prune.id());
        let ended = prune.wait().unwrap();
        rig.needed_images_are_there();
        if ended.success() {
            break;
        }
        // The proxy reports it when the process is dead already.
        node.wait_until(&format!("the proxy has killed it: {ended:?}"), || rig.proxy.killed());
        killed += 1;
        // The daemon lives: the death of `prune` does not concern it.
        assert!(node.exited().is_none(), "{}", node.log());
    }
    assert!(rig.only_needed_images(), "{:?}", names(&rig.engine));
    assert!(killed >= GARBAGE, "{killed}");
    assert_untouched(&before, node, "prune was killed");
}
