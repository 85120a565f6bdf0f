//! The status that the server should have, from its own and this node's (upstream `mergePodStatus`,
//! `updateStatusInternal`). Pure.

use crate::base::json::json;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateWaiting, ContainerStatus, Pod, PodCondition, PodStatus,
};
use serde_json::Value;

use super::finish;
use crate::base::clock::Timestamp;
use crate::base::order;
use crate::cluster::patch;
use crate::plan::restart::{could_restart_all, restarts};
use crate::pod::{ContainerKind, DISPLACED, DesiredPod, RestartPolicy, Source, is_final};
use crate::status;
use crate::status::conditions::{DISRUPTION, OWNED};

/// Reason of a pod of which some containers are not ready.
const UNREADY: &str = "ContainersNotReady";
/// Reason of a pod of which all containers have succeeded.
const COMPLETED: &str = "PodCompleted";
/// Reason of containers of a pod that is stopped for a while.
const STOPPED: &str = "PodStopped";

/// A pod on this node.
#[derive(Debug, Clone, Copy)]
pub struct Here<'a> {
    /// The pod.
    pub pod: &'a DesiredPod,
    /// Its status, with the node's addresses.
    pub status: &'a PodStatus,
    /// The pod is being stopped.
    pub is_leaving: bool,
    /// See [`crate::status::snapshot::PodView::is_over`].
    pub is_over: bool,
    /// Anything of it runs, its sandbox included.
    pub runs: bool,
    /// It is stopped for a while.
    pub returns: bool,
    /// The generation of the server's pod, if that has its deletion.
    pub deletion: Option<i64>,
    /// Wall time, for conditions that change here.
    pub now: Timestamp,
}

/// Whether a phase is final.
#[must_use]
pub fn is_terminal(status: &PodStatus) -> bool {
    is_final(status.phase.as_deref())
}

/// The body of the patch that gives the server's pod of this UID its status; `None` when the server has it.
pub fn patch(theirs: &PodStatus, here: &Here<'_>, uid: &str) -> Option<Value> {
    let wanted = wanted(theirs, here);
    let json = |status: &PodStatus| serde_json::to_value(status).unwrap_or_default();
    let changes = patch::diff(&json(theirs), &json(&wanted))?;
    // The UID is a precondition: a recreated pod must not get the old one's status.
    Some(json!({ "metadata": { "uid": uid }, "status": changes }))
}

