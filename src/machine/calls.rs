//! The calls that are under way, each with what it was made for; and how often something failed. All decisions are
//! elsewhere.

use std::time::Duration;

use super::Token;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::table::Table;
use crate::plan::Role;
use crate::runtime::Resources;

/// What a call in flight was made for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Job {
    List,
    /// `needed`: nothing is decided before its answer.
    Inspect {
        id: String,
        needed: bool,
    },
    /// An inspect of a container that has a cgroup in the pod's and is in no list.
    Unlisted {
        id: String,
    },
    Conflict {
        name: String,
        place: Place,
    },
    /// `role`: as it was wished for then; the wish may have changed when the answer comes.
    CreateSandbox {
        name: String,
        attempt: u32,
        role: Role,
    },
    /// The same; `crash_key` is the container's in the crash back-off.
    Create {
        name: String,
        container: String,
        attempt: u32,
        never_ran: u32,
        sandbox: String,
        role: Role,
        crash_key: String,
        size: Resources,
    },
    Start {
        id: String,
    },
    Kill {
        id: String,
        hard: bool,
    },
    Remove {
        id: String,
    },
    Update {
        id: String,
        resources: Resources,
    },
    Rename {
        id: String,
        name: String,
    },
    Log {
        id: String,
    },
    ImageInspect {
        image_id: String,
    },
    /// A look at the user of an image, for one attempt of this container.
    ImageUser {
        container: String,
        image: String,
        attempt: u32,
    },
}

/// Which object a name conflict is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    /// Container name; `None` for the sandbox.
    pub container: Option<String>,
    /// Attempt that was to be made.
    pub attempt: u32,
}

/// Tries and the wait before the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Retry {
    pub tries: u32,
    pub until: Mono,
}

impl Retry {
    /// It has failed at least once.
    pub fn has_failed(&self) -> bool {
        self.tries > 0
    }

    /// Counts what may be no failure: the first time nothing is waited for.
    pub fn forgive_once(retry: &mut Option<Retry>, now: &Now) {
        match retry {
            Some(retry) => retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono),
            None => *retry = Some(Retry::default()),
        }
    }

    /// Counts a failure: `first`, doubling to `most`.
    pub fn failed(&mut self, first: Duration, most: Duration, now: Mono) {
        let factor = 1u32.checked_shl(self.tries).unwrap_or(u32::MAX);
        self.tries = self.tries.saturating_add(1);
        self.until = now.after(first.saturating_mul(factor).min(most));
    }
}

/// Every call without an answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    in_flight: Table<Token, Job>,
    next: u64,
}

impl Calls {
    /// The token of the next call.
    pub fn next(&self) -> Token {
        Token(self.next)
    }

    /// A call begins.
    pub fn begin(&mut self, job: Job) -> Token {
        let token = self.next();
        self.next += 1;
        self.in_flight.insert(token, job);
        token
    }

    /// A call has its answer.
    pub fn end(&mut self, token: Token) -> Option<Job> {
        self.in_flight.remove(&token)
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// None is under way.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// As many calls are under way as one pod may have; the next answer brings the next turn.
    pub fn is_full(&self) -> bool {
        self.in_flight.len() >= limits::CALLS_PER_POD
    }

    /// Some call of this kind is under way.
    pub fn any(&self, test: impl Fn(&Job) -> bool) -> bool {
        self.in_flight.values().any(test)
    }

    /// A list is under way.
    pub fn is_listing(&self) -> bool {
        self.any(|job| *job == Job::List)
    }

    /// A call is under way after which a container may be there, or run, that was not before.
    pub fn is_starting(&self) -> bool {
        self.any(|job| {
            matches!(
                job,
                Job::Create { .. } | Job::CreateSandbox { .. } | Job::Start { .. } | Job::Conflict { .. }
            )
        })
    }

    /// Those that would make or start something, and may wait on the node to be sent.
    pub fn starting(&self) -> Vec<Token> {
        let starts =
            |job: &Job| matches!(job, Job::Create { .. } | Job::CreateSandbox { .. } | Job::Start { .. });
        self.in_flight.iter().filter(|(_, job)| starts(job)).map(|(token, _)| *token).collect()
    }

    /// A create (or the clearing up of its name) for this container is under way; `None`: the sandbox.
    pub fn is_making(&self, container: Option<&str>) -> bool {
        self.any(|job| match job {
            Job::CreateSandbox { .. } => container.is_none(),
            Job::Create { container: it, .. } => container == Some(it),
            Job::Conflict { place, .. } => place.container.as_deref() == container,
            _ => false,
        })
    }

    /// A call about this container is under way.
    pub fn is_busy(&self, container: &str) -> bool {
        self.is_changing(container)
            || self.any(|job| matches!(job, Job::Inspect { id, .. } if id == container))
    }

    /// A call that changes this container is under way. A signal waits for no look: the look's answer is older than
    /// what the signal does, and an end is told by Docker's event, after which there is another look.
    pub fn is_changing(&self, container: &str) -> bool {
        self.any(|job| match job {
            Job::Start { id }
            | Job::Kill { id, .. }
            | Job::Rename { id, .. }
            | Job::Update { id, .. }
            | Job::Remove { id } => id == container,
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_under_way_from_its_begin_to_its_answer() {
        let mut calls = Calls::default();
        let next = calls.next();
        let token = calls.begin(Job::Start { id: "a".into() });
        assert_eq!(token, next);
        assert!(calls.is_busy("a") && calls.is_starting() && !calls.is_busy("b"));
        assert_eq!(calls.end(token), Some(Job::Start { id: "a".into() }));
        assert_eq!(calls.end(token), None, "an answer counts once");
        assert!(calls.is_empty() && calls.next() != token);
    }

    #[test]
    fn a_pod_has_so_many_calls_at_most() {
        let mut calls = Calls::default();
        while !calls.is_full() {
            calls.begin(Job::List);
        }
        assert_eq!(calls.len(), limits::CALLS_PER_POD);
    }
}
