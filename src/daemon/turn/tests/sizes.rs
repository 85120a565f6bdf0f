//! Resources of the node: room, devices, sysctls; and resizes of running pods.

mod earlier;

use std::sync::Arc;

use super::rig::{Rig, acts, config, container, key, pod, pod_of};
use crate::base::table::Set;
use crate::daemon::config::Config;
use crate::daemon::turn::admission::{Chosen, Room, admit};
use crate::daemon::turn::{Effect, Event, RuntimeEvent};
use crate::machine::{Report, Wish};
use crate::node::Node;
use crate::node::devices::{ASSIGNED, DEVICE, Pools};
use crate::pod::allocatable::Allocatable;
use crate::pod::{DesiredPod, Source};
use crate::policy::{Policies, SourcePolicy};
use crate::runtime::labels;

pub(super) fn small() -> Config {
    let mut devices = Pools::default();
    for unit in ["serial=/dev/ttyUSB0", "serial=/dev/ttyUSB1"] {
        devices.add(unit).unwrap();
    }
    let node = Node {
        allocatable: Allocatable { milli_cpu: 2000, memory: 1 << 30, ephemeral_storage: 0 },
        huge_pages: [("hugepages-2Mi".to_owned(), 4 << 20)].into(),
        max_pods: 3,
        devices,
        ..Node::default()
    };
    let policy = SourcePolicy { allowed_devices: vec!["/dev/ttyS*".to_owned()], ..SourcePolicy::default() };
    Config { node: Arc::new(node), policy: Arc::new(Policies::all(policy)), ..config() }
}

/// One container with these requests.
pub(super) fn asks(words: &str, requests: &str) -> Arc<DesiredPod> {
    pod_of(words, &format!("{{containers: [{{name: app, resources: {{requests: {{{requests}}}}}}}]}}"))
}

fn annotated(pod: &Arc<DesiredPod>, key: &str, value: &str) -> Arc<DesiredPod> {
    let mut pod = DesiredPod::clone(pod);
    pod.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    Arc::new(pod)
}

#[test]
fn what_does_not_fit() {
    let check = |pod: &DesiredPod, others: &[&DesiredPod], expected: &str| {
        let got = match admit(
            pod,
            others.iter().copied(),
            &small(),
            &Default::default(),
            Chosen::Here,
            Room::Counts,
        ) {
            Ok(()) => "fine".to_owned(),
            Err(rejection) => format!("{}: {}", rejection.reason, rejection.message),
        };
        assert_eq!(got, expected);
    };
    let none = asks("n", "");
    let one = asks("one", "cpu: 1500m, memory: 512Mi");
    check(&one, &[], "fine");
    check(&asks("a", "cpu: 500m"), &[&one], "fine");
    check(
        &asks("a", "cpu: 501m"),
        &[&one],
        "OutOfcpu: Node didn't have enough resource: cpu, requested: 501, used: 1500, capacity: 2000",
    );
    check(
        &asks("a", "memory: 1Gi"),
        &[&one],
        "OutOfmemory: Node didn't have enough resource: memory, requested: 1073741824, used: 536870912, \
         capacity: 1073741824",
    );
    // The disk's size is unknown.
    check(&asks("a", "ephemeral-storage: 1Ti"), &[&one], "fine");
    check(&none, &[&none, &none], "fine");
    check(
        &none,
        &[&none, &asks("o", ""), &asks("p", "")],
        "OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
    );
    let pages = |size: &str, amount: &str| {
        pod_of(
            "a",
            &format!(
                "{{containers: [{{name: app, resources: {{limits: {{hugepages-{size}: {amount}}}}}}}]}}"
            ),
        )
    };
    check(&pages("2Mi", "4Mi"), &[], "fine");
    check(
        &pages("1Gi", "1Gi"),
        &[],
        "OutOfhugepages-1Gi: Node didn't have enough resource: hugepages-1Gi, requested: 1073741824, used: 0, \
         capacity: 0",
    );
    let sysctl =
        "{containers: [{name: app}], securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}}";
    check(&pod_of("a", sysctl), &[], "SysctlForbidden: forbidden sysctl: \"kernel.msgmax\" not allowlisted");
    let profile = "{containers: [{name: app}], securityContext: {appArmorProfile: {type: RuntimeDefault}}}";
    check(
        &pod_of("a", profile),
        &[],
        "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host",
    );
    check(&annotated(&none, DEVICE, "/dev/ttyS0"), &[], "fine");
    check(
        &annotated(&none, DEVICE, "/dev/mem"),
        &[],
        "Forbidden: pod with UID \"n-1\" specified device /dev/mem, but is disallowed (--allowed-devices)",
    );
    check(
        &annotated(&none, DEVICE, "x=/dev/ttyS0"),
        &[],
        "Forbidden: annotation podkeeper.dev/device: there is no container \"x\"",
    );
}

