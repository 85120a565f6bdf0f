//! Tests of stored contents at a start: they count until the directory can be read.

use super::*;

#[test]
fn what_is_remembered_and_unchanged_is_not_accepted_again() {
    let (bench, memory) = remembered();
    let mut next = memory.restart(&bench);
    DECODED.set(0);
    let outcome = next.scan(&Hints::default());
    assert_eq!(words(outcome.update.as_ref().unwrap()), "a b; /m/b.yaml: hm");
    assert_eq!((outcome.accepted, DECODED.get()), (vec![], 0));
    assert_eq!(outcome.before, None);
}

#[test]
fn a_file_that_is_broken_at_start_keeps_its_last_good_version() {
    let (bench, memory) = remembered();
    let check = |node: Option<Node>, now: &str, later: &str| {
        match node {
            Some(node) => bench.disk.put("/m/a.yaml", node),
            None => bench.disk.remove("/m/a.yaml"),
        }
        let mut next = memory.restart(&bench);
        assert_eq!(next.look(), now);
        assert_eq!(next.look_after(1000), later);
        // It stays stored, and the file counts again when it is good.
        bench.disk.file("/m/a.yaml", "pod a2", 0);
        assert_eq!(memory.restart(&bench).look(), "a2 b; /m/b.yaml: hm");
    };
    let file = |text: &str, written: i64| Some(Node::File(text.into(), written));
    check(file("bad", 0), "a b; broken /m/a.yaml; /m/a.yaml: bad line; /m/b.yaml: hm", "");
    check(file("", 0), "a b; broken /m/a.yaml; /m/a.yaml: is empty; /m/b.yaml: hm", "");
    // The file is just being written: what runs goes on until it is complete.
    check(file("pod ax", 1011), "", "ax b; /m/b.yaml: hm");
    check(
        Some(Node::Unreadable(io::ErrorKind::TimedOut)),
        "a b; broken /m/a.yaml; /m/a.yaml: cannot be read: timed out; what was made from it is kept; \
         /m/b.yaml: hm",
        "",
    );
    check(
        Some(Node::Dangling),
        "a b; broken /m/a.yaml; /m/a.yaml: is a symbolic link to nothing; what was made from it is kept; \
         /m/b.yaml: hm",
        "",
    );
    check(None, "b; /m/b.yaml: hm", "");
}

/// An edit that a policy had refused was taken back, and podkeeper started at once with another policy: the edit, which was
/// in no file any more, replaced what ran for a moment.
#[test]
fn what_is_remembered_of_a_file_that_was_just_written_replaces_nothing_before_the_file_is_read() {
    let (bench, memory) = remembered();
    bench.disk.file("/m/a.yaml", "pod ax", 11_000);
    let mut next = memory.restart(&bench);
    let hints = Hints { look: true, ..Hints::default() };
    let outcome = next.scan(&hints);
    assert_eq!((outcome.before, outcome.update), (None, None));
    assert_eq!(outcome.settle, Some(Mono(Duration::from_millis(next.millis) + limits::SCAN_SETTLE)));
    next.millis += 200;
    assert_eq!(words(&next.scan(&hints).update.unwrap()), "ax b; /m/b.yaml: hm");
    // A file that changes all the time holds nothing up for longer.
    bench.disk.put("/m/a.yaml", Node::Restless("pod ay".into()));
    let mut next = memory.restart(&bench);
    for _ in 0..10 {
        assert_eq!(next.scan(&hints).update, None);
        next.millis += 200;
    }
    assert_eq!(words(&next.scan(&hints).update.unwrap()), "a b; /m/b.yaml: hm");
    // What is new is no reason to wait for.
    bench.disk.file("/m/a.yaml", "pod a", 0);
    bench.disk.put("/m/c.yaml", Node::Restless("pod c".into()));
    assert_eq!(memory.restart(&bench).look(), "a b; broken /m/c.yaml; /m/b.yaml: hm");
}

