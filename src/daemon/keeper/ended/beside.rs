//! Files that containers can write to outside of their layers and volumes: the hosts, host name and resolver files of
//! their sandbox, their termination messages, and their logs. Of those of containers that are emptied only the end stays,
//! where a termination message is and a log's last lines are.
//!
//! Never here: a file of a pod that goes on.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Ended, bytes};
use crate::base::table::Set;
use crate::base::{limits, order};
use crate::layout;
use crate::runtime::{ContainerSummary, labels};
use crate::volumes::{self, Kept};

/// Docker's own files of a sandbox that its containers share (`moby/moby`, `container/container_unix.go`).
const OF_DOCKER: [&str; 3] = ["hosts", "hostname", "resolv.conf"];

/// Such a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Beside {
    path: PathBuf,
    /// What stays of it; `None`: it is removed, an older file of a log.
    kept: Option<Kept>,
}

impl Beside {
    /// Makes the file short if that frees so many bytes, and logs it.
    pub(super) fn shorten(&self, least: u64) {
        let taken = || fs::symlink_metadata(&self.path).map_or(0, |found| found.blocks().saturating_mul(512));
        let (before, at) = (taken(), self.path.display());
        let most = self.kept.map_or(0, Kept::most).saturating_add(limits::BLOCK);
        if before.saturating_sub(most) < least {
            return;
        }
        let done = match self.kept {
            Some(kept) => volumes::shorten(&self.path, kept),
            None => fs::remove_file(&self.path),
        };
        match done.map(|()| before.saturating_sub(taken())) {
            Ok(freed) if freed > 0 => log::warn!(
                "{at}: its pod has ended, and the node is short of disk: what the pod has written into it ({}) is \
                 removed",
                bytes(freed)
            ),
            Ok(_) => log::warn!("{at}: what an ended pod has written into it cannot be freed"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log::warn!("{at}: what an ended pod has written into it is not removed: {error}"),
        }
    }
}

impl Ended {
    /// Such files of the pods of these containers, whether they are there or not, and the containers' logs.
    pub(super) fn beside(
        &self,
        dead: &[&ContainerSummary],
        all: &[ContainerSummary],
        docker_root: &Path,
    ) -> Vec<Beside> {
        let uids: Set<&str> = order::set(dead.iter().filter_map(|it| self.uid(it)));
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
        let plain = of_docker.chain(of_pod).flatten().chain(messages.flatten());
        let plain = plain.map(|path| Beside { path, kept: Some(Kept::End(limits::TERMINATION_FILE)) });
        let gives_logs =
            |it: &&&ContainerSummary| self.uid(it).is_none_or(|uid| !self.keep_logs.contains(uid));
        plain.chain(dead.iter().filter(gives_logs).flat_map(|it| logs(docker_root, &it.id))).collect()
    }

    /// UID of the pod of a container of this node.
    pub(super) fn uid<'c>(&self, container: &'c ContainerSummary) -> Option<&'c str> {
        let root = container.labels.get(labels::ROOT_DIR).map(Path::new);
        container.labels.get(labels::POD_UID).filter(|_| root == Some(&*self.root_dir)).map(String::as_str)
    }
}

/// The files of a container's log, by Docker's drivers `json-file` and `local`.
fn logs(docker_root: &Path, id: &str) -> Vec<Beside> {
    let Some(own) = layout::below(docker_root, &["containers", id]) else { return Vec::new() };
    let json = format!("{id}-json.log");
    let of = |directory: &Path, name: &str, kept: Kept| -> Vec<Beside> {
        let file = |path: PathBuf| {
            let rest = path.file_name()?.to_str()?.strip_prefix(name)?;
            let kept = rest.is_empty().then_some(kept);
            Some(Beside { path, kept })
        };
        entries(directory).filter_map(file).collect()
    };
    let mut found = of(&own, &json, Kept::Lines(limits::ENDED_LOG));
    found.extend(of(&own.join("local-logs"), "container.log", Kept::End(0)));
    found
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    found.take(limits::ENDED_FILES).map(|entry| entry.path())
}