fn serial(words: &str) -> Arc<DesiredPod> {
    pod_of(words, "{containers: [{name: app, resources: {limits: {podkeeper.dev/serial: 1}}}]}")
}

/// The device units that a worker was told.
fn given(rig: &mut Rig, pods: &[Arc<DesiredPod>]) -> Vec<String> {
    let set = crate::source::PodSet { pods: pods.to_vec(), ..Default::default() };
    let update = crate::source::SourceUpdate::Full(set);
    let source = crate::pod::Source::File;
    let now = rig.now();
    let effects = rig.turn.handle(Event::Source(crate::source::FromSource { source, update }), &now);
    let runs = effects.into_iter().filter_map(|effect| match effect {
        Effect::Wish(_, Wish::Run(pod)) => Some(pod),
        _ => None,
    });
    runs.map(|pod| {
        let text = pod.metadata.annotations.as_ref().and_then(|a| a.get(ASSIGNED)).cloned();
        format!("{} {}", pod.key.name, text.unwrap_or_default())
    })
    .collect()
}

#[test]
fn units_of_devices_are_given_once_and_kept() {
    let mut rig = Rig::with(small());
    rig.list(&[]);
    let all = [serial("a"), serial("b"), serial("c")];
    assert_eq!(
        given(&mut rig, &all),
        ["a app=/dev/ttyUSB0:/dev/ttyUSB0:rwm", "b app=/dev/ttyUSB1:/dev/ttyUSB1:rwm"]
    );
    assert_eq!(rig.shown(), "a Pending, b Pending, c Failed OutOfpodkeeper.dev/serial");
    // An edit keeps the unit.
    let edited = annotated(&serial("b"), "note", "x");
    assert_eq!(
        given(&mut rig, &[all[0].clone(), edited, all[2].clone()]),
        ["b app=/dev/ttyUSB1:/dev/ttyUSB1:rwm"]
    );
    // The next daemon reads it from the sandbox, in any order of pods.
    let mut rig = Rig::with(small());
    let mut sandbox = container("b/b-1/POD running");
    sandbox
        .labels
        .insert(labels::ASSIGNED_DEVICES.to_owned(), "app=/dev/ttyUSB0:/dev/ttyUSB0:rwm".to_owned());
    let listed = RuntimeEvent::Listed { containers: vec![sandbox.clone()], version: None };
    rig.handle(Event::Runtime(listed));
    let all = given(&mut rig, &[serial("a"), serial("b")]);
    assert_eq!(all, ["b app=/dev/ttyUSB0:/dev/ttyUSB0:rwm", "a app=/dev/ttyUSB1:/dev/ttyUSB1:rwm"]);
    // Regression: of an earlier version, or of a pod that no source tells any more, it was forgotten.
    for b in [None, Some(serial("b/b-2"))] {
        let mut before = Rig::with(small());
        given(&mut before, &[serial("b")]);
        let mut rig = Rig::with(small());
        rig.goes_on_from(&before.snapshot());
        let containers = vec![sandbox.clone(), container("b/b-1/app running")];
        rig.handle(Event::Runtime(RuntimeEvent::Listed { containers, version: None }));
        let is_edited = b.is_some();
        let wanted: Vec<_> = [serial("a"), serial("c")].into_iter().chain(b).collect();
        let all = given(&mut rig, &wanted);
        assert!(all.contains(&"a app=/dev/ttyUSB1:/dev/ttyUSB1:rwm".to_owned()), "{all:?}");
        assert!(rig.shown().contains("c Failed OutOfpodkeeper.dev/serial"), "{}", rig.shown());
        if is_edited {
            continue;
        }
        assert_eq!(next_unit(&mut rig), ["app=/dev/ttyUSB0:/dev/ttyUSB0:rwm"]);
    }
    // After an edit without devices.
    let mut rig = Rig::with(small());
    let containers = vec![sandbox.clone(), container("b/b-1/app running")];
    rig.handle(Event::Runtime(RuntimeEvent::Listed { containers, version: None }));
    given(&mut rig, &[serial("a"), serial("c"), pod("b/b-2")]);
    assert_eq!(next_unit(&mut rig), ["app=/dev/ttyUSB0:/dev/ttyUSB0:rwm"]);
}

