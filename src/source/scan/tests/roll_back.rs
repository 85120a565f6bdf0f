//! Tests of signed contents that were replaced and are put back: at the same path, at another one, across restarts,
//! with a damaged store. The tests sign them; manifests are on a disk in memory, the store on the real one.

mod beside;

use std::fs;

use super::*;
use crate::manifest::edition::{Claim, Edition};
use crate::source::last_good::{Board, LastGood, directory, forget};
use crate::source::testing::Signer;

/// A file source, as its thread uses it.
struct Daemon {
    bench: Bench,
    store: LastGood,
}

/// The disks, which outlive daemons.
struct World {
    disk: FakeDisk,
    temp: TempDir,
    signer: Signer,
    /// `--last-good-key-file`.
    key: Option<PathBuf>,
    /// When the next file is written, in seconds: a file with the same state is not read again.
    now: std::cell::Cell<i64>,
}

impl World {
    fn new() -> World {
        let disk = FakeDisk::default();
        disk.put("/m", Node::Directory);
        World { disk, temp: TempDir::new(), signer: Signer::new(), key: None, now: 1.into() }
    }
    fn put(&self, name: &str, content: &str, comment: &str) {
        let signature = String::from_utf8(self.signer.sign(content.as_bytes(), comment)).unwrap();
        self.now.set(self.now.get() + 1);
        self.disk.file(&format!("/m/{name}"), content, self.now.get());
        self.disk.file(&format!("/m/{name}.minisig"), &signature, self.now.get());
    }
    fn remove(&self, name: &str) {
        self.disk.remove(&format!("/m/{name}"));
        self.disk.remove(&format!("/m/{name}.minisig"));
    }
    /// The store of the URL's source, as its thread starts with it.
    fn url(&self, board: &Board) -> LastGood {
        let mut http = LastGood::new(&self.temp.path(""), None, Source::Http).seen_by(board);
        let _ = http.load();
        http.load_seen();
        http
    }
    fn start(&self) -> Daemon {
        self.start_beside(&Board::default())
    }
    fn start_beside(&self, board: &Board) -> Daemon {
        let mut bench = Bench { disk: self.disk.clone(), ..Bench::of("/m") };
        bench.scanner.disk = Box::new(self.disk.clone());
        bench.scanner.acceptor.verifier = Some(Arc::new(self.signer.verifier()));
        let mut store = LastGood::new(&self.temp.path(""), self.key.as_deref(), Source::File).seen_by(board);
        let remembered = store.load();
        store.load_seen();
        let replayed = replay(remembered, &bench.scanner.acceptor);
        assert!(replayed.iter().all(|of| of.refused.is_none()));
        store.learn(&replayed);
        bench.scanner.restore(replayed);
        Daemon { bench, store }
    }
    fn seen_file(&self) -> PathBuf {
        directory(&self.temp.path(""), Source::File).join("seen")
    }
}

impl Daemon {
    /// The pods in force after all has settled, with the problems.
    fn look(&mut self) -> String {
        let mut said = String::new();
        for _ in 0..3 {
            self.bench.scanner.seen = self.store.seen();
            let outcome = self.bench.scan(&Hints { look: true, ..Hints::default() });
            said = outcome.update.as_ref().map_or(said, words);
            for (content, needed) in outcome.accepted {
                self.store.remember(content, &needed);
            }
            self.store.note(&outcome.signed, || self.bench.scanner.names());
            self.store.retain(|path| self.bench.scanner.holds(path));
            self.bench.millis += 3000;
        }
        self.save();
        said
    }
    fn save(&mut self) {
        while self.store.is_behind(Mono::default()) {
            self.store.save_some(Mono::default());
        }
    }
    /// The report of the store to the operator.
    fn trouble(&mut self) -> Option<String> {
        match self.store.take_news() {
            Some(SourceUpdate::Store(trouble)) => trouble,
            _ => None,
        }
    }
}

/// Checks the pods in force, and the part of the problem that compares old and new.
fn is_refused(said: &str, pods: &str, path: &str, has: &str, seen: &str) {
    let expected = format!("{path}: has {has}, and {seen} already: nothing of it is taken");
    assert!(said.starts_with(&format!("{pods}; ")) && said.contains(&expected), "{said}");
}

