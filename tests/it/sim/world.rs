//! The simulated world: one engine, one daemon at a time (the turn and the machines, without threads),
//! and a clock that only this file moves. Everything follows from the seed.

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
    pub given: Given,
    agenda: Agenda,
    /// Counts daemons, so that nothing of a dead one reaches its successor.
    generation: u64,
    /// The story so far; `None` unless somebody wants to read it.
    trace: Option<Vec<String>>,
    /// What probes bring.
    pub answers: Answers,
    pub record: Record,
    pub cgroups: Cgroups,
    pub disk: Disk,
    /// The engine was restarted, with all that ran in it.
    pub engine_restarted: bool,
    /// `State::total_starts` when all running containers were last checked.
    checked: u64,
    /// Both sources with all that is theirs, in place of `files`.
    pub hub: Option<Hub>,
    /// What the node has, and its keeper.
    pub node: Option<Box<Node>>,
}

/// What an operator says of the node.
#[derive(Debug, Default)]
pub struct Given {
    /// The marker of a drained node.
    drain: Option<Drain>,
    /// What the node has of CPUs, thousandths; `None`: as much as anybody wants.
    pub milli_cpu: Option<i64>,
}

/// What happened, and how often.
#[derive(Debug, Default)]
pub struct Record {
    pub counts: Counts,
    /// Calls that stopped something that ran: when, its name, its id.
    pub kills: Vec<(Mono, String, String)>,
    /// Starts of containers that Docker carried out for the daemon, by UID and name.
    pub starts: BTreeMap<(String, String), u64>,
    /// What the daemon told of them: by UID, name and reason.
    pub told: BTreeMap<(String, String, String), u64>,
}

/// UIDs of pods that have a cgroup.
#[derive(Debug, Default)]
pub struct Cgroups {
    pub there: BTreeSet<String>,
    /// Those that workers of this daemon asked for.
    used: BTreeSet<String>,
}

/// What is on the disk of the node outlives daemons.
pub struct Disk {
    /// UIDs of pods of which something is there.
    pub pods: BTreeSet<String>,
    /// Those of them whose volumes are complete.
    volumes: BTreeSet<String>,
    /// Its own, so that stories differ by nothing else.
    rng: Rng,
    /// Until when orders about volumes may fail.
    pub fails: Mono,
    /// What network plugins keep there.
    pub plugins: Plugins,
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
            engine_restarted: false,
            checked: 0,
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
        self.agenda.put(self.now.after(after), job);
    }

    /// What is known of the pods, by name.
    pub fn statuses(&self) -> BTreeMap<String, Arc<PodStatus>> {
        let snapshot = self.daemon.as_ref().unwrap().turn.snapshot(&self.now());
        snapshot.pods.into_iter().map(|view| (view.pod.key.name.clone(), view.status)).collect()
    }

    /// The story, if it was written.
    pub fn story(&self) -> String {
        self.trace.as_deref().unwrap_or_default().join("\n")
    }
}
