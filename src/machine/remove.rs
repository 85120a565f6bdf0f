//! Removes dead containers. No other step waits for a removal (moby/moby#22312).

use k8s_openapi::api::core::v1::Container;

use super::Machine;
use super::calls::Job;
use super::containers::merge::short;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::plan::backoff::{self, Verdict};
use crate::plan::{self, Owned, RunState};
use crate::pod::DesiredPod;
use crate::pod::waiting::Reason;
use crate::recorder::words;
use crate::runtime::Call;

impl Machine {
    /// Removes dead containers that are not needed: all of an earlier life, and all of this life but the newest of each
    /// name (kubernetes/kubernetes#23881), or as many as the node keeps.
    pub(super) fn remove_surplus(&mut self, pod: Option<&DesiredPod>, now: &Now) {
        let mut policy = self.settings.dead;
        if let Some(allowed) = self.containers.dead_allowed {
            policy.per_container = Some(policy.per_container.map_or(allowed, |own| own.min(allowed)));
        }
        let mut ids = plan::surplus(pod, self.containers.current(), &policy, now.mono);
        ids.extend(plan::surplus(None, self.containers.earlier(), &policy, now.mono));
        let due = pod.and_then(|pod| plan::next_due(pod, self.containers.current(), &policy, now.mono));
        if let Some(due) = due {
            self.out.wake_at(due);
        }
        for id in ids {
            self.remove(&id, now);
        }
    }

    fn remove(&mut self, id: &str, now: &Now) {
        let Some(until) = self.containers.record(id).map(|record| record.removal.until) else { return };
        if now.mono < until {
            self.out.wake_at(until);
        } else if !self.calls.is_busy(id) && !self.calls.is_full() && !self.is_attached(id) {
            self.call(Job::Remove { id: id.to_owned() }, Call::Remove { id: id.to_owned(), force: false });
        }
    }

    /// Removes the dead containers of a pod that starts over. The container whose end is the reason is removed when its
    /// back-off is over, because its crash count depends on it.
    pub(super) fn remove_to_start_over(&mut self, pod: &DesiredPod, ids: &[String], now: &Now) {
        if ids.is_empty() {
            return;
        }
        let triggers: Vec<String> = plan::all::triggers(pod, self.containers.current())
            .into_iter()
            .map(|trigger| trigger.id.clone())
            .collect();
        for id in ids {
            if triggers.contains(id) && self.wait_after_crash(pod, id, now) {
                return;
            }
        }
        for id in ids {
            if triggers.contains(id) && !self.calls.is_busy(id) && !self.calls.is_full() {
                self.count_crash(pod, id, now);
            }
            self.remove(id, now);
        }
    }

    /// Shows on a container that ended how long its back-off takes. Returns true while it is not over.
    pub(super) fn wait_after_crash(&mut self, pod: &DesiredPod, id: &str, now: &Now) -> bool {
        let Some((name, key, seen)) = self.crash_of(pod, id) else { return false };
        let Verdict::Wait { until, delay } = self.members.crashes.check(&key, seen, now.mono) else {
            return false;
        };
        let message = backoff::crash_message(delay, &name, pod);
        self.wait_for(&name, Reason::CrashLoopBackOff, &message, [words::backs_off(&name, pod)]);
        self.out.wake_at(until);
        true
    }

    /// Notes that Docker denies a container, if it ran and was not to be stopped.
    pub(super) fn note_lost(&mut self, id: &str, now: &Now) {
        let Some((owned, record)) = self.containers.current_mut(id) else { return };
        if !owned.state.is_running() || record.run.stop.is_some() {
            return;
        }
        if let Some(name) = owned.container_name().map(str::to_owned) {
            self.members.get_mut(&name).lost = Some(now.mono);
        }
    }

    /// Shows on a container whose predecessor was lost, and the one before it as well, how long its back-off takes. Returns true
    /// while it is not over. The first is replaced at once.
    pub(super) fn wait_after_loss(&mut self, pod: &DesiredPod, container: &Container, now: &Now) -> bool {
        let lost = self.members.get(&container.name).lost;
        let Verdict::Wait { until, delay } = self.members.crashes.check(&loss_key(container), lost, now.mono)
        else {
            return false;
        };
        let message = backoff::crash_message(delay, &container.name, pod);
        let told = [words::backs_off(&container.name, pod)];
        self.wait_for(&container.name, Reason::CrashLoopBackOff, &message, told);
        self.out.wake_at(until);
        true
    }

    /// Counts a loss, once its successor is made.
    pub(super) fn count_loss(&mut self, container: &Container, now: &Now) {
        let lost = self.members.get_mut(&container.name).lost.take();
        if lost.is_some() {
            self.members.crashes.advance(&loss_key(container), lost, now.mono);
        }
    }

    fn count_crash(&mut self, pod: &DesiredPod, id: &str, now: &Now) {
        if let Some((_, key, seen)) = self.crash_of(pod, id) {
            self.members.crashes.advance(&key, seen, now.mono);
        }
    }

    /// Name and crash key of a container that ended, and when its end was seen.
    fn crash_of(&self, pod: &DesiredPod, id: &str) -> Option<(String, String, Option<Mono>)> {
        let owned = self.containers.current().get(id)?;
        let RunState::Exited(exit) = &owned.state else { return None };
        let name = owned.container_name()?;
        Some((name.to_owned(), backoff::crash_key(pod.container(name)?.1), exit.seen))
    }

    /// Notes a removal: the sandbox that the container joined may be removable now.
    pub(super) fn removed(&mut self, id: &str, now: &Now) {
        let sandbox = self.containers.get(id).and_then(Owned::sandbox_id).map(str::to_owned);
        self.vanished(id);
        if let Some(record) = sandbox.and_then(|id| self.containers.record_mut(&id)) {
            record.removal.until = record.removal.until.min(now.mono);
        }
    }

    /// Schedules another try of a removal. Returns true for the first one.
    pub(super) fn remove_later(&mut self, id: &str, now: &Now) -> bool {
        let Some(record) = self.containers.record_mut(id) else { return true };
        let retry = &mut record.removal;
        let first = !retry.has_failed();
        retry.failed_within(limits::CALL_RETRY_MIN, limits::REMOVE_RETRY_MAX, now);
        self.out.wake_at(retry.until);
        first
    }

    /// Notes that Docker says of a dead container that it runs. The first time is no failure: it is so for a moment after an end.
    pub(super) fn removal_too_early(&mut self, id: &str, now: &Now) {
        self.doubt(id);
        let record = self.containers.record_mut(id);
        match record.filter(|record| !record.is_removed_early) {
            Some(record) => {
                record.is_removed_early = true;
                record.removal.until = now.mono.after(limits::CALL_RETRY_MIN);
                self.out.wake_at(record.removal.until);
            }
            None => self.removal_failed(id, "it runs", now),
        }
    }

    /// Notes a failed removal: it is retried in the background.
    pub(super) fn removal_failed(&mut self, id: &str, why: &str, now: &Now) {
        if self.remove_later(id, now) {
            self.tell_of_any(id, words::removal_failed(short(id), why));
        }
    }
}

/// Key of the back-off of a container that Docker denies again and again.
fn loss_key(container: &Container) -> String {
    format!("{}\nlost", backoff::crash_key(container))
}
