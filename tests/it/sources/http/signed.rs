//! Signed answers of the server.

use super::*;

#[test]
fn only_what_a_trusted_key_has_signed_is_looked_at() {
    let golden = |name: &str| {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/signature");
        fs::read(directory.join(name)).unwrap()
    };
    let server = Server::start();
    let serve = |body: &[u8], signature: Option<Vec<u8>>| {
        let body = ok("", body);
        let signature = match signature {
            Some(signature) => ok("", signature),
            None => status("404 Not Found"),
        };
        server.answer(move |head, pipe| match head.split(' ').nth(1) {
            Some("/pods.yaml.minisig") => pipe.write_all(&signature),
            _ => pipe.write_all(&body),
        });
    };
    serve(&golden("v1.yaml"), Some(golden("v1.minisig")));
    let root = scratch();
    let key = Verifier::parse(&String::from_utf8(golden("node.pub")).unwrap()).unwrap();
    let rig = Rig::with(settings(&server.url()), &root, Some(key.clone()));
    assert_eq!(rig.next(), "full signed");
    assert!(server.heads().iter().any(|h| h.starts_with("GET /pods.yaml.minisig ")));
    let refused = |body: &[u8], signature: Option<Vec<u8>>, part: &str| {
        serve(body, signature);
        let told = rig.poll();
        assert!(told.starts_with("refused ") && told.contains(part), "{part}: {told}");
    };
    let v2 = golden("v2.yaml");
    refused(&v2, None, "is not signed");
    refused(&v2, Some(golden("v1.minisig")), "signature");
    refused(&golden("v1.yaml"), Some(golden("v1.other.minisig")), "is signed with key");
    for (place, bit) in [(0, 1), (v2.len() / 2, 0x20), (v2.len() - 1, 0x80)] {
        let mut flipped = v2.clone();
        flipped[place] ^= bit;
        refused(&flipped, Some(golden("v2.minisig")), "signature");
    }
    server.answer(|head, pipe| match head.split(' ').nth(1) {
        Some("/pods.yaml.minisig") => pipe.write_all(&status("500 Internal Server Error")),
        _ => pipe.write_all(&ok("", POD_B)),
    });
    assert!(rig.poll().ends_with(": its signature: the server answers 500 Internal Server Error"));
    // Content is remembered with its signature, and verified with the keys of the next start.
    drop(rig);
    server.answer(|_, pipe| silence(pipe));
    let again = |key: &Verifier| {
        let rig = Rig::with(hasty(&server.url()), &root, Some(key.clone()));
        rig.next()
    };
    assert_eq!(again(&key), "restored signed");
    let other = Verifier::parse(&String::from_utf8(golden("other.pub")).unwrap()).unwrap();
    assert!(again(&other).ends_with("no answer within 700ms"));
    assert_eq!(again(&key), "restored signed");
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn older_signed_answers_of_the_server_are_refused() {
    let (signer, server, root) = (Signer::new(), Server::start(), scratch());
    let serve = |body: &str, comment: &str| {
        let (signature, body) = (ok("", signer.sign(body.as_bytes(), comment)), ok("", body));
        server.answer(move |head, pipe| match head.split(' ').nth(1) {
            Some("/pods.yaml.minisig") => pipe.write_all(&signature),
            _ => pipe.write_all(&body),
        });
    };
    let start = || {
        let key = Verifier::parse(&signer.key()).unwrap();
        Rig::with(settings(&server.url()), &root, Some(key))
    };
    let nothing = r#"{"apiVersion":"v1","kind":"List","items":[]}"#;
    serve(nothing, "version:1");
    let rig = start();
    assert_eq!(rig.next(), "full");
    serve(POD_B, "version:2");
    assert_eq!(rig.poll(), "full b");
    let refused = |told: &str, part: &str| {
        assert!(told.starts_with("refused ") && told.contains(part), "{part}: {told}");
    };
    // An empty answer contains nothing that could be too old, but the answer itself is too old.
    serve(nothing, "version:1");
    refused(&rig.poll(), "has version 1, and URL ");
    serve(POD_A, "timestamp:1790000000");
    refused(&rig.poll(), "has timestamp 1790000000, and URL ");
    // After a restart, too.
    drop(rig);
    serve(nothing, "version:1");
    let rig = start();
    assert_eq!(rig.next(), "restored b");
    refused(&rig.next(), "accepted in version 2 already");
    serve(nothing, "version:3");
    assert_eq!(rig.poll(), "full");
    drop(rig);
    fs::remove_dir_all(&root).unwrap();
}
