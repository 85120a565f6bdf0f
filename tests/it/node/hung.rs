//! Docker stops, hangs or dies while images are removed: the daemon continues, still watches memory, and nothing
//! is lost.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use podkeeper::testing::runtime::{Call, CreateBody, Reply, labels};
use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::faults::{assert_untouched, lives};
use crate::harness::pods::{IMAGE, Pod};
use crate::harness::private_engine::Engine;
use crate::harness::proxy::{Proxy, Verdict};
use crate::harness::{Node, Options};
use crate::node::images::{make_image, names};
use crate::node::pressure::{Below, MIB, memory};

const REMOVES: &str = "DELETE /images/";

fn pod(name: &str) -> Pod {
    Pod::new(name).set("/spec/hostNetwork", true)
}

/// A node that is always short of disk, behind a proxy. Its daemon is not started yet.
fn node_on(engine: &Engine, more: &[&str]) -> (Node, Proxy) {
    let socket = engine.base().join("proxy");
    let proxy = Proxy::start(&engine.socket(), &socket);
    let flags = ["--minimum-image-ttl-duration=0s"];
    let options = Options::flags(&[&flags, more].concat());
    (Node::prepare(Options { endpoint: Some(socket), look_at: Some(engine.socket()), ..options }), proxy)
}

fn removals(proxy: &Proxy) -> usize {
    proxy.log().iter().filter(|line| line.starts_with(REMOVES)).count()
}

/// Once with a removal that Docker never answers, once with a Docker that is stopped altogether.
fn memory_is_looked_after(below: &str, stands_still: bool) {
    let below = Below(format!("podkeeper-it-{below}-{}", std::process::id()));
    let mut engine = Engine::new(&[]);
    engine.start_with_image();
    let reserved = format!("--kube-reserved=memory={}", memory() - 300 * MIB);
    let root = format!("--cgroup-root=/{}", below.0);
    let hard = "--eviction-hard=imagefs.available<99.9%,allocatableMemory.available<100Mi";
    let (node, proxy) = node_on(&engine, &[hard, &reserved, &root]);
    let go = node.base.join("go");
    fs::create_dir(&go).unwrap();
    let script = "trap 'exit 0' TERM; while [ ! -e /go/now ]; do sleep 0.1; done; \
                  dd if=/dev/zero of=/data/file bs=1M count=220; sleep 100000 & wait";
    let volumes = json!([
        {"name": "go", "hostPath": {"path": go}}, {"name": "data", "emptyDir": {"medium": "Memory"}},
    ]);
    let mounts = json!([{"name": "go", "mountPath": "/go"}, {"name": "data", "mountPath": "/data"}]);
    let request = |amount: &str| json!({"requests": {"memory": amount}});
    let greedy = pod("greedy").script(script).set("/spec/volumes", volumes);
    let greedy = greedy.set("/spec/containers/0/volumeMounts", mounts);
    node.write("greedy.yaml", greedy.set("/spec/containers/0/resources", request("10Mi")).text());
    node.write("modest.yaml", pod("modest").set("/spec/containers/0/resources", request("50Mi")).text());
    node.options.borrow_mut().flags[1] = "--eviction-hard=".to_owned();
    node.launch();
    node.wait_running("greedy", "app");
    let modest = node.wait_running("modest", "app");
    for name in ["greedy", "modest"] {
        node.wait_phase(name, "Running");
    }
    assert!(node.stop().success());
    for name in ["garbage-0", "garbage-1"] {
        make_image(&engine, name, 1000);
    }
    node.options.borrow_mut().flags[1] = hard.to_owned();
    let dockerd = engine.pid();
    let (known, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (is_known, stops) = (Arc::clone(&known), Arc::clone(&stopped));
    proxy.forget();
    proxy.rule(move |request| {
        let removes = request.method == "DELETE" && request.path.starts_with("/images/");
        if removes {
            while !is_known.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(10));
            }
            if stands_still && !stops.load(Ordering::SeqCst) {
                kill_process(dockerd, Signal::STOP).unwrap();
            }
            stops.store(true, Ordering::SeqCst);
        }
        (removes && !stands_still).then_some(Verdict::Hold)
    });
    node.launch();
    let daemon = node.pid();
    node.wait_until("an image is being removed", || removals(&proxy) == 1);
    // The daemon cannot end a pod that it has not seen yet.
    node.wait_until("the daemon knows its pods", || {
        ["greedy", "modest"].iter().all(|pod| node.phase(pod) == "Running")
    });
    known.store(true, Ordering::SeqCst);
    node.wait_until("Docker stands still", || stopped.load(Ordering::SeqCst));
    fs::write(go.join("now"), "").unwrap();
    let line = format!("pod default/{}: Evicted: The node was low on resource: memory.", node.full("greedy"));
    node.wait_until("the pod is to go", || node.log().contains(&line));
    assert_eq!(removals(&proxy), 1, "that removal is not over");
    proxy.no_rule();
    if stands_still {
        kill_process(dockerd, Signal::CONT).unwrap();
    }
    node.wait_until("the pod is evicted", || node.reason("greedy") == "Evicted");
    node.wait_gone("greedy");
    if stands_still {
        node.wait_until("the collection goes on", || names(&engine) == [IMAGE]);
    }
    assert_eq!((node.pid(), node.exited()), (daemon, None));
    assert_eq!(node.running("modest", "app"), [modest]);
    assert_eq!(node.reason("modest"), "");
    drop(node);
}

