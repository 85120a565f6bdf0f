//! A UID belongs to one pod, in whichever source.

use std::sync::Arc;

use super::evicted::eviction;
use super::hold::{after, pass};
use super::preempted::one_behind;
use super::rig::{Rig, acts, config_with, pod, pod_of};
use crate::daemon::turn::Event;
use crate::machine::Report;
use crate::pod::{DesiredPod, Source};
use crate::source::http::Settings;
use crate::source::http::url::ManifestUrl;
use crate::source::{FromSource, PodSet, SourceUpdate};

/// A node with two sources, Docker listed.
pub(super) fn two(containers: &[&str]) -> Rig {
    let url = Settings::new(ManifestUrl::parse("https://fleet/pods").unwrap());
    let mut rig = Rig::with(config_with(|it| it.manifest_url = Some(url)));
    rig.list(containers);
    rig
}

pub(super) fn http(rig: &mut Rig, pods: &[Arc<DesiredPod>]) -> Vec<String> {
    let moved = |pod: &Arc<DesiredPod>| {
        let mut pod = (**pod).clone();
        pod.source = Source::Http;
        Arc::new(pod)
    };
    let update = SourceUpdate::Full(PodSet { pods: pods.iter().map(moved).collect(), ..PodSet::default() });
    rig.handle(Event::Source(FromSource { source: Source::Http, update }))
}

#[test]
fn the_later_pod_of_a_uid_is_refused_until_the_other_is_gone() {
    let mut rig = two(&[]);
    http(&mut rig, &[]);
    assert_eq!(acts(rig.want(&[pod("a/u-1")])), ["spawn a, empty", "run a/u-1"]);
    for uid in ["u-1", "U-1"] {
        assert_eq!(acts(http(&mut rig, &[pod(&format!("evil/{uid}"))])), [""; 0]);
        assert_eq!(rig.shown(), "a Pending, evil Failed DuplicateUID");
    }
    // Still being stopped.
    assert_eq!(acts(rig.want(&[])), ["stop a: its manifest is gone"]);
    assert_eq!(acts(http(&mut rig, &[pod("evil/u-1")])), [""; 0]);
    assert_eq!(acts(rig.gone("a")), ["retire a", "spawn evil, empty", "run evil/u-1"]);
}

#[test]
fn an_edited_pod_keeps_its_old_uid_until_docker_has_nothing_of_it() {
    let mut rig = two(&[]);
    http(&mut rig, &[]);
    rig.want(&[pod("a/old")]);
    assert_eq!(acts(rig.want(&[pod("a/new")])), ["run a/new"]);
    assert_eq!(acts(http(&mut rig, &[pod("evil/old")])), [""; 0]);
    rig.list(&["a/old/app running"]);
    assert_eq!(rig.shown(), "a Pending, evil Failed DuplicateUID");
    // Nobody has to speak of it again: a source may be silent for days.
    let told = acts(rig.list(&["a/new/app running"]));
    assert_eq!(told, ["hint a All", "spawn evil, empty", "run evil/old"]);
}

/// Lists are minutes apart: a pod of the node's own files waited for a UID that had been free for long.
#[test]
fn a_worker_tells_when_nothing_of_an_old_uid_is_left() {
    let mut rig = two(&["a/old/app running"]);
    http(&mut rig, &[pod("a/old")]);
    rig.want(&[]);
    http(&mut rig, &[pod("a/new")]);
    assert_eq!(acts(rig.want(&[pod("mine/old")])), [""; 0]);
    assert_eq!(rig.shown(), "a Pending, mine Failed DuplicateUID");
    let freed = |uid: &str, wishes| Report::Freed([uid.to_owned()].into(), wishes);
    assert_eq!(acts(rig.report("a", freed("new", 2))), [""; 0], "it is wanted");
    assert_eq!(acts(rig.report("a", freed("old", 1))), [""; 0], "it has not read the last wish");
    let others =
        |rig: &Rig| rig.snapshot().pods.iter().find(|view| view.pod.key.name == "a").unwrap().others.clone();
    assert_eq!(others(&rig), ["old"]);
    rig.turn.take_changed();
    assert_eq!(acts(rig.report("a", freed("old", 2))), ["spawn mine, empty", "run mine/old"]);
    assert!(others(&rig).is_empty() && rig.turn.take_changed());
    assert_eq!(acts(http(&mut rig, &[pod("a/new"), pod("evil/new")])), [""; 0]);
}

