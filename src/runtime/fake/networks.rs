//! Networks of the in-memory engine: names and subnets. Pure.

use super::calls::Answer;
use super::state::{Container, State, refused};
use crate::runtime::{Call, DockerError, NetworkDetail, RefusalKind as Kind, Reply};

impl State {
    /// Carries out a network call.
    pub(super) fn network_call(&mut self, call: &Call) -> Answer {
        match call {
            Call::NetworkList { labels } => {
                let has = |n: &&NetworkDetail, label: &String| match label.split_once('=') {
                    Some((key, value)) => n.labels.get(key).is_some_and(|v| v == value),
                    None => n.labels.contains_key(label),
                };
                let found = self.networks.iter().filter(|n| labels.iter().all(|label| has(n, label)));
                Ok(Reply::Networks(found.cloned().collect()))
            }
            Call::NetworkInspect { name } => {
                let found = self.networks.iter().find(|n| n.name == *name);
                found.map(|n| Reply::Network(n.clone())).ok_or_else(|| not_found(name))
            }
            Call::NetworkCreate { body } if self.networks.iter().any(|n| n.name == body.name) => {
                Err(refused(Kind::Conflict, 409, format!("network with name {} already exists", body.name)))
            }
            Call::NetworkCreate { body } => {
                let subnets = body.ipam.iter().flat_map(|ipam| &ipam.config).map(|c| c.subnet.clone());
                let (name, labels) = (body.name.clone(), body.labels.clone());
                self.networks.push(NetworkDetail { name, subnets: subnets.collect(), labels });
                Ok(Reply::Done)
            }
            Call::NetworkRemove { name } if !self.networks.iter().any(|n| n.name == *name) => {
                Err(not_found(name))
            }
            Call::NetworkRemove { name } => {
                self.remove_network(name);
                Ok(Reply::Done)
            }
            _ => Err(refused(Kind::NotFound, 404, "page not found".to_owned())),
        }
    }

    /// Removes a network, as another client would.
    pub fn remove_network(&mut self, name: &str) {
        self.networks.retain(|n| n.name != name);
    }

    /// Checks that the network of a container to be started exists.
    pub(super) fn network_is_there(&self, container: &Container) -> Result<(), DockerError> {
        let mode = container.body.host_config.namespaces.network_mode.as_str();
        let known = matches!(mode, "" | "default" | "bridge" | "host" | "none")
            || Container::joined(mode).is_some()
            || self.networks.iter().any(|n| n.name == mode);
        if known { Ok(()) } else { Err(not_found(mode)) }
    }
}

fn not_found(name: &str) -> DockerError {
    refused(Kind::NotFound, 404, format!("network {name} not found"))
}