#[test]
fn a_pod_goes_for_memory_while_docker_never_answers_the_removal_of_an_image() {
    memory_is_looked_after("hung-call", false);
}

#[test]
fn a_pod_goes_for_memory_when_docker_goes_on_after_it_stood_still_in_the_removal_of_an_image() {
    memory_is_looked_after("hung-docker", true);
}

#[test]
fn a_docker_that_dies_while_it_removes_images_loses_nothing_that_is_needed() {
    let mut engine = Engine::new(&["--live-restore"]);
    engine.start_with_image();
    make_image(&engine, "wanted", 1000);
    let (node, proxy) = node_on(&engine, &["--eviction-hard="]);
    node.write("p.yaml", pod("p").text());
    let wants = pod("q").set("/spec/nodeSelector/no", "node").set("/spec/containers/0/image", "wanted:1");
    node.write("q.yaml", wants.text());
    node.launch();
    node.wait_phase("p", "Running");
    node.wait_phase("q", "Failed");
    let before = lives(&node);
    assert!(node.stop().success());
    for n in 0..4 {
        make_image(&engine, &format!("garbage-{n}"), 1 << 20);
    }
    node.options.borrow_mut().flags[1] = "--eviction-hard=imagefs.available<99.9%".to_owned();
    let dockerd = engine.pid();
    proxy.forget();
    proxy.rule(move |request| {
        if request.method == "DELETE" && request.path.starts_with("/images/") {
            // The call is on its way, or carried out and not answered.
            thread::spawn(move || kill_process(dockerd, Signal::KILL));
        }
        None
    });
    node.launch();
    let daemon = node.pid();
    node.wait_until("an image is being removed", || removals(&proxy) >= 1);
    engine.kill9();
    node.wait_until("the status says that Docker is away", || {
        node.status().is_some_and(|status| !status.docker.reachable)
    });
    proxy.no_rule();
    engine.start();
    node.wait_until("the daemon has Docker back", || node.status().is_some_and(|s| s.docker.reachable));
    // The daemon would collect them itself a minute later.
    let said = node.says(&["prune"]);
    assert_eq!(names(&engine), [IMAGE, "wanted:1"], "{said}");
    assert_untouched(&before, &node, "Docker was killed");
    assert_eq!((node.pid(), node.exited()), (daemon, None));
    // No remains of a removed image are in the way.
    make_image(&engine, "garbage-0", 1000);
    assert!(names(&engine).contains(&"garbage-0:1".to_owned()));
    drop(node);
}

/// Another program, or an earlier version, has put the node's label on a container without naming its owner.
#[test]
fn a_container_that_does_not_say_whose_it_is_is_told_and_left_alone() {
    let node = Node::prepare(Options::default());
    let name = format!("strange-{}", node.name);
    let root = node.root().display().to_string();
    let make = |name: &str, more: &[(&str, &str)]| {
        let all = [&[(labels::ROOT_DIR, root.as_str())], more].concat();
        let body = CreateBody {
            image: IMAGE.into(),
            cmd: Some(vec!["sleep".into(), "100000".into()]),
            labels: all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..CreateBody::default()
        };
        match node.docker(&Call::Create { name: name.to_owned(), body: Box::new(body) }) {
            Reply::Created { id, .. } => id,
            other => panic!("{other:?}"),
        }
    };
    let runs = make(&name, &[]);
    node.docker(&Call::Start { id: runs.clone() });
    let uid =
        [(labels::POD_NAMESPACE, "default"), (labels::POD_NAME, "gone"), (labels::CONTAINER_NAME, "app")];
    let dead = make(&format!("{name}-dead"), &uid);
    node.write("p.yaml", Pod::new("p").text());
    node.launch();
    node.wait_phase("p", "Running");
    let told = |name: &str| {
        let line = format!("container {name} bears the label of this node, and not which pod it belongs to");
        node.log().matches(&line).count()
    };
    node.wait_until("it is told", || told(&name) == 1 && told(&format!("{name}-dead")) == 1);
    // After another list nothing has changed.
    node.signal(Signal::HUP);
    node.write("r.yaml", Pod::new("r").text());
    node.wait_phase("r", "Running");
    node.remove("r.yaml");
    node.wait_gone("r");
    assert!(node.container(&runs).unwrap().runs());
    assert!(node.container(&dead).is_some());
    assert_eq!(told(&name), 1, "once");
}
