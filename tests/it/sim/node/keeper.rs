//! The keeper of the simulated node: its decisions and the collector's runs are the daemon's own code; the work
//! of the threads beside them is done here, in the world's time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use podkeeper::testing::base::clock::{Mono, Now};
use podkeeper::testing::base::limits;
use podkeeper::testing::base::table::Set;
use podkeeper::testing::daemon::keeper::mind::{Choice, Deed as Order, Mind, Seen};
use podkeeper::testing::daemon::turn::Event;
use podkeeper::testing::eviction::News;
use podkeeper::testing::eviction::manager::End;
use podkeeper::testing::eviction::signal::Signal;
use podkeeper::testing::eviction::threshold::{Settings, Threshold};
use podkeeper::testing::garbage::images::Policy;
use podkeeper::testing::garbage::records::{Moment, Records};
use podkeeper::testing::garbage::run::{Run, View};
use podkeeper::testing::garbage::wants::Wants;
use podkeeper::testing::garbage::{Order as Collect, Report};
use podkeeper::testing::node::pressure::Pressure;
use podkeeper::testing::runtime::{Call, ContainerSummary, DockerError, DockerState, Reply, sandbox_image};

use super::super::world::{ROOT, World};
use super::PRELOADED;

/// A task of the running daemon's keeper.
pub enum Deed {
    /// It looks.
    Look,
    /// The usage of the pod with this UID on the disk of this signal was counted.
    Counted(Signal, String),
    /// The time in which Docker has to answer is over.
    Asked,
    /// A call of the collector reaches the engine.
    Ask(Box<Call>),
    /// The answer to the collector's call.
    Answer(Box<Result<Reply, DockerError>>),
}

/// The keeper of the running daemon.
pub struct Keeping {
    mind: Mind,
    policy: Policy,
    pub records: Records,
    /// Time of its next look.
    due: Option<Mono>,
    /// The run of the collector, its order and its begin.
    pub run: Option<(Run, Collect, Mono)>,
    /// The number of Docker's answers to the collector, and the time of the last one.
    pub steps: (u64, Mono),
    /// The last run that was to collect all garbage: its begin, its end and its report.
    pub last: Option<(Mono, Mono, Report)>,
    /// Images of the pods that were there, those that still ended included, when the last run began.
    pub wanted: BTreeSet<String>,
    /// Traces that exist as long as the pod does that was evicted for this: ids of its containers, and its UID.
    traces: BTreeMap<Pressure, (Vec<String>, String)>,
    /// Times of the looks of the last minute.
    looks: VecDeque<Mono>,
    pub victims: BTreeMap<Pressure, (Mono, String)>,
    /// Begin of the last count of pods' usage.
    pub counted: Mono,
    /// Signal and pod of the count that hangs, because the pod's files hang.
    hangs: Option<(Signal, String)>,
    /// Counts that were given up.
    pub given_up: Vec<(Signal, String)>,
}

impl Keeping {
    pub fn new(settings: Settings, policy: Policy, written: Records) -> Keeping {
        let mut records = written;
        records.set_fixed(&sandbox_image::image_name(), Vec::new());
        Keeping {
            mind: Mind::new(settings, Some(policy.clone())),
            policy,
            records,
            due: None,
            run: None,
            steps: (0, Mono::default()),
            last: None,
            wanted: BTreeSet::new(),
            traces: BTreeMap::new(),
            looks: VecDeque::new(),
            victims: BTreeMap::new(),
            counted: Mono::default(),
            hangs: None,
            given_up: Vec::new(),
        }
    }
}

pub(super) fn moment(now: &Now) -> Moment {
    Moment { up: now.mono.0, wall: now.wall }
}

fn preloaded() -> Option<Set<String>> {
    Some([format!("docker.io/library/{PRELOADED}")].into())
}

impl World {
    pub(super) fn keeping(&mut self) -> Option<&mut Keeping> {
        self.node.as_mut()?.keeping.as_mut()
    }

    /// A daemon has started, and its keeper with it.
    pub fn keeper_begins(&mut self) {
        let Some(node) = self.node.as_mut() else { return };
        node.keeping = Some(Keeping::new(node.settings.clone(), node.policy.clone(), node.written.clone()));
        self.keep(Duration::ZERO, Deed::Look);
        self.keeping().unwrap().due = Some(self.now);
    }

