//! The simulated world: one engine, one daemon at a time (the turn and the machines, without threads),
//! and a clock that only this file moves. Everything follows from the seed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use podkeeper::testing::base::clock::{Boot, Mono, Now, Timestamp};
use podkeeper::testing::base::limits;
use podkeeper::testing::cgroup::{self, Driver, Naming, Parents};
use podkeeper::testing::daemon::config::Config;
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
    /// What the two sources of [`Hub`] do.
    Hub {
        generation: u64,
        deed: Deed,
    },
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
        manifest_path: Some("/m".into()),
        verifier: None,
        last_good_key_file: None,
        file_check_frequency: Duration::from_secs(20),
        manifest_url: None,
        sync_frequency: RELIST,
        infra_image: None,
        policy: Default::default(),
        pull_pace: Default::default(),
        image_preload_dir: None,
        pod_logs_dir: "/var/log/pods".into(),
        network: Default::default(),
        log_limits: podkeeper::testing::mapping::LogLimits { max_bytes: None, max_files: 5 },
        node: Default::default(),
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
                logs: podkeeper::testing::mapping::LogLimits { max_bytes: Some(1 << 20), max_files: 5 },
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
        });
        let mut config = config();
        config.manifest_url = self.hub.as_ref().map(|_| sources::settings());
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
            self.agenda.iter().filter(|(_, j)| matches!(j, Job::Arrive { .. })).map(|(k, _)| *k).collect();
        for at in on_their_way {
            if self.below(2) == 0 {
                self.agenda.remove(&at);
            }
        }
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

    pub fn event(&mut self, event: Event) {
        let now = self.now();
        if let Event::Happened(event) = &event {
            self.note(|| {
                format!("event {} {:?} {}: {}", event.pod.name, event.subject, event.reason, event.message)
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

    fn step_worker(&mut self, key: &PodKey, answer: Option<(Token, Result<Reply, DockerError>)>) {
        let now = self.now();
        let generation = self.generation;
        let Some(worker) = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key)) else { return };
        let inbox = worker.slot.take();
        let answer = answer.map(|(token, answer)| Input::Reply(token, answer));
        inbox.inputs().chain(answer).for_each(|input| worker.machine.handle(input, &now));
        let step = worker.machine.step(&now);
        worker.wake = step.wake;
        if let Some(at) = step.wake {
            self.later(at.since(self.now), Job::Wake { generation, key: key.clone() });
        }
        for output in step.out {
            self.judge_volumes(&output);
            match output {
                Output::Create(token, Create { name, body, .. }) => {
                    let delay = Duration::from_micros(200 + self.below(3000));
                    let call = Call::Create { name, body };
                    self.later(delay, Job::Arrive { generation, key: key.clone(), token, call });
                }
                Output::Call(token, call) => {
                    let delay = Duration::from_micros(200 + self.below(3000));
                    self.later(delay, Job::Arrive { generation, key: key.clone(), token, call });
                }
                Output::Pull(request) => {
                    let delay = Duration::from_millis(50 + self.below(3000));
                    self.later(delay, Job::PullEnds { generation, key: key.clone(), request });
                }
                // There is no preload directory in this world.
                Output::Missing(_) => {}
                Output::Watch(watch) => self.watch(key, &watch),
                Output::Event(event) => self.event(Event::Happened(event)),
                Output::Volumes(order) => self.volumes(key, order),
                // Nor a disk: nobody's last words are in a file.
                Output::ReadMessage { id, .. } => {
                    let worker = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key));
                    if let Some(worker) = worker {
                        worker.machine.handle(Input::Message { id, read: Ok(String::new()) }, &now);
                    }
                    self.later(Duration::ZERO, Job::Read { generation, key: key.clone() });
                }
                Output::ForgetMessage(_) | Output::Hosts(..) | Output::ForgetPod(_) | Output::Network => {}
                Output::AskAddresses => {
                    let worker = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key));
                    if let Some(worker) = worker {
                        worker.machine.handle(Input::Addresses(vec!["192.0.2.2".to_owned()]), &now);
                    }
                    self.later(Duration::ZERO, Job::Read { generation, key: key.clone() });
                }
                Output::Logs(_) => {}
                Output::Cgroup(pod) => {
                    self.note(|| format!("cgroup {}", pod.uid));
                    self.used_cgroups.insert(pod.uid.clone());
                    self.cgroups.insert(pod.uid.clone());
                    let runs = self.engine.containers().filter(|c| c.state == DockerState::Running);
                    let of_it = runs.filter(|c| c.body.labels.get(labels::POD_UID) == Some(&pod.uid));
                    let inside = of_it.map(|c| c.id.clone()).collect();
                    self.cgroup_told(
                        key,
                        cgroup::Report::Ensured { pod, moved: None, inside, result: Ok(()) },
                    );
                }
                Output::DropCgroup(uid) => {
                    self.note(|| format!("cgroup {uid} is removed"));
                    self.used_cgroups.remove(&uid);
                    self.cgroups.remove(&uid);
                    self.cgroup_told(key, cgroup::Report::Removed { uid, result: Ok(()) });
                }
                Output::Report(report) => self.event(Event::Worker { key: key.clone(), report }),
                Output::Log(level, line) => self.log(level, &line),
            }
        }
    }

    fn cgroup_told(&mut self, key: &PodKey, report: cgroup::Report) {
        if let Some(worker) = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key)) {
            worker.slot.cgroup(report);
        }
        self.later(Duration::ZERO, Job::Read { generation: self.generation, key: key.clone() });
    }

    /// It takes its time, and begins at once: a daemon may die in the middle.
    fn volumes(&mut self, key: &PodKey, order: Order) {
        match &order {
            Order::SetUp(order) => _ = self.disk.insert(order.pod.uid.clone()),
            Order::TearDown { uid } => _ = self.volumes.remove(uid),
        }
        let (generation, delay) =
            (self.generation, Duration::from_micros(200 + self.disk_rng.number() % 20_000));
        self.later(delay, Job::Volumes { generation, key: key.clone(), order });
    }

    fn volumes_done(&mut self, key: &PodKey, order: Order) {
        let fails = self.now < self.disk_fails && self.disk_rng.number().is_multiple_of(8);
        let told = match order {
            Order::SetUp(order) if fails => {
                let why = "no space left on device".to_owned();
                let failed = vec![Failure { volume: "v".to_owned(), why, usable: false }];
                VolumeReport::SetUp { uid: order.pod.uid.clone(), failed }
            }
            Order::SetUp(order) => {
                self.volumes.insert(order.pod.uid.clone());
                VolumeReport::SetUp { uid: order.pod.uid.clone(), failed: Vec::new() }
            }
            Order::TearDown { uid } if fails => {
                VolumeReport::TornDown { uid, result: Err("device or resource busy".to_owned()) }
            }
            Order::TearDown { uid } => {
                self.disk.remove(&uid);
                VolumeReport::TornDown { uid, result: Ok(()) }
            }
        };
        if let Some(worker) = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key)) {
            worker.slot.volumes(told);
        }
        self.step_worker(key, None);
    }

    /// What a machine orders fits what is there: no container without its volumes, no volume taken from under
    /// a container.
    fn judge_volumes(&self, output: &Output) {
        match output {
            Output::Create(_, Create { body, .. }) if body.host_config.mounts.iter().any(is_volume) => {
                let uid = body.labels.get(labels::POD_UID).unwrap();
                assert!(self.volumes.contains(uid), "a container is made before its volumes are there");
            }
            Output::Volumes(Order::TearDown { uid }) => {
                let runs = self.engine.containers().any(|c| {
                    c.state == DockerState::Running && c.body.labels.get(labels::POD_UID) == Some(uid)
                });
                assert!(!runs, "volumes are taken down while {uid} runs");
            }
            _ => {}
        }
    }

    fn check_disk(&self) {
        let wanted: BTreeSet<String> = self.desired().into_iter().map(|pod| pod.uid.clone()).collect();
        assert!(self.disk.is_subset(&wanted), "left on the disk: {:?}", self.disk.difference(&wanted));
    }

    fn watch(&mut self, key: &PodKey, watch: &Watch) {
        assert!(watch.hooks.is_empty(), "no manifest of this world has hooks");
        self.daemon.as_mut().unwrap().probes.set(key, &watch.targets, self.now);
        self.plan_probe();
    }

    fn plan_probe(&mut self) {
        let generation = self.generation;
        let Some(daemon) = self.daemon.as_mut() else { return };
        let Some(at) = daemon.probes.next_due().map(|at| at.max(self.now)) else { return };
        if daemon.probe_due.is_none_or(|planned| at < planned) {
            daemon.probe_due = Some(at);
            self.later(at.since(self.now), Job::ProbeDue { generation });
        }
    }

    /// Asks what is due. What does not run gives no answer but an error.
    fn ask_probes(&mut self) {
        let (now, generation, seed) = (self.now, self.generation, self.seed);
        let daemon = self.daemon.as_mut().unwrap();
        if daemon.probe_due.take_if(|at| *at <= now).is_none() {
            return;
        }
        let mut asked = Vec::new();
        while let Some(probe) = daemon.probes.take_due(now) {
            let (target, probing) = daemon.probes.question(probe).unwrap();
            let kind = kind_of(target, probing);
            self.answers.ask(target, kind);
            let runs = self.engine.get(&target.id).is_some_and(|c| c.state == DockerState::Running);
            asked.push(if runs {
                let (outcome, takes) = self.answers.draw(&mut self.rng, kind, &target.container, seed);
                (takes, probe, outcome)
            } else {
                (Duration::from_millis(1), probe, Outcome::unknown("it does not run"))
            });
        }
        for (takes, probe, outcome) in asked {
            self.later(takes, Job::Probed { generation, probe, outcome });
        }
        self.plan_probe();
    }

    /// An answer comes to the schedule, and what follows from it to the worker.
    fn probed(&mut self, probe: ProbeId, outcome: &Outcome) {
        let (now, generation) = (self.now, self.generation);
        let daemon = self.daemon.as_mut().unwrap();
        // `None`: nobody wants to know any more.
        let Some((target, probing)) = daemon.probes.question(probe) else { return };
        let kind = kind_of(target, probing);
        self.answers.count(target, kind, &probing.timing, outcome);
        let finished = daemon.probes.finished(probe, outcome, now);
        if let Some(changed) = finished.changed {
            let worker = daemon.workers.get_mut(&changed.key).expect("a probe of a worker that is not there");
            let verdict = changed.verdict;
            worker.slot.news(News::Probed { id: changed.id.clone(), kind, verdict });
            let key = changed.key;
            self.note(|| format!("probe {} {} {kind:?}: {verdict:?}", key.name, short(&changed.id)));
            let delay = Duration::from_micros(self.below(2000));
            self.later(delay, Job::Read { generation, key });
        }
        self.plan_probe();
    }

    /// What is known of the pods, by name.
    pub fn statuses(&self) -> BTreeMap<String, Arc<PodStatus>> {
        let snapshot = self.daemon.as_ref().unwrap().turn.snapshot(&self.now());
        snapshot.pods.into_iter().map(|view| (view.pod.key.name.clone(), view.status)).collect()
    }

    // --- what happens -------------------------------------------------------------------------------

    /// Lets time pass. Returns at `until`, or when `stop` says so after an event.
    pub fn run_until(&mut self, until: Mono) {
        let mut steps = 0u64;
        loop {
            let next = self.agenda.keys().next().map(|(at, _)| *at).filter(|at| *at <= until);
            let due = self.engine.next_due().filter(|at| *at <= until);
            let Some(at) = [next, due].into_iter().flatten().min() else { break };
            self.now = self.now.max(at);
            let now = self.now();
            self.engine.advance(now);
            self.drain_events();
            if next == Some(at) {
                let (_, job) = self.agenda.pop_first().unwrap();
                self.happen(job);
                self.drain_events();
            }
            // Also what is carried out late, behind everybody's back.
            if self.engine.total_starts() != self.checked {
                self.checked = self.engine.total_starts();
                self.check_always();
            }
            steps += 1;
            assert!(steps < 400_000, "the world does not come to rest");
        }
        self.now = self.now.max(until);
        let now = self.now();
        self.engine.advance(now);
    }

    fn happen(&mut self, job: Job) {
        match job {
            Job::Arrive { generation, key, token, call } => {
                let now = self.now();
                self.judge(&call);
                self.judge_stop(&call);
                let before = self.starts_of(&call);
                let result = self.engine.perform(&call, now);
                let after = self.starts_of(&call);
                if let Some((key, starts)) = after.filter(|after| before.as_ref().is_some_and(|b| b != after))
                {
                    *self.starts.entry(key).or_default() += u64::from(starts > 0);
                }
                self.note(|| format!("call {} {} -> {}", key.name, words(&call), result_words(&result)));
                if generation != self.generation {
                    return;
                }
                let delay = match &result {
                    Err(DockerError::Timeout(_)) => TIMEOUT,
                    _ if matches!(call, Call::Start { .. }) => Duration::from_millis(60 + self.below(150)),
                    _ => Duration::from_micros(300 + self.below(9000)),
                };
                let answer = Box::new(result);
                self.later(delay, Job::Answer { generation, key, token, answer });
            }
            Job::Answer { generation, key, token, answer } if generation == self.generation => {
                self.step_worker(&key, Some((token, *answer)));
            }
            Job::PullEnds { generation, key, request } if generation == self.generation => {
                let now = self.now();
                let result = if request.builtin {
                    self.engine.load(&sandbox_image::image_tar(), now).map(drop)
                } else {
                    self.engine.pull(&request.image, now).map(drop)
                };
                let outcome = match result {
                    Ok(()) => PullOutcome::Done,
                    Err(error) => PullOutcome::Failed(error.to_string()),
                };
                self.note(|| format!("pull {} -> {outcome:?}", request.image));
                let pulled = Pulled { image: request.image, outcome, took: Duration::ZERO, size: None };
                if let Some(worker) = self.daemon.as_mut().and_then(|d| d.workers.get_mut(&key)) {
                    worker.slot.pulled(pulled);
                }
                self.step_worker(&key, None);
            }
            Job::Wake { generation, key } if generation == self.generation => {
                let due = self.daemon.as_ref().and_then(|d| d.workers.get(&key)).and_then(|w| w.wake);
                if due.is_some_and(|at| at <= self.now) {
                    self.step_worker(&key, None);
                }
            }
            Job::Read { generation, key } if generation == self.generation => self.step_worker(&key, None),
            Job::Volumes { generation, key, order } if generation == self.generation => {
                self.volumes_done(&key, order);
            }
            Job::Tick { generation } if generation == self.generation => self.event(Event::Tick),
            Job::Stream { generation } if generation == self.generation => self.stream(),
            Job::Scan { generation } if generation == self.generation => self.scan(),
            Job::Hub { generation, deed } if generation == self.generation => match deed {
                Deed::Look => self.look(),
                Deed::Ask => self.ask(),
                Deed::Answered => self.answered(),
                Deed::HeadStart => self.head_start_ends(),
            },
            Job::ProbeDue { generation } if generation == self.generation => self.ask_probes(),
            Job::Probed { generation, probe, outcome } if generation == self.generation => {
                self.probed(probe, &outcome);
            }
            _ => {}
        }
    }

    fn scan(&mut self) {
        let generation = self.generation;
        self.later(Duration::from_secs(20), Job::Scan { generation });
        let update = if self.unreadable {
            SourceUpdate::Failed("the directory cannot be read".into())
        } else {
            let unchanged = self.daemon.as_ref().is_some_and(|d| d.last_files.as_ref() == Some(&self.files));
            if unchanged {
                return;
            }
            let pods = self.desired();
            let files = self.files.clone();
            self.daemon.as_mut().unwrap().last_files = Some(files);
            SourceUpdate::Full(PodSet { pods, ..PodSet::default() })
        };
        self.event(Event::Source(FromSource { source: Source::File, update }));
    }

    /// The event thread: subscribe, then list; list again after a minute; begin again when it ends.
    fn stream(&mut self) {
        let generation = self.generation;
        let now = self.now();
        let again = Duration::from_millis(500);
        let due =
            self.daemon.as_ref().is_some_and(|d| d.cursor.is_none() || now.mono.since(d.listed_at) >= RELIST);
        if !due {
            self.later(RELIST / 4, Job::Stream { generation });
            return;
        }
        if self.daemon.as_ref().is_some_and(|d| d.cursor.is_none()) {
            match self.engine.subscribe(None) {
                Ok(cursor) => self.daemon.as_mut().unwrap().cursor = Some(cursor),
                Err(error) => {
                    self.event(Event::Runtime(RuntimeEvent::Lost(error.to_string())));
                    self.later(again, Job::Stream { generation });
                    return;
                }
            }
        }
        let call = Call::List { labels: vec![format!("{}={ROOT}", labels::ROOT_DIR)] };
        self.counts.lists += 1;
        match self.engine.perform(&call, now) {
            Ok(Reply::Containers(containers)) => {
                self.daemon.as_mut().unwrap().listed_at = now.mono;
                self.event(Event::Runtime(RuntimeEvent::Listed { containers, version: Some("fake".into()) }));
                self.later(RELIST / 4, Job::Stream { generation });
            }
            other => {
                self.daemon.as_mut().unwrap().cursor = None;
                self.event(Event::Runtime(RuntimeEvent::Lost(format!("{:?}", other.err()))));
                self.later(again, Job::Stream { generation });
            }
        }
    }

    fn drain_events(&mut self) {
        loop {
            let Some(cursor) = self.daemon.as_mut().and_then(|d| d.cursor.as_mut()) else { return };
            match self.engine.next_event(cursor) {
                EventNext::Idle => return,
                EventNext::End(why) => {
                    self.daemon.as_mut().unwrap().cursor = None;
                    self.event(Event::Runtime(RuntimeEvent::Lost(why)));
                    let generation = self.generation;
                    self.later(Duration::from_millis(250), Job::Stream { generation });
                }
                EventNext::Event(event) => {
                    let hint = match event.action.as_str() {
                        "create" => Hint::Made(event.id.clone()),
                        "start" => Hint::Started(event.id.clone()),
                        "die" => Hint::Changed(event.id.clone()),
                        "oom" => Hint::OutOfMemory(event.id.clone()),
                        "destroy" => Hint::Removed(event.id.clone()),
                        _ => continue,
                    };
                    let of = |label: &str| event.labels.get(label).cloned();
                    if of(labels::ROOT_DIR).as_deref() != Some(ROOT) {
                        continue;
                    }
                    let (Some(namespace), Some(name)) = (of(labels::POD_NAMESPACE), of(labels::POD_NAME))
                    else {
                        continue;
                    };
                    let key = PodKey { namespace, name };
                    self.note(|| format!("event {} {}", event.action, short(&event.id)));
                    self.event(Event::Runtime(RuntimeEvent::Changed { key, hint }));
                }
            }
        }
    }

    /// Counts, and notes which calls take down what runs.
    fn judge(&mut self, call: &Call) {
        self.counts.calls += 1;
        self.counts.worker_lists += u64::from(matches!(call, Call::List { .. }));
        self.counts.apps +=
            u64::from(matches!(call, Call::Create { name, .. } if name.starts_with("k8s_app_")));
        let victim = match call {
            Call::Kill { id, .. } | Call::Remove { id, force: true } => self.engine.get(id),
            _ => None,
        };
        if let Some(victim) = victim.filter(|c| c.state == DockerState::Running) {
            let (name, id) = (victim.name.clone(), victim.id.clone());
            let sandbox = victim.body.labels.get(labels::SANDBOX_ID).and_then(|of| self.engine.get(of));
            if sandbox.is_some_and(|s| s.state == DockerState::Running) {
                self.answers.judge_kill(&name, &id);
            }
            self.kills.push((self.now, name, id));
        }
    }

    // --- what must hold -----------------------------------------------------------------------------

    /// Invariant 1, after every call and death: one live set of containers for each identity.
    pub fn check_always(&self) {
        let mut uids: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        let mut names: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
        for c in self.engine.containers().filter(|c| c.state == DockerState::Running) {
            let label = |key: &str| c.body.labels.get(key).map_or("", String::as_str);
            if label(labels::ROOT_DIR) != ROOT {
                continue;
            }
            let key = (label(labels::POD_NAMESPACE), label(labels::POD_NAME));
            let name = (key.0, key.1, label(labels::CONTAINER_NAME));
            assert!(names.insert(name), "two of {name:?} run at once");
            let uid = label(labels::POD_UID);
            let other = uids.insert(key, uid);
            assert!(other.is_none_or(|o| o == uid), "two lives of {key:?} at once");
        }
    }

    /// UID, name and starts of the container that this call starts; `None` for sandboxes too.
    fn starts_of(&self, call: &Call) -> Option<((String, String), u32)> {
        let Call::Start { id } = call else { return None };
        let c = self.engine.containers().find(|c| c.id == *id)?;
        let label = |key: &str| c.body.labels.get(key).cloned();
        Some(((label(labels::POD_UID)?, label(labels::CONTAINER_NAME)?), c.starts))
            .filter(|((_, name), _)| name != labels::SANDBOX_NAME)
    }

    /// Each start was told, with the making before it; and what is kept is bounded.
    pub fn check_events(&self, exactly: bool) {
        for ((uid, name), starts) in &self.starts {
            let told = |reason: &str| {
                let key = (uid.clone(), name.clone(), reason.to_owned());
                self.told.get(&key).copied().unwrap_or_default()
            };
            let (created, started) = (told("Created"), told("Started"));
            assert!(started >= *starts, "{name} of {uid}: {starts} starts, {started} told");
            assert!(created >= started, "{name} of {uid}: {created} made, {started} started");
            if exactly {
                assert_eq!(
                    (created, started, told("Pulled")),
                    (*starts, *starts, *starts),
                    "{name} of {uid}"
                );
            }
        }
    }

    /// What the daemon keeps of all that has happened is bounded.
    pub fn check_ring(&self) -> usize {
        let Some(daemon) = &self.daemon else { return 0 };
        let kept = daemon.turn.events();
        assert!(kept.len() <= limits::EVENTS);
        for (at, one) in kept.iter().enumerate() {
            assert!(!kept.iter().skip(at + 1).any(|other| other.event == one.event), "{one:?} is kept twice");
        }
        kept.len()
    }

    /// Ids of our running containers, by Docker name.
    pub fn running(&self) -> BTreeMap<String, String> {
        let ours = self.engine.containers().filter(|c| {
            c.state == DockerState::Running && c.body.labels.get(labels::ROOT_DIR).is_some_and(|r| r == ROOT)
        });
        ours.map(|c| (c.name.clone(), c.id.clone())).collect()
    }

    /// At rest: exactly what the files name runs, and the dead are few.
    pub fn check_at_rest(&self) {
        self.check_ring();
        self.check_disk();
        let mut wanted: BTreeSet<(String, String, String)> = BTreeSet::new();
        let mut taken: BTreeSet<PodKey> = BTreeSet::new();
        for pod in self.desired() {
            if !taken.insert(pod.key.clone()) {
                continue;
            }
            let base = |name: &str| (pod.key.to_string(), pod.uid.clone(), name.to_owned());
            wanted.insert(base("POD"));
            wanted.extend(pod.spec.containers.iter().map(|c| base(&c.name)));
            let sidecars = pod.init_containers().iter().filter(|c| c.restart_policy.is_some());
            wanted.extend(sidecars.map(|c| base(&c.name)));
        }
        let mut running: BTreeSet<(String, String, String)> = BTreeSet::new();
        let mut dead: BTreeMap<(String, String), u32> = BTreeMap::new();
        for c in self.engine.containers() {
            let label = |key: &str| c.body.labels.get(key).cloned().unwrap_or_default();
            if label(labels::ROOT_DIR) != ROOT {
                continue;
            }
            let key = format!("{}/{}", label(labels::POD_NAMESPACE), label(labels::POD_NAME));
            let name = label(labels::CONTAINER_NAME);
            match c.state {
                DockerState::Running => _ = running.insert((key, label(labels::POD_UID), name)),
                // What Docker itself refuses to remove is not counted.
                DockerState::Exited | DockerState::Created if !self.engine.refuses_removal(&c.id) => {
                    *dead.entry((key, name)).or_default() += 1;
                }
                _ => {}
            }
        }
        assert_eq!(wanted, running, "what is wanted, and what runs");
        let uids: BTreeSet<&String> = running.iter().map(|(_, uid, _)| uid).collect();
        let without: Vec<_> = uids.iter().filter(|uid| !self.cgroups.contains(**uid)).collect();
        assert!(without.is_empty(), "run without a cgroup: {without:?}");
        let crowd = dead.iter().find(|(_, n)| **n > 1);
        assert!(crowd.is_none(), "too many dead {crowd:?}");
    }

    /// The story, if it was written.
    pub fn story(&self) -> String {
        self.trace.as_deref().unwrap_or_default().join("\n")
    }
}

