//! Selectors of labels and fields, from a command line or a client of the node's API.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::manifest::selectors::{FieldSelector, LabelSelector};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned()), ("n".to_owned(), "5".to_owned())]);
    if let Ok(selector) = LabelSelector::parse(text) {
        let _ = (selector.matches(Some(&labels)), selector.matches(None));
        // With several conditions, each of them must hold.
        if let Ok(also) = LabelSelector::parse(&format!("{text},!app")) {
            assert!(!also.matches(Some(&labels)), "{text:?}");
        }
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let _ = selector.matches(|name| if name == "status.phase" { "Running" } else { "" });
    }
});
