//! The loop's state as one immutable snapshot.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::Turn;
use super::admission::Rejection;
use super::docker::Engine;
use super::entry::{Blocked, Entry, WorkerInfo};
use super::sources::{Content, Refusal, SourceState};
use crate::base::clock::Now;
use crate::base::limits;
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::daemon::config::ApiSource;
use crate::plan::{Observed, Probes};
use crate::pod::object::is_made;
use crate::pod::problem::{Problem, Refused, Severity};
use crate::pod::waiting::Reason;
use crate::pod::{DesiredPod, PodKey, Source, priority};
use crate::policy;
use crate::recorder::words;
use crate::runtime::DockerState;
use crate::status::snapshot::{DockerView, PodView, Snapshot, SourceView, StandingView};
use crate::status::task::Task;
use crate::status::{self, Waiting, WaitingReason};

impl Turn {
    /// The current snapshot of the node.
    #[must_use]
    pub fn snapshot(&self, now: &Now) -> Snapshot {
        let mut pods: Vec<PodView> =
            self.merge.pods().map(|pod| self.with_containers(self.wanted_view(pod, now))).collect();
        let leaving = self.entries.iter().filter(|(key, _)| self.merge.get(key).is_none());
        pods.extend(leaving.filter_map(|(_, entry)| {
            let status = entry.status()?;
            let (leaving, is_kept) =
                (status.leaving.or(Some(now.wall)), entry.can_hurry(&status.pod.uid, now));
            let shown = PodView::shown(Arc::clone(&status.pod), Arc::clone(&status.status));
            Some(PodView { leaving, is_kept, ..shown })
        }));
        pods.extend(self.refused_views().map(|view| self.with_containers(view)));
        let shown = order::set(pods.iter().map(|view| view.pod.key.clone()));
        pods.extend(self.unmanaged_views(now).filter(|view| !shown.contains(&view.pod.key)));
        order::sort_by(&mut pods, |a, b| a.pod.key.cmp(&b.pod.key));
        let claims = self.claim_views(&pods);
        let mut problems: Vec<Problem> = self
            .sources
            .values()
            .flat_map(|s| s.problems.iter().chain(s.reading.problems()))
            .cloned()
            .collect();
        problems.extend(self.merge.problems());
        problems.extend(self.held_problems());
        problems.extend(self.name_problems());
        problems.extend(self.refused_problems());
        problems.extend(self.merge.pods().filter_map(|pod| priority_problem(pod)));
        problems.extend(self.merge.pods().filter_map(|pod| self.grace_problem(pod)));
        problems.extend(self.network_problems());
        problems.extend(self.object_problems());
        problems.extend(self.logged.kept.iter().map(|(key, path)| Problem {
            severity: Severity::Error,
            path: path.clone(),
            at: None,
            pod: Some(key.to_string()),
            field: None,
            message:
                "it runs, but its manifest is not accepted: it is left alone, and not restarted".to_owned(),
        }));
        let (without_room, had_room) = self.rooms_told();
        Snapshot {
            node: self.config.node_name.clone(),
            root_dir: self.config.root_dir.to_string_lossy().into_owned(),
            docker: DockerView {
                stopping: self.stopped_containers(),
                replaced: self.replaced(),
                without_room,
                had_room,
                ..self.docker.engine.view(self.config.docker.to_string())
            },
            drain: self.drain_view(),
            conditions: self.node.conditions().to_vec(),
            stuck: self.stuck.clone(),
            info: self.node_view(),
            also_wanted: self.also_wanted(),
            evictions: self.eviction_views(now),
            resized: self.all_untold_sizes(),
            removing: self.removing(),
            sources: self.source_views(&problems),
            policies: self.policies(),
            claims,
            standings: Table::from(Source::ALL.map(|source| (source, self.standing_view(source)))),
            pods,
            problems,
        }
    }

