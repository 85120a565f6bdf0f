//! Grammar of levels, versions and sources.

use serde_json::{Value, json};

use super::super::level::{Level, Version, parse_sources};
use super::super::standards::evaluate;
use super::at;
use crate::pod::Source;

#[test]
fn versions_are_read_as_upstream_reads_them() {
    let check = |text: &str, expected: Option<Version>| {
        let wrong = "must be \"latest\" or \"v1.x\"".to_owned();
        assert_eq!(Version::parse(text), expected.ok_or(wrong), "{text:?}");
    };
    check("latest", Some(Version::Latest));
    check("v1.0", Some(Version::Minor(0)));
    check("v1.9", Some(Version::Minor(9)));
    check("v1.25", Some(Version::Minor(25)));
    check("v1.100000", Some(Version::Minor(100_000)));
    check("v1.9223372036854775807", Some(Version::Minor(i64::MAX as u64)));
    check("v1.9223372036854775808", None);
    check("v1.99999999999999999999999", None);
    for text in [
        "", "1.25", "v1", "v1.", "v1.01", "v1.00", "v2.0", "v1.+5", "v1.-5", "v1. 5", "v1.25 ", "v1.25.1",
        "v1.x", "V1.25", "Latest", "v1.²", "v1.1_0", "v0.1",
    ] {
        check(text, None);
    }
}

#[test]
fn levels_and_versions_come_back_as_written() {
    for text in ["privileged:latest", "baseline:v1.0", "restricted:v1.25"] {
        assert_eq!(at(text).to_string(), text);
    }
    assert_eq!(at("restricted").to_string(), "restricted:latest");
    let wrong = |text: &str| super::LevelVersion::parse(text).unwrap_err();
    assert_eq!(wrong("strict"), "level \"strict\" must be one of privileged, baseline, restricted");
    assert_eq!(wrong("Baseline:v1.0"), "level \"Baseline\" must be one of privileged, baseline, restricted");
    assert_eq!(wrong("baseline:1.0"), "version \"1.0\" must be \"latest\" or \"v1.x\"");
    assert_eq!(wrong("baseline:"), "version \"\" must be \"latest\" or \"v1.x\"");
    assert_eq!(wrong(""), "level \"\" must be one of privileged, baseline, restricted");
}

#[test]
fn latest_is_newer_than_every_number() {
    assert!(Version::Latest > Version::Minor(u64::MAX));
    assert!(Version::Minor(9) < Version::Minor(10));
    assert!(Level::Privileged < Level::Baseline && Level::Baseline < Level::Restricted);
}

#[test]
fn sources_have_levels_of_their_own() {
    let check = |text: &str, expected: &[(Source, &str)]| {
        let expected = expected.iter().map(|(source, level)| (*source, at(level))).collect();
        assert_eq!(parse_sources(text), Ok(expected), "{text}");
    };
    use Source::{Api, File, Http};
    check("baseline", &[(File, "baseline"), (Http, "baseline"), (Api, "baseline")]);
    check("file=privileged,http=restricted:v1.30", &[(File, "privileged"), (Http, "restricted:v1.30")]);
    check(
        "restricted:v1.1, file=baseline",
        &[(File, "baseline"), (Http, "restricted:v1.1"), (Api, "restricted:v1.1")],
    );
    for (text, why) in [
        ("", "level \"\" must be one of privileged, baseline, restricted"),
        ("file=baseline,", "level \"\" must be one of privileged, baseline, restricted"),
        ("dir=baseline", "source \"dir\" must be one of file, http, api"),
        ("file=baseline,file=baseline", "\"file=baseline\" says a second level for the same sources"),
        ("baseline,restricted", "\"restricted\" says a second level for the same sources"),
        ("file=", "level \"\" must be one of privileged, baseline, restricted"),
    ] {
        assert_eq!(parse_sources(text), Err(why.to_owned()), "{text}");
    }
}

#[test]
fn the_field_of_a_violation_in_a_large_pod_is_told() {
    let mut containers: Vec<Value> = (0..10_000).map(|n| json!({ "name": format!("c{n}") })).collect();
    containers.push(json!({
        "name": "last",
        "securityContext": { "appArmorProfile": { "type": "Unconfined" } },
    }));
    let mut pod = crate::plan::testing::pod_of(json!({ "containers": containers }));
    let annotations = (0..10_000).map(|n| (format!("a{n}"), String::new()));
    pod.metadata.annotations = Some(annotations.collect());
    let violations = evaluate(&at("baseline"), &pod.metadata, &pod.spec);
    let fields: Vec<&str> = violations.iter().map(|violation| violation.field.as_str()).collect();
    assert_eq!(fields, ["spec.containers[10000]"]);
}

#[test]
fn a_violation_names_what_violates_alone() {
    let field = |spec: &str| {
        let pod = crate::plan::testing::pod(spec);
        let violations = evaluate(&at("baseline"), &pod.metadata, &pod.spec);
        violations.into_iter().map(|violation| violation.field).collect::<Vec<_>>()
    };
    let containers = |second: &str| format!("containers: [{{name: a}}, {{name: b, {second}}}]");
    let check = |spec: String, expected: &str| assert_eq!(field(&format!("{{{spec}}}")), [expected]);
    check(containers("securityContext: {privileged: true}"), "spec.containers[1]");
    check(containers("ports: [{containerPort: 1, hostPort: 1}]"), "spec.containers[1]");
    check(
        format!(
            "initContainers: [{{name: i, securityContext: {{privileged: true}}}}], {}",
            containers("image: x")
        ),
        "spec.initContainers[0]",
    );
    check(
        format!(
            "volumes: [{{name: v, emptyDir: {{}}}}, {{name: b, hostPath: {{path: /}}}}], {}",
            containers("image: x")
        ),
        "spec.volumes[1]",
    );
    check(format!("hostNetwork: true, {}", containers("image: x")), "spec");
    check(
        format!(
            "securityContext: {{sysctls: [{{name: kernel.msgmax, value: '1'}}]}}, {}",
            containers("image: x")
        ),
        "spec.securityContext",
    );
}
