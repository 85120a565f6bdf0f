//! The keeper of the node: it watches how much the node has left, informs the main loop, and has garbage collected. It
//! reads figures and carries out the decisions of `eviction/` and `garbage/`.
//!
//! Far from every threshold it looks every two minutes; near one, and while the node is short, as often as the kubelet
//! (`eviction::cadence` has the rule). Between two looks the kernel notifies it when memory runs short. Without a
//! threshold it never wakes up, but for a run directory that is removed ([`run_dir`]). Collecting garbage and counting a
//! pod's files on disks may take minutes, or hang, so each has a thread of its own, which exists only during that work:
//! memory is watched all the time. Never here: a call to Docker in this thread, or a decision; decisions are made in
//! [`mind`].

mod amounts;
mod aside;
mod count_order;
mod counting;
mod disk;
mod ended;
mod figures;
mod kernel;
mod killing;
pub(super) mod local;
pub mod mind;
mod put_off;
pub(super) mod run_dir;
mod victims;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use self::amounts::Amounts;
use self::aside::Aside;
use self::counting::Counting;
use self::disk::Disks;
use self::ended::{Containers, Emptied, Ended};
use self::figures::{Look, Places};
use self::kernel::Kernel;
use self::mind::{Deed, Mind, Seen};
use self::put_off::PutOff;
use self::run_dir::RunDir;
use self::victims::Victim;
use crate::base::clock::{Clock as _, Mono, System};
use crate::base::program::pages;
use crate::base::table::Table;
use crate::base::{limits, order, thread, wait};
use crate::cgroup::{self, Parents};
use crate::daemon::turn::Event;
use crate::eviction::News;
use crate::eviction::manager::End;
use crate::eviction::threshold::Settings;
use crate::garbage::collector::Collector;
use crate::garbage::tie::Tie;
use crate::garbage::{Order, Report};
use crate::node::pressure::Pressure;
use crate::pod::ends::Ends;
use crate::runtime::docker::Docker;
use crate::runtime::engine_root::EngineRoot;
use crate::stats::cgroup::Hierarchies;
use crate::status::snapshot::{Latest, Snapshot};
use crate::status::task::{Pulses, Task};

/// The parts of a keeper.
pub(super) struct Parts {
    /// Thresholds; none with the in-memory Docker, which has no processes and no disk.
    pub(super) eviction: Settings,
    /// Removes garbage; `None` with the in-memory Docker.
    pub(super) garbage: Option<Arc<Collector>>,
    pub(super) pods: Latest,
    /// How far the ends of pods have come.
    pub(super) ends: Ends,
    pub(super) root_dir: PathBuf,
    /// `None` where nothing is written.
    pub(super) run_dir: Option<RunDir>,
    pub(super) docker: Docker,
    pub(super) docker_root: EngineRoot,
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
        thread::spawn("pk-keeper", limits::WORKER_STACK, move || {
            pulses.join(Task::Keeper);
            rounds.keep(&stopped);
        })?;
        Ok(Keeper { pods, _stop: stop })
    }

    /// Takes the current pods. This does not wake the thread.
    pub(super) fn tell(&self, snapshot: Arc<Snapshot>) {
        self.pods.tell(snapshot);
    }
}

/// The main loop is gone.
struct Gone;

/// A run of the collector in its thread.
struct Collecting {
    run: Aside<(Report, Option<Emptied>)>,
    tie: Arc<Tie>,
}

struct Rounds {
    parts: Parts,
    places: Places,
    mind: Mind,
    kernel: Kernel,
    collecting: Option<Collecting>,
    /// The thread that finds out whether Docker answers, and how long it takes.
    asking: Option<Aside<Option<Duration>>>,
    counting: Counting,
    /// Containers that the last run of the collector has emptied.
    emptied: Emptied,
    /// How an eviction is put off to empty ended pods first.
    put_off: PutOff,
    /// Result of the count, for the next look.
    measured: Option<Amounts>,
    /// The pods that were evicted last, by what the node was short of.
    victims: Table<Pressure, Victim>,
    /// Containers of the pods that were evicted in this shortage of disk, by the pods' UIDs: Docker may not remove them.
    left_over: Vec<(String, Containers)>,
}