    /// Whether the daemon has begun its work: Docker was listed, or does not answer, and some source was read, or
    /// cannot be read.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let asked = self.docker.engine != Engine::NotAsked;
        asked && (self.sources.is_empty() || self.sources.values().any(|source| source.heard))
    }

    /// A warning for a pod whose grace period was shortened to its source's bound.
    fn grace_problem(&self, pod: &DesiredPod) -> Option<Problem> {
        let of = |pod: &DesiredPod| pod.spec.termination_grace_period_seconds;
        let (counts, claimed) = (of(pod)?, of(self.merge.as_written(&pod.key)?)?);
        (counts < claimed).then(|| {
            counts_as(
                pod,
                "spec.terminationGracePeriodSeconds",
                &counts.to_string(),
                "the longest",
                "max-grace",
            )
        })
    }

    fn removing(&self) -> Set<String> {
        order::set(self.entries.values().filter_map(|entry| entry.worker.as_ref()?.removes.clone()))
    }

    fn standing_view(&self, source: Source) -> StandingView {
        let policies = &self.config.policy;
        StandingView {
            requests: policies.max_requests(source),
            evict_first: policies.evict_first(source),
            claims: policies.max_claim_storage(source),
        }
    }

    /// Images of wanted versions that are not shown because an older version still runs: they are needed after its
    /// stop.
    fn also_wanted(&self) -> Table<String, Set<String>> {
        let mut images: Table<String, Set<String>> = Table::new();
        for pod in self.merge.pods() {
            let shown = self.entries.get(&pod.key).and_then(Entry::status).map(|status| &status.pod);
            if shown.is_some_and(|shown| shown.spec != pod.spec) {
                let named = pod.containers().filter_map(|(_, container)| container.image.clone());
                images.get_or_default(pod.key.to_string()).extend(named);
            }
        }
        images
    }

    /// Pods that admission refuses, and why.
    pub fn rejections(&self) -> impl Iterator<Item = (&DesiredPod, &Rejection)> {
        let all = self.entries.values().filter_map(Entry::rejected);
        all.map(|rejected| (&*rejected.pod, &rejected.rejection))
    }

    /// The view, with what is left under its name.
    fn with_containers(&self, view: PodView) -> PodView {
        let (key, uid) = (&view.pod.key, &view.pod.uid);
        let entry = self.entries.get(key);
        let worker = entry.and_then(|entry| entry.worker.as_ref());
        let told = worker.into_iter().flat_map(|worker| worker.uids.keys());
        let found = self.docker.found.get(key).into_iter().flatten().map(|c| &c.uid);
        let others = order::set(told.chain(found).filter(|other| *other != uid)).into_iter().cloned();
        let is_ended = entry.is_some_and(|entry| entry.evicted().is_some() || entry.rejected().is_some());
        // The version that its worker stops is older.
        let is_deleted = self.is_deleted(key, uid);
        let returns = view.leaving.is_some() && !is_ended && !is_deleted;
        PodView { others: others.collect(), runs: self.runs_or_may(worker, key, uid), returns, ..view }
    }

    /// Whether anything of this UID runs, its sandbox included, or may run, for nobody has looked yet.
    fn runs_or_may(&self, worker: Option<&WorkerInfo>, key: &PodKey, uid: &str) -> bool {
        let Some(worker) = worker.filter(|worker| worker.terminated || !worker.seen.is_empty()) else {
            return !self.docker.listed || self.runs(key, uid);
        };
        let found = self.docker.found.get(key).map(Vec::as_slice).unwrap_or_default();
        let is_of = |id: &String| match found.iter().find(|c| c.id == *id) {
            Some(listed) => listed.uid == uid,
            None => worker.uids.contains_key(uid),
        };
        worker.seen.iter().any(|(id, state)| *state == DockerState::Running && is_of(id))
    }

    fn wanted_view(&self, pod: &Arc<DesiredPod>, now: &Now) -> PodView {
        let entry = self.entries.get(&pod.key);
        let stale = self.is_stale(pod) || entry.is_some_and(|entry| entry.postponed().is_some());
        if let Some(status) = entry.and_then(Entry::status) {
            // A worker that hangs has not reported yet that it stops the pod.
            let stopping = entry.and_then(|entry| entry.worker.as_ref()).and_then(|worker| worker.stopping);
            let (pod, leaving) = (Arc::clone(&status.pod), status.leaving.or(stopping));
            let shown = entry.map_or_else(|| Arc::clone(&status.status), |e| e.with_resize(&status.status));
            let is_kept = entry.is_some_and(|it| it.desired.is_some() || it.can_hurry(&pod.uid, now));
            return PodView { leaving, stale, is_kept, ..PodView::shown(pod, shown) };
        }
        let is_over = self.is_deleted_here(pod);
        if let Some(ended) = self.ended.get(&pod.key).filter(|ended| ended.pod.uid == pod.uid && is_over) {
            let (pod, status, leaving) = (Arc::clone(pod), Arc::clone(&ended.status), ended.leaving);
            return PodView { leaving, stale, is_over, ..PodView::shown(pod, status) };
        }
        let ends_untold = entry.is_some_and(Entry::ends_untold);
        let blocked = entry.and_then(|e| e.blocked.as_ref()).and_then(Blocked::status);
        if let Some(status) = blocked.filter(|_| !ends_untold) {
            let (pod, status) = (Arc::clone(pod), Arc::clone(status));
            return PodView { stale, is_over, ..PodView::shown(pod, status) };
        }
        if self.is_past(pod) && !is_over {
            // Only the pod's end is known here, from the server.
            let (pod, status) = (Arc::clone(pod), Arc::new(pod.status.clone()));
            return PodView { stale, is_told: false, ..PodView::shown(pod, status) };
        }
        let mut status = status::compute(&status::Input {
            pod,
            observed: &Observed::default(),
            probes: &Probes::default(),
            waiting: &entry
                .and_then(|entry| entry.spawn_failed.as_ref())
                .map(|failed| no_thread(pod, &failed.why))
                .unwrap_or_default(),
            digests: &BTreeMap::new(),
            messages: &BTreeMap::new(),
            old: None,
            terminal: false,
            past_deadline: false,
            resize: &status::NO_RESIZE,
            recursive_mounts: false,
            now: now.wall,
        });
        if is_over {
            self.take_ends_earlier(&pod.uid, &mut status);
        }
        let is_kept = entry.is_some_and(|entry| entry.desired.is_some());
        let leaving = entry.and_then(|e| e.worker.as_ref()).and_then(|w| w.stopping).filter(|_| ends_untold);
        let view = PodView::shown(Arc::clone(pod), Arc::new(status));
        PodView { leaving, stale, is_kept, is_told: is_over, is_over, ..view }
    }

    /// Whether the source has deleted the pod, none of its containers runs, and none will be started.
    fn is_deleted_here(&self, pod: &DesiredPod) -> bool {
        let is_deleted = pod.metadata.deletion_timestamp.is_some();
        let worker = self.entries.get(&pod.key).and_then(|entry| entry.worker.as_ref());
        let is_stopped =
            worker.map_or_else(|| !self.docker.found.contains_key(&pod.key), |worker| worker.terminated);
        is_deleted && is_stopped && self.docker.listed && self.docker.engine.answers()
    }

    /// Pods that the policy refuses and that have no other wanted version. Of one name the first is shown.
    fn shown_refusals(&self) -> impl Iterator<Item = &Refusal> {
        let refused = self.sources.values().flat_map(|s| &s.refused);
        let shown = refused.filter(|r| self.merge.get(&r.refused.pod.key).is_none());
        let mut seen = Set::new();
        shown.filter(move |r| seen.insert(r.refused.pod.key.clone()))
    }

    /// They are shown as failed.
    fn refused_views(&self) -> impl Iterator<Item = PodView> {
        self.shown_refusals().map(|Refusal { refused, since }| {
            let Refused { pod, reason, message, .. } = refused;
            let status = Arc::new(status::rejected(pod, reason, message, *since));
            PodView::shown(Arc::clone(pod), status)
        })
    }

    /// All pods that the policy refuses, and what becomes of them: a version before an edit may run, or a pod of another
    /// place may have the name.
    fn refused_problems(&self) -> impl Iterator<Item = Problem> {
        let all = self.sources.values().flat_map(|s| s.refused.iter().take(limits::PROBLEMS_PER_SOURCE));
        all.map(|Refusal { refused: Refused { pod, at, reason, message }, .. }| {
            let then = match self.merge.get(&pod.key) {
                None => "it is not started".to_owned(),
                Some(held) if held.origin.path == pod.origin.path => "the version before it stays".to_owned(),
                Some(held) => format!("and the pod from {} has its name", held.origin),
            };
            Problem {
                severity: Severity::Error,
                path: pod.origin.path.clone(),
                at: *at,
                pod: Some(pod.key.to_string()),
                field: None,
                message: format!("{reason}: {message}; {then}"),
            }
        })
    }

    /// The policy of each source.
    fn policies(&self) -> Table<String, policy::PolicyView> {
        let config = &self.config;
        let told = |source| policy::PolicyView::of(&config.policy, source);
        self.sources.keys().map(|source| (source.to_string(), told(*source))).collect()
    }

    fn source_views(&self, problems: &[Problem]) -> Vec<SourceView> {
        let view = |(source, state): (&Source, &SourceState)| SourceView {
            name: source.to_string(),
            location: self.config.location(*source),
            ready: self.merge.ready(*source) && !state.is_partial,
            pods: self
                .merge
                .pods()
                .chain(self.shown_refusals().map(|shown| &shown.refused.pod))
                .filter(|p| p.source == *source)
                .count(),
            last_success: state.last_success,
            accepted: state.content.accepted(),
            restored: state.content == Content::Remembered,
            objects: self
                .merge
                .objects()
                .keys()
                .filter(|(of, key)| of == source && !is_made(&key.name))
                .count(),
            problem: self
                .stuck_source(*source)
                .or_else(|| state.reading.trouble().map(str::to_owned))
                .or_else(|| state.unheard().and_then(|(is_answer, why)| (!is_answer).then_some(why))),
            degraded: self.degraded(*source, state, problems),
        };
        self.sources.iter().map(view).collect()
    }

    /// The problem of a source whose thread hangs: the source is not read, and its last content counts.
    fn stuck_source(&self, source: Source) -> Option<String> {
        let hangs = self.stuck.contains(&Task::Source(source));
        hangs.then(|| {
            "podkeeper hangs while it reads it, or writes down what it said: a file system does not answer".to_owned()
        })
    }

    /// The first error in a source's content, its claims or its store, and the number of further ones.
    /// `problems` are those of all sources.
    fn degraded(&self, source: Source, state: &SourceState, problems: &[Problem]) -> Option<String> {
        let url = self.config.location(Source::Http);
        let stored = match self.config.sources.api {
            Some(ApiSource::Store) => Some(self.config.location(Source::Api)),
            Some(ApiSource::Cluster(_)) | None => None,
        };
        let of_api = |p: &Problem| match &stored {
            Some(place) => Path::new(&p.path).starts_with(place),
            None => self.config.sources.api.is_some() && p.path.contains("/api/v1/namespaces/"),
        };
        let is_ours = |p: &&Problem| match source {
            Source::File => (p.path != url || url.is_empty()) && !of_api(p),
            Source::Http => p.path == url,
            Source::Api => of_api(p),
        };
        let errors = problems.iter().filter(|p| p.severity == Severity::Error).filter(is_ours);
        let unanswered = self.stuck.contains(&Task::Store(source)).then(|| {
            "what it says is not remembered: the disk of the root directory does not answer".to_owned()
        });
        let waits = self.early.contents.contains_key(&source).then(|| {
            "its newest content waits, for at most five minutes, until the other sources were read: it lacks pods that \
             they may have"
                .to_owned()
        });
        let unheard = state.unheard().and_then(|(is_answer, why)| is_answer.then_some(why));
        let mut errors = unheard
            .iter()
            .chain(&unanswered)
            .chain(&waits)
            .chain(&state.store)
            .chain(&self.claims)
            .cloned()
            .chain(errors.map(Problem::to_string));
        let first = errors.next()?;
        match errors.count() {
            0 => Some(first),
            more => Some(format!("{first} (and {more} more)")),
        }
    }
}

