//! Running pods without a manifest: shown with the reason, so that an operator can look into them.
//! Everything known about them comes from Docker's list.
//!
//! Never here: stopping them; `orphans` does that.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::Turn;
use super::docker::first_seen;
use super::orphans::Verdict;
use crate::base::clock::{Now, Timestamp};
use crate::base::table::Set;
use crate::base::{limits, order};
use crate::manifest::static_pod::CONFIG_SOURCE;
use crate::plan::{Owned, Role, RunState};
use crate::pod::problem::Severity;
use crate::pod::{ContainerKind, DesiredPod, Origin, PodKey, Source};
use crate::runtime::names;
use crate::status::seconds;
use crate::status::snapshot::{PodView, UNMANAGED};

impl Turn {
    /// All found pods that no source wants.
    pub(super) fn unmanaged_views(&self, now: &Now) -> impl Iterator<Item = PodView> {
        let unclaimed = self.docker.found.iter().filter(|(key, _)| self.merge.get(key).is_none());
        // A worker knows more than the last list: nothing of it runs, and it shows the pod no more.
        let has_ended = |key: &PodKey| self.entries.get(key)?.worker.as_ref().map(|worker| worker.terminated);
        let unclaimed = unclaimed.filter(move |(key, _)| has_ended(key) != Some(true));
        unclaimed.filter_map(|(key, all)| self.unmanaged_view(key, all, now))
    }

    /// When the stop of a found pod that no source wants began, wall time; `None` while it is left alone. A worker
    /// gets no other order for such a pod.
    fn stops_since(&self, key: &PodKey) -> Option<Timestamp> {
        self.entries.get(key)?.worker.as_ref()?.stopping
    }

    fn unmanaged_view(&self, key: &PodKey, all: &[Owned], now: &Now) -> Option<PodView> {
        let newest = all.iter().max_by_key(|c| (c.state.is_running(), c.attempt))?;
        let leaving = self.stops_since(key);
        let message = match self.verdict(all) {
            _ if leaving.is_some() && self.draining.is_some() => {
                "the node is drained: it is stopped".to_owned()
            }
            _ if self.is_unfinished(key, &newest.uid) => format!(
                "podkeeper was stopping it when it ended itself: that goes on when its source has been read, at the \
                 latest {} s after the start",
                limits::STOPS_UNTOLD.as_secs()
            ),
            Verdict::Stop => "no manifest names it: it is stopped".to_owned(),
            Verdict::Wait(source) => format!(
                "no manifest names it, and source {source} has not been read since podkeeper began: until then \
                 it is left alone"
            ),
            Verdict::Keep(path) => {
                let why = self.why_not(&path).map_or(String::new(), |why| format!(" ({why})"));
                format!("its manifest {path} is not accepted{why}: it is left alone, and not restarted")
            }
        };
        let (mut spec, mut status) = (PodSpec::default(), PodStatus::default());
        spec.node_name = Some(self.config.node_name.clone());
        spec.termination_grace_period_seconds =
            all.iter().filter(|c| c.uid == newest.uid).find_map(|c| c.grace).map(i64::from);
        let regular = list_containers(all, &newest.uid, &mut spec, &mut status);
        // A pod whose containers have ended is not shown as ended while a container that was added to it or a sidecar
        // runs: the view of an ended pod does not show that it is being stopped.
        let others = [&status.init_container_statuses, &status.ephemeral_container_statuses];
        let goes_on = others.into_iter().flatten().flatten().any(runs);
        status.phase = Some(if goes_on { "Running" } else { phase(&regular) }.to_owned());
        status.reason = Some(UNMANAGED.to_owned());
        status.message = Some(message);
        let of_pod = all.iter().filter(|c| c.uid == newest.uid);
        status.start_time = first_seen(of_pod).map(seconds);
        status.container_statuses = Some(regular);
        let pod = match self.node.earlier.get(key).filter(|earlier| earlier.uid == newest.uid) {
            // The next daemon has to know what it holds, too.
            Some(earlier) if !earlier.spec.containers.is_empty() => DesiredPod::clone(earlier),
            _ => pod(key, newest, spec),
        };
        let is_kept = self.entries.get(key).is_some_and(|entry| entry.can_hurry(&pod.uid, now));
        Some(PodView { leaving, is_kept, is_told: false, ..PodView::shown(Arc::new(pod), Arc::new(status)) })
    }

    /// The first error about a path.
    fn why_not(&self, path: &str) -> Option<&str> {
        let mut problems = self.sources.values().flat_map(|s| s.problems.iter().chain(s.reading.problems()));
        let wrong = problems.find(|p| p.path == path && p.severity == Severity::Error);
        wrong.map(|p| p.message.as_str())
    }
}

