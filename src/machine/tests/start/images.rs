//! Tests of images: policies, pulls, back-off, local copies, the sandbox's image.

use std::sync::Arc;

use super::rig::{PAUSE, Rig, app, ms, pod, s};
use crate::machine::output::Report;
use crate::machine::{Hint, PullRequest};
use crate::pod::{DesiredPod, Source};
use crate::runtime::fake::{Pull, State as Engine};

pub(super) fn with_image(image: &str, policy: &str) -> Arc<DesiredPod> {
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
    // A second of pulling, and waits of 10, 20, 40, 80, 160 s.
    assert_eq!(pull_times(&rig), [0, 11, 32, 73, 154, 315]);
    rig.pass(s(80));
    let back_off = "ImagePullBackOff: Back-off pulling image \"no-such:1\": ErrImagePull: pull access denied";
    assert!(rig.waits("app").starts_with(back_off), "{}", rig.waits("app"));
    let lines = rig.log.len();
    assert!(lines < 40, "{lines} lines: {:?}", rig.log);
    // The image is in the registry at last.
    rig.engine.script_pull("no-such:1", Pull::Takes(s(0)));
    rig.pass(s(400));
    assert_eq!(rig.status(), "Running, app: running");
}

/// The registry cannot be reached, and the local copy is used (k3s-io/k3s#8781).
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

/// Without a network, an image that is loaded by hand is found.
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

/// The image's name is corrected under the same UID: an existing image needs no pull.
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

/// The reverse: under policy Always the new image is pulled, whatever was pulled before.
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

/// An image that keeps its pod from running is inspected again, and the container is made from the inspected one.
#[test]
fn an_image_that_is_mended_under_its_name_is_found() {
    for policy in ["IfNotPresent", "Always"] {
        let mut rig = Rig::fresh();
        rig.engine.add_image("web:1", true);
        rig.run(&pod(&format!(
            "{{containers: [{{name: app, image: 'web:1', imagePullPolicy: {policy}, \
             securityContext: {{runAsNonRoot: true}}}}]}}"
        )));
        rig.pass(s(120));
        assert_eq!(rig.status(), "Pending, app: CreateContainerConfigError");
        assert_eq!(rig.pulls.len() > 3, policy == "Always", "{:?}", rig.pulls);
        let mended = rig.engine.replace_image("web:1", "7");
        rig.pass(s(40));
        assert_eq!(rig.status(), "Running, app: running");
        // A tag that moves after the inspect changes nothing.
        assert_eq!(rig.engine.get(&rig.id("app#0")).unwrap().body.image, mended);
        assert_eq!(rig.last_status().container_statuses.unwrap()[0].image, "web:1");
    }
}

/// The image is removed between the inspect and the create.
#[test]
fn an_image_that_goes_after_it_was_looked_at_is_asked_for_again() {
    let mut rig = Rig::fresh();
    let first = rig.engine.add_image("web:1", true);
    let spec = "{containers: [{name: app, image: 'web:1', securityContext: {runAsGroup: 7}}]}";
    rig.hurt("create app", 1, super::rig::Hurt::Says(super::rig::no_space()));
    rig.run(&pod(spec));
    rig.pass_until("create app#0");
    rig.engine.remove_image("web:1");
    rig.pass(s(60));
    assert_eq!(rig.status(), "Running, app: running");
    let made = rig.engine.get(&rig.id("app#0")).unwrap().body.image.clone();
    assert!(made != first && made.starts_with("sha256:"), "{made}");
}

/// Unused images are collected, even one that was just pulled and has no container yet.
#[test]
fn an_image_that_goes_between_its_pull_and_the_create_is_pulled_again() {
    let mut rig = Rig::fresh();
    // The first create comes after the pull, and fails for another reason.
    rig.hurt("create app", 1, super::rig::Hurt::Says(super::rig::no_space()));
    rig.run(&with_image("web:1", "Always"));
    rig.pass_until("create app#0");
    assert_eq!(rig.pulls.len(), 1);
    rig.engine.remove_image("web:1");
    rig.pass(s(120));
    assert_eq!(rig.status(), "Running, app: running");
    assert_eq!(rig.pulls.len(), 2);
}

