//! A loop without threads: events in, effects out in words.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::table::{Set, Table};
use crate::daemon::config::{Config, Sources};
use crate::daemon::turn::{Earlier, Effect, Event, InUse, RuntimeEvent, Turn};
use crate::machine::{FirstList, Report, StopOrder, Target, Wish};
use crate::plan::testing;
use crate::pod::problem::{Problem, Severity};
use crate::pod::{DesiredPod, Origin, PodKey, Source};
use crate::policy::{Policies, SourcePolicy};
use crate::runtime::{ContainerSummary, DockerState, labels};
use crate::source::{FromSource, PodSet, SourceUpdate};
use crate::status::snapshot::{PodView, Snapshot};

pub(super) const ROOT: &str = "/var/lib/podkeeper";

pub(super) struct Rig {
    pub(super) turn: Turn,
    pub(super) now: Mono,
    pub(super) wishes: BTreeMap<PodKey, u64>,
    /// Of the last worker that was spawned: what an earlier daemon has killed.
    pub(super) killed: Vec<String>,
    /// Files that sweeps of the root directory kept.
    pub(super) sweeps: Vec<InUse>,
    /// UIDs of pods whose volumes were ordered to be removed.
    pub(super) removals: Vec<Vec<String>>,
}

pub(crate) fn config() -> Config {
    let mut config = crate::daemon::config::testing::config("n1", ROOT);
    config.node_labels.insert("disk".into(), "flash".into());
    config.policy = Arc::new(
        Policies::all(SourcePolicy { host_network: false, ..SourcePolicy::default() })
            .with(Source::File, SourcePolicy::default()),
    );
    config
}

/// The same configuration, with other sources.
pub(crate) fn config_with(change: impl FnOnce(&mut Sources)) -> Config {
    let mut config = config();
    change(&mut config.sources);
    config
}

pub(super) fn key(name: &str) -> PodKey {
    PodKey { namespace: "default".into(), name: name.into() }
}

/// `name[/uid][ in path]` with a spec; UID `name-1`, path `/m/name.yaml` when not given.
pub(super) fn pod_of(words: &str, spec: &str) -> Arc<DesiredPod> {
    let (head, path) = words.split_once(" in ").unwrap_or((words, ""));
    let (name, uid) = head.split_once('/').unwrap_or((head, ""));
    let mut pod = testing::pod(spec);
    pod.key = key(name);
    pod.uid = if uid.is_empty() { format!("{name}-1") } else { uid.into() };
    let path = if path.is_empty() { format!("/m/{name}.yaml") } else { path.into() };
    pod.origin = Origin { path, document: 0 };
    Arc::new(pod)
}

pub(super) fn pod(words: &str) -> Arc<DesiredPod> {
    pod_of(words, "{containers: [{name: app}]}")
}

/// The same with a host port.
pub(super) fn with_port(words: &str, port: u16) -> Arc<DesiredPod> {
    pod_of(
        words,
        &format!("{{containers: [{{name: app, ports: [{{containerPort: 80, hostPort: {port}}}]}}]}}"),
    )
}

/// A container by words: `a/a-1/app running`, `a/a-1/POD#2 exited`; ` in path` gives it another
/// manifest, ` of http` another source, and before both ` on pods+other` its networks.
pub(super) fn container(words: &str) -> ContainerSummary {
    let (words, grace) = words.split_once(" for ").unwrap_or((words, ""));
    let (words, source) = words.split_once(" of ").unwrap_or((words, "file"));
    let (words, path) = words.split_once(" in ").unwrap_or((words, ""));
    let (words, network) = words.split_once(" on ").unwrap_or((words, ""));
    let (place, state) = words.split_once(' ').unwrap();
    let [pod, uid, name] = place.split('/').collect::<Vec<_>>()[..] else { panic!("{words}") };
    let (name, attempt) = name.split_once('#').unwrap_or((name, "0"));
    let path = if path.is_empty() { format!("/m/{pod}.yaml") } else { path.into() };
    let all = [
        (labels::ROOT_DIR, ROOT),
        (labels::POD_NAMESPACE, "default"),
        (labels::POD_NAME, pod),
        (labels::POD_UID, uid),
        (labels::CONTAINER_NAME, name),
        (labels::TYPE, if name == "POD" { labels::TYPE_SANDBOX } else { labels::TYPE_CONTAINER }),
        (labels::RESTART_COUNT, attempt),
        (labels::SANDBOX_ATTEMPT, attempt),
        (labels::SOURCE, source),
        (labels::ORIGIN, &path),
        (labels::TERMINATION_GRACE, grace),
    ];
    ContainerSummary {
        id: format!("{pod}-{uid}-{name}-{attempt}"),
        name: format!("k8s_{name}_{pod}_default_{uid}_{attempt}"),
        image: "busybox".into(),
        image_id: "sha256:feed".into(),
        labels: all.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        state: DockerState::parse(state),
        status: String::new(),
        created: 0,
        ips: None,
        networks: network.split_terminator('+').map(str::to_owned).collect(),
        length: 0,
    }
}

