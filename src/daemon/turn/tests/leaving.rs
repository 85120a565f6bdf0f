//! Pods that are being stopped when they have to be evicted: with a grace period of years they could use any amount
//! meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::evicted::{eviction, later, running};
use super::rig::{Rig, acts, pod};
use crate::base::limits;
use crate::machine::Report;
use crate::pod::DesiredPod;

/// Regression: a pod with a grace period of years and without a manifest filled the disk, and others were evicted
/// for it.
#[test]
fn a_pod_that_is_being_stopped_can_be_told_to_hurry_once_in_a_while() {
    let (mut rig, pods) = running(&["a", "b"]);
    rig.want(&pods[1..]);
    rig.status(&pods[0], "Running", true);
    let of_a = |rig: &Rig| rig.snapshot().pods.iter().find(|view| view.pod.uid == "a-1").map(|v| v.is_kept);
    assert_eq!(of_a(&rig), Some(true));
    assert_eq!(acts(rig.handle(eviction("a", "another", true))), Vec::<String>::new());
    let told = rig.handle(eviction("a", "a-1", true));
    assert_eq!(acts(told), ["stop a within 1 s: it is evicted while it is being stopped"]);
    assert_eq!(of_a(&rig), Some(false), "it was told");
    assert_eq!(acts(rig.handle(eviction("a", "a-1", true))), Vec::<String>::new());
    later(&mut rig, Duration::from_secs(600));
    assert_eq!(of_a(&rig), Some(true), "it hangs, and others are taken first");
}

/// Regression: a pod whose newer version waits for its end was not known as leaving, and was the last to be
/// evicted.
#[test]
fn a_pod_that_is_being_replaced_can_be_told_to_go() {
    let (mut rig, pods) = running(&["a"]);
    let newer = pod("a/a-2");
    rig.want(&[Arc::clone(&newer)]);
    rig.status(&pods[0], "Running", true);
    let shown = rig.snapshot();
    assert_eq!((shown.pods[0].pod.uid.as_str(), shown.pods[0].is_kept), ("a-1", true));
    assert_eq!(acts(rig.handle(eviction("a", "a-1", true))), ["stop a within 1 s: it is evicted"]);
    rig.gone("a");
    assert_eq!(rig.shown(), "a Failed Evicted", "the newer one returns as an evicted one does");
    assert_eq!(rig.snapshot().pods[0].pod.uid, "a-2");
    assert_eq!(acts(rig.handle(eviction("a", "a-1", true))), [""; 0]);
    let started = later(&mut rig, limits::EVICTED_MIN);
    assert!(started.contains(&"run a/a-2".to_owned()), "{started:?}");
}

/// Regression: a pod that was being stopped when podkeeper ended could fill the disk for the rest of its grace
/// period of years.
#[test]
fn a_found_pod_that_is_being_stopped_can_be_told_to_hurry() {
    let mut rig = Rig::new();
    rig.want(&[]);
    rig.list(&["a/a-1/app running"]);
    let shown = rig.snapshot();
    assert_eq!((shown.pods[0].status.reason.as_deref(), shown.pods[0].is_kept), (Some("Unmanaged"), true));
    let told = rig.handle(eviction("a", "a-1", true));
    assert_eq!(acts(told), ["stop a within 1 s: it is evicted while it is being stopped"]);
    assert!(!rig.snapshot().pods[0].is_kept, "it was told");
}

/// A source behind others named other pods at each poll, each with 740 volumes that took 5 MiB of the daemon's memory; those
/// of before took their time to end, and a node of 256 MiB lost its daemon within 75 seconds.
#[test]
fn pods_that_are_being_stopped_take_of_the_memory_for_manifests_until_they_have_ended() {
    let large = |name: &str| {
        let mut pod = DesiredPod::clone(&pod(name));
        pod.weight = limits::ACTIVE_MANIFESTS / 4;
        Arc::new(pod)
    };
    let mut rig = Rig::listed();
    let first: Vec<Arc<DesiredPod>> = ["a", "b", "c", "d"].into_iter().map(large).collect();
    assert_eq!(acts(rig.want(&first)).iter().filter(|act| act.starts_with("spawn")).count(), 4);
    for pod in &first {
        rig.status(pod, "Running", false);
    }
    let (next, small) = (large("e"), pod("f"));
    let told = acts(rig.want(&[next.clone(), small]));
    assert!(told.iter().any(|act| act == "spawn f, empty"), "{told:?}");
    assert!(!told.iter().any(|act| act.starts_with("spawn e")), "{told:?}");
    let refused = "Pod was rejected: Node didn't have enough resource: manifest-memory, requested: 4194304, used: 16777216, \
                   capacity: 16777216";
    let message = |rig: &Rig, name: &str| {
        let snapshot = rig.snapshot();
        let view = snapshot.pods.iter().find(|view| view.pod.key.name == name).unwrap();
        view.status.message.clone().unwrap_or_default()
    };
    assert_eq!(message(&rig, "e"), refused);
    for pod in &first {
        rig.status(pod, "Running", true);
    }
    let told = acts(rig.gone("a"));
    assert!(told.iter().any(|act| act == "spawn e, empty"), "{told:?}");
}

/// Regression: innocent pods were evicted while the files of a pod were removed that was not shown any more.
#[test]
fn a_pod_whose_files_are_removed_is_told_until_its_worker_has_ended() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.status(&pod("a"), "Running", false);
    rig.want(&[]);
    let removing = |rig: &Rig| rig.snapshot().removing.into_iter().collect::<Vec<_>>();
    assert_eq!(removing(&rig), [""; 0]);
    rig.report("a", Report::Terminated);
    assert_eq!(removing(&rig), ["a-1"]);
    assert_eq!(rig.shown(), "");
    // It comes back.
    rig.want(&[pod("a/a-2")]);
    rig.status(&pod("a/a-2"), "Running", false);
    assert_eq!(removing(&rig), [""; 0]);
    rig.want(&[]);
    rig.gone("a");
    assert_eq!(removing(&rig), [""; 0]);
}
