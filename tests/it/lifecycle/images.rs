//! Images: pull policies, and registries that do not answer.

use crate::harness::pods::{IMAGE, Pod};
use crate::harness::{Node, tag_image, untag_image};

/// A registry that does not exist: the port is reserved.
const NOWHERE: &str = "127.0.0.1:1/nobody/nothing:1";

fn with_image(policy: &str, image: &str) -> String {
    let pod = Pod::new("web").set("/spec/containers/0/image", image);
    pod.set("/spec/containers/0/imagePullPolicy", policy).text()
}

#[test]
fn an_image_that_is_missing_and_never_pulled_is_told() {
    let node = Node::start();
    node.write("web.yaml", with_image("Never", "nothing.invalid/of-the-kind:1"));
    node.wait_until("it is told", || node.waits_for("web", "app") == "ErrImageNeverPull");
    assert_eq!(node.phase("web"), "Pending");
    let described = node.says(&["describe", "pod", "web"]);
    assert!(
        described.contains("nothing.invalid/of-the-kind:1") && described.contains("Never"),
        "{described}"
    );
}

#[test]
fn an_image_that_cannot_be_pulled_is_told_and_backed_off() {
    for policy in ["IfNotPresent", "Always"] {
        let node = Node::start();
        node.write("web.yaml", with_image(policy, NOWHERE));
        // The first reason is soon followed by the second, and then they alternate.
        let mut seen = std::collections::BTreeSet::new();
        node.wait_until("it is told and backed off", || {
            seen.insert(node.waits_for("web", "app"));
            ["ErrImagePull", "ImagePullBackOff"].iter().all(|reason| seen.contains(*reason))
        });
        assert!(node.says(&["get", "pods"]).contains("ImagePull"));
        // Other pods do not wait for it.
        node.write("other.yaml", Pod::new("other").text());
        node.wait_phase("other", "Running");
        // Repaired, it runs at once.
        node.write("web.yaml", Pod::new("web").text());
        node.wait_phase("web", "Running");
    }
}

#[test]
fn k4441_always_starts_the_local_copy_when_the_registry_cannot_be_asked() {
    let node = Node::start();
    let tag = format!("127.0.0.1:1/podkeeper-it-{}", std::process::id());
    tag_image(IMAGE, &tag, "1");
    node.write("web.yaml", with_image("Always", &format!("{tag}:1")));
    node.wait_phase("web", "Running");
    assert!(node.log().contains(&tag), "the log does not tell that the registry was not asked");
    node.remove("web.yaml");
    node.wait_until("nothing is left", || node.containers().is_empty());
    assert!(untag_image(&format!("{tag}:1")));
}

#[test]
fn a_mistyped_image_name_is_told() {
    let node = Node::start();
    node.write("web.yaml", with_image("IfNotPresent", "Not A Valid//Name"));
    node.wait_until("it is told", || node.waits_for("web", "app") == "InvalidImageName");
}
