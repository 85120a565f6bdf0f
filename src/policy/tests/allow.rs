//! The node's own lists.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{AllowedImage, AllowedPath, Policies, Refusal, SourcePolicy};
use super::{at, pod};
use crate::pod::Source;

fn refusals(policy: &SourcePolicy, spec: &Value) -> Vec<(String, String)> {
    let (metadata, spec) = pod(&json!({}), spec);
    let all = policy.refusals(&metadata, &spec);
    assert_eq!(policy.check(&metadata, &spec), all.first().cloned().map_or(Ok(()), Err));
    all.into_iter().map(|Refusal { reason, message, .. }| (reason, message)).collect()
}

fn paths(list: &[&str]) -> SourcePolicy {
    let list = list.iter().map(|entry| AllowedPath::parse(entry).unwrap()).collect();
    SourcePolicy { allowed_host_paths: Some(list), ..SourcePolicy::default() }
}

fn images(list: &[&str]) -> SourcePolicy {
    let list = list.iter().map(|entry| AllowedImage::parse(entry).unwrap()).collect();
    SourcePolicy { allowed_images: Some(list), ..SourcePolicy::default() }
}

#[test]
fn host_paths_are_compared_by_components() {
    let check = |list: &[&str], path: &str, expected: bool| {
        let spec =
            json!({"containers": [{"name": "app"}], "volumes": [{"name": "v", "hostPath": {"path": path}}]});
        let says = format!("volume \"v\": hostPath {path:?} is not allowed on this node");
        let expected = if expected { vec![] } else { vec![("HostPathNotAllowed".to_owned(), says)] };
        assert_eq!(refusals(&paths(list), &spec), expected, "{list:?} {path}");
    };
    check(&["/var/log"], "/var/log", true);
    check(&["/var/log"], "/var/log/", true);
    check(&["/var/log"], "//var/./log//app", true);
    check(&["/var/log/"], "/var/log", true);
    check(&["/var/log"], "/var/logs", false);
    check(&["/var/log"], "/var", false);
    check(&["/var/log"], "/", false);
    check(&["/var/log"], "/var/log/../../etc", false);
    check(&["/var/log"], "/var/log/..", false);
    check(&["/"], "/../etc", false);
    check(&["/"], "/anything", true);
    check(&["/var/log"], "var/log", false);
    check(&["/"], "", false);
    check(&["/srv", "/var/log"], "/srv/www", true);
    check(&[], "/srv", false);
    check(&["/var/log"], "/var/log/a..b", true);
    check(&["/Var"], "/var", false);
}

#[test]
fn read_only_paths_ask_for_read_only_mounts() {
    let spec = |mounts: Value, init: Value| {
        json!({"containers": [{"name": "app", "volumeMounts": mounts}],
            "initContainers": [{"name": "init", "volumeMounts": init}],
            "volumes": [{"name": "etc", "hostPath": {"path": "/etc/ssl"}}, {"name": "tmp", "emptyDir": {}}]})
    };
    let mount = |ro: Value| json!({"name": "etc", "mountPath": "/e", "readOnly": ro});
    let says = |who: &str| {
        let message = format!(
            "volume \"etc\": hostPath \"/etc/ssl\" is allowed read-only: {who} must mount it with readOnly=true"
        );
        vec![("HostPathNotAllowed".to_owned(), message)]
    };
    let policy = paths(&["/etc:ro"]);
    let tmp = json!({"name": "tmp", "mountPath": "/t"});
    assert_eq!(refusals(&policy, &spec(json!([mount(json!(true)), tmp]), json!([]))), []);
    assert_eq!(refusals(&policy, &spec(json!([]), json!(null))), []);
    assert_eq!(refusals(&policy, &spec(json!([mount(json!(false))]), json!([]))), says("container \"app\""));
    assert_eq!(
        refusals(
            &policy,
            &spec(json!([mount(json!(true)), mount(json!(null))]), json!([mount(json!(null))]))
        ),
        says("containers \"init\", \"app\"")
    );
    // One entry that allows the path is enough.
    let policy = paths(&["/etc:ro", "/etc/ssl"]);
    assert_eq!(refusals(&policy, &spec(json!([mount(json!(false))]), json!([]))), []);
}

