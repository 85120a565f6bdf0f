//! Container statuses (upstream `pkg/kubelet/kubelet_pods.go`, `convertToAPIContainerStatuses`).
//!
//! Instances are ordered by attempt alone; times are only copied.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, PodStatus, Probe, VolumeMount, VolumeMountStatus,
};

use crate::base::order;
use crate::base::table::Table;
use crate::plan::restart::{UNKNOWN_EXIT, judged_by, should_start};
use crate::plan::{Exit, Owned, ProbeVerdict, RunState};
use crate::pod::ContainerKind;
use crate::pod::waiting::Reason;
use crate::runtime::names;
use crate::status::{Input, WaitingReason, in_force, seconds};
use crate::termination;

/// Reason of a container whose end was not observed.
const UNKNOWN: &str = "ContainerStatusUnknown";
const GONE_WHEN_DELETED: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";
const GONE_WHEN_TERMINATED: &str = "The container could not be located when the pod was terminated";
const INIT_GONE: &str = "Unable to get init container status from container runtime and pod has been \
                         initialized, treat it as exited normally";

/// Statuses of the init containers in spec order, and of the regular ones by name.
pub(super) fn statuses(
    input: &Input<'_>,
    old: &PodStatus,
    regular_in_sandbox: bool,
) -> (Vec<ContainerStatus>, Vec<ContainerStatus>) {
    let (mut init, mut regular) = (Vec::new(), Vec::new());
    for (kind, container) in input.pod.containers() {
        let (list, before) = match kind {
            ContainerKind::Regular | ContainerKind::Ephemeral => (&mut regular, &old.container_statuses),
            ContainerKind::Init | ContainerKind::Sidecar => (&mut init, &old.init_container_statuses),
        };
        let before = before.iter().flatten().find(|s| s.name == container.name);
        list.push(status(input, kind, container, before, regular_in_sandbox));
    }
    order::sort_by(&mut regular, |a, b| a.name.cmp(&b.name));
    (init, regular)
}

/// Statuses of the ephemeral containers of the newest sandbox, and of those that ended with earlier ones, by name. They
/// are not in the spec.
pub(super) fn ephemeral(input: &Input<'_>) -> Vec<ContainerStatus> {
    let uid = &input.pod.uid;
    let sandboxes = input.observed.sandboxes(uid);
    let Some(current) = sandboxes.first().map(|sandbox| sandbox.id.as_str()) else { return Vec::new() };
    let all = input.observed.all.iter().filter(|c| c.uid == *uid && c.is_kind(ContainerKind::Ephemeral));
    let added = all.map(|c| (c.sandbox_id() == Some(current), c));
    let told = added.filter(|(here, c)| *here || matches!(c.state, RunState::Exited(_)));
    let mut list: Vec<(bool, ContainerStatus)> = told
        .map(|(here, c)| {
            (here, ContainerStatus { image: c.image.clone(), ..from_instances(input, c, None, None) })
        })
        .collect();
    order::sort_by(&mut list, |(a_here, a), (b_here, b)| a.name.cmp(&b.name).then(b_here.cmp(a_here)));
    list.dedup_by(|(_, later), (_, first)| later.name == first.name);
    list.into_iter().map(|(_, status)| status).collect()
}

fn status(
    input: &Input<'_>,
    kind: ContainerKind,
    container: &Container,
    old: Option<&ContainerStatus>,
    regular_in_sandbox: bool,
) -> ContainerStatus {
    let instances = input.observed.instances(&input.pod.uid, &container.name);
    let mut status = match instances.split_first() {
        Some((newest, earlier)) => from_instances(input, newest, earlier.first().copied(), old),
        None => without_instance(input, container, old),
    };
    let newest = instances.first().copied();
    let ends = input.terminal || input.pod.metadata.deletion_timestamp.is_some();
    if !ends && kind == ContainerKind::Regular && newest.is_some_and(|c| c.killed && c.state.is_dead()) {
        // podkeeper has killed it to run it again: that is not its end.
        let again = waiting(Some(Reason::of_start(false).as_str().to_owned()), None);
        status.last_state = status.state.replace(again);
    }
    // A container that was just created was not inspected yet, and a container whose image was resolved
    // before was created from the image's id: both show the manifest's image name.
    if status.image.is_empty() || status.image.starts_with("sha256:") {
        status.image = container.image.clone().unwrap_or_default();
    }
    overlay(input, kind, container, newest, &mut status);
    let waits = status.state.as_ref().is_some_and(|s| s.waiting.is_some());
    if kind == ContainerKind::Init && newest.is_none() && waits && regular_in_sandbox {
        status.state = Some(terminated(ContainerStateTerminated {
            reason: Some("Completed".to_owned()),
            message: Some(INIT_GONE.to_owned()),
            ..ContainerStateTerminated::default()
        }));
    }
    // Once set, they stay with the container.
    let told = old.and_then(|o| o.volume_mounts.clone());
    status.volume_mounts = told.or_else(|| mounts(container, input.recursive_mounts));
    let runs = newest.is_some_and(|c| c.state.is_running());
    if let Some(resources) = container.resources.as_ref().filter(|_| newest.is_some()) {
        let seen = newest.map(|c| c.resources).unwrap_or_default();
        // A daemon that has just started has told nothing yet.
        let before =
            || old.and_then(|o| o.resources.clone()).or_else(|| Some(in_force::resources(resources, seen)));
        // A container that does not run shows the resources that it would get (`convertContainerStatusResources`).
        let changing = runs && input.resize.containers.contains(&container.name);
        status.resources = if changing { before() } else { Some(resources.clone()) };
        status.allocated_resources.clone_from(&resources.requests);
    }
    probe_results(input, kind, container, newest, &mut status);
    status
}

