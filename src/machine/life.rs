//! Changes of a machine's state, and what each means for its memory: what was learnt of one life, or of one
//! spec, must not hold up the next.

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
    /// Applies the table, with what a change of state means for memory.
    pub(super) fn trigger(&mut self, trigger: Trigger) {
        // The sweep at the start spares the pods that are wanted then, and Docker may not have told yet what is left of
        // this one: its volumes must go even if another UID is wanted by then.
        if let Trigger::Run(pod) = &trigger
            && !self.looking.watching
            && !layout::volumes(pod).is_empty()
        {
            self.volumes.an_earlier_daemon_may_have(&pod.uid);
        }
        let before = std::mem::replace(&mut self.state, State::New);
        let (was, old) = (before.kind(), before.pod().cloned());
        self.state = before.next(trigger);
        // Each pair of states stands here: the compiler asks what a new one means.
        match (was, self.state.kind()) {
            (Kind::New | Kind::Syncing | Kind::Terminated, Kind::Terminating) => self.begin_stop(),
            (Kind::Terminating, Kind::Terminating) => self.shorten_stops(),
            (Kind::Terminating | Kind::Terminated, Kind::Syncing) => self.begin_next_life(),
            (Kind::Terminating, Kind::Terminated) => self.end_life(),
            (Kind::Syncing, Kind::Syncing) => self.take_edit(old),
            // A machine that has not looked yet has seen nothing, and adopts what it finds.
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

    /// A machine that has no pod yet takes this one for what it found.
    pub(super) fn adopt(&mut self, pod: Arc<DesiredPod>) {
        match self.state {
            State::New => self.trigger(Trigger::Run(pod)),
            State::Syncing(_) | State::Terminating { .. } | State::Terminated => {}
        }
    }

    /// A stop that was under way for another reason keeps its clock; this order may shorten it.
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

    /// What is left of the last life does not count.
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

    /// Everything seen so far is dead and belongs to an earlier life.
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

    /// Edited under the same UID: what was learnt of the old spec must not hold up the new one, and names
    /// that are gone are forgotten.
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