#[test]
fn paths_of_the_list_are_absolute() {
    for (text, expected) in [("/a//b/", "/a/b"), ("/", "/"), ("/etc:ro", "/etc:ro"), ("/:ro", "/:ro")] {
        assert_eq!(AllowedPath::parse(text).unwrap().to_string(), expected);
    }
    for text in ["", "a", "./a", "/a/../b", "/a:rw", "/a:ro:ro", ":ro"] {
        let why = format!("{text:?} must be an absolute path without \"..\", and :ro or nothing behind");
        assert_eq!(AllowedPath::parse(text), Err(why));
    }
}

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn images_are_compared_by_their_parts() {
    let check = |entry: &str, image: &str, expected: bool| {
        let image = image.replace("DIGEST", DIGEST);
        let policy = images(&[&entry.replace("DIGEST", DIGEST)]);
        let spec = json!({"containers": [{"name": "app", "image": image}]});
        let says = format!("container \"app\": image {image:?} is not allowed on this node");
        let expected = if expected { vec![] } else { vec![("ImageNotAllowed".to_owned(), says)] };
        assert_eq!(refusals(&policy, &spec), expected, "{entry} {image}");
    };
    for entry in [
        "busybox",
        "library/busybox",
        "docker.io/busybox",
        "docker.io/library/busybox",
        "index.docker.io/busybox",
    ] {
        for image in [
            "busybox",
            "docker.io/library/busybox:1.36",
            "index.docker.io/library/busybox",
            "library/busybox@DIGEST",
            "busybox:1@DIGEST",
        ] {
            check(entry, image, true);
        }
        for image in [
            "busybox2",
            "busybox/x",
            "docker.io/busybox/busybox",
            "localhost/busybox",
            "docker.io.evil.io/library/busybox",
            "registry-1.docker.io/library/busybox",
            "evil/busybox",
            "docker.io:443/library/busybox",
            "Busybox",
            "",
        ] {
            check(entry, image, false);
        }
    }
    for entry in ["registry.example.com/team/", "registry.example.com/"] {
        check(entry, "registry.example.com/team/app", true);
        check(entry, "registry.example.com/team/a/b:1", true);
        check(entry, "registry.example.com.evil.io/team/app", false);
        check(entry, "registry.example.com:5000/team/app", false);
        check(entry, "evil.io/registry.example.com/team/app", false);
        check(entry, "registry.example.com@evil.io/team/app", false);
        check(entry, "registry.example.com/team/../app", false);
        check(entry, "registry.example.com//team/app", false);
        check(entry, "REGISTRY.example.com/team/app", false);
        check(entry, "registry.example.com/team/", false);
    }
    check("registry.example.com/team/", "registry.example.com/team", false);
    check("registry.example.com/team/", "registry.example.com/teams/app", false);
    check("registry.example.com/team", "registry.example.com/team:1", true);
    check("registry.example.com/team", "registry.example.com/team/app", false);
    check("registry.example.com", "registry.example.com/app", true);
    check("registry.example.com:5000", "registry.example.com:5000/app", true);
    check("registry.example.com:5000", "registry.example.com/app", false);
    check("host:5000/", "host:5000/app:1", true);
    check("host:5000/", "host/app:1", false);
    check("localhost", "localhost/app", true);
    check("localhost", "library/localhost", false);
    check("docker.io", "busybox", true);
    check("docker.io/", "team/app", true);
    check("team/", "docker.io/team/app", true);
    check("team/", "team.io/app", false);
    check("docker.io/library/", "busybox", true);
    check("docker.io/library/", "team/busybox", false);
    // A tag matches only itself.
    check("busybox:1.36", "busybox:1.36", true);
    check("busybox:1.36", "busybox:1.36.1", false);
    check("busybox:1.36", "busybox", false);
    check("busybox:latest", "busybox", true);
    check("busybox:1.36", "busybox:1.36@DIGEST", false);
    check("busybox@DIGEST", "busybox:1.36@DIGEST", true);
    check("busybox@DIGEST", "busybox", false);
    check("busybox:1.36@DIGEST", "busybox@DIGEST", true);
    check("my.image:v1", "my.image:v1", true);
}

/// Docker reads a name as a prefix of an image's ID if there is no image of this name.
#[test]
fn what_may_be_an_id_is_no_name() {
    let hex = &DIGEST[7..];
    let policy = images(&["docker.io/library/"]);
    let refused = |image: &str| {
        !refusals(&policy, &json!({"containers": [{"name": "app", "image": image}]})).is_empty()
    };
    assert!(refused(hex) && refused(DIGEST) && refused("0123456789ab") && refused("cafe"));
    assert!(refused("sha256:0123456789ab") && refused("sha256:c") && refused("sha512:cafe"));
    assert!(!refused("library/sha256:cafe") && !refused("sha256:v1"));
    assert!(!refused("cafe:1") && !refused("library/cafe") && !refused("nginx"));
}

#[test]
fn entries_that_mean_nothing_are_refused() {
    for text in [
        "",
        "/",
        "*",
        "a b",
        "UPPER/x y",
        "https://registry.example.com/",
        "a//",
        "busybox@sha256:12",
        "cafe",
        "a/..",
        "example.com/a:",
        "busybox:",
    ] {
        let why = format!("{text:?} is neither an image nor the beginning of one that ends with a slash");
        assert_eq!(AllowedImage::parse(text), Err(why), "{text}");
    }
}

