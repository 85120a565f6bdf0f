//! The daemon of the world: its start, its death, and the orders of its main loop.

use podkeeper::testing::node::Node;
use podkeeper::testing::pod::allocatable::Allocatable;

use super::*;

pub struct Daemon {
    pub turn: Turn,
    pub(super) workers: BTreeMap<PodKey, Worker>,
    pub(super) cursor: Option<podkeeper::testing::runtime::fake::Cursor>,
    pub image_cursor: Option<podkeeper::testing::runtime::fake::Cursor>,
    pub(super) listed_at: Mono,
    pub(super) last_files: Option<BTreeMap<String, String>>,
    settings: Arc<Settings>,
    node: NodeFacts,
    /// The daemon's own schedule; only the probing and the answers are this world's.
    pub(super) probes: Schedule,
    /// Time of the [`Job::ProbeDue`] in the agenda.
    pub(super) probe_due: Option<Mono>,
}

pub(super) struct Worker {
    pub(super) machine: Machine,
    pub(super) slot: Slot,
    pub(super) wake: Option<Mono>,
}

pub fn config() -> Config {
    let mut config = podkeeper::testing::daemon::config::testing::config(NODE, ROOT);
    config.node_labels.insert("kubernetes.io/arch".into(), "amd64".into());
    config.sync_frequency = RELIST;
    config
}

impl World {
    pub fn start_daemon(&mut self) {
        self.generation += 1;
        self.cgroups.used.clear();
        self.disk.plugins.used.clear();
        let generation = self.generation;
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
                network: {
                    let mut network = podkeeper::testing::network::NetworkConfig::default();
                    network.cni.is_on = self.disk.plugins.are_on;
                    network
                },
                policies: Default::default(),
            },
            boot: Boot { id: "boot".into(), began: Duration::from_secs(60) },
            builtin_sandbox: true,
            allocatable: Allocatable::default(),
            pod_pids: None,
            max_restart_period: std::time::Duration::from_secs(300),
            dead: Default::default(),
        });
        let mut config = config();
        if let Some(milli_cpu) = self.given.milli_cpu {
            let allocatable = Allocatable { milli_cpu, ..config.node.allocatable };
            config.node = Arc::new(Node { allocatable, ..Node::clone(&config.node) });
        }
        config.sources.api = self.cluster.as_ref().map(|_| cluster::source());
        config.sources.manifest_url = self.hub.as_ref().map(|_| sources::settings());
        self.daemon = Some(Daemon {
            turn: Turn::new(Arc::new(config)),
            workers: BTreeMap::new(),
            cursor: None,
            image_cursor: None,
            listed_at: Mono::default(),
            last_files: None,
            settings,
            node: NodeFacts {
                cgroups: Some(Arc::new(Naming::new(Driver::Cgroupfs, ""))),
                recursive_mounts: false,
                grants: Arc::default(),
            },
            probes: Schedule::new(self.seed),
            probe_due: None,
        });
        self.answers.forget();
        self.note(|| "daemon starts".into());
        self.begin_cluster();
        self.event(Event::Drain(self.given.drain.clone()));
        self.later(Duration::ZERO, Job::Stream { generation });
        self.look_at_sources();
        self.keeper_begins();
    }

    /// A daemon has started, or got a signal.
    fn look_at_sources(&mut self) {
        let generation = self.generation;
        if self.hub.is_none() {
            self.later(Duration::ZERO, Job::Scan { generation });
            return;
        }
        self.begin_sources();
        self.deed(Duration::ZERO, Deed::Look);
        self.deed(Duration::ZERO, Deed::Ask);
        self.deed(limits::RESTORE_HEAD_START, Deed::HeadStart);
    }

    /// Schedules a task for a source of the present daemon.
    pub fn deed(&mut self, after: Duration, deed: Deed) {
        let generation = self.generation;
        self.later(after, Job::Hub { generation, deed });
    }

    /// kill -9: everything in memory is gone; calls on their way may or may not still be carried out.
    pub fn kill_daemon(&mut self) {
        self.note(|| "daemon dies".into());
        self.daemon = None;
        self.generation += 1;
        let rng = &mut self.rng;
        self.agenda.retain_calls(|| !rng.number().is_multiple_of(2));
    }

    /// Schedules a task for the keeper of the present daemon.
    pub fn keep(&mut self, after: Duration, deed: node::Deed) {
        let generation = self.generation;
        self.later(after, Job::Keep { generation, deed });
    }

    /// Schedules a task for the present daemon's threads that speak with the API server.
    pub fn cluster_does(&mut self, after: Duration, deed: cluster::Deed) {
        let generation = self.generation;
        self.later(after, Job::Cluster { generation, deed });
    }

    /// Sets the marker of a drained node, and notifies the daemon, if there is one.
    pub fn marker(&mut self, drain: Option<Drain>) {
        self.note(|| format!("the marker is {drain:?}"));
        self.given.drain.clone_from(&drain);
        self.event(Event::Drain(drain));
    }

    /// How many daemons there were, with deaths counted too.
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

    /// The pods that the daemon read last.
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
            *self.record.told.entry(key).or_default() += 1;
            self.record.counts.events += 1;
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
        self.tell_cluster();
    }

    fn effect(&mut self, effect: Effect) {
        let (generation, now) = (self.generation, self.now());
        let daemon = self.daemon.as_mut().unwrap();
        match effect {
            Effect::Spawn { key, found } => {
                let mut machine =
                    Machine::new(key.clone(), Arc::clone(&daemon.settings), daemon.node.clone());
                machine.handle(Input::Found(found), &now);
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
                let used = &self.cgroups.used;
                self.cgroups.there.retain(|uid| keep.pods.contains(uid) || used.contains(uid));
                self.disk.pods.retain(|uid| keep.pods.contains(uid));
                self.sweep_networks();
            }
            Effect::RemoveVolumes(pods) => self.disk.pods.retain(|uid| !pods.contains(uid)),
            Effect::Rescan => self.later(Duration::ZERO, Job::Scan { generation }),
            Effect::Log(level, line) => self.log(level, &line),
        }
    }

    pub(super) fn log(&mut self, level: log::Level, line: &str) {
        self.record.counts.logged += 1;
        self.note(|| format!("{level} {line}"));
    }
}