/// A warning for a pod whose priority was lowered to its source's bound.
fn priority_problem(pod: &DesiredPod) -> Option<Problem> {
    let (counts, claimed) = (priority::of(pod), priority::claimed(pod));
    // A pod that claims no priority gets no warning, even if all pods of its source rank below those of others.
    if counts == claimed || claimed == 0 {
        return None;
    }
    let field = if pod.spec.priority.is_some() { "spec.priority" } else { "spec.priorityClassName" };
    Some(counts_as(pod, field, &counts.to_string(), "the highest", "max-priority"))
}

/// The warning that a field of a pod counts as another value, because of a bound of its source.
fn counts_as(pod: &DesiredPod, field: &str, counts: &str, most: &str, setting: &str) -> Problem {
    let source = pod.source;
    Problem {
        severity: Severity::Warning,
        path: pod.origin.path.clone(),
        at: None,
        pod: Some(pod.key.to_string()),
        field: Some(field.to_owned()),
        message: format!(
            "counts as {counts}: {most} that pods of source {source} may have (--source-policy {source}={setting})"
        ),
    }
}

/// The reason why each container of a pod without a worker waits.
fn no_thread(pod: &DesiredPod, why: &str) -> Waiting {
    let waits = |name: &str| {
        let (reason, message) = (Reason::ContainerCreating, words::no_thread(why).message);
        (name.to_owned(), WaitingReason { reason, message })
    };
    pod.containers().map(|(_, container)| waits(&container.name)).collect()
}
