//! Tests with tables, on a disk in memory and a clock of the test's own; on the real disk only where it matters.

mod deletions;
mod places;
mod remembered;
mod roll_back;
mod signed;

use std::time::Duration;

use super::*;
use crate::base::clock::Timestamp;
use crate::pod::Source;
use crate::source::accept::Acceptor;
use crate::source::last_good::replay::replay;
use crate::source::testing::{DECODED, FakeDisk, Node, TempDir, decode, names, words};

/// A scanner of `/m` and its world. The wall clock starts at second 1000, the monotonic one at 0.
struct Bench {
    disk: FakeDisk,
    scanner: Scanner,
    millis: u64,
}

impl Bench {
    fn of(path: &str) -> Bench {
        let disk = FakeDisk::default();
        let mut scanner = Scanner::new(path.into(), Acceptor::new(Source::File, "node1".into()));
        scanner.disk = Box::new(disk.clone());
        scanner.acceptor.decode = decode;
        Bench { disk, scanner, millis: 0 }
    }
    /// A directory `/m` with these files, written long ago, that has been looked at.
    fn with(files: &[(&str, &str)]) -> Bench {
        let mut bench = Bench::of("/m");
        bench.disk.put("/m", Node::Directory);
        for (name, content) in files {
            bench.disk.file(&format!("/m/{name}"), content, 0);
        }
        bench.look();
        bench
    }
    fn now(&self) -> Now {
        let wall = Timestamp::from_millisecond(1_000_000 + i64::try_from(self.millis).unwrap()).unwrap();
        Now { mono: Mono(Duration::from_millis(self.millis)), wall }
    }
    fn scan(&mut self, hints: &Hints) -> ScanOutcome {
        self.scanner.scan(self.now(), hints)
    }
    fn tell(&mut self, hints: &Hints) -> String {
        self.scan(hints).update.map(|u| words(&u)).unwrap_or_default()
    }
    /// The update of a scan without hints; empty for none.
    fn look(&mut self) -> String {
        self.tell(&Hints { look: true, ..Hints::default() })
    }
    fn look_after(&mut self, millis: u64) -> String {
        self.millis += millis;
        self.look()
    }
    fn written(&mut self, name: &str) -> String {
        let mut hints = Hints::default();
        hints.finished(name);
        self.tell(&hints)
    }
    fn deleted(&mut self, names: &[&str]) -> String {
        self.tell(&gone(names))
    }
}
fn gone(names: &[&str]) -> Hints {
    let mut hints = Hints::default();
    names.iter().for_each(|n| hints.gone(n));
    hints
}

fn pods_sent(outcome: &ScanOutcome) -> Option<usize> {
    match &outcome.update {
        Some(SourceUpdate::Full(set)) => Some(set.pods.len()),
        _ => None,
    }
}

/// Keeps the accepted contents of scans, as the store does.
#[derive(Default)]
struct Memory(std::collections::BTreeMap<(String, Version), Remembered>);

impl Memory {
    fn take(&mut self, outcome: &ScanOutcome) {
        for (content, needed) in &outcome.accepted {
            self.0.retain(|(path, version), _| *path != content.path || needed.contains(version));
            self.0.insert((content.path.clone(), content.version), content.clone());
        }
    }
    /// A scanner that starts from these contents, on the same disk.
    fn restart(&self, bench: &Bench) -> Bench {
        let mut next = Bench { disk: bench.disk.clone(), millis: bench.millis, ..Bench::of("/m") };
        next.scanner.disk = Box::new(bench.disk.clone());
        next.scanner.restore(replay(self.0.values().cloned().collect(), &next.scanner.acceptor));
        next
    }
}

/// A directory with two files that were read and stored.
fn remembered() -> (Bench, Memory) {
    let mut bench = Bench::with(&[]);
    bench.disk.file("/m/a.yaml", "pod a", 0);
    bench.disk.file("/m/b.yaml", "pod b\nwarn", 0);
    bench.millis = 10_000;
    bench.scan(&Hints::default());
    bench.millis += 1000;
    let mut memory = Memory::default();
    memory.take(&bench.scan(&Hints::default()));
    assert_eq!(memory.0.len(), 2);
    (bench, memory)
}

