//! The keeper of the node: it looks at what the node has left, tells the main loop, and has garbage collected. It reads
//! figures and carries out what `eviction/` and `garbage/` decide.
//!
//! Far from every threshold it looks once a minute; near one, and while the node is short, as often as the kubelet
//! (`eviction::cadence` has the rule). The kernel tells it between two looks that memory runs short. Without a
//! threshold it never wakes up. Collecting garbage may take Docker minutes, so it has a thread of its own, which is
//! there only meanwhile: memory is watched all the time. Never here: a decision about which pod goes.

mod disk;
mod figures;
mod kernel;
pub(super) mod local;

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{io, thread};

use crossbeam_channel::Sender;
use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use self::disk::Disks;
use self::figures::{Look, Places};
use self::kernel::Kernel;
use crate::base::clock::{Clock as _, Mono, System};
use crate::base::pulse::Pulses;
use crate::base::{limits, wait};
use crate::cgroup::{self, Parents};
use crate::daemon::turn::Event;
use crate::eviction::News;
use crate::eviction::cadence::Falls;
use crate::eviction::manager::{Act, Manager};
use crate::eviction::signal::Signal;
use crate::eviction::threshold::{Amount, Settings, Threshold};
use crate::garbage::collector::Collector;
use crate::garbage::schedule::{Disk, Schedule};
use crate::garbage::{Order, Report};
use crate::layout;
use crate::node::pressure::Pressures;
use crate::recorder::words;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, Reply};
use crate::stats::cgroup::Hierarchies;
use crate::status::snapshot::{Latest, Snapshot};

/// What a keeper is made of.
#[derive(Debug)]
pub(super) struct Parts {
    /// Thresholds; none on a Docker in memory, which has no processes and no disk.
    pub(super) eviction: Settings,
    /// Removes garbage; none on a Docker in memory.
    pub(super) garbage: Option<Arc<Collector>>,
    pub(super) pods: Latest,
    pub(super) root_dir: PathBuf,
    pub(super) docker: Docker,
    pub(super) clock: System,
    /// Where the cgroups of pods are.
    pub(super) parents: Parents,
    pub(super) out: Sender<Event>,
}

/// Handle of the thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Keeper {
    pods: Latest,
    _stop: OwnedFd,
}

impl Keeper {
    /// Starts the thread `pk-keeper`.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn start(parts: Parts, pulses: Pulses) -> io::Result<Keeper> {
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let pods = parts.pods.clone();
        let mut rounds = Rounds::new(parts);
        thread::Builder::new().name("pk-keeper".to_owned()).stack_size(limits::WORKER_STACK).spawn(
            move || {
                pulses.join("the keeper of the node".to_owned());
                rounds.keep(&stopped);
            },
        )?;
        Ok(Keeper { pods, _stop: stop })
    }

    /// The pods as they are now. The thread is not woken for it.
    pub(super) fn tell(&self, snapshot: Arc<Snapshot>) {
        self.pods.tell(snapshot);
    }
}

/// The main loop is gone.
struct Gone;

/// A run of the collector in its thread.
struct Collecting {
    thread: JoinHandle<Report>,
    order: Order,
    /// The file system of images before.
    disk: Disk,
    /// Hangs up when the run is over.
    over: OwnedFd,
}

struct Rounds {
    parts: Parts,
    places: Places,
    manager: Manager,
    /// The manager's thresholds, and that of the collection of images.
    watched: Vec<Threshold>,
    disks: Disks,
    falls: Falls,
    kernel: Kernel,
    /// What the main loop was told.
    told: Pressures,
    collecting: Option<Collecting>,
    /// When images are collected though the node is short of nothing.
    schedule: Schedule,
    /// The manager wants all garbage collected, and another run is not over.
    owed: bool,
    /// How often it was looked.
    looks: u32,
    /// What is there as long as the evicted pod is: cgroups of its containers, and the directory of its volumes.
    traces: Vec<PathBuf>,
    /// It was told that no pod can go.
    is_stuck: bool,
}

impl Rounds {
    fn new(parts: Parts) -> Rounds {
        let places = Places {
            proc: PathBuf::from("/proc"),
            cgroups: Hierarchies::open(PathBuf::from(cgroup::node::MOUNT)),
            root_dir: parts.root_dir.clone(),
            docker_root: None,
        };
        let manager = Manager::new(parts.eviction.clone());
        let disks = Disks::new(parts.docker.clone(), parts.root_dir.clone());
        let mut watched = manager.thresholds().to_vec();
        watched.extend(parts.garbage.as_deref().and_then(image_threshold));
        Rounds {
            parts,
            places,
            manager,
            watched,
            disks,
            falls: Falls::default(),
            kernel: Kernel::default(),
            told: Pressures::new(),
            collecting: None,
            schedule: Schedule::default(),
            owed: false,
            looks: 0,
            traces: Vec::new(),
            is_stuck: false,
        }
    }

