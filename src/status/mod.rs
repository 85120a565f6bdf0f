//! Status of pods: PodStatus as the kubelet computes it (upstream `pkg/kubelet/kubelet_pods.go`,
//! `generateAPIPodStatus`) [pure], the snapshot, and the status file. Never here: a decision.

pub mod columns;
pub mod conditions;
pub mod container_log;
mod containers;
pub mod file;
mod in_force;
pub mod local_objects;
pub mod node_object;
mod phase;
pub mod resized;
pub mod snapshot;
pub mod task;
#[cfg(test)]
mod tests;
pub mod writer;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::base::clock::Timestamp;
use crate::base::table::{Set, Table};
use crate::manifest::static_pod::CONFIG_SEEN;
use crate::plan::all::triggers;
use crate::plan::restart::{could_restart_all, restarts};
use crate::plan::{DEADLINE_EXCEEDED, DEADLINE_MESSAGE};
use crate::plan::{Observed, Owned, Probes, Role, RunState};
use crate::pod::qos;
use crate::pod::waiting::Reason;
use crate::pod::{ContainerKind, DesiredPod, RestartPolicy, is_final};

/// Why a container that should run waits (kubelet's reason cache): name -> reason and message.
pub type Waiting = Table<String, WaitingReason>;

/// A reason such as `CrashLoopBackOff`, with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingReason {
    /// The kubelet's reason.
    pub reason: Reason,
    /// The kubelet's message.
    pub message: String,
}

/// A resize in progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resize {
    /// Names of the containers whose sizes are being changed.
    pub containers: Set<String>,
    /// Error of the last attempt.
    pub error: Option<String>,
}

/// No resize in progress.
pub const NO_RESIZE: Resize = Resize { containers: Set::new(), error: None };

/// Input of [`compute`].
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The wanted pod.
    pub pod: &'a DesiredPod,
    /// Containers of the pod, as last observed.
    pub observed: &'a Observed,
    /// Probe results.
    pub probes: &'a Probes,
    /// Why containers wait.
    pub waiting: &'a Waiting,
    /// Repository digest by image id (`sha256:…` -> `repo@sha256:…`), where known.
    pub digests: &'a BTreeMap<String, String>,
    /// Termination messages by container id, where known.
    pub messages: &'a BTreeMap<String, String>,
    /// The last computed status.
    pub old: Option<&'a PodStatus>,
    /// The pod is being finalised: its containers are dead for good (upstream `getPhase`).
    pub terminal: bool,
    /// The pod has failed for good: activeDeadlineSeconds passed, and its containers are stopped.
    pub past_deadline: bool,
    /// The resize in progress.
    pub resize: &'a Resize,
    /// The engine can mount recursively read-only.
    pub recursive_mounts: bool,
    /// Time for lastTransitionTime and startTime.
    pub now: Timestamp,
}

impl Input<'_> {
    /// Whether all containers are being removed to run again, now or in the last status.
    fn starts_over(&self) -> bool {
        let mut before = self.old.iter().flat_map(|old| old.conditions.iter().flatten());
        before.any(|c| c.type_ == conditions::RESTARTING && c.status == "True")
            || !triggers(self.pod, self.observed).is_empty()
    }
}

