//! The pod that is being evicted; the manager waits for its end before it evicts another one.
//!
//! A pod that does not end in time may hang, and another one is evicted in its place. But Docker itself may hang and
//! stop no pod: then each further eviction would have no effect, and all evicted pods would end when Docker comes back.
//! So Docker is asked first, and while it does not answer, no further pod is evicted. A stop takes several calls: if
//! Docker takes seconds for each, so does the end of a pod, and it is awaited for longer.

use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;
use crate::pod::PodKey;

/// See the module.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) key: PodKey,
    pub(super) uid: String,
    /// Since when Docker can stop the pod.
    since: Mono,
    /// The manager waits for the pod's end until then, and asks.
    until: Mono,
    docker: Docker,
    /// Docker did not answer when it was last asked.
    was_silent: bool,
}

/// Whether Docker answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Docker {
    NotAsked,
    Asked,
    Answers,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait for the pod's end.
    Wait,
    /// Find out whether Docker answers.
    Ask,
    /// The pod hangs: wait no longer.
    Hangs,
}

impl Ending {
    pub(super) fn new(key: PodKey, uid: String, now: Mono) -> Ending {
        let until = now.after(limits::EVICTION_PATIENCE);
        Ending { key, uid, since: now, until, docker: Docker::NotAsked, was_silent: false }
    }

    /// The next step while some part of the pod still exists.
    pub(super) fn step(&mut self, now: Mono) -> Step {
        match self.docker {
            Docker::Answers => Step::Hangs,
            Docker::NotAsked if now >= self.until => {
                self.docker = Docker::Asked;
                Step::Ask
            }
            Docker::NotAsked | Docker::Asked => Step::Wait,
        }
    }

    /// Takes how long Docker took for an answer; `None`: it did not answer. If it was silent before, the stop has only
    /// begun, and has its full time from now on.
    pub(super) fn told(&mut self, took: Option<Duration>, now: Mono) {
        if self.docker != Docker::Asked {
            return;
        }
        if took.is_none() || self.was_silent {
            self.since = now;
        }
        self.was_silent = took.is_none();
        let of_calls = took.unwrap_or_default().saturating_mul(limits::EVICTION_CALLS);
        let needed = of_calls.min(limits::EVICTION_LONGEST).max(limits::EVICTION_PATIENCE);
        let end = self.since.after(needed);
        if now >= end {
            self.docker = Docker::Answers;
        } else {
            (self.docker, self.until) = (Docker::NotAsked, end.min(now.after(limits::EVICTION_PATIENCE)));
        }
    }

    /// Whether the manager waits for Docker.
    pub(super) fn waits_for_docker(&self) -> bool {
        self.was_silent
    }
}
