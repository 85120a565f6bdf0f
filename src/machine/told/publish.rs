//! Reports of the pod's state: the status, whenever it changes, and the containers in Docker.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;

use crate::base::clock::Now;
use crate::base::order;
use crate::base::table::Table;
use crate::machine::Machine;
use crate::machine::mailbox::Target;
use crate::machine::output::{Output, Report};
use crate::machine::state::State;
use crate::machine::stop::{Signalled, Stop};
use crate::plan::{Observed, Owned, RunState};
use crate::pod::{DesiredPod, Source};
use crate::runtime::DockerState;
use crate::status;

impl Machine {
    /// Computes the status and reports it if it changed. While a look is missing, the old one stands, so that none is
    /// half true. A container that cannot be inspected is reported as the list shows it. Before the first look nothing
    /// is reported: a running pod would seem to have no containers.
    pub(in crate::machine) fn publish(&mut self, now: &Now) {
        let seen = Table::from_iter(self.containers.all().map(|c| (c.id.clone(), coarse(c))));
        let terminating = matches!(self.state, State::Terminating { .. });
        let killed = self.containers.records().filter(|(c, record)| {
            let stop = record.run.stop.as_ref().filter(|_| record.run.again);
            let is_told = |stop: &Stop| stop.signalled != Signalled::Not || record.run.is_told_to_end();
            let is_left = || self.containers.earlier().get(&c.id).is_some();
            terminating || c.killed || stop.is_some_and(|stop| is_told(stop)) || is_left()
        });
        let now_told = (seen, order::set(killed.map(|(c, _)| c.id.clone())));
        if now_told != self.told.seen {
            self.told.seen.clone_from(&now_told);
            self.out.push(Output::Report(Report::Seen(now_told.0, now_told.1, self.wishes)));
        }
        let Some(pod) = self.state.pod().cloned() else { return };
        if self.is_recalling() || !self.looking.watching {
            return;
        }
        if (self.is_looking() || self.awaits_message()) && !self.in_trouble(now) {
            return;
        }
        let past_deadline = self.ended_by_deadline(&pod);
        let status = self.computed(&pod, past_deadline, now);
        let same = self.told.reported.as_ref().filter(|(old, was, of)| {
            **old == status && *was == terminating && (Arc::ptr_eq(of, &pod) || *of == pod)
        });
        if let Some((old, ..)) = same {
            // Nothing is sent, but the end of a stop waits until this life has a status.
            self.told.status = Some(Arc::clone(old));
            return;
        }
        let status = Arc::new(status);
        self.told.status = Some(Arc::clone(&status));
        self.told.reported = Some((Arc::clone(&status), terminating, Arc::clone(&pod)));
        self.out.push(Output::Report(Report::Status { status, pod, terminating }));
    }

    /// Reports the end of a pod of which nothing was told, for it had ended before this daemon knew it. Returns true when its
    /// status was told, or it has none.
    pub(in crate::machine) fn tells_end(&mut self, pod: Option<&DesiredPod>, now: &Now) -> bool {
        let has_ends = |pod: &DesiredPod| {
            let mut all = self.containers.current().all.iter();
            all.any(|c| c.uid == pod.uid && !c.is_sandbox())
        };
        if self.told.status.is_some() || !pod.is_some_and(has_ends) {
            return true;
        }
        self.ask_messages(now);
        self.publish(now);
        self.told.status.is_some()
    }

    /// The pod's status, computed from the known state.
    pub(in crate::machine) fn computed(
        &mut self,
        pod: &DesiredPod,
        past_deadline: bool,
        now: &Now,
    ) -> PodStatus {
        let probes = self.probes(pod);
        let messages = self.termination_messages();
        let observed = self.containers.current();
        let is_last = match &self.state {
            State::Terminating { order, then: None, .. } => match order.target {
                Target::Deleted => true,
                // Its server makes another pod in its place.
                Target::Anything => pod.source == Source::Api,
                Target::Unfinished => false,
            },
            State::Terminating { order, .. } => order.target == Target::Deleted,
            State::New | State::Syncing(_) | State::Terminated => past_deadline,
        };
        // What podkeeper has killed ends a pod that does not come back.
        let ended = (is_last && observed.all.iter().any(|c| c.killed)).then(|| {
            let all = observed.all.iter().map(|c| Owned { killed: false, ..c.clone() });
            Observed { all: all.collect() }
        });
        let mut status = status::compute(&status::Input {
            pod,
            observed: ended.as_ref().unwrap_or(observed),
            probes: &probes,
            waiting: &self.members.waiting(),
            digests: &self.images.digests(),
            messages: &messages,
            old: self.told.status.as_deref(),
            terminal: false,
            past_deadline,
            resize: &self.resize_shown(),
            recursive_mounts: self.node.recursive_mounts,
            now: now.wall,
        });
        self.mask_ends(&mut status);
        status
    }

    /// Removes the values of Secrets from Docker's errors about containers that could not be started: like the
    /// kubelet's, such an error repeats the command, with variables expanded.
    fn mask_ends(&self, status: &mut PodStatus) {
        let all = [
            &mut status.init_container_statuses,
            &mut status.container_statuses,
            &mut status.ephemeral_container_statuses,
        ];
        for container in all.into_iter().flatten().flatten() {
            for state in [&mut container.state, &mut container.last_state].into_iter().flatten() {
                let message = state.terminated.as_mut().and_then(|ended| ended.message.as_mut());
                if let Some(message) = message {
                    *message = self.masked(std::mem::take(message));
                }
            }
        }
    }
}

fn coarse(container: &Owned) -> DockerState {
    match &container.state {
        RunState::Created => DockerState::Created,
        RunState::Running { .. } => DockerState::Running,
        RunState::Exited(exit) if exit.cannot_run => DockerState::Created,
        RunState::Exited(_) => DockerState::Exited,
        RunState::Removing => DockerState::Removing,
    }
}