impl Rounds {
    fn new(parts: Parts) -> Rounds {
        let places = Places {
            proc: PathBuf::from("/proc"),
            cgroups: Hierarchies::open(PathBuf::from(cgroup::node::MOUNT)),
            root_dir: parts.root_dir.clone(),
            docker_root: parts.docker_root.clone(),
        };
        let policy = parts.garbage.as_deref().map(|garbage| garbage.policy().clone());
        let mind = Mind::new(parts.eviction.clone(), policy);
        let disks = Disks::new(parts.docker.clone(), parts.root_dir.clone(), parts.docker_root.clone());
        Rounds {
            parts,
            places,
            mind,
            kernel: Kernel::default(),
            collecting: None,
            asking: None,
            counting: Counting::new(disks),
            emptied: Emptied::default(),
            put_off: PutOff::default(),
            measured: None,
            victims: Table::new(),
            left_over: Vec::new(),
        }
    }

    /// Looks when it is due, until the handle or the main loop is gone.
    fn keep(&mut self, stopped: &OwnedFd) {
        if self.mind.watches_memory() {
            self.kernel = Kernel::open(&self.places.proc);
        }
        let mut is_told = false;
        loop {
            let Ok(mut due) = self.look() else { return };
            if is_told {
                // Repeated notifications are read only as often as the keeper looks near a threshold.
                let next = Instant::now() + limits::EVICTION_NEAR;
                due = Some(due.map_or(next, |due| due.min(next)));
            }
            match self.rest(stopped, due, !is_told) {
                Some(told) => is_told = told,
                None => return,
            }
        }
    }

