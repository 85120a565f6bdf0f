//! Taking containers down: TERM, deadline, KILL as separate planned calls (invariant 10), in the order
//! that sidecars need; and removing the dead, which nothing ever waits for (moby/moby#22312).

use std::time::Duration;

use k8s_openapi::api::core::v1::PodSpec;
use log::Level;

use super::Machine;
use super::job::{Job, Retry, Stop};
use super::look::short;
use super::state::State;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::plan::backoff::{self, Verdict as Wait};
use crate::plan::{self, Owned, RunState};
use crate::pod::DesiredPod;
use crate::recorder::words;
use crate::runtime::Call;

impl Machine {
    /// Stops whatever runs under this identity. True: nothing does, and nothing is about to.
    pub(super) fn stop_everything(&mut self, grace: Option<u32>, spec: Option<&PodSpec>, now: &Now) -> bool {
        let starting = self.any_in_flight(|j| {
            matches!(
                j,
                Job::Create { .. } | Job::CreateSandbox { .. } | Job::Start { .. } | Job::Conflict { .. }
            )
        });
        if !self.all_seen().any(|c| c.state.is_running()) {
            self.stopping = None;
            return !starting;
        }
        let began = *self.stopping.get_or_insert(now.mono);
        if self.sandbox_lingers(now) {
            return false;
        }
        let mut ids: Vec<String> =
            plan::stop_now(&self.seen, |_| true).into_iter().map(|c| c.id.clone()).collect();
        // Whose grace ran out while it waited for its turn waits no longer (upstream
        // `pkg/kubelet/kuberuntime/kuberuntime_termination_order.go`).
        let waits =
            self.seen.all.iter().filter(|c| c.state.is_running() && !c.is_sandbox() && !ids.contains(&c.id));
        let spent = |c: &Owned| began.after(Duration::from_secs(u64::from(seconds_of(c, grace, spec))));
        let waits: Vec<(Mono, String)> = waits.map(|c| (spent(c), c.id.clone())).collect();
        for (until, id) in waits {
            if now.mono < until {
                self.wake_at(until);
            } else {
                ids.push(id);
            }
        }
        ids.extend(self.old.all.iter().filter(|c| c.state.is_running()).map(|c| c.id.clone()));
        for id in ids {
            self.stop_one(&id, grace, spec, None, now);
        }
        // Those whose turn comes later: their preStop runs already.
        let later = self.seen.all.iter().filter(|c| c.state.is_running() && !c.is_sandbox());
        let later = later.filter(|c| !self.stops.contains_key(&c.id));
        let later: Vec<(String, Option<Duration>)> =
            later.map(|c| (c.id.clone(), hook_grace(c, grace, spec))).collect();
        for (id, grace) in later {
            self.pre_stop_runs(&id, grace, now);
        }
        false
    }

    /// Nothing but the sandbox of a pod that is gone for good runs, and not for long yet: while Docker takes
    /// a network down it brings none up, and whatever takes this pod's place starts first.
    fn sandbox_lingers(&mut self, now: &Now) -> bool {
        let gone = matches!(self.state, State::Terminating { then: None, .. });
        if !gone || self.all_seen().any(|c| c.state.is_running() && !c.is_sandbox()) {
            self.lingers_until = None;
            return false;
        }
        let until = *self.lingers_until.get_or_insert(now.mono.after(limits::SANDBOX_LINGER));
        if now.mono < until {
            self.wake_at(until);
        }
        now.mono < until
    }

    /// What died in an earlier life of this name and runs again (somebody started it, or Docker carried
    /// out late what was given up) is stopped before anything new is made. True: there is such a thing.
    pub(super) fn stop_the_risen(&mut self, pod: &DesiredPod, now: &Now) -> bool {
        let risen = self.old.all.iter().filter(|c| c.state.is_running());
        let risen: Vec<String> = risen.map(|c| c.id.clone()).collect();
        for id in &risen {
            if !self.stops.contains_key(id) {
                let line = format!(
                    "pod {}: container {} of an earlier life runs again and is stopped",
                    self.key,
                    short(id)
                );
                self.log(Level::Warn, line);
            }
            self.stop_one(id, None, Some(&pod.spec), None, now);
        }
        !risen.is_empty()
    }

