//! The containers of one pod as seen in Docker: those with our labels, and their states.

use std::cmp::Ordering;
use std::time::Duration;

use crate::base::clock::{Mono, Timestamp};
use crate::base::order;
use crate::plan::Way;
use crate::pod::{ContainerKind, PodKey, Source};
use crate::runtime::Resources;

/// One Docker container that is ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Owned {
    /// 64 hex digits.
    pub id: String,
    /// Docker name, without the slash.
    pub docker_name: String,
    /// Pod identity, from the labels.
    pub key: PodKey,
    /// UID of the pod that it was made for.
    pub uid: String,
    /// Sandbox or container.
    pub role: Role,
    /// Sandbox attempt, or restart count: the only order (invariant 3).
    pub attempt: u32,
    /// Number of earlier attempts that never ran: each was created but not started, and is not a restart.
    pub never_ran: u32,
    /// Its state from Docker.
    pub state: RunState,
    /// It is created and not started, but a start may be in flight: a start without an answer, or one
    /// from a daemon that died. It is never started again, but removed and created again.
    pub start_sent: bool,
    /// podkeeper has signalled it, to run it again or to stop its pod: its end is not its own.
    pub killed: bool,
    /// Reference it was made from.
    pub image: String,
    /// `sha256:…`; empty until known.
    pub image_id: String,
    /// Grace period from its labels, seconds.
    pub grace: Option<u32>,
    /// The manifest it was made from.
    pub manifest: Manifest,
    /// The preStop hook from its labels.
    pub pre_stop: Option<Box<PreStop>>,
    /// Sources of its termination message; none for a sandbox.
    pub message: Way,
    /// Signal to stop it; `None` for SIGTERM.
    pub stop_signal: Option<String>,
    /// Wall time of creation, for printing.
    pub created: Option<Timestamp>,
    /// File with its output; empty until inspected, and when there is none.
    pub log_path: String,
    /// Its limits; empty until inspected, and if the engine does not report them.
    pub resources: Resources,
}

/// The data about the manifest in the labels of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Owning source.
    pub source: Option<Source>,
    /// Path or URL.
    pub origin: Option<String>,
    /// [`crate::pod::DesiredPod::written`] of the pod.
    pub written: Option<String>,
    /// [`crate::pod::DesiredPod::shape`] of the pod.
    pub shape: Option<String>,
}

/// The data about a pod in the labels of its sandbox, for the next daemon.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    /// The pod's deadline, if any.
    pub deadline: Option<Box<Deadline>>,
    /// When the pod was first seen, wall time, for printing.
    pub seen: Option<Timestamp>,
    /// The pod's assigned units of devices.
    pub devices: Option<String>,
    /// Docker's runtime for the pod's containers, if it has a runtime class.
    pub runtime: Option<String>,
    /// The sizes of the pod's containers ([`crate::pod::sizes`]).
    pub sizes: Option<String>,
    /// Its name shows that a restart was requested ([`crate::runtime::names::to_restart`]).
    pub restart: bool,
    /// CNI plugins attach it, not Docker.
    pub cni: bool,
}

/// A pod's activeDeadlineSeconds, from its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deadline {
    /// When the pod became active: the boot id, and the uptime at that time.
    pub since: Option<(String, Duration)>,
    /// The deadline has passed: the pod has failed for good.
    pub passed: bool,
}

/// A preStop hook, as stored in a container's labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreStop {
    /// JSON of the lifecycle handler.
    pub handler: String,
    /// JSON of the container's ports, which the handler may refer to; empty without any.
    pub ports: String,
    /// podkeeper wrote these labels, not the image; false for containers of older versions of podkeeper.
    pub sealed: bool,
}

/// State of a sandbox's own network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Link {
    /// Unknown: not inspected yet, host network, or an engine that does not report it.
    #[default]
    Untold,
    /// It has an address.
    Up,
    /// It is on a network that gives it no address.
    Bare,
    /// It is on no network.
    Cut,
    /// It lost its address, which another pod may have by now; or it was started again, and has other namespaces
    /// than those that its containers joined.
    Lost,
    /// It runs, but the engine ended before its start was complete: containers cannot join it, not even in the
    /// host network ("non-shareable IPC").
    Unfinished,
}

/// The purpose of an [`Owned`] container.
#[derive(Debug, Clone, PartialEq)]
pub enum Role {
    /// Holds the pod's namespaces.
    Sandbox {
        /// Uses the host's network.
        host_network: bool,
        /// Addresses; empty until inspected, and for host network.
        ips: Vec<String>,
        /// State of its network.
        link: Link,
        /// The data about its pod.
        kept: Kept,
    },
    /// One of the pod's containers.
    Container {
        /// Name in the pod.
        name: String,
        /// Its kind when it was created.
        kind: ContainerKind,
        /// Index in its list when it was created.
        index: u32,
        /// Sandbox it joined.
        sandbox_id: String,
        /// Hash from its labels; `None` when unreadable (then it counts as changed).
        hash: Option<u32>,
    },
}

