//! Tests with files of the real minisign, and with every way to change them.

use proptest::prelude::*;

use super::*;
use crate::source::testing::{Signer, base64};

const NODE: &str = include_str!("../../../tests/golden/signature/node.pub");
const OTHER: &str = include_str!("../../../tests/golden/signature/other.pub");
const V1: &[u8] = include_bytes!("../../../tests/golden/signature/v1.yaml");
const V2: &[u8] = include_bytes!("../../../tests/golden/signature/v2.yaml");
const HASHED: &[u8] = include_bytes!("../../../tests/golden/signature/v1.minisig");
const LEGACY: &[u8] = include_bytes!("../../../tests/golden/signature/v1.legacy.minisig");
const BY_OTHER: &[u8] = include_bytes!("../../../tests/golden/signature/v1.other.minisig");
const NODE_ID: &str = "83AAF1322B2B5F58";
const OTHER_ID: &str = "9A3E3F8DD5E27D1B";

fn verify(content: &[u8], signature: Option<&[u8]>) -> Result<Edition, Refusal> {
    Verifier::parse(NODE).unwrap().verify(content, signature)
}

#[test]
fn both_forms_are_taken() {
    // The comment that the real minisign writes by default.
    assert_eq!(verify(V1, Some(HASHED)), Ok(Edition::Timestamp(1_790_000_000)));
    assert!(verify(V1, Some(LEGACY)).is_ok());
    let crlf = String::from_utf8(HASHED.to_vec()).unwrap().replace('\n', "\r\n");
    assert!(verify(V1, Some(crlf.as_bytes())).is_ok());
}

#[test]
fn everything_else_is_refused_with_a_reason() {
    let check = |content: &[u8], signature: Option<&[u8]>, expected: &str| {
        assert_eq!(verify(content, signature).unwrap_err().to_string(), expected);
    };
    check(V1, None, "is not signed: there is no .minisig beside it");
    let mismatch = format!("its signature with key {NODE_ID} does not match: one of the two was changed");
    check(V2, Some(HASHED), &mismatch);
    check(b"", Some(HASHED), &mismatch);
    let other = format!("is signed with key {OTHER_ID}, which is not trusted here (trusted: {NODE_ID})");
    check(V1, Some(BY_OTHER), &other);
    let twice = Verifier::parse(&[NODE, NODE].join("\n")).unwrap();
    assert_eq!(twice.verify(V1, Some(BY_OTHER)).unwrap_err().to_string(), other, "each key once");
    let cut = "its signature (.minisig) is malformed: it is cut short or not in minisign's format";
    check(V1, Some(b""), cut);
    check(V1, Some(V1), cut);
    check(V1, Some(NODE.as_bytes()), cut);
    check(V1, Some(&HASHED[..HASHED.len() - 20]), cut);
    check(V1, Some(b"\xff"), "its signature (.minisig) is malformed: it is not UTF-8");
    let large = vec![b'a'; limits::SIGNATURE_BYTES + 1];
    check(V1, Some(&large), "its signature (.minisig) is malformed: it is too large");
}

#[test]
fn a_trusted_comment_that_was_changed_is_refused() {
    let text = String::from_utf8(HASHED.to_vec()).unwrap();
    let forged = text.replace("file:v1.yaml", "file:v2.yaml");
    assert_ne!(forged, text);
    assert_eq!(verify(V1, Some(forged.as_bytes())), Err(Refusal::Mismatch(NODE_ID.into())));
}

#[test]
fn keys_are_rotated_by_trusting_both() {
    let both = Verifier::parse(&format!("# old\n{NODE}\n# new\n{OTHER}")).unwrap();
    assert!(both.verify(V1, Some(HASHED)).is_ok());
    assert!(both.verify(V1, Some(BY_OTHER)).is_ok());
    let bare = Verifier::parse(OTHER.lines().nth(1).unwrap()).unwrap();
    assert!(bare.verify(V1, Some(BY_OTHER)).is_ok());
    assert!(bare.verify(V1, Some(HASHED)).is_err());
}

