//! The mind of a pod worker: one [`Machine`] per pod identity decides what is to be done. Wishes, hints, Docker's
//! replies and the time go in; calls, orders and reports come out. It is driven alike by the worker's thread and by
//! the simulation.
//!
//! After every reply the machine decides anew from what it knows then, calls in flight included: no sequence of
//! steps is stored, so a death of the daemon between any two calls needs no special case (invariant 5), and calls
//! that do not depend on one another overlap by themselves. What it does not know it looks up before it acts:
//! nothing is created on a guess.
//!
//! Never here: waiting, reading, calling Docker; another pod's business; a grace period that is waited for
//! (invariant 10).

mod cgroups;
mod conflicts;
mod deadline;
mod hooks;
mod identity;
mod images;
mod job;
mod life;
mod logs;
mod look;
mod made;
mod mailbox;
mod messages;
mod network;
mod output;
mod probes;
mod publish;
mod replies;
mod resize;
mod sandbox;
mod start;
mod state;
mod stop;
mod tell;
#[cfg(test)]
pub(crate) mod tests;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use log::Level;

use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::table::Table;
use crate::mapping::needs::Create;
use crate::plan::backoff::Backoff;
use crate::plan::{Observed, Owned};
use crate::pod::object::Objects;
use crate::pod::{DesiredPod, PodKey};
use crate::pod_logs::ContainerLogs;
use crate::recorder::words;
use crate::runtime::{Call, DockerState};
use crate::status::Waiting;

use cgroups::Known;
use deadline::Deadline;
use hooks::Hooks;
use job::{Ask, Ensured, Job, Retry, Stop};
use messages::Message;
use network::Network;
use probes::Asked;
use resize::Sizes;
use volumes::Volumes;

pub use mailbox::{Hint, Inbox, PullOutcome, Pulled, Slot, StopOrder, Wish};
pub use output::{FromPod, Output, PullRequest, Report, Settings, Step, Token};
pub use state::{State, Trigger};