    pub fn keeper_does(&mut self, deed: Deed, is_alive: bool) {
        match deed {
            Deed::Look if is_alive => {
                let now = self.now;
                if self.keeping().is_some_and(|it| it.due.is_some_and(|due| due <= now)) {
                    self.keeper_looks();
                }
            }
            Deed::Ask(call) => {
                let answer = self.keeper_asks(&call);
                if is_alive {
                    let delay = match (&answer, &*call) {
                        (Err(DockerError::Timeout(_)), Call::ImageRemove { .. }) => 120_000,
                        (Err(DockerError::Timeout(_)), _) => 10_000,
                        (_, Call::ImageRemove { .. } | Call::Remove { .. }) => 5 + self.model().below(15_000),
                        _ => 1 + self.model().below(100),
                    };
                    self.keep(Duration::from_millis(delay), Deed::Answer(Box::new(answer)));
                }
            }
            Deed::Counted(signal, uid) if is_alive => {
                let (now, is_down) = (self.now, self.engine.is_down());
                let keeping = self.keeping().unwrap();
                let is_late = keeping.given_up.contains(&(signal, uid.clone()));
                keeping.given_up.retain(|it| *it != (signal, uid.clone()));
                if is_down && !is_late {
                    keeping.mind.not_measured(now);
                } else {
                    let next = keeping.mind.counted(signal, &uid, now);
                    if next.is_some() || is_late {
                        return self.count(signal, next);
                    }
                }
                self.keeping().unwrap().due = Some(now);
                self.keeper_looks();
            }
            Deed::Asked if is_alive => {
                let (now, is_down) = (self.now, self.engine.is_down());
                let keeping = self.keeping().unwrap();
                let line = keeping.mind.asked((!is_down).then_some(Duration::ZERO), now);
                keeping.due = Some(now);
                if let Some(line) = line {
                    self.note(|| format!("keeper warns: {line}"));
                }
                self.keeper_looks();
            }
            Deed::Answer(answer) if is_alive => self.collector_hears(*answer),
            Deed::Look | Deed::Counted(..) | Deed::Asked | Deed::Answer(_) => {}
        }
    }

    /// The thread that counts a pod begins.
    fn count(&mut self, signal: Signal, next: Option<String>) {
        let Some(uid) = next else { return };
        if self.model().dead.contains(&uid) {
            self.keeping().unwrap().hangs = Some((signal, uid));
            return;
        }
        let most = if self.model().below(30) == 0 { 150_000 } else { 500 };
        let takes = Duration::from_millis(self.model().below(most));
        self.keep(takes, Deed::Counted(signal, uid));
    }

    /// Files of pods no longer hang: their counts come to an end.
    pub fn revive(&mut self) {
        self.model().dead.clear();
        let keeping = self.keeping().unwrap();
        let hang: Vec<_> = keeping.given_up.iter().cloned().chain(keeping.hangs.take()).collect();
        for (signal, uid) in hang {
            self.keep(Duration::from_millis(1), Deed::Counted(signal, uid));
        }
    }

    /// Whether the current count hangs.
    fn watch_count(&mut self) {
        let now = self.now;
        // A count that does not hang makes progress all the time.
        let progress = if self.keeping().unwrap().hangs.is_some() { 0 } else { now.0.as_millis() as u64 };
        let keeping = self.keeping().unwrap();
        let Some((uid, next)) = keeping.mind.watch_count(progress, now) else { return };
        let (signal, dead) = keeping.hangs.take().unwrap();
        assert_eq!(dead, uid);
        keeping.given_up.push((signal, dead));
        assert!(keeping.given_up.len() <= 4 * limits::COUNTS_HANGING, "threads that hang are multiplied");
        self.note(|| format!("the count of {uid} hangs"));
        self.count(signal, next);
    }