/// Mounts of the manifest; `IfPossible` is recursive if the engine supports that.
fn mounts(container: &Container, recursive: bool) -> Option<Vec<VolumeMountStatus>> {
    let of = |mount: &VolumeMount| {
        let read_only = mount.read_only == Some(true);
        let mode = match mount.recursive_read_only.as_deref() {
            Some("Enabled") => "Enabled",
            Some("IfPossible") if recursive => "Enabled",
            _ => "Disabled",
        };
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: read_only.then(|| mode.to_owned()),
            ..VolumeMountStatus::default()
        }
    };
    container.volume_mounts.as_ref().map(|all| all.iter().map(of).collect())
}

/// The status of a container that does not exist in Docker (any more).
fn without_instance(
    input: &Input<'_>,
    container: &Container,
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    let old_state = old.and_then(|o| o.state.as_ref());
    let ended = old_state.filter(|s| s.terminated.is_some());
    if let Some(old) = old.filter(|_| ended.is_some() && !input.starts_over()) {
        return old.clone();
    }
    let initializes = !input.pod.init_containers().is_empty();
    let reason = Reason::of_start(initializes);
    let mut status = ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        restart_count: old.map_or(0, |o| o.restart_count),
        last_state: ended.cloned().or_else(|| old.and_then(|o| o.last_state.clone())),
        state: Some(waiting(Some(reason.as_str().to_owned()), None)),
        ..ContainerStatus::default()
    };
    let has_last = status.last_state.as_ref().is_some_and(|s| s.terminated.is_some());
    if old_state.is_some_and(|s| s.running.is_some()) && !has_last {
        // It ran before, so it is shown as stopped: only waiting would make the pod Pending.
        status.last_state = Some(vanished(GONE_WHEN_DELETED));
        if input.pod.metadata.deletion_timestamp.is_none() {
            status.restart_count = status.restart_count.saturating_add(1);
        }
    }
    status
}

fn from_instances(
    input: &Input<'_>,
    newest: &Owned,
    second: Option<&Owned>,
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    let old_count = old.map_or(0, |o| o.restart_count);
    let mut restart_count = i32::try_from(newest.restarts()).unwrap_or(i32::MAX).max(old_count);
    let old_state = old.and_then(|o| o.state.as_ref());
    let old_last = old.and_then(|o| o.last_state.as_ref());
    // The end of an instance that has been removed since.
    let container_id = names::container_id(&newest.id);
    let another = old.and_then(|o| o.container_id.as_ref()).is_some_and(|id| *id != container_id);
    let removed = old_state.filter(|s| another && second.is_none() && s.terminated.is_some());
    let uncounted = |s: &ContainerState| s.terminated.as_ref().is_some_and(|end| !is_unseen(end));
    if removed.is_some_and(uncounted) && i64::from(newest.restarts()) <= i64::from(old_count) {
        restart_count = old_count.saturating_add(1);
    }
    let state = match &newest.state {
        RunState::Created => waiting(None, None),
        RunState::Running { started } => ContainerState {
            running: Some(ContainerStateRunning { started_at: started.map(seconds) }),
            ..ContainerState::default()
        },
        RunState::Exited(exit) => exited(input, newest, exit),
        RunState::Removing => match end_of(old_state, newest).or_else(|| end_of(old_last, newest)) {
            Some(known) => known,
            // An end that was not observed is counted here; `restarts_told` skips it.
            None => {
                if old_state.is_some_and(|s| s.running.is_some()) {
                    restart_count = restart_count.max(old_count.saturating_add(1));
                } else if old.is_none() {
                    restart_count = restart_count.saturating_add(1);
                }
                vanished(GONE_WHEN_TERMINATED)
            }
        },
    };
    let last_state = second.and_then(|second| match &second.state {
        RunState::Exited(exit) => Some(exited(input, second, exit)),
        RunState::Removing => {
            let known = end_of(old_state, second).or_else(|| end_of(old_last, second));
            Some(known.unwrap_or_else(|| vanished(GONE_WHEN_TERMINATED)))
        }
        RunState::Created | RunState::Running { .. } => None,
    });
    let kept = || removed.cloned().or_else(|| old.and_then(|o| o.last_state.clone()));
    let last_state = last_state.or_else(|| if second.is_none() { kept() } else { None });
    ContainerStatus {
        name: newest.container_name().unwrap_or_default().to_owned(),
        image: newest.image.clone(),
        image_id: image_id(input, newest),
        container_id: Some(container_id),
        restart_count,
        state: Some(state),
        last_state,
        ..ContainerStatus::default()
    }
}

