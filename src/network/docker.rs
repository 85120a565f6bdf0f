//! The network of the pods (`--docker-network`): podkeeper creates it for the first pod if it is missing, and
//! removes it after the last one if podkeeper created it. Docker refuses the removal while another container
//! runs in it. Networks of earlier flags are removed once no container runs in them.
//!
//! Docker creates two networks of the same name when asked twice at the same time, so only one thread at
//! a time sends requests. Every wait has an end: a Docker that does not answer about networks delays a
//! pod by at most [`limits::NETWORK_PATIENCE`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::base::{limits, order, thread};
use crate::network::DockerNetwork;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, DockerError, Ipam, NetworkBody, RefusalKind, Reply, Subnet, labels};

/// Known state of the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Known {
    /// Not looked at since the start, or since its removal.
    #[default]
    No,
    /// Pods want it, and Docker did not answer, or could not create it.
    Failed,
    /// It existed at the last look.
    There,
}

/// State of the network, and pending work.
#[derive(Debug, Default)]
struct State {
    known: Known,
    /// Create it if it is missing.
    ensure: bool,
    /// Remove it if no pod is left.
    remove: bool,
    /// Look for networks of earlier flags; `former`: whether some may exist.
    tidy: bool,
    former: bool,
    /// A thread is working on it.
    runs: bool,
}

/// One piece of work for the thread.
#[derive(Debug, Clone, Copy)]
enum Task {
    Ensure,
    Remove,
    Tidy,
}

impl State {
    fn next(&mut self) -> Option<Task> {
        if std::mem::take(&mut self.remove) {
            return Some(Task::Remove);
        }
        if std::mem::take(&mut self.ensure) {
            return Some(Task::Ensure);
        }
        std::mem::take(&mut self.tidy).then_some(Task::Tidy)
    }
}