    fn keeper_looks(&mut self) {
        self.watch_count();
        let (now, seen) = (self.now, self.seen());
        let mut gone = self.keeping().unwrap().traces.clone();
        gone.retain(|_, (ids, uid)| {
            let runs = |id: &String| self.engine.get(id).is_some_and(|c| c.state == DockerState::Running);
            !ids.iter().any(runs) && !self.disk.pods.contains(uid)
        });
        let end = |of: Pressure, _: &str| if gone.contains_key(&of) { End::Gone } else { End::Goes(0) };
        let keeping = self.keeping().unwrap();
        keeping.looks.push_back(now);
        while keeping.looks.front().is_some_and(|at| now.since(*at) >= Duration::from_secs(60)) {
            keeping.looks.pop_front();
        }
        let often = keeping.looks.len();
        keeping.mind.collects_on(keeping.steps.0, now);
        let deeds = keeping.mind.look(&seen, end, now);
        assert!(often <= 80, "{often} looks in a minute");
        self.note(|| format!("keeper looks: {deeds:?} {:?}", seen.found));
        for deed in deeds {
            match deed {
                Order::Tell(news) => self.event(Event::Node(news)),
                Order::Note(line) => self.note(|| line),
                Order::Measure(signal) => {
                    self.keeping().unwrap().counted = now;
                    let snapshot = self.daemon.as_ref().unwrap().turn.snapshot(&self.now());
                    let all = self.candidates(&snapshot, signal);
                    let pods = all.into_iter().map(|(pod, _)| pod.uid).collect();
                    let first = self.keeping().unwrap().mind.counts(signal, pods, now);
                    self.count(signal, first);
                }
                Order::Ask => {
                    let takes = Duration::from_millis(1 + self.model().below(10_000));
                    self.keep(takes, Deed::Asked);
                }
                // A cgroup has no processes here.
                Order::Kill(of) => {
                    self.note(|| format!("the pod that was evicted for {of} is killed in vain"));
                    self.keeping().unwrap().mind.killed_nothing(of);
                }
                Order::GiveWay => self.keeping().unwrap().run.iter_mut().for_each(|(run, ..)| run.give_way()),
                Order::Rank(threshold) => self.evict(&threshold, &seen),
                Order::Collect(order) => {
                    let run = Run::new(order, moment(&self.now()));
                    let wanted = self.images_of_pods();
                    let keeping = self.keeping().unwrap();
                    keeping.run = Some((run, order, now));
                    keeping.steps = (0, now);
                    keeping.wanted = wanted;
                    self.collector_goes_on();
                }
            }
        }
        let mind = &self.keeping().unwrap().mind;
        let count = mind.count_due().map(|due| due.since(now));
        let rest = mind.rest(&seen.found, false, now).into_iter().chain(count).min();
        self.looks_in(rest);
    }

    fn looks_in(&mut self, rest: Option<Duration>) {
        let now = self.now;
        let keeping = self.keeping().unwrap();
        keeping.due = rest.map(|rest| now.after(rest));
        if let Some(rest) = rest {
            self.keep(rest, Deed::Look);
        }
    }

    fn evict(&mut self, threshold: &Threshold, seen: &Seen) {
        let (now, snapshot) = (self.now, self.daemon.as_ref().unwrap().turn.snapshot(&self.now()));
        if !snapshot.docker.reachable {
            return self.note(|| "keeper evicts none: nobody could be stopped".to_owned());
        }
        let mut candidates = self.candidates(&snapshot, threshold.signal);
        let given_up = self.keeping().unwrap().given_up.clone();
        for (pod, _) in &mut candidates {
            if given_up.contains(&(threshold.signal, pod.uid.clone())) {
                pod.used = None;
            }
        }
        let (pods, running): (Vec<_>, Vec<_>) =
            candidates.into_iter().map(|(pod, ids)| (pod.clone(), (pod.uid, ids))).unzip();
        let ranked = format!("{pods:?}");
        let keeping = self.keeping().unwrap();
        let (told, eviction) = match keeping.mind.choose(threshold, &seen.found, pods, now) {
            Choice::Evict(told, eviction) => (told, eviction),
            Choice::Nobody(told) => {
                self.note(|| format!("keeper evicts none of {ranked}: {told:?}"));
                return told.into_iter().for_each(|(_, event)| self.event(Event::Node(event)));
            }
        };
        self.note(|| format!("keeper evicts {} of {ranked}", eviction.key));
        self.judge_eviction(threshold, seen, &eviction);
        let ids = running.into_iter().find(|(uid, _)| *uid == eviction.uid).unwrap().1;
        let keeping = self.keeping().unwrap();
        let of = threshold.signal.pressure();
        keeping.traces.insert(of, (ids, eviction.uid.clone()));
        keeping.victims.insert(of, (now, eviction.uid.clone()));
        self.event(Event::Node(told));
        self.event(Event::Node(News::Evict(eviction)));
    }

    // --- the collector ------------------------------------------------------------------------------

