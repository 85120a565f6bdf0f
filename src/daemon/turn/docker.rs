//! How the loop handles Docker's events and lists: workers get hints, and the first list shows which pod
//! has which name.

mod stops;

pub(super) use self::stops::Untold;

use std::sync::Arc;

use super::entry::Entry;
use super::networks::Elsewhere;
use super::orphans::Sweep;
use super::versioned::Versioned;
use super::{Effect, OutOfMemory, RuntimeEvent, Turn};
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::table::{Set, Table};
use crate::base::{limits, order};
use crate::machine::{FirstList, Hint};
use crate::mapping::observe;
use crate::merge::Running;
use crate::plan::{Owned, RunState};
use crate::pod::{DesiredPod, PodKey};
use crate::recorder::words;
use crate::runtime::{ContainerSummary, DockerState};
use crate::status::snapshot::{DockerView, NOT_ASKED};

/// Whether Docker answers, by the latest report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Engine {
    /// Not known yet.
    NotAsked,
    /// The event stream is up, and the list is known.
    Answers {
        /// Docker's version, when known.
        version: Option<String>,
    },
    /// It cannot be reached, or the stream ended.
    Lost {
        why: String,
        /// Docker's version, from before.
        version: Option<String>,
    },
}

impl Engine {
    pub(super) fn answers(&self) -> bool {
        matches!(self, Engine::Answers { .. })
    }

    fn version(&self) -> Option<&String> {
        match self {
            Engine::NotAsked => None,
            Engine::Answers { version } | Engine::Lost { version, .. } => version.as_ref(),
        }
    }

    /// Why it does not answer.
    pub(super) fn problem(&self) -> Option<&str> {
        match self {
            Engine::NotAsked => Some(NOT_ASKED),
            Engine::Answers { .. } => None,
            Engine::Lost { why, .. } => Some(why),
        }
    }

    /// The state as the status shows it.
    pub(super) fn view(&self, endpoint: String) -> DockerView {
        DockerView {
            endpoint,
            reachable: self.answers(),
            stopping: Set::new(),
            replaced: Vec::new(),
            without_room: Table::new(),
            had_room: Table::new(),
            version: self.version().cloned(),
            problem: self.problem().map(str::to_owned),
        }
    }
}

/// State about Docker and its containers.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) engine: Engine,
    /// Docker has been listed since the daemon started. Before that no pod is started or stopped.
    pub(super) listed: bool,
    /// Pods whose stops an earlier daemon had begun.
    pub(super) finishing: Set<PodKey>,
    /// Those of them, with their UIDs, that no order was given for yet.
    unfinished: Table<PodKey, String>,
    /// Until when a drain waits for sources to tell of the pods that were found; set with the first list.
    pub(super) untold_until: Mono,
    /// Podkeeper's containers in Docker's last list, by identity, dead ones too.
    pub(super) found: Versioned<Table<PodKey, Vec<Owned>>>,
    /// Pods that their source had deleted when Docker was not listed yet: their orders wait for the list.
    pub(super) deleted: Table<PodKey, Arc<DesiredPod>>,
    /// Identities without a worker for which an event came after that list.
    changed: Set<PodKey>,
    /// Containers in which the kernel killed a process, and whose workers do not know it; at most [`limits::OOM_EARLIER`].
    starved: Set<String>,
    /// Sandboxes in that list that are not on the network of [`Config::network`](crate::daemon::config::Config).
    pub(super) elsewhere: Table<PodKey, Elsewhere>,
}

impl Known {
    /// The state before Docker is listed.
    pub(super) fn nothing() -> Known {
        Known {
            engine: Engine::NotAsked,
            listed: false,
            finishing: Set::new(),
            unfinished: Table::new(),
            untold_until: Mono::default(),
            found: Versioned::default(),
            deleted: Table::new(),
            changed: Set::new(),
            starved: Set::new(),
            elsewhere: Table::new(),
        }
    }
}