#[derive(Debug)]
pub struct Machine {
    key: PodKey,
    settings: Arc<Settings>,
    state: State,
    /// The local objects that the wanted pod refers to, as far as they are there.
    objects: Arc<Objects>,
    /// What lives, and the dead that count.
    seen: Observed,
    /// The dead of an earlier life of this identity: they only wait for removal.
    old: Observed,
    list_needed: bool,
    /// The first list has been read: an exit seen from now on happened on our watch.
    watching: bool,
    /// Must be inspected before anything is decided.
    blind: BTreeSet<String>,
    /// Should be inspected; nothing waits for it.
    stale: BTreeSet<String>,
    inspect_retry: Table<String, Retry>,
    in_flight: Table<Token, Job>,
    next_token: u64,
    /// Docker as a whole gives trouble.
    trouble: Retry,
    stops: Table<String, Stop>,
    /// Since when everything is being stopped: the grace is the pod's, not each container's anew.
    stopping: Option<Mono>,
    removals: Table<String, Retry>,
    /// Start failed though Docker may still say `created`: id -> message.
    cannot_run: Table<String, String>,
    crashes: Backoff,
    pulls: Backoff,
    /// By image.
    pulling: Table<String, Ask>,
    /// By image: when, and the reason and message that the kubelet has for it.
    pull_failures: Table<String, (Mono, &'static str, String)>,
    /// For which attempt the container's image has been ensured (policy Always, or after a 404).
    ensured: Table<String, Ensured>,
    /// Containers whose create was refused for want of the image.
    missing: BTreeSet<String>,
    sizes: Sizes,
    /// By UID.
    cgroups: Table<String, Known>,
    /// Containers in the pod's cgroup that no list has told of, until Docker has said what they are.
    unlisted: Table<String, Retry>,
    /// By container: the user of its image, for this attempt.
    image_users: Table<String, identity::Looked>,
    /// The sandbox of which it was told that another one takes its place.
    sandbox_told: Option<String>,
    /// The sandbox whose early death has been counted.
    sandbox_counted: Option<String>,
    /// By container name; the sandbox under `POD`.
    create_retry: Table<String, Retry>,
    /// Starts that Docker contradicted itself about, by id.
    start_retry: Table<String, Retry>,
    /// Made containers whose start may still be on its way, by id, and until when: a call without an answer,
    /// or one of a daemon that died.
    late_starts: Table<String, Mono>,
    /// A name nobody can be found to hold: create with a suffix instead.
    suffixed: Table<String, u32>,
    sandbox_started: Table<String, Mono>,
    /// Containers in which the kernel killed a process for want of memory.
    out_of_memory: BTreeSet<String>,
    waiting: Waiting,
    asked: Asked,
    hooks: Hooks,
    deadline: Deadline,
    network: Network,
    messages: Table<String, Message>,
    digests: BTreeMap<String, String>,
    /// Images whose digest has been asked for.
    digest_asked: BTreeSet<String>,
    volumes: Volumes,
    /// Logs that were told last.
    logs: ContainerLogs,
    status: Option<Arc<PodStatus>>,
    reported: Option<(Arc<PodStatus>, bool, Arc<DesiredPod>)>,
    reported_seen: Table<String, DockerState>,
    /// When the sandbox of a pod that is gone for good is stopped.
    lingers_until: Option<Mono>,
    told_terminated: bool,
    told_gone: Option<u64>,
    wishes: u64,
    out: Vec<Output>,
    wake: Option<Mono>,
}

impl Machine {
    /// A machine for one identity. `known_empty`: Docker's list is known to hold nothing under it, so the
    /// first look is not needed.
    #[must_use]
    pub fn new(key: PodKey, settings: Arc<Settings>, known_empty: bool) -> Machine {
        Machine {
            key,
            settings,
            state: State::Terminated,
            objects: Arc::default(),
            seen: Observed::default(),
            old: Observed::default(),
            list_needed: !known_empty,
            watching: known_empty,
            blind: BTreeSet::new(),
            stale: BTreeSet::new(),
            inspect_retry: Table::new(),
            in_flight: Table::new(),
            next_token: 0,
            trouble: Retry::default(),
            stops: Table::new(),
            stopping: None,
            removals: Table::new(),
            cannot_run: Table::new(),
            crashes: Backoff::crashes(),
            pulls: Backoff::pulls(),
            pulling: Table::new(),
            pull_failures: Table::new(),
            ensured: Table::new(),
            missing: BTreeSet::new(),
            sizes: Sizes::default(),
            cgroups: Table::new(),
            unlisted: Table::new(),
            image_users: Table::new(),
            sandbox_told: None,
            sandbox_counted: None,
            create_retry: Table::new(),
            start_retry: Table::new(),
            late_starts: Table::new(),
            suffixed: Table::new(),
            sandbox_started: Table::new(),
            out_of_memory: BTreeSet::new(),
            waiting: Waiting::new(),
            asked: Asked::default(),
            hooks: Hooks::default(),
            deadline: Deadline::default(),
            network: Network::default(),
            messages: Table::new(),
            digests: BTreeMap::new(),
            digest_asked: BTreeSet::new(),
            volumes: Volumes::default(),
            logs: ContainerLogs::new(),
            status: None,
            reported: None,
            reported_seen: Table::new(),
            lingers_until: None,
            told_terminated: false,
            told_gone: None,
            wishes: 0,
            out: Vec::new(),
            wake: None,
        }
    }

