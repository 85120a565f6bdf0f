//! The kubelet's verdicts on a thousand odd pods, compared with podkeeper's. They agree, except for
//! deliberate differences.

use super::*;

/// Parts of errors about fields that podkeeper refuses deliberately and the kubelet accepts.
const ON_PURPOSE: &[&str] = &[
    "not supported by this version of podkeeper",
    "static pods may not reference",
    "remove the manifest to delete the pod",
    // A relative path would depend on the daemon's working directory.
    "must be an absolute path",
    // A reference to a local object becomes a part of a path.
    "claimName: ",
];

#[test]
fn pods_are_judged_as_the_kubelet_judges_them() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/kubelet-verdicts.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let context = Context { node_name: "node", source: Source::File, path: "/m/pod.yaml" };
    let mut wrong = Vec::new();
    let mut needed: std::collections::BTreeSet<&&str> = std::collections::BTreeSet::new();
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
            "refuse" => !errors.is_empty(),
            other => panic!("{other}: no verdict"),
        };
        if !agrees {
            wrong.push(format!("kubelet: {kubelet}, podkeeper: {errors:?}\n  {manifest}"));
        }
        judged += 1;
    }
    assert!(judged > 1000, "{judged}");
    let stale: Vec<_> = ON_PURPOSE.iter().filter(|known| !needed.contains(*known)).collect();
    assert!(stale.is_empty(), "no difference any more: {stale:?}");
    assert!(wrong.is_empty(), "{} of {judged}:\n{}", wrong.len(), wrong.join("\n"));
}
