//! Pod conditions (upstream `pkg/kubelet/status/generate.go`).

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};

use crate::plan::all::triggers;
use crate::plan::restart::could_restart_all;
use crate::plan::sandbox::{SandboxChange, sandbox_change};
use crate::pod::ContainerKind;
use crate::status::{Input, seconds};

/// Condition types that the agent owns; all others belong to other writers and are kept.
pub const OWNED: [&str; 8] = [
    "PodScheduled",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodResizeInProgress",
    "PodResizePending",
    "PodReadyToStartContainers",
    RESTARTING,
];
/// True while all containers of the pod are being removed to run again.
pub(super) const RESTARTING: &str = "AllContainersRestarting";
/// Owned, and copied from the previous status: set on eviction. Other components set it, too.
pub const DISRUPTION: &str = "DisruptionTarget";

/// Status, reason and message of one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    status: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Word {
    fn is(status: bool) -> Word {
        Word { status, reason: None, message: None }
    }
    fn because(status: bool, reason: &'static str) -> Word {
        Word { status, reason: Some(reason), message: None }
    }
    fn no(reason: &'static str, message: String) -> Word {
        Word { status: false, reason: Some(reason), message: Some(message) }
    }
}

/// All conditions, in the kubelet's order. `status` has the phase and container statuses already.
pub(super) fn conditions(input: &Input<'_>, old: &PodStatus, status: &PodStatus) -> Vec<PodCondition> {
    let before = old.conditions.as_deref().unwrap_or_default();
    let from_source = input.pod.status.conditions.as_deref().unwrap_or_default();
    let is_foreign = |c: &&PodCondition| !OWNED.contains(&c.type_.as_str()) && c.type_ != DISRUPTION;
    let mut all: Vec<PodCondition> = from_source.iter().filter(is_foreign).cloned().collect();
    all.extend(before.iter().filter(|c| c.type_ == DISRUPTION).cloned());

    let containers_ready = containers_ready(input, status);
    let ready = ready(input, &containers_ready, &all);
    let words = [
        ("PodReadyToStartContainers", Word::is(sandbox_is_ready(input))),
        ("Initialized", initialized(input, before, status)),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Word::is(true)),
    ];
    let resize = (!input.resize.containers.is_empty()).then(|| {
        let word = match &input.resize.error {
            Some(why) => Word { status: true, reason: Some("Error"), message: Some(why.clone()) },
            None => Word::is(true),
        };
        ("PodResizeInProgress", word)
    });
    for (kind, word) in words.into_iter().chain(resize).chain(restarting(input, status)) {
        let truth = if word.status { "True" } else { "False" };
        let same = before.iter().find(|c| c.type_ == kind && c.status == truth);
        let since = same.and_then(|c| c.last_transition_time.clone());
        all.push(PodCondition {
            last_probe_time: None,
            last_transition_time: Some(since.unwrap_or_else(|| seconds(input.now))),
            message: word.message,
            observed_generation: input.pod.metadata.generation,
            reason: word.reason.map(str::to_owned),
            status: truth.to_owned(),
            type_: kind.to_owned(),
        });
    }
    all
}

/// The condition exists only for pods that may restart all containers.
fn restarting(input: &Input<'_>, status: &PodStatus) -> Option<(&'static str, Word)> {
    let word = match status.phase.as_deref() {
        Some("Succeeded") => Word::because(false, "PodCompleted"),
        Some("Failed") => Word::because(false, "PodFailed"),
        _ if triggers(input.pod, input.observed).is_empty() => Word::is(false),
        _ => Word {
            status: true,
            reason: Some("RestartAllContainersStarted"),
            message: Some("container exited with restart policy rule".to_owned()),
        },
    };
    could_restart_all(input.pod).then_some((RESTARTING, word))
}

/// Whether a sandbox runs, and no new one is needed.
fn sandbox_is_ready(input: &Input<'_>) -> bool {
    match sandbox_change(input.pod, input.observed) {
        SandboxChange::Keep(sandbox) => sandbox.state.is_running(),
        SandboxChange::New { .. } => false,
    }
}

/// Names of containers without a status, and of those with an unsatisfying status.
#[derive(Debug, Default)]
struct Lacking<'a> {
    unknown: Vec<&'a str>,
    other: Vec<&'a str>,
}

