//! Where the cgroups of containers and pods are. They are looked for by their names in the kernel's tree, so that flags,
//! drivers, a `kubepods` that moved, and containers without a pod's cgroup make no difference.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use super::cgroup::Hierarchies;
use crate::base::limits;
use crate::cgroup::names::container_id;

/// Container ids, 64 hex digits, with the paths of their cgroups below the mount. At most [`limits::CGROUPS`] cgroups
/// are looked at, those near the root first.
#[must_use]
pub fn containers(hierarchies: &Hierarchies) -> BTreeMap<String, PathBuf> {
    let root = hierarchies.tree();
    let (mut open, mut found) = (VecDeque::from([PathBuf::new()]), BTreeMap::new());
    for _ in 0..limits::CGROUPS {
        let Some(at) = open.pop_front() else { break };
        for name in directories(&root.join(&at)) {
            let path = at.join(&name);
            match container_id(&name) {
                // A container may have cgroups of its own below; the first with the id is Docker's.
                Some(id) => _ = found.entry(id.to_owned()).or_insert(path),
                None => open.push_back(path),
            }
        }
    }
    found
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
}