#[test]
fn k136962_backup_and_swap_files_are_nobodys_pods() {
    let check = |name: &str, expected: bool| assert_eq!(is_manifest_name(name), expected, "{name}");
    for good in ["a.yaml", "a.yml", "a.json", "a.b.yaml", "-.json", "~.yaml", "ü.yaml"] {
        check(good, true);
    }
    for bad in [
        "a.yaml.backup",
        "a.yaml~",
        "a.yaml.swp",
        ".a.yaml.swp",
        ".a.yaml",
        "a.yaml.bak",
        "a",
        "a.txt",
        "#a.yaml#",
        "4913",
        "a.YAML",
        ".yaml",
        "yaml",
        "..data",
        "a.yaml.tmp",
        "",
    ] {
        check(bad, false);
    }
    let files = [("a.yaml", "pod a"), ("a.yaml.backup", "pod b"), ("a.yaml~", "pod c"), (".a.yaml", "pod d")];
    let bench = Bench::with(&files);
    assert_eq!(bench.disk.reads(), 1);
}

#[test]
fn the_first_look_takes_what_nobody_wrote_of_late() {
    let mut bench = Bench::of("/m");
    bench.disk.put("/m", Node::Directory);
    bench.disk.file("/m/a.yaml", "pod a", 998);
    bench.disk.file("/m/b.yaml", "pod b", 999);
    // A file from the future: the clock may have been set back.
    bench.disk.file("/m/c.yaml", "pod c", 5000);
    assert_eq!(bench.look(), "a; broken /m/b.yaml; broken /m/c.yaml");
    assert_eq!(bench.look_after(199), "");
    assert_eq!(bench.look_after(1), "a b c");
    assert_eq!(bench.look_after(20_000), "");
}

#[test]
fn new_content_is_believed_at_once_when_its_writer_finished() {
    let mut bench = Bench::with(&[("a.yaml", "pod a")]);
    bench.disk.file("/m/b.yaml", "pod b", 1000);
    assert_eq!(bench.written("b.yaml"), "a b");
    bench.disk.file("/m/a.yaml", "pod a2", 1000);
    assert_eq!(bench.written("a.yaml"), "a2 b");
    assert_eq!(bench.scan(&Hints::default()).settle, None);
}

/// Regression: the images of pods whose files had been written a moment before the start were collected.
#[test]
fn the_first_set_is_partial_while_a_file_is_not_read_yet() {
    let mut bench = Bench::of("/m");
    bench.disk.put("/m", Node::Directory);
    bench.disk.file("/m/a.yaml", "pod a", 0);
    bench.disk.file("/m/b.yaml", "pod b", bench.now().wall.as_millisecond());
    let mut sets = Vec::new();
    for _ in 0..3 {
        if let Some(SourceUpdate::Full(set)) = bench.scan(&Hints { look: true, ..Hints::default() }).update {
            sets.push((set.pods.len(), set.is_partial));
        }
        bench.millis += 1000;
    }
    bench.disk.file("/m/c.yaml", "pod c", bench.now().wall.as_millisecond());
    let later = bench.scan(&Hints::default()).update;
    assert!(matches!(later, Some(SourceUpdate::Full(set)) if !set.is_partial), "only at the start");
    assert_eq!(sets, [(1, true), (2, false)]);
}

/// Nothing may wait for ever for a file that changes all the time.
#[test]
fn a_file_that_never_settles_keeps_the_first_set_partial_for_a_while_only() {
    let mut bench = Bench::of("/m");
    bench.disk.put("/m", Node::Directory);
    bench.disk.file("/m/a.yaml", "pod a", 0);
    let mut partial = Vec::new();
    for second in 0..60 {
        bench.disk.file("/m/b.yaml", &format!("pod b{second}"), bench.now().wall.as_millisecond());
        if let Some(SourceUpdate::Full(set)) = bench.scan(&Hints { look: true, ..Hints::default() }).update {
            partial.push((second, set.is_partial));
        }
        bench.millis += 1000;
    }
    assert_eq!(partial, [(0, true), (limits::SCAN_PARTIAL.as_secs(), false)]);
}

