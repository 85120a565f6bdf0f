//! Containers' needs of their pod's network: addresses in their environment, and a hosts file with them before the
//! first instruction runs. Also decides when the files of a pod are not needed any more.

use super::Machine;
use super::attach::Attachments;
use super::calls::Job;
use super::containers::Look;
use super::output::Output;
use super::state::State;
use crate::base::order;
use crate::base::table::Set;
use crate::cni::networks::Ready;
use crate::mapping;
use crate::mapping::env::{self, Expanded};
use crate::network::hosts::{self, HostsFile};
use crate::plan::Role;
use crate::pod::DesiredPod;
use crate::pod::downward::Facts;
use crate::pod::object::Objects;
use crate::recorder::words;
use crate::runtime::{DockerError, RefusalKind};
use k8s_openapi::api::core::v1::Container;

/// State of the pod's network.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// The node's addresses, for the next container that uses them.
    host_ips: Option<Vec<String>>,
    asked: bool,
    /// Whether plugins can attach pods, for the next sandbox.
    pub(super) ready: Option<Ready>,
    /// Sandboxes that plugins attach.
    pub(super) attachments: Attachments,
    /// UIDs of pods that have, or may have, files on the node.
    files: Set<String>,
}

impl Network {
    /// Notes that a container of this pod is made, with files.
    pub(super) fn has_files(&mut self, uid: &str) {
        if !self.files.contains(uid) {
            self.files.insert(uid.to_owned());
        }
    }

    /// Number of pods with files.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.files.len() + self.attachments.len()
    }
}

/// The result of making an environment.
pub(super) enum Environment {
    /// The container can be made with it.
    Ready(Expanded),
    /// Addresses are not known yet.
    Later,
    /// It cannot be made, for this reason in the kubelet's words.
    Wrong(String),
}

impl Machine {
    /// Takes the answer to an [`Output::AskAddresses`].
    pub(super) fn addresses(&mut self, ips: Vec<String>) {
        self.network.asked = false;
        self.network.host_ips = Some(ips);
    }

    /// Addresses of a sandbox, as far as they are known.
    pub(super) fn pod_ips(&self, sandbox: &str) -> &[String] {
        match self.containers.current().get(sandbox).map(|c| &c.role) {
            Some(Role::Sandbox { ips, .. }) => ips,
            _ => &[],
        }
    }

    /// Whether a running sandbox has its addresses, or will not get any: an engine that leaves them out of an inspect,
    /// or cannot inspect, must not keep a pod from running.
    pub(super) fn network_is_known(&self, pod: &DesiredPod, sandbox: &str) -> bool {
        let asking = self.calls.any(|j| matches!(j, Job::Inspect { id, .. } if id == sandbox));
        let record = self.containers.record(sandbox);
        let coming = asking || record.is_some_and(|record| record.look != Look::Settled);
        pod.host_network()
            || !self.pod_ips(sandbox).is_empty()
            || !coming
            || record.is_some_and(|record| record.look_retry.has_failed())
    }

    /// Forgets the node's addresses: they count for one decision about all containers, and may change later.
    pub(super) fn forget_addresses(&mut self) {
        if !self.network.asked {
            self.network.host_ips = None;
        }
    }

    /// The environment of a container that is about to be made; `up`: its sandbox runs.
    pub(super) fn environment(
        &mut self,
        pod: &DesiredPod,
        container: &Container,
        sandbox: &str,
        up: bool,
    ) -> Environment {
        let (tells_pod, tells_node) = env::tells_addresses(container);
        let of_node = tells_node || (tells_pod && pod.host_network());
        if tells_pod && !(up && self.network_is_known(pod, sandbox)) {
            return Environment::Later;
        }
        if of_node && self.network.host_ips.is_none() {
            if !self.network.asked {
                self.network.asked = true;
                self.out.push(Output::AskAddresses);
            }
            return Environment::Later;
        }
        let host_ips = self.network.host_ips.clone().unwrap_or_default();
        if of_node && host_ips.is_empty() {
            return Environment::Wrong("host IP unknown; known addresses: []".to_owned());
        }
        let facts = Facts {
            pod,
            node_name: &self.settings.map.node_name,
            host_ips: &host_ips,
            pod_ips: if pod.host_network() { &host_ips } else { self.pod_ips(sandbox) },
            allocatable: &self.settings.allocatable,
        };
        let objects: &Objects = &self.objects;
        match env::expand(container, &pod.key.namespace, objects, Some(&facts)) {
            Ok(expanded) => Environment::Ready(expanded),
            Err(why) => Environment::Wrong(why),
        }
    }

    /// The pod's hosts file as this container needs it; `None` when the pod has none of ours.
    pub(super) fn hosts(&self, pod: &DesiredPod, container: &Container, sandbox: &str) -> Option<HostsFile> {
        let file = || mapping::network::hosts_file(pod, self.pod_ips(sandbox), &self.settings.map.network);
        hosts::is_managed(container).then(file)
    }

    /// Reports a pod whose full name is too long for the kernel: it gets no sandbox. Returns true for such a pod.
    pub(super) fn report_long_name(&mut self, pod: &DesiredPod) -> bool {
        if pod.host_network() {
            return false;
        }
        let Err(why) = mapping::network::kernel_name(pod, &self.settings.map.network) else { return false };
        if self.sandbox_problem(pod, &format!("failed to create pod sandbox: {why}")) {
            self.tell(None, words::sandbox_failed(&why));
        }
        true
    }

    /// Notes that a sandbox could not start, perhaps because somebody removed its network.
    pub(super) fn network_may_be_gone(&mut self, error: &DockerError) {
        let named = self.settings.map.network.docker_network.is_some();
        if named && error.refusal() == Some(&RefusalKind::NotFound) {
            self.out.push(Output::Network);
        }
    }

    /// Releases the files of pods that are not wanted and have no container left.
    pub(super) fn forget_pod_files(&mut self) {
        let seen = order::set(self.containers.all().map(|c| c.uid.clone()));
        let making = self.calls.any(|j| matches!(j, Job::Create { .. } | Job::List));
        let wanted = match &self.state {
            State::Syncing(pod) | State::Terminating { then: Some(pod), .. } => Some(pod.uid.clone()),
            State::Terminating { .. } | State::New | State::Terminated => None,
        };
        let gone: Vec<String> = self.network.files.difference(&seen).cloned().collect();
        for uid in gone.into_iter().filter(|uid| !making && wanted.as_ref() != Some(uid)) {
            self.network.files.remove(&uid);
            self.out.push(Output::ForgetPod(uid));
        }
        self.network.files.extend(seen);
    }
}