/// See [`patch`].
pub fn wanted(theirs: &PodStatus, here: &Here<'_>) -> PodStatus {
    let own = here.status;
    let none = own.init_container_statuses.is_none() && own.container_statuses.is_none();
    let mut all = theirs.clone();
    let or = |ours: &Option<String>, theirs: &Option<String>| ours.clone().or_else(|| theirs.clone());
    let over = here.is_over;
    all.container_statuses = containers(&theirs.container_statuses, &own.container_statuses, over);
    all.init_container_statuses =
        containers(&theirs.init_container_statuses, &own.init_container_statuses, over);
    all.ephemeral_container_statuses =
        containers(&theirs.ephemeral_container_statuses, &own.ephemeral_container_statuses, over);
    // The final status of a pod that is over is made below.
    if !none && !over {
        keep_ends(here.pod, theirs, &mut all);
    }
    all.pod_ip = or(&own.pod_ip, &theirs.pod_ip);
    all.pod_ips = own.pod_ips.clone().or_else(|| theirs.pod_ips.clone());
    all.host_ip = or(&own.host_ip, &theirs.host_ip);
    all.host_ips = own.host_ips.clone().or_else(|| theirs.host_ips.clone());
    all.qos_class = or(&theirs.qos_class, &own.qos_class);
    all.start_time = theirs.start_time.clone().or_else(|| own.start_time.clone());
    all.observed_generation = theirs.observed_generation.max(own.observed_generation);
    (all.phase, all.reason, all.message) = (own.phase.clone(), own.reason.clone(), own.message.clone());
    if here.is_over && here.pod.source == Source::Api {
        finish::finish(here.pod, theirs, &mut all);
        // The kubelet tells it when the deletion begins; that would be one more request for each pod.
        all.observed_generation = all.observed_generation.max(here.deletion);
    }
    // Its containers run again: the API server takes no status of that once it was told that they have ended for good.
    if here.returns {
        hide_ends(here.pod, theirs, &mut all);
    }
    let mut is_down = false;
    // It ran before it was refused or stopped, and nothing runs now: its ends are not known.
    if none && !here.runs && !here.is_leaving {
        let is_final = is_terminal(own);
        is_down = any_runs(&all);
        let lists = [&mut all.init_container_statuses, &mut all.container_statuses];
        let ephemeral = all.ephemeral_container_statuses.iter_mut().flatten();
        let began = |c: &&mut ContainerStatus| if is_final { has_begun(c) } else { is_running(c) };
        let main = lists.into_iter().flatten().flatten().filter(began);
        main.for_each(if is_final { ends } else { show_as_stopped });
        // None of these runs again.
        ephemeral.filter(began).for_each(ends);
    }
    // A final phase never changes, and no final phase is reported while a container could run, or the sandbox runs: the
    // control plane would give its ports away.
    let could_run = !here.is_over && (here.is_leaving || here.runs) || any_runs(&all);
    // A mirror tells of a static pod, whatever others have written there: that may also return after an eviction. One that
    // is not started yet may have ended for good: a drained node judges no pod.
    let is_mirror = here.pod.source != Source::Api;
    let is_held = own.phase.as_deref() == Some("Pending") && own.conditions.is_none();
    let has_ended = is_terminal(theirs) && (!is_mirror || is_held);
    if has_ended || (is_terminal(&all) && could_run) {
        all.phase.clone_from(&theirs.phase);
        all.reason.clone_from(&theirs.reason);
        all.message.clone_from(&theirs.message);
    }
    let may_disrupt = is_terminal(&all) && !could_run;
    all.conditions = conditions(theirs, own, may_disrupt, is_mirror);
    if is_terminal(&all) || is_down {
        not_ready(&mut all, theirs, here.now);
    }
    let is_evicted = may_disrupt && !has_owned(own);
    if is_terminal(&all) && (here.is_over || is_evicted) {
        ended(&mut all, theirs, here);
    }
    all
}

/// The body of the patch for the server's pod whose name a static pod of this node has, so that it does not run
/// here; `None` when the server has it. It ends when it is deleted, or if it has begun and is one that runs to an end, as
/// those of jobs; otherwise it may run again when the static pod has gone. The kubelet runs both.
pub fn displaced(theirs: &PodStatus, by: &DesiredPod, pod: &Pod, now: Timestamp) -> Option<Value> {
    if is_terminal(theirs) {
        return None;
    }
    let metadata = &pod.metadata;
    let restarts = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    let runs_to_an_end = RestartPolicy::parse(restarts) != RestartPolicy::Always;
    let is_final = runs_to_an_end && all_of(theirs).any(has_begun);
    let mut all = theirs.clone();
    let lists = [&mut all.init_container_statuses, &mut all.container_statuses];
    let main = lists.into_iter().flatten().flatten();
    let ephemeral = all.ephemeral_container_statuses.iter_mut().flatten();
    if metadata.deletion_timestamp.is_some() || is_final {
        main.chain(ephemeral).filter(|c| has_begun(c)).for_each(ends);
        all.phase = Some("Failed".to_owned());
    } else {
        // One that has ended could not run again by the server, if its own policy does not restart it.
        main.filter(|c| is_running(c)).for_each(show_as_stopped);
        ephemeral.filter(|c| is_running(c)).for_each(ends);
    }
    all.reason = Some(DISPLACED.to_owned());
    all.message = Some(format!("A static pod of the node has its name: {}", by.origin.path));
    not_ready(&mut all, theirs, now);
    let json = |status: &PodStatus| serde_json::to_value(status).unwrap_or_default();
    let changes = patch::diff(&json(theirs), &json(&all))?;
    // All of it is made from the server's status, of which a later one may be on its way.
    let of = json!({ "uid": metadata.uid, "resourceVersion": metadata.resource_version });
    Some(json!({ "metadata": of, "status": changes }))
}

