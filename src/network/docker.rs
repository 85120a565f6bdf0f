//! The network of the pods (`--docker-network`): made for the first pod when it is missing, and removed after the
//! last one if podkeeper made it. Docker itself refuses that while another container runs in it. What other flags had
//! made goes as soon as nothing runs in it.
//!
//! Docker makes two networks of one name when it is asked twice at the same time, so only one thread at a time asks.
//! Nobody waits for it without an end: a Docker that does not answer about networks holds up no pod for longer than
//! [`limits::NETWORK_PATIENCE`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::base::limits;
use crate::network::DockerNetwork;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, DockerError, Ipam, NetworkBody, RefusalKind, Reply, Subnet, labels};

/// What is known of the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Known {
    /// Nobody has looked since the start, or since it was removed.
    #[default]
    No,
    /// Pods want it, and Docker did not answer, or could not make it.
    Failed,
    /// It was there when somebody looked.
    There,
}

/// What is known, and what is to be done about it.
#[derive(Debug, Default)]
struct State {
    known: Known,
    /// It is to be made, if it is not there.
    ensure: bool,
    /// It is to be removed, if no pod is left.
    leave: bool,
    /// Networks that other flags had made are to be looked for; some may be there.
    tidy: bool,
    former: bool,
    /// A thread is at it.
    runs: bool,
}

/// What the thread does next.
#[derive(Debug, Clone, Copy)]
enum Errand {
    Ensure,
    Leave,
    Tidy,
}

impl State {
    fn next(&mut self) -> Option<Errand> {
        if std::mem::take(&mut self.leave) {
            return Some(Errand::Leave);
        }
        if std::mem::take(&mut self.ensure) {
            return Some(Errand::Ensure);
        }
        std::mem::take(&mut self.tidy).then_some(Errand::Tidy)
    }
}

/// The network, and how to come by it.
#[derive(Debug)]
pub struct PodNetwork {
    docker: Docker,
    wanted: Option<DockerNetwork>,
    root_dir: String,
    state: Mutex<State>,
    done: Condvar,
    told: AtomicBool,
}

