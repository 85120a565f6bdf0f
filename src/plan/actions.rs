//! The changes for one pod, before any order of calls (upstream
//! `pkg/kubelet/kuberuntime/kuberuntime_manager.go`, `computePodActions`).
//!
//! Never here: delays (the caller that carries the actions out checks the back-off), order by wall-clock time.

use k8s_openapi::api::core::v1::Container;

use crate::base::order;
use crate::base::table::Table;
use crate::plan::all::{StartOver, start_over};
use crate::plan::init::{self, InitPlan};
use crate::plan::restart::{changed, effective_policy, init_failure, judged_by, restarts, should_start};
use crate::plan::sandbox::{SandboxChange, sandbox_change};
use crate::plan::{Observed, Owned, RunState};
use crate::pod::{ContainerKind, DesiredPod, RestartPolicy, init_kind};

/// The last result of a container's probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// The probe passed.
    Success,
    /// The probe failed `failureThreshold` times in a row.
    Failure,
}

/// Probe results by container id. A container without an entry has not been probed yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Probes {
    /// Results of liveness probes.
    pub liveness: Table<String, ProbeVerdict>,
    /// Results of startup probes.
    pub startup: Table<String, ProbeVerdict>,
    /// Results of readiness probes.
    pub readiness: Table<String, ProbeVerdict>,
}

#[cfg(test)]
impl Probes {
    /// Results with which every startup and readiness probe of a running container has passed.
    #[must_use]
    pub fn all_passed(pod: &DesiredPod, observed: &Observed) -> Probes {
        let mut probes = Probes::default();
        let running = observed.all.iter().filter(|c| c.uid == pod.uid && c.state.is_running());
        for owned in running {
            let Some((_, container)) = owned.container_name().and_then(|name| pod.container(name)) else {
                continue;
            };
            if container.startup_probe.is_some() {
                probes.startup.insert(owned.id.clone(), ProbeVerdict::Success);
            }
            if container.readiness_probe.is_some() {
                probes.readiness.insert(owned.id.clone(), ProbeVerdict::Success);
            }
        }
        probes
    }
}

/// Why one container is killed (upstream `kuberuntime_container.go` reasons).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// Its definition changed, or the spec has no such container any more.
    Changed,
    /// Its liveness probe failed.
    LivenessProbe,
    /// Its startup probe failed.
    StartupProbe,
    /// All containers of the pod are restarted.
    StartOver,
    /// It should not run: an older instance than the newest one, or one in another sandbox.
    Unknown,
}

/// One container to stop while the pod goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// Container id.
    pub id: String,
    /// Container name.
    pub name: String,
    /// Kubelet's words (`Container app definition changed, will be restarted`).
    pub message: String,
    pub reason: KillReason,
}

/// The sandbox's part of the actions: exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxAction {
    /// Keep this one (running, or created and about to be started).
    Keep {
        id: String,
        /// It runs already; until then no container can join it.
        running: bool,
    },
    /// Stop all containers, then create a new sandbox with this attempt.
    Replace {
        /// Attempt of the new one; 0 for the first.
        attempt: u32,
    },
    /// Stop all containers and create none: the pod is done.
    Finish,
}

/// A container to start, by its place in the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartRef {
    /// The list it is in.
    pub kind: ContainerKind,
    /// Index in that list.
    pub index: usize,
}

/// The changes for one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodActions {
    /// The sandbox's part.
    pub sandbox: SandboxAction,
    /// Containers to start, in order. With [`SandboxAction::Replace`]: once the new sandbox runs.
    pub start: Vec<StartRef>,
    /// Containers to kill while the sandbox stays, before their successors start. Empty unless
    /// [`SandboxAction::Keep`].
    pub kill: Vec<Kill>,
    /// Dead containers to remove, by id, because the pod starts over: no container starts before they are
    /// gone.
    pub remove: Vec<String>,
}

/// Computes the changes. `observed` may hold other UIDs of the same pod identity: they are ignored here. A
/// container counts for init purposes only when it joined the current sandbox. A sandbox in state created
/// counts as the current one (it is adopted and started, not replaced: invariant 5), unless its start may be under way
/// (invariant 12).
///
/// Upstream decides once for a whole pass; podkeeper decides again after each step, from its current
/// observation. The kubelet may run a container once more only because it still holds the verdict of the
/// previous pass (container-level policy `Never` in a sandbox that is replaced); podkeeper does not.
///
/// Ephemeral containers are not planned: they live as long as the sandbox that they joined. Neither is a resize in
/// place, which `machine::running::resize` handles.
#[must_use]
pub fn compute(pod: &DesiredPod, observed: &Observed, probes: &Probes) -> PodActions {
    match sandbox_change(pod, observed) {
        SandboxChange::New { attempt } => in_new_sandbox(pod, observed, attempt),
        SandboxChange::Keep(current) => in_sandbox(pod, observed, probes, current),
    }
}

