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
    // A link to a tree, a file, nothing.
    symlink("tree", base.join("to-tree")).unwrap();
    for none in ["to-tree", "tree/sparse", "gone"] {
        assert_eq!(Round::default().tree(&base.join(none)), DiskUse::default(), "{none}");
    }
    fs::remove_dir_all(base).unwrap();
}

#[test]
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
    // So many others have several names that this one is not remembered: each name has its share, and it is not hidden.
    let linked = (0..limits::DISK_USE_LINKED as u64).map(|inode| (u64::MAX, inode)).collect();
    let mut full = Round::default();
    let mut count = Count { linked, ..Count::new(&mut full) };
    walk(rustix::fs::open(base.join("tree"), DIRECTORY, Mode::empty()).unwrap(), &mut count).unwrap();
    assert_eq!(count.sum, whole, "an innocent pod was evicted when each name counted as a file");
    // More directories than can be remembered: what is told is not the whole, and they count all the same.
    let names = 3 * (limits::DISK_USE_NAME + 1);
    let mut few = Round { names, ..Round::default() };
    let found = few.tree(&base.join("tree"));
    assert_eq!((few.reach(), found.inodes >= 5), (Reach::Exceeded, true), "{found:?}");
    // What was entered is not remembered any more: depth and number are no bound.
    fs::create_dir_all(base.join("deep/a/b/c/d/e/f/g")).unwrap();
    let mut deep = Round { names: 2 * (limits::DISK_USE_NAME + 1), ..Round::default() };
    assert_eq!((deep.tree(&base.join("deep")).inodes, deep.reach()), (8, Reach::Whole));
    // A round has its time, however much is there.
    let mut late = Round::until(Instant::now(), Arc::default());
    assert_eq!((late.tree(&base.join("tree")), late.reach()), (DiskUse::default(), Reach::Exceeded));
    let mut patient = Round::until(Instant::now() + std::time::Duration::from_secs(60), Arc::default());
    assert_eq!((patient.tree(&base.join("tree")), patient.reach()), (whole, Reach::Whole));
    fs::remove_dir_all(base).unwrap();
}

/// A tree in which a directory is moved while it is looked into.
struct Mover<'a> {
    base: &'a Path,
    count: Count<'a>,
    goes_on: bool,
}

impl Visit for Mover<'_> {
    fn file(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<()> {
        if name == c"file" {
            _ = fs::rename(self.base.join("tree/a/b"), self.base.join("elsewhere"));
        }
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

/// A pod hid all that it had behind one directory that moved.
#[test]
fn what_is_still_in_its_place_is_counted_after_a_directory_was_moved() {
    let base = crate::base::testing::scratch("disk-use-goes-on");
    fs::create_dir_all(base.join("tree/a/b/c")).unwrap();
    fs::write(base.join("tree/a/b/file"), "x").unwrap();
    for other in ["tree/other", "tree/a/other"] {
        fs::create_dir(base.join(other)).unwrap();
        fs::write(base.join(other).join("big"), vec![1; 1 << 20]).unwrap();
    }
    let mut round = Round::default();
    let top = rustix::fs::open(base.join("tree"), DIRECTORY, Mode::empty()).unwrap();
    let mut mover = Mover { base: &base, count: Count::new(&mut round), goes_on: true };
    walk(top, &mut mover).unwrap();
    assert!(mover.count.sum.bytes >= 2 << 20, "{:?}", mover.count.sum);
    // It has an end.
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
    let mut round = Round::default();
    let top = rustix::fs::open(base.join("tree"), DIRECTORY, Mode::empty()).unwrap();
    let mut mover = Mover { base: &base, count: Count::new(&mut round), goes_on: false };
    let error = walk(top, &mut mover).unwrap_err();
    assert_eq!(ended(&error), Reach::Moved);
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
