use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::mkdirat;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::*;

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, DIRECTORY, Mode::empty()).unwrap()
}

/// Nested directories, far deeper than a path can be long.
fn deep(at: &Path, levels: u32) {
    let mut here = open(at);
    for _ in 0..levels {
        mkdirat(&here, "directory-of-some-length", Mode::from_raw_mode(0o755)).unwrap();
        here = openat(&here, "directory-of-some-length", DIRECTORY, Mode::empty()).unwrap();
    }
}

/// Regression: one directory of very many links of one file was removed, which frees nothing until the last one, and
/// another pod was evicted meanwhile.
#[test]
fn each_removed_entry_counts() {
    let base = crate::base::testing::scratch("walk-counted");
    fs::create_dir_all(base.join("tree/links")).unwrap();
    fs::write(base.join("tree/file"), "x").unwrap();
    for number in 0..1000 {
        fs::hard_link(base.join("tree/file"), base.join(format!("tree/links/{number}"))).unwrap();
    }
    let mut count = 0;
    remove_counted(&open(&base), "tree", &mut || count += 1).unwrap();
    assert!(count >= 1002 && !base.join("tree").exists(), "{count}");
    fs::remove_dir_all(base).unwrap();
}

/// Regression: an immutable file of an evicted pod stayed for ever, and another pod was evicted in its place.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn what_a_privileged_container_has_made_immutable_is_removed() {
    let base = crate::base::testing::scratch("walk-immutable");
    fs::create_dir_all(base.join("tree/fixed/below")).unwrap();
    for name in ["tree/file", "tree/log", "tree/fixed/file"] {
        fs::write(base.join(name), "x").unwrap();
    }
    let mark = |name: &str, flag| {
        let file = fs::File::open(base.join(name)).unwrap();
        ioctl_setflags(&file, ioctl_getflags(&file).unwrap() | flag)
    };
    mark("tree/log", IFlags::APPEND).expect("a file system with attributes");
    mark("tree/file", IFlags::IMMUTABLE).unwrap();
    mark("tree/fixed", IFlags::IMMUTABLE).unwrap();
    // Deep directories are moved up first.
    let mut here = open(&base.join("tree"));
    for _ in 0..limits::WALK_DEPTH + 20 {
        mkdirat(&here, "d", Mode::from_raw_mode(0o755)).unwrap();
        here = openat(&here, "d", DIRECTORY, Mode::empty()).unwrap();
    }
    let mut at = base.join("tree");
    for depth in 0..limits::WALK_DEPTH + 20 {
        at.push("d");
        if depth + 10 > limits::WALK_DEPTH {
            let directory = fs::File::open(&at).unwrap();
            ioctl_setflags(&directory, ioctl_getflags(&directory).unwrap() | IFlags::IMMUTABLE).unwrap();
        }
    }
    // Regression: deep directories could not be moved up into it.
    mark("tree", IFlags::IMMUTABLE).unwrap();
    assert!(fs::remove_file(base.join("tree/log")).is_err());
    remove_counted(&open(&base), "tree", &mut || {}).unwrap();
    assert!(!base.join("tree").exists());
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn a_tree_is_removed_and_links_are_not_followed() {
    let base = crate::base::testing::scratch("walk-remove");
    fs::create_dir_all(base.join("keep/me")).unwrap();
    fs::create_dir_all(base.join("tree/a/b")).unwrap();
    fs::write(base.join("tree/a/f"), "").unwrap();
    symlink("../keep", base.join("tree/link")).unwrap();
    symlink("../../keep", base.join("tree/a/link")).unwrap();
    deep(&base.join("tree/a"), 3000);
    let at = open(&base);
    remove(&at, "tree").unwrap();
    assert!(!base.join("tree").exists() && base.join("keep/me").exists());
    symlink("keep", base.join("direct")).unwrap();
    remove(&at, "direct").unwrap();
    remove(&at, "nothing").unwrap();
    assert!(base.join("keep/me").exists() && fs::symlink_metadata(base.join("direct")).is_err());
    fs::remove_dir_all(base).unwrap();
}

/// Regression: the names of a million directories were remembered while they were removed.
#[test]
fn few_names_are_remembered_of_very_many_directories() {
    let base = crate::base::testing::scratch("walk-wide");
    for at in ["tree", "tree/below"] {
        for n in 0..limits::WALK_BATCH * 2 + 7 {
            fs::create_dir_all(base.join(format!("{at}/d{n}"))).unwrap();
        }
    }
    fs::write(base.join("tree/d3/file"), "").unwrap();
    remove(&open(&base), "tree").unwrap();
    assert!(!base.join("tree").exists());
    fs::remove_dir_all(base).unwrap();
}

