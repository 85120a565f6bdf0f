//! Pods that are being stopped when they have to be evicted: with a grace period of years they could use any amount
//! meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::evicted::{eviction, later, running};
use super::rig::{Rig, acts, pod};
use crate::base::limits;

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