/// It was held in a circle after a boot, and its ended containers were pruned: another pod ran in its volumes.
#[test]
fn a_pod_that_waits_for_anything_has_its_uid() {
    let mut rig = two(&[]);
    http(&mut rig, &[]);
    rig.want(&[after("a", "b"), after("b", "a")]);
    assert_eq!(acts(http(&mut rig, &[pod("evil/b-1")])), [""; 0]);
    assert_eq!(rig.shown(), "a Pending WaitingForPods, b Failed DependencyCycle, evil Failed DuplicateUID");
}

#[test]
fn what_runs_when_the_daemon_begins_has_its_uid() {
    // The file source's pod runs, and the URL speaks first.
    let mut rig = two(&["a/u/app running"]);
    assert_eq!(acts(http(&mut rig, &[pod("evil/u")])), [""; 0]);
    assert_eq!(acts(rig.want(&[pod("a/u")])), ["spawn a", "run a/u"]);
    assert_eq!(rig.shown(), "a Pending, evil Failed DuplicateUID");
    // An orphan holds its UID until it is gone.
    let mut rig = two(&["a/u/app running"]);
    assert_eq!(acts(http(&mut rig, &[pod("evil/u")])), [""; 0]);
    assert_eq!(acts(rig.want(&[])), ["spawn a", "stop a: no manifest names it"]);
    assert_eq!(acts(rig.gone("a")), ["retire a", "spawn evil, empty", "run evil/u"]);
    // If two pods with the same UID run already, one of them stays.
    let mut rig = two(&["a/u/app running", "b/u/app running"]);
    http(&mut rig, &[]);
    let act = acts(rig.want(&[pod("a/u"), pod("b/u")]));
    assert_eq!(act, ["spawn a", "run a/u", "spawn b", "stop b: it was rejected"]);
}

#[test]
fn another_source_does_not_take_over_what_goes_by_a_uid() {
    let mut rig = two(&[]);
    rig.want(&[]);
    http(&mut rig, &[pod_of("a/u", "{containers: [{name: evil}]}")]);
    let mine = pod("b/u");
    assert_eq!(acts(rig.want(&[pod("a/u")])), ["stop a: it was rejected"], "a file wins the name");
    assert_eq!(rig.shown(), "a Failed DuplicateUID");
    assert_eq!(acts(rig.gone("a")), ["retire a", "spawn a, empty", "run a/u"]);
    // A manifest that moves unchanged is the same pod.
    let mut rig = two(&[]);
    rig.want(&[]);
    let mut moving = (*mine).clone();
    moving.written = Some("hash".into());
    http(&mut rig, &[Arc::new(moving.clone())]);
    assert_eq!(acts(rig.want(&[Arc::new(moving)])), ["run b/u"]);
}

/// The copy would run with ConfigMaps of its own source, in the volumes of the pod that it copies.
#[test]
fn a_copy_that_refers_to_objects_does_not_take_over_the_uid_of_a_pod_of_another_source() {
    for spec in [
        "{containers: [{name: app, envFrom: [{configMapRef: {name: c, optional: true}}]}]}",
        "{containers: [{name: app}], volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}",
    ] {
        let mut copy = (*pod_of("a/u", spec)).clone();
        copy.written = Some("hash".into());
        let copy = Arc::new(copy);
        let mut rig = two(&[]);
        http(&mut rig, &[]);
        rig.want(&[Arc::clone(&copy)]);
        assert_eq!(acts(http(&mut rig, &[Arc::clone(&copy)])), [""; 0], "the file has the name");
        assert_eq!(acts(rig.want(&[])), ["stop a: it was rejected"]);
        assert_eq!(rig.shown(), "a Failed DuplicateUID");
        let message = rig.snapshot().pods[0].status.message.clone().unwrap();
        assert!(message.contains("when it is gone this pod begins anew, in source http"), "{message}");
        assert_eq!(acts(rig.gone("a")), ["retire a", "spawn a, empty", "run a/u"]);
        // The same for pods that run when the daemon starts.
        let mut rig = two(&["a/u/app running"]);
        rig.want(&[]);
        assert_eq!(acts(http(&mut rig, &[copy])), ["spawn a", "stop a: it was rejected"]);
    }
}

