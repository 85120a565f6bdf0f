//! Tests of paths: a single file, a directory, something else, and disks that report no changes.

use super::*;

#[test]
fn what_stands_in_the_place_of_a_file() {
    let kept = |why: &str| format!("a b; broken /m/a.yaml; /m/a.yaml: {why}; what was made from it is kept");
    let check = |node: Node, expected: String| {
        let mut bench = Bench::with(&[("a.yaml", "pod a"), ("b.yaml", "pod b")]);
        bench.disk.put("/m/a.yaml", node.clone());
        assert_eq!(bench.look(), expected, "{node:?}");
        // It is reported once.
        assert_eq!(bench.look_after(20_000), "", "{node:?}");
        bench.disk.file("/m/a.yaml", "pod c", 0);
        assert_eq!(bench.written("a.yaml"), "c b", "{node:?}");
    };
    check(Node::Dangling, kept("is a symbolic link to nothing"));
    check(Node::Special, kept("is not a regular file"));
    check(Node::Fault(io::ErrorKind::PermissionDenied), kept("cannot be read: permission denied"));
    check(Node::Unreadable(io::ErrorKind::TimedOut), kept("cannot be read: timed out"));
    let ignored = |node: Node, why: &str| {
        let mut bench = Bench::with(&[("a.yaml", "pod a"), ("b.yaml", "pod b")]);
        bench.disk.put("/m/a.yaml", node);
        assert_eq!(bench.look(), format!("a b; /m/a.yaml: {why}: ignored"));
        assert_eq!(bench.look_after(200), format!("b; /m/a.yaml: {why}: ignored"));
        bench.disk.file("/m/a.yaml", "pod c", 0);
        assert_eq!(bench.written("a.yaml"), "c b");
    };
    ignored(Node::Directory, "is a directory");
}

#[test]
fn a_single_file_counts_whatever_its_name() {
    let mut bench = Bench::of("/etc/pods.conf");
    bench.disk.file("/etc/pods.conf", "pod a\npod b", 0);
    bench.disk.file("/etc/other.yaml", "pod c", 0);
    assert_eq!(bench.look(), "a b");
    bench.disk.file("/etc/pods.conf", "pod c", 1000);
    assert_eq!(bench.written("pods.conf"), "c");
    bench.disk.file("/etc/pods.conf", "bad", 1001);
    assert_eq!(bench.look(), "");
    assert_eq!(bench.look_after(200), "c; broken /etc/pods.conf; /etc/pods.conf: bad line");
    // A missing file, even if its deletion was seen, is not an empty set: the configured path must exist.
    bench.disk.remove("/etc/pods.conf");
    assert_eq!(bench.deleted(&["pods.conf"]), "Failed(/etc/pods.conf: does not exist)");
    bench.disk.put("/etc/pods.conf", Node::Unreadable(io::ErrorKind::TimedOut));
    assert_eq!(bench.look(), "Failed(/etc/pods.conf: cannot be read: timed out)");
}

#[test]
fn a_path_that_turns_from_file_to_directory() {
    let mut bench = Bench::of("/m");
    bench.disk.file("/m", "pod a", 0);
    assert_eq!(bench.look(), "a");
    bench.disk.put("/m", Node::Directory);
    bench.disk.file("/m/b.yaml", "pod b", 1000);
    assert_eq!(bench.written("b.yaml"), "a b");
    assert_eq!(bench.look_after(200), "b");
}

#[test]
fn the_real_disk_never_opens_what_is_no_file() {
    let temp = TempDir::new();
    let directory = temp.directory("m");
    let fifo = directory.join("fifo.yaml");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    std::os::unix::net::UnixListener::bind(directory.join("socket.yaml")).unwrap();
    std::fs::create_dir(directory.join("dir.yaml")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", directory.join("zero.yaml")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.join("gone.yaml")).unwrap();
    std::os::unix::fs::symlink("loop2.yaml", directory.join("loop1.yaml")).unwrap();
    std::os::unix::fs::symlink("loop1.yaml", directory.join("loop2.yaml")).unwrap();
    let long = format!("{}.yaml", "n".repeat(248));
    for (name, content) in
        [("big.json", vec![b'#'; limits::MANIFEST_BYTES + 1]), (&long, b"pod long".to_vec())]
    {
        std::fs::write(directory.join(name), content).unwrap();
    }
    let mut scanner = Scanner::new(directory.join(""), Acceptor::new(Source::File, "node1".into()));
    scanner.acceptor.decode = decode;
    let mut now = Now { mono: Mono::default(), wall: Timestamp::UNIX_EPOCH };
    scanner.scan(now, &Hints::default());
    now.mono = Mono(limits::SCAN_SETTLE);
    let Some(SourceUpdate::Full(set)) = scanner.scan(now, &Hints::default()).update else {
        panic!("nothing sent")
    };
    assert_eq!(names(&set), ["long"]);
    let prefix = format!("{}/", directory.display());
    let said: Vec<String> = set.problems.iter().map(|p| p.to_string().replace(&prefix, "")).collect();
    assert_eq!(
        said,
        [
            "big.json: is larger than the 1048576 bytes a manifest may have: not read",
            "dir.yaml: is a directory: ignored",
            "fifo.yaml: is not a regular file",
            "gone.yaml: is a symbolic link to nothing",
            "loop1.yaml: cannot be read: Too many levels of symbolic links (os error 40)",
            "loop2.yaml: cannot be read: Too many levels of symbolic links (os error 40)",
            "socket.yaml: is not a regular file",
            "zero.yaml: is not a regular file",
        ]
    );
    // Even without the check of the scanner.
    assert!(RealDisk.read(&fifo, 10).is_err());
    assert_eq!(RealDisk.read(&directory.join(&long), 3).unwrap().content.as_slice(), b"pod ");
}

#[test]
fn a_look_is_quiet_when_it_finds_nothing_and_nothing_can_change_unseen() {
    let mut bench = Bench::with(&[("a.yaml", "pod a")]);
    let none = Hints::default();
    assert!(bench.scan(&none).quiet);
    assert!(!bench.scan(&gone(&["b.yaml"])).quiet, "something happens");
    bench.millis += 10_000;
    bench.disk.file("/m/a.yaml", "pod b", 5);
    assert!(!bench.scan(&none).quiet, "it has changed");
    bench.millis += 10_000;
    bench.scan(&none);
    assert!(bench.scan(&none).quiet);
    bench.disk.put("/m/b.yaml", Node::Dangling);
    bench.scan(&none);
    assert!(!bench.scan(&none).quiet, "what a link leads to changes unseen");
    bench.disk.put("/m", Node::Fault(io::ErrorKind::PermissionDenied));
    assert!(!bench.scan(&none).quiet, "it cannot be read");
}

#[test]
fn file_systems_of_other_machines_are_not_this_machines_own() {
    assert!(!RealDisk.is_own(std::path::Path::new("/proc")));
    assert!(!RealDisk.is_own(std::path::Path::new("/nonexistent")));
    let temp = TempDir::new();
    assert!(RealDisk.is_own(&temp.path(".")), "where tests run");
}
