//! Whether one container runs again after it ended: restart policies and rules.
//!
//! Never here: delays (that is [`crate::plan::backoff`]), and wall-clock times.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes};

use crate::manifest::hash::container_hash;
use crate::plan::{Observed, Owned, Role, RunState};
use crate::pod::{ContainerKind, DesiredPod, RestartPolicy};
use crate::runtime::KILLED;

/// Action of a rule: the whole pod starts over ([`crate::plan::all`]).
const RESTART_ALL: &str = "RestartAllContainers";

/// Assumed exit code of a container whose real one is lost: that of SIGKILL.
pub const UNKNOWN_EXIT: i64 = KILLED;

/// The container's own restart policy if it has one, else the pod's.
#[must_use]
pub fn effective_policy(pod: &DesiredPod, container: &Container) -> RestartPolicy {
    match container.restart_policy.as_deref() {
        Some(word) => RestartPolicy::parse(Some(word)),
        None => pod.restart_policy(),
    }
}

/// Whether a container that exited with `code` runs again (upstream `pkg/api/v1/pod/util.go`): the first
/// of its restart rules that matches decides, then its policy, then the pod's.
#[must_use]
pub fn restarts(pod: &DesiredPod, container: &Container, code: i64) -> bool {
    if matches!(rule(container, code), Some("Restart" | RESTART_ALL)) {
        return true;
    }
    match effective_policy(pod, container) {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => code != 0,
        RestartPolicy::Never => false,
    }
}

/// True when an exit with this code restarts all containers of the pod.
#[must_use]
pub fn restarts_all(container: &Container, code: i64) -> bool {
    rule(container, code) == Some(RESTART_ALL)
}

/// True when an exit of some container may restart all of them.
#[must_use]
pub fn could_restart_all(pod: &DesiredPod) -> bool {
    pod.containers().any(|(_, container)| rules(container).iter().any(|rule| rule.action == RESTART_ALL))
}

/// The action of the first rule that matches.
fn rule(container: &Container, code: i64) -> Option<&str> {
    let hit =
        rules(container).iter().find(|r| r.exit_codes.as_ref().is_some_and(|on| matches_code(on, code)));
    hit.map(|rule| rule.action.as_str())
}

/// Rules apply only together with the container's own policy; validation requires it, too.
fn rules(container: &Container) -> &[ContainerRestartRule] {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    if container.restart_policy.is_some() { rules } else { &[] }
}

fn matches_code(on: &ContainerRestartRuleOnExitCodes, code: i64) -> bool {
    let listed = on.values.as_deref().unwrap_or_default().iter().any(|v| i64::from(*v) == code);
    match on.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

/// Whether the container is to be started, judged by its newest instance (upstream
/// `ShouldContainerBeRestarted`). A pod with a deletionTimestamp starts no container.
#[must_use]
pub fn should_start(pod: &DesiredPod, container: &Container, newest: Option<&Owned>) -> bool {
    if pod.metadata.deletion_timestamp.is_some() {
        return false;
    }
    match newest.map(|instance| &instance.state) {
        None | Some(RunState::Created) => true,
        Some(RunState::Running { .. }) => false,
        // It has not ended by itself: the kubelet starts it in the pass in which it kills it.
        Some(_) if newest.is_some_and(|instance| instance.killed) => true,
        Some(dead) => restarts(pod, container, exit_code(dead).unwrap_or(UNKNOWN_EXIT)),
    }
}

/// The newest instance made for the pod's UID, by which a container is judged. A dead one of another kind (it
/// was an init container when it ran) does not count.
#[must_use]
pub fn judged_by<'a>(
    pod: &DesiredPod,
    observed: &'a Observed,
    kind: ContainerKind,
    container: &Container,
) -> Option<&'a Owned> {
    observed.newest(&pod.uid, &container.name).filter(|c| !c.state.is_dead() || c.is_kind(kind))
}

/// Exit code of a dead container; `None` while it is not dead. A container that is stuck in removal counts as
/// ended with [`UNKNOWN_EXIT`].
#[must_use]
pub fn exit_code(state: &RunState) -> Option<i64> {
    match state {
        RunState::Created | RunState::Running { .. } => None,
        RunState::Exited(exit) => Some(exit.code),
        RunState::Removing => Some(UNKNOWN_EXIT),
    }
}

/// Exit code with which a plain init container failed; `None` when it did not fail (or is not dead). After an
/// OOM kill it counts as failed even if its code is 0.
#[must_use]
pub fn init_failure(state: &RunState) -> Option<i64> {
    match state {
        RunState::Exited(exit) if exit.code == 0 && exit.oom_killed => Some(UNKNOWN_EXIT),
        _ => exit_code(state).filter(|code| *code != 0),
    }
}

/// Whether an instance was made from another definition: another name or image, according to the hash in its
/// labels (invariant 4), or of another kind (regular, init, sidecar).
#[must_use]
pub fn changed(container: &Container, wanted: ContainerKind, instance: &Owned) -> bool {
    let Role::Container { kind, hash, .. } = &instance.role else { return true };
    let image = container.image.as_deref().unwrap_or_default();
    *kind != wanted || *hash != Some(container_hash(&container.name, image))
}