/// An author of the URL's manifests can compute UIDs in advance.
#[test]
fn a_pod_of_a_source_that_precedes_gets_its_uid_from_one_that_came_first() {
    let mut rig = two(&[]);
    rig.want(&[]);
    assert_eq!(acts(http(&mut rig, &[pod("evil/u")])), ["spawn evil, empty", "run evil/u"]);
    assert_eq!(acts(rig.want(&[pod("mine/U")])), ["stop evil: it was rejected"]);
    assert_eq!(rig.shown(), "evil Failed DuplicateUID, mine Failed DuplicateUID");
    assert_eq!(acts(rig.gone("evil")), ["retire evil", "spawn mine, empty", "run mine/U"]);
    assert_eq!(rig.shown(), "evil Failed DuplicateUID, mine Pending");
    // The same for a pod that runs when the daemon starts.
    let mut rig = two(&["evil/u/app running"]);
    assert_eq!(acts(rig.want(&[pod("mine/u")])), [""; 0]);
    assert_eq!(acts(http(&mut rig, &[pod("evil/u")])), ["spawn evil", "stop evil: it was rejected"]);
    assert_eq!(acts(rig.gone("evil")), ["retire evil", "spawn mine, empty", "run mine/u"]);
}

/// A pod that moves to a source with fewer rights has to be admitted there.
#[test]
fn a_pod_that_moves_has_the_rights_of_its_new_source() {
    let mut rig = two(&[]);
    let mut pod = (*pod_of("a/u", "{hostNetwork: true, containers: [{name: app}]}")).clone();
    pod.written = Some("hash".into());
    let pod = Arc::new(pod);
    rig.want(&[Arc::clone(&pod)]);
    http(&mut rig, &[pod]);
    assert_eq!(acts(rig.want(&[])), ["stop a: it was rejected"]);
    assert_eq!(rig.shown(), "a Failed Forbidden");
}

/// Regression: another pod got the UID of one that was evicted, which then waited for that one's files.
#[test]
fn an_evicted_pod_has_its_uid() {
    let mut rig = two(&[]);
    http(&mut rig, &[]);
    rig.want(&[pod("a/u-1")]);
    rig.handle(eviction("a", "u-1", true));
    rig.gone("a");
    assert_eq!(acts(http(&mut rig, &[pod("evil/u-1")])), [""; 0]);
    assert_eq!(rig.shown(), "a Failed Evicted, evil Failed DuplicateUID");
    // A source that precedes gets it from one that was evicted.
    let mut rig = two(&[]);
    rig.want(&[]);
    http(&mut rig, &[pod("evil/u-1")]);
    rig.handle(eviction("evil", "u-1", true));
    rig.gone("evil");
    assert_eq!(acts(rig.want(&[pod("a/u-1")])), ["spawn a, empty", "run a/u-1"]);
    assert_eq!(rig.shown(), "a Pending, evil Failed DuplicateUID");
}

/// Regression: a version that waited, of a pod of which another version ran, kept the UID of a pod of a source that precedes:
/// that one was stopped at its next edit, for good.
#[test]
fn a_version_that_waits_gives_its_uid_to_a_source_that_precedes() {
    let mut rig = two(&[]);
    rig.want(&[]);
    http(&mut rig, &[pod("evil/x-1")]);
    assert_eq!(acts(http(&mut rig, &[after("evil/u-1", "other=ready")])), [""; 0]);
    let told = acts(rig.want(&[pod("a/u-1")]));
    assert!(told.contains(&"run a/u-1".to_owned()), "{told:?}");
    assert_eq!(rig.shown(), "a Pending, evil Failed DuplicateUID");
}

/// Regression: the version that waited was lost, and the pod stayed away when its other one could run.
#[test]
fn a_version_that_waits_goes_on_waiting_when_the_one_that_runs_gives_its_uid_away() {
    let mut rig = two(&[]);
    rig.want(&[]);
    http(&mut rig, &[pod("evil/u-1")]);
    http(&mut rig, &[after("evil/x-1", "other=ready")]);
    let told = acts(rig.want(&[pod("a/u-1")]));
    assert_eq!(told, ["stop evil: it was rejected"]);
    rig.gone("evil");
    assert_eq!(rig.shown(), "a Pending, evil Pending WaitingForPods");
    assert!(pass(&mut rig, 61).contains(&"run evil/x-1".to_owned()));
}