pub(super) fn status(phase: &str) -> Arc<PodStatus> {
    Arc::new(PodStatus { phase: Some(phase.into()), ..PodStatus::default() })
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig::with(config())
    }

    pub(super) fn with(config: Config) -> Rig {
        Rig {
            turn: Turn::new(Arc::new(config)),
            now: Mono::default(),
            wishes: BTreeMap::new(),
            killed: Vec::new(),
            sweeps: Vec::new(),
            removals: Vec::new(),
        }
    }

    /// Docker was listed and is empty; log lines are dropped.
    pub(super) fn listed() -> Rig {
        Rig::listed_with(config())
    }

    pub(super) fn listed_with(config: Config) -> Rig {
        let mut rig = Rig::with(config);
        rig.list(&[]);
        rig
    }

    pub(super) fn now(&self) -> Now {
        let wall = Timestamp::from_second(1_800_000_000).unwrap().checked_add(self.now.0).unwrap();
        Now { mono: self.now, wall }
    }

    pub(super) fn handle(&mut self, event: Event) -> Vec<String> {
        let now = self.now();
        let effects = self.turn.handle(event, &now);
        for effect in &effects {
            match effect {
                Effect::Wish(key, _) => *self.wishes.entry(key.clone()).or_default() += 1,
                Effect::Sweep(keep) => self.sweeps.push(keep.clone()),
                Effect::RemoveVolumes(pods) => self.removals.push(pods.iter().cloned().collect()),
                Effect::Spawn { key, found } => {
                    self.wishes.insert(key.clone(), 0);
                    let (FirstList::Whole(found) | FirstList::Past(found)) = found;
                    let killed = found.iter().filter(|c| c.killed && !c.is_sandbox());
                    self.killed = killed.map(|c| c.id.clone()).collect();
                }
                _ => {}
            }
        }
        // Sweeps have a test of their own.
        effects
            .iter()
            .filter(|e| !matches!(e, Effect::Sweep(_) | Effect::RemoveVolumes(_)))
            .map(words)
            .collect()
    }

    pub(super) fn source(&mut self, update: SourceUpdate) -> Vec<String> {
        self.handle(Event::Source(FromSource { source: Source::File, update }))
    }

    /// The file source wants exactly these pods.
    pub(super) fn want(&mut self, pods: &[Arc<DesiredPod>]) -> Vec<String> {
        self.want_with(pods, &[])
    }

    /// The same with local objects.
    pub(super) fn want_objects(&mut self, pods: &[Arc<DesiredPod>], objects: &str) -> Vec<String> {
        let empty = "{apiVersion: v1, kind: List, items: []}";
        let objects = if objects.is_empty() { empty } else { objects };
        let objects = crate::pod::object::testing::decoded("/m/objects.yaml", objects);
        self.source(SourceUpdate::Full(PodSet { pods: pods.to_vec(), objects, ..PodSet::default() }))
    }

    /// A set of the source with one path that is not settled yet, and no error.
    pub(super) fn unsettled(&mut self, path: &str) -> Vec<String> {
        let broken = vec![path.to_owned()];
        self.source(SourceUpdate::Full(PodSet { broken, ..PodSet::default() }))
    }

    /// The same, with these paths unreadable.
    pub(super) fn want_with(&mut self, pods: &[Arc<DesiredPod>], broken: &[&str]) -> Vec<String> {
        let broken: Vec<String> = broken.iter().map(ToString::to_string).collect();
        let problem = |path: &String| Problem {
            severity: Severity::Error,
            path: path.clone(),
            at: None,
            pod: None,
            field: None,
            message: "not YAML".to_owned(),
        };
        let problems = broken.iter().map(problem).collect();
        self.source(SourceUpdate::Full(PodSet { pods: pods.to_vec(), broken, problems, ..PodSet::default() }))
    }

    pub(super) fn fail(&mut self, why: &str) -> Vec<String> {
        self.source(SourceUpdate::Failed(why.into()))
    }

    /// Docker holds exactly these containers.
    pub(super) fn list(&mut self, containers: &[&str]) -> Vec<String> {
        let containers = containers.iter().map(|words| container(words)).collect();
        self.handle(Event::Runtime(RuntimeEvent::Listed { containers, version: Some("1.41".into()) }))
    }

    pub(super) fn report(&mut self, name: &str, report: Report) -> Vec<String> {
        self.handle(Event::Worker { key: key(name), report })
    }

    /// The worker of this pod reports its status.
    pub(super) fn status(&mut self, pod: &Arc<DesiredPod>, phase: &str, terminating: bool) -> Vec<String> {
        let report = Report::Status { status: status(phase), pod: Arc::clone(pod), terminating };
        self.report(&pod.key.name, report)
    }

    /// The worker has no work left, and has read all wishes.
    pub(super) fn gone(&mut self, name: &str) -> Vec<String> {
        let mut out = self.report(name, Report::Terminated);
        let wishes = self.wishes.get(&key(name)).copied().unwrap_or_default();
        out.extend(self.report(name, Report::Gone(wishes)));
        out
    }

    /// The worker sees these containers (as [`container`]).
    pub(super) fn seen(&mut self, name: &str, containers: &[&str]) -> Vec<String> {
        let seen: Table<String, _> =
            containers.iter().map(|words| container(words)).map(|c| (c.id, c.state)).collect();
        // A worker that stops its pod kills what comes, and knows what is left of an earlier life.
        let worker = self.turn.entries.get(&key(name)).and_then(|entry| entry.worker.as_ref());
        let is_killed = |id: &&String| {
            worker.is_some_and(|worker| {
                worker.stopping.is_some() && !worker.terminated || worker.stopped.contains(*id)
            })
        };
        let killed: Set<String> = seen.keys().filter(is_killed).cloned().collect();
        let wishes = self.wishes.get(&key(name)).copied().unwrap_or_default();
        self.report(name, Report::Seen(seen, killed, wishes))
    }

    /// Takes over what an earlier daemon had written.
    pub(super) fn goes_on_from(&mut self, before: &Snapshot) {
        let written = |view: &PodView| Pod {
            metadata: ObjectMeta {
                name: Some(view.pod.key.name.clone()),
                namespace: Some(view.pod.key.namespace.clone()),
                uid: Some(view.pod.uid.clone()),
                ..view.pod.metadata.clone()
            },
            spec: Some((*view.pod.spec).clone()),
            status: Some((*view.status).clone()),
        };
        let earlier = Earlier {
            evictions: before.evictions.clone(),
            stopping: before.docker.stopping.clone(),
            pods: before.pods.iter().map(written).chain(before.docker.replaced.clone()).collect(),
            without_room: before.docker.without_room.clone(),
            had_room: before.docker.had_room.clone(),
        };
        self.turn.restore_unfinished(earlier, Set::new(), Table::new());
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.turn.snapshot(&self.now())
    }

    /// The snapshot's pods: `a Running, b Failed NodePorts`.
    pub(super) fn shown(&self) -> String {
        let view = |p: &PodView| {
            let reason = p.status.reason.as_ref().map(|r| format!(" {r}")).unwrap_or_default();
            let leaving = if p.leaving.is_some() { " terminating" } else { "" };
            format!("{} {}{reason}{leaving}", p.pod.key.name, p.status.phase.as_deref().unwrap_or("?"))
        };
        self.snapshot().pods.iter().map(view).collect::<Vec<_>>().join(", ")
    }
}

