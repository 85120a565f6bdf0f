//! Starts a wanted pod, one decision after the other (the sandbox: `sandbox`, one container: `container`, images:
//! `images`). `plan/` decides which containers; the code here makes calls of that, each as soon as its needs are met
//! (design invariant 1: old containers are seen dead first).

pub(super) mod conflicts;
mod container;
pub(super) mod identity;
pub(super) mod images;
pub(super) mod made;
pub(super) mod pulls;
pub(super) mod sandbox;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

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
use crate::plan::{self, Owned, RunState, SandboxAction, StartRef};
use crate::pod::waiting::Reason;
use crate::pod::{ContainerKind, DesiredPod};
use crate::probe::HookKind;
use crate::recorder::words;
use crate::runtime::{Call, names};
use crate::status;

/// The next goal for a wanted pod.
#[derive(Debug, PartialEq)]
enum Course<'a> {
    /// The pod has ended for good, by its deadline or before: none of its containers runs.
    End,
    /// All its containers have ended by themselves: the sandbox is not needed any more.
    Finish,
    /// Another sandbox is made once nothing runs.
    Replace {
        /// The attempt of the new sandbox.
        attempt: u32,
    },
    /// Containers run in the present sandbox.
    Keep(Sandbox<'a>),
}

/// The sandbox that a pod's containers are made in.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sandbox<'a> {
    id: &'a str,
    /// It runs, and has its network.
    runs: bool,
}

/// `has_ended`: the pod has ended for good.
fn course(has_ended: bool, planned: &SandboxAction) -> Course<'_> {
    match planned {
        _ if has_ended => Course::End,
        SandboxAction::Finish => Course::Finish,
        SandboxAction::Replace { attempt } => Course::Replace { attempt: *attempt },
        SandboxAction::Keep { id, running } => Course::Keep(Sandbox { id, runs: *running }),
    }
}

fn is_of(owned: &Owned, container: &Container) -> bool {
    owned.container_name() == Some(&container.name)
}

impl Machine {
    /// Takes one decision for a wanted pod.
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
        // A pod that has ended stays so, even when one of its containers is started by hand.
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
                let regular = &pod.spec.containers;
                self.note_killed(pod, &|c| {
                    regular.iter().any(|it| is_of(c, it) && plan::runs_again(pod, it))
                });
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

    /// Resizes running containers, and orders the needs of others of the pod. Returns true if volumes and cgroup are
    /// ready.
    fn prepare(&mut self, pod: &Arc<DesiredPod>, now: &Now) -> bool {
        self.resize(pod, now);
        // Both are ordered at once.
        let volumes = self.ask_volumes(pod, now);
        let ready = volumes && self.cgroup_ready(pod);
        self.end_volumes(Some(&pod.uid), now);
        ready
    }

    /// Carries out the plan for containers in a sandbox that stays. `ready`: volumes and cgroup are ready.
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
        // Containers are made meanwhile, and start when plugins have attached the sandbox.
        let sandbox = Sandbox { runs: sandbox.runs && self.attach(pod, sandbox.id, now), ..sandbox };
        self.note_killed(pod, &|c| {
            let starts = |at: &StartRef| {
                let container = pod.spec.containers.get(at.index).filter(|it| is_of(c, it));
                at.kind == ContainerKind::Regular && container.is_some()
            };
            actions.kill.iter().any(|kill| kill.id == c.id) && actions.start.iter().any(starts)
        });
        for kill in &actions.kill {
            let grace = crate::machine::running::probes::grace_of(pod, kill);
            self.stop_one(&kill.id, grace, Some(&pod.spec), Some(&kill.message), now);
        }
        // A stop that has begun is completed, even if the edit behind it was reverted meanwhile; also that of an earlier
        // daemon, because the container may end by its signal at any time.
        let begun = self.containers.ids(|c, record| {
            let begun = record.run.stop.is_some() || record.run.hooks.get(&HookKind::PreStop).is_some();
            (begun || c.killed) && c.uid == pod.uid && c.state.is_running() && !c.is_sandbox()
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
            // Containers behind it wait while an init container waits, or a postStart will run.
            let ends = if goes_on { has_post_start(pod, *at) } else { at.kind == ContainerKind::Init };
            if ends {
                break;
            }
        }
    }

    /// Notes that running containers of the pod are killed, and run again. One of which an earlier daemon has said so stays what
    /// it is.
    pub(in crate::machine) fn note_killed(&mut self, pod: &DesiredPod, is_killed: &dyn Fn(&Owned) -> bool) {
        for (container, record) in self.containers.records_mut() {
            let runs = container.uid == pod.uid && container.state.is_running();
            record.run.again |= runs && !container.killed && is_killed(container);
        }
    }

    /// Starts a container that was made, unless that is under way; its hosts file is updated first.
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

    /// The number of the next attempt: one more than the highest of existing containers, so that the number of a
    /// removed one that was never started is free again. When all were removed by hand, the last status counts.
    pub(super) fn next_attempt(&self, pod: &DesiredPod, name: &str) -> u32 {
        let seen = self.containers.all().filter(|c| c.uid == pod.uid && c.container_name() == Some(name));
        let seen = seen.map(|c| c.attempt.saturating_add(1)).max();
        let told = || self.told.status.as_deref().and_then(|status| status::restarts_told(status, name));
        seen.or_else(told).unwrap_or(0)
    }

    /// Handles a create that was not sent, because its needs on disk cannot be met.
    pub(super) fn unprepared(&mut self, token: Token, why: &str, now: &Now) {
        let Some(Job::Create { container, .. }) = self.calls.end(token) else { return };
        self.retry_later(&Part::container(&container), now);
        // It names the subPath, into which variables of Secrets may be expanded, and the status shows the text, too.
        let why = self.masked(why.to_owned());
        self.failed(&container, Reason::CreateContainerConfigError, &why, [words::error(&why)]);
    }

    /// Whether something must be gone before anything is made. That is so for leftovers of an earlier life that hold
    /// names of this one and would count as its attempts. It is also so for a container that was made, never started,
    /// and is not wanted (of another life, or another spec), because a dead daemon's start of it may still be on its
    /// way. One that cannot be removed holds up nothing, unless a start of it may still come.
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

    /// Whether an earlier failure of this create asks to wait.
    pub(super) fn await_create(&mut self, part: &Part, now: &Now) -> bool {
        let until = self.members.held_back(part, now);
        if let Some(until) = until {
            self.out.wake_at(until);
        }
        until.is_some()
    }

    /// Reports that this part cannot be made.
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

    /// Counts a failed create of this part; returns how long it waits.
    pub(super) fn retry_later(&mut self, part: &Part, now: &Now) -> Duration {
        let (until, wait) = self.members.create_failed(part, now);
        self.out.wake_at(until);
        wait
    }
}
