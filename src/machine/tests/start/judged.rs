//! Tests of images that are judged before a container is made of them, for pods of sources behind others.

use super::images::with_image;
use super::rig::{Hurt, Rig, s};
use crate::base::limits;
use crate::runtime::DockerError;

/// An image of this configuration is on the node, and a pod of such a source names it.
fn started(policy: &str, configuration: usize) -> Rig {
    let mut rig = Rig::fresh_behind();
    rig.engine.add_image("web:1", true);
    rig.engine.set_image_configuration("web:1", configuration);
    rig.run(&with_image("web:1", policy));
    rig.pass(s(5));
    rig
}

/// The images of the containers that were made.
fn made_of(rig: &Rig) -> Vec<String> {
    let made = rig.engine.containers().filter(|container| container.name.starts_with("k8s_app_"));
    made.map(|container| container.body.image.clone()).collect()
}

/// It was seen between its pull and the judgement of the pull, and was used by twenty pods from then on.
#[test]
fn an_image_of_a_large_configuration_that_is_on_the_node_is_refused() {
    for (configuration, has) in [(20 << 20, "more than can be read"), (300 << 10, "300.0 KiB")] {
        for policy in ["IfNotPresent", "Never", "Always"] {
            let mut rig = started(policy, configuration);
            assert_eq!(rig.status(), "Pending, app: ImageInspectError", "{policy}");
            let why =
                format!("the configuration of image web:1 (labels, variables, commands) has {has}, and");
            assert!(rig.waits("app").contains(&why), "{policy}: {}", rig.waits("app"));
            rig.pass(s(100));
            assert_eq!(made_of(&rig), [""; 0], "{policy}");
            let asked = rig.times("image").len();
            assert!(asked < 20, "{policy}: {asked}");
            // The tag names another image by now.
            rig.engine.set_image_configuration("web:1", limits::IMAGE_CONFIGURATION);
            rig.pass(s(40));
            assert_eq!(rig.status(), "Running, app: running", "{policy}");
        }
    }
}

#[test]
fn a_judged_image_is_used_by_its_id_and_judged_for_each_attempt() {
    let mut rig = started("IfNotPresent", 100);
    let id = rig.engine.add_image("web:1", true);
    assert_eq!((rig.status().as_str(), made_of(&rig)), ("Running, app: running", vec![id.clone()]));
    rig.engine.set_image_configuration("web:1", 300 << 10);
    let (app, now) = (rig.id("app#0"), rig.now());
    rig.engine.crash(&app, 1, now);
    rig.pass(s(60));
    assert_eq!(made_of(&rig), [id]);
}

/// A late answer counted as a small configuration.
#[test]
fn an_image_that_is_not_judged_yet_is_not_used() {
    let mut rig = Rig::fresh_behind();
    rig.engine.add_image("web:1", true);
    rig.hurt("image", 3, Hurt::Says(DockerError::Timeout("GET /images/web:1/json".into())));
    rig.run(&with_image("web:1", "IfNotPresent"));
    rig.pass(s(20));
    assert_eq!((rig.status().as_str(), made_of(&rig).len()), ("Pending, app: ImageInspectError", 0));
    rig.pass(s(60));
    assert_eq!((rig.status().as_str(), made_of(&rig).len()), ("Running, app: running", 1));
}

#[test]
fn other_pods_may_use_what_the_operator_has_loaded() {
    let mut rig = Rig::fresh();
    rig.engine.add_image("web:1", true);
    rig.engine.set_image_configuration("web:1", 20 << 20);
    rig.run(&with_image("web:1", "IfNotPresent"));
    rig.pass(s(5));
    assert_eq!((rig.status().as_str(), made_of(&rig)), ("Running, app: running", vec!["web:1".to_owned()]));
}

#[test]
fn an_image_that_is_missing_is_pulled_and_then_judged() {
    let mut rig = Rig::fresh_behind();
    rig.run(&with_image("web:1", "IfNotPresent"));
    rig.pass(s(5));
    assert_eq!((rig.pulls.len(), rig.status().as_str()), (1, "Running, app: running"));
    let id = rig.engine.add_image("web:1", true);
    assert_eq!(made_of(&rig), [id]);
}
