//! Tests that containers wait for missing local objects, and start as soon as these exist.

use std::sync::Arc;

use proptest::prelude::*;

use super::rig::{Rig, pod, s};
use crate::machine::Wish;
use crate::pod::DesiredPod;
use crate::pod::object::testing::{config_map, secret, snapshot};
use crate::pod::object::{LocalObject, ObjectKey, SERVICES};

fn reader() -> Arc<DesiredPod> {
    pod("{containers: [{name: app, env: [{name: K, valueFrom: {configMapKeyRef: {name: c, key: k}}}]}]}")
}

fn give(rig: &mut Rig, text: &str) {
    rig.give(snapshot(text));
}

fn env(rig: &Rig, container: &str) -> Vec<String> {
    let id = rig.id(container);
    rig.engine.get(&id).unwrap().body.env.clone()
}

#[test]
fn it_waits_without_trying_and_starts_at_once() {
    let mut rig = Rig::fresh();
    rig.run(&reader());
    rig.pass(s(5));
    assert_eq!(rig.take_acts(), ["create POD#0", "start POD#0"], "the sandbox is made meanwhile");
    assert_eq!(rig.waits("app"), "CreateContainerConfigError: configmap \"c\" not found");
    assert_eq!(rig.wake, None, "nothing is tried again by time");
    give(&mut rig, &config_map("c", "{other: v}"));
    rig.pass(s(5));
    assert_eq!(rig.take_acts(), [""; 0]);
    let why = "CreateContainerConfigError: couldn't find key k in ConfigMap default/c";
    assert_eq!(rig.waits("app"), why);
    give(&mut rig, &config_map("c", "{k: v}"));
    rig.pass(super::rig::ms(200));
    assert_eq!(rig.take_acts(), ["create app#0", "start app#0"]);
    assert_eq!(rig.status(), "Running, app: running");
    assert_eq!(env(&rig, "app#0"), ["K=v"]);
}

#[test]
fn objects_that_come_with_the_pod_are_used_for_its_first_start() {
    let mut rig = Rig::fresh();
    rig.slot.objects(snapshot(&config_map("c", "{k: v}")));
    rig.run(&reader());
    rig.pass(s(1));
    assert_eq!(rig.status(), "Running, app: running");
    assert!(rig.log.iter().all(|(_, _, line)| !line.contains("CreateContainerConfigError")), "{:?}", rig.log);
}

#[test]
fn a_change_restarts_nothing_and_counts_at_the_next_start() {
    let mut rig = Rig::fresh();
    rig.slot.objects(snapshot(&config_map("c", "{k: v}")));
    rig.run(&reader());
    rig.pass(s(20));
    rig.take_acts();
    give(&mut rig, &config_map("c", "{k: w}"));
    rig.pass(s(20));
    assert_eq!(rig.take_acts(), [""; 0]);
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.engine.crash(&id, 1, now);
    rig.pass(s(20));
    assert_eq!(env(&rig, "app#1"), ["K=w"]);
    // The object is removed while the container runs: the container stays.
    give(&mut rig, "{apiVersion: v1, kind: List, items: []}");
    rig.take_acts();
    rig.pass(s(600));
    assert_eq!(rig.take_acts(), [""; 0]);
    assert_eq!(rig.status(), "Running, app: running");
    // The object is missing at the next start: the container waits.
    let (id, now) = (rig.id("app#1"), rig.now());
    rig.engine.crash(&id, 1, now);
    rig.pass(s(900));
    assert_eq!(rig.waits("app"), "CreateContainerConfigError: configmap \"c\" not found");
    give(&mut rig, &config_map("c", "{k: z}"));
    rig.pass(s(1));
    assert_eq!(env(&rig, "app#2"), ["K=z"]);
}

#[test]
fn an_init_container_that_waits_is_not_overtaken() {
    let mut rig = Rig::fresh();
    rig.run(&pod(
        "{initContainers: [{name: one, envFrom: [{secretRef: {name: s}}]}, {name: two}], containers: [{name: app}]}",
    ));
    rig.pass(s(5));
    assert_eq!(rig.take_acts(), ["create POD#0", "start POD#0"]);
    give(&mut rig, &secret("s", "{k: v}"));
    rig.pass(s(5));
    assert_eq!(rig.take_acts()[..2], ["create one#0", "start one#0"]);
}

