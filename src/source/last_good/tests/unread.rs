//! Tests of files that cannot be read, or not with this key: they stay for another start.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::*;
use crate::base::regular::faults::READS;
use crate::base::table::Set;
use crate::manifest::edition::{Claim, Edition};

/// Names and bytes of all stored files.
type Stored = BTreeMap<String, Vec<u8>>;

/// A root directory with a key outside the store.
struct Node {
    temp: TempDir,
}

impl Node {
    fn new(contents: usize) -> Node {
        let node = Node { temp: TempDir::new() };
        node.key(5);
        let mut store = node.start();
        assert_eq!(store.load(), []);
        for n in 0..contents {
            store.remember(content(&format!("p{n}"), 1, "one"), &[1]);
        }
        save(&mut store);
        assert_eq!(store.trouble, None);
        node
    }
    fn key(&self, byte: u8) {
        fs::write(self.temp.path("key"), [byte; 32]).unwrap();
    }
    fn start(&self) -> LastGood {
        LastGood::new(&self.temp.path(""), Some(&self.temp.path("key")), Source::File)
    }
    fn dir(&self) -> PathBuf {
        directory(&self.temp.path(""), Source::File)
    }
    fn stored(&self) -> Stored {
        let files = fs::read_dir(self.dir()).unwrap().map(|e| e.unwrap());
        files.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
    }
    fn good(&self) -> Vec<PathBuf> {
        self.stored().keys().filter(|name| sealed::is_name(name)).map(|name| self.dir().join(name)).collect()
    }
}

fn save(store: &mut LastGood) {
    while store.is_behind(Mono::default()) {
        store.save_some(Mono::default());
    }
}

fn fails(path: PathBuf, times: u32, why: Errno) {
    READS.with_borrow_mut(|all| _ = all.insert(path, (times, why)));
}

fn told(store: &mut LastGood) -> String {
    let Some(SourceUpdate::Store(Some(why))) = store.take_news() else { panic!("not told") };
    why
}

/// A start with another key threw all files away but four.
#[test]
fn where_nothing_can_be_unsealed_it_is_the_key() {
    // The store of an earlier version has no proof of its key.
    for (contents, has_proof) in [(1, true), (1, false), (8, true), (8, false)] {
        let node = Node::new(contents);
        if !has_proof {
            fs::remove_file(node.dir().join(proof::NAME)).unwrap();
        }
        let before = node.stored();
        node.key(6);
        let mut wrong = node.start();
        assert_eq!(wrong.load(), []);
        assert!(told(&mut wrong).contains("key holds another key than the one that sealed what is in"));
        wrong.load_seen();
        for path in ["new", "p0"] {
            wrong.remember(content(path, 1, "newer"), &[1]);
        }
        wrong.retain(|path| path != "p1");
        save(&mut wrong);
        assert!(told(&mut wrong).contains("new cannot be remembered"));
        assert!(wrong.due().is_some());
        assert!(node.stored() == before, "{contents} {has_proof}: {:?}", node.stored().keys());
        node.key(5);
        let mut right = node.start();
        assert_eq!(right.load().len(), contents);
        assert_eq!((right.take_news(), node.stored() == before), (None, true));
        // The key comes while podkeeper runs: newer content is stored.
        let due = wrong.due().unwrap();
        while wrong.is_behind(due) {
            wrong.save_some(due);
        }
        assert_eq!(wrong.take_news(), Some(SourceUpdate::Store(None)));
        let found = words(&node.start().load());
        assert!(found.contains(&"p0#1=newer".to_owned()) && found.contains(&"new#1=newer".to_owned()));
        assert_eq!(found.len(), contents + 1);
    }
}