impl Turn {
    pub(super) fn runtime(&mut self, event: RuntimeEvent, now: &Now) {
        match event {
            RuntimeEvent::Changed { key, hint } => self.hint(&key, hint),
            RuntimeEvent::Lost(why) => {
                let version = self.docker.engine.version().cloned();
                let lost = Engine::Lost { why, version };
                if self.docker.engine != lost {
                    self.changed = true;
                    let why = lost.problem().unwrap_or_default();
                    self.log(
                        log::Level::Error,
                        format!("{why}; what runs stays, podkeeper waits for Docker"),
                    );
                }
                self.docker.engine = lost;
            }
            RuntimeEvent::Listed { containers, version } => self.listed(&containers, version, now),
        }
    }

    fn listed(&mut self, containers: &[ContainerSummary], version: Option<String>, now: &Now) {
        let back = !self.docker.engine.answers();
        if back {
            self.changed = true;
            let version = version.as_deref().unwrap_or("of unknown version");
            self.log(
                log::Level::Info,
                match containers.len() {
                    1 => format!("Docker {version} answers; 1 container is ours"),
                    n => format!("Docker {version} answers; {n} containers are ours"),
                },
            );
        }
        let version = version.or_else(|| self.docker.engine.version().cloned());
        self.docker.engine = Engine::Answers { version };
        let root = self.config.root_dir.to_string_lossy().into_owned();
        if back {
            self.tell_strange(containers, &root);
        }
        if self.sweep == Sweep::AtNextList {
            self.sweep = Sweep::Due;
        }
        self.docker.found.change().clear();
        self.docker.changed.clear();
        self.node.earlier_ended.clear();
        self.node.stopped_earlier.retain(|id| containers.iter().any(|c| c.id == *id));
        for mut owned in containers.iter().filter_map(|c| observe::from_summary(c, &root)) {
            owned.killed = self.node.stopped_earlier.contains(&owned.id);
            self.docker.found.change().get_or_default(owned.key.clone()).push(owned);
        }
        self.note_networks(containers);
        let is_free = self.forget_uids() | self.forget_earlier();
        self.names.due = true;
        if self.docker.listed {
            self.compare_with_workers(back);
            self.compare_addresses(containers);
            self.free_names(now);
        } else {
            self.docker.listed = true;
            self.first_list(now);
        }
        if is_free {
            // A pod may have waited for the UID.
            self.readmit(&[], now);
        }
        self.housekeeping();
    }

    /// Logs containers that have this node's label and no pod: they may have any owner, and are left alone.
    fn tell_strange(&mut self, containers: &[ContainerSummary], root: &str) {
        for strange in containers.iter().filter(|c| observe::from_summary(c, root).is_none()) {
            let line = format!(
                "container {} bears the label of this node, and not which pod it belongs to: it is left alone",
                strange.name
            );
            self.log(log::Level::Warn, line);
        }
    }

    /// Called before any decision: learns from the list which pod has which name, so that a restart of the
    /// daemon restarts no pod (invariant 5).
    fn first_list(&mut self, now: &Now) {
        let running = self.docker.found.iter().filter_map(|(key, all)| {
            let alive = all.iter().filter(|c| c.state.is_running()).max_by_key(|c| c.attempt);
            let any = alive.or_else(|| all.iter().max_by_key(|c| c.attempt))?;
            let same = all.iter().filter(|c| c.uid == any.uid);
            let seen = first_seen(same.clone());
            // Those of an earlier life may be of a source that has given the pod up since.
            let places = newest_of_each(same.clone())
                .filter_map(|c| Some((c.manifest.source?, c.manifest.origin.clone()?)));
            let places = order::set(places);
            Some((
                key.clone(),
                Running {
                    uid: any.uid.clone(),
                    written: same.clone().find_map(|c| c.manifest.written.clone()),
                    shape: same.clone().find_map(|c| c.manifest.shape.clone()),
                    places,
                    seen,
                    // A container that the daemon before was starting may run by now; the next list tells.
                    is_alive: all.iter().any(|c| c.state.is_running() || c.state == RunState::Created),
                },
            ))
        });
        let running: Table<PodKey, Running> = running.collect();
        // The changes are not needed: every wanted pod is looked at next.
        _ = self.merge.change().running(&running, now.wall);
        self.tell_refused();
        self.know_earlier();
        self.docker.untold_until = now.mono.after(limits::DRAIN_UNTOLD);
        self.finish_stops(now);
        let all: Vec<Arc<DesiredPod>> = self.merge.pods().cloned().collect();
        self.additions(all, now);
        self.hurry_earlier(now);
    }

