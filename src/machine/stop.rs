//! Stops containers: TERM, deadline, KILL as separate planned calls (invariant 10), in the order that sidecars need.

use std::time::Duration;

use k8s_openapi::api::core::v1::PodSpec;
use log::Level;

use super::Machine;
use super::calls::{Job, Retry};
use super::containers::merge::{short, what};
use super::output::Output;
use super::state::State;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::plan::{self, Owned};
use crate::pod::DesiredPod;
use crate::recorder::words;
use crate::runtime::Call;

/// What a container has at least between its stop signal and KILL.
pub(super) const LEAST: Duration = Duration::from_secs(limits::GRACE_MIN as u64);

/// Progress of the stop of the whole pod.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    /// Since when everything is being stopped: all containers share the pod's grace.
    pub since: Option<Mono>,
    /// When the sandbox of a pod that is gone for good is stopped.
    lingers_until: Option<Mono>,
}

impl Stopping {
    /// Lets the rest of the grace of a container begin now: nothing has told it to end before. What is stopped after it waits
    /// for it.
    fn put_off(&mut self, container: &Owned, stop: &mut Stop, now: Mono) {
        stop.put_off(now);
        if let Some(since) = self.since.as_mut().filter(|_| !container.is_sandbox()) {
            *since = stop.began.max(*since);
        }
    }
}

/// Progress of the stop of one container.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stop {
    /// When the pod's stop began, or the container's own, if it is stopped alone.
    pub began: Mono,
    /// When its turn came.
    pub asked: Mono,
    pub deadline: Mono,
    pub signalled: Signalled,
    /// Signals without an answer since the last answer: the next one waits.
    pub again: Retry,
    /// How often Docker did not confirm the stop signal, though it was there.
    missed: u32,
    /// Docker does not know its own stop signal: TERM is sent.
    pub term: bool,
    /// The failure to signal it was reported.
    pub told: bool,
}

/// The last signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signalled {
    /// None, or one that may not have arrived.
    Not,
    /// Its stop signal, at this time.
    Asked(Mono),
    /// KILL, at this time.
    Killed(Mono),
    /// KILL, which may not have arrived.
    NotKilled,
}

/// The next action of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// None before this time.
    Later(Mono),
    /// Send its stop signal.
    Ask,
    /// Send KILL.
    Kill,
}

impl Stop {
    /// A stop that begins now, with this grace; nothing is sent yet.
    fn begins(began: Mono, grace: Duration, now: Mono) -> Stop {
        let mut stop = Stop {
            began,
            asked: now,
            deadline: Mono(Duration::MAX),
            signalled: Signalled::Not,
            again: Retry::default(),
            missed: 0,
            term: false,
            told: false,
        };
        stop.allow(grace);
        stop
    }

    /// Decides by the time and the last signal; a preStop hook runs before that.
    fn due(&self, now: Mono) -> Due {
        let at = match self.signalled {
            Signalled::Not | Signalled::NotKilled => self.again.until,
            Signalled::Asked(_) => self.deadline,
            Signalled::Killed(at) => at.after(limits::KILL_AGAIN),
        };
        let asks = self.signalled == Signalled::Not && (now < self.deadline || self.may_wait());
        match now < at {
            true => Due::Later(at),
            false if asks => Due::Ask,
            false => Due::Kill,
        }
    }

    /// Whether what is stopped after it waits for it when the pod's grace is over; `asked`: a signal is under way. A sidecar
    /// keeps another one waiting only while Docker has confirmed no signal, as in the kubelet; a regular container,
    /// which a hook or Docker may have kept from its signal, until its own time is over.
    fn is_waited_for(&self, is_sidecar: bool, asked: bool) -> bool {
        match self.signalled {
            Signalled::Not => !is_sidecar || self.may_wait(),
            Signalled::Asked(_) => !is_sidecar || asked,
            Signalled::Killed(_) | Signalled::NotKilled => false,
        }
    }

    /// Whether the grace still begins anew when the stop signal is sent again.
    fn may_wait(&self) -> bool {
        self.missed < limits::STOP_SIGNALS_MISSED
    }

