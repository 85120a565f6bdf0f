//! Outputs of a pod machine: calls, pulls, reports to the sync loop, log lines.
//!
//! Plain data between the pure machine and its driver, a thread or the simulation.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use log::Level;

use crate::base::clock::{Boot, Mono};
use crate::base::table::{Set, Table};
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

/// Settings that all machines of this node share; they never change.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Settings of the mapping to Docker.
    pub map: MapConfig,
    /// This start of the machine.
    pub boot: Boot,
    /// The sandbox image is the built-in one: loaded, not pulled.
    pub builtin_sandbox: bool,
    /// Resources of the node, for environments that contain them.
    pub allocatable: Allocatable,
    /// Most processes of a pod; `None` for no limit.
    pub pod_pids: Option<i64>,
    /// Longest wait before a container that crashes again and again is started.
    pub max_restart_period: Duration,
    /// The number of dead containers to keep.
    pub dead: DeadPolicy,
}

/// Facts about the node for a machine, sent again when they have changed ([`super::Input::Node`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The naming of pods' cgroups; `None` when pods have none.
    pub cgroups: Option<Arc<Naming>>,
    /// Docker supports recursively read-only mounts, by its last answer.
    pub recursive_mounts: bool,
    /// The pods that may use each image.
    pub grants: Arc<Known>,
}

/// A request for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Reference.
    pub image: String,
    /// It is the built-in sandbox image.
    pub builtin: bool,
    /// An older copy may be used when the registry cannot be reached.
    pub local_copy_will_do: bool,
    /// The pod's own credentials, beside the node's.
    pub credentials: Vec<Arc<DockerConfig>>,
    /// The source of the pod.
    pub source: Source,
}

impl PullRequest {
    /// A pull with the node's credentials alone, which accepts no older copy.
    #[must_use]
    pub fn plain(image: String, builtin: bool, source: Source) -> PullRequest {
        PullRequest { image, builtin, local_copy_will_do: false, credentials: Vec::new(), source }
    }
}

/// A report to the sync loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The pod's status, or the known state of its containers, changed.
    Status {
        /// The status; shared with the machine.
        status: Arc<PodStatus>,
        /// The pod of the status.
        pod: Arc<DesiredPod>,
        /// The pod is being stopped.
        terminating: bool,
    },
    /// The known containers changed: id and state of everything under this identity; those whose ends are ends of no pod,
    /// for it is being stopped, or they run again; the number of wishes read.
    Seen(Table<String, DockerState>, Set<String>, u64),
    /// Number of dead instances of each container; sent only if the node bounds them all together.
    Dead(Vec<u32>),
    /// UIDs that the pod had before: nothing of them is left. Holds the number of wishes read.
    Freed(Set<String>, u64),
    /// The pod that was to be stopped had ended for good before, and is left alone (`Target::Unfinished`). Holds the
    /// number of wishes read.
    Spared(u64),
    /// No container runs any more, and no pod is wanted.
    Terminated,
    /// No container, call, volume or cgroup is left. Holds the number of wishes read: without a newer wish the worker
    /// can end.
    Gone(u64),
}

/// One thing for the driver to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Make this call, and return the reply with this token.
    Call(Token, Call),
    /// Inspect this image, and return the reply with this token. While a pull brings it, it is missing: it is not judged
    /// yet.
    Judge(Token, String),
    /// Prepare the needs of this create, then send it. The reply is returned like that of a call.
    Create(Token, Create),
    /// The end of this container is not its own from now on: it gets a signal, to run again or because its pod is stopped. False:
    /// it had ended by itself before.
    Signalled(String, bool),
    /// Do not send this call if it is not sent yet; return [`super::Input::Withdrawn`] then.
    Withdraw(Token),
    /// Pull this image.
    Pull(PullRequest),
    /// This image is missing, and may not be pulled: there may be another way to get it.
    Missing(String),
    /// Read the termination message of this container from its file, and return it as [`super::Input::Message`].
    ReadMessage {
        /// Container id.
        id: String,
        file: LogFile,
    },
    /// Remove this file: it is not needed any more.
    ForgetMessage(LogFile),
    /// Look up the node's addresses, and return them as [`super::Input::Addresses`].
    AskAddresses,
    /// Ask whether plugins can attach pods, and return it as [`super::Input::NetworkReady`].
    AskNetwork,
    /// Carry out this order for a sandbox's network, and report it as [`super::Input::Network`].
    Attach(cni::Order),
    /// Write this pod's hosts file before this call; if that fails, the error is the call's answer.
    Hosts(Token, HostsFile),
    /// Remove the files of the pod with this UID: it is gone.
    ForgetPod(String),
    /// Make sure that the network of the pods exists.
    Network,
    /// Carry out this order for volumes, and report it as [`super::Input::Volumes`].
    Volumes(volumes::Order),
    /// From now on run exactly these probes and hooks.
    Watch(Watch),
    /// Make or change the pod's cgroup, and report it as [`super::Input::Cgroup`].
    Cgroup(Box<PodCgroup>),
    /// Remove the cgroup of this UID, which has no container left, and report it as [`super::Input::Cgroup`].
    DropCgroup(String),
    /// Record this event of the pod.
    Event(ObjectEvent),
    /// From now on make exactly these logs available by name.
    Logs(ContainerLogs),
    /// Send this to the sync loop.
    Report(Report),
    /// Write a log line for the operator.
    Log(Level, String),
}

/// The result of a step.
#[derive(Debug, Default, PartialEq)]
pub struct Step {
    /// Outputs, in order.
    pub out: Vec<Output>,
    /// Step again at this time, if nothing else happens first.
    pub wake: Option<Mono>,
}

/// A message of a worker's thread to the main loop.
#[derive(Debug, Clone, PartialEq)]
pub enum FromPod {
    /// A report about the pod.
    Report {
        key: PodKey,
        /// The report.
        report: Report,
    },
    /// An event of the pod.
    Happened(ObjectEvent),
}