/// Ends pod `b` of an earlier daemon, its sandbox last. The unit that pod `c` gets. Regression: it went without, for Docker's
/// list was older than that.
fn next_unit(rig: &mut Rig) -> Vec<String> {
    let now = rig.now();
    let mut effects = Vec::new();
    for state in ["running", "exited"] {
        let ends =
            [format!("b/b-1/POD {state}"), "b/b-1/app exited".to_owned()].map(|words| container(&words));
        let seen = Report::Seen(ends.into_iter().map(|c| (c.id, c.state)).collect(), Set::new(), 9);
        effects.extend(rig.turn.handle(Event::Worker { key: key("b"), report: seen }, &now));
    }
    effects.extend(rig.turn.handle(Event::Worker { key: key("b"), report: Report::Terminated }, &now));
    let runs = effects.into_iter().filter_map(|effect| match effect {
        Effect::Wish(key, Wish::Run(pod)) if key.name == "c" => Some(
            pod.metadata.annotations.as_ref().and_then(|all| all.get(ASSIGNED)).cloned().unwrap_or_default(),
        ),
        _ => None,
    });
    runs.collect()
}

/// The same, with a shape that all its sizes share.
pub(super) fn shaped(words: &str, requests: &str) -> Arc<DesiredPod> {
    let mut pod = DesiredPod::clone(&asks(words, requests));
    pod.shape = Some("s".to_owned());
    Arc::new(pod)
}

/// Pod `a` runs beside pod `b`, and its new sizes wait for room.
fn with_a_resize_that_waits() -> (Rig, Arc<DesiredPod>, Arc<DesiredPod>) {
    let mut rig = Rig::with(small());
    rig.list(&[]);
    let (a, b, larger) = (shaped("a", "cpu: 1"), asks("b", "cpu: 500m"), shaped("a", "cpu: 1800m"));
    rig.want(&[a.clone(), b.clone()]);
    rig.status(&a, "Running", false);
    assert_eq!(acts(rig.want(&[larger.clone(), b.clone()])), [""; 0]);
    (rig, larger, b)
}

/// Whether the snapshot shows a resize that waits.
fn shows_resize(rig: &Rig) -> bool {
    let snapshot = rig.snapshot();
    snapshot.pods.iter().any(|p| p.status.conditions.iter().flatten().any(|c| c.type_ == "PodResizePending"))
}

#[test]
fn an_edit_that_waits_for_a_pod_takes_the_place_of_a_resize_that_waits() {
    let (mut rig, _, b) = with_a_resize_that_waits();
    let edit = annotated(&pod("a/a-2"), crate::pod::after::AFTER, "c");
    assert_eq!(acts(rig.want(&[edit.clone(), b])), [""; 0]);
    assert!(!shows_resize(&rig), "no source wants it any more");
    // There is room for the resize now.
    rig.want(std::slice::from_ref(&edit));
    assert_eq!(acts(rig.gone("b")), ["retire b"]);
    rig.want(&[edit, pod("c")]);
    assert_eq!(acts(rig.status(&pod("c"), "Running", false)), ["run a/a-2"]);
}

#[test]
fn a_resize_that_waits_takes_the_place_of_an_edit_that_waits_for_a_pod() {
    let (mut rig, larger, b) = with_a_resize_that_waits();
    let edit = annotated(&pod("a/a-2"), crate::pod::after::AFTER, "c");
    rig.want(&[edit, b.clone()]);
    assert_eq!(acts(rig.want(&[larger, b, pod("c")])), ["spawn c, empty", "run c/c-1"]);
    assert!(shows_resize(&rig));
    assert_eq!(acts(rig.status(&pod("c"), "Running", false)), [""; 0], "the edit was undone");
}

