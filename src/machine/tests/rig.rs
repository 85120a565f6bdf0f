//! A machine, an engine, and a clock that only the test moves. A call reaches the engine after 1 ms and its answer
//! takes 1 ms (a start takes 100 ms), so calls with the same time were made at once. Containers are shown as words:
//! `POD#0` is the first sandbox, `app#1` the second `app`.

mod around;
mod look;
mod step;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use log::Level;

use crate::base::clock::{Boot, Mono, Now, Timestamp};
use crate::base::limits;
use crate::cgroup;
use crate::image::grants::Grants;
use crate::machine::{
    FirstList, Hint, Input, Machine, NodeFacts, Output, PullOutcome, PullRequest, Pulled, Report, Settings,
    Slot, State, StopOrder, Token, Wish,
};
use crate::mapping::MapConfig;
use crate::mapping::logs::{LogDriver, LogSettings};
use crate::mapping::needs::Create;
use crate::mapping::observe;
use crate::plan::{DeadPolicy, Owned, ProbeVerdict, testing};
use crate::pod::object::Objects;
use crate::pod::{DesiredPod, PodKey};
use crate::pod_logs::ContainerLogs;
use crate::policy::{Policies, SourcePolicy};
use crate::probe::prober::News;
use crate::probe::{Kind, Watch};
use crate::recorder::Ring;
use crate::runtime::fake::{EventNext, Restart, State as Engine};
use crate::runtime::{Call, DockerError, DockerState, Refusal, RefusalKind, Reply, labels, names};
use crate::volumes::{Order, Report as VolumeReport};

use around::{Cgroups, Files, Volumes, Wire};

/// Value of the label that marks the containers of these tests.
pub(super) const ROOT: &str = "/var/lib/podkeeper";
/// Image of the sandbox.
pub(super) const PAUSE: &str = "pause:test";
const MS: Duration = Duration::from_millis(1);
/// Timeout of the client.
const TIMEOUT: Duration = Duration::from_secs(10);
const PULL: Duration = Duration::from_secs(1);

/// A fault for calls that begin with some words.
#[derive(Clone)]
pub(super) enum Hurt {
    /// The engine answers this, and does nothing.
    Says(DockerError),
    /// The engine carries out the call, and answers this.
    DoneBut(DockerError),
    /// The answer takes this long.
    Slow(Duration),
    /// A list leaves these out.
    LeavesOut(Vec<String>),
    /// A create is answered with these warnings.
    Warns(Vec<String>),
}

enum Coming {
    Arrive(Token, Call),
    Answer(Token, Box<Result<Reply, DockerError>>),
    Pull(PullRequest),
    Volumes(VolumeReport),
    Network(crate::cni::Report),
    Read,
}

pub(super) struct Rig {
    pub(super) engine: Engine,
    pub(super) machine: Machine,
    pub(super) slot: Slot,
    pub(super) now: Mono,
    /// The parts of calls that their words do not show, each after the words.
    pub(super) sent: Vec<String>,
    /// Every call: time and words.
    pub(super) calls: Vec<(Mono, String)>,
    pub(super) pulls: Vec<(Mono, PullRequest)>,
    pub(super) log: Vec<(Mono, Level, String)>,
    /// Events, kept like in the main loop.
    pub(super) ring: Ring,
    pub(super) watched: Vec<(Mono, Watch)>,
    /// Every set of logs.
    pub(super) logs: Vec<ContainerLogs>,
    pub(super) reports: Vec<Report>,
    pub(super) cgroups: Cgroups,
    pub(super) volumes: Volumes,
    pub(super) files: Files,
    pub(super) wire: Wire,
    /// The last wake-up time of the machine.
    pub(super) wake: Option<Mono>,
    /// Offset of the wall clock in seconds.
    pub(super) wall_offset: i64,
    coming: BTreeMap<(Mono, u64), Coming>,
    next: u64,
}