#[test]
fn an_older_signed_version_is_refused_by_whatever_name_and_after_a_restart() {
    for (old, new, has, highest) in [
        ("version:1", "version:2", "version 1", "version 2"),
        ("timestamp:100\tfile:web", "timestamp:101\tfile:web", "timestamp 100", "timestamp 101"),
        // Times that are newer than numbered versions.
        ("timestamp:999", "version:0", "timestamp 999", "version 0"),
        ("", "timestamp:1", "no version", "timestamp 1"),
    ] {
        for restarts in [false, true] {
            let world = World::new();
            let mut daemon = world.start();
            let again = |daemon: Daemon| if restarts { world.start() } else { daemon };
            world.put("a.yaml", "pod web", old);
            assert_eq!(daemon.look(), "web");
            world.put("a.yaml", "pod web\npod db", new);
            daemon = again(daemon);
            assert_eq!(daemon.look(), "web db");
            let seen = format!("pod default/web was accepted in {highest}");
            world.put("a.yaml", "pod web", old);
            daemon = again(daemon);
            is_refused(&daemon.look(), "web db", "/m/a.yaml", has, &seen);
            // Beside the file, and in its place, under another name.
            world.put("b.yaml", "pod web", old);
            daemon = again(daemon);
            is_refused(&daemon.look(), "web db", "/m/b.yaml", has, &seen);
            world.remove("a.yaml");
            daemon = again(daemon);
            let said = daemon.look();
            is_refused(&said, "", "/m/b.yaml", has, &seen);
            // With a newer version, on purpose.
            world.put("b.yaml", "pod web", "version:3");
            daemon = again(daemon);
            assert_eq!(daemon.look(), "web");
            assert_eq!(daemon.trouble(), None);
        }
    }
}

#[test]
fn the_content_of_a_version_is_one() {
    let world = World::new();
    let mut daemon = world.start();
    world.put("a.yaml", "pod web", "version:1");
    assert_eq!(daemon.look(), "web");
    world.put("a.yaml", "pod web\npod x", "version:1");
    let seen = "pod default/web was accepted with another content in version 1";
    is_refused(&daemon.look(), "web", "/m/a.yaml", "version 1", seen);
    // The same content may move, and be signed again.
    world.remove("a.yaml");
    world.put("b.yaml", "pod web", "version:1 node:node1,node2");
    daemon.bench.scanner.acceptor.verifier = Some(Arc::new(world.signer.verifier().of_node("node1", None)));
    assert_eq!(daemon.look(), "web");
}

#[test]
fn a_pod_that_was_renamed_does_not_come_back_under_its_old_name() {
    for (old, new) in [("version:1", "version:2"), ("timestamp:1", "timestamp:2")] {
        for name in ["a.yaml", "b.yaml"] {
            let world = World::new();
            let mut daemon = world.start();
            world.put("a.yaml", "pod web", old);
            assert_eq!(daemon.look(), "web");
            world.put("a.yaml", "pod shop", new);
            assert_eq!(daemon.look(), "shop");
            world.put(name, "pod web", old);
            let mut daemon = world.start();
            let said = daemon.look();
            assert!(said.contains("pod default/web was accepted and has been replaced since"), "{said}");
            assert!(said.starts_with("shop; "), "{said}");
        }
    }
    // A pod moves to another file, which was signed before the file that it leaves.
    for order in [["a.yaml", "b.yaml"], ["b.yaml", "a.yaml"]] {
        let world = World::new();
        let mut daemon = world.start();
        world.put("a.yaml", "pod web\npod db", "timestamp:10");
        assert_eq!(daemon.look(), "web db");
        for name in order {
            let (content, comment) =
                if name == "a.yaml" { ("pod db", "timestamp:21") } else { ("pod web", "timestamp:20") };
            world.put(name, content, comment);
            daemon.look();
        }
        world.put("c.yaml", "pod x", "");
        assert_eq!(daemon.look(), "db web x");
    }
}

/// A newer version whose pod the policy refuses keeps the older version in force, also after a restart.
#[test]
fn what_is_remembered_does_not_refuse_itself() {
    let world = World::new();
    let mut daemon = world.start();
    world.put("a.yaml", "pod web", "version:1");
    daemon.look();
    world.put("a.yaml", "pod web\nwarn", "version:2");
    daemon.look();
    // The source cannot be read, and only the stored contents are left.
    world.disk.put("/m", Node::Fault(io::ErrorKind::TimedOut));
    let mut daemon = world.start();
    let outcome = daemon.bench.scan(&Hints::default());
    assert_eq!(words(&outcome.before.unwrap()), "Restored(web; /m/a.yaml: hm)");
}

