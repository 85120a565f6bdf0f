//! A test's view of the containers of one daemon, past the proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use podkeeper::testing::runtime::client::Client;
use podkeeper::testing::runtime::docker::Docker;
use podkeeper::testing::runtime::{Call, ContainerSummary, DockerState, Reply, labels};

use crate::harness::SOCKET;

/// The containers of one root directory at one moment: a single list.
#[derive(Clone)]
pub struct Eyes {
    pub docker: Docker,
    label: String,
}

impl Eyes {
    pub fn new(root: &Path) -> Eyes {
        let docker = Docker::Engine(Client::new(&PathBuf::from(SOCKET)));
        Eyes { docker, label: format!("{}={}", labels::ROOT_DIR, root.display()) }
    }

    pub fn list(&self) -> Vec<ContainerSummary> {
        match self.docker.call(&Call::List { labels: vec![self.label.clone()] }) {
            Ok(Reply::Containers(list)) => list,
            other => panic!("{other:?}"),
        }
    }

    pub fn running(&self) -> Vec<ContainerSummary> {
        self.list().into_iter().filter(|c| c.state == DockerState::Running).collect()
    }

    /// Two containers that run in one place, if there are any.
    pub fn twins(&self) -> Option<String> {
        let mut places = BTreeMap::new();
        self.running().into_iter().find_map(|c| {
            let place = (label(&c, labels::POD_NAME), label(&c, labels::CONTAINER_NAME));
            let first = places.insert(place, c.name.clone())?;
            Some(format!("{first} and {} ran at the same time", c.name))
        })
    }

    /// Containers that neither run nor are the one dead container of their place, which is kept for
    /// its logs.
    pub fn clutter(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut is_kept = |c: &ContainerSummary| {
            label(c, labels::CONTAINER_NAME) == "app"
                && c.state == DockerState::Exited
                && seen.insert(label(c, labels::POD_NAME))
        };
        let dead = self.list().into_iter().filter(|c| c.state != DockerState::Running);
        dead.filter(|c| !is_kept(c)).map(|c| format!("{} {:?}", c.name, c.state)).collect()
    }
}

pub fn label(c: &ContainerSummary, key: &str) -> String {
    c.labels.get(key).cloned().unwrap_or_default()
}
