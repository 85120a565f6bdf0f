//! Docker Engines that come late, die, are killed at random and come back, with the daemon or without it.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use podkeeper::testing::runtime::fake::Rng;

use crate::faults::{Lives, assert_single, assert_untouched, lives};
use crate::harness::pods::Pod;
use crate::harness::private_engine::Engine;
use crate::harness::{Container, Node, Options};

fn pod(name: &str) -> Pod {
    Pod::new(name).set("/spec/hostNetwork", true)
}

/// A node on this engine; its daemon is not started yet. Drop it before the engine.
fn node_on(engine: &Engine) -> Node {
    let socket = Some(engine.socket());
    Node::prepare(Options { endpoint: socket.clone(), look_at: socket, ..Options::default() })
}

/// Waits until each pod runs completely, exactly once, and returns what runs.
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

/// An engine that is being stopped waits for a container that does not end, and still answers on its old connections. The
/// other pods were restarted in it, and stopped again.
#[test]
fn nothing_is_restarted_in_an_engine_that_is_being_stopped() {
    let mut engine = Engine::new(&[]);
    let node = node_on(&engine);
    engine.start_with_image();
    let deaf = pod("deaf").script("trap '' TERM; while :; do sleep 1; done");
    node.write("deaf.yaml", deaf.text());
    node.write("quick.yaml", pod("quick").text());
    node.launch();
    wait_whole(&node, &["deaf", "quick"]);
    engine.stop();
    wait_unreachable(&node);
    engine.start();
    wait_whole(&node, &["deaf", "quick"]);
    let app: Vec<Container> = node.of("quick").into_iter().filter(|c| c.container == "app").collect();
    assert!(app.iter().all(|c| c.attempt <= 1), "{app:?}");
}

/// kubernetes/kubernetes#86420: the engine comes late, is killed, is stopped; the daemon stays, reports it, and
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
    // Without live-restore dockerd takes down the containers that it finds running: podkeeper alone makes
    // everything again.
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

/// kubernetes/kubernetes#86420: with live-restore the containers outlive dockerd, and none is restarted:
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
    // The container is watched, too.
    let app = node.wait_running("p", "app");
    node.kill_container(&app.id, "KILL");
    node.wait_until("it is restarted", || node.running("p", "app").iter().any(|c| c.attempt == 1));
    drop(node);
}

/// moby/moby#39450: dockerd and the daemon are killed at random moments, together and alone, while manifests
/// change; in the end exactly the wanted containers run.
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
        // The moment is the point of this test: from the first call to well after the last.
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
    // And they stay as they are.
    assert_eq!(lives(&node), whole, "seed {seed}");
    drop(node);
}

/// A pod that has ended for good stays ended: whether the engine is stopped or killed, and whether the daemon
/// is killed with it.
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
    // Returns the attempt at which the lasting container runs: a start that the engine's end cut off costs
    // another attempt.
    let check = |before: Option<u32>, when: &str| {
        let next = || node.running("runs", "app").iter().map(|c| c.attempt).find(|at| Some(*at) > before);
        // When this pod runs again, the others would have been started, too.
        node.wait_until(&format!("the one that lasts runs again {when}"), || {
            next().is_some() && node.phase("runs") == "Running"
        });
        let attempt = next();
        for (name, _, phase) in &ended {
            node.wait_phase(name, phase);
            // An exceeded deadline is reported when it is over, and then the containers are stopped.
            node.wait_until(&format!("nothing of {name} runs {when}"), || {
                !node.of(name).iter().any(Container::runs)
            });
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
