//! The memory that a manifest may take, whatever its text says.

use super::*;

/// 285 KB of empty volumes took 540 MB, and the daemon of a small node was killed at each start.
#[test]
fn lists_take_no_more_memory_than_a_pod_may_have() {
    let pod = |name: &str, volumes: usize| {
        let volumes: Vec<String> = (0..volumes).map(|n| format!("{{name: v{n}, emptyDir: {{}}}}")).collect();
        let volumes = volumes.join(", ");
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: a, image: b}}], \
             volumes: [{volumes}]}}}}"
        )
    };
    let of = |text: &str| {
        let decoded = decode(text.as_bytes(), &Context { node_name: "n", source: Source::Http, path: "u" });
        let errors = decoded.problems.iter().filter(|it| it.severity == Severity::Error);
        (decoded.pods.len(), errors.map(|it| it.message.clone()).collect::<Vec<_>>())
    };
    let most = limits::DECODED_OBJECT / size_of::<k8s_openapi::api::core::v1::Volume>();
    let (pods, errors) = of(&pod("a", most + 1));
    let long = "has lists that are too long: they would take more than 4 MiB of memory";
    assert_eq!((pods, errors), (0, vec![long.to_owned()]));
    assert_eq!(of(&pod("a", most - 1)), (1, Vec::new()));
    // A null is only warned of, and what is read without it counts as well.
    let with_null = |name: &str| pod(name, most - 1).replace("image: b", "image: b, args: [null]");
    assert_eq!(of(&with_null("a")), (1, Vec::new()));
    let nulls = (0..5).map(|n| with_null(&format!("p{n}"))).collect::<Vec<_>>().join("\n---\n");
    assert_eq!(of(&nulls).0, 0);
    let many = |count: usize| {
        (0..count).map(|n| pod(&format!("p{n}"), most - 1)).collect::<Vec<_>>().join("\n---\n")
    };
    assert_eq!(of(&many(4)), (4, Vec::new()));
    let (pods, errors) = of(&many(5));
    let much = "does not fit: the pods of this manifest would take more than 16 MiB of memory";
    assert_eq!((pods, errors), (0, vec![much.to_owned()]));
}

#[test]
fn a_pod_weighs_what_its_lists_and_its_texts_take() {
    let weight = |pod: &str| {
        let decoded = decode(pod.as_bytes(), &Context { node_name: "n", source: Source::Http, path: "u" });
        decoded.pods.first().unwrap_or_else(|| panic!("{:?}", decoded.problems)).weight
    };
    let pod = |rest: &str, annotation: usize| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, annotations: {{note: '{}'}}}}, spec: {{containers: [{{name: a, \
             image: b}}]{rest}}}}}",
            "x".repeat(annotation)
        )
    };
    let plain = weight(&pod("", 1));
    assert!((size_of::<k8s_openapi::api::core::v1::Container>()..8192).contains(&plain), "{plain}");
    assert_eq!(weight(&pod("", 100_001)), plain + 100_000);
    let two = weight(&pod(", volumes: [{name: v}, {name: w}]", 1));
    let volumes = 2 * size_of::<k8s_openapi::api::core::v1::Volume>();
    assert!((plain + volumes..plain + volumes + 500).contains(&two), "{two}, {plain}");
}
