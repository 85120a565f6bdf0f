//! Answers of an API server that are wrong, or end in the middle.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::bent::{At, Bent, Fault};
use super::{id, runs};
use crate::cluster::control_plane::ControlPlane;
use crate::cluster::{get, ids, in_phase, phase, without_files};
use crate::harness::Node;
use crate::harness::history::History;

/// A node that gets its pods through a proxy that bends answers.
fn node(plane: &ControlPlane) -> (Node, Bent) {
    let node = Node::prepare(without_files());
    let bent = Bent::of(plane, &node);
    let flag = format!("--kubeconfig={}", bent.kubeconfig(&node).display());
    node.options.borrow_mut().flags.push(flag);
    node.launch();
    (node, bent)
}

/// A label of a pod, as the node knows it.
fn label(node: &Node, name: &str) -> String {
    let pods = node.status().map(|status| status.pods).unwrap_or_default();
    let pod = pods.into_iter().find(|pod| pod.metadata.name.as_deref() == Some(name));
    let labels = pod.and_then(|pod| pod.metadata.labels).unwrap_or_default();
    labels.get("seen").cloned().unwrap_or_default()
}

fn set_label(plane: &ControlPlane, name: &str, value: &str) {
    let patch = json!({"metadata": {"labels": {"seen": value}}});
    plane.patch(&format!("/api/v1/namespaces/default/pods/{name}"), &patch);
}

/// Waits until the condition holds, and has the node ask again now and then: its pauses become longer with each failure.
fn hurry(node: &Node, what: &str, mut condition: impl FnMut() -> bool) {
    let mut looks = 0;
    node.wait_until(what, || {
        if looks % 10 == 0 {
            node.signal(Signal::HUP);
        }
        looks += 1;
        condition()
    });
}

/// A signal that is not heard is made up for by the next request, 30 to 60 s after so many failures.
const SEEN: Duration = Duration::from_secs(20);

/// Removes these pods at the server, and waits until nothing of the node is left.
fn clear(plane: &ControlPlane, node: &Node, names: &[&str]) {
    let force = ["--force", "--grace-period=0", "--wait=false"];
    plane.says(&[&["delete", "pod"], names, &force[..]].concat());
    node.wait_until("nothing of them is left", || node.containers().is_empty());
}

#[test]
fn a_watch_whose_version_expires_is_followed_by_a_list_that_misses_nothing() {
    let Some(plane) = ControlPlane::get() else { return };
    let (node, bent) = node(plane);
    let history = History::of(&node);
    let [stays, goes, comes] = ["stays", "goes", "comes"].map(|which| format!("{which}-{}", node.name));
    for name in [&stays, &goes] {
        plane.apply(&runs(name, &node));
        in_phase(plane, &node, name, "Running");
    }
    let before = id(&node, &stays);
    bent.set(Fault::Deaf);
    plane.says(&["delete", "pod", &goes, "--force", "--grace-period=0"]);
    plane.apply(&runs(&comes, &node));
    set_label(plane, &stays, "yes");
    let asked = bent.asked().len();
    bent.set(Fault::Expire);
    node.wait_until("the watch has expired", || bent.expired() == 1);
    in_phase(plane, &node, &comes, "Running");
    node.wait_until("what was removed is gone", || node.containers().iter().all(|it| it.pod != goes));
    node.wait_until("the change is known", || label(&node, &stays) == "yes");
    let asked = bent.asked().split_off(asked);
    let lists = |line: &String| line.contains("sendInitialEvents=true") || !line.contains("watch=1");
    assert!(asked.iter().any(lists), "no list: {asked:#?}");
    assert_eq!((id(&node, &stays), history.times(&stays, "app", "start").len()), (before, 1));
    clear(plane, &node, &[&stays, &comes]);
}

/// An answer whose length is that of its body.
fn answer(kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}

const PAGE: &str = "<!DOCTYPE html><html><body>Please log in</body></html>";