#[test]
fn a_resize_that_waits_still_waits_when_its_file_is_renamed() {
    let (mut rig, larger, b) = with_a_resize_that_waits();
    let mut renamed = DesiredPod::clone(&larger);
    renamed.origin.path = "/m/other.yaml".to_owned();
    assert_eq!(acts(rig.want(&[Arc::new(renamed), b])), [""; 0]);
    assert!(shows_resize(&rig));
}

#[test]
fn sizes_that_do_not_fit_wait_and_what_runs_goes_on() {
    let mut rig = Rig::with(small());
    rig.list(&[]);
    let (a, b) = (shaped("a", "cpu: 1"), asks("b", "cpu: 500m"));
    rig.want(&[a.clone(), b.clone()]);
    rig.status(&a, "Running", false);
    let pending = |rig: &Rig| {
        let snapshot = rig.snapshot();
        let mut all = snapshot.pods.iter().flat_map(|p| p.status.conditions.clone().unwrap_or_default());
        let found = all.find(|c| c.type_ == "PodResizePending");
        found.map(|c| format!("{}: {}", c.reason.unwrap_or_default(), c.message.unwrap_or_default()))
    };
    assert!(acts(rig.want(&[shaped("a", "cpu: 1800m"), b.clone()])).is_empty());
    let why = "Deferred: Node didn't have enough resource: cpu, requested: 1800, used: 500, capacity: 2000";
    assert_eq!(pending(&rig).as_deref(), Some(why));
    assert_eq!(rig.shown(), "a Running, b Pending");
    let stale = |rig: &Rig| rig.snapshot().pods.iter().map(|view| view.stale).collect::<Vec<_>>();
    assert_eq!(stale(&rig), [true, false], "it runs from an older version");
    // Another manifest with the same sizes is not logged.
    let lines = rig.want(&[shaped("a", "cpu: 1800m"), annotated(&b, "note", "x")]);
    assert!(!lines.iter().any(|line| line.contains("ResizeDeferred")), "{lines:?}");
    let lines = rig.want(&[shaped("a", "cpu: 3"), b.clone()]);
    assert!(lines.iter().any(|line| line.contains("ResizeInfeasible")), "{lines:?}");
    let why = "Infeasible: Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000";
    assert_eq!(pending(&rig).as_deref(), Some(why));
    // There is room now.
    rig.want(&[shaped("a", "cpu: 1800m"), b]);
    let mut done = acts(rig.want(&[shaped("a", "cpu: 1800m")]));
    done.extend(acts(rig.gone("b")));
    assert!(done.contains(&"run a/a-1".to_owned()), "{done:?}");
    assert_eq!(pending(&rig), None);
}

#[test]
fn a_pod_of_a_server_that_does_not_fit_any_more_runs_on() {
    let mut rig = Rig::with(small());
    rig.list(&[]);
    // Its UID comes from the API server, and it has no shape.
    let one = |asks_for: &str| {
        let mut pod = DesiredPod::clone(&asks("a", asks_for));
        (pod.source, pod.shape) = (Source::Api, None);
        Arc::new(pod)
    };
    let first = one("cpu: 1");
    rig.want(std::slice::from_ref(&first));
    rig.status(&first, "Running", false);
    assert_eq!(acts(rig.want(&[one("cpu: 5")])), [""; 0]);
    assert!(shows_resize(&rig));
    assert_eq!(rig.shown(), "a Running");
}

#[test]
fn what_runs_when_the_daemon_begins_is_not_stopped_for_want_of_room() {
    let mut rig = Rig::with(small());
    rig.list(&["a/a-1/POD running", "a/a-1/app running"]);
    assert_eq!(acts(rig.want(&[asks("a", "cpu: 5"), asks("b", "cpu: 1")])), ["spawn a", "run a/a-1"]);
    assert_eq!(rig.shown(), "a Pending, b Failed OutOfcpu");
}
