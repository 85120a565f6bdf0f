//! Containers that the pod no longer needs: Docker may carry out the create of a daemon that died after the next
//! daemon has created its own. Pure; the worker checks this once, when such a container is first seen.

use crate::plan::restart::{changed, init_failure, restarts};
use crate::plan::{Observed, Owned, RunState};
use crate::pod::{ContainerKind, DesiredPod};

/// Whether this created container would not be started any more if it did not exist: another instance runs or
/// has ended for good, or the pod is past this init container.
#[must_use]
pub fn is_past(pod: &DesiredPod, observed: &Observed, made: &Owned) -> bool {
    if made.is_sandbox() {
        // The pod has another sandbox. If this one has the higher attempt, its containers would be killed.
        let counts = |other: &&Owned| other.id != made.id && !other.start_sent && !other.state.is_dead();
        return observed.sandboxes(&pod.uid).into_iter().any(|other| counts(&other));
    }
    let Some((name, (kind, container))) =
        made.container_name().and_then(|name| pod.container(name).map(|found| (name, found)))
    else {
        return false;
    };
    let here = |other: &&&Owned| other.id != made.id && other.sandbox_id() == made.sandbox_id();
    let instances = observed.instances(&pod.uid, name);
    let others = || instances.iter().filter(|other| other.id != made.id);
    if others().any(|other| other.state.is_running()) {
        return true;
    }
    let judged = match kind {
        ContainerKind::Init => others().find(here),
        _ => others().next(),
    };
    let has_ended = judged.is_some_and(|newest| {
        let RunState::Exited(exit) = &newest.state else { return false };
        let again = match (kind, init_failure(&newest.state)) {
            (ContainerKind::Init, None) => false,
            (ContainerKind::Init, Some(code)) => restarts(pod, container, code),
            _ => restarts(pod, container, exit.code),
        };
        !again && !changed(container, kind, newest)
    });
    has_ended || kind == ContainerKind::Init && later_has_begun(pod, observed, made, name)
}

/// Whether a container after this init container has a trace in the same sandbox.
fn later_has_begun(pod: &DesiredPod, observed: &Observed, made: &Owned, name: &str) -> bool {
    let init = pod.init_containers().iter().map(|c| c.name.as_str());
    let later =
        init.skip_while(|it| *it != name).skip(1).chain(pod.spec.containers.iter().map(|c| c.name.as_str()));
    later.into_iter().any(|it| {
        observed.instances(&pod.uid, it).iter().any(|other| other.sandbox_id() == made.sandbox_id())
    })
}

/// Whether an earlier daemon has killed the container with its sandbox, and the pod's next life has begun in another one. What
/// Docker cannot remove of the first life says nothing about the next.
#[must_use]
pub fn is_of_earlier_life(c: &Owned, all: &[Owned]) -> bool {
    let own = |s: &&Owned| s.is_sandbox() && s.uid == c.uid;
    let has_next = all.iter().filter(own).any(|s| !s.killed && s.state != RunState::Created);
    let sandbox = c.sandbox_id().and_then(|id| all.iter().find(|s| s.id == *id));
    c.killed && has_next && sandbox.is_none_or(|s| s.killed)
}
