//! Attempts of a pod with a shell in an allowed path.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use super::*;

/// `pods/` is allowed, `pods/own` only read-only; `secret/` is not.
fn ground(name: &str) -> PathBuf {
    let base = crate::base::testing::scratch(name);
    for dir in ["pods/a/deep", "secret", "read/w"] {
        fs::create_dir_all(base.join(dir)).unwrap();
    }
    fs::write(base.join("secret/key"), "").unwrap();
    fs::write(base.join("pods/file"), "").unwrap();
    base
}

/// Opens a path below `base`; these paths are allowed, with or without `:ro`. Compares device and inode of
/// the result.
fn open(base: &Path, allowed: &[&str], path: &str, kind: &str, writes: bool) -> Result<(u64, u64), String> {
    let list = allowed.iter().map(|entry| format!("{}/{entry}", base.display()));
    let allowed: Vec<AllowedPath> = list.map(|entry| AllowedPath::parse(&entry).unwrap()).collect();
    let path = format!("{}/{path}", base.display());
    let found = Wanted { path: &path, kind, writes, allowed: &allowed }.open();
    let found = found.map_err(|why| why.replace(&base.display().to_string(), "BASE"))?;
    let stat = fstat(&found).unwrap();
    Ok((stat.st_dev, stat.st_ino))
}

fn id(path: PathBuf) -> Result<(u64, u64), String> {
    let meta = fs::symlink_metadata(path).unwrap();
    Ok((meta.dev(), meta.ino()))
}

#[test]
fn no_link_leads_out_of_what_is_allowed() {
    let base = ground("host-path-links");
    let outside = Err("a link leads out of the allowed path".to_owned());
    let check = |path: &str, expected: Result<&str, String>| {
        let got = open(&base, &["pods"], path, "", true);
        let expected = match expected {
            Ok(place) => id(base.join(place)),
            Err(why) => Err(format!("hostPath BASE/{path}: {why}")),
        };
        assert_eq!(got, expected, "{path}");
    };
    symlink("/", base.join("pods/rootfs")).unwrap();
    symlink("..", base.join("pods/up")).unwrap();
    symlink("../../secret", base.join("pods/a/side")).unwrap();
    symlink(base.join("pods/a"), base.join("pods/absolute")).unwrap();
    symlink("a/../../pods/../secret/key", base.join("pods/winding")).unwrap();
    symlink("loop", base.join("pods/loop")).unwrap();
    symlink("a/deep", base.join("pods/good")).unwrap();
    symlink("../../file", base.join("pods/a/deep/good")).unwrap();
    check("pods", Ok("pods"));
    check("pods/a/./deep/", Ok("pods/a/deep"));
    check("pods/good", Ok("pods/a/deep"));
    check("pods/good/good", Ok("pods/file"));
    for path in
        ["pods/rootfs", "pods/rootfs/root", "pods/up", "pods/up/secret", "pods/a/side", "pods/winding"]
    {
        check(path, outside.clone());
    }
    check("pods/absolute", outside);
    check("pods/loop", Err("too many links or parts".to_owned()));
    check("secret", Err("is not allowed on this node".to_owned()));
    check("pods/../secret", Err("is not allowed on this node".to_owned()));
    check("pods/file/x", Err("Not a directory (os error 20)".to_owned()));
    fs::remove_dir_all(base).unwrap();
}