/// Whole seconds.
pub(super) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Milliseconds.
pub(super) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Pod `default/web-node` with this spec.
pub(super) fn pod(spec: &str) -> Arc<DesiredPod> {
    Arc::new(testing::pod(spec))
}

/// The same name with another UID.
pub(super) fn pod_with(uid: &str, spec: &str) -> Arc<DesiredPod> {
    let mut pod = testing::pod(spec);
    pod.uid = uid.into();
    Arc::new(pod)
}

/// A pod with one container `app`.
pub(super) fn app() -> Arc<DesiredPod> {
    pod("{containers: [{name: app}]}")
}

pub(super) fn refusal(kind: RefusalKind, status: u16, message: &str) -> DockerError {
    DockerError::Refused(Refusal { kind, status, message: message.into() })
}

pub(super) fn no_space() -> DockerError {
    refusal(RefusalKind::Server, 500, "mkdir /var/lib/docker/overlay2/a-init: no space left on device")
}

pub(super) fn timeout() -> DockerError {
    DockerError::Timeout("no answer".into())
}

pub(super) fn stop(grace: Option<u32>) -> Wish {
    Wish::Stop(StopOrder::new(grace, "its manifest is gone"))
}

fn node() -> NodeFacts {
    use crate::cgroup::{Driver, Naming};
    let cgroups = Some(Arc::new(Naming::new(Driver::Cgroupfs, "")));
    NodeFacts { cgroups, recursive_mounts: false, grants: Arc::default() }
}

fn settings() -> Arc<Settings> {
    let map = MapConfig {
        root_dir: ROOT.into(),
        oom_floor: -1000,
        infra_image: PAUSE.into(),
        node_memory: 1 << 30,
        logs: LogSettings { driver: Default::default(), max_bytes: Some(1 << 20), max_files: 5 },
        node_name: "node".into(),
        network: Default::default(),
        policies: Default::default(),
    };
    let boot = Boot { id: "boot-1".into(), began: s(1000) };
    Arc::new(Settings {
        map,
        boot,
        builtin_sandbox: true,
        allocatable: Default::default(),
        pod_pids: None,
        max_restart_period: limits::BACKOFF_MAX,
        dead: Default::default(),
    })
}

/// `empty`: the daemon's list had no container of it.
fn machine(key: PodKey, settings: Arc<Settings>, empty: bool) -> Machine {
    let mut machine = Machine::new(key, settings, node());
    if empty {
        let now = Now { mono: Mono::default(), wall: Timestamp::UNIX_EPOCH };
        machine.handle(Input::Found(FirstList::Whole(Vec::new())), &now);
    }
    machine
}

fn key() -> PodKey {
    app().key.clone()
}

impl Rig {
    /// A worker of a name without containers in Docker.
    pub(super) fn fresh() -> Rig {
        let mut engine = Engine::new(1);
        engine.add_image("busybox", true);
        engine.add_image(PAUSE, true);
        Rig::on(engine, true)
    }

    /// The same, for the name of this pod.
    pub(super) fn fresh_for(pod: &DesiredPod) -> Rig {
        let mut rig = Rig::fresh();
        rig.machine = machine(pod.key.clone(), settings(), true);
        rig
    }

    /// The same, with this policy for dead containers.
    pub(super) fn fresh_with_dead(dead: DeadPolicy) -> Rig {
        let mut rig = Rig::fresh();
        let mut other = (*settings()).clone();
        other.dead = dead;
        rig.machine = machine(key(), Arc::new(other), true);
        rig
    }

    /// The same, where crash loops wait for this long at most.
    pub(super) fn fresh_with_longest_wait(longest: Duration) -> Rig {
        let mut rig = Rig::fresh();
        let mut other = (*settings()).clone();
        other.max_restart_period = longest;
        rig.machine = machine(key(), Arc::new(other), true);
        rig
    }

    /// The same, with plugins that attach sandboxes.
    pub(super) fn fresh_with_plugins() -> Rig {
        let mut rig = Rig::fresh();
        let mut other = (*settings()).clone();
        other.map.network.cni.is_on = true;
        rig.machine = machine(key(), Arc::new(other), true);
        rig
    }

