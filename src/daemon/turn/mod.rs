//! The sync loop's body as a pure function: one event in, effects out (upstream `pkg/kubelet/kubelet.go`,
//! `syncLoop`). It knows what every source wants, what Docker's last list held, and what it has told
//! every worker.
//!
//! Never here: Docker calls, files, clocks, waiting. Only the owner of a pod removes it (invariant 2).

pub mod admission;
mod aliases;
mod docker;
mod drain;
mod due;
mod early;
mod entry;
mod evicted;
mod hold;
mod networks;
mod node;
mod objects;
mod orphans;
mod pods;
mod preempted;
mod reload;
mod sizes;
mod sources;
#[cfg(test)]
pub(crate) mod tests;
mod uids;
mod unmanaged;
mod versioned;
mod view;
mod waiting;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use versioned::Versioned;

use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::limits;
use crate::base::pace::doubled;
use crate::base::table::{Set, Table};
use crate::cluster::node::heart::Trouble;
use crate::daemon::config::Config;
use crate::daemon::drain::Drain;
use crate::daemon::reload::Reload;
use crate::eviction::News;
use crate::machine::{FirstList, FromPod, Hint, Report, Wish};
use crate::merge::Merge;
use crate::pod::object::Objects;
use crate::pod::problem::Problem;
use crate::pod::{PodKey, Source};
use crate::recorder::ring::{Change, Kept};
use crate::recorder::{ObjectEvent, Ring, words};
use crate::runtime::ContainerSummary;
use crate::source::FromSource;
use crate::status::snapshot::{EvictionView, StatusFile};
use crate::status::task::Task;

use aliases::Names;
use docker::Known;
use drain::Draining;
use due::{Due, DueHeap};
use early::Early;
use entry::{Entry, SpawnFailed, WorkerStatus};
use node::NodeState;
use orphans::Sweep;
use sources::SourceState;
use waiting::Waiting;

/// Every event of the main loop. Closed: a new kind of event is a new variant.
#[derive(Debug)]
pub enum Event {
    /// A report of a source.
    Source(FromSource),
    /// A report of Docker's event stream.
    Runtime(RuntimeEvent),
    /// A pod worker reported.
    Worker {
        /// The worker's pod.
        key: PodKey,
        /// Status, containers or end.
        report: Report,
    },
    /// An event of a pod, for the recorder.
    Happened(ObjectEvent),
    /// A pod worker's thread could not be started.
    SpawnFailed {
        /// The worker's pod.
        key: PodKey,
        /// The system's reason.
        why: String,
    },
    /// The problem with the claims of an earlier version of podkeeper; `None`: there is none any more.
    Claims(Option<String>),
    /// Whether CNI plugins can attach pods; `Some`: why they cannot.
    Network(Option<String>),
    /// Why the API server does not hear of this node; `None`: it does again.
    Unheard(Option<Trouble>),
    /// Docker got these images without a pull; full names.
    ImagesCame(Vec<String>),
    /// The kernel killed a process for want of memory.
    OutOfMemory(OutOfMemory),
    /// Containers in which the kernel killed a process before this daemon began; at most [`limits::OOM_EARLIER`].
    OutOfMemoryEarlier(Vec<String>),
    /// The keeper looked at the node.
    Node(News),
    /// Threads that hang now; none when all are well again.
    Stuck(Vec<Task>),
    /// A deadline of [`Turn::next_due`] has come.
    Tick,
    /// SIGHUP: the settings were read again.
    Reloaded(Reload),
    /// SIGHUP: look at the sources again.
    Rescan,
    /// The marker of a drained node, as it is now.
    Drain(Option<Drain>),
}

impl From<FromPod> for Event {
    fn from(told: FromPod) -> Event {
        match told {
            FromPod::Report { key, report } => Event::Worker { key, report },
            FromPod::Happened(event) => Event::Happened(event),
        }
    }
}

/// A report of the event stream: subscribe, then list; list again after each reconnect
/// (docker-archive/classicswarm#2309).
#[derive(Debug, Clone, PartialEq)]
pub enum RuntimeEvent {
    /// The complete list of podkeeper's containers: after each (re)connect, and every `--sync-frequency`.
    Listed {
        /// All containers of this root directory.
        containers: Vec<ContainerSummary>,
        /// Docker's version, when known.
        version: Option<String>,
    },
    /// One container changed.
    Changed {
        /// The container's pod.
        key: PodKey,
        /// The containers to look at.
        hint: Hint,
    },
    /// Docker cannot be reached, or the stream ended.
    Lost(String),
}

/// A process that the kernel killed for want of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The id of the container that the process was of, if it was of one.
    pub container: Option<String>,
    /// Whether the node had no memory left; otherwise a cgroup was at its limit.
    pub of_the_node: bool,
    /// Name of the process, at most 15 bytes, chosen by the process.
    pub process: String,
    /// The process id on the node.
    pub pid: u32,
}

