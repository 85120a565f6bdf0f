//! Docker's list and events: nothing before the first list, hints to workers, and the safety net.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;

use super::rig::{Rig, acts, container, key, pod};
use crate::base::table::Table;
use crate::daemon::turn::{Earlier, Event, OutOfMemory, RuntimeEvent};
use crate::machine::{Hint, Report};
use crate::runtime::labels;

const SEEN: [&str; 2] = ["a/a-1/POD running", "a/a-1/app running"];

#[test]
fn nothing_is_started_before_docker_has_been_listed() {
    let mut rig = Rig::new();
    assert_eq!(rig.want(&[pod("a")]), [""; 0]);
    assert_eq!(rig.want(&[pod("a/a-2"), pod("b")]), [""; 0]);
    let lost = Event::Runtime(RuntimeEvent::Lost("no socket".into()));
    assert_eq!(acts(rig.handle(lost)), [""; 0]);
    assert_eq!(rig.shown(), "a Pending, b Pending");
    let effects = acts(rig.list(&["b/b-1/app running"]));
    assert_eq!(effects, ["spawn b", "run b/b-1", "spawn a, empty", "run a/a-2"]);
}

#[test]
fn k94829_the_safety_net_wakes_only_workers_whose_idea_differs() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a"), pod("b")]);
    rig.seen("a", &SEEN);
    rig.seen("b", &["b/b-1/POD running"]);
    let all: Vec<&str> = SEEN.into_iter().chain(["b/b-1/POD running"]).collect();
    assert_eq!(rig.list(&all), [""; 0], "all agree: nobody is woken");
    for differing in [
        vec!["a/a-1/POD running", "b/b-1/POD running"],
        vec!["a/a-1/POD running", "a/a-1/app exited", "b/b-1/POD running"],
        vec!["a/a-1/POD running", "a/a-1/app running", "a/a-1/app#1 running", "b/b-1/POD running"],
    ] {
        assert_eq!(rig.list(&differing), ["hint a All"], "{differing:?}");
    }
}

#[test]
fn a_kill_for_want_of_memory_is_told_to_the_pod_that_has_the_container() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a"), pod("b")]);
    rig.seen("a", &SEEN);
    let kill = |container: Option<&str>, of_the_node: bool| {
        let container = container.map(str::to_owned);
        Event::OutOfMemory(OutOfMemory { container, of_the_node, process: "tail".into(), pid: 7 })
    };
    let log = |text: &str| format!("WARN: {text}");
    let hint = "hint a OutOfMemory(\"a-a-1-app-0\")";
    let own = log(
        "the kernel killed process tail (7) of pod default/a, container a-a-1-app-0: a memory limit is reached",
    );
    assert_eq!(rig.handle(kill(Some("a-a-1-app-0"), false)), [own.as_str(), hint]);
    let node = "System OOM encountered, victim process: tail, pid: 7";
    let both = log(&format!("{node} of pod default/a, container a-a-1-app-0"));
    assert_eq!(rig.handle(kill(Some("a-a-1-app-0"), true)), [both.as_str(), hint]);
    assert_eq!(rig.handle(kill(None, true)), [log(&format!("node n1: SystemOOM: {node}")).as_str()]);
    // A worker that has just started a container, or a daemon that has just started, has not told of it yet.
    assert_eq!(rig.handle(kill(Some("b-b-1-app-0"), false)), [""; 0]);
    let earlier = ["gone", "b-b-1-app-0"].map(str::to_owned).to_vec();
    assert_eq!(rig.handle(Event::OutOfMemoryEarlier(earlier)), [""; 0]);
    assert_eq!(rig.seen("b", &["b/b-1/app exited"]), ["hint b OutOfMemory(\"b-b-1-app-0\")"]);
    assert_eq!(rig.seen("b", &["b/b-1/app exited"]), [""; 0], "it is told once");
    let late = vec!["a-a-1-app-0".to_owned()];
    assert_eq!(rig.handle(Event::OutOfMemoryEarlier(late)), [hint]);
    // A kill in another program's container, or in a process outside of containers that reached its own limit.
    assert_eq!(rig.handle(kill(Some("other"), false)), [""; 0]);
    assert_eq!(rig.handle(kill(None, false)), [""; 0]);
}

#[test]
fn a_sandbox_without_the_address_that_its_pod_tells_is_looked_at() {
    let mut rig = Rig::listed();
    let a = pod("a");
    rig.want(&[Arc::clone(&a)]);
    rig.seen("a", &SEEN);
    let told = PodStatus { pod_ip: Some("10.0.0.1".to_owned()), ..PodStatus::default() };
    rig.report("a", Report::Status { status: Arc::new(told), pod: a, terminating: false });
    let mut list = |ips: Option<&[&str]>| {
        let mut all = SEEN.map(container);
        all[0].ips = ips.map(|ips| ips.iter().map(|ip| (*ip).to_owned()).collect());
        rig.handle(Event::Runtime(RuntimeEvent::Listed { containers: all.to_vec(), version: None }))
    };
    assert_eq!(list(Some(&["10.0.0.1"])), [""; 0]);
    assert_eq!(list(None), [""; 0], "an engine that leaves it out");
    for lost in [&[][..], &["10.0.0.2"]] {
        assert_eq!(list(Some(lost)), ["hint a Changed(\"a-a-1-POD-0\")"]);
    }
}