fn words(effect: &Effect) -> String {
    match effect {
        Effect::Spawn { key, found: FirstList::Past(_) } => format!("spawn {}, list", key.name),
        Effect::Spawn { key, found: FirstList::Whole(found) } => {
            format!("spawn {}{}", key.name, if found.is_empty() { ", empty" } else { "" })
        }
        Effect::Wish(key, Wish::Run(pod)) => format!("run {}/{}", key.name, pod.uid),
        Effect::Wish(key, Wish::Stop(StopOrder { grace, why, target, pod })) => {
            let grace = grace.map_or(String::new(), |g| format!(" within {g} s"));
            format!(
                "{} {}{grace}: {why}",
                if pod.is_some() && *target != Target::Unfinished { "end" } else { "stop" },
                key.name
            )
        }
        Effect::Objects(key, objects) => {
            let names: Vec<&str> = objects.keys().map(|key| key.name.as_str()).collect();
            format!("give {} [{}]", key.name, names.join(" "))
        }
        Effect::Hint(key, hint) => format!("hint {} {hint:?}", key.name),
        Effect::Retire(key) => format!("retire {}", key.name),
        Effect::Sweep(keep) => format!("sweep but {keep:?}"),
        Effect::RemoveVolumes(pods) => format!("remove volumes {pods:?}"),
        Effect::Rescan => "rescan".into(),
        Effect::Log(level, line) => format!("{level}: {line}"),
    }
}

/// The effects without log lines.
pub(super) fn acts(effects: Vec<String>) -> Vec<String> {
    let said = |line: &String| ["ERROR:", "WARN:", "INFO:"].iter().any(|level| line.starts_with(level));
    effects.into_iter().filter(|line| !said(line)).collect()
}
