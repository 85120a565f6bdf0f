//! Tests of the store on a real directory, with the process "killed" before each change of the disk.

mod unread;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::base::durable::STEPS;
use crate::source::testing::TempDir;

/// A store below a directory of its own.
struct Bench {
    temp: TempDir,
    store: LastGood,
}

fn content(path: &str, version: Version, text: &str) -> Remembered {
    Remembered { path: path.into(), version, bytes: text.into(), ..Remembered::default() }
}

/// All contents of a store, such as `a#1=text`.
fn words(contents: &[Remembered]) -> Vec<String> {
    let word = |c: &Remembered| format!("{}#{}={}", c.path, c.version, String::from_utf8_lossy(&c.bytes));
    contents.iter().map(word).collect()
}

impl Bench {
    fn new() -> Bench {
        let temp = TempDir::new();
        let store = LastGood::new(&temp.path(""), None, Source::File);
        let mut bench = Bench { temp, store };
        assert_eq!(bench.again(), [""; 0]);
        bench
    }
    /// The contents that the next daemon finds.
    fn again(&mut self) -> Vec<String> {
        self.store = LastGood::new(&self.temp.path(""), None, Source::File);
        words(&self.store.load())
    }
    fn save(&mut self) {
        self.save_at(Mono::default());
    }
    fn save_at(&mut self, now: Mono) {
        while self.store.is_behind(now) {
            self.store.save_some(now);
        }
    }
    fn remember(&mut self, content: Remembered, needed: &[Version]) {
        self.store.remember(content, needed);
        self.save();
    }
    fn dir(&self) -> PathBuf {
        self.temp.path("last-good/file")
    }
    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn what_was_accepted_is_there_again() {
    let mut bench = Bench::new();
    let full = Remembered {
        signature: Some(b"sig".to_vec()),
        etag: Some("\"1\"".into()),
        last_modified: Some("now".into()),
        mounted: true,
        ..content("/m/a.yaml", 1, "one")
    };
    bench.remember(full.clone(), &[1]);
    bench.remember(content("/m/b.yaml", 7, "b"), &[7]);
    let mut next = LastGood::new(&bench.temp.path(""), None, Source::File);
    assert_eq!(next.load()[0], full);
    assert!(!next.is_behind(Mono::default()));
    // A newer version replaces the older one, unless both are needed.
    bench.remember(content("/m/a.yaml", 2, "two"), &[1, 2]);
    assert_eq!(bench.again(), ["/m/a.yaml#1=one", "/m/a.yaml#2=two", "/m/b.yaml#7=b"]);
    bench.remember(content("/m/a.yaml", 3, "three"), &[3]);
    assert_eq!(bench.again(), ["/m/a.yaml#3=three", "/m/b.yaml#7=b"]);
    bench.store.retain(|path| path == "/m/b.yaml");
    bench.save();
    assert_eq!(bench.files().len(), 1);
    assert_eq!(bench.again(), ["/m/b.yaml#7=b"]);
    // Another source has a store of its own.
    assert_eq!(LastGood::new(&bench.temp.path(""), None, Source::Http).load(), []);
}

#[test]
fn only_root_can_read_it_and_nothing_stands_in_clear() {
    let mut bench = Bench::new();
    bench.remember(content("/m/password.yaml", 1, "canary-0123456789"), &[1]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(bench.temp.path("last-good")), 0o700);
    assert_eq!(mode(bench.dir()), 0o700);
    assert_eq!(mode(bench.temp.path("last-good/key")), 0o600);
    for name in bench.files() {
        let path = bench.dir().join(&name);
        assert_eq!(mode(path.clone()), 0o600);
        let bytes = fs::read(path).unwrap();
        for word in ["canary", "password"] {
            assert!(!bytes.windows(word.len()).any(|w| w == word.as_bytes()) && !name.contains(word));
        }
    }
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut bench = Bench::new();
    bench.remember(content("/m/a.yaml", 1, "one"), &[1]);
    bench.again();
    STEPS.set(Some((0, io::ErrorKind::Other)));
    bench.store.keep("/m/a.yaml", &[1]);
    bench.store.retain(|_| true);
    assert!(!bench.store.is_behind(Mono::default()));
    bench.store.save_some(Mono::default());
    STEPS.set(None);
    assert_eq!(bench.store.trouble, None);
}

#[test]
fn killed_before_any_change_of_the_disk_the_old_or_the_new_is_there() {
    let mut killed = 0;
    for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
        for steps in 0.. {
            let mut bench = Bench::new();
            bench.remember(content("a", 1, "one"), &[1]);
            bench.remember(content("a", 2, "two"), &[1, 2]);
            bench.remember(content("gone", 1, "gone"), &[1]);
            STEPS.set(Some((steps, kind)));
            bench.store.remember(content("a", 3, "three"), &[3]);
            bench.store.remember(content("new", 1, "new"), &[1]);
            bench.store.retain(|path| path != "gone");
            bench.save();
            let done = STEPS.take().is_some_and(|(left, _)| left > 0);
            let found = bench.again();
            let of = |path: &str| -> Vec<&str> {
                let prefix = format!("{path}#");
                found.iter().filter_map(|w| w.strip_prefix(&prefix)).collect()
            };
            let a = of("a");
            let histories = [
                vec!["1=one", "2=two"],
                vec!["1=one", "2=two", "3=three"],
                vec!["2=two", "3=three"],
                vec!["3=three"],
            ];
            assert!(histories.contains(&a), "{steps}: {found:?}");
            assert!(of("new").is_empty() || of("new") == ["1=new"], "{steps}: {found:?}");
            // No file is damaged, and none is left over.
            assert!(bench.files().iter().all(|name| sealed::is_name(name)), "{steps}: {:?}", bench.files());
            // The next daemon reaches the same end.
            bench.store.keep("a", &[3]);
            bench.remember(content("a", 3, "three"), &[3]);
            bench.remember(content("new", 1, "new"), &[1]);
            bench.store.retain(|path| path != "gone");
            bench.save();
            assert_eq!(bench.again(), ["a#3=three", "new#1=new"]);
            if done {
                break;
            }
            killed += 1;
        }
    }
    assert!(killed > 20, "{killed}");
}