    /// The same, where the pods' source stands behind others.
    pub(super) fn fresh_behind() -> Rig {
        let mut rig = Rig::fresh();
        let mut other = (*settings()).clone();
        let first = SourcePolicy { evict_first: Some(true), ..SourcePolicy::default() };
        other.map.policies = Arc::new(Policies::all(first));
        rig.machine = machine(key(), Arc::new(other), true);
        rig
    }

    /// The same, with this log driver.
    pub(super) fn fresh_with_logs(driver: LogDriver) -> Rig {
        let mut rig = Rig::fresh();
        let mut other = (*settings()).clone();
        other.map.logs.driver = driver;
        rig.machine = machine(key(), Arc::new(other), true);
        rig
    }

    fn on(mut engine: Engine, empty: bool) -> Rig {
        let cursor = engine.subscribe(None).unwrap();
        Rig {
            engine,
            machine: machine(key(), settings(), empty),
            slot: Slot::default(),
            now: Mono::default(),
            sent: Vec::new(),
            calls: Vec::new(),
            pulls: Vec::new(),
            log: Vec::new(),
            ring: Ring::default(),
            watched: Vec::new(),
            logs: Vec::new(),
            reports: Vec::new(),
            cgroups: Cgroups::default(),
            volumes: Volumes::default(),
            files: Files::default(),
            wire: Wire::new(cursor),
            wake: None,
            wall_offset: 0,
            coming: BTreeMap::new(),
            next: 0,
        }
    }

    /// Sends new grants, as the worker's thread does.
    pub(super) fn tell_grants(&mut self, grants: &Grants) {
        let facts = NodeFacts { grants: grants.known(), ..node() };
        self.machine.handle(Input::Node(facts), &self.now());
    }

    /// The daemon is killed and started again: calls on their way are lost, Docker continues.
    pub(super) fn reborn(mut self) -> Rig {
        self.coming.clear();
        let by_plugins = self.machine.settings.map.network.cni.is_on;
        let settings = if by_plugins { Arc::clone(&self.machine.settings) } else { settings() };
        self.machine = Machine::new(key(), settings, node());
        self.slot = Slot::default();
        self.calls.clear();
        self.log.clear();
        self.reports.clear();
        self.watched.clear();
        self.pulls.clear();
        self.wire.hurts.clear();
        self.wake = None;
        self
    }

    /// The machine starts with the containers of the daemon's list.
    pub(super) fn found(mut self) -> Rig {
        let now = self.now();
        let list = Call::List { labels: vec![format!("{}={ROOT}", labels::ROOT_DIR)] };
        let Ok(Reply::Containers(list)) = self.engine.perform(&list, now) else { panic!("no list") };
        let mut found: Vec<Owned> = list.iter().filter_map(|c| observe::from_summary(c, ROOT)).collect();
        found.iter_mut().for_each(|c| c.killed = self.files.signalled.contains(&c.id));
        self.machine.handle(Input::Found(FirstList::Whole(found)), &now);
        self
    }

    /// The machine starts after something has happened since the daemon's list: it makes its own.
    pub(super) fn found_later(mut self) -> Rig {
        let now = self.now();
        self.machine.handle(Input::Found(FirstList::Past(Vec::new())), &now);
        self
    }

    /// The whole machine loses its power and comes back, with another wall clock.
    pub(super) fn power_cut(mut self, wall_offset: i64) -> Rig {
        let now = self.now();
        self.engine.restart_engine(Restart::PowerCut, now);
        self.wall_offset += wall_offset;
        let mut rig = self.reborn();
        let mut other = (*settings()).clone();
        other.boot = Boot { id: "boot-2".into(), began: s(3) };
        rig.machine = Machine::new(key(), Arc::new(other), node());
        rig
    }

