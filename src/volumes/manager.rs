//! Work on volumes: jobs of one pod run one after the other, in a thread that the pod has only while there is work and it
//! is its turn ([`Turns`]). A volume that hangs delays its own pod, and others of its source for a short while.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{fmt, fs, io};

use super::claim_move::Claims;
use super::in_memory::InMemory;
use super::jobs::{Job, all_failed, refuse, work};
use super::mounts::Bind;
use super::sweep::Sweeps;
use super::turns::Turns;
use super::{Order, Parts, Report, mounts, tear_down};
use crate::base::clock::System;
use crate::base::table::Table;
use crate::layout;
use crate::pod::allocatable::Allocatable;
use crate::pod::ends::Ends;
use crate::pod::{DesiredPod, PodKey};
use crate::policy::Policies;
use crate::runtime::engine_root::EngineRoot;

/// The parts of the node for this room.
#[derive(Debug)]
pub struct Node {
    root: PathBuf,
    /// The root directory without links, as in the mount table.
    real_root: OnceLock<PathBuf>,
    pub(super) name: String,
    pub(super) allocatable: Allocatable,
    pub(super) clock: System,
    pub(super) policies: Arc<Policies>,
    /// Docker's socket; `None` when there is no engine that mounts volumes.
    docker: Option<PathBuf>,
    /// Where Docker's files are.
    pub(super) engine_root: EngineRoot,
    /// Docker is known to see podkeeper's mounts.
    sees: AtomicBool,
    pub(super) claims: Arc<Claims>,
    uses: Mutex<Table<String, Use>>,
    pub(super) in_memory: InMemory,
    turns: Arc<Turns>,
    pub(super) sweeps: Sweeps,
    /// Held while [`layout::STAGE`] is in use.
    pub(super) stage: Mutex<()>,
    /// The entries that are removed of pods that are evicted.
    pub(super) ends: Ends,
}

/// User of a pod's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Use {
    /// The worker of this pod.
    Worker(PodKey),
    Sweep,
}

/// All volumes of this node. Clones share the state.
#[derive(Debug, Clone)]
pub struct Volumes(pub(super) Arc<Node>);

/// Settings of a node's volumes.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `--root-dir`.
    pub root: PathBuf,
    /// Name of the node.
    pub name: String,
    /// Resources of the node for pods.
    pub allocatable: Allocatable,
    /// Docker's socket.
    pub docker: Option<PathBuf>,
    /// Where Docker's files are.
    pub engine_root: EngineRoot,
    /// Policies of pods, including the allowed paths of the host.
    pub policies: Arc<Policies>,
    /// The claims of this node.
    pub claims: Arc<Claims>,
}

impl Volumes {
    /// The volumes of this node. No file is touched yet.
    #[must_use]
    pub fn new(settings: Settings, clock: System) -> Volumes {
        let Settings { root, name, allocatable, docker, engine_root, policies, claims } = settings;
        Volumes(Arc::new(Node {
            root,
            real_root: OnceLock::new(),
            name,
            allocatable,
            clock,
            policies,
            docker,
            engine_root,
            sees: AtomicBool::new(false),
            claims,
            uses: Mutex::default(),
            in_memory: InMemory::default(),
            turns: Arc::new(Turns::new(clock)),
            sweeps: Sweeps::default(),
            stage: Mutex::default(),
            ends: Ends::default(),
        }))
    }

    /// How far the ends of pods have come.
    #[must_use]
    pub fn ends(&self) -> &Ends {
        &self.0.ends
    }
}

impl Node {
    /// The root directory without links.
    pub(super) fn root(&self) -> Result<PathBuf, String> {
        if let Some(root) = self.real_root.get() {
            return Ok(root.clone());
        }
        let real =
            fs::canonicalize(&self.root).map_err(|error| format!("{}: {error}", self.root.display()))?;
        Ok(self.real_root.get_or_init(|| real).clone())
    }

