//! The mind of a pod worker: one [`Machine`] per pod identity decides what is done. Inputs are wishes, hints, Docker's
//! replies and the time; outputs are calls, orders and reports. The worker's thread and the simulation drive it in the
//! same way.
//!
//! After every reply the machine decides anew from all that it knows, calls in flight included. It stores no sequence
//! of steps, so a death of the daemon between any two calls needs no special case (invariant 5), and independent calls
//! overlap by themselves. It looks up what it does not know before it acts: nothing is created on a guess.
//!
//! Never here: waiting, reading, calling Docker; touching another pod; waiting for a grace period (invariant 10).

mod attach;
mod calls;
mod cgroups;
mod containers;
mod input;
mod life;
mod mailbox;
mod members;
mod network;
mod output;
mod remove;
mod replies;
mod running;
mod spare;
mod start;
mod state;
mod stop;
#[cfg(test)]
pub(crate) mod tests;
mod told;
mod volumes;

use std::sync::Arc;

use log::Level;

use crate::base::clock::Now;
use crate::base::limits;
use crate::mapping::needs::Create;
use crate::plan::Owned;
use crate::pod::object::Objects;
use crate::pod::{DesiredPod, PodKey};
use crate::recorder::words;
use crate::runtime::Call;

use calls::{Calls, Job, Retry};
use cgroups::Cgroups;
use containers::Containers;
use containers::look::Looking;
use members::Members;
use network::Network;
use running::deadline::Deadline;
use running::probes::Watched;
use spare::Spares;
use start::pulls::Images;
use start::sandbox::Sandboxes;
use stop::Stopping;
use told::LastReported;
use told::out::Out;
use volumes::Volumes;

pub use input::{FirstList, Input};
pub use mailbox::{Hint, Inbox, PullOutcome, Pulled, Slot, StopOrder, Target, Wish};
pub use output::{FromPod, NodeFacts, Output, PullRequest, Report, Settings, Step, Token};
pub use state::{State, Trigger};

#[derive(Debug)]
pub struct Machine {
    key: PodKey,
    settings: Arc<Settings>,
    /// Facts about the node.
    node: NodeFacts,
    state: State,
    /// Number of wishes in its mailbox that were read or overwritten.
    wishes: u64,
    /// The local objects that the wanted pod refers to, as far as they exist.
    objects: Arc<Objects>,
    /// The containers in Docker, one record each.
    containers: Containers,
    /// State of looking at Docker as a whole.
    looking: Looking,
    /// The containers of the pod by name, one record each.
    members: Members,
    calls: Calls,
    stopping: Stopping,
    sandboxes: Sandboxes,
    images: Images,
    cgroups: Cgroups,
    volumes: Volumes,
    network: Network,
    deadline: Deadline,
    /// Probes and hooks of running containers.
    watched: Watched,
    told: LastReported,
    out: Out,
}

impl Machine {
    /// A machine for one identity. It lists the identity's containers, unless [`Input::Found`] comes first.
    #[must_use]
    pub fn new(key: PodKey, settings: Arc<Settings>, node: NodeFacts) -> Machine {
        Machine {
            key,
            node,
            state: State::New,
            wishes: 0,
            objects: Arc::default(),
            containers: Containers::default(),
            looking: Looking::default(),
            members: Members::new(settings.max_restart_period),
            calls: Calls::default(),
            stopping: Stopping::default(),
            sandboxes: Sandboxes::default(),
            images: Images::default(),
            cgroups: Cgroups::default(),
            volumes: Volumes::default(),
            network: Network::default(),
            deadline: Deadline::default(),
            watched: Watched::default(),
            told: LastReported::default(),
            out: Out::default(),
            settings,
        }
    }

    #[cfg(test)]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The pod that is wanted.
    #[must_use]
    pub fn pod(&self) -> Option<&Arc<DesiredPod>> {
        self.state.pod()
    }

    /// Decides what to do now. Call it after every input and at the last step's `wake`.
    pub fn step(&mut self, now: &Now) -> Step {
        self.out.begin();
        self.advance_hooks(now);
        self.act(now);
        self.detach_the_dead(now);
        self.forget_addresses();
        self.drop_cgroups();
        self.ask_messages(now);
        self.forget_pod_files();
        self.publish(now);
        self.tell_spared();
        self.tell_logs();
        self.tell_dead();
        self.tell_freed();
        self.watch(now);
        self.members.tidy();
        self.out.take()
    }

