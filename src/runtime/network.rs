//! The network of the pods (`--docker-network`): made when it is missing, and left when podkeeper goes, for
//! other containers may have come to use it.
//!
//! Docker makes two networks of one name when it is asked twice at the same time, so only one at a time asks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::docker::Docker;
use super::{Call, DockerError, Ipam, NetworkBody, RefusalKind, Reply, Subnet, labels};
use crate::limits;
use crate::network::DockerNetwork;

/// The network, and how to come by it.
#[derive(Debug)]
pub struct PodNetwork {
    docker: Docker,
    wanted: Option<DockerNetwork>,
    root_dir: String,
    asking: Mutex<()>,
    /// A thread is at it.
    busy: AtomicBool,
    told: AtomicBool,
}

impl PodNetwork {
    /// `wanted`: `None` for Docker's own bridge, which is always there.
    #[must_use]
    pub fn new(docker: Docker, wanted: Option<DockerNetwork>, root_dir: String) -> PodNetwork {
        let (asking, busy, told) = (Mutex::new(()), AtomicBool::new(false), AtomicBool::new(false));
        PodNetwork { docker, wanted, root_dir, asking, busy, told }
    }

    /// Makes it if it is not there. Waits for Docker.
    pub fn ensure(&self) {
        let Some(wanted) = &self.wanted else { return };
        let _one = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        match self.look(wanted) {
            Ok(()) => {}
            Err(error) => log::warn!("network {} of the pods: {error}; tried again later", wanted.name),
        }
    }

    /// The same in a thread of its own, unless one is at it already.
    pub fn ensure_soon(network: &Arc<PodNetwork>) {
        if network.wanted.is_none() || network.busy.swap(true, Ordering::SeqCst) {
            return;
        }
        let own = Arc::clone(network);
        let body = move || {
            own.ensure();
            own.busy.store(false, Ordering::SeqCst);
        };
        let thread = std::thread::Builder::new().name("pk-network".to_owned());
        if thread.stack_size(limits::WORKER_STACK).spawn(body).is_err() {
            network.busy.store(false, Ordering::SeqCst);
        }
    }

    fn look(&self, wanted: &DockerNetwork) -> Result<(), DockerError> {
        match self.docker.call(&Call::NetworkInspect { name: wanted.name.clone() }) {
            Ok(Reply::Network(found)) => {
                let differs = wanted.cidrs.iter().any(|cidr| !found.subnets.contains(cidr));
                if differs && !self.told.swap(true, Ordering::Relaxed) {
                    log::warn!(
                        "network {} has subnets {}, not those of --docker-network-cidr: it is used as it is",
                        wanted.name,
                        found.subnets.join(", ")
                    );
                }
                return Ok(());
            }
            Err(error) if error.refusal() == Some(&RefusalKind::NotFound) => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(DockerError::BadAnswer("network inspect".to_owned())),
        }
        match self.docker.call(&Call::NetworkCreate { body: body(wanted, &self.root_dir) }) {
            Ok(_) => log::info!("network {} of the pods is made", wanted.name),
            Err(error) if error.refusal() == Some(&RefusalKind::Conflict) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn body(wanted: &DockerNetwork, root_dir: &str) -> NetworkBody {
    let config: Vec<Subnet> = wanted.cidrs.iter().map(|cidr| Subnet { subnet: cidr.clone() }).collect();
    NetworkBody {
        name: wanted.name.clone(),
        check_duplicate: true,
        driver: "bridge",
        enable_ipv6: wanted.cidrs.iter().any(|cidr| cidr.contains(':')),
        ipam: (!config.is_empty()).then_some(Ipam { config }),
        labels: BTreeMap::from([(labels::ROOT_DIR.to_owned(), root_dir.to_owned())]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies() {
        let check = |cidrs: &[&str], expected: serde_json::Value| {
            let cidrs = cidrs.iter().map(|cidr| (*cidr).to_owned()).collect();
            let wanted = DockerNetwork { name: "pods".to_owned(), cidrs };
            assert_eq!(serde_json::to_value(body(&wanted, "/r")).unwrap(), expected);
        };
        let labels = serde_json::json!({"podkeeper.dev/root-dir": "/r"});
        check(
            &[],
            serde_json::json!({"Name": "pods", "CheckDuplicate": true, "Driver": "bridge", "EnableIPv6": false,
                "Labels": labels}),
        );
        check(
            &["10.9.0.0/16", "fd09::/64"],
            serde_json::json!({"Name": "pods", "CheckDuplicate": true, "Driver": "bridge", "EnableIPv6": true,
                "IPAM": {"Config": [{"Subnet": "10.9.0.0/16"}, {"Subnet": "fd09::/64"}]}, "Labels": labels}),
        );
    }
}