    /// Looks when it is due, until the handle or the main loop is gone.
    fn keep(&mut self, stopped: &OwnedFd) {
        if self.manager.thresholds().iter().any(is_of_memory) {
            self.kernel = Kernel::open(&self.places.proc);
        }
        let mut is_told = false;
        loop {
            let Ok(mut due) = self.look() else { return };
            if is_told {
                // What the kernel tells again and again is listened to only as often as one looks near a threshold.
                let next = Instant::now() + limits::EVICTION_NEAR;
                due = Some(due.map_or(next, |due| due.min(next)));
            }
            match self.rest(stopped, due, !is_told) {
                Some(told) => is_told = told,
                None => return,
            }
        }
    }

    /// Waits until it is time to look; says whether the kernel has told something. `None`: the handle is gone.
    fn rest(&mut self, stopped: &OwnedFd, due: Option<Instant>, listens: bool) -> Option<bool> {
        let mut set = vec![PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN)];
        let collecting =
            self.collecting.iter().map(|it| PollFd::from_borrowed_fd(it.over.as_fd(), PollFlags::IN));
        set.extend(collecting);
        if listens {
            set.extend(self.kernel.set());
        }
        let Ok(ready) = wait::until(set, due) else {
            // The kernel has no memory for it. Looking goes on.
            thread::sleep(limits::EVICTION_POLL);
            return Some(false);
        };
        let (stopped, rest) = ready.split_first()?;
        if !stopped.is_empty() {
            return None;
        }
        let (over, kernel) =
            rest.split_at_checked(usize::from(self.collecting.is_some())).unwrap_or_default();
        if over.iter().any(|flags| !flags.is_empty()) {
            self.collected().ok()?;
        }
        Some(listens && self.kernel.heard(kernel))
    }

    /// Looks at the node; returns when to look again.
    fn look(&mut self) -> Result<Option<Instant>, Gone> {
        let ages = |garbage: &Arc<Collector>| !garbage.policy().max_age.is_zero();
        if self.watched.is_empty() && !self.parts.garbage.as_ref().is_some_and(ages) {
            return Ok(None);
        }
        // Docker is not waited for while it is known not to answer.
        if self.places.docker_root.is_none() && self.parts.pods.get().docker.reachable {
            self.places.docker_root = docker_root(&self.parts.docker);
        }
        let pods = self.parts.parents.get().map(|naming| naming.top());
        let look = self.places.look(&self.watched, pods.as_deref());
        let now = self.parts.clock.now().mono;
        self.manager.set_dedicated(look.dedicated);
        self.falls.see(&look.found, now);
        self.kernel.watch(&look.usages);
        let traces = &self.traces;
        // Without a trace nobody can tell, and its time is waited for.
        let is_gone = |_: &_, _: &str| !traces.is_empty() && !traces.iter().any(|trace| trace.exists());
        let looked = self.manager.look(&look.found, is_gone, now);
        if looked.pressures != self.told {
            self.told.clone_from(&looked.pressures);
            self.tell(News::Pressures(looked.pressures))?;
        }
        match looked.act {
            Act::Nothing => self.is_stuck = false,
            Act::Collect(threshold) => {
                self.tell(News::Node(words::threshold_met(threshold.signal.resource().name())))?;
                self.owed = true;
            }
            Act::Evict(threshold) => self.evict(&threshold, &look, now)?,
        }
        self.collect(&look, now)?;
        self.looks = self.looks.saturating_add(1);
        let mut rest = self.manager.rest(&self.watched, &look.found, &self.falls, now);
        let is_blind = self.watched.iter().any(|t| !look.found.contains_key(&t.signal));
        if is_blind && self.looks <= limits::EVICTION_FIRST_LOOKS {
            // Docker has not told yet where its files and the pods' cgroups are.
            rest = rest.map(|rest| rest.min(limits::EVICTION_NEAR));
        }
        if let Some(garbage) = &self.parts.garbage
            && let Some(next) = self.schedule.next(garbage.policy())
        {
            let next = next.since(now);
            rest = Some(rest.map_or(next, |rest| rest.min(next)));
        }
        Ok(rest.and_then(|rest| Instant::now().checked_add(rest)))
    }

    fn tell(&self, news: News) -> Result<(), Gone> {
        self.parts.out.send(Event::Node(news)).map_err(|_| Gone)
    }

    fn evict(&mut self, threshold: &Threshold, look: &Look, now: Mono) -> Result<(), Gone> {
        let snapshot = self.parts.pods.get();
        let found = self.places.candidates(&snapshot, threshold.signal, look.dedicated, &mut self.disks);
        let (candidates, traces): (Vec<_>, Vec<_>) = found
            .into_iter()
            .map(|(candidate, cgroups)| {
                let traces = (candidate.uid.clone(), cgroups);
                (candidate, traces)
            })
            .unzip();
        let resource = threshold.signal.resource();
        let Some(eviction) = self.manager.choose(threshold, &look.found, candidates, now) else {
            if !std::mem::replace(&mut self.is_stuck, true) {
                log::warn!(
                    "the node is short of {resource}, and there is no pod whose end would help: none is evicted"
                );
            }
            return Ok(());
        };
        self.is_stuck = false;
        let cgroups =
            traces.into_iter().filter(|(uid, _)| *uid == eviction.uid).flat_map(|(_, cgroups)| cgroups);
        let tree = self.places.cgroups.tree();
        self.traces = cgroups.map(|cgroup| tree.join(cgroup)).collect();
        self.traces.extend(layout::volumes_dir(&self.places.root_dir, &eviction.uid));
        self.tell(News::Node(words::threshold_met(resource.name())))?;
        self.tell(News::Evict(eviction))
    }

    /// Starts the thread that collects, when something is due.
    fn collect(&mut self, look: &Look, now: Mono) -> Result<(), Gone> {
        let Some(garbage) = self.parts.garbage.clone().filter(|_| self.collecting.is_none()) else {
            return Ok(());
        };
        let disk = look.images.map(|images| Disk { capacity: images.capacity, available: images.available });
        let order = if std::mem::take(&mut self.owed) {
            Some(Order::All)
        } else {
            match disk.map(|disk| self.schedule.due(garbage.policy(), disk, now)) {
                Some(Ok(order)) => order,
                Some(Err(words)) => return self.tell(News::Node(words)),
                None => None,
            }
        };
        let Some(order) = order else { return Ok(()) };
        let begun = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from).and_then(|(over, end)| {
            let thread =
                thread::Builder::new().name("pk-garbage".to_owned()).stack_size(limits::WORKER_STACK);
            let thread = thread.spawn(move || {
                let report = garbage.collect(order);
                drop(end);
                report
            })?;
            Ok(Collecting { thread, order, disk: disk.unwrap_or_default(), over })
        });
        match begun {
            Ok(collecting) => self.collecting = Some(collecting),
            Err(error) => {
                log::warn!("garbage cannot be collected: no thread could be started: {error}");
                if order == Order::All {
                    self.manager.collected(now);
                }
            }
        }
        Ok(())
    }

    /// A run of the collector is over.
    fn collected(&mut self) -> Result<(), Gone> {
        let Some(Collecting { thread, order, disk, .. }) = self.collecting.take() else { return Ok(()) };
        let now = self.parts.clock.now().mono;
        let report = thread.join().unwrap_or_default();
        match order {
            Order::All if report.blind || report.unheard => self.manager.not_collected(now),
            Order::All => self.manager.collected(now),
            Order::Free(_) | Order::Old => {}
        }
        for words in self.schedule.told(order, disk, &report, now) {
            self.tell(News::Node(words))?;
        }
        Ok(())
    }
}

/// As a threshold, what images are collected at; `None` when they never are.
fn image_threshold(garbage: &Collector) -> Option<Threshold> {
    let left = 100_u32.checked_sub(garbage.policy().high.into()).filter(|left| *left > 0)?;
    let value = Amount::Part(left.saturating_mul(1000));
    Some(Threshold { signal: Signal::ImageFs, value, grace: Duration::ZERO, reclaim: None })
}

fn is_of_memory(threshold: &Threshold) -> bool {
    threshold.signal.pressure() == crate::node::pressure::Pressure::Memory
}

/// Docker's root directory; `None` when Docker does not tell.
fn docker_root(docker: &Docker) -> Option<PathBuf> {
    match docker.call(&Call::Info) {
        Ok(Reply::Info(info)) if Path::new(&info.root_dir).is_absolute() => {
            Some(PathBuf::from(info.root_dir))
        }
        _ => None,
    }
}
