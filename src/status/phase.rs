//! The pod's phase from its container statuses (upstream `pkg/kubelet/kubelet_pods.go`, `getPhase`).

use k8s_openapi::api::core::v1::{Container, ContainerStatus};

use crate::plan::restart::{could_restart_all, restarts};
use crate::pod::{ContainerKind, DesiredPod, Source};

/// State of one container for the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// No status, or one without a state.
    Unknown,
    Running {
        started: bool,
    },
    /// Waiting, and never ended before.
    Waiting,
    /// Terminated, or waiting after an end, if `waits`.
    Stopped {
        code: i64,
        waits: bool,
    },
}

fn seen(statuses: &[ContainerStatus], name: &str) -> Seen {
    let Some(status) = statuses.iter().find(|s| s.name == name) else { return Seen::Unknown };
    let Some(state) = &status.state else { return Seen::Unknown };
    if state.running.is_some() {
        return Seen::Running { started: status.started == Some(true) };
    }
    if let Some(end) = &state.terminated {
        return Seen::Stopped { code: i64::from(end.exit_code), waits: false };
    }
    match (&state.waiting, status.last_state.as_ref().and_then(|last| last.terminated.as_ref())) {
        (None, _) => Seen::Unknown,
        (Some(_), Some(end)) => Seen::Stopped { code: i64::from(end.exit_code), waits: true },
        (Some(_), None) => Seen::Waiting,
    }
}

#[derive(Debug, Default)]
struct Counts {
    pending_init: bool,
    failed_init: bool,
    pending_sidecar: bool,
    unknown: usize,
    running: usize,
    waiting: usize,
    stopped: usize,
    succeeded: usize,
    stopped_final: usize,
}

impl Counts {
    fn init(&mut self, pod: &DesiredPod, container: &Container, seen: Seen) {
        match seen {
            Seen::Unknown | Seen::Running { .. } | Seen::Waiting => self.pending_init = true,
            Seen::Stopped { code, waits } => {
                self.failed_init |= code != 0 && !restarts(pod, container, code) && !begins_anew(pod, waits);
            }
        }
    }

    fn sidecar(&mut self, seen: Seen) {
        match seen {
            Seen::Unknown => self.unknown = self.unknown.saturating_add(1),
            Seen::Running { started } => {
                self.running = self.running.saturating_add(1);
                self.pending_sidecar |= !started;
            }
            Seen::Stopped { .. } => {}
            Seen::Waiting => {
                self.pending_sidecar = true;
                self.waiting = self.waiting.saturating_add(1);
            }
        }
    }

    fn regular(&mut self, pod: &DesiredPod, container: &Container, seen: Seen) {
        match seen {
            Seen::Unknown => self.unknown = self.unknown.saturating_add(1),
            Seen::Running { .. } => self.running = self.running.saturating_add(1),
            Seen::Waiting => self.waiting = self.waiting.saturating_add(1),
            Seen::Stopped { code, waits } => {
                self.stopped = self.stopped.saturating_add(1);
                // A container that waits to run again has not succeeded, regardless of its last exit
                // code.
                self.succeeded = self.succeeded.saturating_add(usize::from(code == 0 && !waits));
                let is_final = !restarts(pod, container, code) && !begins_anew(pod, waits);
                self.stopped_final = self.stopped_final.saturating_add(usize::from(is_final));
            }
        }
    }
}

/// Whether a container of a pod that restarts all containers waits for its turn, regardless of its
/// policy.
fn begins_anew(pod: &DesiredPod, waits: bool) -> bool {
    waits && could_restart_all(pod)
}

/// The phase, without the previous one. `terminal`: the pod is being finalised. `regular_in_sandbox`:
/// a regular container exists in the current sandbox.
pub(super) fn phase(
    pod: &DesiredPod,
    init: &[ContainerStatus],
    regular: &[ContainerStatus],
    terminal: bool,
    regular_in_sandbox: bool,
    about_to_start: bool,
) -> &'static str {
    let mut counts = Counts::default();
    for (kind, container) in pod.containers() {
        match kind {
            ContainerKind::Init => counts.init(pod, container, seen(init, &container.name)),
            ContainerKind::Sidecar => counts.sidecar(seen(init, &container.name)),
            ContainerKind::Regular | ContainerKind::Ephemeral => {
                counts.regular(pod, container, seen(regular, &container.name))
            }
        }
    }
    if counts.failed_init {
        return "Failed";
    }
    let pending_sidecar = counts.pending_sidecar && !regular_in_sandbox;
    if counts.pending_init || pending_sidecar || counts.waiting > 0 || counts.unknown > 0 {
        return "Pending";
    }
    if counts.running > 0 {
        return "Running";
    }
    if counts.stopped == 0 {
        return "Pending";
    }
    let all_succeeded = counts.stopped == counts.succeeded;
    // A static pod ends with its manifest, so its teardown gives it no terminal phase.
    let all_final = counts.stopped == counts.stopped_final && !about_to_start;
    let is_final = (terminal && pod.source == Source::Api) || all_final;
    match (is_final, all_succeeded) {
        (false, _) => "Running",
        (true, true) => "Succeeded",
        (true, false) => "Failed",
    }
}
