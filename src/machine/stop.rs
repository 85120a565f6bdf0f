//! Taking containers down: TERM, deadline, KILL as separate planned calls (invariant 10), in the order that sidecars
//! need.

use std::time::Duration;

use k8s_openapi::api::core::v1::PodSpec;
use log::Level;

use super::Machine;
use super::calls::{Job, Retry};
use super::containers::merge::short;
use super::state::State;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::plan::{self, Owned};
use crate::pod::DesiredPod;
use crate::recorder::words;
use crate::runtime::Call;

/// How far the stop of the whole pod got.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    /// Since when everything is being stopped: the grace is the pod's, not each container's anew.
    pub since: Option<Mono>,
    /// When the sandbox of a pod that is gone for good is stopped.
    lingers_until: Option<Mono>,
}

/// How far the stop of one container got.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stop {
    /// When the pod's stop began; of a container that is stopped alone, when its own did.
    pub began: Mono,
    /// When its turn came.
    pub asked: Mono,
    pub deadline: Mono,
    /// When a signal was last sent, and whether it was KILL.
    pub sent: Option<(Mono, bool)>,
    /// Signals without an answer since one had one: the next waits.
    pub again: Retry,
    /// Docker does not know its own stop signal: TERM is sent.
    pub term: bool,
    /// That it could not be signalled was told.
    pub told: bool,
}

impl Stop {
    /// A stop whose turn comes now; nothing is sent yet.
    fn begins(began: Mono, now: Mono) -> Stop {
        let (deadline, again) = (Mono(Duration::MAX), Retry::default());
        Stop { began, asked: now, deadline, sent: None, again, term: false, told: false }
    }

    /// A grace of the pod, or a shorter one later: a container whose turn comes late has at least
    /// [`limits::GRACE_MIN`] (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`).
    pub fn allow(&mut self, grace: Duration) {
        let least = self.asked.after(Duration::from_secs(u64::from(limits::GRACE_MIN)));
        self.deadline = self.deadline.min(self.began.after(grace).max(least));
    }
}

impl Machine {
    /// Stops all that runs under this identity. True: nothing does, and nothing is about to.
    pub(super) fn stop_everything(&mut self, grace: Option<u32>, spec: Option<&PodSpec>, now: &Now) -> bool {
        if !self.containers.any_runs() {
            self.stopping = Stopping::default();
            return !self.calls.is_starting();
        }
        let began = *self.stopping.since.get_or_insert(now.mono);
        if self.sandbox_lingers(now) {
            return false;
        }
        let mut ids: Vec<String> =
            plan::stop_now(self.containers.current(), |_| true).into_iter().map(|c| c.id.clone()).collect();
        // A container whose grace ran out while it waited for its turn waits no longer (upstream
        // `pkg/kubelet/kuberuntime/kuberuntime_termination_order.go`).
        let waits = self.containers.current().all.iter();
        let waits = waits.filter(|c| c.state.is_running() && !c.is_sandbox() && !ids.contains(&c.id));
        let spent = |c: &Owned| began.after(Duration::from_secs(u64::from(seconds_of(c, grace, spec))));
        let waits: Vec<(Mono, String)> = waits.map(|c| (spent(c), c.id.clone())).collect();
        for (until, id) in waits {
            if now.mono < until {
                self.out.wake_at(until);
            } else {
                ids.push(id);
            }
        }
        ids.extend(
            self.containers.earlier().all.iter().filter(|c| c.state.is_running()).map(|c| c.id.clone()),
        );
        for id in ids {
            self.stop_one(&id, grace, spec, None, now);
        }
        // The preStop of those whose turn comes later runs already.
        let later = self.containers.current().all.iter().filter(|c| c.state.is_running() && !c.is_sandbox());
        let later = later.filter(|c| self.containers.stop_of(&c.id).is_none());
        let later: Vec<(String, Option<Duration>)> =
            later.map(|c| (c.id.clone(), hook_grace(c, grace, spec))).collect();
        for (id, grace) in later {
            self.pre_stop_runs(&id, grace, now);
        }
        false
    }