/// Which probe of the target this is.
fn kind_of(target: &Target, probing: &Probing) -> Kind {
    let this = |kind: &Kind| target.probe(*kind).is_some_and(|of| std::ptr::eq(&**of, probing));
    Kind::ALL.into_iter().find(this).expect("a probe that its target does not have")
}

/// The pod of a manifest. The same few manifests are read again and again: decoded once.
fn decoded(path: &str, text: &str) -> Arc<DesiredPod> {
    thread_local! {
        static DECODED: RefCell<BTreeMap<String, Arc<DesiredPod>>> = const { RefCell::new(BTreeMap::new()) };
    }
    let both = format!("{path}\n{text}");
    DECODED.with_borrow_mut(|all| {
        let pod = all.entry(both).or_insert_with(|| {
            let context = Context { node_name: NODE, source: Source::File, path };
            let decoded = manifest::decode(text.as_bytes(), &context);
            assert!(decoded.is_good(), "{:?}", decoded.problems);
            decoded.pods.into_iter().next().expect("a pod in each manifest")
        });
        Arc::clone(pod)
    })
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

fn words(call: &Call) -> String {
    match call {
        Call::Create { name, .. } => format!("create {name}"),
        Call::Start { id } => format!("start {}", short(id)),
        Call::Kill { id, signal } => format!("kill {} {signal}", short(id)),
        Call::Remove { id, .. } => format!("remove {}", short(id)),
        Call::Inspect { id } => format!("inspect {}", id.get(..40).map_or(id.as_str(), |_| short(id))),
        Call::List { .. } => "list".into(),
        other => format!("{other:?}").chars().take(40).collect(),
    }
}

fn result_words(result: &Result<Reply, DockerError>) -> String {
    match result {
        Ok(Reply::Created { id, .. }) => format!("created {}", short(id)),
        Ok(Reply::Container(c)) => format!("{:?} {}", c.state, c.exit_code),
        Ok(Reply::Containers(list)) => format!("{} containers", list.len()),
        Ok(other) => format!("{other:?}").chars().take(30).collect(),
        Err(error) => format!("{error:?}").chars().take(110).collect(),
    }
}

fn is_volume(mount: &Mount) -> bool {
    mount.source.contains("/volumes/")
}