/// The container of a [`StartRef`].
#[must_use]
pub fn container_of(pod: &DesiredPod, start: StartRef) -> Option<&Container> {
    match start.kind {
        ContainerKind::Regular => pod.spec.containers.get(start.index),
        ContainerKind::Init | ContainerKind::Sidecar => pod.init_containers().get(start.index),
        ContainerKind::Ephemeral => None,
    }
}

/// The instance that was created for a start and never started: it is started instead of creating another
/// one. `None` when one has to be created, even beside one whose start may be in flight.
#[must_use]
pub fn made_for<'a>(
    pod: &DesiredPod,
    observed: &'a Observed,
    sandbox: &str,
    start: StartRef,
) -> Option<&'a Owned> {
    let container = container_of(pod, start)?;
    let newest = observed.newest(&pod.uid, &container.name)?;
    let fits = newest.state == RunState::Created
        && newest.sandbox_id() == Some(sandbox)
        && !changed(container, start.kind, newest);
    fits.then_some(newest)
}

/// Upstream's `computePodActions` for the case that a new sandbox is needed, except that each container is
/// judged by itself (as in kubernetes/kubernetes#141948): with policy Never the kubelet makes no new sandbox
/// once any container ran, so that a pod whose image was still missing at a power cut, or one with a
/// container that always restarts, never continues.
fn in_new_sandbox(pod: &DesiredPod, observed: &Observed, attempt: u32) -> PodActions {
    let finish = PodActions {
        sandbox: SandboxAction::Finish,
        start: Vec::new(),
        kill: Vec::new(),
        remove: Vec::new(),
    };
    // The phase is Failed (upstream `getPhase`): a new sandbox would only run it once more.
    let init_failed = pod.init_containers().iter().any(|c| {
        let newest = judged_by(pod, observed, ContainerKind::Init, c).filter(|c| !c.killed);
        let failure = newest.and_then(|instance| init_failure(&instance.state));
        init_kind(c) == ContainerKind::Init && failure.is_some_and(|code| !restarts(pod, c, code))
    });
    if init_failed {
        return finish;
    }
    let mut start = Vec::new();
    for (index, container) in pod.spec.containers.iter().enumerate() {
        let newest = judged_by(pod, observed, ContainerKind::Regular, container);
        let running = newest.is_some_and(|instance| instance.state.is_running());
        let runs_again = running && runs_again(pod, container);
        if runs_again || should_start(pod, container, newest) {
            start.push(StartRef { kind: ContainerKind::Regular, index });
        }
    }
    // Every regular container has run and is done.
    if start.is_empty() {
        return finish;
    }
    // The new sandbox has no containers yet.
    let InitPlan::Go { initialized, start: mut first, .. } =
        init::plan(pod, observed, &Probes::default(), "")
    else {
        return finish;
    };
    if initialized {
        first.append(&mut start);
    }
    PodActions {
        sandbox: SandboxAction::Replace { attempt },
        start: first,
        kill: Vec::new(),
        remove: Vec::new(),
    }
}

/// Upstream's `computePodActions` for the case that the current sandbox is kept.
fn in_sandbox(pod: &DesiredPod, observed: &Observed, probes: &Probes, current: &Owned) -> PodActions {
    let keep = SandboxAction::Keep { id: current.id.clone(), running: current.state.is_running() };
    let deleted = pod.metadata.deletion_timestamp.is_some();
    if let Some(StartOver { kill, remove }) = start_over(pod, observed) {
        return PodActions { sandbox: keep, start: Vec::new(), kill, remove };
    }
    // Checked before the init containers: while a finished pod is stopped in steps, a sidecar that has ended
    // already must not be started again.
    if is_done(pod, observed) {
        return PodActions {
            sandbox: SandboxAction::Finish,
            start: Vec::new(),
            kill: Vec::new(),
            remove: Vec::new(),
        };
    }
    let InitPlan::Go { initialized, mut start, mut kill } = init::plan(pod, observed, probes, &current.id)
    else {
        return PodActions {
            sandbox: SandboxAction::Finish,
            start: Vec::new(),
            kill: Vec::new(),
            remove: Vec::new(),
        };
    };
    if deleted {
        start.clear();
    }
    if initialized {
        let mut kept = false;
        let mut regular = Vec::new();
        for (index, container) in pod.spec.containers.iter().enumerate() {
            let reference = StartRef { kind: ContainerKind::Regular, index };
            match regular_action(pod, observed, probes, current, container) {
                Regular::Keep => kept = true,
                Regular::Start => regular.push(reference),
                Regular::Nothing => {}
                Regular::Kill(victim, again) => {
                    kill.push(victim);
                    if again && !deleted {
                        regular.push(reference);
                    }
                }
            }
        }
        // Sidecars alone must not keep a pod alive.
        if !kept && regular.is_empty() {
            return PodActions {
                sandbox: SandboxAction::Finish,
                start: Vec::new(),
                kill: Vec::new(),
                remove: Vec::new(),
            };
        }
        start.append(&mut regular);
    }
    add_strays(pod, observed, current, &mut kill);
    PodActions { sandbox: keep, start, kill, remove: Vec::new() }
}