    /// Nothing but the sandbox of a pod that is gone for good runs, and not for long yet: while Docker takes
    /// a network down it brings none up, and the pod that takes its place starts first.
    fn sandbox_lingers(&mut self, now: &Now) -> bool {
        let gone = matches!(self.state, State::Terminating { then: None, .. });
        if !gone || self.containers.all().any(|c| c.state.is_running() && !c.is_sandbox()) {
            self.stopping.lingers_until = None;
            return false;
        }
        let until = *self.stopping.lingers_until.get_or_insert(now.mono.after(limits::SANDBOX_LINGER));
        if now.mono < until {
            self.out.wake_at(until);
        }
        now.mono < until
    }

    /// Stops what died in an earlier life of this name and runs again (somebody started it, or Docker carried out
    /// late what was given up), before anything new is made. True: there is such a thing.
    pub(super) fn stop_earlier_life(&mut self, pod: &DesiredPod, now: &Now) -> bool {
        let running = self.containers.earlier().all.iter().filter(|c| c.state.is_running());
        let running: Vec<String> = running.map(|c| c.id.clone()).collect();
        for id in &running {
            if self.containers.stop_of(id).is_none() {
                let line = format!(
                    "pod {}: container {} of an earlier life runs again and is stopped",
                    self.key,
                    short(id)
                );
                self.out.log(Level::Warn, line);
            }
            self.stop_one(id, None, Some(&pod.spec), None, now);
        }
        !running.is_empty()
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
        if let Some(denied) = self.looking.denied.get(id).filter(|denied| now.mono < denied.until) {
            self.out.wake_at(denied.until);
            return;
        }
        let Some((container, record)) = self.containers.get_mut(id) else { return };
        let told = record.run.stop.is_none().then(|| container.clone());
        let grace = grace_of(container, order, spec);
        let own_signal = container.stop_signal.clone();
        let for_hook = hook_grace(container, order, spec);
        // A sandbox has its own short grace, whenever its turn comes.
        let began = self.stopping.since.filter(|_| !container.is_sandbox()).unwrap_or(now.mono);
        let stop = record.run.stop.get_or_insert_with(|| Box::new(Stop::begins(began, now.mono)));
        stop.allow(grace);
        let sent = stop.sent;
        if let Some((told, name)) = told.as_ref().and_then(|c| Some((c, c.container_name()?))) {
            self.tell_of(told, words::killing(name, why));
        }
        if sent.is_none() && self.pre_stop_runs(id, for_hook, now) {
            return;
        }
        let Some(stop) = self.containers.stop_of(id) else { return };
        let hard = now.mono >= stop.deadline;
        let due = match stop.sent {
            None => stop.again.until,
            Some((_, false)) => stop.deadline,
            Some((at, true)) => at.after(limits::KILL_AGAIN),
        };
        if now.mono < due {
            self.out.wake_at(due);
            return;
        }
        if self.calls.is_changing(id) || self.calls.is_full() {
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
            self.out.log(Level::Warn, line);
        }
        if let Some(stop) = self.containers.record_mut(id).and_then(|record| record.run.stop.as_mut()) {
            stop.sent = Some((now.mono, hard));
        }
        self.call(Job::Kill { id: id.to_owned(), hard }, Call::Kill { id: id.to_owned(), signal });
    }

    /// A new order while stopping: graces can only get shorter.
    pub(super) fn shorten_stops(&mut self) {
        let State::Terminating { order, .. } = &self.state else { return };
        let Some(grace) = order.grace else { return };
        for stop in self.containers.records_mut().filter_map(|(_, record)| record.run.stop.as_mut()) {
            stop.allow(Duration::from_secs(u64::from(grace)));
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
