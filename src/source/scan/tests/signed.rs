//! Tests of signatures, and of contents whose signature is late, wrong or missing.

use super::*;
use crate::source::signature::Verifier;

const KEY: &str = include_str!("../../../../tests/golden/signature/node.pub");
const OTHER: &str = include_str!("../../../../tests/golden/signature/other.pub");
const V1: &str = include_str!("../../../../tests/golden/signature/v1.yaml");
const V2: &str = include_str!("../../../../tests/golden/signature/v2.yaml");
const BAD: &str = include_str!("../../../../tests/golden/signature/bad.yaml");
const SIG1: &str = include_str!("../../../../tests/golden/signature/v1.minisig");
const SIG2: &str = include_str!("../../../../tests/golden/signature/v2.minisig");
const SIG_BAD: &str = include_str!("../../../../tests/golden/signature/bad.minisig");

fn trusting(bench: &mut Bench, keys: &str) {
    bench.scanner.acceptor.decode = crate::manifest::decode;
    bench.scanner.acceptor.verifier = Some(std::sync::Arc::new(Verifier::parse(keys).unwrap()));
}

/// A bench of `/m/a.yaml` and its signature, looked at.
fn bench(content: &str, signature: Option<&str>) -> (Bench, String) {
    let mut bench = Bench::of("/m");
    trusting(&mut bench, KEY);
    bench.disk.put("/m", Node::Directory);
    put(&bench, Some(content), signature, 0);
    let said = said(&mut bench, 0);
    (bench, said)
}

fn put(bench: &Bench, content: Option<&str>, signature: Option<&str>, written: i64) {
    for (path, text) in [("/m/a.yaml", content), ("/m/a.yaml.minisig", signature)] {
        if let Some(text) = text {
            bench.disk.file(path, text, written);
        }
    }
}

/// The result of a later scan, such as `v1; /m/a.yaml: is not …`.
fn said(bench: &mut Bench, millis: u64) -> String {
    bench.millis += millis;
    match bench.scan(&Hints { look: true, ..Hints::default() }).update {
        None => String::new(),
        Some(SourceUpdate::Full(set)) => {
            let version = |pod: &Arc<crate::pod::DesiredPod>| {
                let script = pod.spec.containers[0].command.clone().unwrap().remove(2);
                format!("v{}", &script.split("version ").nth(1).unwrap()[..1])
            };
            let pods: Vec<String> = set.pods.iter().map(version).collect();
            let mut words = vec![pods.join(" ")];
            words.extend(set.problems.iter().map(ToString::to_string));
            words.join("; ")
        }
        Some(other) => words(&other),
    }
}

#[test]
fn only_signed_content_is_taken() {
    assert_eq!(bench(V1, Some(SIG1)).1, "v1");
    assert_eq!(bench(V1, None).1, "; /m/a.yaml: is not signed: there is no .minisig beside it");
    let refused = bench(V2, Some(SIG1)).1;
    assert!(refused.starts_with("; /m/a.yaml: its signature with key"), "{refused}");
    // A signed manifest may still be bad.
    let refused = bench(BAD, Some(SIG_BAD)).1;
    assert!(refused.starts_with("; /m/a.yaml:") && !refused.contains("signature"), "{refused}");
}

#[test]
fn two_files_are_replaced_in_any_order_without_an_alarm() {
    for content_first in [true, false] {
        let (mut bench, first) = bench(V1, Some(SIG1));
        assert_eq!(first, "v1");
        let halves = [(Some(V2), None), (None, Some(SIG2))];
        let [one, other] = if content_first { halves } else { [halves[1], halves[0]] };
        put(&bench, one.0, one.1, 1000);
        assert_eq!(said(&mut bench, 0), "", "{content_first}");
        assert_eq!(said(&mut bench, 1900), "");
        put(&bench, other.0, other.1, 1002);
        // At once: a manifest with a valid signature needs no second look.
        assert_eq!(said(&mut bench, 10), "v2");
        assert_eq!(said(&mut bench, 10_000), "");
    }
}

#[test]
fn what_stays_wrong_is_told_and_what_runs_stays() {
    let (mut bench, _) = bench(V1, Some(SIG1));
    put(&bench, Some(V2), None, 1000);
    assert_eq!(said(&mut bench, 0), "");
    let wrong = said(&mut bench, 2000);
    assert!(wrong.starts_with("v1; /m/a.yaml: its signature with key"), "{wrong}");
    assert_eq!(said(&mut bench, 10_000), "");
    // The signature alone makes it valid.
    put(&bench, None, Some(SIG2), 1020);
    assert_eq!(said(&mut bench, 0), "v2");
    // Without the signature it is not accepted.
    bench.disk.remove("/m/a.yaml.minisig");
    assert_eq!(said(&mut bench, 20_000), "");
    assert_eq!(said(&mut bench, 2000), "v2; /m/a.yaml: is not signed: there is no .minisig beside it");
    // The signature is put back: the content counts again.
    put(&bench, None, Some(SIG2), 1050);
    assert_eq!(said(&mut bench, 0), "v2");
}

#[test]
fn a_signature_that_cannot_be_read_is_no_verdict() {
    let (mut bench, _) = bench(V1, Some(SIG1));
    let kept = "what was made from it is kept";
    let of = "v1; /m/a.yaml: its signature (*.minisig)";
    bench.disk.put("/m/a.yaml.minisig", Node::Unreadable(io::ErrorKind::TimedOut));
    assert_eq!(said(&mut bench, 3000), format!("{of} cannot be read: timed out; {kept}"));
    bench.disk.put("/m/a.yaml.minisig", Node::Special);
    assert_eq!(said(&mut bench, 3000), format!("{of} is not a regular file; {kept}"));
    put(&bench, None, Some(SIG1), 0);
    assert_eq!(said(&mut bench, 3000), "v1");
}

#[test]
fn what_is_remembered_must_be_signed_with_a_key_of_today() {
    let mut bench = Bench::of("/m");
    trusting(&mut bench, KEY);
    bench.disk.put("/m", Node::Directory);
    put(&bench, Some(V1), Some(SIG1), 0);
    let mut memory = Memory::default();
    memory.take(&bench.scan(&Hints::default()));
    put(&bench, Some("torn"), None, 0);
    let check = |memory: &Memory, keys: Option<&str>, expected: &str| {
        let mut next = Bench { disk: bench.disk.clone(), ..Bench::of("/m") };
        next.scanner.disk = Box::new(bench.disk.clone());
        next.scanner.acceptor.decode = crate::manifest::decode;
        if let Some(keys) = keys {
            trusting(&mut next, keys);
        }
        let replayed = replay(memory.0.values().cloned().collect(), &next.scanner.acceptor);
        next.scanner.restore(replayed);
        let told = said(&mut next, 0);
        assert!(told.starts_with(expected), "{told}");
    };
    check(&memory, Some(KEY), "v1; /m/a.yaml: its signature with");
    check(&memory, Some(&format!("{KEY}{OTHER}")), "v1; ");
    check(&memory, Some(OTHER), "; /m/a.yaml: is signed with key");
    check(&memory, None, "v1; ");
    // Content that was stored before signatures were required.
    memory.0.values_mut().for_each(|c| c.signature = None);
    check(&memory, Some(KEY), "; ");
    check(&memory, None, "v1; ");
}