/// If there are too many for the node's memory, the walk fails, and no directory that was left is
/// forgotten.
#[test]
fn a_volume_of_too_many_directories_is_not_given_to_a_group() {
    let base = crate::base::testing::scratch("walk-names");
    let ownership = Ownership { group: 7, read_only: false, only_on_mismatch: false, slow: &mut |_| {} };
    let changes = Changes { since: None, count: 0, most: 0 };
    let mut owner =
        Owner { ownership, count: 0, begun: Instant::now(), next: Duration::MAX, changes, names: 0 };
    let (at, name) = (open(&base), c"some-directory");
    let each = limits::WALK_NAME + name.count_bytes();
    for _ in 0..limits::WALK_NAMES / each {
        assert!(owner.found(&at, name).unwrap());
    }
    assert!(owner.found(&at, name).is_err());
    owner.left(&at, name).unwrap();
    owner.left(&at, name).unwrap();
    assert!(owner.found(&at, name).unwrap());
    fs::remove_dir_all(base).unwrap();
}

/// The same for a directory that is bound onto itself, with the same device.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn a_mount_is_not_crossed() {
    let base = crate::base::testing::scratch("walk-mount");
    for dir in ["tree/a/bound", "tree/a/tmpfs", "data"] {
        fs::create_dir_all(base.join(dir)).unwrap();
    }
    fs::write(base.join("data/precious"), "").unwrap();
    let bound = base.join("tree/a/bound");
    rustix::mount::mount_bind(base.join("data"), &bound).unwrap();
    mount("tmpfs", base.join("tree/a/tmpfs"), "tmpfs", MountFlags::empty(), None).unwrap();
    let at = open(&base);
    let removed = remove(&at, "tree").unwrap_err().to_string();
    let given = own(
        open(&base.join("tree")),
        Ownership { group: 7, read_only: false, only_on_mismatch: false, slow: &mut |_| {} },
    );
    let group = fs::metadata(base.join("data/precious")).map(|meta| meta.gid());
    unmount(&bound, UnmountFlags::empty()).unwrap();
    unmount(base.join("tree/a/tmpfs"), UnmountFlags::empty()).unwrap();
    assert!(removed.starts_with("something is mounted at "), "{removed}");
    given.unwrap();
    assert_eq!(group.unwrap(), 0, "what is mounted there is somebody else's");
    assert!(base.join("data/precious").exists());
    remove(&at, "tree").unwrap();
    fs::remove_dir_all(base).unwrap();
}

