//! Dead containers that are no longer needed (upstream `pkg/kubelet/kuberuntime/kuberuntime_gc.go`,
//! kubernetes/kubernetes#23881): a crash loop must not fill the disk, and the newest dead instance is kept
//! for its logs.

use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::table::{Set, Table};
use crate::base::{limits, order};
use crate::plan::observed::newer;
use crate::plan::restart::changed;
use crate::plan::sandbox::{SandboxChange, sandbox_change};
use crate::plan::{Exit, Observed, Owned, RunState};
use crate::pod::{ContainerKind, DesiredPod};

/// How many dead containers of a wanted pod are kept (upstream `pkg/kubelet/container/container_gc.go`, `GCPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadPolicy {
    /// Younger ones are kept; the age counts from when the daemon first saw them dead, while upstream counts from the
    /// creation, by wall-clock time.
    pub min_age: Duration,
    /// Most dead instances of one container, newest first; `None` for no bound. At least one is kept: logs, restart
    /// counts and terminal phases need it.
    pub per_container: Option<usize>,
    /// Most dead containers of all pods together; `None` for no bound. At least one of each container is kept.
    pub in_all: Option<usize>,
}

impl Default for DeadPolicy {
    fn default() -> DeadPolicy {
        DeadPolicy { min_age: Duration::ZERO, per_container: Some(1), in_all: None }
    }
}

impl DeadPolicy {
    /// When a dead instance is old enough to be removed.
    fn due(&self, exit: &Exit) -> Mono {
        exit.seen.unwrap_or_default().after(self.min_age)
    }
}

/// How many dead instances each container may keep so that all pods together keep at most `most`; `None`: there are no
/// more than that. `dead` has the number of each container. Upstream then removes the oldest of all, even the last one
/// of a container; here one of each is kept.
#[must_use]
pub fn allowance(dead: impl Iterator<Item = u32>, most: usize) -> Option<usize> {
    let (mut containers, mut total) = (0_usize, 0_usize);
    for count in dead.filter(|count| *count > 0) {
        containers = containers.saturating_add(1);
        total = total.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
    }
    (total > most).then(|| most.checked_div(containers).unwrap_or_default().max(1))
}

/// When the next dead container of the wanted pod is old enough to be removed.
#[must_use]
pub fn next_due(pod: &DesiredPod, observed: &Observed, policy: &DeadPolicy, now: Mono) -> Option<Mono> {
    if policy.min_age.is_zero() || policy.per_container.is_none() {
        return None;
    }
    let ended = observed.all.iter().filter(|c| c.uid == pod.uid).filter_map(|c| match &c.state {
        RunState::Exited(exit) => Some(policy.due(exit)),
        _ => None,
    });
    ended.filter(|due| *due > now).min()
}

/// Ids to remove, oldest attempt first and sandboxes last. Running containers are never among them.
///
/// Kept of the wanted UID: for each container name of the spec, the newest instances that ended, as many as the policy
/// allows and at least one, and the young ones; the newest instance if it is created and not yet started, unless its
/// start may be in flight; the newest sandbox, with its ephemeral containers, and [`limits::ADDED_DEAD`] of those that
/// ended with earlier ones. Plain init containers of earlier sandboxes are removed once a new sandbox serves. Other
/// UIDs, names that are not in the spec, and a pod that is not wanted (`None`) keep nothing. A sandbox stays while a
/// container runs in it.
#[must_use]
pub fn surplus(pod: Option<&DesiredPod>, observed: &Observed, policy: &DeadPolicy, now: Mono) -> Vec<String> {
    let keep = pod.map(|pod| kept(pod, observed, policy, now)).unwrap_or_default();
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

/// The containers of the wanted UID to keep, besides the running ones.
fn kept<'a>(pod: &DesiredPod, observed: &'a Observed, policy: &DeadPolicy, now: Mono) -> Set<&'a str> {
    let mut keep =
        order::set(observed.sandboxes(&pod.uid).first().filter(|s| !s.start_sent).map(|s| s.id.as_str()));
    let current = match sandbox_change(pod, observed) {
        SandboxChange::Keep(sandbox) => Some(sandbox.id.as_str()),
        SandboxChange::New { .. } => None,
    };
    let mut by_name: Table<&str, Vec<&Owned>> = Table::new();
    for owned in observed.all.iter().filter(|c| c.uid == pod.uid) {
        if let Some(name) = owned.container_name() {
            by_name.get_or_default(name).push(owned);
        }
    }
    let added = observed.all.iter().filter(|c| c.is_kind(ContainerKind::Ephemeral) && c.uid == pod.uid);
    let (here, earlier): (Vec<&Owned>, Vec<&Owned>) =
        added.partition(|c| current.is_some() && c.sandbox_id() == current);
    keep.extend(here.iter().map(|c| c.id.as_str()));
    // None of them runs again, so these instances are the only record of them.
    let ended = earlier.iter().filter(|c| matches!(c.state, RunState::Exited(_))).map(|c| c.id.as_str());
    keep.extend(order::set(ended).into_iter().take(limits::ADDED_DEAD));
    let is_here = |c: &&Owned| c.uid == pod.uid && current.is_some() && c.sandbox_id() == current;
    let mut here = observed.all.iter().filter(is_here);
    let regular_runs = here.any(|c| c.is_kind(ContainerKind::Regular) && c.state.is_running());
    for (name, mut instances) in by_name {
        let Some((kind, container)) = pod.container(name) else { continue };
        order::sort_by(&mut instances, |a, b| newer(a, b));
        let is_stale = |c: &Owned| current.is_some() && c.sandbox_id() != current;
        let made = instances.first().filter(|c| c.state == RunState::Created && !is_lost(observed, c));
        let startable = made.filter(|c| !changed(container, kind, c) && !is_stale(c));
        // None is started in a sandbox in which a regular container runs: Docker made it late.
        let startable = startable.filter(|_| kind != ContainerKind::Init || !regular_runs);
        // A plain init container runs again in each new sandbox: only instances in the current one matter.
        let tells = |c: &Owned| kind != ContainerKind::Init || !is_stale(c);
        // Docker is removing it already; until it is gone, the plan uses its state.
        let ran = instances.iter().find(|c| c.state != RunState::Created && tells(c));
        let leaving = ran.filter(|c| c.state == RunState::Removing);
        keep.extend(startable.into_iter().chain(leaving).map(|c| c.id.as_str()));
        let most = policy.per_container.map_or(usize::MAX, |most| most.max(1));
        let ended = instances.iter().filter(|c| tells(c)).filter_map(|c| match &c.state {
            RunState::Exited(exit) => Some((c.id.as_str(), policy.due(exit) > now)),
            _ => None,
        });
        let spared = ended.enumerate().filter(|(at, (_, is_young))| *at < most || *is_young);
        keep.extend(spared.map(|(_, (id, _))| id));
    }
    keep
}

/// Whether the container, or the sandbox it joined, may have a start in flight and so is never started.
fn is_lost(observed: &Observed, made: &Owned) -> bool {
    made.start_sent || made.sandbox_id().and_then(|id| observed.get(id)).is_some_and(|s| s.start_sent)
}
