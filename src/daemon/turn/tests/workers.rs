//! Workers start and end: spawned once, retired when they have no work left and no newer wish.

use std::time::Duration;

use super::rig::{Rig, acts, key, pod};
use crate::daemon::turn::Event;
use crate::machine::Report;

#[test]
fn a_worker_is_retired_only_without_a_newer_wish() {
    let mut rig = Rig::listed();
    assert_eq!(rig.want(&[pod("a")]), ["spawn a, empty", "run a/a-1"]);
    rig.want(&[]);
    assert_eq!(rig.want(&[pod("a")]), ["run a/a-1"], "it is there still");
    assert_eq!(rig.report("a", Report::Gone(2)), [""; 0], "wanted again");
    rig.want(&[]);
    assert_eq!(rig.report("a", Report::Gone(3)), [""; 0], "it has not read the last wish");
    assert_eq!(rig.report("a", Report::Gone(4)), ["retire a"]);
    assert_eq!(rig.report("a", Report::Gone(4)), [""; 0]);
    assert_eq!(rig.want(&[pod("a")]), ["spawn a, empty", "run a/a-1"], "and a new one can be had");
}

#[test]
fn a_worker_of_a_name_that_docker_knows_must_look_first() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.list(&["a/a-1/app running"]);
    rig.want(&[]);
    assert_eq!(rig.gone("a"), ["retire a"]);
    assert_eq!(rig.want(&[pod("a")]), ["spawn a, empty", "run a/a-1"], "it saw everything go");
    rig.want(&[]);
    rig.list(&["a/a-1/app exited"]);
    rig.gone("a");
    assert_eq!(
        rig.list(&["a/a-1/app exited"]).first().map(String::as_str),
        Some("spawn a"),
        "come back late"
    );
}

fn spawn_fails(rig: &mut Rig) -> Vec<String> {
    rig.handle(Event::SpawnFailed { key: key("a"), why: "no threads left".into() })
}

#[test]
fn a_thread_that_cannot_be_started_is_tried_again_ever_more_slowly() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    let told = spawn_fails(&mut rig);
    let why = "no thread could be started for the pod: no threads left; it is tried again";
    assert_eq!(told, [format!("WARN: pod default/a: FailedSync: {why}")]);
    let shown = rig.snapshot();
    let container = &shown.pods[0].status.container_statuses.as_ref().unwrap()[0];
    let waiting = container.state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.message.as_deref(), Some(why), "it is seen beside the pod, too");
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let due = rig.turn.next_due().unwrap();
        pauses.push(due.since(rig.now).as_secs());
        rig.now = due;
        assert_eq!(rig.handle(Event::Tick), ["spawn a, empty", "run a/a-1"]);
        assert_eq!(spawn_fails(&mut rig), [""; 0], "told once");
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
    // The thread starts, and after a later failure the intervals begin again.
    rig.now = rig.turn.next_due().unwrap();
    rig.handle(Event::Tick);
    rig.status(&pod("a"), "Running", false);
    assert_eq!(rig.turn.next_due(), None);
    assert_eq!(spawn_fails(&mut rig), [""; 0], "that it was told is known");
    assert_eq!(rig.turn.events().iter().map(|kept| kept.count).collect::<Vec<_>>(), [2]);
    assert_eq!(rig.turn.next_due().unwrap().since(rig.now), Duration::from_secs(1));
}

#[test]
fn a_pod_that_goes_while_its_thread_cannot_be_started_leaves_nothing() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    spawn_fails(&mut rig);
    assert_eq!(acts(rig.want(&[])), [""; 0]);
    rig.now = rig.turn.next_due().unwrap();
    assert_eq!(rig.handle(Event::Tick), [""; 0]);
    assert_eq!(rig.turn.entries.len(), 0);
    // An orphan's stop is tried again, too.
    let mut rig = Rig::new();
    rig.want(&[]);
    assert_eq!(acts(rig.list(&["a/a-1/app running"])), ["spawn a", "stop a: no manifest names it"]);
    spawn_fails(&mut rig);
    rig.now = rig.turn.next_due().unwrap();
    assert_eq!(rig.handle(Event::Tick), ["spawn a", "stop a: no manifest names it"]);
}

#[test]
fn reports_of_workers_that_are_gone_are_ignored() {
    let mut rig = Rig::listed();
    for report in
        [Report::Terminated, Report::Gone(0), Report::Seen(Default::default(), Default::default(), 0)]
    {
        assert_eq!(rig.report("a", report), [""; 0]);
    }
    assert_eq!(rig.turn.entries.len(), 0);
}

/// Pods that come and go for years leave no state in the loop.
#[test]
fn nothing_grows() {
    let mut rig = Rig::listed();
    for n in 0..1000 {
        let name = format!("p{n}");
        rig.want(&[pod(&name)]);
        rig.seen(&name, &[&format!("{name}/{name}-1/app running")]);
        rig.status(&pod(&name), "Running", false);
        rig.list(&[&format!("{name}/{name}-1/app running")]);
        rig.want_with(&[], &["/m/broken.yaml"]);
        assert_eq!(rig.gone(&name), [format!("retire {name}")]);
        rig.list(&[]);
    }
    let turn = &rig.turn;
    assert_eq!((turn.entries.len(), turn.docker.found.len(), turn.logged.kept.len()), (0, 0, 0));
    assert_eq!(turn.next_due(), None);
}

#[test]
fn a_deletion_timestamp_stops_with_its_grace() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    let mut leaving = (*pod("a")).clone();
    let time = crate::base::clock::Timestamp::from_second(0).unwrap();
    leaving.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
    leaving.metadata.deletion_grace_period_seconds = Some(7);
    let leaving = std::sync::Arc::new(leaving);
    assert_eq!(acts(rig.want(std::slice::from_ref(&leaving))), ["end a within 7 s: its manifest is gone"]);
    // A pod with a deletion timestamp when it is first seen is not started.
    let mut rig = Rig::listed();
    assert_eq!(acts(rig.want(&[leaving])), [""; 0]);
}

#[test]
fn the_last_status_of_a_deleted_pod_is_kept_until_its_source_lets_it_go() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.status(&pod("a"), "Running", false);
    let mut leaving = (*pod("a")).clone();
    let time = crate::base::clock::Timestamp::from_second(0).unwrap();
    leaving.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
    let leaving = std::sync::Arc::new(leaving);
    rig.want(std::slice::from_ref(&leaving));
    let view = |rig: &Rig| {
        let now = rig.now();
        rig.turn.snapshot(&now).pods.first().map(|view| (view.status.phase.clone().unwrap(), view.is_over))
    };
    rig.status(&leaving, "Failed", true);
    assert_eq!(view(&rig), Some(("Failed".into(), false)), "its containers may run still");
    rig.gone("a");
    assert_eq!(view(&rig), Some(("Failed".into(), true)));
    rig.want(&[]);
    assert_eq!(view(&rig), None);
    assert!(rig.turn.ended.is_empty());
}
