//! Sizes that an earlier daemon had put in force.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::drain::marker;
use super::super::rig::{Rig, container, key};
use super::{asks, shaped, shows_resize, small};
use crate::base::table::{Set, Table};
use crate::daemon::turn::{Earlier, Event, RuntimeEvent};
use crate::pod::DesiredPod;
use crate::runtime::{ContainerSummary, labels};
use crate::status::resized::{Had, Resized};

/// An edit to more than the node has was put in force by the next daemon, and kept the pod down after a boot.
#[test]
fn sizes_without_room_wait_also_for_a_daemon_that_did_not_see_the_pod_run() {
    let run_kept = |kept: Option<&str>,
                    told: Option<&str>,
                    state: &str,
                    of: &str,
                    new: &str,
                    others: &[Arc<DesiredPod>],
                    expected: &str| {
        let mut rig = Rig::with(small());
        if let Some(cpu) = kept {
            let sizes = crate::pod::sizes::text(&shaped("a", cpu).spec);
            rig.turn.restore_unfinished(Earlier::default(), Set::new(), kept_for(&["a"], &sizes));
        }
        if let Some(cpu) = told {
            let pod = shaped("a", cpu);
            let metadata = ObjectMeta { uid: Some(pod.uid.clone()), ..ObjectMeta::default() };
            let pods = vec![Pod { metadata, spec: Some(PodSpec::clone(&pod.spec)), status: None }];
            rig.turn.restore_unfinished(Earlier { pods, ..Earlier::default() }, Set::new(), Table::new());
        }
        let all = ["a/UID/POD", "a/UID/app"].map(|place| {
            let mut container = container(&format!("{} {state}", place.replace("UID", of)));
            let sizes = crate::pod::sizes::text(&shaped("a", "cpu: 1").spec);
            let more = [(labels::SHAPE, "s".to_owned()), (labels::SIZES, sizes)];
            container.labels.extend(more.map(|(label, value)| (label.to_owned(), value)));
            container
        });
        rig.handle(Event::Runtime(RuntimeEvent::Listed { containers: all.into(), version: None }));
        let mut pods = vec![shaped("a", new)];
        pods.extend(others.iter().cloned());
        rig.want(&pods);
        let cpu = |pod: &DesiredPod| crate::pod::requests::request(&pod.spec, "cpu");
        let runs = rig.turn.entries.get(&key("a")).and_then(|entry| entry.desired.clone());
        if let Some(runs) = &runs {
            rig.status(runs, "Running", false);
        }
        let shown = format!("{} {}", runs.as_deref().map(cpu).unwrap_or_default(), shows_resize(&rig));
        assert_eq!(shown, expected, "{kept:?} {told:?} {state} {of} {new}");
    };
    let run =
        |told: Option<&str>, state: &str, of: &str, new: &str, others: &[Arc<DesiredPod>], expected: &str| {
            run_kept(None, told, state, of, new, others, expected);
        };
    // What the earlier daemon told, not what the sandbox was made with.
    let b = || asks("0", "cpu: 500m");
    run(Some("cpu: 300m"), "running", "a-1", "cpu: 64", &[], "300 true");
    run(Some("cpu: 300m"), "running", "a-1", "cpu: 1800m", &[b()], "300 true");
    run(Some("cpu: 300m"), "exited", "a-1", "cpu: 1800m", &[b()], "300 true");
    run(Some("cpu: 1800m"), "running", "a-1", "cpu: 1800m", &[b()], "1800 false");
    // Without its file those of the sandbox count, and before them those that it got since.
    let check = |state: &str, of: &str, new: &str, others: &[Arc<DesiredPod>], expected: &str| {
        run(None, state, of, new, others, expected);
    };
    check("running", "a-1", "cpu: 64", &[], "1000 true");
    check("exited", "a-1", "cpu: 64", &[], "1000 true");
    check("exited", "a-0", "cpu: 64", &[], "1000 true");
    check("running", "a-1", "cpu: 1800m", &[b()], "1000 true");
    check("exited", "a-1", "cpu: 1800m", &[], "1800 false");
    for state in ["running", "exited"] {
        run_kept(Some("cpu: 300m"), None, state, "a-1", "cpu: 64", &[], "300 true");
    }
    run_kept(Some("cpu: 300m"), None, "exited", "a-0", "cpu: 64", &[], "300 true");
    run_kept(Some("cpu: 300m"), None, "exited", "a-0", "cpu: 1800m", &[b()], "300 true");
    check("exited", "a-1", "cpu: 1800m", &[b()], "1000 true");
    // Those that come later in the order had their room, too.
    let c = || asks("c", "cpu: 500m");
    check("exited", "a-1", "cpu: 1800m", &[c()], "1000 true");
    // Nor is there room for the old sizes.
    check("exited", "a-1", "cpu: 1800m", &[asks("0", "cpu: 1500m")], "0 false");
}

