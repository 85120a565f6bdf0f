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
    // So many others have several names that this one is not remembered: it counts twice, and never not at all.
    let linked = (0..limits::DISK_USE_LINKED as u64).map(|inode| (u64::MAX, inode)).collect();
    let mut full = Round::default();
    let mut count = Count { round: &mut full, sum: DiskUse::default(), linked };
    walk(rustix::fs::open(base.join("tree"), DIRECTORY, Mode::empty()).unwrap(), &mut count).unwrap();
    assert_eq!(count.sum.bytes, whole.bytes + blocks(&base.join("tree/0/big")));
    // More directories than are looked into: what is told is not the whole.
    let mut few = Round { directories: 3, ..Round::default() };
    few.tree(&base.join("tree"));
    assert_eq!(few.reach(), Reach::Exceeded);
    fs::remove_dir_all(base).unwrap();
}

/// A tree in which a directory is moved while it is looked into.
struct Mover<'a> {
    base: &'a Path,
    count: Count<'a>,
}

impl Visit for Mover<'_> {
    fn file(&mut self, at: &OwnedFd, name: &CStr) -> io::Result<()> {
        _ = fs::rename(self.base.join("tree/a/b"), self.base.join("elsewhere"));
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

#[test]
fn why_not_all_was_counted_is_told() {
    let base = crate::base::testing::scratch("disk-use-moved");
    fs::create_dir_all(base.join("tree/a/b")).unwrap();
    fs::write(base.join("tree/a/b/file"), "x").unwrap();
    let mut round = Round::default();
    let count = Count { round: &mut round, sum: DiskUse::default(), linked: BTreeSet::new() };
    let top = rustix::fs::open(base.join("tree"), DIRECTORY, Mode::empty()).unwrap();
    let error = walk(top, &mut Mover { base: &base, count }).unwrap_err();
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