impl PodNetwork {
    /// `wanted`: `None` for Docker's own bridge, which is always there.
    #[must_use]
    pub fn new(docker: Docker, wanted: Option<DockerNetwork>, root_dir: String) -> PodNetwork {
        // Whether there are networks of other flags nobody knows yet.
        let state = Mutex::new(State { former: true, ..State::default() });
        PodNetwork { docker, wanted, root_dir, state, done: Condvar::new(), told: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that it is made if it is not there, unless somebody has looked. Waits for that, but not long: a
    /// sandbox that starts without its network has it made, and is started again.
    pub fn before_a_pod(network: &Arc<PodNetwork>) {
        if network.wanted.is_none() {
            return;
        }
        let known = {
            let mut state = network.lock();
            // One that is being removed just now has to be made again.
            state.ensure |= state.known == Known::No || state.runs;
            if state.ensure { Known::No } else { state.known }
        };
        if known != Known::No {
            return;
        }
        PodNetwork::work(network);
        let state = network.lock();
        let waits = |state: &mut State| state.runs && (state.ensure || state.known == Known::No);
        drop(network.done.wait_timeout_while(state, limits::NETWORK_PATIENCE, waits));
    }

    /// Docker answers again, and perhaps for the first time: has made what pods wait for, and looks for what other
    /// flags had made. Waits for the network of the pods, but not long: pods start when this is done.
    pub fn connected(network: &Arc<PodNetwork>) {
        let mut state = network.lock();
        let wanted = state.known == Known::Failed;
        state.ensure |= wanted;
        state.tidy |= state.former;
        drop(state);
        PodNetwork::work(network);
        if wanted {
            let waits = |state: &mut State| state.runs && (state.ensure || state.known != Known::There);
            drop(network.done.wait_timeout_while(network.lock(), limits::NETWORK_PATIENCE, waits));
        }
    }

    /// Has it removed if no pod is left and we made it.
    pub fn after_a_pod(network: &Arc<PodNetwork>) {
        let mut state = network.lock();
        state.leave |= network.wanted.is_some();
        state.tidy |= state.former;
        drop(state);
        PodNetwork::work(network);
    }

    /// Has it made if it is not there.
    pub fn ensure_soon(network: &Arc<PodNetwork>) {
        network.lock().ensure |= network.wanted.is_some();
        PodNetwork::work(network);
    }

    /// Does what is to be done, in a thread of its own, unless one is at it already.
    fn work(network: &Arc<PodNetwork>) {
        let mut state = network.lock();
        if state.runs || !(state.ensure || state.leave || state.tidy) {
            return;
        }
        state.runs = true;
        drop(state);
        let own = Arc::clone(network);
        let body = move || {
            while let Some(errand) = own.next() {
                own.run(errand);
                own.done.notify_all();
            }
        };
        let thread = std::thread::Builder::new().name("pk-network".to_owned());
        if let Err(error) = thread.stack_size(limits::WORKER_STACK).spawn(body) {
            log::warn!("the network of the pods is not looked at now: no thread could be started: {error}");
            network.lock().runs = false;
        }
    }

    /// The next errand; without one, nobody works from here on.
    fn next(&self) -> Option<Errand> {
        let mut state = self.lock();
        let errand = state.next();
        state.runs = errand.is_some();
        drop(state);
        self.done.notify_all();
        errand
    }

    fn run(&self, errand: Errand) {
        match (errand, &self.wanted) {
            (Errand::Ensure, Some(wanted)) => {
                let looked = self.look(wanted);
                let known = if looked.is_ok() { Known::There } else { Known::Failed };
                if let Err(error) = looked {
                    log::warn!("network {} of the pods: {error}; tried again later", wanted.name);
                }
                self.lock().known = known;
            }
            (Errand::Leave, Some(wanted)) => self.remove_if_unused(wanted),
            (Errand::Tidy, _) => self.remove_former(),
            (Errand::Ensure | Errand::Leave, None) => {}
        }
    }

    /// What fails here is tried again after the next pod.
    fn remove_if_unused(&self, wanted: &DockerNetwork) {
        match self.docker.call(&Call::List { labels: vec![self.label()] }) {
            Ok(Reply::Containers(containers)) if containers.is_empty() => {}
            _ => return,
        }
        match self.docker.call(&Call::NetworkInspect { name: wanted.name.clone() }) {
            Ok(Reply::Network(found)) if found.labels.get(labels::ROOT_DIR) == Some(&self.root_dir) => {}
            _ => return,
        }
        match self.docker.call(&Call::NetworkRemove { name: wanted.name.clone() }) {
            Ok(_) => {
                self.lock().known = Known::No;
                log::info!("network {} is removed: no pod is left", wanted.name);
            }
            Err(error) => log::debug!("network {} stays: {error}", wanted.name),
        }
    }

    /// Removes networks of ours that the flags of today do not name. Docker refuses as long as a pod of an earlier
    /// daemon runs in one; then it is tried again after the next pod.
    fn remove_former(&self) {
        let Ok(Reply::Networks(found)) = self.docker.call(&Call::NetworkList { labels: vec![self.label()] })
        else {
            return;
        };
        let named = self.wanted.as_ref().map(|wanted| wanted.name.as_str());
        let ours = found.iter().filter(|n| n.labels.get(labels::ROOT_DIR) == Some(&self.root_dir));
        let mut left = false;
        for name in ours.map(|n| n.name.as_str()).filter(|name| Some(*name) != named) {
            match self.docker.call(&Call::NetworkRemove { name: name.to_owned() }) {
                Ok(_) => log::info!("network {name} is removed: --docker-network does not name it any more"),
                Err(error) => {
                    left = true;
                    log::debug!("network {name} of an earlier --docker-network stays: {error}");
                }
            }
        }
        self.lock().former = left;
    }

    fn label(&self) -> String {
        format!("{}={}", labels::ROOT_DIR, self.root_dir)
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
