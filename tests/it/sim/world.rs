//! The simulated world: one engine, one daemon at a time (the turn and the machines, without threads),
//! and a clock that only this file moves. Everything follows from the seed.

mod judge;
mod probes;
mod time;
mod words;
mod workers;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use podkeeper::testing::base::clock::{Boot, Mono, Now, Timestamp};
use podkeeper::testing::base::limits;
use podkeeper::testing::cgroup::{self, Driver, Naming, Parents};
use podkeeper::testing::daemon::config::{Config, Sources};
use podkeeper::testing::daemon::drain::Drain;
use podkeeper::testing::daemon::turn::{Effect, Event, RuntimeEvent, Turn};
use podkeeper::testing::machine::{
    Hint, Input, Machine, Output, PullOutcome, PullRequest, Pulled, Settings, Slot, Token,
};
use podkeeper::testing::manifest::{self, Context};
use podkeeper::testing::mapping::MapConfig;
use podkeeper::testing::mapping::needs::Create;
use podkeeper::testing::pod::{DesiredPod, PodKey, Source};
use podkeeper::testing::probe::prober::News;
use podkeeper::testing::probe::schedule::{ProbeId, Schedule};
use podkeeper::testing::probe::{Kind, Outcome, Probing, Target, Watch};
use podkeeper::testing::runtime::docker::Endpoint;
use podkeeper::testing::runtime::fake::{EventNext, Rng, State as Engine};
use podkeeper::testing::runtime::{Call, DockerError, DockerState, Mount, Reply, labels, sandbox_image};
use podkeeper::testing::source::{FromSource, PodSet, SourceUpdate};
use podkeeper::testing::volumes::{Failure, Order, Report as VolumeReport};

use self::words::{decoded, is_volume, result_words, short, words};
use super::node::{self, Node};
use super::probes::Answers;
use super::sources::{self, Hub};

pub const ROOT: &str = "/var/lib/podkeeper";
pub const NODE: &str = "node1";
/// How long a call that gets no answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(10);
pub const RELIST: Duration = Duration::from_secs(60);
/// What the image of sandboxes is called: it is made anew at each call.
static SANDBOX_IMAGE: LazyLock<String> = LazyLock::new(sandbox_image::image_name);

pub struct World {
    pub seed: u64,
    pub rng: Rng,
    pub now: Mono,
    /// Seconds the wall clock is off; jumps.
    pub wall_offset: i64,
    pub engine: Engine,
    pub daemon: Option<Daemon>,
    /// Path -> manifest text. What the file source would read.
    pub files: BTreeMap<String, String>,
    /// The directory cannot be read.
    pub unreadable: bool,
    /// The marker of a drained node.
    drain: Option<Drain>,
    agenda: BTreeMap<(Mono, u64), Job>,
    next: u64,
    /// Counts daemons, so that nothing of a dead one reaches its successor.
    generation: u64,
    /// The story so far; `None` unless somebody wants to read it.
    trace: Option<Vec<String>>,
    /// Calls that stopped something that ran: when, its name, its id.
    pub kills: Vec<(Mono, String, String)>,
    /// What probes bring.
    pub answers: Answers,
    pub counts: Counts,
    /// Starts of containers that Docker carried out for the daemon, by UID and name, and what it told of them.
    pub starts: BTreeMap<(String, String), u64>,
    /// UIDs of pods that have a cgroup.
    pub cgroups: BTreeSet<String>,
    /// Those that workers of this daemon asked for.
    used_cgroups: BTreeSet<String>,
    pub told: BTreeMap<(String, String, String), u64>,
    /// The engine was restarted, with all that ran in it.
    pub engine_restarted: bool,
    /// `State::total_starts` when all running containers were last checked.
    checked: u64,
    /// UIDs of pods of which something is on the disk: it outlives daemons.
    pub disk: BTreeSet<String>,
    /// Those of them whose volumes are complete.
    volumes: BTreeSet<String>,
    /// Of what the disk does: its own, so that stories differ by nothing else.
    disk_rng: Rng,
    /// Until when orders about volumes may fail.
    pub disk_fails: Mono,
    /// Both sources with all that is theirs, in place of `files`.
    pub hub: Option<Hub>,
    /// What the node has, and its keeper.
    pub node: Option<Box<Node>>,
}