#[test]
fn new_content_without_a_hint_needs_two_equal_looks() {
    let mut bench = Bench::with(&[("a.yaml", "pod a")]);
    bench.disk.file("/m/a.yaml", "pod x", 1000);
    bench.disk.file("/m/b.yaml", "pod b", 1000);
    let outcome = bench.scan(&Hints::default());
    // The known file keeps its pods; the new one is not usable yet.
    assert_eq!(words(&outcome.update.unwrap()), "a; broken /m/b.yaml");
    assert_eq!(outcome.settle, Some(Mono(limits::SCAN_SETTLE)));
    // A scan in between, for another file, decides nothing.
    assert_eq!(bench.look_after(100), "");
    bench.disk.file("/m/b.yaml", "pod bb", 1000);
    bench.millis += 100;
    let outcome = bench.scan(&Hints::default());
    assert_eq!(words(&outcome.update.unwrap()), "x; broken /m/b.yaml");
    // It changed when it was due: the next scan is later.
    assert_eq!(outcome.settle, Some(Mono(limits::SCAN_SETTLE * 3)));
    assert_eq!(bench.look_after(200), "x bb");
}

#[test]
fn equal_content_with_new_times_is_not_settled() {
    let mut bench = Bench::with(&[]);
    bench.disk.file("/m/a.yaml", "pod a", 1000);
    bench.look();
    bench.disk.file("/m/a.yaml", "pod a", 1001);
    assert_eq!(bench.look_after(200), "");
    assert_eq!(bench.look_after(200), "a");
}

#[test]
fn a_file_that_never_rests_is_looked_at_ever_less_often() {
    let mut bench = Bench::with(&[]);
    bench.disk.put("/m/a.yaml", Node::Restless("pod a".into()));
    let mut waits = Vec::new();
    for _ in 0..9 {
        let due = bench.scan(&Hints::default()).settle.unwrap();
        waits.push(due.since(bench.now().mono).as_millis());
        bench.millis = u64::try_from(due.0.as_millis()).unwrap();
    }
    assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12_800, 12_800, 12_800]);
    // Even with a hint, half a file is not complete.
    assert_eq!(bench.written("a.yaml"), "");
}

#[test]
fn k252_bad_content_never_replaces_good() {
    let check = |content: &str, problem: &str| {
        let mut bench = Bench::with(&[("a.yaml", "pod a")]);
        bench.disk.file("/m/a.yaml", content, 1000);
        // Even with a hint: the rest may be about to be written.
        assert_eq!(bench.written("a.yaml"), "", "{problem}");
        assert_eq!(bench.look_after(200), format!("a; broken /m/a.yaml; /m/a.yaml: {problem}"));
        assert_eq!(bench.look_after(20_000), "");
        bench.disk.file("/m/a.yaml", "pod b", 1001);
        assert_eq!(bench.written("a.yaml"), "b");
    };
    check("po", "bad line");
    check("pod c\nbad", "bad line");
    check("", "is empty");
    check(" \n\t\r\n", "is empty");
    let huge = "pod a\n".repeat(limits::MANIFEST_BYTES / 6 + 1);
    check(&huge, "is larger than the 1048576 bytes a manifest may have: not read");
}

#[test]
fn k252_truncate_then_write() {
    let mut bench = Bench::with(&[("a.yaml", "pod a")]);
    bench.disk.file("/m/a.yaml", "", 1000);
    assert_eq!(bench.look(), "");
    bench.disk.file("/m/a.yaml", "pod b", 1000);
    assert_eq!(bench.written("a.yaml"), "b");
}

#[test]
fn a_file_that_never_was_good_is_broken_and_the_others_count() {
    let mut bench = Bench::of("/m");
    bench.disk.put("/m", Node::Directory);
    bench.disk.file("/m/a.yaml", "bad", 0);
    bench.disk.file("/m/b.yaml", "pod b\nwarn", 0);
    assert_eq!(bench.look(), "b; broken /m/a.yaml; /m/a.yaml: bad line; /m/b.yaml: hm");
    bench.disk.remove("/m/a.yaml");
    assert_eq!(bench.look(), "b; /m/b.yaml: hm");
}

#[test]
fn content_is_decoded_once_and_read_only_when_it_may_have_changed() {
    let mut bench = Bench::with(&[("a.yaml", "pod a")]);
    bench.disk.file("/m/b.yaml", "pod b", 1000);
    bench.written("b.yaml");
    DECODED.set(0);
    let reads = bench.disk.reads();
    // A file of the last second: another write might have the same size and time.
    bench.look_after(1);
    assert_eq!(bench.disk.reads(), reads + 1);
    // The first scan that is late enough is the last one that reads.
    bench.look_after(3000);
    bench.look_after(20_000);
    bench.look_after(20_000);
    assert_eq!(bench.disk.reads(), reads + 2);
    // Touched, without a change.
    bench.disk.file("/m/a.yaml", "pod a", 1040);
    assert_eq!(bench.written("a.yaml"), "");
    assert_eq!(DECODED.get(), 0);
    // Changed and changed back, without a hint that a writer finished.
    bench.disk.file("/m/a.yaml", "pod x", 1041);
    bench.look();
    bench.disk.file("/m/a.yaml", "pod a", 1042);
    assert_eq!(bench.look_after(200), "");
    assert_eq!(bench.scan(&Hints::default()).settle, None);
    assert_eq!(DECODED.get(), 0);
}

