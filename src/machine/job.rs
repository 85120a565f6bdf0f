//! What a pod machine remembers of things under way: why a call was made, how often something failed, how
//! far a stop got. Small values; all decisions are elsewhere.

use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;
use crate::plan::Role;
use crate::runtime::Resources;

/// What a call in flight was made for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Job {
    List,
    /// `blind`: nothing is decided before its answer.
    Inspect {
        id: String,
        blind: bool,
    },
    /// An inspect of what has a cgroup in the pod's and is in no list.
    Unlisted {
        id: String,
    },
    Conflict {
        name: String,
        place: Place,
    },
    /// `role`: as it was wished for then; the wish may have changed when the answer comes.
    CreateSandbox {
        name: String,
        attempt: u32,
        role: Role,
    },
    /// The same; `crash_key` is the container's in the crash back-off.
    Create {
        name: String,
        container: String,
        attempt: u32,
        sandbox: String,
        role: Role,
        crash_key: String,
        size: Resources,
    },
    Start {
        id: String,
    },
    Kill {
        id: String,
        hard: bool,
    },
    Remove {
        id: String,
    },
    Update {
        id: String,
        resources: Resources,
    },
    Rename {
        id: String,
        name: String,
    },
    Log {
        id: String,
    },
    ImageInspect {
        image_id: String,
    },
    /// Whom an image runs as, for one attempt of this container.
    ImageUser {
        container: String,
        image: String,
        attempt: u32,
    },
}

/// Which object a name conflict is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    /// Container name; `None` for the sandbox.
    pub container: Option<String>,
    /// Attempt that was to be made.
    pub attempt: u32,
}

/// A pull that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    /// Container that needs it; `None` for the sandbox.
    pub container: Option<String>,
    pub since: Mono,
}

/// An image that may be used without asking again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ensured {
    /// Of the container.
    pub attempt: u32,
    /// That it was pulled has been told, for this container.
    pub told: bool,
}

/// Tries and the wait before the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Retry {
    pub tries: u32,
    pub until: Mono,
}

impl Retry {
    /// Counts a failure: `first`, doubling to `most`.
    pub fn failed(&mut self, first: Duration, most: Duration, now: Mono) {
        let factor = 1u32.checked_shl(self.tries).unwrap_or(u32::MAX);
        self.tries = self.tries.saturating_add(1);
        self.until = now.after(first.saturating_mul(factor).min(most));
    }
}

/// How far the stop of one container got.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stop {
    /// When the pod's stop began; of a container that is stopped alone, when its own did.
    pub began: Mono,
    /// When its turn came.
    pub asked: Mono,
    pub deadline: Mono,
    /// When a signal was last sent, and whether it was KILL.
    pub sent: Option<(Mono, bool)>,
    /// Docker does not know its own stop signal: TERM is sent.
    pub term: bool,
    /// That it could not be signalled was told.
    pub told: bool,
}

impl Stop {
    /// A grace of the pod, or a shorter one later: whoever's turn comes late has at least
    /// [`limits::GRACE_MIN`] (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`).
    pub fn allow(&mut self, grace: Duration) {
        let least = self.asked.after(Duration::from_secs(u64::from(limits::GRACE_MIN)));
        self.deadline = self.deadline.min(self.began.after(grace).max(least));
    }
}