    fn act(&mut self, now: &Now) {
        let looked = self.look_first(now);
        // Running containers that are not wanted are signalled even while a look is missing: nothing is made for that.
        if !looked {
            if let State::Terminating { last, order, .. } = self.state.clone()
                && self.containers.any_runs()
            {
                self.stop_everything(order.grace, last.as_ref().map(|pod| &*pod.spec), now);
            }
            return;
        }
        // Each turn of this loop is a change of state; the table has no cycle without a reply from Docker, and no path
        // of more than three changes.
        for _ in 0..4 {
            match self.state.clone() {
                State::Syncing(pod) => {
                    if self.recall_networks(&pod) {
                        return;
                    }
                    let other = |c: &Owned| c.state.is_running() && c.uid != pod.uid;
                    if self.containers.current().all.iter().any(other) {
                        self.trigger(Trigger::OtherUid);
                        continue;
                    }
                    self.sync(&pod, now);
                    return;
                }
                State::Terminating { last, order, then } => {
                    match self.spares(last.as_ref(), order.target, then.as_ref()) {
                        Spares::No => {}
                        Spares::NotKnown => return,
                        Spares::Yes => {
                            self.trigger(Trigger::HadEnded);
                            continue;
                        }
                    }
                    let spec = last.as_ref().map(|pod| &*pod.spec);
                    if !self.stop_everything(order.grace, spec, now) || !self.tells_end(last.as_deref(), now)
                    {
                        return;
                    }
                    self.trigger(Trigger::AllDead);
                }
                State::New => return,
                State::Terminated => {
                    if !self.containers.any_runs() {
                        self.clean_up(now);
                        return;
                    }
                    let why = "its containers run, and it is not wanted";
                    self.trigger(Trigger::Stop(StopOrder::new(None, why)));
                }
            }
        }
        debug_assert!(false, "the states of pod {} turn in a circle", self.key);
    }

    /// Removes what is left; reports when nothing is left.
    fn clean_up(&mut self, now: &Now) {
        if !self.told.terminated {
            self.told.terminated = true;
            self.out.push(Output::Report(Report::Terminated));
        }
        self.remove_surplus(None, now);
        let volumes_gone = self.end_volumes(None, now);
        // Before the report that nothing is left: a successor may make it anew after that.
        self.drop_cgroups();
        let empty = self.containers.len() + self.calls.len() == 0
            && !self.cgroups.has_unlisted()
            && !self.network.is_leaving();
        if volumes_gone && !self.cgroups.is_leaving() && empty && self.told.gone != Some(self.wishes) {
            self.told.gone = Some(self.wishes);
            self.out.push(Output::Report(Report::Gone(self.wishes)));
        }
    }

    /// Looks; returns true when enough is known to decide.
    fn look_first(&mut self, now: &Now) -> bool {
        if self.in_trouble(now) {
            self.out.wake_at(self.looking.trouble.until);
            return false;
        }
        self.look(now)
    }

    fn in_trouble(&self, now: &Now) -> bool {
        now.mono < self.looking.trouble.until
    }

    fn call(&mut self, job: Job, call: Call) {
        let token = self.calls.begin(job);
        self.out.push(Output::Call(token, call));
    }

    fn create(&mut self, job: Job, create: Create) {
        let token = self.calls.begin(job);
        self.out.push(Output::Create(token, create));
    }

    /// Notes that Docker as a whole failed, and looks again after a while. Calls that fail together count once. A list
    /// that works says nothing about the failing call, so only a time without failures ends it.
    fn docker_trouble(&mut self, why: &str, now: &Now) {
        if self.begin_trouble(now) {
            self.out.log(Level::Warn, format!("pod {}: {why}; podkeeper tries again", self.key));
        }
    }

    /// Notes that a list failed while Docker as a whole may work: only the pod's event reports it.
    fn list_trouble(&mut self, why: &str, now: &Now) {
        if self.begin_trouble(now) {
            self.tell(None, words::sync_failed(&format!("{why}; tried again")));
        }
    }

    /// Notes a failure. Returns true if it is new.
    fn begin_trouble(&mut self, now: &Now) -> bool {
        self.looking.list_needed = true;
        if self.in_trouble(now) {
            return false;
        }
        if now.mono.since(self.looking.trouble.until) > limits::CALL_RETRY_MAX {
            self.looking.trouble = Retry::default();
        }
        let news = !self.looking.trouble.has_failed();
        self.looking.trouble.failed(now);
        news
    }
}

#[cfg(test)]
impl Machine {
    /// Number of remembered items, by kind: they must not grow.
    fn size(&self) -> usize {
        [
            self.containers.len(),
            self.members.len(),
            self.calls.len(),
            self.members.crashes.len(),
            self.images.len(),
            self.cgroups.len(),
            self.volumes.len(),
            self.network.len(),
            self.told.len(),
        ]
        .iter()
        .sum()
    }
}