#[test]
fn one_damaged_file_is_no_wrong_key() {
    for contents in [1, 2, 8] {
        let node = Node::new(contents);
        let file = &node.good()[0];
        let mut bytes = fs::read(file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(file, bytes).unwrap();
        let mut store = node.start();
        assert_eq!(store.load().len(), contents - 1);
        assert_eq!(store.trouble, None);
        let aside = node.stored().into_keys().filter(|name| name.ends_with(".good.damaged")).count();
        assert_eq!((aside, node.good().len()), (1, contents - 1));
    }
    // A damaged proof does not mean a wrong key, and is written again.
    let node = Node::new(2);
    fs::write(node.dir().join(proof::NAME), "").unwrap();
    let mut store = node.start();
    assert_eq!(store.load().len(), 2);
    store.remember(content("p0", 2, "two"), &[2]);
    save(&mut store);
    assert!(node.stored()[proof::NAME].len() > 8);
    // A key for which nothing was stored loses nothing.
    store.retain(|_| false);
    save(&mut store);
    node.key(6);
    let mut other = node.start();
    other.load();
    other.remember(content("a", 1, "one"), &[1]);
    save(&mut other);
    assert_eq!(words(&node.start().load()), ["a#1=one"]);
}

#[test]
fn the_record_of_versions_is_not_set_aside_for_a_wrong_key() {
    let node = Node::new(0);
    let mut store = node.start();
    store.load();
    let claim = Claim {
        edition: Edition::Version(2),
        digest: [1; 32],
        names: Set::from(["pod default/web".to_owned()]),
    };
    store.note(&[(claim, Set::new())], Set::new);
    save(&mut store);
    let before = node.stored();
    assert!(before.contains_key(seen::NAME));
    node.key(6);
    let mut wrong = node.start();
    wrong.load();
    wrong.load_seen();
    assert!(told(&mut wrong).contains("holds another key"));
    save(&mut wrong);
    assert!(node.stored() == before);
}

/// One error while the store was read lost a pod.
#[test]
fn what_cannot_be_read_now_is_no_damage() {
    for why in [Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
        let node = Node::new(8);
        let (before, files) = (node.stored(), node.good());
        let of = |files: &[PathBuf], times| files.iter().for_each(|file| fails(file.clone(), times, why));
        of(&files[..2], limits::READ_TRIES - 1);
        assert_eq!(node.start().load().len(), 8, "a moment is waited out");
        of(&files[..2], u32::MAX);
        let mut store = node.start();
        assert_eq!(store.load().len(), 6);
        assert!(told(&mut store).starts_with("2 files in "), "{:?}", store.trouble);
        // It stays reported while others are stored.
        store.remember(content("other", 1, "one"), &[1]);
        save(&mut store);
        assert_eq!(store.take_news(), None);
        store.retain(|path| path != "other");
        save(&mut store);
        of(&files[..2], 0);
        assert!(node.stored() == before, "{:?}", node.stored().keys());
        let mut store = node.start();
        assert_eq!((store.load().len(), store.take_news()), (8, None));
    }
    // The key cannot be read, and no file either.
    let node = Node::new(3);
    let before = node.stored();
    for names in [vec![node.temp.path("key")], node.good()] {
        names.iter().for_each(|file| fails(file.clone(), u32::MAX, Errno::NFILE));
        fails(node.dir().join(proof::NAME), u32::MAX, Errno::NFILE);
        let mut store = node.start();
        assert_eq!(store.load(), []);
        assert!(told(&mut store).contains("os error 23"), "{:?}", store.trouble);
        assert!(node.stored() == before);
        names.iter().for_each(|file| fails(file.clone(), 0, Errno::NFILE));
        fails(node.dir().join(proof::NAME), 0, Errno::NFILE);
        assert_eq!(node.start().load().len(), 3);
    }
}

/// The next start would take the unread file for newer than the content that was accepted since.
#[test]
fn what_could_not_be_read_gives_way_to_newer_content_of_its_path() {
    let of = |bench: &Bench, version| bench.dir().join(bench.store.key.as_ref().unwrap().name("a", version));
    for (unread, accepted, found) in [
        (vec![7], 7, vec!["a#7=new", "b#3=three"]),
        (vec![6, 7], 1, vec!["a#1=new", "b#3=three"]),
        (vec![6], 8, vec!["a#6=six", "a#8=new", "b#3=three"]),
    ] {
        let mut bench = Bench::new();
        bench.remember(content("a", 6, "six"), &[6]);
        bench.remember(content("a", 7, "seven"), &[6, 7]);
        bench.remember(content("b", 3, "three"), &[3]);
        let files: Vec<PathBuf> = unread.iter().map(|version| of(&bench, *version)).collect();
        files.iter().for_each(|file| fails(file.clone(), u32::MAX, Errno::IO));
        bench.again();
        files.iter().for_each(|file| fails(file.clone(), 0, Errno::IO));
        assert!(bench.store.trouble.is_some());
        bench.remember(content("a", accepted, "new"), &[accepted]);
        assert_eq!(bench.again(), found, "{unread:?}");
    }
}

#[test]
fn what_cannot_be_unsealed_is_never_deleted() {
    // podkeeper's own key was lost and is made anew: its files cannot be used any more.
    let mut bench = Bench::new();
    for n in 0..9 {
        bench.remember(content(&format!("p{n}"), 1, "one"), &[1]);
    }
    fs::write(bench.temp.path("last-good/key"), [9; 32]).unwrap();
    for _ in 0..2 {
        assert_eq!(bench.again(), [""; 0]);
        assert_eq!(bench.files().len(), 9);
    }
    bench.remember(content("p0", 1, "one"), &[1]);
    assert_eq!((bench.again(), bench.files().len()), (vec!["p0#1=one".to_owned()], 10));
}
