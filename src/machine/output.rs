//! What a pod machine says: calls to make, images to fetch, reports to the sync loop, lines for the operator.
//!
//! Plain data between the pure machine and its driver, a thread or the simulation.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use log::Level;

use crate::base::clock::{Boot, Mono};
use crate::base::table::Table;
use crate::cgroup::{Naming, PodCgroup};
use crate::cni;
use crate::image::credentials::DockerConfig;
use crate::image::grants::Known;
use crate::mapping::MapConfig;
use crate::mapping::needs::Create;
use crate::network::hosts::HostsFile;
use crate::plan::DeadPolicy;
use crate::pod::allocatable::Allocatable;
use crate::pod::{DesiredPod, PodKey, Source};
use crate::pod_logs::ContainerLogs;
use crate::probe::Watch;
use crate::recorder::ObjectEvent;
use crate::runtime::{Call, DockerState};
use crate::termination::LogFile;
use crate::volumes;

/// Names a call between the machine and its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What every machine of this node knows; it never changes.
#[derive(Debug, Clone)]
pub struct Settings {
    /// For the mapping to Docker.
    pub map: MapConfig,
    /// This start of the machine.
    pub boot: Boot,
    /// The sandbox image is the built-in one: loaded, not pulled.
    pub builtin_sandbox: bool,
    /// What the node can give, for environments that tell it.
    pub allocatable: Allocatable,
    /// Most processes of a pod; `None` for no limit.
    pub pod_pids: Option<i64>,
    /// How many dead containers are kept.
    pub dead: DeadPolicy,
}

/// What a machine is told of the node, and again whenever it has changed ([`super::Input::Node`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// How cgroups of pods are named; `None` when pods have none.
    pub cgroups: Option<Arc<Naming>>,
    /// Docker mounts recursively read-only where that is asked for, as far as it said last.
    pub recursive_mounts: bool,
    /// Which pods may have which image.
    pub grants: Arc<Known>,
}

/// An image a pod needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Reference.
    pub image: String,
    /// It is the built-in sandbox image.
    pub builtin: bool,
    /// An older copy may be used when the registry cannot be reached.
    pub local_copy_will_do: bool,
    /// The pod's own, beside the node's.
    pub credentials: Vec<Arc<DockerConfig>>,
    /// The source of the pod.
    pub source: Source,
}

impl PullRequest {
    /// A pull with no credentials but the node's, for which no older copy will do.
    #[must_use]
    pub fn plain(image: String, builtin: bool, source: Source) -> PullRequest {
        PullRequest { image, builtin, local_copy_will_do: false, credentials: Vec::new(), source }
    }
}

/// What the machine tells the sync loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The pod's status, or what was seen of its containers, changed.
    Status {
        /// As computed; the machine's own last copy.
        status: Arc<PodStatus>,
        /// The pod it is the status of.
        pod: Arc<DesiredPod>,
        /// It is being stopped.
        terminating: bool,
    },
    /// What was seen in Docker changed: id and state of everything under this identity.
    Seen(Table<String, DockerState>),
    /// How many dead instances each container has; told only where the node bounds them all together.
    Dead(Vec<u32>),
    /// Nothing runs any more, and nothing is wanted.
    Terminated,
    /// Nothing is left at all. Holds the count of wishes read: with no newer wish the worker can go.
    Gone(u64),
}

/// One thing to carry out.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Make this call and hand the reply in under this token.
    Call(Token, Call),
    /// Make ready what this create needs, then send it. The reply comes as that of a call.
    Create(Token, Create),
    /// Do not send this call, if it was not sent yet, and hand in [`super::Input::Withdrawn`] then.
    Withdraw(Token),
    /// Have it pulled.
    Pull(PullRequest),
    /// This image is not there, and may not be pulled: perhaps it can be had otherwise.
    Missing(String),
    /// Read the termination message of this container from its file, and hand it in as
    /// [`super::Input::Message`].
    ReadMessage {
        /// Container id.
        id: String,
        file: LogFile,
    },
    /// This file is of no more use.
    ForgetMessage(LogFile),
    /// Look the node's addresses up, and hand them in as [`super::Input::Addresses`].
    AskAddresses,
    /// Ask whether plugins can attach pods, and hand it in as [`super::Input::NetworkReady`].
    AskNetwork,
    /// Do this about the network of a sandbox, and hand in what became of it as [`super::Input::Network`].
    Attach(cni::Order),
    /// The pod's hosts file has to say this before this call; where it cannot, that is the call's answer.
    Hosts(Token, HostsFile),
    /// The pod with this UID is gone, and so are its files on the node.
    ForgetPod(String),
    /// See to it that the network of the pods is there.
    Network,
    /// Do this about volumes, and hand in what became of it as [`super::Input::Volumes`].
    Volumes(volumes::Order),
    /// From now on this, and nothing else, is to be asked of the pod's containers.
    Watch(Watch),
    /// The pod's cgroup is to be so; hand in what became of it as [`super::Input::Cgroup`].
    Cgroup(Box<PodCgroup>),
    /// Nothing is left in the cgroup of this UID: it goes; hand in what became of it as [`super::Input::Cgroup`].
    DropCgroup(String),
    /// Something happened to the pod.
    Event(ObjectEvent),
    /// From now on these logs, and no others, are to be found by name.
    Logs(ContainerLogs),
    /// Tell the sync loop.
    Report(Report),
    /// Tell the operator.
    Log(Level, String),
}

/// What the machine wants after a step.
#[derive(Debug, Default, PartialEq)]
pub struct Step {
    /// In order.
    pub out: Vec<Output>,
    /// Step again at this time, if nothing else happens first.
    pub wake: Option<Mono>,
}

/// What the thread of a worker tells the main loop.
#[derive(Debug, Clone, PartialEq)]
pub enum FromPod {
    /// How the pod is.
    Report {
        key: PodKey,
        /// How it is.
        report: Report,
    },
    /// Something happened to it.
    Happened(ObjectEvent),
}