#[test]
fn key_files_that_are_none() {
    let check = |text: &str, expected: &str| assert_eq!(Verifier::parse(text).unwrap_err(), expected);
    check("", "holds no minisign public key");
    check("untrusted comment: nothing else\n", "holds no minisign public key");
    check("RWQ=", "line 1 is no minisign public key: it is cut short or not in minisign's format");
    let secret = "untrusted comment: minisign encrypted secret key\nRWRTY0IyAAAA\n";
    check(secret, "line 2 is no minisign public key: it is cut short or not in minisign's format");
    check(&"#\n".repeat(5), "holds no minisign public key");
    let error = Verifier::load(&["/nonexistent/key".into()]).unwrap_err();
    assert!(
        matches!(&error, KeyFileError::Unread(why) if why.starts_with("/nonexistent/key: cannot be read"))
    );
    let error = Verifier::load(&[concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into()]).unwrap_err();
    assert!(
        matches!(&error, KeyFileError::Invalid(why) if why.contains("Cargo.toml: line 1 is no minisign"))
    );
}

#[test]
fn ids_are_minisigns() {
    assert!(NODE.contains(NODE_ID) && OTHER.contains(OTHER_ID));
    assert_eq!(key_id(NODE.lines().nth(1).unwrap()), NODE_ID);
    assert_eq!(key_id("RW"), "?");
    assert_eq!(key_id("RWQ!..............."), "?");
}

#[test]
fn the_signature_is_beside_the_manifest() {
    assert_eq!(beside(Path::new("/m/web.yaml")), Path::new("/m/web.yaml.minisig"));
}

/// Flips every bit of the three lines that count. The first line is minisign's untrusted comment, which anyone may
/// write.
#[test]
fn every_flipped_bit_of_a_signature_is_refused() {
    for signature in [HASHED, LEGACY] {
        let first = signature.iter().position(|b| *b == b'\n').unwrap();
        // The newline at the end does not count.
        for at in first..signature.len() - 1 {
            for bit in 0..8 {
                let mut flipped = signature.to_vec();
                flipped[at] ^= 1 << bit;
                assert!(verify(V1, Some(&flipped)).is_err(), "byte {at}, bit {bit}");
            }
        }
    }
}

proptest! {
    #[test]
    fn a_flipped_bit_of_content_is_refused(at in 0..V1.len(), bit in 0..8u8, legacy: bool) {
        let mut flipped = V1.to_vec();
        flipped[at] ^= 1 << bit;
        let signature = if legacy { LEGACY } else { HASHED };
        prop_assert_eq!(verify(&flipped, Some(signature)), Err(Refusal::Mismatch(NODE_ID.into())));
        prop_assert!(verify(&V1[..at], Some(signature)).is_err());
    }

    #[test]
    fn random_text_is_no_signature(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,200}") {
        prop_assert!(verify(V1, Some(&bytes)).is_err());
        prop_assert!(verify(V1, Some(text.as_bytes())).is_err());
        let _ = Verifier::parse(&text);
    }

    /// The right format with random keys and numbers: the arithmetic handles any of them.
    #[test]
    fn random_numbers_are_no_signature(first: [u8; 32], second: [u8; 32], form: bool) {
        let text = String::from_utf8(HASHED.to_vec()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let signature = base64(&[&head(form)[..], &first, &second].concat());
        let forged = format!("{}\n{signature}\n{}\n{}\n", lines[0], lines[2], lines[3]);
        prop_assert_eq!(verify(V1, Some(forged.as_bytes())), Err(Refusal::Mismatch(NODE_ID.into())));
    }
}

/// Algorithm and key id of a signature.
fn head(hashed: bool) -> Vec<u8> {
    let id = u64::from_str_radix(NODE_ID, 16).unwrap();
    [if hashed { b"ED" } else { b"Ed" }.as_slice(), &id.to_le_bytes()].concat()
}

