//! Docker's events of images and containers, as the collector takes them.

use super::*;
use crate::runtime::event_stream::EventAction;

fn told(action: EventAction, id: &str, name: &str) -> DockerEvent {
    let labels = [("name".to_owned(), name.to_owned())].into();
    DockerEvent { id: id.into(), action, labels, time_nano: 0 }
}

/// Regression: such an image counted as new when the disk was full, and a pod was evicted.
#[test]
fn an_image_that_was_pulled_by_hand_is_old_when_the_disk_is_full() {
    let rig = Rig::new("pulled-by-hand", &[]);
    rig.fake.with(|state| state.add_image("a:1", true));
    rig.collector.heard_of_image(Some(&told(EventAction::Pull, "a:1", "a")));
    rig.pass(120);
    rig.fake.with(|state| state.add_image("b:1", true));
    rig.collector.heard_of_image(Some(&told(EventAction::Pull, "b:1", "b")));
    assert_eq!(rig.collect(Order::All).images, ["a:1"], "the other is young");
}

/// The events of pods wait while an id is asked for.
#[test]
fn a_docker_that_tells_no_id_in_time_is_not_asked_for_a_while() {
    let rig = Rig::new("no-id", &["a:1", "b:1"]);
    rig.faults(Fault::Hang);
    rig.collector.heard("a:1");
    rig.fake.with(|state| state.faults = FaultPlan::none());
    rig.collector.heard("b:1");
    let is_known = || rig.collector.records().id_of("b:1").is_some();
    assert!(!is_known(), "it was asked again at once");
    // What came meanwhile is as old as the event all the same.
    rig.fake.with(|state| state.add_image("c:1", true));
    rig.collector.heard_of_image(Some(&told(EventAction::Pull, "c:1", "c")));
    rig.pass(limits::IMAGE_NOT_ASKED.as_secs() + 1);
    rig.collector.heard("b:1");
    assert!(is_known());
    rig.pass(60);
    assert!(rig.collect(Order::All).images.contains(&"c:1".to_owned()));
}

/// Regression: another image had got the name of the pod's when the disk was full.
#[test]
fn a_container_is_of_the_image_that_had_the_name() {
    let rig = Rig::new("name-moved", &[]);
    let old = rig.fake.with(|state| state.add_image("a:1", true));
    rig.collector.heard("a:1");
    rig.pass(120);
    let new = rig.fake.with(|state| state.replace_image("a:1", ""));
    rig.collector.heard_of_image(Some(&told(EventAction::Tag, &new, "a:1")));
    rig.collect(Order::All);
    let left = rig.fake.with(|state| state.image_ids());
    assert!(left.contains(&new) && !left.contains(&old), "{left:?}");
    // Podman says that an image is removed when it loses one of its names.
    let plain = new.strip_prefix("sha256:").unwrap();
    rig.collector.heard_of_image(Some(&told(EventAction::Destroy, plain, "a:2")));
    assert!(rig.collector.records().get(&new).is_some());
    rig.fake.with(|state| state.remove_image("a:1"));
    rig.collector.heard_of_image(Some(&told(EventAction::Destroy, plain, "a:1")));
    assert!(rig.collector.records().get(&new).is_none());
}
