//! Pods that want the same host port: the running pod keeps it, the other one is refused, and runs when
//! the port is free.

use std::sync::Arc;

use super::evicted::{eviction, later};
use super::rig::{Rig, acts, config_with, pod, with_port};
use super::uids::http;
use crate::base::limits;
use crate::daemon::config::Config;
use crate::machine::Report;
use crate::pod::Source;
use crate::policy::{Policies, SourcePolicy};
use crate::source::http::Settings;
use crate::source::http::url::ManifestUrl;

#[test]
fn the_second_one_waits_until_the_first_is_dead() {
    let mut rig = Rig::listed();
    let (a, b) = (with_port("a", 80), with_port("b", 80));
    assert_eq!(acts(rig.want(&[Arc::clone(&b), Arc::clone(&a)])), ["spawn a, empty", "run a/a-1"], "by name");
    assert_eq!(rig.shown(), "a Pending, b Failed NodePorts");
    rig.status(&a, "Running", false);
    // Its manifest is removed: it holds the port until it is dead.
    assert_eq!(acts(rig.want(&[Arc::clone(&b)])), ["stop a: its manifest is gone"]);
    assert_eq!(acts(rig.status(&a, "Running", true)), [""; 0]);
    assert_eq!(rig.shown(), "a Running terminating, b Failed NodePorts");
    assert_eq!(acts(rig.report("a", Report::Terminated)), ["spawn b, empty", "run b/b-1"]);
}

#[test]
fn a_pod_that_has_ended_gives_its_port_away() {
    let mut rig = Rig::listed();
    let (a, b) = (with_port("a", 80), with_port("b", 80));
    rig.want(&[Arc::clone(&a), Arc::clone(&b)]);
    assert_eq!(acts(rig.status(&a, "Succeeded", false)), ["spawn b, empty", "run b/b-1"]);
}

/// Docker releases a port when the sandbox stops, which is after the pod's end.
#[test]
fn a_pod_that_has_ended_keeps_its_port_while_something_of_it_runs() {
    let mut rig = Rig::listed();
    let (a, b) = (with_port("a", 80), with_port("b", 80));
    rig.want(&[Arc::clone(&a), Arc::clone(&b)]);
    rig.seen("a", &["a/a-1/POD running", "a/a-1/app exited"]);
    assert_eq!(acts(rig.status(&a, "Succeeded", false)), [""; 0]);
    assert_eq!(rig.shown(), "a Succeeded, b Pending WaitingForRoom");
    let down = ["a/a-1/POD exited", "a/a-1/app exited"];
    assert_eq!(acts(rig.seen("a", &down)), ["spawn b, empty", "run b/b-1"]);
    assert_eq!(acts(rig.seen("a", &down)), [""; 0]);
}

/// After a restart of the daemon, running pods are admitted first, whatever their name.
#[test]
fn k136962_what_runs_keeps_its_port_after_a_restart() {
    let mut rig = Rig::new();
    let wanted = [with_port("a", 80), with_port("b", 80), pod("c")];
    rig.want(&wanted);
    let acts = acts(rig.list(&["b/b-1/POD running", "b/b-1/app running"]));
    assert_eq!(acts, ["spawn b", "run b/b-1", "spawn c, empty", "run c/c-1"]);
    assert_eq!(rig.shown(), "a Failed NodePorts, b Pending, c Pending");
}

#[test]
fn additions_are_sorted_running_first_then_by_name_whatever_their_time() {
    let aged = |name: &str, seconds: i64| {
        let mut pod = (*pod(name)).clone();
        let time = crate::base::clock::Timestamp::from_second(seconds).unwrap();
        pod.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
        Arc::new(pod)
    };
    let mut rig = Rig::new();
    rig.want(&[aged("a", 30), aged("b", 10), aged("c", 20), pod("z"), pod("y"), aged("d", 10)]);
    let order: Vec<String> = acts(rig.list(&["c/c-1/app running", "a/a-1/app exited"]))
        .into_iter()
        .filter(|effect| effect.starts_with("run"))
        .collect();
    assert_eq!(order, ["run c/c-1", "run a/a-1", "run b/b-1", "run d/d-1", "run y/y-1", "run z/z-1"]);
}