/// SIGHUP: the operator has repaired the registry, or loaded the image.
#[test]
fn asked_to_try_again_no_back_off_is_waited_for() {
    for (policy, waits) in [("IfNotPresent", "ImagePullBackOff"), ("Never", "ErrImageNeverPull")] {
        let mut rig = Rig::fresh();
        rig.engine.script_pull("web:1", Pull::Fails("manifest unknown".into()));
        rig.run(&with_image("web:1", policy));
        rig.pass(s(1450));
        assert_eq!(rig.status(), format!("Pending, app: {waits}"));
        rig.engine.add_image("web:1", true);
        rig.engine.script_pull("web:1", Pull::Takes(s(0)));
        rig.hint(Hint::Retry);
        rig.pass(s(3));
        assert_eq!(rig.status(), "Running, app: running", "{policy}");
    }
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
    let wanted = PullRequest {
        image: PAUSE.into(),
        builtin: true,
        local_copy_will_do: false,
        credentials: Vec::new(),
        source: Source::File,
    };
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
    // The kubelet's two events are logged, and again at ten of each.
    assert_eq!(rig.logged(log::Level::Warn).len(), 4, "{:?}", rig.log);
    rig.engine.add_image("web:1", true);
    rig.pass(s(31));
    assert_eq!(rig.status(), "Running, app: running");
}

#[test]
fn a_name_that_is_no_reference_is_told_before_anybody_is_asked() {
    for policy in ["Always", "IfNotPresent", "Never"] {
        let mut rig = Rig::fresh();
        rig.run(&with_image("'{{image}}'", policy));
        rig.pass(s(600));
        assert_eq!(rig.status(), "Pending, app: InvalidImageName");
        assert!(rig.pulls.is_empty() && rig.times("create app#0").is_empty());
        let told = rig.logged(log::Level::Warn);
        let words = "Failed to apply default image tag \"{{image}}\": couldn't parse image name \
                     \"{{image}}\": invalid reference format";
        let error = "pod default/web-node: container app: Failed: Error: InvalidImageName";
        assert!(told.len() == 2 && told[0].ends_with(words) && told[1] == error, "{told:?}");
        rig.run(&with_image("busybox", "IfNotPresent"));
        rig.pass(s(3));
        assert_eq!(rig.status(), "Running, app: running");
    }
}

/// The message of a pull, in case Docker is stricter than podkeeper.
#[test]
fn what_a_failed_pull_is_called() {
    let check = |why: &str, first: &str, then: &str| {
        let mut rig = Rig::fresh();
        rig.engine.script_pull("web:1", Pull::Fails(why.into()));
        rig.run(&with_image("web:1", "IfNotPresent"));
        rig.pass(s(2));
        assert_eq!(rig.status(), format!("Pending, app: {first}"), "{why}");
        rig.pass(s(6));
        let message = rig.machine.members.waiting()["app"].message.clone();
        assert_eq!(
            (rig.machine.members.waiting()["app"].reason.as_str(), message.as_str()),
            ("ImagePullBackOff", then)
        );
    };
    check(
        "manifest unknown",
        "ErrImagePull",
        "Back-off pulling image \"web:1\": ErrImagePull: manifest unknown",
    );
    check(
        "received unexpected HTTP status: 503 Service Unavailable",
        "RegistryUnavailable",
        "Back-off pulling image \"web:1\": RegistryUnavailable: image pull failed for web:1 because the registry \
         is unavailable: received unexpected HTTP status: 503 Service Unavailable",
    );
    check(
        "invalid reference format: of another kind",
        "InvalidImageName",
        "Back-off pulling image \"web:1\": InvalidImageName: Failed to apply default image tag \"web:1\": couldn't \
         parse image name \"web:1\": invalid reference format: of another kind",
    );
}