/// An effect that the loop must carry out after an event, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Start a worker.
    Spawn {
        /// The worker's pod.
        key: PodKey,
        /// The containers that Docker's list had under this identity.
        found: FirstList,
    },
    /// Put a wish into a worker's mailbox.
    Wish(PodKey, Wish),
    /// Put the local objects that a worker's pod refers to into its mailbox.
    Objects(PodKey, Arc<Objects>),
    /// Put a hint into a worker's mailbox.
    Hint(PodKey, Hint),
    /// End a worker that has no work left.
    Retire(PodKey),
    /// Remove the files of all pods and containers except these.
    Sweep(InUse),
    /// Remove the volumes of these pods, by UID, which have no worker.
    RemoveVolumes(Set<String>),
    /// Tell the sources to look again.
    Rescan,
    /// Write a log line.
    Log(log::Level, String),
}

/// Pods and containers whose files on the disk stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InUse {
    /// UIDs of pods that Docker holds or a source wants.
    pub pods: Set<String>,
    /// Ids of all containers of this root directory.
    pub containers: Set<String>,
}

/// What an earlier daemon wrote to the status file about what it had not finished.
#[derive(Debug, Default)]
pub struct Earlier {
    /// Evictions, by pod.
    pub evictions: Table<String, EvictionView>,
    /// The containers that were being stopped.
    pub stopping: Set<String>,
    /// Its pods, and the earlier versions that it knew.
    pub pods: Vec<Pod>,
    /// Those that had no room, and the period in which they had it last.
    pub without_room: Table<String, u32>,
    /// Which versions had room last, where their pods do not tell.
    pub had_room: Table<String, String>,
}

impl Earlier {
    /// What this file tells of it.
    #[must_use]
    pub fn of(file: StatusFile) -> Earlier {
        let pods = file.pods.into_iter().chain(file.docker.replaced).collect();
        let (stopping, without_room, had_room) =
            (file.docker.stopping, file.docker.without_room, file.docker.had_room);
        Earlier { pods, evictions: file.evictions, stopping, without_room, had_room }
    }
}

/// The loop's state. See the module.
#[derive(Debug)]
pub struct Turn {
    config: Arc<Config>,
    /// The time of the event that is handled.
    now: Now,
    merge: Versioned<Merge>,
    sources: Table<Source, SourceState>,
    entries: Table<PodKey, Entry>,
    /// The last status of pods that have ended here and do not come back, deleted, evicted or refused, while their source
    /// lists them.
    ended: Table<PodKey, WorkerStatus>,
    docker: Known,
    node: NodeState,
    due: DueHeap,
    /// Held pods, by what they wait for.
    waiting: Waiting,
    /// Names on the pods' network.
    names: Names,
    /// The drain of the node, if any.
    draining: Option<Draining>,
    /// The problem with the claims of an earlier version of podkeeper.
    claims: Option<String>,
    /// Threads that hang.
    stuck: Vec<Task>,
    logged: Logged,
    sweep: Sweep,
    early: Early,
    changed: bool,
    ring: Ring,
    out: Vec<Effect>,
}

/// Lasting states that were logged already, so that they are not logged again.
#[derive(Debug, Default)]
struct Logged {
    /// Manifests and objects that clash with others and are not used.
    refused: Vec<Problem>,
    /// Pods left alone because their manifest cannot be read, and its path.
    kept: Table<PodKey, String>,
}

impl Turn {
    /// The state at the daemon's start.
    #[must_use]
    pub fn new(config: Arc<Config>) -> Turn {
        let declared = config.declared();
        Turn {
            merge: Versioned::new(Merge::new(&declared).under(Arc::clone(&config.policy))),
            sources: declared.into_iter().map(|s| (s, SourceState::default())).collect(),
            entries: Table::new(),
            ended: Table::new(),
            docker: Known::nothing(),
            node: NodeState::default(),
            due: DueHeap::default(),
            waiting: Waiting::default(),
            names: Names::default(),
            draining: None,
            claims: None,
            stuck: Vec::new(),
            logged: Logged::default(),
            sweep: Sweep::First(Set::new()),
            early: Early::default(),
            changed: true,
            ring: Ring::default(),
            out: Vec::new(),
            now: Now { mono: Mono::default(), wall: Timestamp::UNIX_EPOCH },
            config,
        }
    }

