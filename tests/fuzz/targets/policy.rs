//! The policy: any pod that can be decoded is checked at every level and version, and a refusal
//! always has a reason. The first two bytes choose level and version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::manifest::{self, Context, Inspected, Rules};
use podkeeper::testing::pod::Source;
use podkeeper::testing::policy::{LevelVersion, evaluate, message};

fuzz_target!(|bytes: &[u8]| {
    let [level, version, manifest @ ..] = bytes else { return };
    let level = ["privileged", "baseline", "restricted"][usize::from(*level) % 3];
    let version = match version % 50 {
        49 => "latest".to_owned(),
        minor => format!("v1.{minor}"),
    };
    let at = LevelVersion::parse(&format!("{level}:{version}")).expect("it is one");
    let context = Context { node_name: "node1", source: Source::File, path: "/m/a.yaml" };
    for Inspected { pod, .. } in manifest::inspect(manifest, &context, Rules::OfSyntax).pods {
        let violations = evaluate(&at, &pod.metadata, &pod.spec);
        assert!(violations.iter().all(|v| !v.id.is_empty() && !v.reason.is_empty()));
        assert!(level != "privileged" || violations.is_empty());
        if !violations.is_empty() {
            assert!(message(&at, &violations).starts_with(&format!("violates PodSecurity \"{at}\": ")));
        }
    }
});