#[test]
fn killed_while_the_first_content_is_written() {
    for steps in 0.. {
        let temp = TempDir::new();
        let mut store = LastGood::new(&temp.path(""), None, Source::File);
        STEPS.set(Some((steps, io::ErrorKind::Other)));
        store.load();
        store.remember(content("a", 1, "one"), &[1]);
        store.save_some(Mono::default());
        let done = STEPS.take().is_some_and(|(left, _)| left > 0);
        let mut bench = Bench { store, temp };
        let found = bench.again();
        assert!(found.is_empty() || found == ["a#1=one"], "{steps}: {found:?}");
        bench.remember(content("a", 1, "one"), &[1]);
        assert_eq!(bench.again(), ["a#1=one"]);
        if done {
            return;
        }
    }
}

#[test]
fn a_full_disk_is_told_and_tried_again_by_itself_and_with_the_next_change() {
    let full = || {
        let mut bench = Bench::new();
        bench.remember(content("a", 1, "one"), &[1]);
        assert_eq!(bench.store.take_news(), None);
        STEPS.set(Some((0, io::ErrorKind::StorageFull)));
        bench.remember(content("a", 2, "two"), &[2]);
        let Some(SourceUpdate::Store(Some(why))) = bench.store.take_news() else { panic!("not told") };
        assert!(why.contains("a cannot be remembered in"), "{why}");
        assert!(!bench.store.is_behind(Mono::default()));
        bench
    };
    let healed = |mut bench: Bench, expected: &[&str]| {
        assert_eq!(bench.store.take_news(), Some(SourceUpdate::Store(None)));
        assert_eq!((bench.store.take_news(), bench.store.due()), (None, None));
        assert_eq!(bench.again(), expected);
    };
    let mut bench = full();
    // Retried at growing intervals, and reported once.
    let mut waits = Vec::new();
    for _ in 0..9 {
        let due = bench.store.due().unwrap();
        waits.push(due.0.as_secs());
        bench.save_at(due);
    }
    assert_eq!(waits, [5, 15, 35, 75, 155, 315, 635, 1235, 1835]);
    assert_eq!(bench.store.take_news(), None);
    STEPS.set(None);
    bench.save_at(bench.store.due().unwrap());
    healed(bench, &["a#2=two"]);
    // The next change is written at once, and then everything else.
    let mut bench = full();
    STEPS.set(None);
    bench.remember(content("b", 1, "b"), &[1]);
    healed(bench, &["a#2=two", "b#1=b"]);
}

