//! Sizes that an earlier daemon had put in force.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::rig::{Rig, container, key};
use super::{asks, shaped, shows_resize, small};
use crate::base::table::{Set, Table};
use crate::daemon::turn::{Earlier, Event, RuntimeEvent};
use crate::pod::DesiredPod;
use crate::runtime::{ContainerSummary, labels};

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
            rig.turn.restore_unfinished(
                Earlier::default(),
                Set::new(),
                Table::from([(of.to_owned(), sizes)]),
            );
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

/// After a boot it had those with which its sandbox was made.
#[test]
fn sizes_put_in_force_since_the_sandbox_was_made_are_kept_for_the_next_daemon() {
    let mut rig = Rig::with(small());
    let kept = |rig: &Rig| rig.snapshot().resized.map(|all| all.into_iter().collect::<Vec<_>>());
    let sizes = |cpu: &str| crate::pod::sizes::text(&shaped("a", cpu).spec);
    assert_eq!(kept(&rig), None, "the files of an earlier daemon stay until Docker is listed");
    rig.turn.restore_unfinished(
        Earlier::default(),
        Set::new(),
        Table::from([("b-1", "{}"), ("gone", "{}")].map(|(uid, text)| (uid.to_owned(), text.to_owned()))),
    );
    rig.handle(Event::Runtime(RuntimeEvent::Listed {
        containers: vec![made_with("a", "cpu: 1"), made_with("b", "cpu: 1")],
        version: None,
    }));
    let of_b = ("b-1".to_owned(), "{}".to_owned());
    rig.want(&[shaped("a", "cpu: 1")]);
    assert_eq!(kept(&rig), Some(vec![of_b.clone()]), "nobody has told of b yet");
    rig.want(&[shaped("a", "cpu: 300m"), shaped("b", "cpu: 1")]);
    assert_eq!(kept(&rig), Some(vec![("a-1".to_owned(), sizes("cpu: 300m"))]));
    // No room: those in force stay.
    rig.want(&[shaped("a", "cpu: 64"), shaped("b", "cpu: 500m")]);
    let both = vec![("a-1".to_owned(), sizes("cpu: 300m")), ("b-1".to_owned(), sizes("cpu: 500m"))];
    assert_eq!(kept(&rig), Some(both));
    rig.want(&[shaped("a", "cpu: 1")]);
    rig.gone("b");
    assert_eq!(kept(&rig), Some(Vec::new()), "as its sandbox tells");
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
