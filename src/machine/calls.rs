//! The calls under way, each with its purpose; and counters of failures. It takes no decisions.

use std::time::Duration;

use super::Token;
use super::members::Part;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::pace::doubled;
use crate::base::table::Table;
use crate::plan::Role;
use crate::runtime::{DockerError, Reply, Resources};

/// The purpose of a call under way.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Job {
    List,
    /// `needed`: nothing is decided before the answer.
    Inspect {
        id: String,
        needed: bool,
    },
    /// An inspect of a container that has a cgroup in the pod's and is missing in the list.
    Unlisted {
        id: String,
    },
    Conflict {
        name: String,
        place: Place,
    },
    /// `role`: from the wish at that time, which may have changed when the answer comes.
    CreateSandbox {
        name: String,
        attempt: u32,
        role: Role,
    },
    /// The create of a container; `crash_key` is its key in the crash back-off.
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
    /// An inspect of an image for its user, for one attempt of this container.
    ImageUser {
        container: String,
        image: String,
        attempt: u32,
    },
}

impl Job {
    /// The answer, if it is of the kind that belongs to this call.
    pub fn checked(&self, reply: Reply) -> Result<Reply, DockerError> {
        let fits = match self {
            Job::List => matches!(reply, Reply::Containers(_)),
            Job::Inspect { .. } | Job::Unlisted { .. } | Job::Conflict { .. } => {
                matches!(reply, Reply::Container(_))
            }
            Job::CreateSandbox { .. } | Job::Create { .. } => matches!(reply, Reply::Created { .. }),
            Job::Start { .. }
            | Job::Kill { .. }
            | Job::Remove { .. }
            | Job::Update { .. }
            | Job::Rename { .. } => matches!(reply, Reply::Done | Reply::Already),
            Job::Log { .. } => matches!(reply, Reply::Output(_)),
            Job::ImageInspect { .. } | Job::ImageUser { .. } => matches!(reply, Reply::Image(_)),
        };
        fits.then_some(reply).ok_or_else(|| DockerError::BadAnswer("an answer of another kind".to_owned()))
    }
}

/// The object of a name conflict.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub part: Part,
    /// The attempt that was to be made.
    pub attempt: u32,
}

/// Number of failures, and the time of the next try.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Retry {
    pub tries: u32,
    pub until: Mono,
}

impl Retry {
    /// Whether it has failed at least once.
    pub fn has_failed(&self) -> bool {
        self.tries > 0
    }

    /// Counts what may be no failure: there is no wait after the first time.
    pub fn forgive_once(retry: &mut Option<Retry>, now: &Now) {
        match retry {
            Some(retry) => retry.failed(now),
            None => *retry = Some(Retry::default()),
        }
    }

    /// Counts a failed call.
    pub fn failed(&mut self, now: &Now) {
        self.failed_within(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now);
    }

    /// Counts a failure: the first wait, doubling to `most`.
    pub fn failed_within(&mut self, first: Duration, most: Duration, now: &Now) {
        self.until = now.mono.after(doubled(first, self.tries, most));
        self.tries = self.tries.saturating_add(1);
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

    /// Adds a call.
    pub fn begin(&mut self, job: Job) -> Token {
        let token = self.next();
        self.next += 1;
        self.in_flight.insert(token, job);
        token
    }

    /// Removes a call that has its answer.
    pub fn end(&mut self, token: Token) -> Option<Job> {
        self.in_flight.remove(&token)
    }

    /// Number of calls under way.
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether no call is under way.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether the pod has as many calls under way as it may; the next answer brings the next decision.
    pub fn is_full(&self) -> bool {
        self.in_flight.len() >= limits::CALLS_PER_POD
    }

    /// Whether some call of this kind is under way.
    pub fn any(&self, test: impl Fn(&Job) -> bool) -> bool {
        self.in_flight.values().any(test)
    }

    /// Whether a list is under way.
    pub fn is_listing(&self) -> bool {
        self.any(|job| *job == Job::List)
    }

    /// Whether a call is under way after which a new container may exist, or another one run.
    pub fn is_starting(&self) -> bool {
        self.any(|job| {
            matches!(
                job,
                Job::Create { .. } | Job::CreateSandbox { .. } | Job::Start { .. } | Job::Conflict { .. }
            )
        })
    }

    /// The calls that make or start something, which may not have been sent yet.
    pub fn starting(&self) -> Vec<Token> {
        let starts =
            |job: &Job| matches!(job, Job::Create { .. } | Job::CreateSandbox { .. } | Job::Start { .. });
        self.in_flight.iter().filter(|(_, job)| starts(job)).map(|(token, _)| *token).collect()
    }

    /// Whether a create (or the resolution of its name conflict) for this part is under way.
    pub fn is_making(&self, part: &Part) -> bool {
        self.any(|job| match job {
            Job::CreateSandbox { .. } => *part == Part::Sandbox,
            Job::Create { container, .. } => part.name() == Some(container),
            Job::Conflict { place, .. } => place.part == *part,
            _ => false,
        })
    }

    /// Whether a call about this container is under way.
    pub fn is_busy(&self, container: &str) -> bool {
        self.is_changing(container)
            || self.any(|job| matches!(job, Job::Inspect { id, .. } if id == container))
    }

    /// Whether a call that changes this container is under way. A signal does not wait for an inspect: its answer is
    /// older than the signal's effect, and Docker's event of the end leads to another inspect.
    pub fn is_changing(&self, container: &str) -> bool {
        self.any(|job| match job {
            Job::Start { id }
            | Job::Kill { id }
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
    fn an_answer_of_another_kind_is_none() {
        let start = Job::Start { id: "a".into() };
        assert_eq!(start.checked(Reply::Already), Ok(Reply::Already));
        for (job, reply) in [(start, Reply::Containers(Vec::new())), (Job::List, Reply::Done)] {
            assert!(matches!(job.checked(reply), Err(DockerError::BadAnswer(_))), "{job:?}");
        }
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
