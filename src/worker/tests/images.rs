//! Images: policies, pulls, back-off, copies that are there already, the sandbox's own.

use std::sync::Arc;

use super::rig::{PAUSE, Rig, app, pod, s};
use crate::pod::DesiredPod;
use crate::runtime::fake::{Pull, State as Engine};
use crate::worker::PullRequest;

fn with_image(image: &str, policy: &str) -> Arc<DesiredPod> {
    pod(&format!("{{containers: [{{name: app, image: {image}, imagePullPolicy: {policy}}}]}}"))
}

fn pull_times(rig: &Rig) -> Vec<u64> {
    rig.pulls.iter().map(|(at, _)| at.0.as_secs()).collect()
}

#[test]
fn policies_with_and_without_the_image() {
    let check = |policy: &str, there: bool, pulls: usize, status: &str| {
        let mut rig = Rig::fresh();
        if there {
            rig.engine.add_image("web:1", true);
        }
        rig.run(&with_image("web:1", policy));
        rig.pass(s(5));
        assert_eq!(rig.pulls.len(), pulls, "{policy} {there}");
        assert_eq!(rig.status(), status, "{policy} {there}");
    };
    check("Always", true, 1, "Running, app: running");
    check("Always", false, 1, "Running, app: running");
    check("IfNotPresent", true, 0, "Running, app: running");
    check("IfNotPresent", false, 1, "Running, app: running");
    check("Never", true, 0, "Running, app: running");
    check("Never", false, 0, "Pending, app: ErrImageNeverPull");
}

#[test]
fn always_asks_again_for_each_attempt() {
    let mut rig = Rig::up(&with_image("busybox", "Always"));
    for attempt in 1..4 {
        let (id, now) = (rig.id(&format!("app#{}", attempt - 1)), rig.now());
        rig.engine.crash(&id, 1, now);
        rig.pass(s(60));
        assert_eq!(rig.pulls.len(), attempt + 1);
    }
}

#[test]
fn a_pull_that_fails_is_err_image_pull_and_then_back_off() {
    let mut rig = Rig::fresh();
    rig.run(&with_image("no-such:1", "IfNotPresent"));
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..400 {
        rig.pass(s(1));
        let status = rig.status();
        if seen.last() != Some(&status) {
            seen.push(status);
        }
    }
    assert!(seen.len() > 4, "{seen:?}");
    let told: Vec<&str> = seen.iter().skip(1).map(|status| status.rsplit(' ').next().unwrap()).collect();
    let mut told: Vec<&str> = told.into_iter().filter(|reason| *reason != "ContainerCreating").collect();
    told.dedup();
    assert_eq!(
        told.get(..4).unwrap(),
        ["ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"]
    );
    // A second of pulling, and 10, 20, 40, 80, 160 s of patience.
    assert_eq!(pull_times(&rig), [0, 11, 32, 73, 154, 315]);
    rig.pass(s(80));
    let back_off = "ImagePullBackOff: Back-off pulling image \"no-such:1\": ErrImagePull: pull access denied";
    assert!(rig.waits("app").starts_with(back_off), "{}", rig.waits("app"));
    let lines = rig.log.len();
    assert!(lines < 40, "{lines} lines: {:?}", rig.log);
    // Pushed at last.
    rig.engine.script_pull("no-such:1", Pull::Takes(s(0)));
    rig.pass(s(400));
    assert_eq!(rig.status(), "Running, app: running");
}

/// The registry cannot be reached, and the copy on this machine will do (k3s-io/k3s#8781).
#[test]
fn k8781_always_takes_the_local_copy_when_the_registry_cannot_be_reached() {
    let mut rig = Rig::fresh();
    rig.engine.add_image("web:1", true);
    rig.engine.script_pull("web:1", Pull::Fails("dial tcp: no route to host".into()));
    rig.run(&with_image("web:1", "Always"));
    rig.pass(s(5));
    assert_eq!(rig.status(), "Running, app: running");
    assert!(rig.log.iter().any(|(_, _, l)| l.contains("the copy on this machine is used")), "{:?}", rig.log);
}