impl<'a> Lacking<'a> {
    fn look(&mut self, name: &'a str, status: Option<&ContainerStatus>, good: fn(&ContainerStatus) -> bool) {
        match status {
            None => self.unknown.push(name),
            Some(status) if !good(status) => self.other.push(name),
            Some(_) => {}
        }
    }

    /// `containers with unknown status: [a b], containers with unready status: [c]`; `None` when both lists
    /// are empty.
    fn message(&self, word: &str) -> Option<String> {
        let part = |word: &str, names: &[&str]| {
            (!names.is_empty()).then(|| format!("containers with {word} status: [{}]", names.join(" ")))
        };
        let parts: Vec<String> =
            [part("unknown", &self.unknown), part(word, &self.other)].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

fn find<'a>(statuses: Option<&'a Vec<ContainerStatus>>, name: &str) -> Option<&'a ContainerStatus> {
    statuses.into_iter().flatten().find(|s| s.name == name)
}

fn is_ready(status: &ContainerStatus) -> bool {
    status.ready
}

fn is_started(status: &ContainerStatus) -> bool {
    status.started == Some(true)
}

fn containers_ready(input: &Input<'_>, status: &PodStatus) -> Word {
    if status.container_statuses.is_none() && status.init_container_statuses.is_none() {
        return Word::because(false, "UnknownContainerStatuses");
    }
    let mut lacking = Lacking::default();
    for (kind, container) in input.pod.containers() {
        let statuses = match kind {
            ContainerKind::Init => continue,
            ContainerKind::Sidecar => status.init_container_statuses.as_ref(),
            ContainerKind::Regular | ContainerKind::Ephemeral => status.container_statuses.as_ref(),
        };
        lacking.look(&container.name, find(statuses, &container.name), is_ready);
    }
    match status.phase.as_deref() {
        Some("Succeeded") if lacking.unknown.is_empty() => Word::because(false, "PodCompleted"),
        Some("Failed") => Word::because(false, "PodFailed"),
        _ => match lacking.message("unready") {
            Some(message) => Word::no("ContainersNotReady", message),
            None => Word::is(true),
        },
    }
}

/// `known`: the conditions that readiness gates may refer to.
fn ready(input: &Input<'_>, containers: &Word, known: &[PodCondition]) -> Word {
    if !containers.status {
        return containers.clone();
    }
    let gates = input.pod.spec.readiness_gates.as_deref().unwrap_or_default();
    let closed: Vec<String> = gates
        .iter()
        .filter_map(|gate| {
            let kind = &gate.condition_type;
            match known.iter().find(|c| c.type_ == *kind) {
                None => {
                    Some(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist."))
                }
                Some(c) if c.status != "True" => Some(format!(
                    "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                    c.status
                )),
                Some(_) => None,
            }
        })
        .collect();
    if closed.is_empty() { Word::is(true) } else { Word::no("ReadinessGatesNotReady", closed.join(", ")) }
}

fn initialized(input: &Input<'_>, before: &[PodCondition], status: &PodStatus) -> Word {
    let init = status.init_container_statuses.as_ref();
    if init.is_none() && status.container_statuses.is_none() && !input.pod.init_containers().is_empty() {
        return Word::because(false, "UnknownContainerStatuses");
    }
    let mut lacking = Lacking::default();
    for (kind, container) in input.pod.containers() {
        let good = match kind {
            ContainerKind::Init => is_ready,
            ContainerKind::Sidecar => is_started,
            ContainerKind::Regular | ContainerKind::Ephemeral => continue,
        };
        lacking.look(&container.name, find(init, &container.name), good);
    }
    if status.phase.as_deref() == Some("Succeeded") && lacking.unknown.is_empty() {
        return Word::because(true, "PodCompleted");
    }
    let regular_started = status
        .container_statuses
        .iter()
        .flatten()
        .filter_map(|s| s.state.as_ref())
        .any(|state| state.running.is_some() || state.terminated.is_some());
    // A sidecar that restarts does not make an initialized pod uninitialized.
    let was = before.iter().any(|c| c.type_ == "Initialized" && c.status == "True");
    match lacking.message("incomplete") {
        Some(message) if !regular_started && !was => Word::no("ContainersNotInitialized", message),
        _ => Word::is(true),
    }
}
