//! How long a pod waits for the room of pods whose source stands behind its own: not as long as these like.

use std::sync::Arc;
use std::time::Duration;

use super::evicted::later;
use super::preempted::{critical, node, of_source, one_behind, plain, sized};
use super::rig::{Rig, acts};
use crate::base::limits;
use crate::pod::{DesiredPod, Source};

const BEHIND: &str = "it is preempted by a pod of a source that precedes its own";
const WAITED: &str = "a pod of a source that precedes its own waits for its place";

/// A pod that takes ten minutes to end.
fn slow(words: &str, cpu: u32) -> Arc<DesiredPod> {
    sized(words, cpu, "terminationGracePeriodSeconds: 600, ")
}

fn of_file(rig: &mut Rig, pods: &[&Arc<DesiredPod>]) -> Vec<String> {
    of_source(rig, Source::File, pods)
}

/// No pod runs on the node, and both sources are known.
fn begun() -> Rig {
    let mut rig = Rig::listed_with(one_behind());
    of_file(&mut rig, &[]);
    of_url(&mut rig, &[]);
    rig
}

fn of_url(rig: &mut Rig, pods: &[&Arc<DesiredPod>]) -> Vec<String> {
    of_source(rig, Source::Http, pods)
}

/// A pod of the URL leaves, as its worker tells.
fn leaves(rig: &mut Rig, pod: &DesiredPod) {
    let pod = DesiredPod { source: Source::Http, ..pod.clone() };
    rig.status(&Arc::new(pod), "Running", true);
}

/// Twelve pods that ignored TERM kept two pods of files from starting for ten minutes.
#[test]
fn a_pod_behind_others_ends_soon_for_one_of_theirs() {
    let mut rig = begun();
    of_url(&mut rig, &[&slow("b", 500), &sized("c", 400, "terminationGracePeriodSeconds: 5, ")]);
    let told = of_file(&mut rig, &[&plain("a", 1000)]);
    assert_eq!(told, [format!("stop c: {BEHIND}"), format!("stop b within 30 s: {BEHIND}")]);
    // Also for a critical one.
    let mut rig = begun();
    of_url(&mut rig, &[&slow("b", 900)]);
    let told = of_file(&mut rig, &[&critical("z", 500)]);
    assert_eq!(told, ["stop b within 30 s: it is preempted by a critical pod"]);
}

/// As in the kubelet (`killPodFunc` without a grace period of its own).
#[test]
fn a_pod_that_is_not_behind_has_its_own_time_to_end_for_a_critical_one() {
    let mut rig = Rig::listed_with(node());
    let a = slow("a", 900);
    rig.want(std::slice::from_ref(&a));
    assert_eq!(acts(rig.want(&[a, critical("z", 500)])), ["stop a: it is preempted by a critical pod"]);
}

/// It is told once, however often others are judged again.
#[test]
fn a_pod_behind_others_that_ends_anyway_ends_soon_where_one_of_theirs_waits_for_it() {
    let mut rig = begun();
    let (b, c) = (slow("b", 500), plain("c", 400));
    of_url(&mut rig, &[&b, &c]);
    leaves(&mut rig, &b);
    let told = of_url(&mut rig, &[&c]);
    assert_eq!(told, ["stop b: its manifest is gone"]);
    let a = plain("a", 600);
    assert_eq!(of_file(&mut rig, &[&a]), [format!("stop b within 30 s: {WAITED}")]);
    assert_eq!(rig.shown(), "a Pending WaitingForRoom, b Running terminating, c Pending");
    assert_eq!(of_file(&mut rig, &[&a, &plain("d", 0)]), ["spawn d, empty", "run d/d-1"]);
    assert!(acts(rig.gone("b")).contains(&"run a/a-1".to_owned()));
}

/// Edits at each poll: the old version ends for ten minutes, and the new one begins to end as soon as it runs.
#[test]
fn a_pod_behind_others_is_not_replaced_while_one_of_theirs_waits_for_its_room() {
    let mut rig = begun();
    let b = slow("b", 800);
    of_url(&mut rig, &[&b]);
    of_url(&mut rig, &[&slow("b/b-2", 500)]);
    leaves(&mut rig, &b);
    assert_eq!(of_file(&mut rig, &[&plain("a", 300)]), [format!("stop b within 30 s: {BEHIND}")]);
    let told = acts(rig.gone("b"));
    assert!(told.contains(&"run a/a-1".to_owned()) && told.contains(&"run b/b-2".to_owned()), "{told:?}");
}

/// Each start of the daemon gave the pods that it had told to go all of their time again.
#[test]
fn a_pod_behind_others_has_no_more_time_to_end_after_a_start_of_the_daemon() {
    let mut rig = begun();
    let (a, b) = (plain("a", 600), slow("b", 900));
    of_url(&mut rig, &[&b]);
    of_file(&mut rig, &[&a]);
    for (passed, left) in [(10, 20), (5, 15), (40, limits::GRACE_MIN)] {
        let mut next = Rig::with(one_behind());
        next.now = rig.now.after(Duration::from_secs(passed));
        next.goes_on_from(&rig.snapshot());
        of_url(&mut next, &[&b]);
        of_file(&mut next, &[&a]);
        let told = acts(next.list(&["b/b-1/POD running of http", "b/b-1/app running of http"]));
        let stop = format!("stop b within {left} s: {BEHIND}");
        assert!(told.contains(&stop), "{stop}: {told:?}");
        rig = next;
    }
    // One that was not needed to go after all has all of its time when it is later.
    let mut next = Rig::with(one_behind());
    next.now = rig.now.after(Duration::from_secs(10));
    next.goes_on_from(&rig.snapshot());
    of_url(&mut next, &[&b]);
    of_file(&mut next, &[]);
    next.list(&["b/b-1/POD running of http", "b/b-1/app running of http"]);
    later(&mut next, Duration::from_secs(100));
    assert_eq!(of_file(&mut next, &[&a]), [format!("stop b within 30 s: {BEHIND}")]);
}

/// Regression: the next daemon gave the version before an edit all of its time.
#[test]
fn the_version_before_an_edit_ends_soon_also_for_the_next_daemon() {
    let mut rig = begun();
    let (old, new, a) = (slow("b", 900), slow("b/b-2", 100), plain("a", 600));
    of_url(&mut rig, &[&old]);
    rig.status(&Arc::new(DesiredPod { source: Source::Http, ..(*old).clone() }), "Running", false);
    of_url(&mut rig, &[&new]);
    leaves(&mut rig, &old);
    let mut next = Rig::with(one_behind());
    next.now = rig.now;
    next.goes_on_from(&rig.snapshot());
    of_url(&mut next, &[&new]);
    of_file(&mut next, &[&a]);
    let told = acts(next.list(&["b/b-1/POD running of http", "b/b-1/app running of http"]));
    assert!(told.contains(&format!("stop b within 30 s: {BEHIND}")), "{told:?}");
    assert!(!told.contains(&"run a/a-1".to_owned()), "{told:?}");
}