#[test]
fn how_far_a_pull_is_stands_in_the_status() {
    let mut rig = Rig::fresh();
    rig.run(&pod("{containers: [{name: app, image: 'web:1'}, {name: other}]}"));
    rig.pass(ms(500));
    let words = "1.0 MiB of 2.0 MiB, 1 of 2 layers ready";
    rig.slot.pulling("web:1".into(), words.into());
    rig.slot.pulling("busybox".into(), "of another one".into());
    rig.step();
    let waiting = rig.machine.members.waiting()["app"].clone();
    assert_eq!(waiting.reason.as_str(), "ContainerCreating");
    assert_eq!(waiting.message, format!("pulling image \"web:1\": {words}"));
    assert!(!rig.machine.members.waiting().contains_key("other"));
    let logged = rig.log.len();
    rig.slot.pulling("web:1".into(), "more".into());
    rig.step();
    assert_eq!(rig.log.len(), logged, "it is not logged");
    rig.pass(s(3));
    assert_eq!(rig.status(), "Running, app: running, other: running");
}

/// k3s-io/k3s#8781: an image that came from an archive is used at once, whatever failed before.
#[test]
fn k8781_an_image_that_came_ends_every_wait() {
    let came = |rig: &mut Rig| {
        rig.engine.add_image("no-such:1", true);
        rig.hint(Hint::Images(vec!["docker.io/library/no-such:1".into()]));
        rig.pass(ms(500));
    };
    // In the longest back-off of a pull, or of creates, if pulls are forbidden.
    for (policy, waits) in [("IfNotPresent", "ImagePullBackOff"), ("Never", "ErrImageNeverPull")] {
        let mut rig = Rig::fresh();
        rig.run(&with_image("no-such:1", policy));
        rig.pass(s(1450));
        assert_eq!(rig.status(), format!("Pending, app: {waits}"));
        came(&mut rig);
        assert_eq!(rig.status(), "Running, app: running", "{policy}");
    }
    // While a pull of it hangs, whose late end does no harm.
    let mut rig = Rig::fresh();
    rig.run(&with_image("no-such:1", "IfNotPresent"));
    rig.pass(ms(500));
    assert_eq!((rig.pulls.len(), rig.status().as_str()), (1, "Pending, app: ContainerCreating"));
    came(&mut rig);
    assert_eq!(rig.status(), "Running, app: running");
    rig.pass(s(100));
    assert_eq!((rig.pulls.len(), rig.status().as_str()), (1, "Running, app: running"));
    // With policy Always the registry is asked first, and at once.
    let mut rig = Rig::fresh();
    rig.engine.script_pull("no-such:1", Pull::Fails("dial tcp: no route to host".into()));
    rig.run(&with_image("no-such:1", "Always"));
    rig.pass(s(1450));
    came(&mut rig);
    rig.pass(s(2));
    assert_eq!(rig.status(), "Running, app: running");
    // Another image changes nothing.
    let mut rig = Rig::fresh();
    rig.run(&with_image("no-such:1", "IfNotPresent"));
    rig.pass(s(20));
    let pulls = rig.pulls.len();
    rig.hint(Hint::Images(vec!["docker.io/library/no-such:2".into()]));
    rig.pass(s(1));
    assert_eq!(rig.pulls.len(), pulls);
}

/// When the registry refuses slowly, a pod is in the state of pulling most of the time.
#[test]
fn why_a_pull_failed_is_told_while_it_is_tried_again() {
    let mut rig = Rig::fresh();
    rig.engine.script_pull("no-such:1", Pull::Fails("dial tcp: no route to host".into()));
    rig.run(&with_image("no-such:1", "IfNotPresent"));
    rig.pass(s(600));
    let statuses = rig.reports.iter().filter_map(|report| match report {
        Report::Status { status, .. } => status.container_statuses.clone(),
        _ => None,
    });
    let reasons: Vec<String> = statuses
        .filter_map(|all| all.first()?.state.as_ref()?.waiting.as_ref()?.reason.clone())
        .skip_while(|reason| reason != "ErrImagePull")
        .collect();
    assert!(rig.pulls.len() > 2 && reasons.len() > 2, "{reasons:?}");
    assert!(reasons.iter().all(|reason| reason != "ContainerCreating"), "{reasons:?}");
}
