//! Tests on real directories with the real inotify. Events of finished calls are there at once, without waiting.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;

use super::*;
use crate::source::testing::TempDir;

fn watch(path: &Path) -> Watch {
    let mut watch = Watch::new(path.to_owned(), Inotify::init);
    watch.follow();
    watch
}

fn heard(watch: &mut Watch) -> Hints {
    let mut hints = Hints::default();
    watch.read(&mut hints);
    hints
}

/// The hints, such as `look +a.yaml -b.yaml`.
fn words(watch: &mut Watch) -> String {
    let hints = heard(watch);
    let look = hints.look.then(|| "look".to_owned());
    let written = hints.written.iter().map(|n| format!("+{n}"));
    let deleted = hints.deleted.iter().map(|n| format!("-{n}"));
    look.into_iter().chain(written).chain(deleted).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_each_event_means() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let elsewhere = temp.path("elsewhere.yaml");
    fs::write(&elsewhere, "x").unwrap();
    let mut watch = watch(&dir);
    let a = dir.join("a.yaml");
    let mut open = File::create(&a).unwrap();
    assert_eq!(words(&mut watch), "", "created, not written");
    open.write_all(b"x").unwrap();
    assert_eq!(words(&mut watch), "", "still open");
    drop(open);
    assert_eq!(words(&mut watch), "+a.yaml");
    fs::rename(&a, dir.join("b.yaml")).unwrap();
    assert_eq!(words(&mut watch), "+b.yaml -a.yaml");
    fs::rename(dir.join("b.yaml"), temp.path("away")).unwrap();
    assert_eq!(words(&mut watch), "-b.yaml");
    fs::rename(temp.path("away"), dir.join("b.yaml")).unwrap();
    fs::remove_file(dir.join("b.yaml")).unwrap();
    assert_eq!(words(&mut watch), "-b.yaml");
    // Names that are no manifests.
    for name in [".b.yaml.swp", "b.yaml~", "4913", "b.yaml.bak"] {
        fs::write(dir.join(name), "x").unwrap();
        fs::remove_file(dir.join(name)).unwrap();
    }
    assert_eq!(words(&mut watch), "");
    // A link exists at once, and no writer closes it.
    symlink(&elsewhere, dir.join("link.yaml")).unwrap();
    assert_eq!(words(&mut watch), "look");
    fs::hard_link(&elsewhere, dir.join("hard.yaml")).unwrap();
    assert_eq!(words(&mut watch), "look");
    // Atomic writers.
    symlink(".", dir.join("..data_tmp")).unwrap();
    assert_eq!(words(&mut watch), "look");
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    assert_eq!(words(&mut watch), "look");
}

