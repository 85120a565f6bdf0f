//! The simulated world: one engine, one daemon at a time (the turn and the machines, without threads),
//! and a clock that only this module moves. The seed decides everything.

mod agenda;
mod daemon;
mod judge;
mod plugins;
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
use podkeeper::testing::cgroup::{self, Driver, Naming};
use podkeeper::testing::cni::{Order as NetworkOrder, Ready, Report as NetworkReport};
use podkeeper::testing::daemon::config::Config;
use podkeeper::testing::daemon::drain::Drain;
use podkeeper::testing::daemon::turn::{Effect, Event, RuntimeEvent, Turn};
use podkeeper::testing::machine::{
    Hint, Input, Machine, NodeFacts, Output, PullOutcome, PullRequest, Pulled, Settings, Slot, Token,
};
use podkeeper::testing::manifest::{self, Context};
use podkeeper::testing::mapping::MapConfig;
use podkeeper::testing::mapping::needs::Create;
use podkeeper::testing::pod::{DesiredPod, PodKey, Source};
use podkeeper::testing::probe::prober::News;
use podkeeper::testing::probe::schedule::{ProbeId, Schedule};
use podkeeper::testing::probe::{Kind, Outcome, Probing, Target, Watch};
use podkeeper::testing::runtime::fake::{EventNext, Rng, State as Engine};
use podkeeper::testing::runtime::{
    Call, CreateBody, DockerError, DockerState, Mount, Reply, labels, sandbox_image,
};
use podkeeper::testing::source::{FromSource, PodSet, SourceUpdate};
use podkeeper::testing::volumes::{Failure, Order, Report as VolumeReport};

pub use self::agenda::Deed;
use self::agenda::{Agenda, Job};
pub use self::daemon::Daemon;
pub use self::plugins::Plugins;
use self::words::{decoded, is_volume, result_words, short, words};
use super::cluster::{self, Cluster};
use super::node::{self, Node};
use super::probes::Answers;
use super::sources::{self, Hub};

pub const ROOT: &str = "/var/lib/podkeeper";
pub const NODE: &str = "node1";
/// Time limit of a call that gets no answer.
const TIMEOUT: Duration = Duration::from_secs(10);
pub const RELIST: Duration = Duration::from_secs(60);
/// Name of the sandbox image: it is computed at each call.
static SANDBOX_IMAGE: LazyLock<String> = LazyLock::new(sandbox_image::image_name);

pub struct World {
    pub seed: u64,
    pub rng: Rng,
    pub now: Mono,
    /// Offset of the wall clock in seconds; jumps.
    pub wall_offset: i64,
    pub engine: Engine,
    pub daemon: Option<Daemon>,
    /// Path -> manifest text. The content that the file source would read.
    pub files: BTreeMap<String, String>,
    /// The directory cannot be read.
    pub unreadable: bool,
    pub given: Given,
    agenda: Agenda,
    /// Counts daemons, so that no answer for a dead one reaches its successor.
    generation: u64,
    /// The story so far; `None` unless it is to be read.
    trace: Option<Vec<String>>,
    /// The probes' results.
    pub answers: Answers,
    pub record: Record,
    pub cgroups: Cgroups,
    pub disk: Disk,
    /// `State::total_starts` when all running containers were last checked.
    checked: u64,
    /// Both sources and their surroundings, in place of `files`.
    pub hub: Option<Hub>,
    /// The node's resources, and its keeper.
    pub node: Option<Box<Node>>,
    /// The API server, whose node this is.
    pub cluster: Option<Box<Cluster>>,
}

/// An operator's orders for the node.
#[derive(Debug, Default)]
pub struct Given {
    /// The marker of a drained node.
    drain: Option<Drain>,
    /// CPUs of the node, thousandths; `None`: no bound.
    pub milli_cpu: Option<i64>,
}

/// Events, and how often they happened.
#[derive(Debug, Default)]
pub struct Record {
    pub counts: Counts,
    /// Calls that stopped a running container: time, name, id.
    pub kills: Vec<(Mono, String, String)>,
    /// Whether the engine was restarted, with everything that ran in it.
    pub engine_restarted: bool,
    /// Starts of containers that Docker carried out for the daemon, by UID and name.
    pub starts: BTreeMap<(String, String), u64>,
    /// Events of the daemon about them: by UID, name and reason.
    pub told: BTreeMap<(String, String, String), u64>,
}

/// UIDs of pods that have a cgroup.
#[derive(Debug, Default)]
pub struct Cgroups {
    pub there: BTreeSet<String>,
    /// The cgroups that workers of this daemon requested.
    used: BTreeSet<String>,
}

/// The contents of the node's disk, which outlive daemons.
pub struct Disk {
    /// UIDs of pods with data there.
    pub pods: BTreeSet<String>,
    /// The pods whose volumes are complete.
    volumes: BTreeSet<String>,
    /// A random generator of its own, so that stories do not differ because of it.
    rng: Rng,
    /// Until this time orders about volumes may fail.
    pub fails: Mono,
    /// Data of the CNI plugins.
    pub plugins: Plugins,
}

/// Numbers of calls, lists, events and log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Calls of workers.
    pub calls: u64,
    /// Among them: calls that create a container `app`.
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
            given: Given::default(),
            agenda: Agenda::default(),
            generation: 0,
            trace: traced.then(Vec::new),
            answers: Answers::default(),
            record: Record::default(),
            cgroups: Cgroups::default(),
            disk: Disk {
                pods: BTreeSet::new(),
                volumes: BTreeSet::new(),
                rng: Rng::new(seed),
                fails: Mono::default(),
                plugins: Plugins::new(seed),
            },
            checked: 0,
            hub: None,
            node: None,
            cluster: None,
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

    /// Adds a line to the story, if one is kept.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>10.3} {}", self.now.0.as_secs_f64(), line()));
        }
    }

    fn later(&mut self, after: Duration, job: Job) {
        self.agenda.put(self.now.after(after), job);
    }

    /// The known statuses of the pods, by name.
    pub fn statuses(&self) -> BTreeMap<String, Arc<PodStatus>> {
        let snapshot = self.daemon.as_ref().unwrap().turn.snapshot(&self.now());
        snapshot.pods.into_iter().map(|view| (view.pod.key.name.clone(), view.status)).collect()
    }

    /// The story, if it was kept.
    pub fn story(&self) -> String {
        self.trace.as_deref().unwrap_or_default().join("\n")
    }
}