#[test]
fn a_store_that_could_not_be_made_at_first_is_made_later() {
    let temp = TempDir::new();
    // A file is where the directory belongs.
    fs::write(temp.path("last-good"), "").unwrap();
    let mut store = LastGood::new(&temp.path(""), None, Source::Http);
    assert!(LastGood::prepare(&temp.path(""), None).unwrap_err().contains("cannot be made"));
    assert_eq!(store.load(), []);
    assert!(matches!(store.take_news(), Some(SourceUpdate::Store(Some(_)))));
    store.remember(content("a", 1, "one"), &[1]);
    store.save_some(Mono::default());
    fs::remove_file(temp.path("last-good")).unwrap();
    store.save_some(store.due().unwrap());
    assert_eq!(store.take_news(), Some(SourceUpdate::Store(None)));
    assert_eq!(words(&LastGood::new(&temp.path(""), None, Source::Http).load()), ["a#1=one"]);
}

/// Both sources start at the same moment on a new root directory.
#[test]
fn two_sources_that_begin_together_share_one_key() {
    for _ in 0..50 {
        let temp = TempDir::new();
        let root = temp.path("");
        let sources = [Source::File, Source::Http];
        std::thread::scope(|scope| {
            for source in sources {
                let root = root.clone();
                scope.spawn(move || {
                    let mut store = LastGood::new(&root, None, source);
                    store.load();
                    store.remember(content("a", 1, "one"), &[1]);
                    store.save_some(Mono::default());
                    assert_eq!(store.trouble, None);
                });
            }
        });
        for source in sources {
            assert_eq!(words(&LastGood::new(&root, None, source).load()), ["a#1=one"], "{source}");
        }
    }
}

#[test]
fn what_does_not_fit_keeps_its_older_version() {
    let mut bench = Bench::new();
    bench.remember(content("a", 1, "one"), &[1]);
    let big = "x".repeat(usize::try_from(limits::LAST_GOOD_BYTES).unwrap());
    bench.remember(content("a", 2, &big), &[2]);
    bench.remember(content("b", 1, "b"), &[1]);
    assert_eq!(bench.again(), ["a#1=one", "b#1=b"]);
    bench.remember(content("a", 3, "three"), &[3]);
    assert_eq!(bench.again(), ["a#3=three", "b#1=b"]);
}

/// A signer withdrew the older content, and at the next boot without the source it ran.
#[test]
fn what_is_signed_and_does_not_fit_leaves_nothing() {
    let mut bench = Bench::new();
    let signed = |version, text: &str| Remembered { signature: Some(vec![1]), ..content("a", version, text) };
    bench.remember(signed(1, "one"), &[1]);
    let big = "x".repeat(usize::try_from(limits::LAST_GOOD_BYTES).unwrap());
    bench.remember(signed(2, &big), &[2]);
    bench.remember(content("b", 1, "b"), &[1]);
    assert!(bench.store.trouble.as_ref().is_some_and(|why| why.contains("runs nothing of it")));
    assert_eq!(bench.again(), ["b#1=b"]);
    bench.remember(signed(3, "three"), &[3]);
    assert_eq!(bench.again(), ["a#3=three", "b#1=b"]);
}

/// The file that was to be replaced took half of the room: the older content stayed for good.
#[test]
fn what_is_replaced_takes_no_room() {
    let mut bench = Bench::new();
    let large = |c: &str| c.repeat(usize::try_from(limits::LAST_GOOD_BYTES / 3 * 2).unwrap());
    bench.remember(content("a", 1, &large("x")), &[1]);
    bench.remember(content("a", 2, &large("y")), &[2]);
    assert_eq!(bench.again(), [format!("a#2={}", large("y"))]);
    // Both versions are needed.
    bench.remember(content("a", 3, &large("z")), &[2, 3]);
    assert_eq!(bench.again(), [format!("a#2={}", large("y"))]);
}

