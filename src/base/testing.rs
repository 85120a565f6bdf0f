//! Golden files and scratch directories, for the tests of all rooms. For tests only.

/// Compares with a golden file, or rewrites it when the environment has `UPDATE=1`.
pub(crate) fn golden(name: &str, got: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, got).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(got, expected, "{} (UPDATE=1 rewrites it)", path.display());
}

/// The rows of a file of what a kubelet and an API server said to each other.
pub(crate) fn recorded(name: &str) -> Vec<serde_json::Value> {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cluster/recorded").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Where tests write: in memory where the machine has such a place, for no unit test learns anything by waiting for a disk.
/// `TMPDIR` names another place. Some tests run what they write, which a container's `/dev/shm` may not allow.
pub(crate) fn temporary() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    let runs = |at| {
        rustix::fs::statvfs(at).is_ok_and(|it| !it.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
    };
    match std::env::var_os("TMPDIR").is_none() && runs(memory) {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    }
}

/// A new empty directory for a test.
pub(crate) fn scratch(name: &str) -> std::path::PathBuf {
    let dir = temporary().join(format!("podkeeper-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