    pub(super) fn now(&self) -> Now {
        let wall = Timestamp::from_second(1_800_000_000 + self.wall_offset)
            .unwrap()
            .checked_add(self.now.0)
            .unwrap();
        Now { mono: self.now, wall }
    }

    /// Applies a fault to `times` calls whose words begin with `words`.
    pub(super) fn hurt(&mut self, words: &str, times: u32, how: Hurt) {
        self.wire.hurts.push((words.into(), times, how));
    }

    /// Removes all faults.
    pub(super) fn heal(&mut self) {
        self.wire.hurts.clear();
    }

    pub(super) fn wish(&mut self, wish: Wish) {
        self.slot.wish(wish);
        self.later(Duration::ZERO, Coming::Read);
    }

    pub(super) fn run(&mut self, pod: &Arc<DesiredPod>) {
        self.wish(Wish::Run(Arc::clone(pod)));
    }

    pub(super) fn hint(&mut self, hint: Hint) {
        self.slot.hint(hint);
        self.later(Duration::ZERO, Coming::Read);
    }

    /// Puts other local objects in force.
    pub(super) fn give(&mut self, objects: Arc<Objects>) {
        self.slot.objects(objects);
        self.later(Duration::ZERO, Coming::Read);
    }

    fn later(&mut self, after: Duration, what: Coming) {
        self.coming.insert((self.now.after(after), self.next), what);
        self.next += 1;
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now.after(time);
        // Events of the test's own calls.
        self.hear();
        for turn in 0.. {
            assert!(turn < 200_000, "it does not come to rest: {:?}", self.tail());
            let next = self.coming.keys().next().map(|(at, _)| *at);
            let at = [next, self.wake, self.engine.next_due()].into_iter().flatten().min();
            let Some(at) = at.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            let now = self.now();
            self.engine.advance(now);
            self.hear();
            if next.is_some_and(|next| next <= self.now) {
                let (_, coming) = self.coming.pop_first().unwrap();
                self.happen(coming);
                self.hear();
            } else if self.wake.is_some_and(|wake| wake <= self.now) {
                self.step();
                assert!(
                    self.wake.is_none_or(|wake| wake > self.now),
                    "it wakes for nothing: {:?}",
                    self.tail()
                );
            }
        }
        self.now = self.now.max(until);
        let now = self.now();
        self.engine.advance(now);
        self.hear();
    }

    /// Lets time pass until this call was made; returns the time.
    pub(super) fn pass_until(&mut self, call: &str) -> Mono {
        let begun = self.calls.len();
        for _ in 0..2_000_000 {
            if let Some((at, _)) = self.calls.iter().skip(begun).find(|(_, words)| words == call) {
                return *at;
            }
            self.pass(MS);
        }
        panic!("{call:?} is never called: {:?}", self.tail());
    }

    fn tail(&self) -> Vec<String> {
        let skip = self.calls.len().saturating_sub(30);
        self.calls.iter().skip(skip).map(|(at, words)| format!("{:?} {words}", at.0)).collect()
    }
}

/// An order as words, without the usual UID: `set up uid-1` becomes `set up`.
fn volume_words(order: &Order) -> String {
    let (what, uid) = match order {
        Order::SetUp(order) => ("set up", &order.pod.uid),
        Order::TearDown { uid } => ("tear down", uid),
    };
    if uid == testing::UID { what.to_owned() } else { format!("{what} {uid}") }
}

/// Milliseconds since the start.
pub(super) fn ms_of(at: Mono) -> u64 {
    u64::try_from(at.0.as_millis()).unwrap()
}

/// A name as words: `k8s_app_web-node_default_uid-1_0` becomes `app#0`.
fn name_words(docker_name: &str) -> String {
    let Some(name) = names::parse(docker_name) else { return docker_name.to_owned() };
    let uid = if name.uid == testing::UID { String::new() } else { format!("{}/", name.uid) };
    let suffix = if name.suffix.is_none() { "" } else { "+" };
    format!("{uid}{}#{}{suffix}", name.container, name.attempt)
}
