//! Pods that are not on the network that `--docker-network` names. A sandbox keeps the network on which it was made,
//! and is not made again because of a flag: that would restart every pod of the node. So the operator is told.

use super::{Entry, Turn};
use crate::base::clock::Now;
use crate::base::table::Table;
use crate::pod::problem::{Problem, Severity};
use crate::recorder::{ObjectEvent, Words, words};
use crate::runtime::{ContainerSummary, DockerState};

/// The names that Docker and Podman give to the network of containers that name none.
const DEFAULT: &[&str] = &["bridge", "podman"];

/// A sandbox that runs on another network than the flag names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Elsewhere {
    id: String,
    uid: String,
    /// The first network, if there are several; `None`: a network of CNI plugins.
    network: Option<String>,
}

impl Turn {
    /// Notes from Docker's list which sandboxes run on another network.
    pub(super) fn note_networks(&mut self, containers: &[ContainerSummary]) {
        let running = containers.iter().filter(|c| c.state == DockerState::Running);
        let on: Table<&str, &[String]> = running.map(|c| (c.id.as_str(), c.networks.as_slice())).collect();
        let (named, cni) = (self.network_name(), self.config.network.cni.is_on);
        let is_named = |network: &str| match named {
            Some(name) => network == name,
            None => DEFAULT.contains(&network),
        };
        let elsewhere = self.docker.found.iter().filter_map(|(key, all)| {
            let sandbox = all.iter().filter(|c| c.is_sandbox()).max_by_key(|c| c.attempt)?;
            let by_plugins = sandbox.is_by_plugins();
            // An operator may have connected it to other networks, too.
            let is_elsewhere = |all: &&&[String]| match by_plugins {
                true => !cni,
                false => cni || !all.iter().any(|network| is_named(network)),
            };
            let all = on.get(&sandbox.id.as_str()).filter(is_elsewhere)?;
            let network = if by_plugins { None } else { Some(all.first()?.clone()) };
            let (id, uid) = (sandbox.id.clone(), sandbox.uid.clone());
            Some((key.clone(), Elsewhere { id, uid, network }))
        });
        self.docker.elsewhere = elsewhere.collect();
    }

    fn network_name(&self) -> Option<&str> {
        self.config.network.docker_network.as_ref().map(|network| network.name.as_str())
    }

    fn network_kept(&self, elsewhere: &Elsewhere) -> Words {
        words::network_kept(elsewhere.network.as_deref(), self.network_name(), self.config.network.cni.is_on)
    }

    /// Records an event for each pod on another network, once for each sandbox.
    pub(super) fn settle_networks(&mut self, now: &Now) {
        let mut news = Vec::new();
        for (key, entry) in &mut self.entries {
            let Some(pod) = entry.desired.as_ref().filter(|pod| !pod.host_network()) else { continue };
            let elsewhere = self.docker.elsewhere.get(key).filter(|other| other.uid == pod.uid);
            if entry.elsewhere.as_ref() != elsewhere {
                entry.elsewhere = elsewhere.cloned();
                news.push((pod.key.clone(), pod.uid.clone(), elsewhere.cloned()));
            }
        }
        self.changed |= !news.is_empty();
        for (key, uid, elsewhere) in news {
            let Some(elsewhere) = elsewhere else { continue };
            let words = self.network_kept(&elsewhere);
            self.record(ObjectEvent::new(key, uid, None, words), now);
        }
    }

    /// Pods whose sandbox runs on another network.
    pub(super) fn network_problems(&self) -> impl Iterator<Item = Problem> {
        let runs = |entry: &Entry, id: &String| {
            entry.worker.as_ref().is_some_and(|w| w.seen.get(id) == Some(&DockerState::Running))
        };
        let all = self.entries.values().filter_map(move |entry| {
            let (pod, elsewhere) = (entry.desired.as_ref()?, entry.elsewhere.as_ref()?);
            runs(entry, &elsewhere.id).then_some((pod, elsewhere))
        });
        all.map(|(pod, elsewhere)| Problem {
            severity: Severity::Warning,
            path: pod.origin.path.clone(),
            at: None,
            pod: Some(pod.key.to_string()),
            field: None,
            message: self.network_kept(elsewhere).message,
        })
    }
}
