//! Manifests: any content of a file or an answer is decoded or refused, without a panic; and accepted
//! content is accepted again with the same identity (invariant 5).
#![no_main]

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::manifest::{self, Context};
use podkeeper::testing::pod::Source;

fuzz_target!(|bytes: &[u8]| {
    for (source, path) in [(Source::File, "/m/a.yaml"), (Source::Http, "https://example.com/pods")] {
        let context = Context { node_name: "node1", source, path };
        let decoded = manifest::decode(bytes, &context);
        if decoded.is_good() {
            let again = manifest::decode(bytes, &context);
            assert_eq!(decoded, again);
            assert!(decoded.pods.iter().all(|pod| !pod.uid.is_empty() && !pod.key.name.is_empty()));
        } else {
            assert!(decoded.pods.is_empty(), "a file is taken whole or not at all");
            assert!(!decoded.problems.is_empty());
        }
    }
});
