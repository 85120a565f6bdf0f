//! The pod that is being evicted; the manager waits for its end before it evicts another one for the same resource.
//!
//! A pod that does not end in time may hang, and another one is evicted in its place. But Docker itself may hang and
//! stop no pod: then each further eviction would have no effect, and all evicted pods would end when Docker comes back.
//! So Docker is asked first, and while it does not answer, no further pod is evicted. A stop takes several calls: if
//! Docker takes seconds for each, so does the end of a pod, and it is awaited for longer. It is also awaited for longer
//! while it gets on: Docker answers to the calls that stop the pod, or files of its volumes are being removed. If it
//! does not, its processes are killed before another pod is evicted.

use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;
use crate::eviction::signal::Signal;

/// See the module.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) uid: String,
    /// What the node was short of, and how much of it the pod is known to use.
    pub(super) used: (Signal, u64),
    /// From then on its processes may be killed; `None`: never.
    kill: Option<Mono>,
    /// Since when Docker can stop the pod.
    since: Mono,
    /// The manager waits for the pod's end until then, and asks.
    until: Mono,
    /// It was evicted for another reason, and is awaited no longer than this, however its end gets on.
    at_most: Option<Mono>,
    docker: Docker,
    /// Docker did not answer when it was last asked.
    was_silent: bool,
    /// When Docker first answered.
    answered: Option<Mono>,
    /// How far the end has come, and when it last got on.
    steps: u64,
    moved: Mono,
}

/// What is left of an evicted pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nothing.
    Gone,
    /// It is being stopped, or what it had is being removed. The number grows while that gets on.
    Goes(u64),
}

/// Whether Docker answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Docker {
    NotAsked,
    Asked,
    Answers,
    /// It answers, but did not stop the pod, whose processes were killed.
    Replaced,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait for the pod's end.
    Wait,
    /// Find out whether Docker answers.
    Ask,
    /// Kill the processes of the pod.
    Kill,
    /// The pod hangs: wait no longer.
    Hangs,
    /// The time is over in which pods are awaited that were evicted for another reason.
    Over,
}

impl Ending {
    /// `kill`: when the pod has had its time to stop by itself.
    pub(super) fn new(uid: String, used: (Signal, u64), kill: Option<Mono>, now: Mono) -> Ending {
        Ending {
            uid,
            used,
            kill,
            since: now,
            // Not before its grace period is over: it may be about to end.
            until: now.after(limits::EVICTION_PATIENCE).max(kill.unwrap_or(now)),
            at_most: None,
            docker: Docker::NotAsked,
            was_silent: false,
            answered: None,
            steps: 0,
            moved: now,
        }
    }

    /// The wait for a pod that was evicted for another reason. How much time it was given is not known.
    pub(super) fn of_another(uid: String, signal: Signal, at_most: Mono, now: Mono) -> Ending {
        Ending { at_most: Some(at_most), ..Ending::new(uid, (signal, 0), None, now) }
    }

    /// The next step while some part of the pod still exists.
    pub(super) fn step(&mut self, steps: u64, now: Mono) -> Step {
        if self.at_most.is_some_and(|end| now >= end) && !self.was_silent {
            return Step::Over;
        }
        if steps != self.steps {
            (self.steps, self.moved) = (steps, now);
        }
        let gets_on = now.since(self.moved) < limits::EVICTION_PATIENCE
            && now.since(self.since) < limits::EVICTION_LONGEST;
        match self.docker {
            Docker::Asked => Step::Wait,
            _ if gets_on || now < self.until => Step::Wait,
            Docker::NotAsked => {
                self.docker = Docker::Asked;
                Step::Ask
            }
            Docker::Answers if self.kill.is_some_and(|from| now >= from) => {
                (self.docker, self.until) = (Docker::Replaced, now.after(limits::EVICTION_PATIENCE));
                Step::Kill
            }
            Docker::Answers | Docker::Replaced => Step::Hangs,
        }
    }

    /// Takes how long Docker took for an answer; `None`: it did not answer. If it was silent before, the stop has only
    /// begun, and has its full time from now on, unless Docker is silent again and again.
    pub(super) fn told(&mut self, took: Option<Duration>, now: Mono) {
        if self.docker != Docker::Asked {
            return;
        }
        let is_anew = self.answered.is_none_or(|at| now.since(at) < limits::EVICTION_LONGEST);
        if is_anew && (took.is_none() || self.was_silent) {
            self.since = now;
        }
        self.was_silent = took.is_none();
        self.answered = self.answered.or(took.map(|_| now));
        let of_calls = took.unwrap_or_default().saturating_mul(limits::EVICTION_CALLS);
        let needed = of_calls.min(limits::EVICTION_LONGEST).max(limits::EVICTION_PATIENCE);
        let end = self.since.after(needed);
        if now < end || self.was_silent {
            let next = now.after(limits::EVICTION_PATIENCE);
            (self.docker, self.until) =
                (Docker::NotAsked, if self.was_silent { next } else { end.min(next) });
        } else {
            self.docker = Docker::Answers;
        }
    }

    /// There was nothing to kill: it is not awaited once more.
    pub(super) fn hangs(&mut self) {
        self.until = Mono::default();
    }

    /// Whether the manager waits for Docker.
    pub(super) fn waits_for_docker(&self) -> bool {
        self.was_silent
    }
}