#[test]
fn the_watch_follows_a_directory_that_is_deleted_moved_and_replaced() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let mut watch = watch(&dir);
    fs::remove_dir(&dir).unwrap();
    assert_eq!(words(&mut watch), "look");
    watch.follow();
    // The parent is watched now, for this name alone.
    temp.directory("other");
    assert_eq!(words(&mut watch), "");
    fs::create_dir(&dir).unwrap();
    assert_eq!(words(&mut watch), "look");
    watch.follow();
    fs::write(dir.join("a.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "+a.yaml");
    // The directory was moved away: changes in it do not count.
    fs::rename(&dir, temp.path("old")).unwrap();
    fs::rename(temp.path("other"), &dir).unwrap();
    assert_eq!(words(&mut watch), "look");
    watch.follow();
    fs::write(temp.path("old").join("b.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "");
    fs::write(dir.join("c.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "+c.yaml");
}

#[test]
fn a_link_to_a_directory_is_followed_when_it_leads_elsewhere() {
    let temp = TempDir::new();
    let (one, two) = (temp.directory("one"), temp.directory("two"));
    let link = temp.path("m");
    symlink(&one, &link).unwrap();
    let mut watch = watch(&link);
    fs::write(one.join("a.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "+a.yaml");
    fs::remove_file(&link).unwrap();
    symlink(&two, &link).unwrap();
    assert_eq!(words(&mut watch), "look -m");
    watch.follow();
    fs::write(one.join("b.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "");
    fs::write(two.join("b.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "+b.yaml");
}

#[test]
fn a_single_file_is_watched_through_its_directory() {
    let temp = TempDir::new();
    let path = temp.path("pods.conf");
    let mut watch = watch(&path);
    fs::write(temp.path("other.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "");
    fs::write(&path, "x").unwrap();
    assert_eq!(words(&mut watch), "+pods.conf");
    watch.follow();
    fs::rename(temp.path("other.yaml"), &path).unwrap();
    assert_eq!(words(&mut watch), "+pods.conf");
    fs::remove_file(&path).unwrap();
    assert_eq!(words(&mut watch), "-pods.conf");
}

#[test]
fn no_parent_is_no_watch_and_no_error() {
    let temp = TempDir::new();
    let path = temp.path("no/such/m");
    let mut watch = watch(&path);
    assert!(watch.targets.is_empty() && !watch.grumbled);
    fs::create_dir_all(&path).unwrap();
    watch.follow();
    fs::write(path.join("a.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "+a.yaml");
}

#[test]
fn k40123_an_overflowing_queue_is_a_hint() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let mut watch = watch(&dir);
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let (a, b) = (dir.join("a.yaml"), dir.join("b.yaml"));
    fs::write(&a, "x").unwrap();
    // Two events each, and never two equal ones in a row.
    for _ in 0..limit / 4 + 1 {
        fs::rename(&a, &b).unwrap();
        fs::rename(&b, &a).unwrap();
    }
    let mut hints = Hints::default();
    // One call is bounded; a long queue takes several.
    for _ in 0..limit {
        watch.read(&mut hints);
        if hints.look {
            break;
        }
    }
    assert!(hints.look);
}

#[test]
fn k7490_no_inotify_is_said_once_and_tried_again() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let refuse: Opener = || Err(io::Error::from_raw_os_error(24));
    let mut watch = Watch::new(dir.clone(), refuse);
    watch.follow();
    assert!(watch.grumbled && watch.fd().is_none());
    watch.follow();
    assert_eq!(words(&mut watch), "");
    watch.open = Inotify::init;
    watch.follow();
    assert!(!watch.grumbled && watch.fd().is_some());
    fs::write(dir.join("a.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "+a.yaml");
}

#[test]
fn a_path_that_is_a_link_is_followed_when_the_link_is_swapped() {
    let temp = TempDir::new();
    let (one, two) = (temp.directory("one"), temp.directory("two"));
    let (path, middle) = (temp.directory("etc").join("manifests"), temp.path("middle"));
    // Through two links, in different directories.
    symlink(&one, &middle).unwrap();
    symlink(&middle, &path).unwrap();
    let mut watch = watch(&path);
    fs::write(one.join("a.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "+a.yaml");
    let swap = |link: &Path, to: &Path| {
        symlink(to, temp.path("new")).unwrap();
        fs::rename(temp.path("new"), link).unwrap();
    };
    swap(&middle, &two);
    assert_ne!(words(&mut watch), "");
    watch.follow();
    fs::write(two.join("b.yaml"), "x").unwrap();
    fs::write(one.join("c.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "+b.yaml");
    swap(&path, &one);
    assert_ne!(words(&mut watch), "");
    watch.follow();
    fs::write(two.join("b.yaml"), "x").unwrap();
    fs::write(one.join("c.yaml"), "x").unwrap();
    assert_eq!(words(&mut watch), "+c.yaml");
    // As old versions of `ln -sfn` do it: removed, then made anew.
    fs::remove_file(&path).unwrap();
    assert_ne!(words(&mut watch), "");
    watch.follow();
    symlink(&two, &path).unwrap();
    assert_ne!(words(&mut watch), "");
}

#[test]
fn a_single_file_behind_a_link_is_heard_where_it_is() {
    let temp = TempDir::new();
    let (path, file) = (temp.directory("etc").join("pods.conf"), temp.path("real.yaml"));
    fs::write(&file, "x").unwrap();
    symlink(&file, &path).unwrap();
    let mut watch = watch(&path);
    fs::write(&file, "y").unwrap();
    assert_eq!(words(&mut watch), "+pods.conf");
    fs::remove_file(&file).unwrap();
    assert_eq!(words(&mut watch), "-pods.conf");
}
