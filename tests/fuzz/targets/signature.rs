//! Signatures and keys: whatever they are made of, nothing panics, and no content but the one that was
//! signed passes. The first byte says what the rest is.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::source::signature::Verifier;

const KEY: &str = include_str!("../../golden/signature/node.pub");
const CONTENT: &[u8] = include_bytes!("../../golden/signature/v1.yaml");
const SIGNATURE: &[u8] = include_bytes!("../../golden/signature/v1.minisig");
static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| Verifier::parse(KEY).expect("a key"));

fuzz_target!(|bytes: &[u8]| {
    let [what, rest @ ..] = bytes else { return };
    match what % 4 {
        0 => {
            if let Ok(verifier) = std::str::from_utf8(rest).map_err(|_| String::new()).and_then(Verifier::parse) {
                // A key that was made up has signed nothing, unless it is the one.
                let good = verifier.verify(CONTENT, Some(SIGNATURE)).is_ok();
                assert!(!good || verifier.verify(b"another", Some(SIGNATURE)).is_err());
            }
        }
        1 => {
            // Whatever passes as a signature of this content is no signature of another one.
            if VERIFIER.verify(CONTENT, Some(rest)).is_ok() {
                assert!(VERIFIER.verify(b"another", Some(rest)).is_err());
            }
        }
        2 => assert_eq!(VERIFIER.verify(rest, Some(SIGNATURE)).is_ok(), rest == CONTENT),
        _ => {
            // Content and signature, apart by a byte that stands in neither.
            let mut parts = rest.splitn(2, |b| *b == 0);
            let (Some(content), Some(signature)) = (parts.next(), parts.next()) else { return };
            if VERIFIER.verify(content, Some(signature)).is_ok() {
                assert!(content == CONTENT || content == include_bytes!("../../golden/signature/v2.yaml"));
            }
        }
    }
});