#[test]
fn every_image_counts() {
    let spec = json!({"initContainers": [{"name": "init", "image": "evil/a"}],
        "containers": [{"name": "app", "image": "busybox"}, {"name": "b"}],
        "ephemeralContainers": [{"name": "debug", "image": "evil/b"}],
        "volumes": [{"name": "v", "image": {"reference": "evil/c"}}]});
    let said = refusals(&images(&["busybox"]), &spec);
    let no = "is not allowed on this node";
    let message = format!(
        "container \"init\": image \"evil/a\" {no}; container \"b\": image \"\" {no}; \
         container \"debug\": image \"evil/b\" {no}; volume \"v\": image \"evil/c\" {no}"
    );
    assert_eq!(said, [("ImageNotAllowed".to_owned(), message)]);
}

#[test]
fn a_digest_is_sixty_four_digits_of_sha256() {
    let policy = SourcePolicy { require_image_digest: true, ..SourcePolicy::default() };
    let check = |image: &str, expected: bool| {
        let image = image.replace("DIGEST", DIGEST);
        for kind in ["containers", "initContainers", "ephemeralContainers"] {
            let spec = json!({kind: [{"name": "app", "image": image}]});
            let says = format!(
                "container \"app\": image {image:?} must be named by its digest (NAME@sha256:DIGEST)"
            );
            let expected = if expected { vec![] } else { vec![("ImageDigestRequired".to_owned(), says)] };
            assert_eq!(refusals(&policy, &spec), expected);
        }
    };
    check("busybox@DIGEST", true);
    check("registry.example.com:5000/a/b:1@DIGEST", true);
    check("busybox", false);
    check("busybox:1.36", false);
    check("DIGEST", false);
    check("busybox@DIGEST0", false);
    check("busybox@sha256:0123", false);
    check(&format!("busybox@{}", DIGEST.to_uppercase()), false);
    check(&format!("busybox@{}", DIGEST.replace("abc", "ABC")), false);
    check("busybox@DIGEST@DIGEST", false);
    check("busybox@sha512:0123456789abcdef", false);
    check("", false);
}

#[test]
fn each_source_has_its_own_standard() {
    let all = SourcePolicy { allowed_host_paths: Some(Vec::new()), ..SourcePolicy::default() };
    let level = |text| SourcePolicy { pod_security: Some(at(text)), ..all.clone() };
    let policies = Policies::all(all.clone())
        .with(Source::File, level("privileged"))
        .with(Source::Http, level("baseline:v1.20"));
    let (metadata, spec) = pod(
        &json!({}),
        &json!({"containers": [{"name": "app"}], "hostPID": true,
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    );
    let reasons = |source| -> Vec<String> {
        policies.of(source).refusals(&metadata, &spec).into_iter().map(|r| r.reason).collect()
    };
    assert_eq!(reasons(Source::File), ["HostPathNotAllowed"]);
    assert_eq!(reasons(Source::Http), ["PodSecurity", "HostPathNotAllowed"]);
    assert_eq!(reasons(Source::Api), ["HostPathNotAllowed"]);
    let refusal = policies.of(Source::Http).check(&metadata, &spec).unwrap_err();
    assert_eq!(
        refusal.message,
        r#"violates PodSecurity "baseline:v1.20": host namespaces (hostPID=true), hostPath volumes (volume "v")"#
    );
    assert_eq!(SourcePolicy::default().check(&metadata, &spec), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No text makes the parsers panic, and an empty list allows nothing.
    #[test]
    fn any_text_may_come(text in any::<String>(), image in "[a-zA-Z0-9./:@_-]{0,40}", path in "[a-z./:]{0,20}") {
        let _ = (AllowedImage::parse(&text), AllowedPath::parse(&text), super::super::parse_sources(&text));
        let _ = (AllowedImage::parse(&image), AllowedPath::parse(&path));
        let spec = json!({"containers": [{"name": "a", "image": image}], "volumes": [{"name": "v", "hostPath": {"path": path}}]});
        let policy = SourcePolicy { allowed_host_paths: Some(vec![]), allowed_images: Some(vec![]), ..SourcePolicy::default() };
        prop_assert_eq!(refusals(&policy, &spec).len(), 2);
        // A path below an allowed path is allowed.
        let under = json!({"containers": [], "volumes": [{"name": "v", "hostPath": {"path": format!("/srv/{path}")}}]});
        prop_assert_eq!(refusals(&paths(&["/srv"]), &under).is_empty(), !path.split('/').any(|p| p == ".."));
    }
}