/// New directories and files are created inside, too.
#[test]
fn nothing_is_made_outside() {
    let base = ground("host-path-made");
    symlink("../secret", base.join("pods/out")).unwrap();
    for kind in ["", "DirectoryOrCreate", "FileOrCreate"] {
        let refused = open(&base, &["pods"], "pods/out/made", kind, true).unwrap_err();
        assert!(refused.ends_with("leads out of the allowed path"), "{refused}");
    }
    assert_eq!(fs::read_dir(base.join("secret")).unwrap().count(), 1);
    let made = open(&base, &["pods"], "pods/new/deep", "DirectoryOrCreate", true);
    assert_eq!(made, id(base.join("pods/new/deep")));
    let made = open(&base, &["pods"], "pods/new/file", "FileOrCreate", true);
    assert_eq!(made, id(base.join("pods/new/file")));
    let mode = |path: &str| fs::metadata(base.join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("pods/new"), mode("pods/new/deep"), mode("pods/new/file")), (0o755, 0o755, 0o644));
    assert!(open(&base, &["pods"], "pods/no/file", "FileOrCreate", true).is_err());
    assert!(open(&base, &["pods"], "pods/no", "Directory", true).is_err());
    assert!(!base.join("pods/no").exists());
    // The allowed path itself belongs to the operator.
    symlink("pods", base.join("link")).unwrap();
    assert_eq!(open(&base, &["link"], "link/a", "Directory", true), id(base.join("pods/a")));
    assert_eq!(open(&base, &["fresh"], "fresh/a", "", true), id(base.join("fresh/a")));
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn a_link_gives_no_more_than_its_end() {
    let base = ground("host-path-rights");
    symlink("../x", base.join("read/w/out")).unwrap();
    fs::create_dir(base.join("read/x")).unwrap();
    let allowed = &["read:ro", "read/w"];
    assert_eq!(open(&base, allowed, "read/w", "", true), id(base.join("read/w")));
    let refused = open(&base, allowed, "read/w/out", "", true).unwrap_err();
    assert_eq!(refused, "hostPath BASE/read/w/out: a link leads to what is allowed read-only");
    assert_eq!(open(&base, allowed, "read/w/out", "", false), id(base.join("read/x")));
    // An allowed path inside another one to which pods may write is not controlled by the operator alone.
    fs::remove_dir_all(base.join("pods/a")).unwrap();
    symlink("../secret", base.join("pods/a")).unwrap();
    let refused = open(&base, &["pods", "pods/a"], "pods/a", "", true).unwrap_err();
    assert_eq!(refused, "hostPath BASE/pods/a: a link leads out of the allowed path");
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn everything_may_be_allowed() {
    let base = ground("host-path-root");
    symlink(base.join("secret"), base.join("pods/link")).unwrap();
    let path = base.join("pods/link/key").display().to_string();
    let all = [AllowedPath::parse("/").unwrap()];
    let found = Wanted { path: &path, kind: "File", writes: true, allowed: &all }.open().unwrap();
    assert_eq!(fstat(&found).unwrap().st_ino, fs::metadata(base.join("secret/key")).unwrap().ino());
    let root = Wanted { path: "/", kind: "Directory", writes: true, allowed: &all }.open().unwrap();
    assert_eq!(fstat(&root).unwrap().st_ino, fs::metadata("/").unwrap().ino());
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn types() {
    let base = ground("host-path-types");
    let _socket = UnixListener::bind(base.join("pods/socket")).unwrap();
    let check = |path: &str, kind: &str, expected: &str| {
        let got = open(&base, &["pods"], path, kind, true).map(|_| String::new());
        assert_eq!(got.unwrap_or_else(|why| why), expected, "{path} {kind}");
    };
    let not = |path: &str, what: &str| format!("hostPath type check failed: BASE/{path} is not {what}");
    check("pods/a", "Directory", "");
    check("pods/file", "", "");
    check("pods/file", "File", "");
    check("pods/file", "Directory", &not("pods/file", "a directory"));
    check("pods/file", "DirectoryOrCreate", &not("pods/file", "a directory"));
    check("pods/a", "File", &not("pods/a", "a file"));
    check("pods/a", "FileOrCreate", &not("pods/a", "a file"));
    check("pods/socket", "Socket", "");
    check("pods/file", "Socket", &not("pods/file", "a socket file"));
    check("pods/file", "BlockDevice", &not("pods/file", "a block device"));
    check("pods/file", "Pipe", "Pipe is an invalid volume type");
    fs::remove_dir_all(base).unwrap();
}

/// Regression: ten binds of `/` counted as ten mounts and were 57,000, for each brings along all mounts below it, those
/// of the binds before it included.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn the_mounts_below_a_directory_count_until_it_is_bound() {
    let base = crate::base::testing::scratch("host-path-below");
    let (from, to) = (base.join("from"), base.join("to"));
    std::fs::create_dir_all(from.join("a/b")).unwrap();
    std::fs::create_dir(from.join("later")).unwrap();
    std::fs::create_dir(&to).unwrap();
    let foreign = Foreign { roots: vec![base.join("foreign")], stages: vec![base.join("stage")] };
    let tmpfs = |at: &Path| {
        rustix::mount::mount("tmpfs", at, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
    };
    tmpfs(&from.join("a"));
    std::fs::create_dir(from.join("a/b")).unwrap();
    tmpfs(&from.join("a/b"));
    let open = |at: &Path| rustix::fs::open(at, DIRECTORY, Mode::empty()).unwrap();
    let below = || {
        let mut below = mounts_below(&foreign, &open(&from), &to).unwrap();
        below.sort();
        below
    };
    assert_eq!(below(), ["a", "a/b"]);
    let below_a = || mounts_below(&foreign, &open(&from.join("a")), &to).unwrap();
    assert_eq!(below_a(), ["b"]);
    mounts::bind_with_all(&open(&from), &open(&to)).unwrap();
    tmpfs(&from.join("later"));
    assert_eq!(below(), ["a", "a/b"], "what is there");
    assert_eq!(below_a(), ["b"], "another directory is bound there");
    mounts::end_all(&to).unwrap();
    mounts::end_all(&from).unwrap();
    std::fs::remove_dir_all(base).unwrap();
}