    #[cfg(test)]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Takes what was read from the mailbox. Follow with [`Machine::step`].
    pub fn read(&mut self, inbox: Inbox, now: &Now) {
        self.wishes = inbox.wishes;
        if let Some(order) = inbox.stop {
            self.trigger(Trigger::Stop(order));
        }
        // What runs is not touched: it took its environment when it was made.
        if let Some(objects) = inbox.objects {
            self.take_objects(objects);
        }
        if let Some(pod) = inbox.run {
            self.trigger(Trigger::Run(pod));
        }
        if inbox.look_all {
            self.list_needed = true;
            // Docker is there again: no more waiting for it.
            self.trouble = Retry::default();
        }
        for id in inbox.started {
            self.hint_started(&id);
        }
        for id in inbox.out_of_memory {
            self.hint_out_of_memory(&id);
        }
        for id in inbox.changed {
            self.hint_changed(&id);
        }
        for id in inbox.removed {
            self.hint_removed(&id);
        }
        for (image, words) in &inbox.pulling {
            self.pull_progress(image, words);
        }
        for news in inbox.news {
            self.hear(news);
        }
        for pulled in inbox.pulled {
            self.pulled(pulled, now);
        }
        for report in inbox.cgroups {
            self.cgroup_told(report, now);
        }
        for report in inbox.volumes {
            self.volumes_told(report, now);
        }
        if !inbox.images.is_empty() {
            self.images_came(&inbox.images);
        }
        if inbox.retry {
            self.try_images_again();
        }
    }

    /// Decides what to do now. Call it after every input and when the last step's `wake` is reached.
    pub fn step(&mut self, now: &Now) -> Step {
        self.wake = None;
        self.tend_hooks(now);
        self.act(now);
        self.drop_cgroups();
        self.tend_messages();
        self.tend_files();
        self.publish(now);
        self.tell_logs();
        self.watch(now);
        Step { out: std::mem::take(&mut self.out), wake: self.wake }
    }

    fn act(&mut self, now: &Now) {
        if now.mono < self.trouble.until {
            self.wake_at(self.trouble.until);
            return;
        }
        if !self.look(now) {
            return;
        }
        // Each turn of this loop is a change of state; the table has no cycle without a reply from Docker.
        for _ in 0..4 {
            match self.state.clone() {
                State::Syncing(pod) => {
                    if self.seen.all.iter().any(|c| c.state.is_running() && c.uid != pod.uid) {
                        self.trigger(Trigger::OtherUid);
                        continue;
                    }
                    self.sync(&pod, now);
                    return;
                }
                State::Terminating { last, order, .. } => {
                    let spec = last.as_ref().map(|pod| &*pod.spec);
                    if !self.stop_everything(order.grace, spec, now) {
                        return;
                    }
                    self.trigger(Trigger::AllDead);
                }
                // Its first wish is still on its way: nobody has said yet whether what runs is wanted.
                State::Terminated if self.wishes == 0 => return,
                State::Terminated => {
                    if !self.all_seen().any(|c| c.state.is_running()) {
                        self.bury(now);
                        return;
                    }
                    let order = StopOrder { grace: None, why: "somebody started what nobody wants" };
                    self.trigger(Trigger::Stop(order));
                }
            }
        }
    }

    /// Removes what is left; when nothing is, says so.
    fn bury(&mut self, now: &Now) {
        if !self.told_terminated {
            self.told_terminated = true;
            self.out.push(Output::Report(Report::Terminated));
        }
        self.remove_surplus(None, now);
        let volumes_gone = self.end_volumes(None, now);
        // Before it is said that nothing is left: then a successor may make it anew.
        self.drop_cgroups();
        let left = self.seen.all.len() + self.old.all.len() + self.in_flight.len();
        let volumes_gone = volumes_gone && !self.cgroups_leave();
        if volumes_gone && left == 0 && self.told_gone != Some(self.wishes) {
            self.told_gone = Some(self.wishes);
            self.out.push(Output::Report(Report::Gone(self.wishes)));
        }
    }

    fn in_trouble(&self, now: &Now) -> bool {
        now.mono < self.trouble.until
    }

    // --- small tools shared by the machine's files ------------------------------------------------

