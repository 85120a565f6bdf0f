//! What Docker was seen to hold for one pod: the containers that carry our labels, and their states.

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
    /// Pod UID it was made for.
    pub uid: String,
    /// Sandbox, or which container.
    pub role: Role,
    /// Sandbox attempt, or restart count: the only order there is (invariant 3).
    pub attempt: u32,
    /// Docker's word on its state.
    pub state: RunState,
    /// It is made and not started, and a start of it may be on its way: one that got no answer, or one of a daemon
    /// that died. It is never started again, but removed and made anew.
    pub start_sent: bool,
    /// Reference it was made from.
    pub image: String,
    /// `sha256:…`; empty until known.
    pub image_id: String,
    /// Seconds of grace written on it.
    pub grace: Option<u32>,
    /// Owning source written on it.
    pub source: Option<Source>,
    /// Manifest path or URL written on it.
    pub origin: Option<String>,
    /// [`crate::pod::DesiredPod::written`] of the pod it was made for.
    pub written: Option<String>,
    /// [`crate::pod::DesiredPod::shape`] of the pod it was made for.
    pub shape: Option<String>,
    /// The preStop hook written on it.
    pub pre_stop: Option<Box<PreStop>>,
    /// Of a sandbox: what it tells of its pod's deadline, if anything.
    pub deadline: Option<Box<Deadline>>,
    /// Where its termination message comes from; nowhere for a sandbox.
    pub message: Way,
    /// Signal to stop it; `None` for SIGTERM.
    pub stop_signal: Option<String>,
    /// Wall time of creation, for printing.
    pub created: Option<Timestamp>,
    /// Of a sandbox: when its pod was first seen, wall time, for printing.
    pub pod_seen: Option<Timestamp>,
    /// File that Docker keeps its output in; empty until inspected, and when there is none.
    pub log_path: String,
    /// Of a sandbox: units of devices that its pod was given.
    pub devices: Option<String>,
    /// Its limits; empty until inspected, and what the engine does not tell.
    pub resources: Resources,
}

/// What a sandbox tells of activeDeadlineSeconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadline {
    /// Since when its pod is active: the id of a start of the machine, and how long that had run then.
    pub since: Option<(String, Duration)>,
    /// The deadline has passed: the pod has failed for good.
    pub passed: bool,
}

/// A preStop hook as it is written on a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreStop {
    /// JSON of the lifecycle handler.
    pub handler: String,
    /// JSON of the container's ports, which the handler may name; empty without any.
    pub ports: String,
    /// No image can have said it; false of what an older podkeeper made.
    pub sealed: bool,
}

/// What is known of a sandbox's own network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Link {
    /// Nothing: not inspected yet, the host's, or an engine that does not say.
    #[default]
    Untold,
    /// It has an address.
    Up,
    /// It is on some network, which gives it no address.
    Bare,
    /// It is on no network.
    Cut,
    /// It had one and has none any more: its address may be another pod's by now.
    Lost,
}

/// What an [`Owned`] container is for.
#[derive(Debug, Clone, PartialEq)]
pub enum Role {
    /// Holds the pod's namespaces.
    Sandbox {
        /// Uses the host's network.
        host_network: bool,
        /// Addresses; empty until inspected, and for host network.
        ips: Vec<String>,
        /// What is known of its network.
        link: Link,
    },
    /// One of the pod's containers.
    Container {
        /// Name in the pod.
        name: String,
        /// Init, sidecar or regular, as written when it was made.
        kind: ContainerKind,
        /// Index in its list when it was made.
        index: u32,
        /// Sandbox it joined.
        sandbox_id: String,
        /// Hash written on it; `None` when unreadable (then it counts as changed).
        hash: Option<u32>,
    },
}

/// State of an [`Owned`] container.
#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    /// Made, never started, no failed start.
    Created,
    /// Runs.
    Running {
        /// Wall time of the start, for printing; `None` until inspected.
        started: Option<Timestamp>,
    },
    /// Ended, or could not start.
    Exited(Exit),
    /// `dead` or `removing`: stopped, stuck on the way out (moby/moby#22312). Never a reason to wait.
    Removing,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Exit {
    /// Exit code; 137 for SIGKILL.
    pub code: i64,
    /// The OOM killer struck.
    pub oom_killed: bool,
    /// It never ran: the start itself failed (`ContainerCannotRun`).
    pub cannot_run: bool,
    /// Docker's `State.Error`.
    pub message: String,
    /// Wall time, for printing.
    pub started: Option<Timestamp>,
    /// Wall time, for printing.
    pub finished: Option<Timestamp>,
    /// When we first saw it ended: what back-off is measured from. `None` when it had ended before the
    /// daemon first looked.
    pub seen: Option<Mono>,
}

impl RunState {
    /// Created or running: it is, or may come to be, alive.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self, RunState::Running { .. })
    }
    /// Ended for good, whatever removal does.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self, RunState::Exited(_) | RunState::Removing)
    }
}

/// All that was seen of one pod identity, whatever the UID.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// In no particular order.
    pub all: Vec<Owned>,
}

impl Owned {
    /// It is a sandbox.
    #[must_use]
    pub fn is_sandbox(&self) -> bool {
        matches!(self.role, Role::Sandbox { .. })
    }
    /// The container's name in the pod; `None` for a sandbox.
    #[must_use]
    pub fn container_name(&self) -> Option<&str> {
        match &self.role {
            Role::Sandbox { .. } => None,
            Role::Container { name, .. } => Some(name),
        }
    }
    /// It was made as a container of this kind; `false` for a sandbox.
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
    /// Sandboxes made for this UID, newest attempt first.
    #[must_use]
    pub fn sandboxes(&self, uid: &str) -> Vec<&Owned> {
        newest_first(self.all.iter().filter(|c| c.uid == uid && c.is_sandbox()))
    }
    /// Instances of one container made for this UID, newest attempt first. One whose start may be on its way
    /// ([`Owned::start_sent`]) tells nothing and is left out.
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
    // Equal attempts happen only after somebody meddled, or when Docker makes late what an earlier daemon
    // asked for: then what runs counts, and is not replaced. The id makes the order total all the same.
    let runs = |c: &Owned| c.state.is_running();
    order::sort_by(&mut found, |a, b| {
        (b.attempt, runs(b)).cmp(&(a.attempt, runs(a))).then_with(|| a.id.cmp(&b.id))
    });
    found
}