    /// Waits until it is time to look; returns whether the kernel has notified. `None`: the handle is gone.
    fn rest(&mut self, stopped: &OwnedFd, due: Option<Instant>, listens: bool) -> Option<bool> {
        loop {
            let run_dir = self.parts.run_dir.as_ref();
            let mut set = vec![PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN)];
            set.extend(run_dir.and_then(RunDir::poll));
            let of_run_dir = set.len().saturating_sub(1);
            set.extend(self.collecting.iter().map(|it| it.run.done()));
            set.extend(self.asking.iter().map(Aside::done));
            let before = set.len();
            set.extend(self.counting.done());
            let threads = set.len().saturating_sub(before);
            if listens {
                set.extend(self.kernel.set());
            }
            let until = due.into_iter().chain(run_dir.and_then(RunDir::due)).min();
            let Ok(ready) = wait::until(set, until) else {
                // The kernel has no memory for polling. The keeper goes on looking.
                std::thread::sleep(limits::EVICTION_POLL);
                return Some(false);
            };
            let (stopped, rest) = ready.split_first()?;
            if !stopped.is_empty() {
                return None;
            }
            let is_done = |flags: &[PollFlags]| flags.iter().any(|flags| !flags.is_empty());
            let (run_dir, rest) = rest.split_at_checked(of_run_dir).unwrap_or_default();
            let is_of_run_dir = self.parts.run_dir.as_mut().is_some_and(|it| it.tend(run_dir));
            if is_of_run_dir && !is_done(rest) && due.is_none_or(|due| due > Instant::now()) {
                continue;
            }
            let (collected, rest) =
                rest.split_at_checked(usize::from(self.collecting.is_some())).unwrap_or_default();
            let (asked, rest) = rest.split_at_checked(usize::from(self.asking.is_some())).unwrap_or_default();
            let (counted, kernel) = rest.split_at_checked(threads).unwrap_or_default();
            let is_told = listens && self.kernel.heard(kernel);
            let is_only_counted = is_done(counted) && !is_done(collected) && !is_done(asked) && !is_told;
            let now = self.parts.clock.now().mono;
            if is_done(collected) {
                self.collected(now).ok()?;
            }
            if is_done(asked) {
                self.asked(now);
            }
            // From last to first: removing a thread moves those behind it.
            for (at, _) in counted.iter().enumerate().rev().filter(|(_, flags)| !flags.is_empty()) {
                self.counted(at, now);
            }
            if !(is_only_counted && self.counting.is_busy()) {
                return Some(is_told);
            }
        }
    }

    /// Looks at the node; returns when to look again.
    fn look(&mut self) -> Result<Option<Instant>, Gone> {
        if self.mind.is_idle() {
            return Ok(None);
        }
        let pods = self.parts.parents.get().map(|naming| naming.top());
        let Look { seen, usages } = self.places.look(self.mind.watched(), pods.as_deref());
        let now = self.parts.clock.now().mono;
        self.kernel.watch(&usages);
        self.watch_count(now);
        if let Some(Collecting { tie, .. }) = &self.collecting {
            self.mind.collects_on(tie.steps(), now);
        }
        let (victims, parts) = (&self.victims, &self.parts);
        let end = |of: Pressure, _: &str| {
            let victim = victims.get(&of);
            victim.map_or(End::Goes(0), |victim| victim.end(&parts.pods.get(), &parts.ends))
        };
        let deeds = self.mind.look(&seen, end, now);
        if !self.mind.is_short() {
            self.left_over.clear();
            self.put_off = PutOff::default();
        }
        // The count is used for this look only.
        let measured = self.measured.take();
        let is_quiet = deeds.is_empty() && self.collecting.is_none() && self.asking.is_none();
        for deed in deeds {
            self.carry_out(deed, &seen, measured.as_ref(), now)?;
        }
        let count = self.mind.count_due().map(|due| due.since(now));
        // A pod that comes does not wake this thread up: it is too late to look often once there is one.
        let is_behind = self.parts.pods.get().standings.values().any(|it| it.evict_first);
        let rest = self.mind.rest(&seen.found, is_behind, now).into_iter().chain(count).min();
        if is_quiet && !self.counting.is_busy() {
            // An idle node runs nothing else of this for minutes.
            pages::give_back();
        }
        Ok(rest.and_then(|rest| Instant::now().checked_add(rest)))
    }

    fn tell(&self, news: News) -> Result<(), Gone> {
        self.parts.out.send(Event::Node(news)).map_err(|_| Gone)
    }

    fn carry_out(
        &mut self,
        deed: Deed,
        seen: &Seen,
        measured: Option<&Amounts>,
        now: Mono,
    ) -> Result<(), Gone> {
        match deed {
            Deed::Tell(news) => self.tell(news),
            Deed::Note(line) => {
                log::info!("{line}");
                Ok(())
            }
            Deed::Measure(signal) => {
                self.measure(signal, seen.dedicated, now);
                Ok(())
            }
            Deed::Rank(threshold) => self.evict(&threshold, seen, measured, now),
            Deed::Ask => {
                self.ask(now);
                Ok(())
            }
            Deed::Kill(of) => {
                if !self.kill(of) {
                    self.mind.killed_nothing(of);
                }
                Ok(())
            }
            Deed::GiveWay => {
                self.collecting.iter().for_each(|it| it.tie.give_way());
                Ok(())
            }
            Deed::Collect(order) => {
                self.collect(order, now);
                Ok(())
            }
        }
    }

    /// Starts the thread that collects.
    fn collect(&mut self, order: Order, now: Mono) {
        let Some(garbage) = self.parts.garbage.clone() else { return };
        let tie = Arc::<Tie>::default();
        let given = Arc::clone(&tie);
        let ended = (order == Order::All).then(|| self.ended());
        let work = move || {
            // A layer may have millions of files: images are quicker.
            let report = garbage.collect(order, &given);
            (report, ended.map(|ended| ended.empty(&given)))
        };
        match Aside::begin("pk-garbage", work) {
            Ok(run) => self.collecting = Some(Collecting { run, tie }),
            Err(error) => {
                log::warn!("garbage cannot be collected: no thread could be started: {error}");
                self.mind.not_begun(now);
            }
        }
    }

    /// Containers of pods that have ended, those of pods that were evicted included: their statuses name no containers.
    fn over(&self, snapshot: &Snapshot) -> Containers {
        let mut all = ended::containers(snapshot);
        let evicted = self.left_over.iter().filter(|(uid, _)| !ended::is_ending(snapshot, uid));
        all.extend(evicted.flat_map(|(_, containers)| containers.clone()));
        all
    }

    /// Returns the ended pods whose layers are emptied after other garbage is removed.
    fn ended(&self) -> Ended {
        let snapshot = self.parts.pods.get();
        let containers = self.over(&snapshot);
        let killed = order::set(self.victims.values().flat_map(Victim::killed).map(str::to_owned));
        let (docker, docker_root) = (self.parts.docker.clone(), self.parts.docker_root.clone());
        Ended {
            docker,
            docker_root,
            root_dir: self.parts.root_dir.clone(),
            containers,
            pods: self.parts.pods.clone(),
            keep_logs: ended::keep_logs(&snapshot),
            go_on: ended::going_on(&snapshot),
            killed,
            before: self.emptied.removing.clone(),
        }
    }

    /// The collector's run is over.
    fn collected(&mut self, now: Mono) -> Result<(), Gone> {
        let Some(Collecting { run, .. }) = self.collecting.take() else { return Ok(()) };
        let (report, emptied) = run.result().unwrap_or_default();
        self.emptied = emptied.unwrap_or_else(|| std::mem::take(&mut self.emptied));
        self.mind.collected(&report, now).into_iter().try_for_each(|news| self.tell(news))
    }
}

#[cfg(test)]
mod tests;