/// Shows containers that have ended for good as the server was told before, also where they run again, as after a drain:
/// the API server takes no such status (`ValidateContainerStateTransition`), and a kubelet tells nothing of the pod.
fn keep_ends(pod: &DesiredPod, theirs: &PodStatus, all: &mut PodStatus) {
    let lists = [&mut all.init_container_statuses, &mut all.container_statuses];
    for c in lists.into_iter().flatten().flatten().filter(|c| !has_ended(c)) {
        ended_before(pod, theirs, &c.name).into_iter().for_each(|before| c.clone_from(before));
    }
}

/// Whether a main container runs that the server was told to have ended for good: of that it takes no status.
#[must_use]
pub fn runs_again(pod: &DesiredPod, theirs: &PodStatus, own: &PodStatus) -> bool {
    let mut running = own.container_statuses.iter().flatten().filter(|c| is_running(c));
    running.any(|c| ended_before(pod, theirs, &c.name).is_some())
}

/// The status of the container of this name, if the server was told that it has ended for good.
fn ended_before<'a>(pod: &DesiredPod, theirs: &'a PodStatus, name: &str) -> Option<&'a ContainerStatus> {
    all_of(theirs).find(|before| before.name == name).filter(|before| stays_ended(pod, before))
}

/// Shows containers that have ended since the server's status, and are not always restarted, as stopped.
fn hide_ends(pod: &DesiredPod, theirs: &PodStatus, all: &mut PodStatus) {
    let is_job = pod.restart_policy() != RestartPolicy::Always;
    let lists = [&mut all.init_container_statuses, &mut all.container_statuses];
    for c in lists.into_iter().flatten().flatten().filter(|c| has_ended(c)) {
        let is_new = !all_of(theirs).any(|before| before.name == c.name && has_ended(before));
        if is_new && (is_job || stays_ended(pod, c)) {
            c.last_state = c.state.take();
            show_as_stopped(c);
        }
    }
}

/// Whether a container in a status has ended for good.
fn stays_ended(pod: &DesiredPod, c: &ContainerStatus) -> bool {
    let end = c.state.as_ref().and_then(|state| state.terminated.as_ref());
    let (Some(end), Some((kind, container))) = (end, pod.container(&c.name)) else { return false };
    kind != ContainerKind::Sidecar
        && !could_restart_all(pod)
        && !restarts(pod, container, end.exit_code.into())
}

fn has_begun(c: &ContainerStatus) -> bool {
    finish::has_evidence(c) || c.container_id.is_some()
}

/// Ends a container, with the end that it had before it was told as stopped for a while.
fn ends(c: &mut ContainerStatus) {
    let waits = c.state.as_ref().and_then(|state| state.waiting.as_ref());
    let is_stopped = waits.is_some_and(|waits| waits.reason.as_deref() == Some(STOPPED));
    if is_stopped && c.last_state.as_ref().is_some_and(|last| last.terminated.is_some()) {
        c.state = c.last_state.take();
    }
    finish::end(c);
}

fn show_as_stopped(c: &mut ContainerStatus) {
    let waiting = ContainerStateWaiting {
        reason: Some(STOPPED.to_owned()),
        message: Some("The pod is stopped for a while, and runs again".to_owned()),
    };
    c.state = Some(ContainerState { waiting: Some(waiting), ..ContainerState::default() });
    (c.ready, c.started) = (false, Some(false));
}

fn all_of(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.chain(status.ephemeral_container_statuses.iter().flatten())
}

fn any_runs(status: &PodStatus) -> bool {
    all_of(status).any(is_running)
}

fn has_ended(c: &ContainerStatus) -> bool {
    c.state.as_ref().is_some_and(|state| state.terminated.is_some())
}

