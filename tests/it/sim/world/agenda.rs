//! Jobs that are due at a known time.

use super::*;

/// Jobs by their time, in the order in which they were put there.
#[derive(Default)]
pub(super) struct Agenda {
    jobs: BTreeMap<(Mono, u64), Job>,
    next: u64,
}

impl Agenda {
    pub(super) fn put(&mut self, at: Mono, job: Job) {
        self.jobs.insert((at, self.next), job);
        self.next += 1;
    }

    /// When the first job is due.
    pub(super) fn next_due(&self) -> Option<Mono> {
        self.jobs.keys().next().map(|(at, _)| *at)
    }

    /// Takes the first job.
    pub(super) fn pop(&mut self) -> Option<Job> {
        self.jobs.pop_first().map(|(_, job)| job)
    }

    /// Of the jobs that are calls, keeps only those for which this returns true.
    pub(super) fn retain_calls(&mut self, mut stays: impl FnMut() -> bool) {
        self.jobs.retain(|_, job| !job.is_a_call() || stays());
    }
}

/// A job that is due at a known time.
pub(super) enum Job {
    /// A call reaches the engine.
    Arrive {
        generation: u64,
        key: PodKey,
        token: Token,
        call: Call,
    },
    /// The answer reaches the worker.
    Answer {
        generation: u64,
        key: PodKey,
        token: Token,
        answer: Box<Result<Reply, DockerError>>,
    },
    PullEnds {
        generation: u64,
        key: PodKey,
        request: PullRequest,
    },
    /// The worker's own deadline.
    Wake {
        generation: u64,
        key: PodKey,
    },
    /// A worker's order about volumes is carried out.
    Volumes {
        generation: u64,
        key: PodKey,
        order: Order,
    },
    /// A worker's order about a network is carried out, or its second half.
    Network {
        generation: u64,
        key: PodKey,
        order: NetworkOrder,
    },
    /// The worker reads its mailbox.
    Read {
        generation: u64,
        key: PodKey,
    },
    Tick {
        generation: u64,
    },
    /// The event thread connects, lists, or polls its stream.
    Stream {
        generation: u64,
    },
    Scan {
        generation: u64,
    },
    /// A probe may be due.
    ProbeDue {
        generation: u64,
    },
    Probed {
        generation: u64,
        probe: ProbeId,
        outcome: Outcome,
    },
    /// A task of the node's keeper; its calls reach the engine even if its daemon is dead.
    Keep {
        generation: u64,
        deed: node::Deed,
    },
    /// A task of the threads that speak with the API server, or of the wire.
    Cluster {
        generation: u64,
        deed: cluster::Deed,
    },
    /// A task of the two sources of [`Hub`].
    Hub {
        generation: u64,
        deed: Deed,
    },
}

impl Job {
    /// Whether it is on its way to the engine, or to the server.
    pub(super) fn is_a_call(&self) -> bool {
        match self {
            Job::Arrive { .. } | Job::Keep { deed: node::Deed::Ask(_), .. } => true,
            Job::Cluster { deed, .. } => deed.is_a_call(),
            _ => false,
        }
    }
}

/// See [`Hub`].
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    /// The file source looks.
    Look,
    /// The URL source sends a request.
    Ask,
    /// The server has answered.
    Answered,
    /// The server's head start is over.
    HeadStart,
}
