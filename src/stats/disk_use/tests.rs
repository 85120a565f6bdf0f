use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::*;

fn blocks(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().blocks() * 512
}

#[test]
fn a_tree_is_counted_as_du_counts_it() {
    let base = crate::base::testing::scratch("disk-use");
    fs::create_dir_all(base.join("tree/a/b")).unwrap();
    fs::create_dir_all(base.join("elsewhere")).unwrap();
    fs::write(base.join("elsewhere/big"), vec![1; 1 << 20]).unwrap();
    fs::write(base.join("tree/a/file"), vec![1; 100_000]).unwrap();
    fs::hard_link(base.join("tree/a/file"), base.join("tree/a/b/again")).unwrap();
    symlink("../../elsewhere", base.join("tree/a/link")).unwrap();
    symlink("../elsewhere/big", base.join("tree/to-a-file")).unwrap();
    let sparse = fs::File::create(base.join("tree/sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    let found = Round::default().tree(&base.join("tree"));
    let names = ["tree", "tree/a", "tree/a/b", "tree/a/file", "tree/a/link", "tree/to-a-file", "tree/sparse"];
    let expected = names.iter().map(|name| blocks(&base.join(name))).sum::<u64>();
    assert_eq!(found, DiskUse { bytes: expected, inodes: names.len() as u64 });
    assert!((100_000..1 << 20).contains(&found.bytes), "{found:?}");
    let du = std::process::Command::new("du").arg("-s").arg("-B1").arg(base.join("tree")).output().unwrap();
    let du = String::from_utf8(du.stdout).unwrap();
    assert_eq!(du.split_whitespace().next().unwrap(), found.bytes.to_string());
    // A link to a tree, a file, and a missing path.
    symlink("tree", base.join("to-tree")).unwrap();
    for none in ["to-tree", "tree/sparse", "gone"] {
        assert_eq!(Round::default().tree(&base.join(none)), DiskUse::default(), "{none}");
    }
    fs::remove_dir_all(base).unwrap();
}

#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn what_is_mounted_in_a_tree_is_not_counted() {
    let base = crate::base::testing::scratch("disk-use-mount");
    for dir in ["tree/tmpfs", "tree/bound", "data"] {
        fs::create_dir_all(base.join(dir)).unwrap();
    }
    fs::write(base.join("data/big"), vec![1; 1 << 20]).unwrap();
    rustix::mount::mount_bind(base.join("data"), base.join("tree/bound")).unwrap();
    mount("tmpfs", base.join("tree/tmpfs"), "tmpfs", MountFlags::empty(), None).unwrap();
    fs::write(base.join("tree/tmpfs/big"), vec![1; 1 << 20]).unwrap();
    let found = Round::default().tree(&base.join("tree"));
    for mounted in ["tree/bound", "tree/tmpfs"] {
        unmount(base.join(mounted), UnmountFlags::empty()).unwrap();
    }
    assert_eq!(found, DiskUse { bytes: blocks(&base.join("tree")), inodes: 1 });
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn a_round_ends_and_tells_what_it_counted_until_then() {
    let base = crate::base::testing::scratch("disk-use-bound");
    for name in 0..50 {
        fs::write(base.join(format!("f{name}")), "x").unwrap();
    }
    let mut round = Round { left: 20, ..Round::default() };
    let some = round.tree(&base);
    assert_eq!((some.inodes, round.is_over(), round.reach()), (20, true, Reach::Exceeded));
    assert_eq!(round.tree(&base), DiskUse::default());
    let mut enough = Round { left: 1000, ..Round::default() };
    assert_eq!((enough.tree(&base).inodes, enough.is_over()), (51, false));
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn a_log_counts_with_its_rotated_files() {
    let base = crate::base::testing::scratch("disk-use-log");
    let write = |name: &str| fs::write(base.join(name), vec![b'x'; 10_000]).unwrap();
    let names = ["id-json.log", "id-json.log.1", "id-json.log.2.gz", "id-json.log.3.gz"];
    names.iter().for_each(|name| write(name));
    ["id-json.log.tmp", "other-json.log", "config.v2.json"].iter().for_each(|name| write(name));
    let found = Round::default().log(&base.join("id-json.log"));
    let expected = names.iter().map(|name| blocks(&base.join(name))).sum::<u64>();
    assert_eq!(found, DiskUse { bytes: expected, inodes: 4 });
    assert_eq!(Round::default().log(&base.join("none.log")), DiskUse::default());
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn nothing_is_hidden_behind_many_names_or_directories() {
    let base = crate::base::testing::scratch("disk-use-hidden");
    for at in 0..4 {
        fs::create_dir_all(base.join(format!("tree/{at}"))).unwrap();
    }
    fs::write(base.join("tree/0/big"), vec![1; 1 << 20]).unwrap();
    fs::hard_link(base.join("tree/0/big"), base.join("tree/1/again")).unwrap();
    let mut round = Round::default();
    let whole = round.tree(&base.join("tree"));
    assert_eq!(round.reach(), Reach::Whole);
    // So many other files have several names that this one is not remembered: each name counts its share, and the file
    // is not hidden.
    let linked = (0..limits::DISK_USE_LINKED as u64).map(|inode| (u64::MAX, inode)).collect();
    let mut full = Round::default();
    let mut count = Count { linked, ..Count::new(&mut full) };
    walk(rustix::fs::open(base.join("tree"), DIRECTORY, Mode::empty()).unwrap(), &mut count).unwrap();
    assert_eq!(count.sum, whole, "an innocent pod was evicted when each name counted as a file");
    // More directories than can be open are read piece by piece.
    fs::create_dir_all(base.join("deep/a/b/c/d/e/f/g")).unwrap();
    for at in 0..1000 {
        fs::create_dir_all(base.join(format!("tree/3/{at}/below"))).unwrap();
    }
    let mut round = Round::default();
    let found = ["tree", "deep"].map(|tree| round.tree(&base.join(tree)).inodes);
    assert_eq!((found, round.reach()), ([whole.inodes + 2000, 8], Reach::Whole));
    fs::remove_dir_all(base.join("tree/3")).unwrap();
    fs::create_dir(base.join("tree/3")).unwrap();
    // A round ends on time, however many files there are.
    let mut late = Round::until(Instant::now(), Arc::default());
    assert_eq!((late.tree(&base.join("tree")), late.reach()), (DiskUse::default(), Reach::Exceeded));
    let mut patient = Round::until(Instant::now() + std::time::Duration::from_secs(60), Arc::default());
    assert_eq!((patient.tree(&base.join("tree")), patient.reach()), (whole, Reach::Whole));
    fs::remove_dir_all(base).unwrap();
}

/// A tree that changes during the count: `disturb` is called before a found directory or file is counted.
struct Disturbed<'a> {
    count: Count<'a>,
    disturb: Box<dyn FnMut(&CStr) + 'a>,
    goes_on: bool,
}

impl Visit for Disturbed<'_> {
    fn found(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<bool> {
        (self.disturb)(name);
        self.count.found(at, name)
    }
    fn ahead(&self) -> usize {
        self.count.ahead()
    }
    fn lost(&mut self) -> bool {
        self.count.lost()
    }
    fn search(&mut self) -> bool {
        self.count.search()
    }
    fn read(&mut self) -> io::Result<()> {
        self.count.read()
    }
    fn gone(&mut self) {
        self.count.gone();
    }
    fn file(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<()> {
        (self.disturb)(name);
        self.count.file(at, name)
    }
    fn moved(&mut self) -> bool {
        self.goes_on && self.count.moved()
    }
    fn leaving(&mut self, directory: &OwnedFd) -> io::Result<()> {
        self.count.leaving(directory)
    }
    fn left(&mut self, _: &OwnedFd, _: &CStr) -> io::Result<()> {
        Ok(())
    }
    fn mount(&mut self, _: &CStr) -> io::Result<()> {
        Ok(())
    }
}

/// Walks through `base/tree`.
fn disturbed(base: &Path, goes_on: bool, disturb: impl FnMut(&CStr)) -> (io::Result<()>, DiskUse, Reach) {
    let mut round = Round::default();
    let top = rustix::fs::open(base.join("tree"), DIRECTORY, Mode::empty()).unwrap();
    let mut visit = Disturbed { count: Count::new(&mut round), disturb: Box::new(disturb), goes_on };
    let result = walk(top, &mut visit);
    let sum = visit.count.sum;
    drop(visit);
    (result, sum, round.reach())
}

/// Regression: a tree that is renamed all the time counted as nothing, and other pods were evicted for its usage.
#[test]
fn what_is_renamed_while_one_looks_is_counted_all_the_same() {
    let base = crate::base::testing::scratch("disk-use-renamed");
    fs::create_dir_all(base.join("tree/directory-0/below")).unwrap();
    fs::write(base.join("tree/directory-0/big"), vec![1; 1 << 20]).unwrap();
    fs::write(base.join("tree/file-0"), vec![1; 1 << 20]).unwrap();
    let mut times = 0;
    // Only a few times; otherwise the walk would never find the file.
    let rename = |_: &CStr| {
        for kind in ["directory", "file"].iter().filter(|_| times < 4) {
            let name = |times| base.join(format!("tree/{kind}-{times}"));
            fs::rename(name(times), name(times + 1)).unwrap();
        }
        times += 1;
    };
    let (result, found, reach) = disturbed(&base, true, rename);
    assert!(result.is_ok() && found.bytes >= 2 << 20 && found.inodes == 5, "{found:?}");
    assert_eq!(reach, Reach::Whole);
    // An entry that has vanished may be elsewhere: the tree is counted once more.
    let (result, _, reach) =
        disturbed(&base, true, |_| _ = fs::rename(base.join("tree/directory-4"), base.join("elsewhere")));
    assert_eq!((result.is_ok(), reach), (true, Reach::Moved));
    let mut tired = Round { searches: 0, ..Round::default() };
    assert!(!Count::new(&mut tired).search());
    fs::remove_dir_all(base).unwrap();
}

/// Regression: two directories that swap places: one was entered twice, and the other not at all.
#[test]
fn what_changes_places_while_one_looks_is_counted_once() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let base = crate::base::testing::scratch("disk-use-exchanged");
    for name in ["full", "empty"] {
        fs::create_dir_all(base.join("tree").join(name)).unwrap();
    }
    fs::write(base.join("tree/full/big"), vec![1; 1 << 20]).unwrap();
    let whole = Round::default().tree(&base.join("tree"));
    let mut times = 0;
    let exchange = |_: &CStr| {
        times += 1;
        // When the second one was found: the entries below have other names than those found.
        if times == 2 {
            let [one, other] = ["full", "empty"].map(|name| base.join("tree").join(name));
            renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        }
    };
    let (result, found, reach) = disturbed(&base, true, exchange);
    assert_eq!((result.is_ok(), found, reach), (true, whole, Reach::Whole));
    fs::remove_dir_all(base).unwrap();
}

/// Moves the directory away that the walk is in.
fn moves_away(base: &Path, name: &CStr) {
    if name == c"file" {
        _ = fs::rename(base.join("tree/a/b"), base.join("elsewhere"));
    }
}

/// Regression: a pod hid all its files behind one directory that moved.
#[test]
fn what_is_still_in_its_place_is_counted_after_a_directory_was_moved() {
    let base = crate::base::testing::scratch("disk-use-goes-on");
    fs::create_dir_all(base.join("tree/a/b/c")).unwrap();
    fs::write(base.join("tree/a/b/file"), "x").unwrap();
    for other in ["tree/other", "tree/a/other"] {
        fs::create_dir(base.join(other)).unwrap();
        fs::write(base.join(other).join("big"), vec![1; 1 << 20]).unwrap();
    }
    let (result, found, _) = disturbed(&base, true, |name| moves_away(&base, name));
    assert!(result.is_ok() && found.bytes >= 2 << 20, "{found:?}");
    // The number of retries is bounded.
    let mut tired = Round { moves: 0, ..Round::default() };
    assert!(!Count::new(&mut tired).moved());
    assert_eq!(tired.reach(), Reach::Moved);
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn why_not_all_was_counted_is_told() {
    let base = crate::base::testing::scratch("disk-use-moved");
    fs::create_dir_all(base.join("tree/a/b")).unwrap();
    fs::write(base.join("tree/a/b/file"), "x").unwrap();
    let (result, ..) = disturbed(&base, false, |name| moves_away(&base, name));
    assert_eq!(ended(&result.unwrap_err()), Reach::Moved);
    for (errno, reach) in [
        (Errno::NOTDIR, Reach::Moved),
        (Errno::TOOBIG, Reach::Exceeded),
        (Errno::IO, Reach::Unreadable),
        (Errno::STALE, Reach::Unreadable),
    ] {
        assert_eq!(ended(&errno.into()), reach, "{errno:?}");
    }
    assert_eq!((not_opened(Errno::NOENT), not_opened(Errno::IO)), (Reach::Whole, Reach::Unreadable));
    fs::remove_dir_all(base).unwrap();
}

/// A tree with directories in one directory, which are renamed.
struct Renaming<'a> {
    count: Count<'a>,
    at: &'a Path,
    /// Whether they are renamed between being read and being opened, instead of afterwards.
    early: bool,
    left: u32,
    searches: u32,
}

impl Renaming<'_> {
    fn rename(&mut self, name: &CStr) {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            let name = name.to_str().unwrap();
            _ = fs::rename(self.at.join(name), self.at.join(format!("{name}-renamed")));
        }
    }
}

impl Visit for Renaming<'_> {
    fn found(&mut self, _: &OwnedFd, name: &CStr) -> io::Result<bool> {
        if self.early {
            self.rename(name);
        }
        Ok(true)
    }
    fn deep(&mut self, _: usize, _: &OwnedFd, _: &OwnedFd, name: &CStr) -> io::Result<bool> {
        if !self.early {
            self.rename(name);
        }
        Ok(false)
    }
    fn ahead(&self) -> usize {
        self.count.ahead()
    }
    fn lost(&mut self) -> bool {
        self.count.lost()
    }
    fn search(&mut self) -> bool {
        self.searches += 1;
        self.count.search()
    }
    fn read(&mut self) -> io::Result<()> {
        self.count.read()
    }
    fn gone(&mut self) {
        self.count.gone();
    }
    fn file(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<()> {
        self.count.file(at, name)
    }
    fn leaving(&mut self, directory: &OwnedFd) -> io::Result<()> {
        self.count.leaving(directory)
    }
    fn left(&mut self, _: &OwnedFd, _: &CStr) -> io::Result<()> {
        Ok(())
    }
    fn mount(&mut self, _: &CStr) -> io::Result<()> {
        Ok(())
    }
}

/// Regression: each of many directories was searched for among all of them, and a count took minutes.
#[test]
fn a_directory_is_not_read_again_for_each_that_was_renamed_in_it() {
    let base = crate::base::testing::scratch("disk-use-each");
    let tree = base.join("tree");
    let made = 1000;
    for at in 0..made {
        fs::create_dir_all(tree.join(format!("{at}/below"))).unwrap();
    }
    let renamed = |mut round: Round, early| {
        let before = round.left;
        let top = rustix::fs::open(&tree, DIRECTORY, Mode::empty()).unwrap();
        let count = Count::new(&mut round);
        let mut visit = Renaming { count, at: &tree, early, left: u32::try_from(made).unwrap(), searches: 0 };
        let result = walk(top, &mut visit);
        let (found, searches) = (visit.count.sum.inodes, visit.searches);
        (result.is_ok(), found, searches, before - round.left, round.reach())
    };
    // A directory that is open is found under any name; the new name may come later in the list, and is found, too.
    let (is_ok, found, searches, _, reach) = renamed(Round::default(), false);
    assert!(is_ok && found > 2 * made && searches == 0, "{found} {searches}");
    assert_eq!(reach, Reach::Whole);
    let (is_ok, found, searches, steps, reach) = renamed(Round::default(), true);
    assert!(is_ok && found > 2 * made && searches <= 3, "{found} {searches}");
    assert!(steps < 10 * made, "{steps}");
    assert_eq!(reach, Reach::Whole);
    // Each entry that is read for them is a step, at which the round may end.
    let short = Round { left: made + made / 2, ..Round::default() };
    let (is_ok, _, _, steps, reach) = renamed(short, true);
    assert_eq!((is_ok, steps, reach), (false, made + made / 2, Reach::Exceeded));
    fs::remove_dir_all(base).unwrap();
}