/// Answers, with words of what the operator sees.
fn wrong_answers() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let part = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"999999999"},"items":[]"#;
    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#;
    let event = r#"{"type":"DELETED","object":{"kind":"Pod","#;
    let (page, none) = ("a web page instead of an object", "no list of pods");
    let json = "application/json";
    vec![
        ("a page", page, answer("text/html", PAGE)),
        ("a page that says that it is JSON", page, answer(json, PAGE)),
        ("a part of a list", r#"200 with {"kind":"PodList","#, answer(json, part)),
        ("nothing", "200 with nothing", answer(json, "")),
        ("null", none, answer(json, "null")),
        ("an empty object", none, answer(json, "{}")),
        ("a status", none, answer(json, status)),
        ("a part of an event", r#"200 with {"type":"DELETED","#, answer(json, event)),
    ]
}

#[test]
fn a_server_whose_answers_are_wrong_stops_nothing() {
    let Some(plane) = ControlPlane::get() else { return };
    let (node, bent) = node(plane);
    let history = History::of(&node);
    let [stays, comes] = ["stays", "comes"].map(|which| format!("{which}-{}", node.name));
    plane.apply(&runs(&stays, &node));
    in_phase(plane, &node, &stays, "Running");
    let sources = || node.says(&["get", "sources"]);
    assert!(!sources().contains("Failing"), "{}", sources());
    // By itself: the node asks again, and goes on when the server is right.
    bent.set(Fault::Answer(answer("text/html", PAGE)));
    bent.cut();
    node.wait_until("the operator sees it", || {
        sources().contains("Failing") && sources().contains("a web page")
    });
    plane.apply(&runs(&comes, &node));
    assert_eq!(ids(&node, &comes), [""; 0]);
    bent.set(Fault::None);
    in_phase(plane, &node, &comes, "Running");
    node.wait_until("the source is read again", || !sources().contains("Failing"));
    for (what, shown, wrong) in wrong_answers() {
        let before = bent.replaced();
        bent.set(Fault::Answer(wrong));
        bent.cut();
        hurry(&node, &format!("it is answered three times with {what}"), || bent.replaced() >= before + 3);
        hurry(&node, &format!("the operator sees that it is answered with {what}"), || {
            let sources = sources();
            sources.contains("Failing") && sources.contains(shown)
        });
        for name in [&stays, &comes] {
            assert_eq!((ids(&node, name).len(), phase(&node, name)), (1, "Running".to_owned()), "{what}");
        }
    }
    bent.set(Fault::None);
    set_label(plane, &comes, "yes");
    hurry(&node, "the source is read again", || !sources().contains("Failing"));
    hurry(&node, "the change is known", || label(&node, &comes) == "yes");
    for name in [&stays, &comes] {
        assert_eq!(history.times(name, "app", "die").len(), 0, "{name} has ended");
    }
    clear(plane, &node, &[&stays, &comes]);
}

#[test]
fn the_signal_to_look_again_asks_the_server_at_once() {
    let Some(plane) = ControlPlane::get() else { return };
    let (node, bent) = node(plane);
    let fails = || node.says(&["get", "sources"]).contains("Failing");
    node.wait_until("the pods are known", || !fails());
    let (before, asked) = (node.log().matches("source api: ").count(), bent.asked().len());
    for more in 1..=5 {
        node.signal(Signal::HUP);
        node.wait_until("the server is asked again", || bent.asked().len() >= asked + more);
    }
    let log = node.log();
    assert_eq!(log.matches("source api: ").count(), before, "the signal is told as a failure:\n{log}");
    for round in 1..=10 {
        bent.set(Fault::Answer(answer("text/html", PAGE)));
        bent.cut();
        hurry(&node, "the source has failed", || fails() && bent.replaced() > 2 * round);
        bent.set(Fault::None);
        node.signal(Signal::HUP);
        let since = Instant::now();
        let limit = SEEN;
        node.wait_until("it is known", || !fails() || since.elapsed() > limit);
        assert!(!fails(), "in round {round} it is not read within {limit:?}:\n{}", node.log());
    }
}

#[test]
fn a_list_of_other_objects_is_no_list_of_pods() {
    let Some(plane) = ControlPlane::get() else { return };
    let (node, bent) = node(plane);
    let history = History::of(&node);
    let stays = format!("stays-{}", node.name);
    plane.apply(&runs(&stays, &node));
    in_phase(plane, &node, &stays, "Running");
    for kind in ["ServiceList", "Status", ""] {
        let list =
            json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": []});
        let before = bent.replaced();
        // Only a node whose watch has expired asks for a list.
        bent.set_all([Fault::Expire, Fault::Answer(answer("application/json", &list.to_string()))]);
        hurry(&node, "it was answered so", || bent.replaced() > before + 1);
        bent.set(Fault::None);
        hurry(&node, "it is right again", || !node.says(&["get", "sources"]).contains("Failing"));
        in_phase(plane, &node, &stays, "Running");
        node.wait_until("the pod runs", || ids(&node, &stays).len() == 1);
        let log = node.log();
        assert!(!log.contains("is stopped"), "a list of kind {kind:?} stops a pod:\n{log}");
    }
    assert_eq!(history.times(&stays, "app", "die").len(), 0, "it has ended");
    clear(plane, &node, &[&stays]);
}

/// Places of a watch: its head, the heads of its chunks, and events.
fn places() -> Vec<At> {
    let head = (0..200).step_by(10).map(At::Head);
    let first = (0..12).chain((20..2600).step_by(43)).map(|byte| At::Chunk(0, byte));
    let next = (0..8).chain([100, 1000]).map(|byte| At::Chunk(1, byte));
    let third = (0..8).map(|byte| At::Chunk(2, byte));
    head.chain(first).chain(next).chain(third).collect()
}

/// Places of the list of two or more pods after a watch that has expired.
fn places_of_list() -> impl Iterator<Item = At> {
    (0..4000).step_by(200).map(At::Head)
}

#[test]
fn a_watch_that_is_cut_anywhere_loses_nothing() {
    let Some(plane) = ControlPlane::get() else { return };
    let (node, bent) = node(plane);
    let history = History::of(&node);
    let stays = format!("stays-{}", node.name);
    plane.apply(&runs(&stays, &node));
    in_phase(plane, &node, &stays, "Running");
    let before = id(&node, &stays);
    let of_watch = places().into_iter().map(|place| vec![Fault::Cut(place)]);
    let of_list = places_of_list().map(|place| vec![Fault::Expire, Fault::Cut(place)]);
    let (mut there, mut changes) = (Vec::new(), 0);
    for (number, faults) in of_watch.chain(of_list).enumerate() {
        if number % 25 == 0 {
            // Each pod is there for a while.
            let name = format!("cut{number}-{}", node.name);
            plane.apply(&runs(&name, &node));
            there.push(name);
        }
        if number % 25 == 24 && there.len() > 2 {
            plane.says(&["delete", "pod", &there.remove(0), "--force", "--grace-period=0", "--wait=false"]);
        }
        changes += 1;
        set_label(plane, &stays, &changes.to_string());
        let (words, expires) = (format!("{faults:?}"), faults.len() > 1);
        bent.set_all(faults);
        if !expires {
            node.signal(Signal::HUP);
        }
        let mut looks = 0;
        node.wait_until(&words, || {
            looks += 1;
            // For a place behind what the server has sent.
            if looks % 5 == 0 && !expires {
                changes += 1;
                set_label(plane, &stays, &changes.to_string());
            }
            if looks % if expires { 5 } else { 25 } == 0 {
                node.signal(Signal::HUP);
            }
            bent.cuts().len() > number
        });
    }
    let wanted: Vec<At> = places().into_iter().chain(places_of_list()).collect();
    assert_eq!(bent.cuts(), wanted);
    assert!(wanted.len() >= 100, "{}", wanted.len());
    hurry(&node, "the last change is known", || label(&node, &stays) == changes.to_string());
    for name in &there {
        in_phase(plane, &node, name, "Running");
    }
    let wanted: Vec<String> = there.iter().chain([&stays]).cloned().collect();
    node.wait_until("what was removed is gone", || {
        node.containers().iter().all(|it| wanted.contains(&it.pod))
    });
    assert_eq!((id(&node, &stays), history.times(&stays, "app", "start").len()), (before, 1));
    for name in &there {
        assert_eq!(history.times(name, "app", "start").len(), 1, "{name}");
        assert_eq!(get(plane, name).unwrap()["status"]["containerStatuses"][0]["restartCount"], 0);
    }
    let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
    clear(plane, &node, &names);
}