    /// Takes the stop of one container a step further. `why`: the kubelet's message, when it is not the
    /// whole pod that is stopped.
    pub(super) fn stop_one(
        &mut self,
        id: &str,
        order: Option<u32>,
        spec: Option<&PodSpec>,
        why: Option<&str>,
        now: &Now,
    ) {
        let Some(container) = self.all_seen().find(|c| c.id == id) else { return };
        let told = (!self.stops.contains_key(id)).then(|| container.clone());
        let grace = grace_of(container, order, spec);
        let own_signal = container.stop_signal.clone();
        let for_hook = hook_grace(container, order, spec);
        let fresh = Stop {
            // A sandbox has its own short grace, whenever its turn comes.
            began: self.stopping.filter(|_| !container.is_sandbox()).unwrap_or(now.mono),
            asked: now.mono,
            deadline: Mono(Duration::MAX),
            sent: None,
            term: false,
            told: false,
        };
        let stop = self.stops.get_or_insert(id.to_owned(), fresh);
        stop.allow(grace);
        let sent = stop.sent;
        if let Some((told, name)) = told.as_ref().and_then(|c| Some((c, c.container_name()?))) {
            self.tell_of(told, words::killing(name, why));
        }
        if sent.is_none() && self.pre_stop_runs(id, for_hook, now) {
            return;
        }
        let Some(stop) = self.stops.get(id).copied() else { return };
        let hard = now.mono >= stop.deadline;
        let due = match stop.sent {
            None => now.mono,
            Some((_, false)) => stop.deadline,
            Some((at, true)) => at.after(limits::KILL_AGAIN),
        };
        if now.mono < due {
            self.wake_at(due);
            return;
        }
        if self.busy(id) || self.is_full() {
            return;
        }
        let signal = match own_signal {
            _ if hard => "SIGKILL".to_owned(),
            Some(own) if !stop.term => own,
            _ => "SIGTERM".to_owned(),
        };
        if hard && let Some((sent, false)) = stop.sent {
            let line = format!(
                "pod {}: container {} did not end within {} s and is killed",
                self.key,
                short(id),
                now.mono.since(sent).as_secs()
            );
            self.log(Level::Warn, line);
        }
        if let Some(stop) = self.stops.get_mut(id) {
            stop.sent = Some((now.mono, hard));
        }
        self.call(Job::Kill { id: id.to_owned(), hard }, Call::Kill { id: id.to_owned(), signal });
    }

    /// A new order while stopping: graces can only get shorter.
    pub(super) fn shorten_stops(&mut self) {
        let State::Terminating { order, .. } = &self.state else { return };
        let Some(grace) = order.grace else { return };
        for stop in self.stops.values_mut() {
            stop.allow(Duration::from_secs(u64::from(grace)));
        }
    }

    /// Removes dead containers that nobody needs: all of an earlier life, and of this one all but the
    /// newest dead of each name (kubernetes/kubernetes#23881).
    pub(super) fn remove_surplus(&mut self, pod: Option<&DesiredPod>, now: &Now) {
        let mut ids = plan::surplus(pod, &self.seen);
        ids.extend(plan::surplus(None, &self.old));
        for id in ids {
            self.remove(&id, now);
        }
    }

    fn remove(&mut self, id: &str, now: &Now) {
        let retry = self.removals.get(id).copied().unwrap_or_default();
        if now.mono < retry.until {
            self.wake_at(retry.until);
        } else if !self.busy(id) && !self.is_full() {
            self.call(Job::Remove { id: id.to_owned() }, Call::Remove { id: id.to_owned(), force: false });
        }
    }

