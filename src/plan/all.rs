//! `RestartAllContainers` (upstream `pkg/kubelet/kuberuntime/kuberuntime_manager.go`, KEP-5532): an exit that
//! matches such a rule makes the whole pod start over in the same sandbox, init containers first. All
//! containers are killed and removed, the one that triggered it last: while it exists, it shows that a
//! restart is in progress, even to the next daemon.

use crate::base::order;
use crate::plan::restart::{could_restart_all, exit_code, restarts_all};
use crate::plan::{Kill, KillReason, Observed, Owned, RunState};
use crate::pod::{ContainerKind, DesiredPod};

/// The remaining steps before the pod starts over.
#[derive(Debug, Default)]
pub(super) struct StartOver {
    /// Running containers to kill.
    pub(super) kill: Vec<Kill>,
    /// Dead containers to remove, by id.
    pub(super) remove: Vec<String>,
}

/// The containers whose end makes the pod start over; empty otherwise.
#[must_use]
pub fn triggers<'a>(pod: &DesiredPod, observed: &'a Observed) -> Vec<&'a Owned> {
    if pod.metadata.deletion_timestamp.is_some() || !could_restart_all(pod) {
        return Vec::new();
    }
    let newest = |kind: ContainerKind, name: &str| {
        observed.newest(&pod.uid, name).filter(|newest| newest.is_kind(kind))
    };
    let hits = pod.containers().filter_map(|(kind, container)| {
        let ended = newest(kind, &container.name)?;
        // The exit code of a container that Docker is removing is unknown.
        let RunState::Exited(exit) = &ended.state else { return None };
        restarts_all(container, exit.code).then_some(ended)
    });
    hits.collect()
}

/// The remaining steps; `None` without a trigger.
pub(super) fn start_over(pod: &DesiredPod, observed: &Observed) -> Option<StartOver> {
    let triggers = triggers(pod, observed);
    if triggers.is_empty() {
        return None;
    }
    let mut over = StartOver::default();
    let all = observed.all.iter().filter(|c| c.uid == pod.uid && !c.is_kind(ContainerKind::Ephemeral));
    let victims = all.filter(|c| c.container_name().is_some() && !triggers.iter().any(|t| t.id == c.id));
    let mut left = false;
    for victim in victims {
        left = true;
        let name = victim.container_name().unwrap_or_default().to_owned();
        if victim.state.is_running() {
            let message = format!("Container {name} will be restarted with all containers of its pod");
            over.kill.push(Kill { id: victim.id.clone(), name, message, reason: KillReason::StartOver });
        } else if victim.state == RunState::Created || exit_code(&victim.state).is_some() {
            over.remove.push(victim.id.clone());
        }
    }
    if !left {
        over.remove.extend(triggers.iter().map(|trigger| trigger.id.clone()));
    }
    // Upstream kills the regular containers first.
    let first = |id: &str| observed.get(id).is_none_or(|c| !c.is_kind(ContainerKind::Regular));
    order::sort_by_key(&mut over.kill, |kill| (first(&kill.id), kill.id.clone()));
    order::sort(&mut over.remove);
    Some(over)
}