/// Regression: a pod that was being stopped while its daemon died, and that came again later, ran without its requests and
/// limits: of a pod without a manifest the status file knows none.
#[test]
fn what_had_no_manifest_has_no_sizes_to_go_on_with() {
    let cpu = |rig: &Rig| {
        let runs = rig.turn.entries.get(&key("a")).and_then(|entry| entry.desired.clone());
        runs.map(|pod| crate::pod::requests::request(&pod.spec, "cpu"))
    };
    let mut rig = Rig::with(small());
    rig.handle(Event::Runtime(RuntimeEvent::Listed {
        containers: vec![made_with("a", "cpu: 1")],
        version: None,
    }));
    rig.want(&[]);
    assert!(rig.turn.entries.get(&key("a")).unwrap().desired.is_none(), "it is stopped");
    let before = rig.snapshot();
    assert_eq!(crate::pod::sizes::text(&before.pods[0].pod.spec), "{}");
    let mut rig = Rig::with(small());
    rig.goes_on_from(&before);
    rig.list(&[]);
    rig.want(&[]);
    rig.want(&[shaped("a", "cpu: 300m")]);
    assert_eq!(cpu(&rig), Some(300));
    // It is given again at once, and what is left of it ran with other sizes.
    let mut rig = Rig::with(small());
    rig.goes_on_from(&before);
    rig.handle(Event::Runtime(RuntimeEvent::Listed {
        containers: vec![made_with("a", "cpu: 1")],
        version: None,
    }));
    rig.want(&[shaped("a", "cpu: 64")]);
    assert_eq!(cpu(&rig), Some(1000));
}

/// Regression: a pod that was removed and came again hours later had the sizes of before, instead of being judged anew.
#[test]
fn sizes_of_what_is_gone_are_forgotten() {
    let sizes = crate::pod::sizes::text(&shaped("a", "cpu: 300m").spec);
    let mut rig = Rig::with(small());
    rig.turn.restore_unfinished(Earlier::default(), Set::new(), kept_for(&["a"], &sizes));
    rig.list(&[]);
    rig.want(&[asks("b", "cpu: 1500m")]);
    rig.want(&[asks("b", "cpu: 1500m"), shaped("a", "cpu: 1")]);
    let entry = rig.turn.entries.get(&key("a")).unwrap();
    assert!(entry.desired.is_none() && entry.rejected().is_some());
}

/// What an earlier daemon kept.
fn kept_for(names: &[&str], sizes: &str) -> Resized {
    let had = Had { shape: "s".to_owned(), sizes: sizes.to_owned() };
    names.iter().map(|name| (key(name).to_string(), had.clone())).collect()
}

/// After a boot it had those with which its sandbox was made.
#[test]
fn sizes_that_no_sandbox_tells_are_kept_for_the_next_daemon() {
    let mut rig = Rig::with(small());
    let sizes = |cpu: &str| crate::pod::sizes::text(&shaped("a", cpu).spec);
    assert_eq!(rig.snapshot().resized, None, "the file of an earlier daemon stays until Docker is listed");
    rig.turn.restore_unfinished(Earlier::default(), Set::new(), kept_for(&["a", "gone"], "{}"));
    let containers = vec![made_with("a", "cpu: 1"), made_with("b", "cpu: 1")];
    rig.handle(Event::Runtime(RuntimeEvent::Listed { containers, version: None }));
    assert_eq!(rig.snapshot().resized, Some(kept_for(&["a", "gone"], "{}")), "no source was heard");
    rig.want(&[shaped("a", "cpu: 300m"), shaped("b", "cpu: 1")]);
    assert_eq!(rig.snapshot().resized, Some(kept_for(&["a"], &sizes("cpu: 300m"))));
    // No room: those in force stay, also through a drain.
    rig.want(&[shaped("a", "cpu: 64"), shaped("b", "cpu: 500m")]);
    let mut both = kept_for(&["a"], &sizes("cpu: 300m"));
    both.extend(kept_for(&["b"], &sizes("cpu: 500m")));
    assert_eq!(rig.snapshot().resized, Some(both.clone()));
    rig.handle(marker(1, None));
    for name in ["a", "b"] {
        rig.gone(name);
    }
    assert_eq!(rig.snapshot().resized, Some(both.clone()));
    // The next daemon begins while it is drained, without the status file and without a container.
    let mut rig = Rig::with(small());
    rig.turn.restore_unfinished(Earlier::default(), Set::new(), both.clone());
    rig.handle(marker(1, None));
    rig.list(&[]);
    rig.want(&[shaped("a", "cpu: 64"), shaped("b", "cpu: 500m")]);
    assert_eq!(rig.snapshot().resized, Some(both));
    rig.handle(Event::Drain(None));
    let entry = rig.turn.entries.get(&key("a")).unwrap();
    assert_eq!(crate::pod::requests::request(&entry.desired.as_ref().unwrap().spec, "cpu"), 300);
    assert!(entry.postponed().is_some());
    rig.want(&[shaped("a", "cpu: 64")]);
    rig.gone("b");
    assert_eq!(rig.snapshot().resized, Some(kept_for(&["a"], &sizes("cpu: 300m"))));
}