/// Without a network, an image that somebody loads by hand is found.
#[test]
fn k8781_an_image_loaded_by_hand_is_found_without_a_registry() {
    let mut rig = Rig::fresh();
    rig.engine.script_pull("web:1", Pull::Fails("dial tcp: no route to host".into()));
    rig.run(&with_image("web:1", "IfNotPresent"));
    rig.pass(s(5));
    assert_eq!(rig.status(), "Pending, app: ErrImagePull");
    rig.engine.add_image("web:1", true);
    rig.pass(s(30));
    assert_eq!(rig.status(), "Running, app: running", "{:?}", rig.log);
}

/// The image's name is mended under the same UID: the one that is there needs no pull.
#[test]
fn an_edit_to_an_image_that_is_there_needs_no_pull() {
    let mut rig = Rig::fresh();
    rig.engine.add_image("web:1", true);
    rig.run(&with_image("no-such:1", "IfNotPresent"));
    rig.pass(s(5));
    rig.run(&with_image("web:1", "IfNotPresent"));
    rig.pass(s(3));
    assert_eq!(rig.status(), "Running, app: running");
    assert_eq!(rig.pulls.len(), 1, "{:?}", rig.pulls);
}

/// And the other way round: under policy Always, the new image is asked for whatever was asked before.
#[test]
fn an_edit_under_policy_always_pulls_the_new_image() {
    let mut rig = Rig::fresh();
    rig.engine.add_image("web:1", true);
    rig.hurt("create app", u32::MAX, super::rig::Hurt::Says(super::rig::no_space()));
    rig.run(&with_image("busybox", "Always"));
    rig.pass(s(5));
    rig.heal();
    rig.run(&with_image("web:1", "Always"));
    rig.pass(s(40));
    assert_eq!(rig.status(), "Running, app: running");
    let images: Vec<&str> = rig.pulls.iter().map(|(_, p)| p.image.as_str()).collect();
    assert_eq!(images, ["busybox", "web:1"]);
}

#[test]
fn two_containers_of_one_image_share_a_pull() {
    let mut rig = Rig::fresh();
    rig.run(&pod("{containers: [{name: a, image: 'web:1'}, {name: b, image: 'web:1'}]}"));
    rig.pass(s(10));
    assert_eq!(rig.pulls.len(), 1);
    assert_eq!(rig.running().len(), 3);
}

#[test]
fn one_image_that_is_missing_does_not_hold_up_the_others() {
    let mut rig = Rig::fresh();
    rig.run(&pod("{containers: [{name: a, image: 'no-such:1'}, {name: b}]}"));
    rig.pass(s(5));
    assert_eq!(rig.status(), "Pending, a: ErrImagePull, b: running");
}

#[test]
fn k11340_the_sandbox_image_is_loaded_when_it_is_missing() {
    let mut rig = Rig::fresh();
    rig.engine = Engine::new(1);
    rig.engine.add_image("busybox", true);
    rig.run(&app());
    rig.pass(s(10));
    let wanted = PullRequest { image: PAUSE.into(), builtin: true, local_copy_will_do: false };
    assert_eq!(rig.pulls.iter().map(|(_, p)| p).collect::<Vec<_>>(), [&wanted]);
    assert_eq!(rig.status(), "Running, app: running");
}

#[test]
fn never_finds_the_image_when_somebody_brings_it() {
    let mut rig = Rig::fresh();
    rig.run(&with_image("web:1", "Never"));
    rig.pass(s(600));
    let tries = rig.times("create app#0").len();
    assert!((15..40).contains(&tries), "{tries} tries in ten minutes");
    assert_eq!(rig.logged(log::Level::Warn).len(), 1);
    rig.engine.add_image("web:1", true);
    rig.pass(s(31));
    assert_eq!(rig.status(), "Running, app: running");
}