    /// Images that the daemon's pods name, those that still end included.
    fn images_of_pods(&self) -> BTreeSet<String> {
        let snapshot = self.daemon.as_ref().unwrap().turn.snapshot(&self.now());
        let pods =
            snapshot.pods.iter().map(|view| view.pod.containers().filter_map(|(_, c)| c.image.clone()));
        pods.flatten().collect()
    }

    /// Calls `act` on the collector's run, with the present knowledge.
    fn with_run<R>(&mut self, act: impl FnOnce(&mut Run, &mut Records, &View<'_>) -> R) -> R {
        let now = self.now();
        let wants = Wants::of_snapshot(&self.daemon.as_ref().unwrap().turn.snapshot(&now));
        let keeping = self.keeping().unwrap();
        let sandbox = sandbox_image::image_name();
        let view = View {
            policy: &keeping.policy,
            sandbox: &sandbox,
            root_dir: ROOT,
            preloaded: &preloaded,
            wants,
            moment: moment(&now),
        };
        act(&mut keeping.run.as_mut().unwrap().0, &mut keeping.records, &view)
    }

    fn collector_goes_on(&mut self) {
        match self.with_run(|run, _, view| run.next(view)) {
            Some(call) => {
                self.judge_removal(&call);
                let delay = Duration::from_micros(200 + self.model().below(3000));
                self.keep(delay, Deed::Ask(Box::new(call)));
            }
            None => self.collector_ends(),
        }
    }

    fn collector_hears(&mut self, answer: Result<Reply, DockerError>) {
        if answer.is_ok() {
            let now = self.now;
            let steps = &mut self.keeping().unwrap().steps;
            *steps = (steps.0 + 1, now);
        }
        if let Some(line) = self.with_run(|run, records, view| run.answer(answer, records, view)) {
            self.note(|| line);
        }
        self.collector_goes_on();
    }

    fn collector_ends(&mut self) {
        let now = self.now;
        self.write_records();
        let keeping = self.keeping().unwrap();
        let (run, order, began) = keeping.run.take().unwrap();
        let report = run.report();
        let told = keeping.mind.collected(&report, now);
        if order == Collect::All {
            keeping.last = Some((began, now, report.clone()));
        }
        // This wakes the thread up.
        keeping.due = Some(now);
        self.note(|| format!("collector: {report:?}"));
        for news in told {
            self.event(Event::Node(news));
        }
        self.keep(Duration::ZERO, Deed::Look);
    }

    fn keeper_asks(&mut self, call: &Call) -> Result<Reply, DockerError> {
        let now = self.now();
        let before = self.engine.image_list();
        let running = self.running();
        let answer = self.engine.perform(call, now);
        self.note(|| format!("collector: {call:?} -> {:?}", answer.as_ref().err()));
        assert_eq!(running, self.running(), "a container that ran is gone: {call:?}");
        let after = self.engine.image_list();
        for image in before.iter().filter(|image| !after.iter().any(|it| it.id == image.id)) {
            let user = self.engine.containers().find(|c| c.image_id() == image.id);
            assert!(
                user.is_none(),
                "image {:?} goes, and {:?} is made of it",
                image.tags,
                user.map(|c| &c.name)
            );
        }
        answer
    }

    // --- notes ----------------------------------------------------------------------------------------

    /// The event thread has listed containers.
    pub fn keeper_saw(&mut self, containers: &[ContainerSummary]) {
        let now = moment(&self.now());
        let Some(keeping) = self.keeping() else { return };
        keeping.records.note_containers(containers, now);
        self.write_records();
    }

    /// An event of a container that was created from this image.
    pub fn keeper_heard(&mut self, image: &str) {
        let now = moment(&self.now());
        let id = self.image_id(image);
        if let Some(keeping) = self.keeping() {
            if let Some(id) = id {
                keeping.records.note_id(image, &id, now);
            }
            keeping.records.note_use(image, now);
        }
    }

    pub(super) fn write_records(&mut self) {
        let node = self.node.as_mut().unwrap();
        let keeping = node.keeping.as_mut().unwrap();
        if keeping.records.is_changed() {
            node.written = keeping.records.take_unwritten();
        }
    }

    /// Number of looks in the last minute.
    pub fn looks(&mut self) -> usize {
        self.keeping().map_or(0, |keeping| keeping.looks.len())
    }
}