    /// Lets the rest of the grace begin now: nothing has told the container to end before.
    fn put_off(&mut self, now: Mono) {
        let late = now.since(self.asked);
        if late >= limits::STOP_DELAY {
            self.began = self.began.after(late);
            self.deadline = self.deadline.after(late);
            self.asked = now;
        } else if late >= limits::STOP_MOMENT {
            self.deadline = self.deadline.max(now.after(LEAST));
            self.asked = now;
        }
    }

    /// The last signal may not have arrived, and is sent again. `sent`: whether Docker may have got it.
    pub fn missed(&mut self, sent: bool, now: &Now) {
        if matches!(self.signalled, Signalled::Asked(_)) {
            self.signalled = Signalled::Not;
            self.missed = self.missed.saturating_add(u32::from(sent));
        } else {
            self.signalled = Signalled::NotKilled;
        }
        self.again.failed(now);
    }

    /// Takes the pod's grace, or a shorter one later. A container that is stopped late has at least
    /// [`limits::GRACE_MIN`] (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`).
    pub fn allow(&mut self, grace: Duration) {
        self.deadline = self.deadline.min(self.began.after(grace).max(self.asked.after(LEAST)));
    }
}

impl Machine {
    /// Stops everything under this identity. Returns true if nothing runs, and nothing is about to.
    pub(super) fn stop_everything(&mut self, grace: Option<u32>, spec: Option<&PodSpec>, now: &Now) -> bool {
        if !self.containers.any_runs() {
            self.stopping = Stopping::default();
            return !self.calls.is_starting();
        }
        let began = *self.stopping.since.get_or_insert(now.mono);
        if self.let_sandbox_linger(now) {
            return false;
        }
        let mut ids: Vec<String> =
            plan::stop_now(self.containers.current(), |_| true).into_iter().map(|c| c.id.clone()).collect();
        // A container whose grace ended before its turn is stopped at once (upstream
        // `pkg/kubelet/kuberuntime/kuberuntime_termination_order.go`).
        let waits = self.containers.current().all.iter();
        let waits = waits.filter(|c| c.state.is_running() && !c.is_sandbox() && !ids.contains(&c.id));
        let spent = |c: &Owned| began.after(Duration::from_secs(u64::from(seconds_of(c, grace, spec))));
        let waits: Vec<(Mono, String)> = waits.map(|c| (spent(c), c.id.clone())).collect();
        let is_waited_for = |id: &String| {
            let is_sidecar = self.containers.current().get(id).is_some_and(Owned::is_sidecar);
            let stop = self.containers.stop_of(id);
            stop.is_some_and(|stop| stop.is_waited_for(is_sidecar, self.calls.is_changing(id)))
        };
        let have_had_their_time = !ids.iter().any(is_waited_for);
        for (until, id) in waits {
            if now.mono < until {
                self.out.wake_at(until);
            } else if have_had_their_time {
                ids.push(id);
            }
        }
        ids.extend(
            self.containers.earlier().all.iter().filter(|c| c.state.is_running()).map(|c| c.id.clone()),
        );
        for id in ids {
            self.stop_one(&id, grace, spec, None, now);
        }
        // The preStop hooks of later containers run already.
        let later = self.containers.current().all.iter().filter(|c| c.state.is_running() && !c.is_sandbox());
        let later = later.filter(|c| self.containers.stop_of(&c.id).is_none());
        let later: Vec<(String, Option<Duration>)> =
            later.map(|c| (c.id.clone(), hook_grace(c, grace, spec))).collect();
        for (id, grace) in later {
            self.advance_pre_stop(&id, grace, now);
        }
        false
    }