#[test]
fn damaged_files_are_set_aside_and_the_others_used() {
    let mut bench = Bench::new();
    for n in 0..9 {
        bench.remember(content(&format!("p{n}"), 1, "one"), &[1]);
    }
    let files = bench.files();
    let damage = |n: usize, bytes: &[u8]| fs::write(bench.dir().join(&files[n]), bytes).unwrap();
    let good = fs::read(bench.dir().join(&files[0])).unwrap();
    damage(1, b"");
    damage(2, &good[..good.len() - 1]);
    damage(3, &good);
    damage(4, b"pk-good\n\x07 from the future");
    damage(5, &vec![0; limits::LAST_GOOD_FILE + 1]);
    let odd = bench.dir().join(&files[6]);
    fs::remove_file(&odd).unwrap();
    fs::create_dir(&odd).unwrap();
    fs::write(bench.dir().join("half.tmp"), "half").unwrap();
    fs::write(bench.dir().join("README"), "not ours").unwrap();
    assert_eq!(bench.again().len(), 3);
    let aside = |bench: &Bench| bench.files().iter().filter(|n| n.ends_with(".damaged")).count();
    assert_eq!(aside(&bench), limits::LAST_GOOD_DAMAGED);
    assert!(!bench.files().contains(&"half.tmp".into()) && bench.files().contains(&"README".into()));
    // The next start has nothing to report.
    assert_eq!(bench.again().len(), 3);
    assert_eq!(aside(&bench), limits::LAST_GOOD_DAMAGED);
}

#[test]
fn a_lost_or_damaged_key_of_ours_is_made_anew() {
    for damage in [None, Some("short")] {
        let mut bench = Bench::new();
        bench.remember(content("a", 1, "one"), &[1]);
        let key = bench.temp.path("last-good/key");
        match damage {
            None => fs::remove_file(&key).unwrap(),
            Some(text) => fs::write(&key, text).unwrap(),
        }
        assert_eq!(bench.again(), [""; 0]);
        bench.remember(content("a", 1, "one"), &[1]);
        assert_eq!(bench.again(), ["a#1=one"]);
        assert_eq!(fs::read(&key).unwrap().len(), 32);
    }
}

#[test]
fn a_given_key_is_awaited_and_never_made() {
    let temp = TempDir::new();
    let key = temp.path("key");
    let store = || LastGood::new(&temp.path(""), Some(&key), Source::File);
    let mut first = store();
    first.load();
    first.remember(content("a", 1, "one"), &[1]);
    first.save_some(Mono::default());
    assert!(first.trouble.clone().unwrap().contains("does not exist; make one with"), "{:?}", first.trouble);
    assert!(!key.exists());
    fs::write(&key, [5; 32]).unwrap();
    first.remember(content("b", 1, "b"), &[1]);
    while first.is_behind(Mono::default()) {
        first.save_some(Mono::default());
    }
    assert_eq!(words(&store().load()), ["a#1=one", "b#1=b"]);
    // The key is late: nothing is lost.
    fs::rename(&key, temp.path("late")).unwrap();
    assert_eq!(store().load(), []);
    fs::write(&key, "too short").unwrap();
    let mut wrong = store();
    assert_eq!(wrong.load(), []);
    assert!(wrong.trouble.unwrap().contains("must hold exactly 32 random bytes"));
    fs::rename(temp.path("late"), &key).unwrap();
    assert_eq!(words(&store().load()), ["a#1=one", "b#1=b"]);
    assert!(!temp.path("last-good/key").exists());
}

#[test]
fn a_root_directory_that_cannot_be_written_stops_nothing() {
    let mut store = LastGood::new(Path::new("/proc"), None, Source::File);
    assert_eq!(store.load(), []);
    store.remember(content("a", 1, "one"), &[1]);
    store.save_some(Mono::default());
    assert!(!store.is_behind(Mono::default()) && !store.was_forgotten());
    assert!(store.trouble.is_some());
}

#[test]
fn forgotten_by_somebody_else() {
    let mut bench = Bench::new();
    assert!(!bench.store.was_forgotten());
    bench.remember(content("a", 1, "one"), &[1]);
    assert_eq!(forget::forget(&bench.temp.path(""), Source::File).unwrap(), Some(1));
    assert_eq!(forget::forget(&bench.temp.path(""), Source::File).unwrap(), None);
    // A content in between does not restore the directory.
    bench.remember(content("b", 1, "b"), &[1]);
    assert!(!bench.dir().exists());
    assert!(bench.store.was_forgotten());
    assert!(!bench.store.was_forgotten());
    assert!(bench.dir().exists());
    bench.remember(content("c", 1, "c"), &[1]);
    assert_eq!(bench.again(), ["c#1=c"]);
    // The key stays: other sources use it, too.
    assert!(bench.temp.path("last-good/key").exists());
}
