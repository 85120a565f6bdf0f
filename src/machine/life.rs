//! Changes of a machine's state, and what each means for its memory: what was learnt of one life, or of one
//! spec, must not hold up the next.

use std::sync::Arc;

use log::Level;

use super::Machine;
use super::output::Output;
use super::running::deadline::Deadline;
use super::state::{State, Trigger};
use crate::base::order;
use crate::layout;
use crate::plan::backoff::{Backoff, crash_key};
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
        let before = std::mem::replace(&mut self.state, State::Terminated);
        let old = before.pod().cloned();
        let was_terminating = matches!(before, State::Terminating { .. });
        let was_syncing = matches!(before, State::Syncing(_));
        self.state = before.next(trigger);
        match &self.state {
            State::Terminating { order, then, .. } if !was_terminating => {
                let again = if then.is_some() { ", then started again" } else { "" };
                let line = format!("pod {} is stopped{again}: {}", self.key, order.why);
                self.out.log(Level::Info, line);
                for token in self.calls.starting() {
                    self.out.push(Output::Withdraw(token));
                }
                // A stop that was under way for another reason keeps its clock; this order may shorten it.
                self.forget_start_memory();
            }
            State::Terminating { order: _, .. } => self.shorten_stops(),
            State::Syncing(_) if was_terminating => {
                self.retire_the_dead();
                self.told.status = None;
            }
            State::Syncing(_) if !was_syncing => self.retire_the_dead_unless_new(),
            State::Syncing(new) => {
                let new = Arc::clone(new);
                if old.is_some_and(|old| old.spec != new.spec) {
                    self.forget_old_spec(&new);
                }
            }
            State::Terminated if was_terminating => {
                self.out.log(Level::Info, format!("pod {} has stopped", self.key));
                self.retire_the_dead();
            }
            _ => {}
        }
        if !matches!(self.state, State::Terminated) {
            self.told.not_over();
        }
    }

    /// A machine that has no pod yet takes this one for what it found.
    pub(super) fn adopt(&mut self, pod: Arc<DesiredPod>) {
        if matches!(self.state, State::Terminated) && !self.told.terminated {
            self.trigger(Trigger::Run(pod));
        }
    }

    /// Everything seen so far is dead and belongs to an earlier life.
    fn retire_the_dead(&mut self) {
        self.containers.retire();
        self.deadline = Deadline::default();
        self.forget_start_memory();
    }

    /// From `Terminated` straight to `Syncing`: what is left of the last life must not count either. A
    /// machine that has not looked yet has seen nothing, and adopts what it finds.
    fn retire_the_dead_unless_new(&mut self) {
        if self.told.terminated {
            self.retire_the_dead();
            self.told.status = None;
        }
    }

    fn forget_start_memory(&mut self) {
        self.crashes = Backoff::crashes();
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
        self.crashes.retain(|key| keys.contains(key));
    }
}