    fn all_seen(&self) -> impl Iterator<Item = &Owned> {
        self.seen.all.iter().chain(&self.old.all)
    }

    /// The token of the next call.
    fn next(&self) -> Token {
        Token(self.next_token)
    }

    fn call(&mut self, job: Job, call: Call) {
        let token = self.under_way(job);
        self.out.push(Output::Call(token, call));
    }

    fn create(&mut self, job: Job, create: Create) {
        let token = self.under_way(job);
        self.out.push(Output::Create(token, create));
    }

    fn under_way(&mut self, job: Job) -> Token {
        let token = self.next();
        self.next_token += 1;
        self.in_flight.insert(token, job);
        token
    }

    fn log(&mut self, level: Level, line: String) {
        self.out.push(Output::Log(level, line));
    }

    fn wake_at(&mut self, at: Mono) {
        self.wake = Some(self.wake.map_or(at, |old| old.min(at)));
    }

    /// Some call of this kind is in flight.
    fn any_in_flight(&self, test: impl Fn(&Job) -> bool) -> bool {
        self.in_flight.values().any(test)
    }

    /// As many calls are in flight as one pod may have; the next answer brings the next turn.
    fn is_full(&self) -> bool {
        self.in_flight.len() >= limits::CALLS_PER_POD
    }

    /// A call about this container is in flight.
    fn busy(&self, container: &str) -> bool {
        self.any_in_flight(|j| match j {
            Job::Inspect { id, .. }
            | Job::Start { id }
            | Job::Kill { id, .. }
            | Job::Rename { id, .. }
            | Job::Update { id, .. }
            | Job::Remove { id } => id == container,
            _ => false,
        })
    }

    /// Docker as a whole did not work: look again, after a while. Calls that fail together are one
    /// trouble; and a list that works says nothing about the call that does not, so only a time of peace
    /// ends it.
    fn docker_trouble(&mut self, why: &str, now: &Now) {
        if self.trouble_begins(now) {
            self.log(Level::Warn, format!("pod {}: {why}; podkeeper tries again", self.key));
        }
    }

    /// A call of this pod did not work, and Docker as a whole may: nothing but the pod's event tells of it.
    fn call_trouble(&mut self, why: &str, now: &Now) {
        if self.trouble_begins(now) {
            self.tell(None, words::sync_failed(&format!("{why}; tried again")));
        }
    }

    /// Whether that is news.
    fn trouble_begins(&mut self, now: &Now) -> bool {
        self.list_needed = true;
        if self.in_trouble(now) {
            return false;
        }
        if now.mono.since(self.trouble.until) > limits::CALL_RETRY_MAX {
            self.trouble = Retry::default();
        }
        let news = self.trouble.tries == 0;
        self.trouble.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono);
        news
    }
}

#[cfg(test)]
impl Machine {
    /// How many things it remembers, by kind: what must not grow.
    fn size(&self) -> usize {
        [
            self.seen.all.len(),
            self.old.all.len(),
            self.blind.len(),
            self.stale.len(),
            self.inspect_retry.len(),
            self.in_flight.len(),
            self.stops.len(),
            self.removals.len(),
            self.cannot_run.len(),
            self.crashes.len(),
            self.pulls.len(),
            self.pulling.len(),
            self.pull_failures.len(),
            self.ensured.len(),
            self.missing.len(),
            self.image_users.len(),
            self.cgroups.len(),
            self.unlisted.len(),
            self.sizes.size(),
            self.create_retry.len(),
            self.start_retry.len(),
            self.late_starts.len(),
            self.suffixed.len(),
            self.sandbox_started.len(),
            self.out_of_memory.len(),
            self.waiting.len(),
            self.messages.len(),
            self.digests.len(),
            self.asked.size(),
            self.hooks.size(),
            self.digest_asked.len(),
            self.reported_seen.len(),
            self.network_size(),
        ]
        .iter()
        .sum()
    }
}