/// State of an [`Owned`] container.
#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    /// Created, never started, no failed start.
    Created,
    /// The main process runs.
    Running {
        /// Wall time of the start, for printing; `None` until inspected.
        started: Option<Timestamp>,
    },
    /// Ended, or could not start.
    Exited(Exit),
    /// `dead` or `removing`: stopped, stuck in removal (moby/moby#22312). podkeeper never waits for it.
    Removing,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Exit {
    /// Exit code; 137 for SIGKILL.
    pub code: i64,
    /// The OOM killer killed a process of the container.
    pub oom_killed: bool,
    /// It never ran: the start itself failed (`ContainerCannotRun`).
    pub cannot_run: bool,
    /// Docker's `State.Error`.
    pub message: String,
    /// Wall time of the start, for printing.
    pub started: Option<Timestamp>,
    /// Wall time of the end, for printing.
    pub finished: Option<Timestamp>,
    /// When the daemon first saw that it had ended; back-off is measured from here. `None` when it had ended
    /// before the daemon first looked.
    pub seen: Option<Mono>,
}

impl RunState {
    /// True when it runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self, RunState::Running { .. })
    }
    /// True when it has ended, even when its removal is stuck.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self, RunState::Exited(_) | RunState::Removing)
    }
}

/// All containers of one pod identity, of any UID.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// The containers, in no particular order.
    pub all: Vec<Owned>,
}

impl Owned {
    /// How often a container of its name has run before, as the status reports it.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.attempt.saturating_sub(self.never_ran)
    }
    /// True for a sandbox.
    #[must_use]
    pub fn is_sandbox(&self) -> bool {
        matches!(self.role, Role::Sandbox { .. })
    }
    /// True for an init container that runs as long as the pod.
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        matches!(self.role, Role::Container { kind: ContainerKind::Sidecar, .. })
    }
    /// The container's name in the pod; `None` for a sandbox.
    #[must_use]
    pub fn container_name(&self) -> Option<&str> {
        match &self.role {
            Role::Sandbox { .. } => None,
            Role::Container { name, .. } => Some(name),
        }
    }
    /// The stored data about its pod; `None` for a container that is not a sandbox.
    #[must_use]
    pub fn kept(&self) -> Option<&Kept> {
        match &self.role {
            Role::Sandbox { kept, .. } => Some(kept),
            Role::Container { .. } => None,
        }
    }
    /// Whether this is a sandbox on a network of CNI plugins.
    #[must_use]
    pub fn is_by_plugins(&self) -> bool {
        self.kept().is_some_and(|kept| kept.cni)
    }
    /// True when it was created as a container of this kind; false for a sandbox.
    #[must_use]
    pub fn is_kind(&self, wanted: ContainerKind) -> bool {
        matches!(&self.role, Role::Container { kind, .. } if *kind == wanted)
    }
    /// The sandbox it joined; `None` for a sandbox.
    #[must_use]
    pub fn sandbox_id(&self) -> Option<&str> {
        match &self.role {
            Role::Sandbox { .. } => None,
            Role::Container { sandbox_id, .. } => Some(sandbox_id),
        }
    }
}

impl Observed {
    /// Sandboxes made for this UID, newest attempt first. Sandboxes whose start may be in flight
    /// ([`Owned::start_sent`]) come last: the pod does not count on them.
    #[must_use]
    pub fn sandboxes(&self, uid: &str) -> Vec<&Owned> {
        let sandboxes = newest_first(self.all.iter().filter(|c| c.uid == uid && c.is_sandbox()));
        let (uncertain, mut sandboxes): (Vec<&Owned>, Vec<&Owned>) =
            sandboxes.into_iter().partition(|c| c.start_sent);
        sandboxes.extend(uncertain);
        sandboxes
    }
    /// Instances of one container made for this UID, newest attempt first. An instance whose start may be in
    /// flight ([`Owned::start_sent`]) is left out, because its state is unknown.
    #[must_use]
    pub fn instances(&self, uid: &str, name: &str) -> Vec<&Owned> {
        let of_name = |c: &&Owned| c.uid == uid && c.container_name() == Some(name) && !c.start_sent;
        newest_first(self.all.iter().filter(of_name))
    }
    /// The newest instance of one container made for this UID.
    #[must_use]
    pub fn newest(&self, uid: &str, name: &str) -> Option<&Owned> {
        self.instances(uid, name).into_iter().next()
    }
    /// The container with that id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Owned> {
        self.all.iter().find(|c| c.id == id)
    }
}

fn newest_first<'a>(found: impl Iterator<Item = &'a Owned>) -> Vec<&'a Owned> {
    let mut found: Vec<&Owned> = found.collect();
    order::sort_by(&mut found, |a, b| newer(a, b));
    found
}

/// The newer of two instances of one container comes first. Equal attempts happen only after a manual change, or when Docker
/// carries out an earlier daemon's request late: then the running one is used and is not replaced, or the one that ran.
/// The id makes the order total.
pub(super) fn newer(a: &Owned, b: &Owned) -> Ordering {
    let rank = |c: &Owned| (c.attempt, c.state.is_running(), c.state != RunState::Created);
    rank(b).cmp(&rank(a)).then_with(|| a.id.cmp(&b.id))
}