    /// Pods that wait for a name start once nothing runs under it. Lists do not always have all containers, so a pod has
    /// ended only when its containers are listed as ended.
    fn free_names(&mut self, now: &Now) {
        let runs = |key: &PodKey| {
            let found = self.docker.found.get(key).map(Vec::as_slice).unwrap_or_default();
            found.is_empty() || found.iter().any(|container| container.state.is_running())
        };
        if self.merge.alive().all(runs) {
            return;
        }
        let objects = Arc::clone(self.merge.objects());
        let changes = self.merge.change().ended(runs, now.wall);
        self.put_in_force(changes, &objects, now);
    }

    /// The containers of this identity in Docker's last list.
    pub(super) fn listed_ids(&self, key: &PodKey) -> Vec<String> {
        self.docker.found.get(key).into_iter().flatten().map(|c| c.id.clone()).collect()
    }

    /// The containers whose ends are ends of no pod: the next daemon must know them. Also those of an earlier daemon, while
    /// Docker has told nothing.
    pub(super) fn stopped_containers(&self) -> Set<String> {
        let named = self.entries.values().filter_map(|entry| entry.worker.as_ref());
        let named = named.flat_map(|worker| worker.stopped.iter().cloned());
        order::set(named.chain(self.node.stopped_earlier.iter().cloned()))
    }

    /// The safety net: a worker whose view of Docker differs from the list lists for itself.
    fn compare_with_workers(&mut self, back: bool) {
        let differing = self.entries.iter().filter_map(|(key, entry)| {
            let worker = entry.worker.as_ref()?;
            let listed = self.docker.found.get(key).map(Vec::as_slice).unwrap_or_default();
            (back || !agree(&worker.seen, listed)).then(|| Effect::Hint(key.clone(), Hint::All))
        });
        let differing: Vec<Effect> = differing.collect();
        self.out.extend(differing);
    }

    /// A sandbox whose address differs from the pod's status gets a hint: it may have lost its network, and
    /// Docker sends no event of the container for that.
    fn compare_addresses(&mut self, containers: &[ContainerSummary]) {
        let running = containers.iter().filter(|c| c.state == DockerState::Running);
        let told: Table<_, _> = running.filter_map(|c| Some((c.id.as_str(), c.ips.as_ref()?))).collect();
        let mut hints = Vec::new();
        for (key, entry) in &self.entries {
            let Some(known) = entry.status().filter(|known| !known.pod.host_network()) else { continue };
            let Some(ip) = &known.status.pod_ip else { continue };
            let sandboxes = self.docker.found.get(key).into_iter().flatten();
            let sandboxes = sandboxes.filter(|c| c.is_sandbox() && c.uid == known.pod.uid);
            let other = sandboxes.filter(|c| told.get(c.id.as_str()).is_some_and(|ips| !ips.contains(ip)));
            hints.extend(other.map(|c| Effect::Hint(key.clone(), Hint::Changed(c.id.clone()))));
        }
        self.out.extend(hints);
    }

    /// Docker does not always know why a container was killed: the kernel's report is passed on to the pod.
    pub(super) fn out_of_memory(&mut self, kill: OutOfMemory, now: &Now) {
        let OutOfMemory { container, of_the_node, process, pid } = kill;
        let owner = container.as_ref().and_then(|id| {
            let has =
                |entry: &Entry| entry.worker.as_ref().is_some_and(|worker| worker.seen.contains_key(id));
            Some((self.entries.iter().find(|(_, entry)| has(entry))?.0.clone(), id.clone()))
        });
        let of = owner
            .as_ref()
            .map(|(key, id)| format!(" of pod {key}, container {}", id.get(..12).unwrap_or(id)));
        let of = of.unwrap_or_default();
        if of_the_node && container.is_none() {
            self.node_event(words::system_oom(&process, pid), now);
        } else if of_the_node {
            // The kubelet's words (`pkg/kubelet/oom/oom_watcher_linux.go`).
            let words = format!("System OOM encountered, victim process: {process}, pid: {pid}{of}");
            self.log(log::Level::Warn, words);
        } else if owner.is_some() {
            self.log(
                log::Level::Warn,
                format!("the kernel killed process {process} ({pid}){of}: a memory limit is reached"),
            );
        }
        match (owner, container) {
            (Some((key, id)), _) => self.hint(&key, Hint::OutOfMemory(id)),
            // Its worker may not have told yet that it has it.
            (None, Some(id)) => self.out_of_memory_earlier(vec![id]),
            (None, None) => {}
        }
    }

