//! Volumes in memory: how much a pod and a source get, and what stays of volumes that are refused.

use super::*;
use crate::pod::object::testing::secret;

/// Volumes of this Secret.
fn volumes(names: std::ops::Range<u32>) -> String {
    let one = |n| format!("{{name: v{n}, secret: {{secretName: s}}}}");
    format!("[{}]", names.map(one).collect::<Vec<_>>().join(", "))
}

/// A Secret of this many KiB.
fn of_size(kib: usize) -> String {
    secret("s", &format!("{{p: {}}}", "x".repeat(kib * 1024)))
}

fn mounts_below(rig: &Rig) -> usize {
    mounts::below(&mounts::table().unwrap(), &fs::canonicalize(&rig.base).unwrap()).len()
}

/// Hundreds of volumes were mounted although all of their files were refused.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn a_pod_that_is_refused_memory_leaves_no_mount() {
    let rig = rig("set-up-memory-refused");
    // An eighth of the node's memory are 128 MiB.
    let why = rig.set_up("a", &volumes(0..300), &of_size(450));
    assert_eq!(why.matches("in memory").count(), 1, "one refusal ends the pass: {why}");
    assert_eq!(mounts_below(&rig), 0);
    // It kept nothing of it, neither for itself nor from others.
    assert_eq!(rig.set_up("a", &volumes(0..100), &of_size(450)), "");
    let other = rig.beside("q");
    let why = other.set_up("b", &volumes(0..200), &of_size(450));
    assert!(why.contains("of it this pod"), "{why}");
    assert_eq!(mounts_below(&rig), 100);
    rig.tear_down("a").unwrap();
    assert_eq!(other.set_up("b", &volumes(0..200), &of_size(450)), "");
    other.tear_down("b").unwrap();
    rig.end();
}