/// `printf 'kind: Pod' >a.yaml; ln -sfn /nowhere a.yaml` within the time of settling, and its relatives.
#[test]
fn a_file_that_is_still_settling_and_becomes_unreadable_is_not_due() {
    for node in [
        Node::Dangling,
        Node::Fault(io::ErrorKind::PermissionDenied),
        Node::Unreadable(io::ErrorKind::TimedOut),
        Node::Directory,
        Node::Special,
    ] {
        let mut bench = Bench::with(&[("b.yaml", "pod b")]);
        bench.disk.file("/m/a.yaml", "bad", 1000);
        assert_eq!(bench.written("a.yaml"), "b; broken /m/a.yaml");
        bench.disk.put("/m/a.yaml", node.clone());
        bench.millis += 100;
        assert_eq!(bench.scan(&Hints::default()).settle, None, "{node:?}");
        bench.millis += 10_000;
        assert_eq!(bench.scan(&Hints::default()).settle, None, "{node:?}");
        bench.disk.file("/m/a.yaml", "pod a", 1011);
        assert_eq!(bench.written("a.yaml"), "a b", "{node:?}");
    }
}

#[test]
fn an_unreadable_file_recovers_with_the_same_content() {
    let mut bench = Bench::with(&[("a.yaml", "pod a")]);
    bench.disk.put("/m/a.yaml", Node::Unreadable(io::ErrorKind::TimedOut));
    assert!(bench.look().contains("broken"));
    bench.disk.file("/m/a.yaml", "pod a", 0);
    assert_eq!(bench.look(), "a");
}

#[test]
fn past_the_bound_known_files_stay() {
    let mut bench = Bench::with(&[("z.yaml", "pod z")]);
    for n in 0..limits::MANIFEST_FILES + 1 {
        bench.disk.file(&format!("/m/{n:05}.yaml"), &format!("pod p{n:05}"), 0);
    }
    bench.look();
    bench.millis += 200;
    let outcome = bench.scan(&Hints::default());
    let Some(SourceUpdate::Full(set)) = outcome.update else { panic!("nothing sent") };
    assert_eq!(set.pods.len(), limits::MANIFEST_FILES);
    assert_eq!(names(&set)[limits::MANIFEST_FILES - 2..], ["p04094", "z"]);
    assert_eq!(
        set.problems[0].to_string(),
        "/m: 2 manifest files more than the 4096 that are read: the last new ones by name are ignored"
    );
}

#[test]
fn more_problems_than_are_kept() {
    let mut bench = Bench::of("/m");
    bench.disk.put("/m", Node::Directory);
    for n in 0..limits::PROBLEMS_PER_SOURCE + 3 {
        bench.disk.file(&format!("/m/{n:05}.yaml"), "bad", 0);
    }
    let Some(SourceUpdate::Full(set)) = bench.scan(&Hints::default()).update else { panic!("nothing sent") };
    assert_eq!(set.broken.len(), limits::PROBLEMS_PER_SOURCE + 3);
    assert_eq!(set.problems.len(), limits::PROBLEMS_PER_SOURCE + 1);
    assert_eq!(set.problems.last().unwrap().to_string(), "/m: 3 more problems are not shown");
}

#[test]
fn too_many_names_in_the_hints_become_a_plain_look() {
    let mut hints = Hints::default();
    for n in 0..limits::MANIFEST_FILES {
        hints.finished(&n.to_string());
    }
    assert!(!hints.look);
    hints.finished("one more");
    assert!(hints.look);
    assert_eq!(hints.written.len(), limits::MANIFEST_FILES);
    // The last hint about a file counts.
    hints.gone("0");
    assert!(!hints.written.contains("0") && hints.deleted.contains("0"));
    hints.finished("0");
    assert!(hints.written.contains("0") && !hints.deleted.contains("0"));
}