/// A pod of which only its containers are known; `newest` is one of them.
pub(super) fn pod(key: &PodKey, newest: &Owned, spec: PodSpec) -> DesiredPod {
    let source = newest.manifest.source.unwrap_or(Source::File);
    let metadata = ObjectMeta {
        name: Some(key.name.clone()),
        namespace: Some(key.namespace.clone()),
        uid: Some(newest.uid.clone()),
        annotations: newest.manifest.source.map(|s| [(CONFIG_SOURCE.to_owned(), s.to_string())].into()),
        ..ObjectMeta::default()
    };
    DesiredPod {
        key: key.clone(),
        uid: newest.uid.clone(),
        source,
        origin: Origin { path: newest.manifest.origin.clone().unwrap_or_default(), document: 0 },
        metadata,
        spec: Arc::new(spec),
        status: PodStatus::default(),
        written: None,
        shape: None,
        withheld: Set::new(),
        ceiling: 0,
        weight: 0,
    }
}

/// Puts the containers of this UID into spec and status; returns the states of the regular ones.
fn list_containers(
    all: &[Owned],
    uid: &str,
    spec: &mut PodSpec,
    status: &mut PodStatus,
) -> Vec<ContainerStatus> {
    let (mut regular, mut init) = (Vec::new(), Vec::new());
    for (c, name, kind) in containers(all, uid) {
        let container =
            Container { name: name.to_owned(), image: Some(c.image.clone()), ..Container::default() };
        match kind {
            ContainerKind::Regular => {
                spec.containers.push(container);
                regular.push(status_of(c, name));
            }
            ContainerKind::Init | ContainerKind::Sidecar => {
                let restart_policy = (kind == ContainerKind::Sidecar).then(|| "Always".to_owned());
                let container = Container { restart_policy, ..container };
                spec.init_containers.get_or_insert_default().push(container);
                init.push(status_of(c, name));
            }
            ContainerKind::Ephemeral => {
                status.ephemeral_container_statuses.get_or_insert_default().push(status_of(c, name));
            }
        }
    }
    status.init_container_statuses = Some(init).filter(|all| !all.is_empty());
    regular
}

/// The newest container of each name of this UID, in the order of the manifest.
fn containers<'a>(all: &'a [Owned], uid: &str) -> Vec<(&'a Owned, &'a str, ContainerKind)> {
    let mut newest: Vec<(u32, &Owned, &str, ContainerKind)> = Vec::new();
    for c in all.iter().filter(|c| c.uid == uid) {
        let Role::Container { name, kind, index, .. } = &c.role else { continue };
        match newest.iter_mut().find(|(_, _, known, _)| *known == name) {
            Some(known) if known.1.attempt >= c.attempt => {}
            Some(known) => *known = (*index, c, name, *kind),
            None => newest.push((*index, c, name, *kind)),
        }
    }
    order::sort_by_key(&mut newest, |(index, _, name, _)| (*index, *name));
    newest.into_iter().map(|(_, c, name, kind)| (c, name, kind)).collect()
}

fn status_of(c: &Owned, name: &str) -> ContainerStatus {
    let id = names::container_id(&c.id);
    let mut state = ContainerState::default();
    match &c.state {
        RunState::Running { started } => {
            let started_at = started.or(c.created).map(Time);
            state.running = Some(ContainerStateRunning { started_at });
        }
        RunState::Exited(exit) => {
            state.terminated = Some(ContainerStateTerminated {
                container_id: Some(id.clone()),
                exit_code: i32::try_from(exit.code).unwrap_or(i32::MAX),
                reason: Some(if exit.code == 0 { "Completed" } else { "Error" }.to_owned()),
                message: Some(exit.message.clone()).filter(|m| !m.is_empty()),
                started_at: exit.started.map(Time),
                finished_at: exit.finished.map(Time),
                signal: None,
            });
        }
        RunState::Created | RunState::Removing => {
            state.waiting = Some(ContainerStateWaiting { reason: Some(UNMANAGED.to_owned()), message: None });
        }
    }
    let runs = c.state.is_running();
    ContainerStatus {
        name: name.to_owned(),
        container_id: Some(id),
        image: c.image.clone(),
        image_id: c.image_id.clone(),
        // The container is not probed: a running container counts as ready, as at the daemon's start.
        ready: runs,
        started: Some(runs),
        restart_count: i32::try_from(c.restarts()).unwrap_or(i32::MAX),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

fn runs(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

fn phase(regular: &[ContainerStatus]) -> &'static str {
    let state = |s: &ContainerStatus| s.state.clone().unwrap_or_default();
    let ended = |s: &ContainerStatus| state(s).terminated.map(|t| t.exit_code);
    match regular {
        [] => "Pending",
        all if all.iter().any(runs) => "Running",
        all if all.iter().all(|s| ended(s) == Some(0)) => "Succeeded",
        all if all.iter().all(|s| ended(s).is_some()) => "Failed",
        _ => "Pending",
    }
}