    /// The workers are told when they have these containers.
    pub(super) fn out_of_memory_earlier(&mut self, containers: Vec<String>) {
        if self.docker.starved.len().saturating_add(containers.len()) > limits::OOM_EARLIER {
            self.docker.starved.clear();
        }
        self.docker.starved.extend(containers);
        let keys: Vec<PodKey> = self.entries.keys().cloned().collect();
        keys.iter().for_each(|key| self.tell_starved(key));
    }

    /// Tells the pod's worker in which of the containers that it has the kernel killed a process.
    pub(super) fn tell_starved(&mut self, key: &PodKey) {
        if self.docker.starved.is_empty() {
            return;
        }
        let Some(worker) = self.entries.get(key).and_then(|entry| entry.worker.as_ref()) else { return };
        let own: Vec<String> =
            worker.seen.keys().filter(|id| self.docker.starved.contains(*id)).cloned().collect();
        for id in own {
            self.docker.starved.remove(&id);
            self.out.push(Effect::Hint(key.clone(), Hint::OutOfMemory(id)));
        }
    }

    fn hint(&mut self, key: &PodKey, hint: Hint) {
        if self.entries.get(key).is_some_and(|e| e.worker.is_some()) {
            self.out.push(Effect::Hint(key.clone(), hint));
        } else {
            let found = self.docker.found.get(key);
            let is_known = |id: &String| found.is_some_and(|all| all.iter().any(|c| c.id == *id));
            // A removed container that is in no list changes nothing: a worker that has ended removed it.
            if !matches!(&hint, Hint::Removed(id) if !is_known(id)) {
                self.docker.changed.insert(key.clone());
            }
            self.note_end_of_earlier(key, &hint);
        }
    }

    /// The containers under this identity, by the last list. `None` when the list may be outdated: a worker that
    /// starts lists for itself then.
    pub(super) fn found_of(&self, key: &PodKey) -> FirstList {
        let is_certain =
            self.docker.listed && self.docker.engine.answers() && !self.docker.changed.contains(key);
        let found = self.docker.found.get(key).cloned().unwrap_or_default();
        match is_certain {
            true => FirstList::Whole(found),
            // A container that ends in this moment may end by the signal of an earlier daemon.
            false if found.iter().any(|c| c.killed) => FirstList::Past(found),
            false => FirstList::Past(Vec::new()),
        }
    }
}

/// The newest of a pod's containers under each name.
fn newest_of_each<'a>(all: impl Iterator<Item = &'a Owned> + Clone) -> impl Iterator<Item = &'a Owned> {
    let is_newer =
        |c: &Owned, other: &Owned| other.container_name() == c.container_name() && other.attempt > c.attempt;
    all.clone().filter(move |c| !all.clone().any(|other| is_newer(c, other)))
}

/// When a pod was first seen: from its newest sandbox, else the creation time of its oldest container.
pub(super) fn first_seen<'a>(all: impl Iterator<Item = &'a Owned> + Clone) -> Option<Timestamp> {
    let seen = |c: &Owned| c.kept().and_then(|kept| kept.seen);
    let newest = all.clone().filter(|c| seen(c).is_some()).max_by_key(|c| c.attempt);
    newest.and_then(seen).or_else(|| all.filter_map(|c| c.created).min())
}

/// Whether a worker's view equals the list. A container whose start failed is `created` on most engines and
/// `exited` on some: it does not run in either state.
fn agree(seen: &Table<String, DockerState>, listed: &[Owned]) -> bool {
    let same = |seen: &DockerState, listed: &RunState| match seen {
        DockerState::Created | DockerState::Exited => {
            matches!(listed, RunState::Created | RunState::Exited(_))
        }
        DockerState::Running => listed.is_running(),
        DockerState::Removing => *listed == RunState::Removing,
    };
    seen.len() == listed.len()
        && listed.iter().all(|c| seen.get(&c.id).is_some_and(|state| same(state, &c.state)))
}
