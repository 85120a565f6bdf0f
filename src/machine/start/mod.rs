//! Bringing a wanted pod up: one decision after the other (the sandbox: `sandbox`, one container: `container`, images:
//! `images`). Which containers is `plan/`'s decision; here it is turned into calls, each as early as what it needs is
//! there (design invariant 1: what ran before is observed dead first).

pub(super) mod conflicts;
mod container;
pub(super) mod identity;
pub(super) mod images;
pub(super) mod made;
pub(super) mod pulls;
pub(super) mod sandbox;

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Now;
use crate::machine::Machine;
use crate::machine::calls::Job;
use crate::machine::members::Part;
use crate::machine::output::{Output, Token};
use crate::machine::running::deadline::Verdict;
use crate::machine::running::hooks::has_post_start;
use crate::machine::state::State;
use crate::machine::stop::Stopping;
use crate::network::hosts::HostsFile;
use crate::plan::actions::PodActions;
use crate::plan::{self, Owned, RunState, SandboxAction};
use crate::pod::waiting::Reason;
use crate::pod::{ContainerKind, DesiredPod};
use crate::probe::HookKind;
use crate::recorder::{self, words};
use crate::runtime::{Call, names};
use crate::status;

/// Which way a wanted pod goes.
#[derive(Debug, PartialEq)]
enum Course<'a> {
    /// It has ended for good, by its deadline or before: nothing of it runs.
    End,
    /// All of it has ended by itself: the sandbox is of no more use.
    Finish,
    /// Another sandbox is made once nothing runs.
    Replace {
        /// Of the sandbox.
        attempt: u32,
    },
    /// Containers run in the sandbox that is there.
    Keep(Sandbox<'a>),
}

/// The sandbox that a pod's containers are made in.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sandbox<'a> {
    id: &'a str,
    /// It runs, and has its network.
    runs: bool,
}

/// `has_ended`: for good.
fn course(has_ended: bool, planned: &SandboxAction) -> Course<'_> {
    match planned {
        _ if has_ended => Course::End,
        SandboxAction::Finish => Course::Finish,
        SandboxAction::Replace { attempt } => Course::Replace { attempt: *attempt },
        SandboxAction::Keep { id, running } => Course::Keep(Sandbox { id, runs: *running }),
    }
}

impl Machine {
    /// One decision for a wanted pod.
    pub(super) fn sync(&mut self, pod: &Arc<DesiredPod>, now: &Now) {
        if self.stop_earlier_life(pod, now) {
            return;
        }
        if self.is_in_the_way(pod, now) {
            self.remove_surplus(Some(pod), now);
            return;
        }
        let past_deadline = match self.deadline(pod, now) {
            Verdict::Marking => return,
            verdict => verdict == Verdict::Passed,
        };
        let probes = self.probes(pod);
        let actions = plan::actions::compute(pod, self.containers.current(), &probes);
        // A pod that has ended stays ended, even when a container of it is started by hand.
        match course(past_deadline || self.told.has_ended(), &actions.sandbox) {
            Course::End => {
                self.end_volumes(None, now);
                self.stop_everything(None, Some(&pod.spec), now);
            }
            Course::Finish => {
                self.end_volumes(None, now);
                self.members.none_waits();
                self.stop_everything(None, Some(&pod.spec), now);
            }
            Course::Replace { attempt } => {
                let ready = self.prepare(pod, now);
                self.tell_sandbox_change(pod);
                if self.stop_everything(None, Some(&pod.spec), now) && ready {
                    self.create_sandbox(pod, attempt, now);
                }
            }
            Course::Keep(sandbox) => {
                let ready = self.prepare(pod, now);
                self.keep_sandbox(pod, &actions, sandbox, ready, now);
            }
        }
        if !self
            .calls
            .any(|j| matches!(j, Job::CreateSandbox { .. } | Job::Create { .. } | Job::Start { .. }))
        {
            self.remove_surplus(Some(pod), now);
        }
    }

    /// Brings running containers to their sizes, and asks for what others of the pod need. True: volumes and cgroup are
    /// there.
    fn prepare(&mut self, pod: &Arc<DesiredPod>, now: &Now) -> bool {
        self.resize(pod, now);
        // Both are asked for at once.
        let volumes = self.ask_volumes(pod, now);
        let ready = volumes && self.cgroup_ready(pod);
        self.end_volumes(Some(&pod.uid), now);
        ready
    }