#[test]
fn a_record_that_is_torn_anywhere_is_set_aside_and_told() {
    let world = World::new();
    let mut daemon = world.start();
    world.put("a.yaml", "pod web", "version:2");
    world.put("gone.yaml", "pod gone", "version:2");
    daemon.look();
    world.remove("gone.yaml");
    daemon.look();
    let whole = fs::read(world.seen_file()).unwrap();
    for length in 0..=whole.len() {
        let mut torn = whole[..length].to_vec();
        if length == whole.len() {
            torn[length / 2] ^= 1;
        }
        world.put("a.yaml", "pod web", "version:2");
        fs::write(world.seen_file(), torn).unwrap();
        let mut daemon = world.start();
        let trouble = daemon.trouble().unwrap();
        assert!(trouble.contains("seen.damaged now. Until they are signed anew"), "{length}: {trouble}");
        // Only the stored contents are known.
        world.put("a.yaml", "pod web", "version:1");
        let said = daemon.look();
        assert!(said.contains("has version 1, and pod default/web was accepted in version 2"), "{said}");
        assert_eq!(daemon.trouble(), None, "nothing was accepted since: {length}");
        world.put("a.yaml", "pod web\npod db", "version:3");
        assert_eq!(daemon.look(), "web db");
        assert_eq!(daemon.store.take_news(), Some(SourceUpdate::Store(None)), "{length}");
        // The store is complete again: the next daemon has nothing to report.
        assert_eq!(world.start().trouble(), None);
        forget::forget(&world.temp.path(""), Source::File).unwrap();
        assert!(daemon.store.was_forgotten());
        daemon.bench.scanner.forget();
        world.put("a.yaml", "pod web", "version:2");
        assert_eq!(daemon.look(), "web", "what is forgotten is forgotten");
    }
}

/// A daemon with `pod web` takes `second` in its place, and is killed before each change of the disk in turn; `check`
/// gets the node in that state, and the number of changes before it.
fn killed_before_each_change(second: &str, names: &str, check: impl Fn(&World, u32)) {
    for steps in 0.. {
        let world = World::new();
        let mut daemon = world.start();
        world.put("a.yaml", "pod web", "version:1");
        assert_eq!(daemon.look(), "web");
        world.put("a.yaml", second, "version:2");
        crate::base::durable::STEPS.set(Some((steps, io::ErrorKind::Other)));
        assert_eq!(daemon.look(), names);
        let done = crate::base::durable::STEPS.take().is_some_and(|(left, _)| left > 0);
        drop(daemon);
        check(&world, steps);
        if done {
            assert!(steps > 8, "{steps}");
            return;
        }
    }
}

#[test]
fn killed_before_any_change_of_the_disk_no_older_version_gets_in() {
    killed_before_each_change("pod web\npod db", "web db", |world, steps| {
        let mut daemon = world.start();
        daemon.look();
        world.put("a.yaml", "pod web", "version:1");
        let said = daemon.look();
        assert!(said.contains("web was accepted in version 2"), "{steps}: {said}");
    });
}

#[test]
fn without_a_store_what_was_seen_is_held_in_memory_and_that_is_told() {
    let world = World::new();
    fs::write(world.temp.path("last-good"), "in the way").unwrap();
    let mut daemon = world.start();
    world.put("a.yaml", "pod web", "version:2");
    assert_eq!(daemon.look(), "web");
    assert!(daemon.trouble().is_some());
    world.put("a.yaml", "pod web", "version:1");
    let seen = "pod default/web was accepted in version 2";
    is_refused(&daemon.look(), "web", "/m/a.yaml", "version 1", seen);
    fs::remove_file(world.temp.path("last-good")).unwrap();
    let due = daemon.store.due().unwrap();
    while daemon.store.is_behind(due) {
        daemon.store.save_some(due);
    }
    is_refused(&world.start().look(), "web", "/m/a.yaml", "version 1", seen);
}

/// The key is on a file system that is mounted later: the content of the record is added, and not overwritten.
#[test]
fn a_record_whose_key_is_late_is_not_lost() {
    let mut world = World::new();
    let key = world.temp.path("key");
    fs::write(&key, [5; 32]).unwrap();
    world.key = Some(key.clone());
    world.put("a.yaml", "pod web", "version:2");
    assert_eq!(world.start().look(), "web");
    let late = world.temp.path("late");
    fs::rename(&key, &late).unwrap();
    let mut daemon = world.start();
    assert!(daemon.trouble().unwrap().contains("does not exist; make one with"));
    world.put("b.yaml", "pod db", "version:7");
    daemon.look();
    fs::rename(&late, &key).unwrap();
    let due = daemon.store.due().unwrap();
    while daemon.store.is_behind(due) {
        daemon.store.save_some(due);
    }
    for name in ["web", "db"] {
        world.put("c.yaml", &format!("pod {name}"), "version:1");
        let said = world.start().look();
        assert!(
            said.contains(&format!("c.yaml: has version 1, and pod default/{name} was accepted in")),
            "{said}"
        );
    }
}

/// For every state of the disk at a power cut: a pod that its file has dropped cannot be put back in another file.
#[test]
fn killed_before_any_change_of_the_disk_no_pod_that_was_renamed_comes_back() {
    killed_before_each_change("pod shop", "shop", |world, steps| {
        let mut daemon = world.start();
        assert_eq!(daemon.look(), "shop");
        world.put("b.yaml", "pod web", "version:1");
        let said = daemon.look();
        assert!(
            said.contains("web was accepted and has been replaced since in version 1"),
            "{steps}: {said}"
        );
    });
}
