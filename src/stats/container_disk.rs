//! Usage of a container on Docker's disk, if Docker has told where its files are.

use std::path::{Path, PathBuf};

use super::disk_use::{DiskUse, Round};
use crate::runtime::ContainerFiles;

/// Usage of one container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContainerDisk {
    /// Its writable layer, without inodes if only Docker can count it; and the volumes that its image declares.
    pub writable: DiskUse,
    /// Its log, including rotated files.
    pub logs: DiskUse,
    /// The files that all containers of its sandbox share; counted for the first of these containers in a round.
    pub shared: DiskUse,
}

/// Counts one container. Parts that Docker did not tell count as zero.
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
    // A file that is bound in place of such a file is not Docker's.
    let is_docker_s = |path: &&Path| docker_root.is_some_and(|root| path.starts_with(root));
    let shared = files.shared.iter().map(Path::new).filter(is_docker_s).map(|path| round.file(path));
    let shared = shared.fold(DiskUse::default(), DiskUse::and);
    ContainerDisk { writable, logs, shared }
}

/// The path of the log of a container with Docker's driver `local`.
fn hidden_log(docker_root: &Path, id: &str) -> PathBuf {
    docker_root.join("containers").join(id).join("local-logs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::disk_use::Reach;
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

    /// Regression: a pod filled a disk through its `/etc/hostname`, and another pod was evicted for it.
    #[test]
    fn what_containers_write_into_files_of_their_sandbox_counts_once() {
        let tree = Tree::new("stats-container-disk-shared");
        tree.write("docker/containers/s/hostname", &"x".repeat(100_000));
        tree.write("docker/containers/s/resolv.conf", "x");
        tree.write("podkeeper/etc-hosts", &"x".repeat(100_000));
        let at = |path: &str| tree.root().join(path).display().to_string();
        let places =
            ["docker/containers/s/hostname", "podkeeper/etc-hosts", "docker/containers/s/resolv.conf"];
        let files = ContainerFiles { shared: places.map(at).to_vec(), ..ContainerFiles::default() };
        let mut round = Round::default();
        let docker = tree.root().join("docker");
        let first = read("abc", &files, Some(&docker), &mut round);
        assert_eq!(first.shared.inodes, 2, "what is bound in such a file's place is not Docker's");
        assert!((100_000..200_000).contains(&first.shared.bytes), "{first:?}");
        assert_eq!(read("def", &files, Some(&docker), &mut round), ContainerDisk::default());
        assert_eq!(read("abc", &files, None, &mut Round::default()), ContainerDisk::default());
        assert_eq!(round.reach(), Reach::Whole);
    }
}
