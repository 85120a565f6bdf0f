use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

fn dir(name: &str) -> (PathBuf, OwnedFd) {
    let path = crate::base::testing::scratch(name);
    let fd = rustix::fs::open(&path, DIRECTORY, Mode::empty()).unwrap();
    (path, fd)
}

fn files(list: &[(&str, &str, u32)]) -> Payload<'static> {
    let file = |data: &str, mode| PayloadFile { data: data.as_bytes().to_vec().into(), mode, user: None };
    list.iter().map(|(path, data, mode)| ((*path).to_owned(), file(data, *mode))).collect()
}

fn now(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A container's view: paths, modes and contents; and other entries.
fn seen(at: &Path) -> String {
    let mut words = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(at.join(&below)).unwrap() {
            let name = below.join(entry.unwrap().file_name());
            if name.to_string_lossy().starts_with("..") {
                continue;
            }
            let meta = fs::metadata(at.join(&name)).unwrap();
            if meta.is_dir() {
                open.push(name);
            } else {
                let text = fs::read_to_string(at.join(&name)).unwrap();
                words.push(format!("{} {:o} {text}", name.display(), meta.mode() & 0o7777));
            }
        }
    }
    words.sort();
    words.join("; ")
}

fn versions(at: &Path) -> Vec<String> {
    let names = fs::read_dir(at).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| is_version(name)).collect();
    names.sort();
    names
}

#[test]
fn versions_follow_one_another() {
    let (path, fd) = dir("atomic");
    assert!(!is_written(&fd).unwrap());
    let write =
        |list: &[(&str, &str, u32)], second: i64| write(&fd, &files(list), None, now(second)).unwrap();
    assert!(write(&[("a", "1", 0o644), ("d/x/y", "2", 0o400)], 0));
    assert_eq!(seen(&path), "a 644 1; d/x/y 400 2");
    assert_eq!(versions(&path), ["..2027_01_15_08_00_00.000000000"]);
    assert_eq!(fs::read_link(path.join("a")).unwrap(), Path::new("..data/a"));
    assert_eq!(fs::read_link(path.join("d")).unwrap(), Path::new("..data/d"));
    assert_eq!(fs::metadata(path.join("..data/d")).unwrap().mode() & 0o7777, 0o755);
    assert!(is_written(&fd).unwrap());
    // The same files again cause no write, and repair links.
    fs::remove_file(path.join("a")).unwrap();
    fs::remove_file(path.join("d")).unwrap();
    symlink("/etc", path.join("d")).unwrap();
    assert!(!write(&[("a", "1", 0o644), ("d/x/y", "2", 0o400)], 1));
    assert_eq!(seen(&path), "a 644 1; d/x/y 400 2");
    assert_eq!(versions(&path).len(), 1);
    // Any difference counts.
    assert!(write(&[("a", "1", 0o600), ("d/x/y", "2", 0o400)], 2), "mode");
    assert!(write(&[("a", "3", 0o600), ("d/x/y", "2", 0o400)], 2), "content");
    assert!(write(&[("a", "3", 0o600), ("d/x", "2", 0o400)], 2), "a directory becomes a file");
    assert!(write(&[("a", "3", 0o600)], 2), "one goes");
    assert_eq!(seen(&path), "a 600 3");
    assert_eq!(versions(&path).len(), 1);
    assert!(write(&[], 3));
    assert_eq!(seen(&path), "");
    assert!(!write(&[], 4));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn what_a_death_left_is_cleared_and_what_is_not_ours_stays() {
    let (path, fd) = dir("atomic-death");
    write(&fd, &files(&[("a", "1", 0o644)]), None, now(0)).unwrap();
    fs::create_dir_all(path.join("..2026_01_01_00_00_00.000000001/half")).unwrap();
    symlink("..2026_01_01_00_00_00.000000001", path.join("..data_tmp")).unwrap();
    fs::create_dir(path.join("mount-point")).unwrap();
    fs::create_dir(path.join("taken")).unwrap();
    write(&fd, &files(&[("a", "2", 0o644), ("taken", "t", 0o644)]), None, now(0)).unwrap();
    assert_eq!(seen(&path), "a 644 2");
    assert!(path.join("mount-point").is_dir() && path.join("taken").is_dir());
    assert_eq!(
        versions(&path),
        ["..2027_01_15_08_00_00.000000001"],
        "a name that was taken is not used twice"
    );
    // Without its version, or with a wrong target, everything is made again.
    fs::remove_dir_all(path.join("..2027_01_15_08_00_00.000000001")).unwrap();
    assert!(!is_written(&fd).unwrap());
    assert!(write(&fd, &files(&[("a", "2", 0o644)]), None, now(9)).unwrap());
    fs::remove_file(path.join("..data")).unwrap();
    symlink("/etc", path.join("..data")).unwrap();
    assert!(write(&fd, &files(&[("a", "2", 0o644)]), None, now(9)).unwrap());
    assert_eq!(seen(&path), "a 644 2");
    fs::remove_dir_all(path).unwrap();
}

#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn files_belong_to_the_group_before_anybody_sees_them() {
    let (path, fd) = dir("atomic-group");
    let mut list = files(&[("d/k", "1", 0o400), ("x", "2", 0o555)]);
    list.get_mut("x").unwrap().user = Some(1234);
    assert!(write(&fd, &list, Some(4242), now(0)).unwrap());
    let of = |name: &str| {
        let meta = fs::metadata(path.join("..data").join(name)).unwrap();
        format!("{}:{} {:o}", meta.uid(), meta.gid(), meta.mode() & 0o7777)
    };
    assert_eq!(
        [of("."), of("d"), of("d/k"), of("x")],
        ["0:4242 2755", "0:4242 2755", "0:4242 440", "1234:4242 555"]
    );
    assert!(!write(&fd, &list, Some(4242), now(1)).unwrap());
    assert!(write(&fd, &list, Some(4243), now(2)).unwrap());
    fs::remove_dir_all(path).unwrap();
}

/// A reader that opens the directory of one version sees that version.
#[test]
fn a_reader_never_sees_two_versions_at_once() {
    let (path, fd) = dir("atomic-reader");
    let both = |n: u32| files(&[("a", &n.to_string(), 0o644), ("b", &n.to_string(), 0o644)]);
    write(&fd, &both(0), None, now(0)).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut whole = 0;
            while !over.load(Ordering::Relaxed) {
                let version = fs::read_link(path.join("..data")).unwrap();
                let read = |name: &str| fs::read_to_string(path.join(&version).join(name));
                // If the version was removed meanwhile, the next look sees the next one.
                if let (Ok(a), Ok(b)) = (read("a"), read("b")) {
                    assert_eq!(a, b);
                    whole += 1;
                }
                assert!(
                    fs::read_to_string(path.join("a")).is_ok()
                        || over.load(Ordering::Relaxed)
                        || path.join("a").is_symlink()
                );
            }
            whole
        });
        for n in 1..300 {
            assert!(write(&fd, &both(n), None, now(n.into())).unwrap());
        }
        over.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    fs::remove_dir_all(path).unwrap();
}