/// What happened how often.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Calls of workers.
    pub calls: u64,
    /// Among them: to create a container `app`.
    pub apps: u64,
    /// Lists of the event thread.
    pub lists: u64,
    /// Lists of workers.
    pub worker_lists: u64,
    /// Events of pods.
    pub events: u64,
    /// Lines of the daemon's log.
    pub logged: u64,
}

/// Something that will happen at a known time.
enum Job {
    /// A call reaches the engine.
    Arrive {
        generation: u64,
        key: PodKey,
        token: Token,
        call: Call,
    },
    /// The answer reaches the worker.
    Answer {
        generation: u64,
        key: PodKey,
        token: Token,
        answer: Box<Result<Reply, DockerError>>,
    },
    PullEnds {
        generation: u64,
        key: PodKey,
        request: PullRequest,
    },
    /// The worker's own deadline.
    Wake {
        generation: u64,
        key: PodKey,
    },
    /// A worker's order about volumes is carried out.
    Volumes {
        generation: u64,
        key: PodKey,
        order: Order,
    },
    /// The worker reads its mailbox.
    Read {
        generation: u64,
        key: PodKey,
    },
    Tick {
        generation: u64,
    },
    /// The event thread connects, lists, or polls its stream.
    Stream {
        generation: u64,
    },
    Scan {
        generation: u64,
    },
    /// A probe may be due.
    ProbeDue {
        generation: u64,
    },
    Probed {
        generation: u64,
        probe: ProbeId,
        outcome: Outcome,
    },
    /// What the node's keeper does; calls of it reach the engine though its daemon is dead.
    Keep {
        generation: u64,
        deed: node::Deed,
    },
    /// What the two sources of [`Hub`] do.
    Hub {
        generation: u64,
        deed: Deed,
    },
}

impl Job {
    /// It is on its way to the engine.
    fn is_a_call(&self) -> bool {
        matches!(self, Job::Arrive { .. } | Job::Keep { deed: node::Deed::Ask(_), .. })
    }
}

/// See [`Hub`].
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    /// The file source looks.
    Look,
    /// The URL source asks.
    Ask,
    /// The server has answered.
    Answered,
    /// The server had its head start.
    HeadStart,
}

pub struct Daemon {
    pub turn: Turn,
    workers: BTreeMap<PodKey, Worker>,
    cursor: Option<podkeeper::testing::runtime::fake::Cursor>,
    listed_at: Mono,
    last_files: Option<BTreeMap<String, String>>,
    settings: Arc<Settings>,
    /// The daemon's own; only what is asked, and the answers, are this world's.
    probes: Schedule,
    /// When the agenda has [`Job::ProbeDue`].
    probe_due: Option<Mono>,
}

struct Worker {
    machine: Machine,
    slot: Slot,
    wake: Option<Mono>,
}

