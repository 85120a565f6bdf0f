//! The kubelet's verdicts on a thousand odd pods, compared with podkeeper's. They agree, except for
//! deliberate differences.

use super::*;

/// Parts of errors about fields that podkeeper refuses deliberately and the kubelet accepts.
const ON_PURPOSE: &[&str] = &[
    "not supported by this version of podkeeper",
    "static pods may not reference",
    "remove the manifest to delete the pod",
    // What the kernel reads as another profile than the one that is named.
    "must be the name of one profile",
    "must name a profile",
    // Docker has one mount at a place, and one value of a sysctl.
    "must be unique",
    "sysctls[1].name: Duplicate value",
    "is there twice",
    // The kubelet refuses them, too, when no other volume refers to an object.
    "must specify a source",
    // Of a newer version of the API.
    "grpc.mode",
];

/// Parts of texts that are read as YAML here, and as JSON by the kubelet.
const AS_YAML: &[&str] = &[":1E400", ":1e400"];

/// Another file of such lines can be judged: `PODKEEPER_VERDICTS=FILE cargo test --lib verdicts`.
#[test]
fn pods_are_judged_as_the_kubelet_judges_them() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/kubelet-verdicts.txt");
    let other = std::env::var("PODKEEPER_VERDICTS");
    let text = std::fs::read_to_string(other.as_deref().unwrap_or(own)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let context = Context { node_name: "node", source: Source::File, path: "/m/pod.yaml" };
    let mut wrong = Vec::new();
    let mut needed: Set<&&str> = Set::new();
    let mut judged = 0;
    for line in lines {
        let (kubelet, manifest) = line.split_once(' ').unwrap();
        let decoded = decode(manifest.as_bytes(), &context);
        let errors = decoded.problems.iter().filter(|p| p.severity == Severity::Error);
        let errors: Vec<String> = errors.map(ToString::to_string).collect();
        let on_purpose = |error: &String| ON_PURPOSE.iter().any(|known| error.contains(known));
        let agrees = match kubelet {
            "accept" | "refers" => {
                let is_known = |known: &&&str| errors.iter().any(|error| error.contains(**known));
                needed.extend(ON_PURPOSE.iter().filter(is_known));
                errors.iter().all(on_purpose)
            }
            "refuse" => {
                let number = AS_YAML.iter().find(|part| errors.is_empty() && manifest.contains(**part));
                needed.extend(number);
                !errors.is_empty() || number.is_some()
            }
            other => panic!("{other}: no verdict"),
        };
        if !agrees {
            wrong.push(format!("kubelet: {kubelet}, podkeeper: {errors:?}\n  {manifest}"));
        }
        judged += 1;
    }
    if other.is_err() {
        assert!(judged > 1500, "{judged}");
        let stale: Vec<_> =
            ON_PURPOSE.iter().chain(AS_YAML).filter(|known| !needed.contains(*known)).collect();
        assert!(stale.is_empty(), "no difference any more: {stale:?}");
    }
    assert!(wrong.is_empty(), "{} of {judged}:\n{}", wrong.len(), wrong.join("\n"));
}
