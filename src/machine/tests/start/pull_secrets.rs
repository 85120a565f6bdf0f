//! Tests of images that need credentials: of which pod, when they come, and images that another pod's secret pulled.

use super::images::with_image;
use super::rig::{Rig, ms, pod_with, s};
use crate::image::grants::{Grants, With};
use crate::machine::Hint;
use crate::runtime::fake::Pull;

/// An image that one pod's secret pulled is requested again for another pod, which does not get it if its policy
/// forbids a pull.
#[test]
fn an_image_that_anothers_secret_brought_is_asked_for() {
    use crate::image::credentials::{DockerConfig, Format, lookup};
    let json = br#"{"r.io": {"username": "u", "password": "p"}}"#;
    let config = DockerConfig::parse(json, Format::DockerCfg).unwrap();
    let with = With::Secret(lookup("r.io/web:1", [&config])[0].clone());
    for (policy, pulls, status) in
        [("IfNotPresent", 1, "Pending, app: ErrImagePull"), ("Never", 0, "Pending, app: ErrImageNeverPull")]
    {
        let mut rig = Rig::fresh();
        let id = rig.engine.add_image("r.io/web:1", true);
        let grants = Grants::default();
        grants.pulled("r.io/web:1", &id, &with, None);
        rig.tell_grants(&grants);
        rig.engine.script_pull("r.io/web:1", Pull::Fails("pull access denied".into()));
        rig.run(&with_image("r.io/web:1", policy));
        rig.pass(s(3));
        assert_eq!((rig.pulls.len(), rig.status().as_str()), (pulls, status), "{policy}");
        // The registry has served it without credentials of a pod.
        grants.pulled("r.io/web:1", &id, &With::NodeOrNone, None);
        rig.tell_grants(&grants);
        rig.hint(Hint::Retry);
        rig.pass(s(3));
        assert_eq!((rig.pulls.len(), rig.status().as_str()), (pulls, "Running, app: running"), "{policy}");
    }
}

/// The pull secret comes after its pod: the pull is retried with it at once.
#[test]
fn a_secret_that_comes_late_ends_the_back_off() {
    let of = "{imagePullSecrets: [{name: s}], containers: [{name: app, image: \"r.io/web:1\", imagePullPolicy: Always}]}";
    let secret = |name: &str| {
        let json = r#"{\"r.io\": {\"username\": \"u\", \"password\": \"p\"}}"#;
        let secret = format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, type: kubernetes.io/dockercfg, \
             stringData: {{.dockercfg: \"{json}\"}}}}"
        );
        crate::pod::object::testing::snapshot(&secret)
    };
    let mut rig = Rig::fresh();
    rig.engine.script_pull("r.io/web:1", Pull::Fails("no basic auth credentials".into()));
    rig.run(&pod_with("uid-1", of));
    rig.pass(s(1450));
    assert_eq!(rig.status(), "Pending, app: ImagePullBackOff");
    let before = rig.pulls.len();
    rig.give(secret("another"));
    rig.pass(s(1));
    assert_eq!(rig.pulls.len(), before, "the secret of somebody else changes nothing");
    rig.engine.add_image("r.io/web:1", true);
    rig.engine.script_pull("r.io/web:1", Pull::Takes(s(0)));
    rig.give(secret("s"));
    rig.pass(s(3));
    assert_eq!((rig.pulls.len(), rig.status().as_str()), (before + 1, "Running, app: running"));
}

/// The record of images that were pulled with secrets is lost: an image that may not be pulled waits until it is known
/// to have been loaded.
#[test]
fn with_a_damaged_record_an_image_that_was_loaded_is_used_without_a_pull() {
    let mut rig = Rig::fresh();
    let id = rig.engine.add_image("web:1", true);
    let grants = Grants::default();
    grants.lose();
    rig.tell_grants(&grants);
    rig.run(&with_image("web:1", "Never"));
    rig.pass(s(3));
    assert_eq!(rig.status(), "Pending, app: ErrImageNeverPull");
    // The worker does so when it gets the output that the image is missing.
    grants.pulled("web:1", &id, &With::NodeOrNone, None);
    rig.tell_grants(&grants);
    rig.pass(s(60));
    assert_eq!((rig.pulls.len(), rig.status().as_str()), (0, "Running, app: running"));
}

#[test]
fn an_image_that_came_with_the_secrets_of_an_earlier_version_is_asked_for_anew() {
    let mut rig = Rig::fresh();
    let of =
        |secrets| format!("{{{secrets}containers: [{{name: app, image: other, imagePullPolicy: Always}}]}}");
    rig.run(&pod_with("uid-1", &of("imagePullSecrets: [{name: a}], ")));
    rig.pass(ms(500));
    assert_eq!(rig.pulls.len(), 1, "under way");
    rig.run(&pod_with("uid-2", &of("")));
    rig.pass(s(20));
    assert_eq!(rig.pulls.len(), 2);
    assert!(rig.running().contains("uid-2/app#0"), "{:?}", rig.running());
}