fn is_running(c: &ContainerStatus) -> bool {
    c.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// Our container statuses, if there are any; the restart count never decreases, and for a pod that is over, an end
/// that this daemon has not seen is kept.
fn containers(
    theirs: &Option<Vec<ContainerStatus>>,
    ours: &Option<Vec<ContainerStatus>>,
    is_over: bool,
) -> Option<Vec<ContainerStatus>> {
    let Some(ours) = ours else { return theirs.clone() };
    let told = |name: &str| theirs.iter().flatten().find(|status| status.name == name);
    let merged = ours.iter().map(|own| {
        let mut own = own.clone();
        if let Some(before) = told(&own.name) {
            if is_over && has_ended(before) && !has_ended(&own) {
                return before.clone();
            }
            own.restart_count = own.restart_count.max(before.restart_count);
        }
        own
    });
    Some(merged.collect())
}

/// Conditions of other components from the server, then ours. An unchanged condition keeps its time. A static pod that runs
/// again is disrupted no more, and its node alone disrupts it. An evicted pod has the others as it had them before.
fn conditions(
    theirs: &PodStatus,
    own: &PodStatus,
    may_disrupt: bool,
    is_mirror: bool,
) -> Option<Vec<PodCondition>> {
    let before = theirs.conditions.as_deref().unwrap_or_default();
    let Some(ours) = &own.conditions else { return theirs.conditions.clone() };
    let own_types = order::set(ours.iter().map(|c| c.type_.as_str()));
    let has_owned = has_owned(own);
    let is_owned = |kind: &str| {
        let is_ours = if own_types.contains(DISRUPTION) { may_disrupt } else { is_mirror };
        has_owned && OWNED.contains(&kind) || kind == DISRUPTION && is_ours
    };
    let foreign = before.iter().filter(|c| !is_owned(&c.type_)).cloned();
    let owned = ours.iter().filter(|c| is_owned(&c.type_)).map(|c| {
        let mut c = c.clone();
        let same = before.iter().find(|old| old.type_ == c.type_ && old.status == c.status);
        if let Some(old) = same {
            c.last_transition_time = old.last_transition_time.clone().or(c.last_transition_time);
            c.observed_generation = c.observed_generation.max(old.observed_generation);
        }
        c
    });
    Some(foreign.chain(owned).collect())
}

/// Whether this node tells conditions of the pod; of an evicted one it tells only that.
fn has_owned(own: &PodStatus) -> bool {
    own.conditions.iter().flatten().any(|c| OWNED.contains(&c.type_.as_str()))
}

/// Gives the conditions of a deleted or evicted pod of which nothing runs the kubelet's last words.
fn ended(all: &mut PodStatus, theirs: &PodStatus, here: &Here<'_>) {
    let reason = not_ready_reason(all);
    let owned = all.conditions.iter_mut().flatten().filter(|c| OWNED.contains(&c.type_.as_str()));
    for c in owned {
        c.observed_generation = c.observed_generation.max(here.deletion);
        match c.type_.as_str() {
            "Ready" | "ContainersReady" if matches!(c.reason.as_deref(), Some(UNREADY | COMPLETED)) => {
                (c.reason, c.message) = (Some(reason.to_owned()), None);
            }
            "PodReadyToStartContainers" if c.status == "True" => is_false(c, theirs, here.now),
            _ => {}
        }
    }
}

/// Makes a condition false, since the server knows it so, or since now: another time at each look would be told each time.
fn is_false(c: &mut PodCondition, theirs: &PodStatus, now: Timestamp) {
    c.status = "False".to_owned();
    let mut before = theirs.conditions.iter().flatten();
    let known = before.find(|old| old.type_ == c.type_ && old.status == c.status);
    let since = known.and_then(|old| old.last_transition_time.clone());
    c.last_transition_time = Some(since.unwrap_or_else(|| status::seconds(now)));
}

/// Why a pod of this phase is not ready.
fn not_ready_reason(all: &PodStatus) -> &'static str {
    match all.phase.as_deref() {
        Some("Succeeded") => COMPLETED,
        Some("Failed") => "PodFailed",
        _ => UNREADY,
    }
}

/// Makes a pod that has ended, or is stopped, not ready, regardless of its last probe.
fn not_ready(all: &mut PodStatus, theirs: &PodStatus, now: Timestamp) {
    let reason = not_ready_reason(all);
    for c in all.conditions.iter_mut().flatten() {
        if matches!(c.type_.as_str(), "Ready" | "ContainersReady") && c.status == "True" {
            is_false(c, theirs, now);
            c.reason = Some(reason.to_owned());
            c.message = None;
        }
    }
}