/// Computes the status (upstream `pkg/kubelet/kubelet_pods.go`, `generateAPIPodStatus`). Keeps `old`'s
/// transition times and start time; a terminal phase never changes. hostIP is not set here: the writer knows
/// the node's addresses.
///
/// When a container that had ended for good appears not to have ended, the observation is rejected and the
/// result is `old` (upstream `pkg/kubelet/status/status_manager.go`, `updateStatusInternal`).
#[must_use]
pub fn compute(input: &Input<'_>) -> PodStatus {
    let pod = input.pod;
    let old = input.old.unwrap_or(&pod.status);
    let regular_in_sandbox = regular_in_sandbox(pod, input.observed);
    let (init, regular) = containers::statuses(input, old, regular_in_sandbox);
    if is_illegal(pod, old, &init, &regular) {
        return old.clone();
    }
    let again = about_to_start(input);
    let mut computed =
        phase::phase(pod, &init, &regular, input.terminal, regular_in_sandbox, again).to_owned();
    // A running container (a sidecar beside a failed init container) is stopped before the phase is terminal,
    // as the kubelet's status manager waits for it (`mergePodStatus`). A pod that restarts all containers has
    // not ended.
    let alive = |c: &Owned| c.uid == pod.uid && c.state.is_running() && !c.is_sandbox();
    let goes_on = || input.observed.all.iter().any(alive) || !triggers(pod, input.observed).is_empty();
    if is_final(Some(&computed)) && goes_on() {
        computed =
            old.phase.clone().filter(|phase| !phase.is_empty()).unwrap_or_else(|| "Pending".to_owned());
    }
    let terminal = |status: &PodStatus| status.phase.clone().filter(|phase| is_final(Some(phase)));
    // Sticky twice: compared with our last status, and with the API server's.
    let phase = terminal(&pod.status).or_else(|| terminal(old)).unwrap_or(computed);
    let phase = if input.past_deadline { "Failed".to_owned() } else { phase };
    let same_phase = old.phase.as_deref() == Some(phase.as_str());
    let keep = |ours: &Option<String>, source: &Option<String>| {
        let ours = ours.clone().filter(|text| same_phase && !text.is_empty());
        ours.or_else(|| source.clone().filter(|_| same_phase))
    };
    let ips = pod_ips(pod, input.observed, old);
    let mut status = PodStatus {
        reason: keep(&old.reason, &pod.status.reason),
        message: keep(&old.message, &pod.status.message),
        phase: Some(phase),
        init_container_statuses: Some(init).filter(|list| !list.is_empty()),
        container_statuses: Some(regular).filter(|list| !list.is_empty()),
        ephemeral_container_statuses: Some(containers::ephemeral(input)).filter(|list| !list.is_empty()),
        pod_ip: ips.first().map(|ip| ip.ip.clone()),
        pod_ips: Some(ips).filter(|list| !list.is_empty()),
        ..frame(pod, old, start_time(pod, input))
    };
    if input.past_deadline {
        status.reason = Some(DEADLINE_EXCEEDED.to_owned());
        status.message = Some(DEADLINE_MESSAGE.to_owned());
    }
    status.conditions = Some(conditions::conditions(input, old, &status));
    status
}

/// True when the newest instance of a regular container is made and was never started, beside an earlier one. The end
/// of that one says nothing then, whatever the restart policy: it started late, when it was replaced already, and was
/// killed. Or when podkeeper has killed the newest one, to run it again.
fn about_to_start(input: &Input<'_>) -> bool {
    let pod = input.pod;
    let again = |name: &str| match input.observed.instances(&pod.uid, name).as_slice() {
        [newest, _, ..] if newest.state == RunState::Created => true,
        [newest, ..] => newest.killed && newest.state.is_dead(),
        [] => false,
    };
    let ends = input.terminal || pod.metadata.deletion_timestamp.is_some();
    !ends && pod.containers().any(|(kind, c)| kind == ContainerKind::Regular && again(&c.name))
}

/// Prefix of the message of a refused pod.
pub const REJECTED: &str = "Pod was rejected: ";

/// Status of a pod that admission refused (upstream `rejectPod`): no containers, no conditions. `message` has
/// no prefix, as in the event.
#[must_use]
pub fn rejected(pod: &DesiredPod, reason: &str, message: &str, now: Timestamp) -> PodStatus {
    PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(format!("{REJECTED}{message}")),
        ..frame(pod, &pod.status, began(pod).unwrap_or_else(|| seconds(now)))
    }
}

/// Status of a pod that was evicted (upstream `evictPod`); `told` is the message plus its consequence.
#[must_use]
pub fn evicted(pod: &DesiredPod, reason: &str, message: &str, told: &str, now: Timestamp) -> PodStatus {
    let condition = PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("TerminationByKubelet".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(seconds(now)),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    };
    PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(told.to_owned()),
        conditions: Some(vec![condition]),
        ..frame(pod, &pod.status, began(pod).unwrap_or_else(|| seconds(now)))
    }
}