    /// Checks that Docker sees the mount at this path. It does if both are in one mount namespace, or if
    /// mounts propagate from podkeeper's to Docker's. If this cannot be determined, the check passes.
    pub(super) fn docker_sees(&self, place: &Path) -> Result<(), String> {
        let Some(socket) = self.docker.as_deref().filter(|_| !self.sees.load(Ordering::Relaxed)) else {
            return Ok(());
        };
        let Some(pid) = peer(socket) else { return Ok(()) };
        let namespace = |who: &str| fs::read_link(format!("/proc/{who}/ns/mnt")).ok();
        match (namespace("self"), namespace(&pid)) {
            (Some(ours), Some(theirs)) if ours != theirs => {}
            _ => {
                self.sees.store(true, Ordering::Relaxed);
                return Ok(());
            }
        }
        let Ok(table) = fs::read(format!("/proc/{pid}/mountinfo")) else { return Ok(()) };
        if mounts::at(&mounts::parse(&table), place).is_some() {
            return Ok(());
        }
        Err(format!(
            "Docker does not see what podkeeper mounts: the two run in different mount namespaces. Run podkeeper without mounts of its own, or make the mount of {} shared",
            self.root.display()
        ))
    }

    /// Sets apart what a killed daemon has bound at a place below the directories of pods.
    pub(super) fn set_apart(&self, place: &Path) -> io::Result<()> {
        let pods = self.root().map_err(io::Error::other)?.join("pods");
        mounts::set_apart(&mounts::table()?, place, &pods)
    }

    /// See [`Bind::make`].
    pub(super) fn bind(
        &self,
        bind: &Bind<'_>,
        target: &OwnedFd,
        clear: &dyn Fn(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let stage = self.root().map_err(io::Error::other)?.join(layout::STAGE);
        let _one = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        bind.make(&stage, target, clear)
    }

    /// Counts mounts for a pod of a source behind others, at these places below its directory, before they are made.
    pub(super) fn count_mounts(&self, uid: &str, places: Vec<String>) -> Result<(), String> {
        let counted = self.in_memory.take_mounts(&self.root()?, uid, places);
        counted.map_err(|error| format!("cannot read the mounts: {error}"))?
    }

    /// Returns false when another user has the directory.
    pub(super) fn take(&self, uid: &str, who: &Use) -> bool {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        *uses.get_or_insert(uid.to_owned(), who.clone()) == *who
    }

    /// Whether a worker has the directory.
    pub(super) fn is_used(&self, uid: &str) -> bool {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner).get(uid).is_some()
    }

    /// Whether another pod's worker has the directory, so that its content is not this pod's.
    fn is_others(&self, uid: &str, key: &PodKey) -> bool {
        let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(uses.get(uid), Some(Use::Worker(other)) if other != key)
    }

    /// Frees the directory, if it is this user's.
    pub(super) fn release(&self, uid: &str, who: &Use) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.get(uid) == Some(who) {
            uses.remove(uid);
        }
    }
}

/// The process that listens at a socket.
fn peer(socket: &Path) -> Option<String> {
    let stream = UnixStream::connect(socket).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    let pid = peer.pid.as_raw_nonzero().get();
    (pid > 0).then(|| pid.to_string())
}

/// Receives the results of orders, from any thread.
pub type Tell = Arc<dyn Fn(Report) + Send + Sync>;
/// Receives the result of binding parts of volumes, from any thread.
pub type Bound = Box<dyn FnOnce(Result<(), String>) + Send>;

/// One worker's handle: its jobs run one after the other.
pub struct PodVolumes {
    node: Arc<Node>,
    key: PodKey,
    tell: Tell,
    queue: Arc<Mutex<Queue>>,
}

impl fmt::Debug for PodVolumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodVolumes")
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// It has a thread, or waits for its turn.
    runs: bool,
    /// The last pod for which something was made.
    pod: Option<Arc<DesiredPod>>,
    /// The current job.
    doing: Option<String>,
    /// The container for which parts are being made, and whether it was withdrawn meanwhile.
    preparing: Option<((String, String), bool)>,
}

impl PodVolumes {
    /// Handle for one worker.
    #[must_use]
    pub fn new(volumes: &Volumes, key: PodKey, tell: Tell) -> PodVolumes {
        PodVolumes { node: Arc::clone(&volumes.0), key, tell, queue: Arc::default() }
    }