    /// Removes what is dead of a pod that starts over. Whose end had it start over goes when its back-off is over:
    /// with it goes what is known of its crashes.
    pub(super) fn clear_up(&mut self, pod: &DesiredPod, ids: &[String], now: &Now) {
        if ids.is_empty() {
            return;
        }
        let triggers: Vec<String> =
            plan::all::triggers(pod, &self.seen).into_iter().map(|trigger| trigger.id.clone()).collect();
        for id in ids {
            if triggers.contains(id) && !self.may_start_over(pod, id, now) {
                return;
            }
        }
        for id in ids {
            if triggers.contains(id) && !self.busy(id) && !self.is_full() {
                self.count_crash(pod, id, now);
            }
            self.remove(id, now);
        }
    }

    fn may_start_over(&mut self, pod: &DesiredPod, id: &str, now: &Now) -> bool {
        let Some((name, key, seen)) = self.crash_of(pod, id) else { return true };
        if let Wait::Wait { until, delay } = self.crashes.check(&key, seen, now.mono) {
            let message = backoff::crash_message(delay, &name, pod);
            self.wait_for(&name, "CrashLoopBackOff", &message, [words::backs_off(&name, pod)]);
            self.wake_at(until);
            return false;
        }
        true
    }

    fn count_crash(&mut self, pod: &DesiredPod, id: &str, now: &Now) {
        if let Some((_, key, seen)) = self.crash_of(pod, id) {
            self.crashes.advance(&key, seen, now.mono);
        }
    }

    /// Name and key of a container that ended, and when that was seen.
    fn crash_of(&self, pod: &DesiredPod, id: &str) -> Option<(String, String, Option<Mono>)> {
        let owned = self.seen.get(id)?;
        let RunState::Exited(exit) = &owned.state else { return None };
        let name = owned.container_name()?;
        Some((name.to_owned(), backoff::crash_key(pod.container(name)?.1), exit.seen))
    }

    /// It is gone, and what it joined may be able to go now.
    pub(super) fn removed(&mut self, id: &str, now: &Now) {
        let sandbox = self.all_seen().find(|c| c.id == id).and_then(Owned::sandbox_id).map(str::to_owned);
        self.vanished(id);
        if let Some(retry) = sandbox.and_then(|id| self.removals.get_mut(&id)) {
            retry.until = now.mono;
        }
    }

    /// Tries a removal again in a while. True: it is the first time.
    pub(super) fn remove_later(&mut self, id: &str, now: &Now) -> bool {
        let retry: &mut Retry = self.removals.get_or_default(id.to_owned());
        let first = retry.tries == 0;
        retry.failed(limits::CALL_RETRY_MIN, limits::REMOVE_RETRY_MAX, now.mono);
        let until = retry.until;
        self.wake_at(until);
        first
    }

    /// A removal did not work: later again, in the background.
    pub(super) fn removal_failed(&mut self, id: &str, why: &str, now: &Now) {
        if self.remove_later(id, now) {
            self.tell_of_any(id, words::removal_failed(short(id), why));
        }
    }
}

/// The grace of one container: the order's, the pod's own deletion grace, the spec's, what is written on
/// the container, 30 s; never less than 2 s (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`).
/// A sandbox has nothing to finish.
fn grace_of(container: &Owned, order: Option<u32>, spec: Option<&PodSpec>) -> Duration {
    if container.is_sandbox() {
        return limits::SANDBOX_GRACE;
    }
    Duration::from_secs(u64::from(seconds_of(container, order, spec).max(limits::GRACE_MIN)))
}

fn seconds_of(container: &Owned, order: Option<u32>, spec: Option<&PodSpec>) -> u32 {
    let of_spec =
        spec.and_then(|s| s.termination_grace_period_seconds).and_then(crate::base::duration::grace);
    order.or(of_spec).or(container.grace).unwrap_or(limits::GRACE_DEFAULT)
}

/// How long a preStop hook may take; `None`: it is not run, as with a grace of 0.
fn hook_grace(container: &Owned, order: Option<u32>, spec: Option<&PodSpec>) -> Option<Duration> {
    let seconds = seconds_of(container, order, spec);
    (seconds > 0 && !container.is_sandbox()).then(|| Duration::from_secs(u64::from(seconds)))
}
