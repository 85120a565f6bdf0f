//! Odd values that the kubelet accepts: the pod is accepted, with a warning at their place.

use super::*;

fn warnings(decoded: &Decoded) -> Vec<String> {
    let warnings = decoded.problems.iter().filter(|p| p.severity == Severity::Warning);
    warnings.map(ToString::to_string).collect()
}

/// Decodes a pod with these lines after `spec:`; returns it and its only warning.
fn warned(lines: &str) -> (Arc<DesiredPod>, String) {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n{lines}\n  containers: [{{name: a, image: b}}]\n"
    );
    let decoded = read(&text);
    assert_eq!(errors(&decoded), Vec::<String>::new(), "{text}");
    match warnings(&decoded).as_slice() {
        [one] => (decoded.pods[0].clone(), one.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_that_no_object_has_is_told_with_its_place() {
    for (lines, at, field) in [
        ("  volumes: [{name: v, secret: {secretName: ../x}}]", "5:32", "volumes[0].secret.secretName"),
        ("  volumes: [{name: v, configMap: {name: ../x}}]", "5:35", "volumes[0].configMap.name"),
        (
            "  volumes: [{name: v, persistentVolumeClaim: {claimName: ../x}}]",
            "5:47",
            "volumes[0].persistentVolumeClaim.claimName",
        ),
        (
            "  volumes:\n  - {name: v, projected: {sources: [{secret: {name: ../x}}]}}",
            "6:47",
            "volumes[0].projected.sources[0].secret.name",
        ),
        ("  imagePullSecrets: [{name: ../x}]", "5:23", "imagePullSecrets[0].name"),
    ] {
        let (pod, warning) = warned(lines);
        let expected = format!(
            "/m/t.yaml:{at}: pod default/web: spec.{field}: \"../x\" is no name of an object: it is never found"
        );
        assert_eq!(warning, expected);
        assert!(crate::pod::object::refs::references(&pod).iter().all(|it| it.key.name == "../x"));
    }
}

/// Upstream checks names in `envFrom` like beginnings of names, and other names of the environment in full.
#[test]
fn names_of_objects_in_the_environment() {
    let of = |container: &str| {
        read(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  containers: [{{name: a, image: b, {container}}}]\n"
        ))
    };
    let begins = of("envFrom: [{secretRef: {name: a-}}]");
    assert!(begins.is_good() && warnings(&begins)[0].contains("\"a-\" is no name of an object"));
    assert!(!of("envFrom: [{configMapRef: {name: A}}]").is_good());
    assert!(!of("env: [{name: A, valueFrom: {secretKeyRef: {name: a-, key: k}}}]").is_good());
}

#[test]
fn a_quantity_without_digits_is_zero_and_told() {
    let (_, warning) = warned("  resources: {limits: {memory: Gi}}");
    let expected = "/m/t.yaml:5:24: pod default/web: spec.resources.limits[memory]: \"Gi\" has no digits, and counts as 0";
    assert_eq!(warning, expected);
    let (_, warning) = warned("  volumes: [{name: v, emptyDir: {sizeLimit: m}}]");
    assert!(warning.ends_with("emptyDir.sizeLimit: \"m\" has no digits, and counts as 0"), "{warning}");
}

#[test]
fn a_relative_host_path_is_told() {
    let (_, warning) = warned("  volumes: [{name: v, hostPath: {path: data}}]");
    let expected = "/m/t.yaml:5:34: pod default/web: spec.volumes[0].hostPath.path: \"data\" is no absolute path: the volume cannot be set up";
    assert_eq!(warning, expected);
}

/// A UID that cannot be a name is replaced by one that depends on its text alone.
#[test]
fn an_odd_uid_is_replaced_by_its_hash() {
    let long = "a".repeat(64);
    let mut uids = std::collections::BTreeSet::new();
    for uid in ["a/b", "../x", "..", "a_b", "a b", "-a", "\u{e9}", long.as_str(), "a\\nb"] {
        let with = |name: &str, image: &str| {
            read(&format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: \"{uid}\"}}\nspec: {{containers: [{{name: a, image: {image}}}]}}\n"
            ))
        };
        let decoded = with("web", "b");
        assert_eq!(errors(&decoded), Vec::<String>::new(), "{uid}");
        let pod = &decoded.pods[0];
        assert!(pod.uid.len() == 32 && pod.uid.bytes().all(|b| b.is_ascii_hexdigit()), "{}", pod.uid);
        let warning = &warnings(&decoded)[0];
        assert!(warning.starts_with("/m/t.yaml:3:23: pod default/web: metadata.uid: "), "{warning}");
        assert!(
            warning.ends_with(&format!("cannot be a part of paths: the pod has the UID {}", pod.uid)),
            "{warning}"
        );
        let annotations = pod.metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations[static_pod::CONFIG_HASH], pod.uid);
        assert_eq!(pod.metadata.uid.as_deref(), Some(pod.uid.as_str()));
        // As with any UID that a manifest gives, edits keep it, and another pod with it is refused.
        assert_eq!((&pod.written, &pod.shape), (&None, &None));
        for other in [with("web", "c"), with("other", "b")] {
            assert_eq!(other.pods[0].uid, pod.uid);
        }
        assert!(uids.insert(pod.uid.clone()), "{uid}");
    }
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: a/b}\nspec: {containers: [{name: a, image: b}]}\n";
    let of_api = Context { source: Source::Api, ..context("/m/t.yaml") };
    assert!(!decode(text.as_bytes(), &of_api).is_good(), "an API server's pod keeps its UID");
}

/// The kubelet reads YAML's `80.0` as an integer, and JSON's not.
#[test]
fn numbers_with_a_point_are_integers_in_yaml_alone() {
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"priority":0,"containers":[
        {"name":"a","image":"b","resources":{"limits":{"cpu":1}},"ports":[{"containerPort":80}]}]}}"#;
    let pod = only_pod(json);
    for (from, to) in [(":80", ":80.0"), (":80", ":8e1"), ("\"priority\":0", "\"priority\":0.0")] {
        let text = json.replace(from, to);
        let found = errors(&read(&text));
        assert!(found.len() == 1 && found[0].contains("must be an integer"), "{found:?}");
        assert_eq!(only_pod(&format!("# YAML\n{text}")).uid, pod.uid, "{text}");
    }
    // A quantity may have one, and is the same in any spelling.
    for cpu in ["1.0", "1e0", "0.1E1"] {
        assert_eq!(only_pod(&json.replace("\"cpu\":1", &format!("\"cpu\":{cpu}"))).uid, pod.uid, "{cpu}");
    }
}