#[test]
fn one_container_waits_and_the_other_runs() {
    let mut rig = Rig::fresh();
    rig.run(&pod("{containers: [{name: app, envFrom: [{secretRef: {name: s}}]}, {name: side}]}"));
    rig.pass(s(5));
    assert_eq!(rig.take_acts(), ["create POD#0", "start POD#0", "create side#0", "start side#0"]);
}

/// An event of a pod that needs key `k` of ConfigMap `c`.
#[derive(Debug, Clone)]
enum Happening {
    /// The key gets this value, or the object is removed.
    Give(Option<u8>),
    Crash,
    /// The daemon is killed; the next one gets the same objects.
    Killed,
    Pass(u64),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        prop::option::of(0..3u8).prop_map(Happening::Give),
        Just(Happening::Crash),
        Just(Happening::Killed),
        (0..3000u64).prop_map(Happening::Pass),
    ];
    prop::collection::vec(one, 1..12)
}

fn text(value: Option<u8>) -> String {
    value.map_or("{apiVersion: v1, kind: List, items: []}".into(), |v| {
        config_map("c", &format!("{{k: 'v{v}'}}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn objects_that_come_change_and_vanish_at_any_time(story in happenings(), last in 0..3u8) {
        let mut rig = Rig::fresh();
        let mut value = None;
        rig.run(&reader());
        for happening in &story {
            match happening {
                Happening::Give(new) => {
                    value = *new;
                    give(&mut rig, &text(value));
                }
                Happening::Crash => {
                    let app = rig.running().into_iter().find(|name| name.starts_with("app"));
                    let (id, now) = (app.map(|name| rig.id(&name)), rig.now());
                    id.iter().for_each(|id| rig.engine.crash(id, 1, now));
                }
                Happening::Killed => {
                    rig = rig.reborn();
                    give(&mut rig, &text(value));
                    rig.run(&reader());
                }
                Happening::Pass(millis) => rig.pass(super::rig::ms(*millis)),
            }
            // No container is ever made without the value.
            let made = rig.engine.containers().filter(|c| c.name.contains("app"));
            prop_assert!(made.into_iter().all(|c| c.body.env.len() == 1));
        }
        give(&mut rig, &text(Some(last)));
        rig.pass(s(400));
        prop_assert_eq!(rig.status(), "Running, app: running", "{:?}", story);
        // The next start uses the newest value.
        let app = rig.running().into_iter().find(|name| name.starts_with("app")).unwrap();
        let (id, now) = (rig.id(&app), rig.now());
        rig.engine.crash(&id, 1, now);
        rig.pass(s(400));
        let app = rig.running().into_iter().find(|name| name.starts_with("app")).unwrap();
        prop_assert_eq!(env(&rig, &app), [format!("K=v{last}")]);
    }
}

#[test]
fn an_edit_without_the_reference_starts_it() {
    let mut rig = Rig::fresh();
    rig.run(&reader());
    rig.pass(s(5));
    rig.wish(Wish::Run(pod("{containers: [{name: app}]}")));
    rig.pass(s(5));
    assert_eq!(rig.status(), "Running, app: running");
}

/// It starts with the variables that fit, and an event says so.
#[test]
fn services_that_are_left_out_of_its_environment_are_told() {
    let pod = pod("{containers: [{name: app, envFrom: [{configMapRef: {name: podkeeper-services-}}]}]}");
    let mut rig = Rig::fresh();
    // `1 of 2 Services …`
    let made = snapshot(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: made}, data: {A_PORT: tcp://1:2},
          binaryData: {left-out: MSBvZiAyIFNlcnZpY2Vz}}",
    );
    let named = |(key, object): (&ObjectKey, &Arc<LocalObject>)| {
        let key = ObjectKey { name: SERVICES.to_owned(), ..key.clone() };
        (key.clone(), Arc::new(LocalObject { key, ..LocalObject::clone(object) }))
    };
    rig.give(Arc::new(made.iter().map(named).collect()));
    rig.run(&pod);
    rig.pass(s(5));
    assert_eq!(rig.status(), "Running, app: running");
    assert_eq!(env(&rig, "app#0"), ["A_PORT=tcp://1:2"]);
    let told: Vec<String> = rig.ring.all().iter().map(|kept| kept.event.message.clone()).collect();
    assert!(told.contains(&"1 of 2 Services".to_owned()), "{told:?}");
}