#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn a_volume_is_given_to_a_group() {
    let base = crate::base::testing::scratch("walk-own");
    let v = base.join("v");
    fs::create_dir_all(v.join("d")).unwrap();
    fs::write(base.join("outside"), "").unwrap();
    fs::write(v.join("d/f"), "").unwrap();
    fs::write(v.join("run"), "").unwrap();
    symlink("../../outside", v.join("d/link")).unwrap();
    for (path, mode) in [("d", 0o700), ("d/f", 0o400), ("run", 0o4711), (".", 0o755)] {
        fs::set_permissions(v.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    deep(&v.join("d"), 2000);
    let told = |read_only: bool, only_on_mismatch: bool| {
        own(open(&v), Ownership { group: 4242, read_only, only_on_mismatch, slow: &mut |_| {} }).unwrap();
        let of = |path: &str| {
            let meta = fs::symlink_metadata(v.join(path)).unwrap();
            format!("{}:{:o}", meta.gid(), meta.mode() & 0o7777)
        };
        [of("."), of("d"), of("d/f"), of("run")].join(" ")
    };
    assert_eq!(told(true, false), "4242:2755 4242:2750 4242:440 4242:4751", "enough to read");
    assert_eq!(told(false, false), "4242:2775 4242:2770 4242:660 4242:4771");
    assert_eq!(fs::symlink_metadata(v.join("d/link")).unwrap().gid(), 4242);
    assert_eq!(fs::metadata(base.join("outside")).unwrap().gid(), 0);
    // The root has the right group: the tree is not walked.
    std::os::unix::fs::chown(v.join("d/f"), None, Some(0)).unwrap();
    assert_eq!(told(false, true), "4242:2775 4242:2770 0:660 4242:4771");
    assert!(told(false, false).contains(" 4242:660 "));
    std::os::unix::fs::chown(v.join("d/f"), None, Some(0)).unwrap();
    fs::set_permissions(&v, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(told(false, true).contains(" 4242:660 "), "another root: everything is walked");
    remove(&open(&base), "v").unwrap();
    fs::remove_dir_all(base).unwrap();
}

/// Another pod writes to the claim: existing files are given to the group, for any number, and new ones
/// must not keep the walk busy for ever.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn what_others_write_meanwhile_holds_up_nobody_for_ever() {
    let base = crate::base::testing::scratch("walk-busy");
    let v = base.join("v");
    fs::create_dir_all(v.join("d")).unwrap();
    let file = |n: u32| fs::write(v.join(format!("d/{n}")), "").unwrap();
    fs::write(v.join("first"), "").unwrap();
    (0..100).for_each(file);
    let old = changed(&fstat(open(&v.join("d"))).unwrap());
    // A disk's clock advances in steps.
    while time_of(&open(&v)).unwrap().unwrap() <= old {
        std::thread::yield_now();
    }
    let give = |group: u32, more: u32| {
        let mut made = 100;
        // Called at the first file, before the directory is read.
        let mut slow = |_| {
            (made..made + more).for_each(file);
            made += more;
        };
        let ownership = Ownership { group, read_only: false, only_on_mismatch: false, slow: &mut slow };
        own_within(open(&v), ownership, Duration::ZERO, 10)
    };
    give(7, 0).unwrap();
    assert_eq!(fs::metadata(v.join("d/99")).unwrap().gid(), 7);
    let why = give(8, 50).unwrap_err().to_string();
    assert!(why.starts_with("more than 10 files were made or changed in it meanwhile"), "{why}");
    assert_ne!(fs::metadata(&v).unwrap().gid(), 8, "its root is touched last");
    fs::remove_dir_all(base).unwrap();
}

/// Regression: an overlay that Docker had not unmounted kept the bytes of removed files, and other pods were evicted.
#[test]
fn files_that_something_holds_are_made_empty_before_they_are_removed() {
    let base = crate::base::testing::scratch("walk-held");
    let tree = base.join("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["held", "beside"] {
        fs::write(tree.join(name), "x".repeat(10_000)).unwrap();
    }
    fs::hard_link(tree.join("beside"), base.join("outside")).unwrap();
    let held = fs::File::open(tree.join("held")).unwrap();
    assert!(super::empty(open(&tree), &mut || true).unwrap());
    assert_eq!(fs::read_dir(&tree).unwrap().count(), 0);
    assert_eq!(held.metadata().unwrap().len(), 0);
    assert_eq!(fs::metadata(base.join("outside")).unwrap().len(), 10_000, "it has another name");
    // Volumes of pods are removed as they are.
    fs::write(tree.join("held"), "x").unwrap();
    let held = fs::File::open(tree.join("held")).unwrap();
    remove(&open(&base), "tree").unwrap();
    assert_eq!(held.metadata().unwrap().len(), 1);
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn of_a_file_that_is_made_shorter_the_end_stays() {
    let base = crate::base::testing::scratch("walk-shorten");
    let shorten = |name: &str, kept| super::shorten(&open(&base), &CString::new(name).unwrap(), kept);
    let of = |name: &str| shorten(name, Kept::End(4));
    fs::write(base.join("long"), "0123456789").unwrap();
    fs::write(base.join("short"), "012").unwrap();
    std::os::unix::fs::symlink("long", base.join("link")).unwrap();
    fs::create_dir(base.join("directory")).unwrap();
    for name in ["short", "link", "directory"] {
        of(name).unwrap();
    }
    assert_eq!(fs::read_to_string(base.join("long")).unwrap(), "0123456789", "no link is followed");
    of("long").unwrap();
    assert_eq!(fs::read_to_string(base.join("long")).unwrap(), "6789");
    assert_eq!(fs::read_to_string(base.join("short")).unwrap(), "012");
    assert!(of("none").is_err());
    fs::write(base.join("lines"), "one\ntwo\nthree\n").unwrap();
    shorten("lines", Kept::Lines(12)).unwrap();
    assert_eq!(fs::read_to_string(base.join("lines")).unwrap(), "two\nthree\n");
    shorten("lines", Kept::Lines(3)).unwrap();
    assert_eq!(fs::read_to_string(base.join("lines")).unwrap(), "", "no whole line is so short");
    fs::remove_dir_all(base).unwrap();
}