#[test]
fn k3355_a_source_that_is_missing_at_start_is_restored_once() {
    let (bench, memory) = remembered();
    bench.disk.put("/m", Node::Fault(io::ErrorKind::TimedOut));
    let mut next = memory.restart(&bench);
    let outcome = next.scan(&Hints::default());
    assert_eq!(words(&outcome.before.unwrap()), "Restored(a b; /m/b.yaml: hm)");
    assert!(words(&outcome.update.unwrap()).starts_with("Failed(/m: cannot be read: timed out"));
    let outcome = next.scan(&Hints::default());
    assert_eq!((outcome.before, outcome.update), (None, None));
    bench.disk.put("/m", Node::Directory);
    assert_eq!(next.look(), "a b; /m/b.yaml: hm");
    // Without stored contents nothing is restored.
    bench.disk.put("/m", Node::Fault(io::ErrorKind::TimedOut));
    assert_eq!(Memory::default().restart(&bench).scan(&Hints::default()).before, None);
}

#[test]
fn what_is_gone_at_start_is_gone_but_all_at_once_is_doubted() {
    let (bench, memory) = remembered();
    bench.disk.remove("/m/a.yaml");
    let mut next = memory.restart(&bench);
    assert_eq!(next.look(), "b; /m/b.yaml: hm");
    assert!(next.scanner.holds("/m/b.yaml") && !next.scanner.holds("/m/a.yaml"));
    bench.disk.remove("/m/b.yaml");
    let mut next = memory.restart(&bench);
    assert_eq!(pods_sent(&next.scan(&Hints::default())), None);
    next.millis += 200;
    assert_eq!(pods_sent(&next.scan(&Hints::default())), None);
    next.millis += 200;
    assert_eq!(pods_sent(&next.scan(&Hints::default())), Some(0));
}

#[test]
fn a_volume_that_is_not_mounted_at_start_is_not_empty() {
    let (bench, memory) = remembered();
    // As if all contents had been read from a mount point.
    let mut memory = memory;
    memory.0.values_mut().for_each(|c| c.mounted = true);
    bench.disk.remove("/m/a.yaml");
    bench.disk.remove("/m/b.yaml");
    let mut next = memory.restart(&bench);
    let outcome = next.scan(&Hints::default());
    assert_eq!(words(&outcome.before.unwrap()), "Restored(a b; /m/b.yaml: hm)");
    let why = words(&outcome.update.unwrap());
    assert!(why.starts_with("Failed(/m: it was a mount point and is none now"), "{why}");
    // The volume is mounted: the directory counts again, even when it is empty.
    bench.disk.put("/m/..", Node::OtherVolume);
    for _ in 0..3 {
        next.millis += 200;
        next.look();
    }
    assert_eq!(next.look(), "");
    assert!(!next.scanner.holds("/m/a.yaml"));
    let outcome = {
        bench.disk.file("/m/c.yaml", "pod c", 1000);
        next.millis += 1000;
        next.written("c.yaml")
    };
    assert_eq!(outcome, "c");
}

#[test]
fn what_is_remembered_of_another_path_is_not_restored() {
    let (bench, memory) = remembered();
    let mut next = Bench::of("/n");
    next.scanner.disk = Box::new(bench.disk.clone());
    next.scanner.restore(replay(memory.0.values().cloned().collect(), &next.scanner.acceptor));
    let outcome = next.scan(&Hints::default());
    assert_eq!(outcome.before, None);
    assert!(outcome.failed && !next.scanner.holds("/m/a.yaml"));
}

#[test]
fn forgotten_only_what_is_found_counts() {
    let (bench, memory) = remembered();
    bench.disk.file("/m/a.yaml", "bad", 0);
    let mut next = memory.restart(&bench);
    // One file is broken, the other was just written.
    assert!(next.look().starts_with("a b; broken"));
    bench.disk.file("/m/b.yaml", "pod b2", 1011);
    assert!(next.written("b.yaml").starts_with("a b2; broken"));
    next.scanner.forget();
    let outcome = next.scan(&Hints::default());
    assert_eq!(words(outcome.update.as_ref().unwrap()), "b2; broken /m/a.yaml; /m/a.yaml: bad line");
    assert_eq!(outcome.accepted.len(), 1);
    assert_eq!(next.look_after(1000), "");
    // Then a source that cannot be read has no pods.
    next.scanner.forget();
    bench.disk.put("/m", Node::Fault(io::ErrorKind::TimedOut));
    let outcome = next.scan(&Hints::default());
    assert_eq!(outcome.before, Some(SourceUpdate::Forgotten));
    assert!(outcome.failed && outcome.update.is_some());
    assert_eq!(next.scan(&Hints::default()).before, None);
    bench.disk.put("/m", Node::Directory);
    assert_eq!(next.look(), "b2; broken /m/a.yaml; /m/a.yaml: bad line");
}
