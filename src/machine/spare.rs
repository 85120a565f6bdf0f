//! Pods that had ended for good when they were told to stop, to come back later: Docker told the end late. They stay ended.
//!
//! Never here: a guess. A container that a signal, or a hook for its stop, may have reached has not ended by itself.

use std::sync::Arc;

use log::Level;

use super::Machine;
use super::calls::Job;
use super::containers::run::Run;
use super::mailbox::Target;
use super::output::{Output, Report};
use super::state::State;
use super::stop::Stopping;
use super::told::has_ended;
use crate::plan;
use crate::plan::actions::SandboxAction;
use crate::plan::{Owned, RunState};
use crate::pod::DesiredPod;

/// Whether a pod that is being stopped had ended before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spares {
    Yes,
    No,
    /// The answer to a signal tells.
    NotKnown,
}

impl Machine {
    /// Whether the order leaves this pod alone; `then`: what runs after it.
    pub(super) fn spares(
        &self,
        pod: Option<&Arc<DesiredPod>>,
        target: Target,
        then: Option<&Arc<DesiredPod>>,
    ) -> Spares {
        let is_replaced = |pod: &DesiredPod| then.is_some_and(|then| then.uid != pod.uid);
        let pod = pod.filter(|pod| target == Target::Unfinished && !is_replaced(pod));
        let Some(pod) = pod else { return Spares::No };
        // What was stopped for its deadline may not run again, and ends as soon as the order wants it.
        if self.stays_ended_by_deadline(pod) {
            return Spares::Yes;
        }
        let current = self.containers.current();
        // A sidecar ends after the others, by a signal.
        let newest = pod.containers().filter_map(|(_, c)| current.newest(&pod.uid, &c.name));
        let dead: Vec<&Owned> = newest.filter(|c| c.state.is_dead() && !c.is_sidecar()).collect();
        let actions = plan::actions::compute(pod, current, &self.probes(pod));
        if dead.is_empty() || actions.sandbox != SandboxAction::Finish {
            return Spares::No;
        }
        let was_told = |c: &Owned| self.containers.record(&c.id).is_none_or(|it| was_told(c, &it.run));
        if dead.iter().any(|c| c.killed || was_told(c)) {
            return Spares::No;
        }
        match dead.iter().any(|c| self.calls.any(|job| matches!(job, Job::Kill { id } if *id == c.id))) {
            true => Spares::NotKnown,
            false => Spares::Yes,
        }
    }

    /// Goes on with a pod that was being stopped and had ended before: its containers stay.
    pub(super) fn go_on(&mut self) {
        let line = format!("pod {} had ended by itself before it was stopped, and stays so", self.key);
        self.out.log(Level::Info, line);
        self.stopping = Stopping::default();
        self.told.spared = true;
        // The loop took the ends of all for ends of no pod.
        self.told.seen = Default::default();
        for (container, record) in self.containers.records_mut() {
            if !container.is_sandbox() && container.state.is_dead() {
                record.run.stop = None;
                self.out.push(Output::Signalled(container.id.clone(), false));
            }
        }
    }

    /// Reports that the pod is spared, once its status has shown its end: the loop would have it stopped again.
    pub(super) fn tell_spared(&mut self) {
        let goes_on = matches!(self.state, State::Syncing(_));
        self.told.spared &= goes_on;
        let reported = self.told.reported.as_ref();
        let is_known =
            reported.is_some_and(|(status, is_terminating, _)| !is_terminating && has_ended(status));
        if is_known && std::mem::take(&mut self.told.spared) {
            self.out.push(Output::Report(Report::Spared(self.wishes)));
        }
    }
}

/// Whether a container may have ended because it was told to. Docker takes signals for a moment after the end, but tells when
/// that was; a clock that is set back in that moment makes an end by a signal look like an earlier one.
fn was_told(container: &Owned, run: &Run) -> bool {
    let RunState::Exited(exit) = &container.state else { return true };
    let had_ended = exit.finished.zip(run.first_told).is_some_and(|(end, told)| end < told);
    (run.is_signalled || run.has_pre_stop) && !had_ended
}
