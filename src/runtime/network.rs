//! The network of the pods (`--docker-network`): made for the first pod when it is missing, and removed after the
//! last one if podkeeper made it. Docker itself refuses that while another container runs in it.
//!
//! Docker makes two networks of one name when it is asked twice at the same time, so only one at a time asks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::docker::Docker;
use super::{Call, DockerError, Ipam, NetworkBody, RefusalKind, Reply, Subnet, labels};
use crate::limits;
use crate::network::DockerNetwork;

/// What is known of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nobody has looked since the start, or since it was removed.
    No,
    /// Pods want it, and Docker did not answer, or could not make it.
    Failed,
    /// It was there when somebody looked.
    There,
}

/// The network, and how to come by it.
#[derive(Debug)]
pub struct PodNetwork {
    docker: Docker,
    wanted: Option<DockerNetwork>,
    root_dir: String,
    asking: Mutex<Known>,
    /// A thread is at it.
    busy: AtomicBool,
    told: AtomicBool,
    /// Pods that have gone since the thread that removes the network looked.
    left: AtomicU32,
}

impl PodNetwork {
    /// `wanted`: `None` for Docker's own bridge, which is always there.
    #[must_use]
    pub fn new(docker: Docker, wanted: Option<DockerNetwork>, root_dir: String) -> PodNetwork {
        let (asking, busy, told) = (Mutex::new(Known::No), AtomicBool::new(false), AtomicBool::new(false));
        PodNetwork { docker, wanted, root_dir, asking, busy, told, left: AtomicU32::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes it if it is not there, unless somebody has looked. Waits for Docker, and for whoever is at it.
    pub fn before_a_pod(&self) {
        let Some(wanted) = &self.wanted else { return };
        let mut known = self.lock();
        if *known == Known::No {
            self.ensure(wanted, &mut known);
        }
    }

    /// Docker answers again, and perhaps for the first time: makes what pods wait for.
    pub fn connected(&self) {
        let Some(wanted) = &self.wanted else { return };
        let mut known = self.lock();
        if *known == Known::Failed {
            self.ensure(wanted, &mut known);
        }
    }

    fn ensure(&self, wanted: &DockerNetwork, known: &mut Known) {
        *known = match self.look(wanted) {
            Ok(()) => Known::There,
            Err(error) => {
                log::warn!("network {} of the pods: {error}; tried again later", wanted.name);
                Known::Failed
            }
        };
    }

    /// Removes it, in a thread of its own, if no pod is left and we made it.
    pub fn after_a_pod(network: &Arc<PodNetwork>) {
        if network.wanted.is_none() || network.left.fetch_add(1, Ordering::SeqCst) > 0 {
            return;
        }
        let own = Arc::clone(network);
        let body = move || {
            loop {
                let left = own.left.load(Ordering::SeqCst);
                own.remove_if_unused();
                if own.left.compare_exchange(left, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("pk-network".to_owned());
        if thread.stack_size(limits::WORKER_STACK).spawn(body).is_err() {
            network.left.store(0, Ordering::SeqCst);
        }
    }

    /// What fails here is tried again after the next pod.
    fn remove_if_unused(&self) {
        let Some(wanted) = &self.wanted else { return };
        let mut known = self.lock();
        let ours = vec![format!("{}={}", labels::ROOT_DIR, self.root_dir)];
        match self.docker.call(&Call::List { labels: ours }) {
            Ok(Reply::Containers(containers)) if containers.is_empty() => {}
            _ => return,
        }
        match self.docker.call(&Call::NetworkInspect { name: wanted.name.clone() }) {
            Ok(Reply::Network(found)) if found.labels.get(labels::ROOT_DIR) == Some(&self.root_dir) => {}
            _ => return,
        }
        match self.docker.call(&Call::NetworkRemove { name: wanted.name.clone() }) {
            Ok(_) => {
                *known = Known::No;
                log::info!("network {} is removed: no pod is left", wanted.name);
            }
            Err(error) => log::debug!("network {} stays: {error}", wanted.name),
        }
    }

    /// Makes it if it is not there, in a thread of its own, unless one is at it already.
    pub fn ensure_soon(network: &Arc<PodNetwork>) {
        if network.wanted.is_none() || network.busy.swap(true, Ordering::SeqCst) {
            return;
        }
        let own = Arc::clone(network);
        let body = move || {
            if let Some(wanted) = &own.wanted {
                own.ensure(wanted, &mut own.lock());
            }
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
