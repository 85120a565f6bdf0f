//! Changes of a machine's state, and their effects on its memory: facts about one life, or one spec, must not hold up
//! the next.

use std::sync::Arc;

use log::Level;

use super::Machine;
use super::output::Output;
use super::running::deadline::Deadline;
use super::state::{Kind, State, Trigger};
use crate::base::order;
use crate::layout;
use crate::plan::backoff::crash_key;
use crate::pod::DesiredPod;

impl Machine {
    /// Applies the table, and clears memory as the change of state requires.
    pub(super) fn trigger(&mut self, trigger: Trigger) {
        // The sweep at the daemon's start spares pods that are wanted then, and Docker may not have shown this pod's
        // containers yet: its volumes must be removed even if another UID is wanted by then. Which volumes images have is not
        // known here; only for sources that go first they are in the pod's directory.
        if let Trigger::Run(pod) = &trigger
            && (!self.looking.watching && layout::volumes(pod).next().is_some()
                || self.settings.map.policies.evict_first(pod.source))
        {
            self.volumes.an_earlier_daemon_may_have(&pod.uid);
        }
        let had_ended = matches!(trigger, Trigger::HadEnded);
        let before = std::mem::replace(&mut self.state, State::New);
        let (was, old) = (before.kind(), before.pod().cloned());
        self.state = before.next(trigger);
        // Each pair of states is listed, so that the compiler asks about new ones.
        match (was, self.state.kind()) {
            (Kind::New | Kind::Syncing | Kind::Terminated, Kind::Terminating) => self.begin_stop(),
            (Kind::Terminating, Kind::Terminating) => self.shorten_stops(),
            (Kind::Terminating, Kind::Syncing) if had_ended => self.go_on(),
            (Kind::Terminating | Kind::Terminated, Kind::Syncing) => self.begin_next_life(),
            (Kind::Terminating, Kind::Terminated) => self.end_life(),
            (Kind::Syncing, Kind::Syncing) => self.take_edit(old),
            // A machine that has not looked yet knows nothing, and adopts the containers that it finds.
            (Kind::New, Kind::Syncing) => {}
            (Kind::New, Kind::New) | (Kind::Terminated, Kind::Terminated) => {}
            // The table has no such change.
            (Kind::New | Kind::Syncing, Kind::Terminated)
            | (Kind::Syncing | Kind::Terminating | Kind::Terminated, Kind::New) => {}
        }
        match self.state.kind() {
            Kind::Syncing | Kind::Terminating => self.told.not_over(),
            Kind::New | Kind::Terminated => {}
        }
    }

    /// Gives a machine without a pod the pod that its containers belong to.
    pub(super) fn adopt(&mut self, pod: Arc<DesiredPod>) {
        let is_its = self.containers.current().all.iter().any(|c| c.uid == pod.uid);
        match &mut self.state {
            State::New => self.trigger(Trigger::Run(pod)),
            // A stop that an earlier daemon had begun: its end has a status now.
            State::Terminating { last: last @ None, then: None, .. } if is_its => *last = Some(pod),
            State::Syncing(_) | State::Terminating { .. } | State::Terminated => {}
        }
    }

    /// Starts to stop everything. A stop that is under way for another reason keeps its start; this order may shorten
    /// it.
    fn begin_stop(&mut self) {
        let State::Terminating { order, then, .. } = &self.state else { return };
        let again = if then.is_some() { ", then started again" } else { "" };
        let line = format!("pod {} is stopped{again}: {}", self.key, order.why);
        self.out.log(Level::Info, line);
        for token in self.calls.starting() {
            self.out.push(Output::Withdraw(token));
        }
        self.forget_start_memory();
    }

    /// Starts the next life: containers of the last one do not count.
    fn begin_next_life(&mut self) {
        self.retire_the_dead();
        self.told.status = None;
    }

    fn end_life(&mut self) {
        self.out.log(Level::Info, format!("pod {} has stopped", self.key));
        self.retire_the_dead();
    }

    fn take_edit(&mut self, old: Option<Arc<DesiredPod>>) {
        let State::Syncing(new) = &self.state else { return };
        if old.is_some_and(|old| old.spec != new.spec) {
            let new = Arc::clone(new);
            self.forget_old_spec(&new);
        }
    }

    /// Moves all known containers, which are dead, to an earlier life.
    fn retire_the_dead(&mut self) {
        self.containers.retire();
        self.deadline = Deadline::default();
        self.forget_start_memory();
    }

    fn forget_start_memory(&mut self) {
        self.images.forget_failures();
        self.members.forget_life();
        self.sandboxes.forget_deaths();
    }

    /// Clears facts about the old spec after an edit under the same UID: they must not hold up the new one, and removed
    /// names are forgotten.
    fn forget_old_spec(&mut self, new: &DesiredPod) {
        self.members.forget_spec(new);
        self.sandboxes.forget_deaths();
        let infra = self.settings.map.infra_image.as_str();
        let images = order::set(new.containers().filter_map(|(_, c)| c.image.as_deref()).chain([infra]));
        self.images.keep_failures(|image| images.contains(image));
        let keys = order::set(new.containers().map(|(_, c)| crash_key(c)));
        self.members.crashes.retain(|key| keys.contains(key));
    }
}