/// A worker that starts gets the containers of the daemon's list in place of a list of its own, unless that list
/// may be outdated.
#[test]
fn a_worker_begins_with_what_the_list_held_unless_an_event_came_since() {
    let begins = |events: &[RuntimeEvent]| {
        let mut rig = Rig::new();
        rig.list(&SEEN);
        for event in events {
            assert_eq!(acts(rig.handle(Event::Runtime(event.clone()))), [""; 0]);
        }
        acts(rig.want(&[pod("a"), pod("b")])).into_iter().filter(|words| words.starts_with("spawn")).collect()
    };
    let check = |events: &[RuntimeEvent], expected: [&str; 2]| {
        let begun: Vec<String> = begins(events);
        assert_eq!(begun, expected, "{events:?}");
    };
    let changed = |name: &str, hint| RuntimeEvent::Changed { key: key(name), hint };
    check(&[], ["spawn a", "spawn b, empty"]);
    check(&[changed("a", Hint::Changed("a-a-1-app-0".into()))], ["spawn a, list", "spawn b, empty"]);
    check(&[changed("a", Hint::Removed("a-a-1-app-0".into()))], ["spawn a, list", "spawn b, empty"]);
    check(&[changed("b", Hint::Started("b".into()))], ["spawn a", "spawn b, list"]);
    // A worker that has ended removed it.
    check(&[changed("b", Hint::Removed("b".into()))], ["spawn a", "spawn b, empty"]);
    check(&[RuntimeEvent::Lost("gone".into())], ["spawn a, list", "spawn b, list"]);
}

/// Regression: a container that ended by an earlier daemon's signal between the list and the start of its worker was taken for
/// one that had ended by itself.
#[test]
fn a_worker_knows_what_was_signalled_also_where_an_event_came_since() {
    let id = container(SEEN[1]).id;
    let mut rig = Rig::new();
    rig.turn.restore_unfinished(Earlier::default(), [id.clone()].into(), Table::new());
    rig.list(&SEEN);
    let ended = RuntimeEvent::Changed { key: key("a"), hint: Hint::Changed(id.clone()) };
    assert_eq!(acts(rig.handle(Event::Runtime(ended))), [""; 0]);
    assert_eq!(acts(rig.want(&[pod("a")]))[0], "spawn a, list");
    assert_eq!(rig.killed, [id]);
}

/// A failed start leaves a container `created` on most engines, and `exited` on some.
#[test]
fn what_never_ran_may_be_called_created_or_exited() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.seen("a", &["a/a-1/POD running", "a/a-1/app created"]);
    assert_eq!(rig.list(&["a/a-1/POD running", "a/a-1/app exited"]), [""; 0]);
    assert_eq!(rig.list(&["a/a-1/POD running", "a/a-1/app running"]), ["hint a All"]);
}

#[test]
fn when_docker_comes_back_every_worker_looks() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a"), pod("b")]);
    rig.seen("a", &SEEN);
    let lost = || Event::Runtime(RuntimeEvent::Lost("connection refused".into()));
    let told = rig.handle(lost());
    assert_eq!(told, ["ERROR: connection refused; what runs stays, podkeeper waits for Docker"]);
    assert_eq!(rig.handle(lost()), [""; 0], "told once");
    assert_eq!(rig.snapshot().docker.problem.as_deref(), Some("connection refused"));
    let told = rig.list(&SEEN);
    assert_eq!(told, ["INFO: Docker 1.41 answers; 2 containers are ours", "hint a All", "hint b All"]);
    assert!(rig.snapshot().docker.reachable);
    rig.seen("b", &[]);
    assert_eq!(rig.list(&SEEN), [""; 0]);
}

/// A container without a known pod is neither stopped nor shown, and is logged once.
#[test]
fn a_container_that_does_not_say_whose_it_is_is_left_alone() {
    let mut all: Vec<_> = ["a/a-1/POD running", "a/a-1/app running"].map(container).into();
    all[1].name = "x".into();
    all[1].labels.remove(labels::POD_UID);
    let listed = || Event::Runtime(RuntimeEvent::Listed { containers: all.clone(), version: None });
    let mut rig = Rig::new();
    rig.want(&[]);
    let told = rig.handle(listed());
    let strange: Vec<&String> = told.iter().filter(|line| line.starts_with("WARN")).collect();
    let expected =
        "WARN: container x bears the label of this node, and not which pod it belongs to: it is left alone";
    assert_eq!(strange, [expected]);
    assert_eq!(rig.snapshot().pods[0].status.container_statuses.as_deref().unwrap_or_default(), []);
    assert!(!rig.handle(listed()).iter().any(|line| line.starts_with("WARN")), "told once");
}

#[test]
fn events_are_hints_for_the_workers_that_are_there() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    let changed = |name: &str| {
        let hint = Hint::Changed("id".into());
        Event::Runtime(RuntimeEvent::Changed { key: key(name), hint })
    };
    assert_eq!(rig.handle(changed("a")), ["hint a Changed(\"id\")"]);
    assert_eq!(rig.handle(changed("b")), [""; 0]);
}

#[test]
fn a_rescan_is_passed_on_to_the_sources_and_each_worker() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a"), pod("b")]);
    assert_eq!(rig.handle(Event::Rescan), ["rescan", "hint a Retry", "hint b Retry"]);
}
