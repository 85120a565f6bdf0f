//! What goes wrong between the node and a real API server: it is away, its data go back to an older state, its answers
//! are wrong or end in the middle. Nothing that should run is stopped or restarted because of that, and in the end the
//! node and the server agree. `PODKEEPER_OUTAGE=60` lets the server be away for so many seconds.

mod answers;
mod bent;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::control_plane::{ControlPlane, Way};
use super::{events, get, ids, in_phase, job, node, phase, pod, without_files};
use crate::harness::Node;
use crate::harness::history::History;

/// When the server is back, all statuses are right within this time.
const SOON: Duration = Duration::from_secs(10);

fn outage() -> Duration {
    let seconds = std::env::var("PODKEEPER_OUTAGE").map_or(4, |text| text.parse().expect("PODKEEPER_OUTAGE"));
    Duration::from_secs(seconds)
}

/// A pod that runs until it is told to end.
fn runs(name: &str, node: &Node) -> Value {
    pod(name, node, &json!({"automountServiceAccountToken": false}))
}

/// Id of the only container of a pod.
fn id(node: &Node, name: &str) -> String {
    let [id] = <[String; 1]>::try_from(ids(node, name)).unwrap();
    id
}

/// A pod whose only container runs for the n-th time, and is this one in Docker.
fn told(pod: &Value, node: &Node, restarts: i64) -> bool {
    let container = &pod["status"]["containerStatuses"][0];
    let name = pod["metadata"]["name"].as_str().unwrap();
    let ids: Vec<String> = ids(node, name).iter().map(|id| format!("docker://{id}")).collect();
    pod["status"]["phase"] == "Running"
        && container["ready"] == true
        && container["restartCount"] == restarts
        && ids.len() == 1
        && container["containerID"] == ids[0].as_str()
}

/// Numbers of a pod's events by their reasons, of all event objects together.
fn counts(plane: &ControlPlane, name: &str) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for (reason, count) in events(plane, name) {
        *counts.entry(reason).or_default() += count;
    }
    counts
}

/// The events of a pod whose container has started so many times.
fn usual(times: i64) -> BTreeMap<String, i64> {
    ["Created", "Pulled", "Started"].map(|reason| (reason.to_owned(), times)).into()
}

#[test]
fn what_happens_in_an_outage_is_told_soon_after_it_and_once() {
    let Some(plane) = ControlPlane::get() else { return };
    let way = Way::to(plane.port());
    let node = node(plane, Some(&way), without_files());
    let history = History::of(&node);
    let dying = ["first", "second", "third"].map(|which| format!("{which}-{}", node.name));
    let (ends, stays, later) =
        (format!("ends-{}", node.name), format!("stays-{}", node.name), format!("later-{}", node.name));
    for name in dying.iter().chain([&stays]) {
        plane.apply(&runs(name, &node));
    }
    plane.apply(&job(&ends, &node, "while ! [ -e /tmp/end ]; do /bin/busybox sleep 0.1; done; exit 3"));
    for name in dying.iter().chain([&stays, &ends]) {
        in_phase(plane, &node, name, "Running");
        node.wait_until("its events are there", || counts(plane, name) == usual(1));
    }
    let before = id(&node, &stays);
    way.set_open(false);
    let begun = Instant::now();
    for (number, name) in (0_u32..).zip(&dying) {
        // The outage is what is tested, with all of its length.
        std::thread::sleep((outage() * number / 4).saturating_sub(begun.elapsed()));
        let first = id(&node, name);
        node.kill_container(&first, "KILL");
        node.wait_until("it runs again", || ids(&node, name).first().is_some_and(|id| *id != first));
    }
    let touch = Command::new("docker")
        .args(["exec", &id(&node, &ends), "/bin/busybox", "touch", "/tmp/end"])
        .output();
    assert!(touch.unwrap().status.success());
    node.wait_until("it has ended", || phase(&node, &ends) == "Failed");
    std::thread::sleep(outage().saturating_sub(begun.elapsed()));
    way.set_open(true);
    let back = Instant::now();
    node.wait_until("all statuses are right", || {
        let ended = get(plane, &ends).unwrap();
        let code = &ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
        (&ended["status"]["phase"], code) == (&json!("Failed"), &json!(3))
            && dying.iter().all(|name| told(&get(plane, name).unwrap(), &node, 1))
            && told(&get(plane, &stays).unwrap(), &node, 0)
    });
    let took = back.elapsed();
    // Its events come after all others.
    plane.apply(&runs(&later, &node));
    node.wait_until("all events are told", || {
        let all_told = |name: &String| counts(plane, name).get("Started") == Some(&2);
        dying.iter().all(all_told) && counts(plane, &later) == usual(1)
    });
    for (name, times) in dying.iter().map(|name| (name, 2)).chain([(&ends, 1), (&stays, 1)]) {
        assert_eq!(counts(plane, name), usual(times), "{name}");
        assert_eq!(history.times(name, "app", "start").len(), usize::try_from(times).unwrap(), "{name}");
    }
    assert_eq!(id(&node, &stays), before);
    assert!(took < SOON, "the statuses were right after {took:?}");
    for name in dying.iter().chain([&ends, &stays, &later]) {
        plane.says(&["delete", "pod", name, "--wait=false"]);
    }
}

/// Removes the versions before the current one from etcd, as the API server does every five minutes.
fn compact(plane: &ControlPlane) {
    let list = plane.object("/api/v1/pods").unwrap();
    let body = json!({"revision": list["metadata"]["resourceVersion"], "physical": true}).to_string();
    let mut etcd = TcpStream::connect(("127.0.0.1", plane.port() + 1)).unwrap();
    let length = body.len();
    write!(etcd, "POST /v3/kv/compaction HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    etcd.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 OK"), "{answer}");
}

