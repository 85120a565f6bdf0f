//! What a container takes of the disk on which Docker keeps it, where Docker has told where its files are.

use std::path::{Path, PathBuf};

use super::disk_use::{DiskUse, Round};
use crate::runtime::ContainerFiles;

/// What one container takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContainerDisk {
    /// Its writable layer, without inodes where only Docker can count it; and the volumes that its image declares.
    pub writable: DiskUse,
    /// Its log, with rotated files.
    pub logs: DiskUse,
}

/// Counts one container. What Docker did not tell takes nothing.
#[must_use]
pub fn read(
    id: &str,
    files: &ContainerFiles,
    docker_root: Option<&Path>,
    round: &mut Round,
) -> ContainerDisk {
    let writable = match &files.upper_dir {
        Some(upper) => round.tree(Path::new(upper)),
        None => DiskUse { bytes: files.size.unwrap_or(0), inodes: 0 },
    };
    let volumes = files.volumes.iter().map(|volume| round.tree(Path::new(volume)));
    let writable = volumes.fold(writable, DiskUse::and);
    let logs = if !files.log_path.is_empty() {
        round.log(Path::new(&files.log_path))
    } else if files.has_hidden_log() {
        docker_root.map(|root| round.tree(&hidden_log(root, id))).unwrap_or_default()
    } else {
        DiskUse::default()
    };
    ContainerDisk { writable, logs }
}

/// Where Docker's driver `local` keeps the log of a container.
fn hidden_log(docker_root: &Path, id: &str) -> PathBuf {
    docker_root.join("containers").join(id).join("local-logs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Tree;

    #[test]
    fn where_docker_has_them() {
        let tree = Tree::new("stats-container-disk");
        tree.write("upper/file", &"x".repeat(10_000));
        tree.write("c/c.log", &"x".repeat(5000));
        tree.write("c/c.log.1", "x");
        tree.write("containers/abc/local-logs/container.log", &"x".repeat(9000));
        let at = |path: &str| tree.root().join(path).display().to_string();
        let read = |files: &ContainerFiles| read("abc", files, Some(&tree.root()), &mut Round::default());
        let log = ContainerFiles {
            upper_dir: Some(at("upper")),
            log_path: at("c/c.log"),
            ..ContainerFiles::default()
        };
        let found = read(&log);
        assert_eq!((found.writable.inodes, found.logs.inodes), (2, 2));
        assert!(found.writable.bytes >= 10_000 && found.logs.bytes >= 5001, "{found:?}");
        let local =
            ContainerFiles { log_driver: "local".into(), size: Some(77), ..ContainerFiles::default() };
        let found = read(&local);
        assert_eq!(found.writable, DiskUse { bytes: 77, inodes: 0 });
        assert_eq!(found.logs.inodes, 2);
        assert_eq!(read(&ContainerFiles::default()), ContainerDisk::default());
    }
}