    /// Delays the stop of a sandbox for a moment when nothing else of a pod that is gone for good runs: Docker brings
    /// no network up while it takes one down, and a pod in its place starts first. Returns true while the sandbox is
    /// left alone.
    fn let_sandbox_linger(&mut self, now: &Now) -> bool {
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

    /// Stops containers of an earlier life that run again (somebody started them, or Docker carried out a start late),
    /// before anything new is made. Returns true if there are any.
    pub(super) fn stop_earlier_life(&mut self, pod: &DesiredPod, now: &Now) -> bool {
        let running = self.containers.earlier().all.iter().filter(|c| c.state.is_running());
        let running: Vec<String> = running.map(|c| c.id.clone()).collect();
        for id in &running {
            if self.containers.stop_of(id).is_none() {
                let line = format!(
                    "pod {}: {} of an earlier life runs again and is stopped",
                    self.key,
                    self.known_as(id)
                );
                self.out.log(Level::Warn, line);
            }
            self.stop_one(id, None, Some(&pod.spec), None, now);
        }
        !running.is_empty()
    }

    /// A container in the log: by its name, and by its id where it is not known any more.
    fn known_as(&self, id: &str) -> String {
        self.containers.current().get(id).map_or_else(|| format!("container {}", short(id)), what)
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
        // A sandbox has its own short grace, whenever it is stopped.
        let began = self.stopping.since.filter(|_| !container.is_sandbox()).unwrap_or(now.mono);
        let stop = record.run.stop.get_or_insert_with(|| Box::new(Stop::begins(began, grace, now.mono)));
        stop.allow(grace);
        let unsignalled = stop.signalled == Signalled::Not;
        if let Some((told, name)) = told.as_ref().and_then(|c| Some((c, c.container_name()?))) {
            self.tell_of(told, words::killing(name, why));
        }
        if unsignalled && (self.advance_pre_stop(id, for_hook, now) || self.detach_first(id, now)) {
            return;
        }
        let Some(stop) = self.containers.stop_of(id) else { return };
        let due = stop.due(now.mono);
        if let Due::Later(at) = due {
            self.out.wake_at(at);
            return;
        }
        if self.calls.is_changing(id) || self.calls.is_full() {
            return;
        }
        let (signal, signalled) = match due {
            Due::Kill => ("SIGKILL".to_owned(), Signalled::Killed(now.mono)),
            Due::Ask | Due::Later(_) => {
                let own = own_signal.filter(|_| !stop.term);
                (own.unwrap_or_else(|| "SIGTERM".to_owned()), Signalled::Asked(now.mono))
            }
        };
        if let (Due::Kill, Signalled::Asked(sent)) = (due, stop.signalled) {
            let line = format!(
                "pod {}: {} did not end within {} s and is killed",
                self.key,
                self.known_as(id),
                now.mono.since(sent).as_secs()
            );
            self.out.log(Level::Warn, line);
        }
        let is_stopped = matches!(self.state, State::Terminating { .. });
        if let Some((container, record)) = self.containers.get_mut(id) {
            let is_first = unsignalled && (record.run.again || is_stopped);
            if let Some(stop) = record.run.stop.as_mut() {
                if due == Due::Ask && stop.may_wait() {
                    self.stopping.put_off(container, stop, now.mono);
                }
                stop.signalled = signalled;
            }
            record.run.first_told.get_or_insert(now.wall);
            if is_first {
                self.out.push(Output::Signalled(id.to_owned(), true));
            }
        }
        self.call(Job::Kill { id: id.to_owned() }, Call::Kill { id: id.to_owned(), signal });
    }

    /// Docker has confirmed a signal: the grace counts from there.
    pub(super) fn signal_arrived(&mut self, id: &str, now: Mono) {
        let Some((container, record)) = self.containers.get_mut(id) else { return };
        let Some(stop) = &mut record.run.stop else { return };
        stop.again = Retry::default();
        if matches!(stop.signalled, Signalled::Asked(_)) {
            self.stopping.put_off(container, stop, now);
        }
    }

    /// The preStop hook of a container has waited for Docker.
    pub(super) fn hook_waited(&mut self, id: &str, now: Mono) {
        let Some((container, record)) = self.containers.get_mut(id) else { return };
        match (&mut record.run.stop, &mut self.stopping.since) {
            (Some(stop), _) => self.stopping.put_off(container, stop, now),
            // Its own stop begins later.
            (None, Some(since)) => *since = now,
            (None, None) => {}
        }
    }

    /// Applies a new order during a stop: a grace can only become shorter.
    pub(super) fn shorten_stops(&mut self) {
        let State::Terminating { order, .. } = &self.state else { return };
        let Some(grace) = order.grace else { return };
        for stop in self.containers.records_mut().filter_map(|(_, record)| record.run.stop.as_mut()) {
            stop.allow(Duration::from_secs(u64::from(grace)));
        }
    }
}

/// The grace of one container, from the first that is set: the order, the pod's own deletion grace, the spec, the
/// container's label, 30 s; at least 2 s (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`). A sandbox has
/// nothing to finish.
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

/// How long a preStop hook may take; `None` when it is not run, as with a grace of 0.
fn hook_grace(container: &Owned, order: Option<u32>, spec: Option<&PodSpec>) -> Option<Duration> {
    let seconds = seconds_of(container, order, spec);
    (seconds > 0 && !container.is_sandbox()).then(|| Duration::from_secs(u64::from(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono(Duration::from_secs(seconds))
    }

    #[test]
    fn term_deadline_and_kill_are_three_decisions() {
        let mut stop = Stop::begins(at(10), Duration::from_secs(30), at(10));
        assert_eq!(stop.due(at(10)), Due::Ask);
        stop.signalled = Signalled::Asked(at(10));
        assert_eq!((stop.due(at(39)), stop.due(at(40))), (Due::Later(at(40)), Due::Kill));
        stop.allow(Duration::from_secs(5));
        assert_eq!((stop.due(at(14)), stop.due(at(15))), (Due::Later(at(15)), Due::Kill), "it got shorter");
        stop.signalled = Signalled::Killed(at(15));
        let again = at(15).after(limits::KILL_AGAIN);
        assert_eq!((stop.due(at(15)), stop.due(again)), (Due::Later(again), Due::Kill), "its process hangs");
        // The signal may not have arrived.
        stop.signalled = Signalled::NotKilled;
        stop.again.until = at(17);
        assert_eq!((stop.due(at(16)), stop.due(at(17))), (Due::Later(at(17)), Due::Kill));
    }

    #[test]
    fn the_grace_counts_from_a_signal_that_arrived_but_not_for_ever() {
        let mut stop = Stop::begins(at(10), Duration::from_secs(30), at(10));
        let mut missed = |second: u64, sent: bool| {
            let due = stop.due(at(second));
            stop.signalled = Signalled::Asked(at(second));
            if stop.may_wait() {
                stop.put_off(at(second));
            }
            stop.missed(sent, &Now { mono: at(second), wall: k8s_openapi::jiff::Timestamp::UNIX_EPOCH });
            stop.again = Retry::default();
            (due, stop.deadline)
        };
        // Docker is not there: nothing is sent, and nothing counts.
        for second in (50..1000).step_by(50) {
            assert_eq!(missed(second, false), (Due::Ask, at(second + 30)));
        }
        for count in 0..u64::from(limits::STOP_SIGNALS_MISSED) {
            assert_eq!(missed(1000 + count, true), (Due::Ask, at(1030 + count)));
        }
        let last = 1029 + u64::from(limits::STOP_SIGNALS_MISSED);
        assert_eq!(missed(1020, true), (Due::Ask, at(last)), "before the last deadline");
        assert_eq!(missed(last, true).0, Due::Kill);
    }

    #[test]
    fn a_container_whose_turn_comes_late_has_a_moment() {
        let mut stop = Stop::begins(at(0), Duration::from_secs(30), at(100));
        let end = 100 + u64::from(limits::GRACE_MIN);
        assert_eq!(stop.due(at(100)), Due::Ask);
        stop.signalled = Signalled::Asked(at(100));
        assert_eq!(stop.due(at(end)), Due::Kill);
        // Regression: it had one second, for Docker took the signal 900 ms later.
        let taken = at(100).after(Duration::from_millis(900));
        stop.put_off(taken);
        stop.allow(Duration::from_secs(30));
        assert_eq!(stop.due(at(end)), Due::Later(taken.after(LEAST)));
    }
}