#[test]
fn a_node_that_was_away_for_longer_than_the_server_remembers_misses_nothing() {
    let Some(plane) = ControlPlane::alone() else { return };
    let way = Way::to(plane.port());
    let node = node(&plane, Some(&way), without_files());
    let history = History::of(&node);
    let [stays, goes, comes] = ["stays", "goes", "comes"].map(|which| format!("{which}-{}", node.name));
    for name in [&stays, &goes] {
        plane.apply(&runs(name, &node));
        in_phase(&plane, &node, name, "Running");
    }
    let before = id(&node, &stays);
    way.set_open(false);
    plane.says(&["delete", "pod", &goes, "--force", "--grace-period=0"]);
    plane.apply(&runs(&comes, &node));
    plane.says(&["label", "pod", &stays, "seen=yes"]);
    compact(&plane);
    // Its memory of changes begins at its start.
    let ended = plane.end("kube-apiserver");
    plane.begin("kube-apiserver", &ended);
    let asked = plane.audit(&node.name).len();
    way.set_open(true);
    in_phase(&plane, &node, &comes, "Running");
    node.wait_until("what was removed is gone", || node.containers().iter().all(|it| it.pod != goes));
    let asked: Vec<String> =
        plane.audit(&node.name)[asked..].iter().map(|event| event["requestURI"].to_string()).collect();
    let lists = |uri: &&String| {
        uri.contains("/api/v1/pods?") && (uri.contains("sendInitialEvents") || !uri.contains("watch=1"))
    };
    assert!(asked.iter().any(|uri| lists(&uri)), "no list: {asked:#?}");
    assert_eq!((id(&node, &stays), history.times(&stays, "app", "start").len()), (before, 1));
    for name in [&stays, &comes] {
        plane.says(&["delete", "pod", name, "--force", "--grace-period=0"]);
    }
}

/// Copies etcd's data, which does not run.
fn copy(plane: &ControlPlane, from: &str, to: &str) {
    let copy = "rm -rf \"$1\" && cp -a \"$0\" \"$1\"";
    let status = Command::new("sh").args(["-c", copy]).arg(plane.file(from)).arg(plane.file(to)).status();
    assert!(status.unwrap().success());
}

/// Kills the server, and starts it with its older data.
fn go_back(plane: &ControlPlane) {
    let (server, etcd) = (plane.end("kube-apiserver"), plane.end("etcd"));
    copy(plane, "older", "etcd");
    plane.begin("etcd", &etcd);
    plane.begin("kube-apiserver", &server);
}

/// Lets the server's data go back to an older state, and checks that the node gets there as well. `restarts`: its daemon
/// is restarted, as the manual of Kubernetes advises.
fn check_older_state(plane: &ControlPlane, restarts: bool) {
    let node = node(plane, None, without_files());
    let history = History::of(&node);
    let [stays, dies, goes, comes, other] =
        ["stays", "dies", "goes", "comes", "other"].map(|which| format!("{which}-{}", node.name));
    for name in [&stays, &dies, &goes, &other] {
        plane.apply(&runs(name, &node));
        in_phase(plane, &node, name, "Running");
    }
    let uid = |name: &str| get(plane, name).map(|pod| pod["metadata"]["uid"].clone()).unwrap_or_default();
    let lease = || {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", node.name);
        plane.object(&path).map(|lease| lease["metadata"]["resourceVersion"].clone())
    };
    let (then, renewed) = (uid(&other), lease());
    let etcd = plane.end("etcd");
    copy(plane, "etcd", "older");
    plane.begin("etcd", &etcd);
    node.wait_until("the API server is ready", || plane.is_ready());
    // One is removed, one is made, one is replaced, and one dies and runs again.
    plane.says(&["delete", "pod", &goes, &other]);
    for name in [&comes, &other] {
        plane.apply(&runs(name, &node));
        in_phase(plane, &node, name, "Running");
    }
    assert_ne!(uid(&other), then);
    node.kill_container(&id(&node, &dies), "KILL");
    let right = |name: &String, restarts| told(&get(plane, name).unwrap(), &node, restarts);
    node.wait_until("its restart is told", || right(&dies, 1));
    let before = [id(&node, &stays), id(&node, &dies)];
    // A backup is seldom as young as a lease.
    node.wait_until("its lease is renewed", || lease().is_some_and(|now| Some(now) != renewed));
    go_back(plane);
    assert_eq!((uid(&comes), uid(&other)), (Value::Null, then), "the state is the older one");
    if restarts {
        node.restart();
    }
    node.wait_until("what runs on is told again", || right(&stays, 0) && right(&dies, 1));
    node.wait_until("what ran at that time runs again", || right(&goes, 0) && right(&other, 0));
    node.wait_until("what was made later is gone", || node.containers().iter().all(|it| it.pod != comes));
    assert_eq!([id(&node, &stays), id(&node, &dies)], before);
    let starts = |name: &String| history.times(name, "app", "start").len();
    assert_eq!((starts(&stays), starts(&dies)), (1, 2));
    history.check_one_set_at_a_time();
    // What comes after that is heard as well.
    plane.says(&["delete", "pod", &stays, &dies, &goes, &other, "--wait=false"]);
    node.wait_until("all are gone", || node.containers().is_empty());
}

#[test]
fn a_daemon_that_starts_after_the_data_of_its_server_went_back_follows_them() {
    let Some(plane) = ControlPlane::alone() else { return };
    check_older_state(&plane, true);
}

#[test]
fn a_daemon_that_runs_on_while_the_data_of_its_server_go_back_follows_them() {
    let Some(plane) = ControlPlane::alone() else { return };
    check_older_state(&plane, false);
}
