//! A node of a cluster: the API server is one more party, whose requests and answers are lost, delayed and overtaken, whose
//! versions jump, and whose data go back. The real reader of pods, the real state of the watch and the real desk of requests;
//! the server is in memory.

mod judge;
mod server;
mod turmoil;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use podkeeper::testing::api_client::ApiError;
use podkeeper::testing::api_client::pods::PodsOfNode;
use podkeeper::testing::base::clock::Mono;
use podkeeper::testing::cluster::Answer;
use podkeeper::testing::cluster::desk::{self, Desk, Next};
use podkeeper::testing::daemon::config::ApiSource;
use podkeeper::testing::daemon::turn::Event;
use podkeeper::testing::pod::object::{LocalObject, ObjectKind, SERVICES};
use podkeeper::testing::pod::{DesiredPod, PodKey, Source};
use podkeeper::testing::runtime::fake::{Behaviour, FaultPlan};
use podkeeper::testing::source::accept::Acceptor;
use podkeeper::testing::source::api::{Ask, Read, Reflector, Settings, object, read_remembered};
use podkeeper::testing::source::{FromSource, PodSet, SourceUpdate};
use serde_json::{Value, json};

use self::server::Server;
use super::world::{NODE, World};
use super::{seconds, seeds};

const SERVER: &str = "https://server:6443";
const NODE_UID: &str = "node-uid";
/// Time limit of a request that gets no answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two renewals of the lease.
const BEAT: Duration = Duration::from_secs(10);
/// The same after one that has failed.
const BEAT_AGAIN: Duration = Duration::from_secs(7);

/// The server, and the daemon's threads that speak with it.
pub struct Cluster {
    server: Server,
    /// What the daemon has stored of the server's pods.
    stored: Vec<String>,
    mine: Mine,
    /// Chance of a request, thousandths, to be lost, or its answer.
    loses: u64,
    /// Names of pods of which a dead daemon's request was carried out last.
    is_late: BTreeSet<String>,
    /// UIDs of pods that the server has had.
    seen: BTreeSet<String>,
    /// Of these, those that it does not want any more.
    doomed: BTreeSet<String>,
}

/// The state of the running daemon.
#[derive(Default)]
struct Mine {
    reflector: Reflector,
    known: BTreeMap<PodKey, Read>,
    /// The first part of a stream that is not complete.
    first: Option<BTreeMap<PodKey, Read>>,
    restored: Option<PodSet>,
    sent: Option<PodSet>,
    has_failed: bool,
    latest: PodsOfNode,
    desk: Desk,
    /// A request is under way, or a comparison is scheduled.
    is_busy: bool,
    /// The lease has shown that the server's data are older than before.
    has_expired: bool,
    /// The lease could not be renewed.
    is_troubled: bool,
    /// Number of the source's next request.
    ask: u64,
    /// The source waits before that.
    waits: bool,
    stream: u64,
}

/// A task of the daemon's threads, or of the wire.
pub enum Deed {
    /// The source makes its next request, of this number; an earlier one is not made any more.
    Ask(u64),
    /// That reaches the server.
    Opens(Ask),
    /// The answer to it, or the end of a watch.
    Ends(Result<bool, ApiError>),
    /// The next event of this watch arrives.
    Hears(u64),
    /// The thread of statuses compares both sides.
    Compares,
    /// Its request reaches the server.
    Reaches(PodKey, desk::Ask),
    /// It has the answer.
    Told(PodKey, desk::Ask, Answer),
    /// The node's lease is renewed.
    Beats,
}

impl Deed {
    /// Whether it is on its way to the server.
    pub fn is_a_call(&self) -> bool {
        matches!(self, Deed::Reaches(..))
    }
}

/// The daemon's setting for the server.
pub fn source() -> ApiSource {
    ApiSource::Cluster(Settings { kubeconfig: "/k".into(), remembers: true })
}

fn acceptor() -> Acceptor {
    Acceptor::new(Source::Api, NODE.to_owned())
}

/// The server's pods, with the variables of services that they all refer to: there are no services.
fn set_of(pods: Vec<Arc<DesiredPod>>) -> PodSet {
    static NONE: LazyLock<Arc<LocalObject>> = LazyLock::new(|| {
        let metadata = json!({"name": SERVICES, "namespace": "default"});
        let none = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        object(&none, ObjectKind::ConfigMap, &acceptor(), SERVER).expect("an object")
    });
    PodSet { pods, objects: vec![Arc::clone(&NONE)], ..PodSet::default() }
}