    /// Carries out an order, and reports its result.
    pub fn order(&self, order: Order) {
        match &order {
            Order::TearDown { uid } if self.node.is_others(uid, &self.key) => {
                return (self.tell)(Report::TornDown { uid: uid.clone(), result: Ok(()) });
            }
            Order::TearDown { uid } => {
                // Most pods have no volumes: no thread for them.
                let idle = !self.lock().runs;
                if idle && self.node.root().is_ok_and(|root| tear_down::is_clean(&root, uid)) {
                    self.node.in_memory.forget(uid);
                    self.node.release(uid, &self.user());
                    return (self.tell)(Report::TornDown { uid: uid.clone(), result: Ok(()) });
                }
                // Until its turn comes, no other pod of the UID may set up what it would remove.
                if !self.node.take(uid, &self.user()) {
                    let why = "what an earlier daemon has left is being removed".to_owned();
                    return (self.tell)(Report::TornDown { uid: uid.clone(), result: Err(why) });
                }
            }
            Order::SetUp(order) => {
                if !self.node.take(&order.pod.uid, &self.user()) {
                    let why = "what another pod of its UID has or left is not removed yet".to_owned();
                    return (self.tell)(all_failed(order, &why));
                }
                self.lock().pod = Some(Arc::clone(&order.pod));
            }
        }
        self.push(Job::Order(order));
    }

    /// Makes the parts of volumes for one container, by its pod's UID and its name, and reports whether all are there.
    /// Earlier requests for it that have not begun are dropped without a report. It takes a turn of the pod's source: a pod
    /// may have volumes of its images alone, which no order has set up.
    pub fn prepare(&self, pod: Option<&Arc<DesiredPod>>, of: (String, String), parts: Parts, bound: Bound) {
        let mut queue = self.lock();
        queue.pod = pod.or(queue.pod.as_ref()).cloned();
        queue.jobs.retain(|job| !matches!(job, Job::Parts(earlier, ..) if *earlier == of));
        drop(queue);
        // The work may begin when the pod has another UID.
        let pod = pod.filter(|pod| pod.uid == of.0).cloned();
        self.push(Job::Parts(of, pod, parts, bound));
    }

    /// The container is not made: nothing is prepared for it any more. Otherwise its pod would have the directory for good,
    /// for its volumes may have been taken down.
    pub fn withdraw(&self, of: &(String, String)) {
        let mut queue = self.lock();
        queue.jobs.retain(|job| !matches!(job, Job::Parts(earlier, ..) if earlier == of));
        if let Some((current, is_withdrawn)) = &mut queue.preparing {
            *is_withdrawn |= current == of;
        }
    }

    fn user(&self) -> Use {
        Use::Worker(self.key.clone())
    }

    /// The current job, as text.
    #[must_use]
    pub fn doing(&self) -> Option<String> {
        self.lock().doing.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) {
        let mut queue = self.lock();
        queue.jobs.push_back(job);
        if queue.runs {
            return;
        }
        queue.runs = true;
        queue.doing = Some("the work on volumes of other pods, for which this one waits,".to_owned());
        let pod = queue.pod.clone();
        drop(queue);
        let (node, tell, shared) = (Arc::clone(&self.node), Arc::clone(&self.tell), Arc::clone(&self.queue));
        let (key, source) = (self.key.clone(), pod.map(|pod| pod.source));
        let work = move |turn: Result<(), String>| {
            while let Some(job) = next(&shared) {
                let parts = match &job {
                    Job::Parts((uid, _), ..) => Some((uid.clone(), node.is_used(uid))),
                    Job::Order(_) => None,
                };
                match &turn {
                    Ok(()) => work(&node, &key, job, &tell, &|doing| {
                        shared.lock().unwrap_or_else(PoisonError::into_inner).doing = Some(doing);
                    }),
                    Err(why) => refuse(job, why, &tell),
                }
                let mut queue = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let preparing = queue.preparing.take();
                if let (Some((_, true)), Some((uid, false))) = (preparing, parts)
                    // What comes next of the pod needs the directory, and frees it.
                    && !queue.jobs.iter().any(|job| job.uid() == uid)
                {
                    node.release(&uid, &Use::Worker(key.clone()));
                }
            }
        };
        self.node.turns.add(source, Box::new(work));
    }
}

/// The next job; if there is none, the thread counts as ended.
fn next(queue: &Mutex<Queue>) -> Option<Job> {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    let job = queue.jobs.pop_front();
    queue.runs = job.is_some();
    queue.doing = None;
    queue.preparing = match &job {
        Some(Job::Parts(of, ..)) => Some((of.clone(), false)),
        _ => None,
    };
    job
}
