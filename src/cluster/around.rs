//! Data that these threads need beside the snapshot: the machine, its addresses, Docker's version and images.
//!
//! Never here: a wait for Docker, except briefly at the first look. Images are listed in a thread of their own,
//! `pk-node-images`, which ends with its list: a Docker that hangs must not make the lease late.

use std::net::IpAddr;
use std::time::Duration;

use crate::base::json::json;
use serde_json::Value;

use super::node;
use crate::base::clock::Mono;
use crate::base::handover::{Giver, Taker, handover};
use crate::base::{limits, thread};
use crate::garbage::collector;
use crate::network::address;
use crate::node::facts::Facts;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, Reply};

/// See the module.
pub(super) struct Around {
    docker: Docker,
    node_ips: Vec<IpAddr>,
    most_images: Option<usize>,
    facts: Option<Facts>,
    addresses: Vec<String>,
    addresses_at: Option<Mono>,
    known: Known,
    looked: (Giver<Known>, Taker<Known>),
    looked_at: Option<Mono>,
}

/// Docker's latest answers.
#[derive(Debug, Default)]
struct Known {
    images: Value,
    version: Option<String>,
}

impl Around {
    pub(super) fn new(docker: Docker, node_ips: Vec<IpAddr>, most_images: Option<usize>) -> Around {
        Around {
            docker,
            node_ips,
            most_images,
            facts: None,
            addresses: Vec::new(),
            addresses_at: None,
            known: Known { images: json!([]), version: None },
            looked: handover(),
            looked_at: None,
        }
    }

    /// The node's addresses, read again when they are old.
    pub(super) fn addresses(&mut self, now: Mono) -> &[String] {
        let is_old = self.addresses_at.is_none_or(|at| now.since(at) >= limits::ADDRESSES_AGAIN);
        if is_old {
            self.addresses_at = Some(now);
            let found = address::of_node(&self.node_ips);
            // An unplugged cable does not remove the address: the server would lose its way to this node.
            if !found.is_empty() {
                self.addresses = found;
            }
        }
        &self.addresses
    }

    /// The machine, its addresses, and its images by the last list.
    pub(super) fn all(&mut self, is_reachable: bool, now: Mono) -> node::object::Around<'_> {
        self.addresses(now);
        let is_old = self.looked_at.is_none_or(|at| now.since(at) >= limits::IMAGES_AGAIN);
        if is_old && is_reachable {
            // The first look waits briefly for the answer, so that a new node is complete.
            let patience = if self.looked_at.is_none() { limits::FIRST_IMAGES } else { Duration::ZERO };
            self.looked_at = Some(now);
            self.look();
            self.heard(patience);
        }
        self.heard(Duration::ZERO);
        let facts = &*self.facts.get_or_insert_with(Facts::of_machine);
        let Known { images, version } = &self.known;
        node::object::Around { facts, addresses: &self.addresses, images, docker: version.as_deref() }
    }

    fn heard(&mut self, patience: Duration) {
        if let Ok(known) = self.looked.1.take(patience) {
            self.known = known;
        }
    }

    fn look(&self) {
        let (docker, out, most) = (self.docker.clone(), self.looked.0.clone(), self.most_images);
        let look = move || {
            let version = match docker.call(&Call::Info) {
                Ok(Reply::Info(info)) => Some(info.server_version).filter(|version| !version.is_empty()),
                _ => None,
            };
            match collector::images(&docker) {
                Ok(all) => _ = out.give(Known { images: node::images(&all, most), version }),
                Err(error) => log::debug!("the node's images are not told: {error}"),
            }
        };
        if let Err(error) = thread::spawn("pk-node-images", limits::WORKER_STACK, look) {
            log::debug!("the node's images are not told: no thread could be started: {error}");
        }
    }
}
