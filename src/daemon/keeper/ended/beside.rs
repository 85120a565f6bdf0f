//! Files that containers can write to outside of their layers and volumes: the hosts, host name and resolver files of
//! their sandbox, and their termination messages. Of those of containers that are emptied only the end stays, where a
//! termination message is.
//!
//! Never here: a file of a pod that goes on.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Ended, bytes};
use crate::base::table::Set;
use crate::base::{limits, order};
use crate::layout;
use crate::runtime::{ContainerSummary, labels};
use crate::volumes;

/// Docker's own files of a sandbox that its containers share (`moby/moby`, `container/container_unix.go`).
const OF_DOCKER: [&str; 3] = ["hosts", "hostname", "resolv.conf"];

impl Ended {
    /// Shortens such files of the pods of these containers that have `least` bytes or more, and logs each.
    pub(super) fn shorten(
        &self,
        dead: &[&ContainerSummary],
        all: &[ContainerSummary],
        docker_root: &Path,
        least: u64,
    ) {
        let uids = order::set(dead.iter().filter_map(|it| self.uid(it)).map(str::to_owned));
        for path in self.beside(&uids, all, docker_root) {
            let taken = fs::symlink_metadata(&path).map_or(0, |found| found.blocks().saturating_mul(512));
            if taken < least {
                continue;
            }
            let at = path.display();
            match volumes::shorten(&path, limits::TERMINATION_FILE) {
                Ok(()) => log::warn!(
                    "{at}: its pod has ended, and the node is short of disk: what the pod has written into it ({}) is \
                     removed",
                    bytes(taken)
                ),
                Err(error) => {
                    log::warn!("{at}: what an ended pod has written into it is not removed: {error}")
                }
            }
        }
    }

    /// The paths of such files of the pods with these UIDs, whether they are there or not.
    fn beside(&self, uids: &Set<String>, all: &[ContainerSummary], docker_root: &Path) -> Vec<PathBuf> {
        let is_of = |it: &&ContainerSummary| self.uid(it).is_some_and(|uid| uids.contains(uid));
        let of_docker = all
            .iter()
            .filter(is_of)
            .flat_map(|it| OF_DOCKER.map(|name| layout::below(docker_root, &["containers", &it.id, name])));
        let of_pod = uids.iter().flat_map(|uid| {
            [layout::HOSTS, layout::RESOLVER].map(|name| layout::below(&self.root_dir, &["pods", uid, name]))
        });
        let messages = uids.iter().filter_map(|uid| {
            let containers = layout::below(&self.root_dir, &["pods", uid, layout::MESSAGES])?;
            Some(entries(&containers).flat_map(|container| entries(&container)))
        });
        of_docker.chain(of_pod).flatten().chain(messages.flatten()).collect()
    }

    /// UID of the pod of a container of this node.
    fn uid<'c>(&self, container: &'c ContainerSummary) -> Option<&'c str> {
        let root = container.labels.get(labels::ROOT_DIR).map(Path::new);
        container.labels.get(labels::POD_UID).filter(|_| root == Some(&*self.root_dir)).map(String::as_str)
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    found.take(limits::REMOVAL_ENTRIES).map(|entry| entry.path())
}