/// Two files swap their ports: in the end both pods run, and they never hold the same port at once.
#[test]
fn two_pods_swap_their_ports_by_edits() {
    let mut rig = Rig::listed();
    let (a, b) = (with_port("a", 80), with_port("b", 81));
    rig.want(&[Arc::clone(&a), Arc::clone(&b)]);
    rig.status(&a, "Running", false);
    rig.status(&b, "Running", false);
    let (a2, b2) = (with_port("a/a-2", 81), with_port("b/b-2", 80));
    let first = acts(rig.want(&[Arc::clone(&a2), Arc::clone(&b2)]));
    assert_eq!(first, ["stop a: it was rejected", "stop b: it was rejected"]);
    rig.status(&a, "Running", true);
    rig.status(&b, "Running", true);
    // The first pod is dead: its port is free, and the other pod may have it once it is dead itself.
    assert_eq!(acts(rig.report("a", Report::Terminated)), ["run b/b-2"]);
    assert_eq!(rig.shown(), "a Failed NodePorts, b Running terminating");
    assert_eq!(acts(rig.status(&b2, "Pending", false)), ["run a/a-2"]);
    assert_eq!(rig.shown(), "a Pending, b Pending");
}

/// A pod that gives up its port in an edit holds it until its old containers are dead
/// (kubernetes/kubernetes#97722).
#[test]
fn k97722_a_port_is_free_when_the_old_life_is_dead() {
    let mut rig = Rig::listed();
    let (a, c) = (with_port("a", 80), with_port("c", 80));
    rig.want(&[Arc::clone(&a)]);
    rig.status(&a, "Running", false);
    let a2 = with_port("a/a-2", 90);
    assert_eq!(acts(rig.want(&[Arc::clone(&a2), Arc::clone(&c)])), ["run a/a-2"]);
    assert!(rig.shown().contains("c Failed NodePorts"), "{}", rig.shown());
    rig.status(&a, "Running", true);
    assert_eq!(acts(rig.status(&a2, "Pending", false)), ["spawn c, empty", "run c/c-1"]);
    assert_eq!(rig.shown(), "a Pending, c Pending");
}

/// A pod does not conflict with itself.
#[test]
fn an_edit_that_keeps_the_port_is_not_refused() {
    let mut rig = Rig::listed();
    let a = with_port("a", 80);
    rig.want(&[Arc::clone(&a)]);
    rig.status(&a, "Running", false);
    assert_eq!(acts(rig.want(&[with_port("a/a-2", 80)])), ["run a/a-2"]);
}

/// Regression: a pod of a source behind took the port of an evicted one, which then stayed down.
#[test]
fn a_source_behind_does_not_get_the_ports_of_an_evicted_pod() {
    let first = SourcePolicy { evict_first: Some(true), ..SourcePolicy::default() };
    let policy = Arc::new(Policies::all(SourcePolicy::default()).with(Source::Http, first));
    let url = Settings::new(ManifestUrl::parse("https://fleet/pods").unwrap());
    let config = config_with(|it| it.manifest_url = Some(url));
    let mut rig = Rig::listed_with(Config { policy, ..config });
    rig.want(&[with_port("a", 80)]);
    http(&mut rig, &[with_port("evil", 80)]);
    assert_eq!(rig.shown(), "a Pending, evil Failed NodePorts");
    rig.handle(eviction("a", "a-1", true));
    rig.gone("a");
    assert_eq!(rig.shown(), "a Failed Evicted, evil Failed NodePorts");
    later(&mut rig, limits::EVICTED_MIN);
    assert_eq!(rig.shown(), "a Pending, evil Failed NodePorts");
    rig.want(&[]);
    rig.gone("a");
    assert_eq!(rig.shown(), "evil Pending");
}
