//! Workers are told of the local objects that their pods refer to: before the pod, and when they change.

use std::sync::Arc;

use super::rig::{Rig, acts, pod, pod_of};
use crate::object::testing::{config_map, secret};
use crate::pod::DesiredPod;

fn reader(words: &str, map: &str) -> Arc<DesiredPod> {
    pod_of(words, &format!("{{containers: [{{name: app, envFrom: [{{configMapRef: {{name: {map}}}}}]}}]}}"))
}

#[test]
fn objects_of_a_set_are_known_before_its_pods() {
    let mut rig = Rig::listed();
    let told =
        rig.want_objects(&[reader("a", "c"), pod("b")], &(config_map("c", "{k: v}") + &secret("s", "{}")));
    assert_eq!(acts(told), ["spawn a, empty", "give a [c]", "run a/a-1", "spawn b, empty", "run b/b-1"]);
}

#[test]
fn objects_that_came_before_docker_was_listed_are_known_too() {
    let mut rig = Rig::new();
    assert_eq!(acts(rig.want_objects(&[reader("a", "c")], &config_map("c", "{k: v}"))), [""; 0]);
    assert_eq!(acts(rig.list(&["a/a-1/app running"])), ["spawn a", "give a [c]", "run a/a-1"]);
}

#[test]
fn who_refers_to_what_changed_is_told_and_nobody_else() {
    let mut rig = Rig::listed();
    let pods = [reader("a", "c"), reader("b", "d"), pod("p")];
    assert_eq!(
        acts(rig.want_objects(&pods, "")),
        ["spawn a, empty", "run a/a-1", "spawn b, empty", "run b/b-1", "spawn p, empty", "run p/p-1"]
    );
    let c = config_map("c", "{k: v}");
    assert_eq!(rig.want_objects(&pods, &c), ["give a [c]"]);
    assert_eq!(rig.want_objects(&pods, &c), [""; 0], "nothing new");
    let both = format!("{}{}", config_map("d", "{}"), config_map("c", "{k: v}"));
    assert_eq!(rig.want_objects(&pods, &both), ["give b [d]"], "c only moved inside its file");
    let changed = format!("{}{}", config_map("d", "{}"), config_map("c", "{k: w}"));
    assert_eq!(rig.want_objects(&pods, &changed), ["give a [c]"]);
    assert_eq!(rig.want_objects(&pods, &config_map("d", "{}")), ["give a []"], "it is gone");
}

#[test]
fn a_source_that_fails_keeps_its_objects() {
    let mut rig = Rig::listed();
    rig.want_objects(&[reader("a", "c")], &config_map("c", "{k: v}"));
    assert_eq!(acts(rig.fail("no such directory")), [""; 0]);
}

#[test]
fn an_edited_pod_gets_what_it_refers_to_now() {
    let mut rig = Rig::listed();
    let both = config_map("c", "{}") + &config_map("d", "{}");
    rig.want_objects(&[reader("a", "c")], &both);
    assert_eq!(acts(rig.want_objects(&[reader("a", "d")], &both)), ["give a [d]", "run a/a-1"]);
    assert_eq!(acts(rig.want_objects(&[pod("a")], &both)), ["give a []", "run a/a-1"]);
}