/// It drove a pod out that nobody had edited, or stayed down itself.
#[test]
fn an_edit_while_the_node_is_drained_does_not_take_the_room_of_others() {
    for (cpu, others) in [("cpu: 1", "cpu: 1500m"), ("cpu: 64", "cpu: 1")] {
        let mut rig = Rig::with(small());
        rig.list(&[]);
        let x = asks("x", others);
        rig.want(&[shaped("a", "cpu: 300m"), x.clone()]);
        rig.handle(marker(1, None));
        for name in ["a", "x"] {
            rig.gone(name);
        }
        rig.want(&[shaped("a", cpu), x]);
        rig.handle(Event::Drain(None));
        let runs = |name: &str| {
            let entry = rig.turn.entries.get(&key(name)).unwrap();
            entry.desired.as_ref().map(|pod| crate::pod::requests::request(&pod.spec, "cpu"))
        };
        assert_eq!(runs("a"), Some(300), "{cpu}");
        assert!(runs("x").is_some(), "{cpu}");
    }
}

/// What waits for room is kept although the sandbox tells the same: a drain takes the sandbox.
#[test]
fn sizes_of_a_pod_whose_edit_waits_are_kept() {
    let mut rig = Rig::with(small());
    let containers = vec![made_with("a", "cpu: 1")];
    rig.handle(Event::Runtime(RuntimeEvent::Listed { containers, version: None }));
    rig.want(&[shaped("a", "cpu: 1")]);
    assert_eq!(rig.snapshot().resized, Some(Resized::new()), "as its sandbox tells");
    rig.want(&[shaped("a", "cpu: 64")]);
    let sizes = crate::pod::sizes::text(&shaped("a", "cpu: 1").spec);
    assert_eq!(rig.snapshot().resized, Some(kept_for(&["a"], &sizes)));
    rig.want(&[shaped("a", "cpu: 1")]);
    assert_eq!(rig.snapshot().resized, Some(Resized::new()));
}

/// The sandbox of a running pod, made with these sizes.
fn made_with(name: &str, cpu: &str) -> ContainerSummary {
    let mut sandbox = container(&format!("{name}/{name}-1/POD running"));
    let sizes = crate::pod::sizes::text(&shaped("a", cpu).spec);
    let more = [(labels::SHAPE, "s".to_owned()), (labels::SIZES, sizes)];
    sandbox.labels.extend(more.map(|(label, value)| (label.to_owned(), value)));
    sandbox
}

/// It was judged by its new sizes alone from then on.
#[test]
fn a_pod_that_had_no_room_at_the_start_gets_its_old_sizes_when_there_is_room_for_them() {
    let mut rig = Rig::with(small());
    let mut sandbox = container("a/a-1/POD exited");
    let sizes = crate::pod::sizes::text(&shaped("a", "cpu: 1").spec);
    let more = [(labels::SHAPE, "s".to_owned()), (labels::SIZES, sizes)];
    sandbox.labels.extend(more.map(|(label, value)| (label.to_owned(), value)));
    rig.handle(Event::Runtime(RuntimeEvent::Listed { containers: vec![sandbox], version: None }));
    let (a, first) = (shaped("a", "cpu: 64"), asks("0", "cpu: 1500m"));
    rig.want(&[first, a.clone()]);
    let cpu = |rig: &Rig| {
        let entry = rig.turn.entries.get(&key("a"))?;
        entry.desired.as_ref().map(|pod| crate::pod::requests::request(&pod.spec, "cpu"))
    };
    assert_eq!(cpu(&rig), None);
    rig.want(std::slice::from_ref(&a));
    rig.gone("0");
    assert_eq!(cpu(&rig), Some(1000));
}