/// Handle of the network of the pods.
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
    /// `wanted`: `None` for Docker's own bridge, which always exists.
    #[must_use]
    pub fn new(docker: Docker, wanted: Option<DockerNetwork>, root_dir: String) -> PodNetwork {
        // Networks of earlier flags may exist.
        let state = Mutex::new(State { former: true, ..State::default() });
        PodNetwork { docker, wanted, root_dir, state, done: Condvar::new(), told: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread create the network if it is missing, unless it is known to exist. Waits for that, for a
    /// bounded time: a sandbox that starts without its network causes its creation, and is started again.
    pub fn before_a_pod(network: &Arc<PodNetwork>) {
        if network.wanted.is_none() {
            return;
        }
        let known = {
            let mut state = network.lock();
            // A network that is being removed right now must be created again.
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

    /// A sandbox is about to be made that wants this network (`mode`: as in `HostConfig.NetworkMode`). If the
    /// network could not be created before, Docker may answer again by now: it is asked once more, with the same
    /// wait as for a pod.
    pub fn before_a_sandbox(network: &Arc<PodNetwork>, mode: &str) {
        let is_wanted = network.wanted.as_ref().is_some_and(|wanted| wanted.name == mode);
        if !is_wanted || network.lock().known != Known::Failed {
            return;
        }
        network.lock().ensure = true;
        PodNetwork::work(network);
        network.wait_until_there();
    }

    /// Waits for the work in progress, for a bounded time.
    fn wait_until_there(&self) {
        let waits = |state: &mut State| state.runs && (state.ensure || state.known != Known::There);
        drop(self.done.wait_timeout_while(self.lock(), limits::NETWORK_PATIENCE, waits));
    }

    /// Docker answers again, or for the first time: creates the network that pods wait for, and removes those of
    /// earlier flags. Waits for the pods' network, for a bounded time: pods start after this call.
    pub fn connected(network: &Arc<PodNetwork>) {
        let mut state = network.lock();
        let wanted = state.known == Known::Failed;
        state.ensure |= wanted;
        state.tidy |= state.former;
        drop(state);
        PodNetwork::work(network);
        if wanted {
            network.wait_until_there();
        }
    }

    /// Makes the thread remove it if no pod is left and podkeeper created it.
    pub fn after_a_pod(network: &Arc<PodNetwork>) {
        let mut state = network.lock();
        state.remove |= network.wanted.is_some();
        state.tidy |= state.former;
        drop(state);
        PodNetwork::work(network);
    }

    /// Makes the thread create it if it is missing; does not wait.
    pub fn ensure_soon(network: &Arc<PodNetwork>) {
        network.lock().ensure |= network.wanted.is_some();
        PodNetwork::work(network);
    }

    /// Starts the thread for pending work, unless it runs already.
    fn work(network: &Arc<PodNetwork>) {
        let mut state = network.lock();
        if state.runs || !(state.ensure || state.remove || state.tidy) {
            return;
        }
        state.runs = true;
        drop(state);
        let own = Arc::clone(network);
        let body = move || {
            while let Some(task) = own.next() {
                own.run(task);
                own.done.notify_all();
            }
        };
        if let Err(error) = thread::spawn("pk-network", limits::WORKER_STACK, body) {
            log::warn!("the network of the pods is not looked at now: no thread could be started: {error}");
            network.lock().runs = false;
        }
    }

    /// The next task; if there is none, the thread counts as ended.
    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        let task = state.next();
        state.runs = task.is_some();
        drop(state);
        self.done.notify_all();
        task
    }

    fn run(&self, task: Task) {
        match (task, &self.wanted) {
            (Task::Ensure, Some(wanted)) => {
                let looked = self.look(wanted);
                let known = if looked.is_ok() { Known::There } else { Known::Failed };
                let before = std::mem::replace(&mut self.lock().known, known);
                if let Err(error) = looked {
                    // Each try of a sandbox repeats this while Docker is away: it is logged once.
                    let level = if before == Known::Failed { log::Level::Debug } else { log::Level::Warn };
                    log::log!(level, "network {} of the pods: {error}; tried again later", wanted.name);
                }
            }
            (Task::Remove, Some(wanted)) => self.remove_if_unused(wanted),
            (Task::Tidy, _) => self.remove_former(),
            (Task::Ensure | Task::Remove, None) => {}
        }
    }

    /// A failed removal is tried again after the next pod.
    fn remove_if_unused(&self, wanted: &DockerNetwork) {
        if !self.docker.list(vec![self.label()]).is_ok_and(|containers| containers.is_empty()) {
            return;
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

    /// Removes podkeeper's networks that the current flags do not name. Docker refuses while a pod of an
    /// earlier daemon runs in one; then the removal is tried again after the next pod.
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
        labels: order::map([(labels::ROOT_DIR.to_owned(), root_dir.to_owned())]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::System;
    use crate::runtime::docker::Endpoint;

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

    /// Another `--docker-network` than that of the daemon before, or none: what that one made goes, and nothing else.
    #[test]
    fn a_network_of_an_earlier_flag_goes() {
        let docker = Docker::connect(&Endpoint::Fake, System::start());
        let of = |name: Option<&str>, root_dir: &str| {
            let wanted = name.map(|name| DockerNetwork { name: name.to_owned(), cidrs: Vec::new() });
            PodNetwork::new(docker.clone(), wanted, root_dir.to_owned())
        };
        let there = || {
            let Ok(Reply::Networks(found)) = docker.call(&Call::NetworkList { labels: Vec::new() }) else {
                panic!("no list")
            };
            order::set(found.into_iter().map(|network| network.name)).into_iter().collect::<Vec<_>>()
        };
        for (name, root_dir) in [("old", "/r"), ("older", "/r"), ("now", "/r"), ("theirs", "/other")] {
            of(Some(name), root_dir).run(Task::Ensure);
        }
        assert_eq!(there(), ["now", "old", "older", "theirs"]);
        of(Some("now"), "/r").run(Task::Tidy);
        assert_eq!(there(), ["now", "theirs"]);
        of(None, "/r").run(Task::Tidy);
        assert_eq!(there(), ["theirs"]);
    }
}
