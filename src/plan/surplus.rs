//! Dead containers that are no longer needed (upstream `pkg/kubelet/kuberuntime/kuberuntime_gc.go`,
//! kubernetes/kubernetes#23881): a crash loop must not fill the disk, and the newest dead instance is kept
//! for its logs.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::order;
use crate::plan::restart::changed;
use crate::plan::sandbox::{SandboxChange, sandbox_change};
use crate::plan::{Observed, Owned, RunState};
use crate::pod::{ContainerKind, DesiredPod};

/// Ids to remove, oldest attempt first and sandboxes last. Running containers are never among them.
///
/// Kept of the wanted UID: per container name of the spec the newest instance that ended, and the newest
/// instance when it is created and not yet started, unless its start may be in flight; the newest sandbox,
/// with its ephemeral containers. Plain init containers of earlier sandboxes are removed once a new sandbox
/// serves. Other UIDs, names that are not in the spec, and a pod that is not wanted (`None`) keep nothing. A
/// sandbox stays while a container runs in it.
#[must_use]
pub fn surplus(pod: Option<&DesiredPod>, observed: &Observed) -> Vec<String> {
    let keep = pod.map(|pod| kept(pod, observed)).unwrap_or_default();
    let joined =
        order::set(observed.all.iter().filter(|c| c.state.is_running()).filter_map(Owned::sandbox_id));
    let mut gone: Vec<&Owned> = observed
        .all
        .iter()
        .filter(|c| !c.state.is_running() && !keep.contains(c.id.as_str()))
        .filter(|c| !(c.is_sandbox() && joined.contains(c.id.as_str())))
        .collect();
    order::sort_by(&mut gone, |a, b| {
        (a.is_sandbox(), a.attempt, &a.id).cmp(&(b.is_sandbox(), b.attempt, &b.id))
    });
    gone.into_iter().map(|c| c.id.clone()).collect()
}

/// The containers of the wanted UID to keep besides the running ones.
fn kept<'a>(pod: &DesiredPod, observed: &'a Observed) -> BTreeSet<&'a str> {
    let mut keep =
        order::set(observed.sandboxes(&pod.uid).first().filter(|s| !s.start_sent).map(|s| s.id.as_str()));
    let current = match sandbox_change(pod, observed) {
        SandboxChange::Keep(sandbox) => Some(sandbox.id.as_str()),
        SandboxChange::New { .. } => None,
    };
    let mut by_name: BTreeMap<&str, Vec<&Owned>> = BTreeMap::new();
    for owned in observed.all.iter().filter(|c| c.uid == pod.uid) {
        if let Some(name) = owned.container_name() {
            by_name.entry(name).or_default().push(owned);
        }
    }
    let ephemeral = observed.all.iter().filter(|c| c.is_kind(ContainerKind::Ephemeral) && c.uid == pod.uid);
    let here = |c: &&Owned| current.is_some() && c.sandbox_id() == current;
    keep.extend(ephemeral.filter(here).map(|c| c.id.as_str()));
    for (name, mut instances) in by_name {
        let Some((kind, container)) = pod.container(name) else { continue };
        order::sort_by(&mut instances, |a, b| b.attempt.cmp(&a.attempt).then_with(|| a.id.cmp(&b.id)));
        let is_stale = |c: &Owned| current.is_some() && c.sandbox_id() != current;
        let made = instances.first().filter(|c| c.state == RunState::Created && !is_lost(observed, c));
        let startable = made.filter(|c| !changed(container, kind, c) && !is_stale(c));
        // A plain init container runs again in each new sandbox: only instances in the current one matter.
        let tells = |c: &Owned| kind != ContainerKind::Init || !is_stale(c);
        // Docker is removing it already; until it is gone the plan judges by it.
        let ran = instances.iter().find(|c| c.state != RunState::Created && tells(c));
        let leaving = ran.filter(|c| c.state == RunState::Removing);
        keep.extend(startable.into_iter().chain(leaving).map(|c| c.id.as_str()));
        let ended = instances.iter().find(|c| matches!(c.state, RunState::Exited(_)) && tells(c));
        keep.extend(ended.map(|c| c.id.as_str()));
    }
    keep
}

/// True when the container, or the sandbox it joined, may have a start in flight and so is never started.
fn is_lost(observed: &Observed, made: &Owned) -> bool {
    made.start_sent || made.sandbox_id().and_then(|id| observed.get(id)).is_some_and(|s| s.start_sent)
}
