//! The pod that was told to go, whose end is awaited before another one goes.
//!
//! One that has not ended in time may hang, and another goes in its place. It may also be Docker that stands still, which
//! stops nobody then: each further pod would be told to go in vain, and all of them would end when Docker comes back. So
//! Docker is asked first, and as long as it does not answer, nobody else goes.

use crate::base::clock::Mono;
use crate::base::limits;
use crate::pod::PodKey;

/// See the module.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) key: PodKey,
    pub(super) uid: String,
    /// Its end is awaited until then.
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

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is waited for.
    Wait,
    /// It is to be found out whether Docker answers.
    Ask,
    /// It is waited for no longer: it hangs.
    Hangs,
}

impl Ending {
    pub(super) fn new(key: PodKey, uid: String, now: Mono) -> Ending {
        let until = now.after(limits::EVICTION_PATIENCE);
        Ending { key, uid, until, docker: Docker::NotAsked, was_silent: false }
    }

    /// What follows while something of it is still there.
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

    /// Docker was asked. When it was silent before, the stop has only begun, and has its time from now on.
    pub(super) fn told(&mut self, answers: bool, now: Mono) {
        if self.docker != Docker::Asked {
            return;
        }
        let begins_anew = !answers || self.was_silent;
        self.was_silent = !answers;
        if begins_anew {
            (self.docker, self.until) = (Docker::NotAsked, now.after(limits::EVICTION_PATIENCE));
        } else {
            self.docker = Docker::Answers;
        }
    }

    /// Whether Docker is what is waited for.
    pub(super) fn waits_for_docker(&self) -> bool {
        self.was_silent
    }
}