/// The end of this instance, if it was recorded before Docker began to remove it.
fn end_of(state: Option<&ContainerState>, instance: &Owned) -> Option<ContainerState> {
    let end = state?.terminated.as_ref()?;
    let id = names::docker_id(end.container_id.as_deref()?)?;
    (id == instance.id).then(|| terminated(end.clone()))
}

/// Sets why a container that should run does not start: the kubelet's reason cache. A running container
/// never waits.
fn overlay(
    input: &Input<'_>,
    kind: ContainerKind,
    container: &Container,
    newest: Option<&Owned>,
    status: &mut ContainerStatus,
) {
    let Some(WaitingReason { reason, message }) = input.waiting.get(&container.name) else { return };
    let init_done = kind != ContainerKind::Regular
        && matches!(newest.map(|c| &c.state), Some(RunState::Exited(exit)) if exit.code == 0);
    let judged = judged_by(input.pod, input.observed, kind, container);
    if init_done || !should_start(input.pod, container, judged) {
        return;
    }
    if status.state.as_ref().is_some_and(|s| s.terminated.is_some()) {
        status.last_state = status.state.take();
    }
    let message = Some(message.clone()).filter(|m| !m.is_empty());
    status.state = Some(waiting(Some(reason.as_str().to_owned()), message));
}

/// Fills `started` and `ready`. A probe without a result has not passed.
fn probe_results(
    input: &Input<'_>,
    kind: ContainerKind,
    container: &Container,
    newest: Option<&Owned>,
    status: &mut ContainerStatus,
) {
    let state = status.state.as_ref();
    let running = newest.filter(|_| state.is_some_and(|s| s.running.is_some()));
    let passed = |probe: &Option<Probe>, results: &Table<String, ProbeVerdict>| {
        running.is_some_and(|c| match results.get(&c.id) {
            Some(verdict) => *verdict == ProbeVerdict::Success,
            None => probe.is_none(),
        })
    };
    let started = passed(&container.startup_probe, &input.probes.startup);
    status.started = Some(started);
    status.ready = match kind {
        ContainerKind::Init => {
            state.and_then(|s| s.terminated.as_ref()).is_some_and(|end| end.exit_code == 0)
        }
        ContainerKind::Sidecar | ContainerKind::Regular | ContainerKind::Ephemeral => {
            started && passed(&container.readiness_probe, &input.probes.readiness)
        }
    };
}

fn image_id(input: &Input<'_>, owned: &Owned) -> String {
    match input.digests.get(&owned.image_id) {
        _ if owned.image_id.is_empty() => String::new(),
        Some(digest) => format!("docker-pullable://{digest}"),
        None => format!("docker://{}", owned.image_id),
    }
}

fn waiting(reason: Option<String>, message: Option<String>) -> ContainerState {
    ContainerState { waiting: Some(ContainerStateWaiting { message, reason }), ..ContainerState::default() }
}

fn terminated(end: ContainerStateTerminated) -> ContainerState {
    ContainerState { terminated: Some(end), ..ContainerState::default() }
}

/// Whether this end was not observed.
pub(super) fn is_unseen(end: &ContainerStateTerminated) -> bool {
    end.reason.as_deref() == Some(UNKNOWN)
}

fn vanished(message: &str) -> ContainerState {
    terminated(ContainerStateTerminated {
        exit_code: i32::try_from(UNKNOWN_EXIT).unwrap_or(i32::MAX),
        reason: Some(UNKNOWN.to_owned()),
        message: Some(message.to_owned()),
        ..ContainerStateTerminated::default()
    })
}

/// The state of an ended container, with the reasons of cri-dockerd (`core/container_status.go`). A
/// container that never ran has its creation time as start and end.
fn exited(input: &Input<'_>, owned: &Owned, exit: &Exit) -> ContainerState {
    let reason = match exit {
        _ if exit.cannot_run => "ContainerCannotRun",
        _ if exit.oom_killed => "OOMKilled",
        _ if exit.code == 0 => "Completed",
        _ => "Error",
    };
    let (started, finished) =
        if exit.cannot_run { (owned.created, owned.created) } else { (exit.started, exit.finished) };
    let own = input.messages.get(&owned.id).map(String::as_str).unwrap_or_default();
    let most = termination::share(input.pod.containers().count());
    let limit = if exit.code < 0 { i32::MIN } else { i32::MAX };
    terminated(ContainerStateTerminated {
        container_id: Some(names::container_id(&owned.id)),
        exit_code: i32::try_from(exit.code).unwrap_or(limit),
        finished_at: finished.map(seconds),
        message: termination::joined(&exit.message, own, most),
        reason: Some(reason.to_owned()),
        // Docker does not report the signal, and exit code 137 alone does not prove it: a program may exit with it.
        signal: None,
        started_at: started.map(seconds),
    })
}