/// True when every regular container has ended and none of them runs again.
fn is_done(pod: &DesiredPod, observed: &Observed) -> bool {
    pod.spec.containers.iter().all(|container| {
        let newest = judged_by(pod, observed, ContainerKind::Regular, container);
        newest.is_some_and(|c| c.state.is_dead()) && !should_start(pod, container, newest)
    })
}

enum Regular {
    Keep,
    Start,
    Nothing,
    /// Kill it; with `true` it is started again.
    Kill(Kill, bool),
}

/// The action for one regular container in a sandbox that is kept (upstream `computePodActions`).
fn regular_action(
    pod: &DesiredPod,
    observed: &Observed,
    probes: &Probes,
    current: &Owned,
    container: &Container,
) -> Regular {
    let newest = judged_by(pod, observed, ContainerKind::Regular, container);
    let Some(running) = newest.filter(|instance| instance.state.is_running()) else {
        let starts = should_start(pod, container, newest);
        return if starts { Regular::Start } else { Regular::Nothing };
    };
    let failed =
        |results: &Table<String, ProbeVerdict>| results.get(&running.id) == Some(&ProbeVerdict::Failure);
    let name = &container.name;
    let (message, reason, again) = if running.sandbox_id() != Some(current.id.as_str()) {
        let message = format!("Container {name} is not in the pod's current sandbox");
        (message, KillReason::Unknown, runs_again(pod, container))
    } else if changed(container, ContainerKind::Regular, running) {
        // For any policy: it has not exited, it is replaced.
        (format!("Container {name} definition changed"), KillReason::Changed, true)
    } else if failed(&probes.liveness) {
        let message = format!("Container {name} failed liveness probe");
        (message, KillReason::LivenessProbe, runs_again(pod, container))
    } else if failed(&probes.startup) {
        let message = format!("Container {name} failed startup probe");
        (message, KillReason::StartupProbe, runs_again(pod, container))
    } else {
        return Regular::Keep;
    };
    let message = if again { format!("{message}, will be restarted") } else { message };
    Regular::Kill(Kill { id: running.id.clone(), name: name.clone(), message, reason }, again)
}

/// Whether a container runs again after podkeeper has killed it. Restart rules do not apply: it has not
/// exited by itself.
pub fn runs_again(pod: &DesiredPod, container: &Container) -> bool {
    effective_policy(pod, container) != RestartPolicy::Never
}

/// Kills other running containers of this UID: an instance older than the newest of its name, an init
/// container or sidecar in another sandbox or of another kind, a name that is not in the edited spec. The
/// kubelet never checks for these; here each would be a second live set (invariant 1).
fn add_strays(pod: &DesiredPod, observed: &Observed, current: &Owned, kill: &mut Vec<Kill>) {
    let known = order::set(kill.iter().map(|k| k.id.clone()));
    let mut strays: Vec<Kill> = Vec::new();
    for owned in observed.all.iter().filter(|c| c.uid == pod.uid && c.state.is_running()) {
        let Some(name) = owned.container_name().filter(|_| !known.contains(&owned.id)) else { continue };
        let joined = owned.sandbox_id() == Some(current.id.as_str());
        if joined && owned.is_kind(ContainerKind::Ephemeral) {
            continue;
        }
        let (what, reason) = match pod.container(name) {
            None => ("is not in the pod's spec", KillReason::Changed),
            Some((kind, _)) if has_newer(pod, observed, kind, owned) => {
                ("has a newer instance", KillReason::Unknown)
            }
            Some(_) if !joined => ("is not in the pod's current sandbox", KillReason::Unknown),
            Some((kind, _)) if !owned.is_kind(kind) => ("definition changed", KillReason::Changed),
            Some(_) => continue,
        };
        let message = format!("Container {name} {what}");
        strays.push(Kill { id: owned.id.clone(), name: name.to_owned(), message, reason });
    }
    order::sort_by(&mut strays, |a, b| a.id.cmp(&b.id));
    kill.append(&mut strays);
}

/// Init containers and sidecars start over in each sandbox, so their instances are compared within one
/// sandbox.
fn has_newer(pod: &DesiredPod, observed: &Observed, kind: ContainerKind, owned: &Owned) -> bool {
    let instances = observed.instances(&pod.uid, owned.container_name().unwrap_or_default());
    let newest = match kind {
        ContainerKind::Regular | ContainerKind::Ephemeral => instances.first(),
        ContainerKind::Init | ContainerKind::Sidecar => {
            instances.iter().find(|c| c.sandbox_id() == owned.sandbox_id())
        }
    };
    newest.is_some_and(|newest| newest.id != owned.id)
}