pub fn config() -> Config {
    let labels =
        [("kubernetes.io/hostname", NODE), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")];
    Config {
        node_name: NODE.into(),
        node_labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        root_dir: ROOT.into(),
        run_dir: "/run/podkeeper".into(),
        docker: Endpoint::Fake,
        sources: Sources {
            manifest_path: Some("/m".into()),
            file_check_frequency: Duration::from_secs(20),
            ..Sources::default()
        },
        sync_frequency: RELIST,
        runs_once: false,
        policy: Default::default(),
        images: Default::default(),
        pod_logs_dir: "/var/log/pods".into(),
        network: Default::default(),
        dead: Default::default(),
        logs: podkeeper::testing::mapping::LogSettings {
            driver: Default::default(),
            max_bytes: None,
            max_files: 5,
        },
        node: Default::default(),
        cluster: None,
        certificates: None,
        eviction: podkeeper::testing::eviction::threshold::Settings::none(),
        server: podkeeper::testing::server::Settings::default(),
        api: None,
    }
}

impl World {
    pub fn new(seed: u64, traced: bool) -> World {
        let mut engine = Engine::new(seed);
        engine.add_image("busybox:static", true);
        World {
            seed,
            rng: Rng::new(seed ^ 0x5eed),
            now: Mono::default(),
            wall_offset: 0,
            engine,
            daemon: None,
            files: BTreeMap::new(),
            unreadable: false,
            drain: None,
            agenda: BTreeMap::new(),
            next: 0,
            generation: 0,
            trace: traced.then(Vec::new),
            kills: Vec::new(),
            answers: Answers::default(),
            counts: Counts::default(),
            starts: BTreeMap::new(),
            cgroups: BTreeSet::new(),
            used_cgroups: BTreeSet::new(),
            told: BTreeMap::new(),
            engine_restarted: false,
            checked: 0,
            disk: BTreeSet::new(),
            volumes: BTreeSet::new(),
            disk_rng: Rng::new(seed),
            disk_fails: Mono::default(),
            hub: None,
            node: None,
        }
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.rng.number() % n.max(1)
    }

    pub fn now(&self) -> Now {
        let seconds = 1_795_000_000 + self.wall_offset + i64::try_from(self.now.0.as_secs()).unwrap();
        let nanos = i32::try_from(self.now.0.subsec_nanos()).unwrap();
        Now { mono: self.now, wall: Timestamp::new(seconds, nanos).unwrap_or(Timestamp::UNIX_EPOCH) }
    }

    /// Adds a line to the story, if there is one.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>10.3} {}", self.now.0.as_secs_f64(), line()));
        }
    }

    fn later(&mut self, after: Duration, job: Job) {
        self.agenda.insert((self.now.after(after), self.next), job);
        self.next += 1;
    }

    // --- the daemon ---------------------------------------------------------------------------------

    pub fn start_daemon(&mut self) {
        self.generation += 1;
        self.used_cgroups.clear();
        let generation = self.generation;
        let cgroups = Parents::default();
        cgroups.set(Naming::new(Driver::Cgroupfs, ""));
        let settings = Arc::new(Settings {
            map: MapConfig {
                root_dir: ROOT.into(),
                oom_floor: 0,
                infra_image: SANDBOX_IMAGE.clone(),
                node_memory: 1 << 30,
                logs: podkeeper::testing::mapping::LogSettings {
                    driver: Default::default(),
                    max_bytes: Some(1 << 20),
                    max_files: 5,
                },
                node_name: "node".into(),
                network: podkeeper::testing::network::NetworkConfig::default(),
                policies: Default::default(),
            },
            boot: Boot { id: "boot".into(), began: Duration::from_secs(60) },
            builtin_sandbox: true,
            allocatable: podkeeper::testing::pod::allocatable::Allocatable::default(),
            cgroups,
            recursive_mounts: Arc::default(),
            grants: Arc::default(),
            pod_pids: None,
            dead: Default::default(),
        });
        let mut config = config();
        config.sources.manifest_url = self.hub.as_ref().map(|_| sources::settings());
        self.daemon = Some(Daemon {
            turn: Turn::new(Arc::new(config)),
            workers: BTreeMap::new(),
            cursor: None,
            listed_at: Mono::default(),
            last_files: None,
            settings,
            probes: Schedule::new(self.seed),
            probe_due: None,
        });
        self.answers.forget();
        self.note(|| "daemon starts".into());
        self.event(Event::Drain(self.drain.clone()));
        self.later(Duration::ZERO, Job::Stream { generation });
        self.look_at_sources();
        self.keeper_begins();
    }

    /// A daemon begins, or got a signal.
    fn look_at_sources(&mut self) {
        let generation = self.generation;
        let Some(hub) = &mut self.hub else {
            self.later(Duration::ZERO, Job::Scan { generation });
            return;
        };
        hub.boot();
        self.deed(Duration::ZERO, Deed::Look);
        self.deed(Duration::ZERO, Deed::Ask);
        self.deed(limits::RESTORE_HEAD_START, Deed::HeadStart);
    }

    /// What a source of the daemon that runs now does later.
    pub fn deed(&mut self, after: Duration, deed: Deed) {
        let generation = self.generation;
        self.later(after, Job::Hub { generation, deed });
    }

    /// kill -9: everything in memory is gone; calls on their way may or may not still be carried out.
    pub fn kill_daemon(&mut self) {
        self.note(|| "daemon dies".into());
        self.daemon = None;
        self.generation += 1;
        let on_their_way: Vec<_> =
            self.agenda.iter().filter(|(_, job)| job.is_a_call()).map(|(k, _)| *k).collect();
        for at in on_their_way {
            if self.below(2) == 0 {
                self.agenda.remove(&at);
            }
        }
    }

    /// What the keeper of the daemon that runs now does later.
    pub fn keep(&mut self, after: Duration, deed: node::Deed) {
        let generation = self.generation;
        self.later(after, Job::Keep { generation, deed });
    }

    /// The marker of a drained node becomes this, and the daemon, if there is one, hears of it.
    pub fn marker(&mut self, drain: Option<Drain>) {
        self.note(|| format!("the marker is {drain:?}"));
        self.drain.clone_from(&drain);
        self.event(Event::Drain(drain));
    }

    /// How many daemons there were, deaths counted too.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The source looks now (an inotify hint).
    pub fn hint_files(&mut self) {
        let generation = self.generation;
        self.later(Duration::from_millis(2), Job::Scan { generation });
    }

    pub fn desired(&self) -> Vec<Arc<DesiredPod>> {
        let mut pods = Vec::new();
        for (path, text) in &self.files {
            pods.push(decoded(path, text));
        }
        pods
    }

    /// The pods that the daemon has read last.
    pub fn known(&self) -> Vec<Arc<DesiredPod>> {
        let files = self.daemon.as_ref().and_then(|daemon| daemon.last_files.as_ref());
        files.into_iter().flatten().map(|(path, text)| decoded(path, text)).collect()
    }

    pub fn event(&mut self, event: Event) {
        let now = self.now();
        if let Event::Happened(event) = &event {
            self.note(|| {
                format!("event {} {:?} {}: {}", event.of, event.subject, event.reason, event.message)
            });
            let container = event.subject.as_ref().map(|s| s.name.clone()).unwrap_or_default();
            let key = (event.uid.clone(), container, event.reason.clone().into_owned());
            *self.told.entry(key).or_default() += 1;
            self.counts.events += 1;
        }
        let Some(daemon) = self.daemon.as_mut() else { return };
        let effects = daemon.turn.handle(event, &now);
        for effect in effects {
            self.effect(effect);
        }
        let due = self.daemon.as_ref().and_then(|d| d.turn.next_due());
        if let Some(at) = due {
            let generation = self.generation;
            self.later(at.since(self.now), Job::Tick { generation });
        }
    }

    fn effect(&mut self, effect: Effect) {
        let (generation, now) = (self.generation, self.now());
        let daemon = self.daemon.as_mut().unwrap();
        match effect {
            Effect::Spawn { key, found } => {
                let mut machine = Machine::new(key.clone(), Arc::clone(&daemon.settings));
                if let Some(found) = found {
                    machine.handle(Input::Found(found), &now);
                }
                let worker = Worker { machine, slot: Slot::default(), wake: None };
                assert!(daemon.workers.insert(key, worker).is_none(), "a worker is spawned twice");
            }
            Effect::Wish(key, wish) => {
                daemon.workers.get_mut(&key).expect("a wish for a worker that is not there").slot.wish(wish);
                let delay = Duration::from_micros(self.below(2000));
                self.later(delay, Job::Read { generation, key });
            }
            Effect::Hint(key, hint) => {
                daemon.workers.get_mut(&key).expect("a hint for a worker that is not there").slot.hint(hint);
                let delay = Duration::from_micros(self.below(2000));
                self.later(delay, Job::Read { generation, key });
            }
            Effect::Objects(key, objects) => {
                let worker = daemon.workers.get_mut(&key).expect("objects for a worker that is not there");
                worker.slot.objects(objects);
                let delay = Duration::from_micros(self.below(2000));
                self.later(delay, Job::Read { generation, key });
            }
            Effect::Retire(key) => {
                daemon.workers.remove(&key);
                daemon.probes.set(&key, &[], self.now);
            }
            Effect::Sweep(keep) => {
                let used = &self.used_cgroups;
                self.cgroups.retain(|uid| keep.pods.contains(uid) || used.contains(uid));
                self.disk.retain(|uid| keep.pods.contains(uid));
            }
            Effect::Rescan => self.later(Duration::ZERO, Job::Scan { generation }),
            Effect::Log(level, line) => self.log(level, &line),
        }
    }

    fn log(&mut self, level: log::Level, line: &str) {
        self.counts.logged += 1;
        self.note(|| format!("{level} {line}"));
    }

    /// What is known of the pods, by name.
    pub fn statuses(&self) -> BTreeMap<String, Arc<PodStatus>> {
        let snapshot = self.daemon.as_ref().unwrap().turn.snapshot(&self.now());
        snapshot.pods.into_iter().map(|view| (view.pod.key.name.clone(), view.status)).collect()
    }

    // --- what happens -------------------------------------------------------------------------------

    /// The story, if it was written.
    pub fn story(&self) -> String {
        self.trace.as_deref().unwrap_or_default().join("\n")
    }
}