/// Status of a pod that is wanted and not started yet: no containers, no conditions.
#[must_use]
pub fn held(pod: &DesiredPod, reason: &str, message: &str, now: Timestamp) -> PodStatus {
    PodStatus {
        phase: Some("Pending".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..frame(pod, &pod.status, began(pod).unwrap_or_else(|| seconds(now)))
    }
}

/// The fields that do not depend on containers.
fn frame(pod: &DesiredPod, old: &PodStatus, start_time: Time) -> PodStatus {
    PodStatus {
        observed_generation: pod.metadata.generation,
        qos_class: Some(
            pod.status.qos_class.clone().unwrap_or_else(|| qos::class(&pod.spec).as_str().to_owned()),
        ),
        start_time: Some(old.start_time.clone().unwrap_or(start_time)),
        ..PodStatus::default()
    }
}

/// Times in a status have whole seconds, so that a status is equal after being written and read.
pub(crate) fn seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

/// When the pod was first seen, as the merge records it: the pod's sandbox carries it over to the next daemon.
fn began(pod: &DesiredPod) -> Option<Time> {
    let seen = pod.metadata.annotations.as_ref()?.get(CONFIG_SEEN)?;
    Some(seconds(seen.parse().ok()?))
}

/// When the pod started, if no status has it: when it was first seen, else the creation time of its
/// oldest sandbox (by attempt), so that a restarted daemon shows the same.
fn start_time(pod: &DesiredPod, input: &Input<'_>) -> Time {
    let sandboxes = input.observed.sandboxes(&pod.uid);
    let oldest = sandboxes.into_iter().min_by_key(|sandbox| sandbox.attempt);
    let first = oldest.and_then(|sandbox| sandbox.created);
    let from_source = pod.status.start_time.clone();
    from_source.or_else(|| began(pod)).unwrap_or_else(|| seconds(first.unwrap_or(input.now)))
}

/// Whether a regular container, in any state, joined the newest sandbox.
fn regular_in_sandbox(pod: &DesiredPod, observed: &Observed) -> bool {
    let sandboxes = observed.sandboxes(&pod.uid);
    let Some(current) = sandboxes.first() else { return false };
    observed.all.iter().any(|c| {
        c.uid == pod.uid && c.is_kind(ContainerKind::Regular) && c.sandbox_id() == Some(current.id.as_str())
    })
}

/// The first IPv4 and the first IPv6 address of the newest sandbox; the old ones while the sandbox does not
/// run or was not inspected yet.
fn pod_ips(pod: &DesiredPod, observed: &Observed, old: &PodStatus) -> Vec<PodIP> {
    let sandboxes = observed.sandboxes(&pod.uid);
    let known = sandboxes.first().and_then(|sandbox| match (&sandbox.role, &sandbox.state) {
        (Role::Sandbox { ips, .. }, RunState::Running { started })
            if !ips.is_empty() || started.is_some() =>
        {
            Some(ips)
        }
        _ => None,
    });
    match known {
        Some(ips) if !pod.host_network() => {
            let four = ips.iter().find(|ip| !ip.contains(':'));
            let six = ips.iter().find(|ip| ip.contains(':'));
            four.into_iter().chain(six).map(|ip| PodIP { ip: ip.clone() }).collect()
        }
        _ => old.pod_ips.clone().unwrap_or_default(),
    }
}

/// The first attempt number that is free according to a container's status; `None` when the status shows
/// none that ran. The number of a container that was created and never ran is free.
#[must_use]
pub fn restarts_told(status: &PodStatus, container: &str) -> Option<u32> {
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let told = all.into_iter().find(|told| told.name == container)?;
    let state = told.state.as_ref();
    let runs = state.is_some_and(|state| state.running.is_some());
    let ended = state.and_then(|state| state.terminated.as_ref());
    let last = told.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    // An end that was not observed was counted already.
    let taken = match ended.or(last) {
        _ if runs => true,
        Some(end) if ended.is_some() => !containers::is_unseen(end),
        // It waits to run again after its own end.
        Some(last) => {
            last.container_id.is_some()
                && (told.container_id.is_none() || told.container_id == last.container_id)
        }
        None => return None,
    };
    u32::try_from(told.restart_count).ok()?.checked_add(u32::from(taken))
}

/// Whether a container that had ended for good in the status `old` is reported as not ended. For init containers only policy
/// `Never` counts: with any other policy they run again in each new sandbox.
fn is_illegal(
    pod: &DesiredPod,
    old: &PodStatus,
    init: &[ContainerStatus],
    regular: &[ContainerStatus],
) -> bool {
    if pod.restart_policy() == RestartPolicy::Always || could_restart_all(pod) {
        return false;
    }
    let end = |status: &ContainerStatus| {
        status.state.as_ref().and_then(|s| s.terminated.as_ref()).map(|end| i64::from(end.exit_code))
    };
    let before = old.init_container_statuses.iter().chain(&old.container_statuses).flatten();
    before.filter_map(|status| Some((status, end(status)?))).any(|(status, code)| {
        let Some((kind, container)) = pod.container(&status.name) else { return false };
        let now = match kind {
            ContainerKind::Sidecar => return false,
            ContainerKind::Init if pod.restart_policy() != RestartPolicy::Never => return false,
            ContainerKind::Init => init,
            ContainerKind::Regular | ContainerKind::Ephemeral => regular,
        };
        let on_failure = pod.restart_policy() == RestartPolicy::OnFailure && code != 0;
        let may = on_failure || restarts(pod, container, code);
        !may && now.iter().any(|s| s.name == status.name && end(s).is_none())
    })
}
