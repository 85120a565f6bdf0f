//! The last status of a deleted pod (upstream `TerminatePod` in `status_manager.go`, `getPhase` for a pod that is
//! finalised). Pure.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus};

use super::wanted::is_terminal;
use crate::pod::{ContainerKind, DesiredPod};

/// Makes the status final, because no container runs any more: a container without a known end has ended unseen, and
/// the phase becomes final. `before`: what was told last, maybe by an earlier daemon.
pub(super) fn finish(pod: &DesiredPod, before: &PodStatus, status: &mut PodStatus) {
    if is_initialized(pod, status) || is_initialized(pod, before) {
        status.container_statuses.iter_mut().flatten().for_each(end);
    }
    status.ephemeral_container_statuses.iter_mut().flatten().for_each(end);
    let started = status.init_container_statuses.iter().flatten().map(|c| usize::from(has_evidence(c)));
    // Init containers up to the last one that has started, and the first one in any case.
    let up_to = started.enumerate().filter(|(_, began)| *began > 0).map(|(at, _)| at).max().unwrap_or(0);
    let began = up_to.saturating_add(1);
    status.init_container_statuses.iter_mut().flatten().take(began).for_each(end);
    for c in status.init_container_statuses.iter_mut().chain(&mut status.container_statuses).flatten() {
        c.started = Some(false);
        c.ready = c.ready && is_plain_init(pod, &c.name);
    }
    if is_terminal(status) {
        return;
    }
    let ends = || {
        let all = status.container_statuses.iter().flatten();
        all.map(|c| c.state.as_ref().and_then(|state| state.terminated.as_ref()).map(|end| end.exit_code))
    };
    let succeeded = ends().count() > 0 && ends().all(|code| code == Some(0));
    status.phase = Some(if succeeded { "Succeeded" } else { "Failed" }.to_owned());
}

fn is_plain_init(pod: &DesiredPod, name: &str) -> bool {
    pod.container(name).is_some_and(|(kind, _)| kind == ContainerKind::Init)
}

pub(super) fn end(c: &mut ContainerStatus) {
    if c.state.as_ref().is_some_and(|state| state.terminated.is_some()) {
        return;
    }
    let ended = ContainerStateTerminated {
        exit_code: 137,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        container_id: c.container_id.clone(),
        ..ContainerStateTerminated::default()
    };
    c.state = Some(ContainerState { terminated: Some(ended), ..ContainerState::default() });
    c.ready = false;
}

/// Whether a container has ever started.
pub(super) fn has_evidence(c: &ContainerStatus) -> bool {
    let ended = c.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
    ended || c.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

/// Upstream `hasPodInitialized`.
fn is_initialized(pod: &DesiredPod, status: &PodStatus) -> bool {
    if pod.init_containers().is_empty() {
        return true;
    }
    if status.container_statuses.iter().flatten().any(has_evidence) {
        return true;
    }
    let last = status.init_container_statuses.iter().flatten().next_back();
    last.is_some_and(|last| match is_plain_init(pod, &last.name) {
        true => {
            let end = last.state.as_ref().and_then(|state| state.terminated.as_ref());
            end.is_some_and(|end| end.exit_code == 0)
        }
        false => {
            let runs = last.state.as_ref().is_some_and(|state| state.running.is_some());
            runs && last.started == Some(true)
        }
    })
}
