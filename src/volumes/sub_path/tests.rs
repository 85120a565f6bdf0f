use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A volume, and beside it files that the volume's users must not see.
fn volume(name: &str) -> std::path::PathBuf {
    let base = crate::base::testing::scratch(name);
    fs::create_dir_all(base.join("v")).unwrap();
    fs::create_dir_all(base.join("outside")).unwrap();
    fs::write(base.join("outside/secret"), "s").unwrap();
    base
}

fn inode(found: &OwnedFd) -> u64 {
    fstat(found).unwrap().st_ino
}

#[test]
fn k56625_links_are_walked_and_lead_nowhere_else() {
    let base = volume("sub-path");
    let v = base.join("v");
    fs::create_dir_all(v.join("a/b")).unwrap();
    fs::write(v.join("a/file"), "f").unwrap();
    for (name, target) in [
        ("abs", "/etc"),
        ("up", "../outside"),
        ("up-late", "a/../../outside"),
        ("in", "a/./b"),
        ("in2", "in/../file"),
        ("self", "self"),
        ("ping", "pong"),
        ("pong", "ping"),
        ("dangling", "a/new"),
        ("dot", "."),
        ("proc", "/proc/self/root"),
    ] {
        symlink(target, v.join(name)).unwrap();
    }
    let mut many = "dot/".repeat(200);
    many.push('a');
    let check = |path: &str, expected: Option<&str>| {
        let found = resolve(&v, path);
        match expected {
            Some(is) => {
                let is = fs::metadata(v.join(is)).unwrap();
                assert_eq!(inode(&found.unwrap_or_else(|e| panic!("{path}: {e:?}"))), is.ino(), "{path}");
            }
            None => assert!(found.is_err(), "{path}"),
        }
    };
    check("a", Some("a"));
    check(".", Some("."));
    check("a//b/.", Some("a/b"));
    check("in", Some("a/b"));
    check("in2", Some("a/file"));
    check("a/file", Some("a/file"));
    check("a/b/..", Some("a"));
    for bad in [
        "abs",
        "abs/passwd",
        "up",
        "up/secret",
        "up-late",
        "self",
        "ping",
        "proc",
        "proc/etc",
        "..",
        "a/../..",
        "a/file/x",
        &many,
    ] {
        check(bad, None);
    }
    assert!(!base.join("outside/passwd").exists());
    // Missing directories are created inside the volume.
    resolve(&v, "new/er").unwrap();
    assert!(v.join("new/er").is_dir());
    resolve(&v, "dangling").unwrap();
    assert!(v.join("a/new").is_dir());
    fs::remove_dir_all(base).unwrap();
}

/// While another thread replaces a directory by a link, no walk ends outside.
#[test]
fn k56625_a_race_is_lost_by_the_attacker() {
    let base = volume("sub-path-race");
    let v = base.join("v");
    fs::create_dir_all(v.join("real/x")).unwrap();
    fs::create_dir_all(v.join("turn/x")).unwrap();
    symlink("../outside", v.join("evil")).unwrap();
    fs::create_dir_all(base.join("outside/x")).unwrap();
    let outside: Vec<u64> =
        ["outside", "outside/x"].map(|p| fs::metadata(base.join(p)).unwrap().ino()).into();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                _ = rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    v.join("turn"),
                    rustix::fs::CWD,
                    v.join("evil"),
                    rustix::fs::RenameFlags::EXCHANGE,
                );
            }
        });
        let (mut inside, mut refused) = (0, 0);
        for _ in 0..20_000 {
            match resolve(&v, "turn/x") {
                Ok(found) => {
                    assert!(!outside.contains(&inode(&found)));
                    inside += 1;
                }
                Err(_) => refused += 1,
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(inside > 0 && refused > 0, "{inside} {refused}");
    });
    assert_eq!(fs::read_dir(base.join("outside")).unwrap().count(), 2, "nothing was made there");
    fs::remove_dir_all(base).unwrap();
}