    /// Handles one event.
    pub fn handle(&mut self, event: Event, now: &Now) -> Vec<Effect> {
        self.now = *now;
        match event {
            Event::Source(from) => self.hear(from, now),
            Event::Runtime(event) => self.runtime(event, now),
            Event::Worker { key, report } => self.report(&key, report, now),
            Event::Happened(event) => self.record(event, now),
            Event::OutOfMemory(kill) => self.out_of_memory(kill, now),
            Event::OutOfMemoryEarlier(containers) => self.out_of_memory_earlier(containers),
            Event::Node(news) => self.node_told(news, now),
            Event::SpawnFailed { key, why } => self.spawn_failed(key, &why, now),
            Event::ImagesCame(names) => self.hint_workers(&Hint::Images(names)),
            Event::Network(missing) => self.network_told(missing),
            Event::Unheard(trouble) => self.unheard(trouble, now),
            Event::Claims(trouble) => self.claims_told(trouble),
            Event::Stuck(stuck) => {
                self.changed |= self.stuck != stuck;
                self.stuck = stuck;
            }
            Event::Tick => self.tick(now),
            Event::Reloaded(reload) => self.reloaded(reload, now),
            Event::Rescan => {
                self.out.push(Effect::Rescan);
                self.hint_workers(&Hint::Retry);
            }
            Event::Drain(drain) => self.set_drain(drain, now),
        }
        // The pods of a drained node are considered again when the node is resumed.
        if self.draining.is_none() && std::mem::take(&mut self.names.due) {
            self.settle_names(now);
            self.settle_networks(now);
        }
        self.drain_on(now);
        self.note_node(now);
        std::mem::take(&mut self.out)
    }

    /// When the next [`Event::Tick`] is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        self.due.next()
    }

    /// Whether the snapshot's content has changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Takes over the events that an earlier daemon wrote to the event file.
    pub fn restore_events(&mut self, kept: Vec<Kept>) {
        self.ring.restore(kept);
    }

    /// All kept events, and how they changed; `None` when they have not changed since the last call.
    pub fn take_events(&mut self) -> Option<(Change, Vec<Arc<Kept>>)> {
        self.ring.take_changed().map(|change| (change, self.ring.all()))
    }

    /// All kept events, the latest last.
    #[must_use]
    pub fn events(&self) -> Vec<Arc<Kept>> {
        self.ring.all()
    }

    /// Tells every worker to look at something.
    fn hint_workers(&mut self, hint: &Hint) {
        let workers = self.entries.iter().filter(|(_, entry)| entry.worker.is_some());
        self.out.extend(workers.map(|(key, _)| Effect::Hint(key.clone(), hint.clone())));
    }

    /// Keeps an event, and writes its only log line.
    fn record(&mut self, event: ObjectEvent, now: &Now) {
        let level = event.weight.level();
        if let Some(line) = self.ring.add(event, now) {
            self.log(level, line);
        }
    }

    fn tick(&mut self, now: &Now) {
        while let Some(due) = self.due.pop(now.mono) {
            match due {
                Due::Spawn(key) => self.spawn_again(&key),
                Due::After(key) => {
                    let held = self.entries.get(&key).and_then(Entry::held);
                    if let Some(pod) = held.map(|h| Arc::clone(&h.pod)) {
                        self.additions(vec![pod], now);
                    }
                }
                Due::Sources => self.unpark(now),
                Due::Remembered => self.put_remembered_in_force(now),
                Due::Names => self.give_up_waiting(now),
                Due::Unfinished => self.go_on_with_stops(docker::Untold::Stop),
                // The drain is continued after every event.
                Due::Shutdown => {}
                Due::Refused => self.readmit(&[], now),
                Due::Evicted(_) | Due::Returns => {
                    self.return_preempted(now);
                    self.return_evicted(now);
                }
            }
        }
    }

    /// Tries again at growing intervals; logged once.
    fn spawn_failed(&mut self, key: PodKey, why: &str, now: &Now) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.worker = None;
        let before = entry.spawn_failed.take();
        let failures = before.as_ref().map_or(0, |failed| failed.times);
        self.changed |= before.is_none_or(|failed| failed.why != why);
        entry.spawn_failed = Some(SpawnFailed { times: failures.saturating_add(1), why: why.to_owned() });
        let uid = entry.desired.as_ref().map(|pod| pod.uid.clone());
        if failures == 0 {
            let words = words::no_thread(why);
            match uid {
                Some(uid) => self.record(ObjectEvent::new(key.clone(), uid, None, words), now),
                // The pod is to be stopped.
                None => self.log(log::Level::Error, format!("pod {key}: {}", words.message)),
            }
        }
        let wait = doubled(limits::CALL_RETRY_MIN, failures, limits::CALL_RETRY_MAX);
        self.due.push(now.mono.after(wait), Due::Spawn(key));
    }

    fn spawn_again(&mut self, key: &PodKey) {
        if let Some(draining) = &mut self.draining {
            draining.forget(key);
        }
        let Some(entry) = self.entries.get(key).filter(|e| e.worker.is_none()) else { return };
        if let Some(pod) = entry.desired.clone() {
            self.wish(key, Wish::Run(pod));
        } else if entry.rejected().is_some() || entry.evicted().is_some() {
            if self.docker.found.contains_key(key) {
                self.wish(key, Wish::Stop(pods::REJECTED));
            }
        } else {
            self.housekeeping();
            if self.entries.get(key).is_some_and(|e| e.worker.is_none() && e.blocked.is_none()) {
                self.forget_entry(key);
            }
        }
    }

    fn log(&mut self, level: log::Level, line: String) {
        self.out.push(Effect::Log(level, line));
    }
}
