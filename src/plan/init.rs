//! Init containers and sidecars (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`,
//! `computeInitContainerActions`).
//!
//! Only instances in the current sandbox count here: a new sandbox starts the pod over. With policy Never,
//! though, an init container that succeeded is done for good (kubernetes/kubernetes#141948).

use k8s_openapi::api::core::v1::Container;

use crate::plan::restart::{changed, init_failure, restarts};
use crate::plan::{Kill, KillReason, Observed, Owned, ProbeVerdict, Probes, RunState, StartRef};
use crate::pod::{ContainerKind, DesiredPod, RestartPolicy, init_kind};

/// The actions for the init containers.
#[derive(Debug)]
pub(super) enum InitPlan {
    /// A plain init container failed for good: the pod is done.
    Failed,
    /// The pod goes on.
    Go {
        /// Regular containers may start.
        initialized: bool,
        /// In spec order.
        start: Vec<StartRef>,
        /// In spec order.
        kill: Vec<Kill>,
    },
}

/// Goes through the init containers from last to first: the last one with a trace in this sandbox shows the
/// pod's progress, because traces of earlier ones may have been removed.
pub(super) fn plan(pod: &DesiredPod, observed: &Observed, probes: &Probes, sandbox: &str) -> InitPlan {
    let all = pod.init_containers();
    // A regular container that is created or running proves it; an exited one does not, as upstream.
    let started = pod.spec.containers.iter().any(|c| {
        trace(pod, observed, sandbox, ContainerKind::Regular, c).is_some_and(|i| !i.state.is_dead())
    });
    let initialized = started || all.is_empty();
    let mut walk = Walk { pod, probes, initialized, start: Vec::new(), kill: Vec::new() };
    let mut reached = initialized;
    for (index, container) in all.iter().enumerate().rev() {
        let kind = init_kind(container);
        match (kind, trace(pod, observed, sandbox, kind, container)) {
            (ContainerKind::Sidecar, None) if reached => walk.start(index),
            (_, None) => {}
            (ContainerKind::Sidecar, Some(found)) => {
                walk.sidecar(index, container, found, reached);
                reached = true;
            }
            (_, Some(_)) if reached => {}
            (_, Some(found)) => {
                if init_failure(&found.state).is_some_and(|code| !restarts(pod, container, code)) {
                    return InitPlan::Failed;
                }
                walk.plain(index, found);
                reached = true;
            }
        }
    }
    if !reached {
        walk.start(0);
    }
    walk.start.reverse();
    walk.kill.reverse();
    InitPlan::Go { initialized: walk.initialized, start: walk.start, kill: walk.kill }
}

/// The newest instance of a container in one sandbox, or the one that is done for good. An instance of
/// another kind (the manifest was edited) does not count.
fn trace<'a>(
    pod: &DesiredPod,
    observed: &'a Observed,
    sandbox: &str,
    wanted: ContainerKind,
    container: &Container,
) -> Option<&'a Owned> {
    let found = observed.instances(&pod.uid, &container.name);
    let once = wanted == ContainerKind::Init && pod.restart_policy() == RestartPolicy::Never;
    let done = |c: &Owned| once && !c.killed && c.state.is_dead() && init_failure(&c.state).is_none();
    let here = found.iter().find(|c| c.sandbox_id() == Some(sandbox));
    let newest = here.or_else(|| found.iter().find(|c| done(c)))?;
    newest.is_kind(wanted).then_some(newest)
}

/// State of the walk from last to first; both lists are filled backwards.
struct Walk<'a> {
    pod: &'a DesiredPod,
    probes: &'a Probes,
    initialized: bool,
    start: Vec<StartRef>,
    kill: Vec<Kill>,
}

impl Walk<'_> {
    fn start(&mut self, index: usize) {
        if let Some(container) = self.pod.init_containers().get(index) {
            self.start.push(StartRef { kind: init_kind(container), index });
        }
    }

    /// This container is done: the next one may start, or the regular ones.
    fn passed(&mut self, index: usize) {
        if index.saturating_add(1) >= self.pod.init_containers().len() {
            self.initialized = true;
        } else {
            self.start(index.saturating_add(1));
        }
    }

    /// The last plain init container with a trace, not failed for good.
    fn plain(&mut self, index: usize, found: &Owned) {
        match &found.state {
            RunState::Running { .. } => {}
            RunState::Created => self.start(index),
            dead if init_failure(dead).is_some() => self.start(index),
            RunState::Exited(_) | RunState::Removing => self.passed(index),
        }
    }

    fn sidecar(&mut self, index: usize, container: &Container, found: &Owned, reached: bool) {
        if !found.state.is_running() {
            self.start(index);
            return;
        }
        if container.startup_probe.is_some() {
            match self.probes.startup.get(&found.id) {
                Some(ProbeVerdict::Success) => {}
                Some(ProbeVerdict::Failure) => {
                    return self.restart(index, found, "failed startup probe", KillReason::StartupProbe);
                }
                None => return,
            }
        }
        // The last sidecar makes the pod initialized also when it restarts after the pod had been.
        if !reached || index.saturating_add(1) == self.pod.init_containers().len() {
            self.passed(index);
        }
        if changed(container, ContainerKind::Sidecar, found) {
            self.restart(index, found, "definition changed", KillReason::Changed);
        } else if container.liveness_probe.is_some()
            && self.probes.liveness.get(&found.id) == Some(&ProbeVerdict::Failure)
        {
            self.restart(index, found, "failed liveness probe", KillReason::LivenessProbe);
        }
    }

    fn restart(&mut self, index: usize, found: &Owned, what: &str, reason: KillReason) {
        let name = found.container_name().unwrap_or_default().to_owned();
        let message = format!("Init container {name} {what}");
        self.kill.push(Kill { id: found.id.clone(), name, message, reason });
        self.start(index);
    }
}