fn names(set: &PodSet) -> String {
    let one = |pod: &Arc<DesiredPod>| format!("{} {}", pod.key.name, pod.uid.get(30..).unwrap_or_default());
    set.pods.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn unreachable() -> ApiError {
    ApiError::Unreachable("no answer".to_owned())
}

impl Cluster {
    fn new() -> Cluster {
        Cluster {
            server: Server::default(),
            stored: Vec::new(),
            mine: Mine::default(),
            loses: 0,
            is_late: BTreeSet::new(),
            seen: BTreeSet::new(),
            doomed: BTreeSet::new(),
        }
    }
}

impl World {
    fn cluster(&self) -> &Cluster {
        self.cluster.as_deref().expect("a world with a cluster")
    }

    fn cluster_mut(&mut self) -> &mut Cluster {
        self.cluster.as_deref_mut().expect("a world with a cluster")
    }

    /// Mostly short, at most 2^n ms.
    fn some(&mut self, n: u64) -> Duration {
        let most = 1 << self.below(n);
        Duration::from_millis(1 + self.below(most))
    }

    /// A daemon starts.
    pub fn begin_cluster(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        let stored: Vec<Value> =
            cluster.stored.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let pods = stored.iter().filter_map(|own| read_remembered(own, &acceptor(), SERVER));
        let pods: Vec<Arc<DesiredPod>> = pods.collect();
        cluster.server.stream = None;
        cluster.server.is_lease_older = false;
        cluster.mine = Mine::default();
        cluster.mine.restored = (!stored.is_empty()).then(|| set_of(pods));
        self.asks_after(Duration::ZERO);
        self.cluster_does(Duration::ZERO, Deed::Beats);
    }

    /// Compares both sides soon: something has changed.
    pub fn tell_cluster(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        if !std::mem::replace(&mut cluster.mine.is_busy, true) {
            self.cluster_does(Duration::from_millis(50), Deed::Compares);
        }
    }

    fn say_api(&mut self, update: SourceUpdate) {
        self.note(|| match &update {
            SourceUpdate::Full(set) => format!("api full {}", names(set)),
            SourceUpdate::Restored(set) => format!("api restored {}", names(set)),
            other => format!("api {other:?}").chars().take(100).collect(),
        });
        self.event(Event::Source(FromSource { source: Source::Api, update }));
    }

    /// A task is due. `is_mine`: of the running daemon.
    pub fn cluster_deed(&mut self, deed: Deed, is_mine: bool) {
        if self.cluster.is_none() {
            return;
        }
        match deed {
            Deed::Reaches(key, ask) => self.reaches(key, ask, is_mine),
            _ if !is_mine => {}
            Deed::Beats => self.beats(),
            Deed::Ask(number) => {
                let mine = &mut self.cluster_mut().mine;
                if number != mine.ask {
                    return;
                }
                (mine.ask, mine.waits) = (mine.ask + 1, false);
                if std::mem::take(&mut mine.has_expired) {
                    mine.reflector.expired();
                }
                let ask = mine.reflector.ask();
                let delay = Duration::from_millis(1 + self.below(400));
                self.cluster_does(delay, Deed::Opens(ask));
            }
            Deed::Opens(ask) => self.opens(&ask),
            Deed::Ends(result) => self.ends(result),
            Deed::Hears(stream) => self.hears(stream),
            Deed::Compares => self.compares(),
            Deed::Told(key, ask, answer) => {
                let now = self.now;
                let mine = &mut self.cluster_mut().mine;
                mine.desk.told(&key, ask, answer, &mine.latest, now);
                self.cluster_does(Duration::ZERO, Deed::Compares);
            }
        }
    }

    fn compares(&mut self) {
        let now = self.now();
        let Some(daemon) = &self.daemon else { return };
        let snapshot = daemon.turn.snapshot(&now);
        let mine = &mut self.cluster.as_deref_mut().unwrap().mine;
        let world = desk::World {
            snapshot: &snapshot,
            server: &mine.latest,
            failures: &desk::Failures::default(),
            addresses: &["192.0.2.2".to_owned()],
            node: NODE,
            uid: Some(NODE_UID),
        };
        match mine.desk.next(&world, &now) {
            Next::Wait(until) => {
                mine.is_busy = false;
                if let Some(at) = until {
                    mine.is_busy = true;
                    self.cluster_does(at.since(now.mono).max(Duration::from_millis(1)), Deed::Compares);
                }
            }
            Next::Ask(key, ask) => {
                self.note(|| format!("to the server, {}: {ask:?}", key.name).chars().take(260).collect());
                let delay = self.some(12);
                self.cluster_does(delay, Deed::Reaches(key, ask));
            }
        }
    }

    /// A request reaches the server, or is lost on its way, or its answer is.
    fn reaches(&mut self, key: PodKey, ask: desk::Ask, is_mine: bool) {
        let (luck, busy) = (self.below(1000), self.below(1000));
        let loses = self.cluster().loses;
        let is_down = self.cluster().server.is_down;
        if is_down || luck < loses {
            if is_mine {
                let answer = Answer::Failed("no answer".to_owned());
                let wait = if is_down { Duration::from_millis(5) } else { PATIENCE };
                self.cluster_does(wait, Deed::Told(key, ask, answer));
            }
            return;
        }
        if busy < loses {
            let answer = Answer::Failed("too many requests".to_owned());
            return if is_mine {
                self.cluster_does(Duration::ZERO, Deed::Told(key, ask, answer))
            };
        }
        self.judge_ask(&key.name, &ask);
        let wall = self.now().wall;
        let server = &mut self.cluster_mut().server;
        let before = server.pods.get(&key.name).cloned();
        let answer = server.perform(&key.name, &ask, wall);
        let after = server.pods.get(&key.name).cloned();
        let is_late = &mut self.cluster_mut().is_late;
        let was_late = if is_mine { is_late.remove(&key.name) } else { !is_late.insert(key.name.clone()) };
        match (before, after) {
            // A dead daemon's request may arrive after those of the next one, which tells again what is true.
            (Some(before), Some(after)) if is_mine && !was_late => World::judge_change(&before, &after),
            (Some(before), None) => self.judge_end(&before, &ask),
            _ => {}
        }
        self.note(|| format!("the server, {}: {}", key.name, answer.why()));
        if !is_mine {
            return;
        }
        let delay = self.some(12);
        // The request is carried out, and nobody hears of it.
        let is_lost = self.below(1000) < loses;
        let (delay, answer) =
            if is_lost { (PATIENCE, Answer::Failed("no answer".to_owned())) } else { (delay, answer) };
        self.cluster_does(delay, Deed::Told(key, ask, answer));
    }
}

/// Users, the server, the daemon and the machine at odds; then peace, in which the server says what is true.
fn clustered(w: &mut World) {
    let chaos = Mono(seconds(240));
    let chance = [0, 50, 200][usize::try_from(w.seed % 3).unwrap()];
    w.engine.faults = FaultPlan::all(w.seed, chance, chaos);
    w.disk.fails = chaos;
    for name in ["prepare", "once"] {
        w.engine.behave(name, Behaviour::exits(0, Duration::from_millis(300 + 997 * (w.seed % 4))));
    }
    let mut cluster = Cluster::new();
    cluster.loses = [0, 30, 200][usize::try_from(w.seed / 3 % 3).unwrap()];
    w.cluster = Some(Box::new(cluster));
    w.some_files(w.seed % 3);
    w.start_daemon();
    while w.now < chaos {
        let pause = Duration::from_millis(w.below(6000));
        w.pass(pause);
        w.cluster_turmoil();
    }
    let cluster = w.cluster_mut();
    cluster.loses = 0;
    cluster.server.is_down = false;
    w.end_of_mischief();
    w.pass(seconds(1500));
    w.check_cluster();
    // Docker's faults lose containers.
    if chance == 0 {
        w.check_jobs();
    }
    let before = (w.running(), w.record.kills.len());
    let writes = w.cluster().server.writes;
    w.pass(seconds(900));
    assert_eq!(before, (w.running(), w.record.kills.len()), "something moves in peace");
    assert_eq!(writes, w.cluster().server.writes, "something is told in peace");
}

#[test]
fn a_node_and_its_server_agree_in_the_end() {
    seeds(100, clustered);
}

/// For an hour the server is not there: containers die and run again meanwhile, in one seed of two the daemon is killed as
/// well. Nothing restarts for that, soon after its return the server knows what is true, and each happening has one event.
fn an_hour_alone(w: &mut World) {
    w.cluster = Some(Box::new(Cluster::new()));
    w.some_files(w.seed % 3);
    w.start_daemon();
    for n in 0..20 {
        w.a_user_makes(&format!("api{n}"), n % 3);
    }
    w.pass(seconds(60));
    w.check_cluster();
    let before = w.running();
    w.server_goes();
    let crashes = w.below(12);
    let mut crashed = BTreeSet::new();
    for n in 0..crashes {
        w.pass(seconds(3600 / crashes));
        let apps: Vec<&String> =
            before.iter().filter(|(name, _)| name.contains("_app_")).map(|(_, id)| id).collect();
        let id = apps[usize::try_from(w.below(apps.len() as u64)).unwrap()].clone();
        let now = w.now();
        w.engine.crash(&id, 1, now);
        crashed.insert(id);
        if n == 0 && w.seed.is_multiple_of(2) {
            w.kill_daemon();
            w.start_daemon();
        }
    }
    w.pass(seconds(3600 - 3600 / crashes.max(1) * crashes + 60));
    let after = w.running();
    let gone: BTreeSet<&String> =
        before.values().filter(|id| !after.values().any(|other| other == *id)).collect();
    assert_eq!(gone, crashed.iter().collect(), "what has not died runs on");
    assert_eq!(after.len(), before.len(), "what has died runs again");
    w.cluster_mut().server.is_down = false;
    // A request takes up to four seconds here; a new daemon reads the pods first.
    w.pass(seconds(if w.seed.is_multiple_of(2) { 60 } else { 10 + 2 * crashes }));
    w.check_cluster();
    w.check_events(true);
    let writes = w.cluster().server.writes;
    w.pass(seconds(300));
    assert_eq!((w.running(), w.cluster().server.writes), (after, writes), "that is all");
}

#[test]
fn an_hour_without_the_server_restarts_nothing_and_is_told_soon() {
    seeds(40, an_hour_alone);
}
