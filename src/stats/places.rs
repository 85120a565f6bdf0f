//! Where the cgroups of containers and pods are. They are found by their names in the kernel's tree, so flags, drivers,
//! a moved `kubepods`, and containers without a pod's cgroup make no difference.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use super::cgroup::Hierarchies;
use crate::base::limits;
use crate::base::table::Table;
use crate::cgroup::names::container_id;

/// Container ids, 64 hex digits, with the paths of their cgroups below the mount. At most [`limits::CGROUPS`] cgroups
/// are looked at, those near the root first.
#[must_use]
pub fn containers(hierarchies: &Hierarchies) -> Table<String, PathBuf> {
    all(hierarchies).containers
}

/// Cgroups below the mount.
#[derive(Debug, Default)]
pub struct Found {
    /// Cgroups of containers, by their ids, 64 hex digits.
    pub containers: Table<String, PathBuf>,
    /// Cgroups of pods, by [`key_of`] their UIDs.
    pub pods: Table<String, PathBuf>,
}

impl Found {
    /// The cgroup of a pod, with or without a running container.
    #[must_use]
    pub fn of_pod(&self, uid: &str) -> Option<&PathBuf> {
        self.pods.get(&key_of(uid))
    }
}

/// Like [`containers`], and with the cgroups of pods.
#[must_use]
pub fn all(hierarchies: &Hierarchies) -> Found {
    let root = hierarchies.tree();
    let (mut open, mut found) = (VecDeque::from([PathBuf::new()]), Found::default());
    for _ in 0..limits::CGROUPS {
        let Some(at) = open.pop_front() else { break };
        for name in directories(&root.join(&at)) {
            let path = at.join(&name);
            if let Some(id) = container_id(&name) {
                // A container may have its own cgroups below; the first with the id is Docker's.
                found.containers.get_or_insert(id.to_owned(), path);
                continue;
            }
            if let Some(uid) = pod_uid(&name) {
                found.pods.get_or_insert_with(key_of(uid), || path.clone());
            }
            open.push_back(path);
        }
    }
    found
}

/// The UID in the name of a pod's cgroup, with either driver.
fn pod_uid(name: &str) -> Option<&str> {
    let last = name.strip_suffix(".slice").and_then(|unit| unit.rsplit('-').next()).unwrap_or(name);
    last.strip_prefix("pod").filter(|uid| !uid.is_empty())
}

/// The UID with `_` for `-`, as in systemd's names.
fn key_of(uid: &str) -> String {
    uid.replace('-', "_")
}

fn directories(at: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(at).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.filter_map(|entry| entry.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Tree;

    #[test]
    fn containers_are_found_wherever_they_are() {
        let tree = Tree::new("stats-places");
        let id = |digit: &str| digit.repeat(64);
        let (a, b, c) = (id("a"), id("b"), id("c"));
        let paths = [
            format!("kubepods/besteffort/podu/{a}"),
            format!("podkeeper.slice/podkeeper-kubepods.slice/docker-{b}.scope"),
            format!("docker/{c}"),
        ];
        for path in &paths {
            tree.write(&format!("memory/{path}/memory.stat"), "");
        }
        tree.write(&format!("memory/docker/{c}/docker/{a}/memory.stat"), "");
        let found = containers(&Hierarchies::open(tree.root()));
        let expected: Vec<(String, PathBuf)> = [a, b, c].into_iter().zip(paths.map(PathBuf::from)).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
        assert!(containers(&Hierarchies::open(PathBuf::from("/nonexistent"))).is_empty());
    }

    #[test]
    fn pods_are_found_with_and_without_containers() {
        let tree = Tree::new("stats-places-pods");
        let slice = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice";
        let container = format!("kubepods/podab-c/{}/pod9-9", "a".repeat(64));
        for path in ["kubepods/besteffort/pod3-4", slice, &container, "kubepods/pod", "podman"] {
            tree.write(&format!("memory/{path}/memory.stat"), "");
        }
        let found = all(&Hierarchies::open(tree.root()));
        let at = |uid: &str| found.of_pod(uid).map(|path| path.display().to_string());
        assert_eq!(at("3-4").as_deref(), Some("kubepods/besteffort/pod3-4"));
        assert_eq!(at("1-2").as_deref(), Some(slice));
        assert_eq!(at("ab-c").as_deref(), Some("kubepods/podab-c"));
        assert_eq!((at("9-9"), at("")), (None, None), "a container may call its cgroups as it likes");
    }
}