/// Seconds of grace far beyond what a source that precedes waits for.
const SLOW: &str = "{terminationGracePeriodSeconds: 500, containers: [{name: app}]}";
const SOON: &str = "within 30 s: a pod of a source that precedes its own waits for its place";

fn behind(containers: &[&str]) -> Rig {
    let mut rig = Rig::with(one_behind());
    rig.list(containers);
    rig.want(&[]);
    rig
}

fn of_http(pod: &Arc<DesiredPod>) -> Arc<DesiredPod> {
    let mut pod = (**pod).clone();
    pod.source = Source::Http;
    Arc::new(pod)
}

/// Regression: a pod of the URL that had gone before, or had another UID by then, kept a pod of the node's own files waiting for
/// all of its grace period.
#[test]
fn what_ends_gives_its_uid_soon_to_a_source_that_precedes() {
    let slow = pod_of("evil/u", SLOW);
    let mut rig = behind(&[]);
    http(&mut rig, std::slice::from_ref(&slow));
    rig.status(&of_http(&slow), "Running", false);
    assert_eq!(acts(http(&mut rig, &[])), ["stop evil: its manifest is gone"]);
    assert_eq!(acts(rig.want(&[pod("mine/u")])), [format!("stop evil {SOON}")]);
    assert_eq!(acts(rig.want(&[pod("mine/u"), pod("other/o")])), ["spawn other, empty", "run other/o"]);
    assert_eq!(acts(rig.gone("evil")), ["retire evil", "spawn mine, empty", "run mine/u"]);
    // It is being replaced by a version that ends fast.
    let mut rig = behind(&[]);
    http(&mut rig, std::slice::from_ref(&slow));
    rig.status(&of_http(&slow), "Running", false);
    assert_eq!(
        acts(http(
            &mut rig,
            &[pod_of("evil/x", "{terminationGracePeriodSeconds: 1, containers: [{name: app}]}")]
        )),
        ["run evil/x"]
    );
    rig.status(&of_http(&slow), "Running", true);
    let told = acts(rig.want(&[pod("mine/u")]));
    assert_eq!(told, ["stop evil within 30 s: it is preempted by a pod of a source that precedes its own"]);
    // A pod of the node's own files that takes its name stays.
    let mut rig = behind(&[]);
    http(&mut rig, std::slice::from_ref(&slow));
    rig.status(&of_http(&slow), "Running", false);
    rig.want(&[pod("evil/y")]);
    rig.status(&of_http(&slow), "Running", true);
    assert_eq!(acts(rig.want(&[pod("evil/y"), pod("mine/u")])), [""; 0]);
    // Nothing is told of what an earlier daemon has left.
    let mut rig = Rig::with(one_behind());
    rig.want(&[pod("mine/u")]);
    http(&mut rig, &[]);
    let told = acts(rig.list(&["evil/u/app running of http for 500"]));
    assert_eq!(told, ["spawn evil", "stop evil: no manifest names it", &format!("stop evil {SOON}")]);
}

/// Relative: the same for a name.
#[test]
fn what_runs_gives_its_name_soon_to_a_source_that_precedes() {
    let slow = pod_of("a/u", SLOW);
    let mut rig = behind(&[]);
    http(&mut rig, std::slice::from_ref(&slow));
    assert_eq!(acts(rig.want(&[pod("a/mine")])), [format!("stop a {SOON}"), "run a/mine".to_owned()]);
    assert_eq!(acts(rig.want(&[pod_of("a/mine", SLOW)])), ["run a/mine"], "only once");
    // Its containers were made before it moved here.
    let mut rig = behind(&[]);
    let moving = Arc::new(DesiredPod { written: Some("hash".into()), ..(*slow).clone() });
    http(&mut rig, std::slice::from_ref(&moving));
    rig.want(&[moving]);
    http(&mut rig, &[]);
    rig.list(&["a/u/app running of http for 500"]);
    assert_eq!(acts(rig.want(&[pod_of("a/mine", SLOW)])), ["run a/mine"]);
    // What runs has its UID, too.
    let mut rig = behind(&[]);
    http(&mut rig, std::slice::from_ref(&slow));
    assert_eq!(
        acts(rig.want(&[pod_of("a/u", "{containers: [{name: other}]}")])),
        ["stop a within 30 s: it was rejected"]
    );
}
