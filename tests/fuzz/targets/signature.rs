//! Signatures and keys: for any bytes there is no panic, and only the signed content passes. The first
//! byte chooses the meaning of the rest.
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
                // A random key has signed nothing, unless it is the right key.
                let good = verifier.verify(CONTENT, Some(SIGNATURE)).is_ok();
                assert!(!good || verifier.verify(b"another", Some(SIGNATURE)).is_err());
            }
        }
        1 => {
            // Bytes that pass as a signature of this content are not a signature of another one.
            if VERIFIER.verify(CONTENT, Some(rest)).is_ok() {
                assert!(VERIFIER.verify(b"another", Some(rest)).is_err());
            }
        }
        2 => assert_eq!(VERIFIER.verify(rest, Some(SIGNATURE)).is_ok(), rest == CONTENT),
        _ => {
            // Content and signature, separated by a byte that occurs in neither.
            let mut parts = rest.splitn(2, |b| *b == 0);
            let (Some(content), Some(signature)) = (parts.next(), parts.next()) else { return };
            if VERIFIER.verify(content, Some(signature)).is_ok() {
                assert!(content == CONTENT || content == include_bytes!("../../golden/signature/v2.yaml"));
            }
        }
    }
});