    /// Carries out what is planned for containers in a sandbox that stays. `ready`: volumes and cgroup are there.
    fn keep_sandbox(
        &mut self,
        pod: &Arc<DesiredPod>,
        actions: &PodActions,
        sandbox: Sandbox<'_>,
        ready: bool,
        now: &Now,
    ) {
        self.stopping = Stopping::default();
        if !sandbox.runs && ready {
            self.start(sandbox.id, None, now);
        }
        // Containers are made meanwhile, and start when plugins have attached it.
        let sandbox = Sandbox { runs: sandbox.runs && self.attach(pod, sandbox.id, now), ..sandbox };
        for kill in &actions.kill {
            let grace = crate::machine::running::probes::grace_of(pod, kill);
            self.stop_one(&kill.id, grace, Some(&pod.spec), Some(&kill.message), now);
        }
        // A stop that has begun goes on, though the edit that asked for it was taken back meanwhile.
        let begun = self.containers.ids(|c, record| {
            let asked = record.run.stop.is_some() || record.run.hooks.get(&HookKind::PreStop).is_some();
            asked && c.uid == pod.uid && c.state.is_running() && !c.is_sandbox()
        });
        for id in begun.iter().filter(|id| !actions.kill.iter().any(|kill| kill.id == **id)) {
            self.stop_one(id, None, Some(&pod.spec), None, now);
        }
        self.remove_to_start_over(pod, &actions.remove, now);
        self.kill_after_post_start(pod, now);
        for at in &actions.start {
            if self.post_start_runs() || !ready {
                break;
            }
            let goes_on = self.start_container(pod, *at, sandbox, now);
            // An init container is not overtaken while it waits; nor is a container whose postStart will run.
            let ends = if goes_on { has_post_start(pod, *at) } else { at.kind == ContainerKind::Init };
            if ends {
                break;
            }
        }
    }

    /// Starts one made container, unless that is under way; first its hosts file is brought up to date.
    fn start(&mut self, id: &str, hosts: Option<HostsFile>, now: &Now) {
        let retry = self.containers.record(id).and_then(|record| record.start_retry);
        if let Some(retry) = retry.filter(|retry| now.mono < retry.until) {
            self.out.wake_at(retry.until);
            return;
        }
        if self.calls.is_busy(id) || self.calls.is_full() {
            return;
        }
        if let Some(record) = self.containers.record_mut(id) {
            record.run.started = Some(now.mono);
        }
        let token = self.calls.next();
        if let Some(hosts) = hosts {
            self.out.push(Output::Hosts(token, hosts));
        }
        self.call(Job::Start { id: id.to_owned() }, Call::Start { id: id.to_owned() });
    }

    /// Attempts only grow, also when all the dead were removed by hand: then what was told of them counts. While
    /// one is there, only what ran counts: the number of one that was made and never started is free again.
    pub(super) fn next_attempt(&self, pod: &DesiredPod, name: &str) -> u32 {
        let seen = self.containers.all().filter(|c| c.uid == pod.uid && c.container_name() == Some(name));
        let seen = seen.map(|c| c.attempt.saturating_add(1)).max();
        let told = || self.told.status.as_deref().and_then(|status| status::restarts_told(status, name));
        seen.or_else(told).unwrap_or(0)
    }

    /// A create was not sent: what it needs on disk cannot be had.
    pub(super) fn unprepared(&mut self, token: Token, why: &str, now: &Now) {
        let Some(Job::Create { container, .. }) = self.calls.end(token) else { return };
        self.retry_later(&Part::container(&container), now);
        // It names the subPath, into which variables of Secrets may be expanded, and the status shows it too.
        let why = recorder::mask(why.to_owned(), &self.objects);
        self.failed(&container, Reason::CreateContainerConfigError, &why, [words::error(&why)]);
    }

    /// Something must be gone before anything is made: leftovers of an earlier life that hold names of this one
    /// and would count as its attempts; and a container that was made and never started, and will not be (of another
    /// life, or of another spec of this one), for a start that a dead daemon sent may still be on its way.
    /// One that cannot be removed holds up nothing, unless a start of it may still come.
    fn is_in_the_way(&self, pod: &DesiredPod, now: &Now) -> bool {
        if self.containers.earlier().all.is_empty()
            && !self.containers.current().all.iter().any(|c| c.state == RunState::Created)
        {
            return false;
        }
        let surplus = plan::surplus(Some(pod), self.containers.current(), &self.settings.dead, now.mono);
        let of_this_name =
            |c: &&Owned| c.uid == pod.uid || names::parse(&c.docker_name).is_some_and(|n| n.uid == pod.uid);
        let never_started =
            |c: &&Owned| c.state == RunState::Created && (c.uid != pod.uid || surplus.contains(&c.id));
        let old = self.containers.earlier().all.iter().filter(of_this_name);
        let made = self.containers.all().filter(never_started);
        let made = made.map(|c| (c, self.containers.may_start_late(&c.id, now.mono)));
        let untried = |c: &Owned| self.containers.record(&c.id).is_some_and(|r| !r.removal.has_failed());
        old.map(|c| (c, false)).chain(made).any(|(c, late)| late || untried(c))
    }

    /// An earlier failure of this very create asks to wait.
    pub(super) fn await_create(&mut self, part: &Part, now: &Now) -> bool {
        let until = self.members.held_back(part, now);
        if let Some(until) = until {
            self.out.wake_at(until);
        }
        until.is_some()
    }

    /// The create of this does not work.
    pub(super) fn create_problem(&mut self, part: &Part, message: String) {
        match part {
            Part::Sandbox => {
                if let State::Syncing(pod) = self.state.clone() {
                    self.sandbox_problem(&pod, &message);
                }
                self.tell(None, words::sandbox_failed(&message));
            }
            Part::Container(name) => {
                self.failed(name, Reason::CreateContainerError, &message, [words::error(&message)])
            }
        }
    }

    /// Counts a failure of this one's create; for how long it waits.
    pub(super) fn retry_later(&mut self, part: &Part, now: &Now) -> Duration {
        let (until, wait) = self.members.create_failed(part, now);
        self.out.wake_at(until);
        wait
    }
}