#[test]
fn a_signature_for_other_nodes_is_refused() {
    let signer = Signer::new();
    let verifier = signer.verifier().of_node("edge-1", Some("harbour"));
    let check = |comment: &str, expected: &str| {
        let said = match verifier.verify(b"pod", Some(&signer.sign(b"pod", comment))) {
            Ok(_) => String::new(),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(said, expected, "{comment}");
    };
    for good in [
        "",
        "timestamp:1\tfile:web.yaml",
        "node:edge-1",
        "node:edge-0,edge-1 file:x",
        "timestamp:1\tnode:EDGE-1",
        "group:harbour",
        "node:edge-9 group:harbour",
        "for node edge-9",
    ] {
        check(good, "");
    }
    for (comment, named) in [
        ("node:edge-2", r#"node "edge-2""#),
        ("timestamp:1\tnode:edge-2,edge-3\tgroup:hill", r#"node "edge-2", node "edge-3", group "hill""#),
        // A space after the colon or a comma ends the word.
        ("node: edge-1", r#"node """#),
        // The value of a label is compared with case.
        ("group:Harbour", r#"group "Harbour""#),
    ] {
        let words = "is signed for other nodes: its trusted comment names";
        check(comment, &format!(r#"{words} {named}, and this is node "edge-1" of group "harbour""#));
    }
    // A verifier without a node's name refuses a content for named nodes; a changed comment is refused too.
    let bound = signer.sign(b"pod", "node:edge-2");
    assert!(signer.verifier().verify(b"pod", Some(&bound)).is_err());
    let forged = String::from_utf8(bound).unwrap().replace("edge-2", "edge-1");
    assert!(matches!(verifier.verify(b"pod", Some(forged.as_bytes())), Err(Refusal::Mismatch(_))));
}

/// It would be accepted on every node.
#[test]
fn a_comment_whose_words_are_misspelt_is_refused() {
    let signer = Signer::new();
    let verifier = signer.verifier().of_node("edge-1", Some("harbour"));
    let said = |comment: &str| verifier.verify(b"pod", Some(&signer.sign(b"pod", comment)));
    for comment in ["nodes:edge-2", "node:edge-1 Group:harbour", "version:3 nodes:edge-1", "node=edge-1"] {
        let refusal = said(comment).unwrap_err();
        assert!(matches!(refusal, Refusal::Misspelt(..)), "{comment}");
    }
    let text = said("nodes:edge-2").unwrap_err().to_string();
    assert!(
        text.starts_with("its trusted comment says \"nodes:\", which means nothing: node: is meant?"),
        "{text}"
    );
    for comment in ["timestamp:1\tfile:web.yaml\thashed", "note:for nodes", "node:edge-1 by:ci"] {
        assert!(said(comment).is_ok(), "{comment}");
    }
}

#[test]
fn an_edition_below_the_least_that_is_taken_is_refused() {
    let signer = Signer::new();
    let check = |least: &str, comment: &str, expected: &str| {
        let verifier = signer.verifier().at_least(Edition::parse(least).unwrap());
        let said = match verifier.verify(b"pod", Some(&signer.sign(b"pod", comment))) {
            Ok(edition) => edition.to_string(),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(said, expected, "{least} {comment}");
    };
    check("5", "version:5", "version 5");
    check("5", "version:4", "has version 4, and --manifest-min-version asks for version 5 or higher");
    // A time is no version, however large.
    check("5", "timestamp:9", "has timestamp 9, and --manifest-min-version asks for version 5 or higher");
    check("5", "", "has no version, and --manifest-min-version asks for version 5 or higher");
    check("timestamp:5", "timestamp:5", "timestamp 5");
    check("timestamp:5", "version:1", "version 1");
    check("0", "timestamp:5", "has timestamp 5, and --manifest-min-version asks for version 0 or higher");
    let twice = "its signature (.minisig) is malformed: its trusted comment names more than one version";
    check("0", "version:5 version:5", twice);
    // Anyone may write the first line.
    let forged = String::from_utf8(signer.sign(b"pod", "version:1")).unwrap();
    let forged = forged.replace("untrusted comment: x", "untrusted comment: version:9");
    assert_eq!(signer.verifier().verify(b"pod", Some(forged.as_bytes())), Ok(Edition::Version(1)));
    let forged = forged.replace("trusted comment: version:1", "trusted comment: version:9");
    assert!(matches!(signer.verifier().verify(b"pod", Some(forged.as_bytes())), Err(Refusal::Mismatch(_))));
}
