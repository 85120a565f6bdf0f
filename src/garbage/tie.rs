//! The tie between a run of the collector and the keeper that has ordered it: the keeper can ask the run to end early, and
//! sees whether the run still gets on.
//!
//! Never here: a lock, or a decision.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct Tie {
    gives_way: AtomicBool,
    steps: AtomicU64,
}

impl Tie {
    /// Has the run begin no further removal, because a more urgent run follows.
    pub fn give_way(&self) {
        self.gives_way.store(true, Ordering::Relaxed);
    }

    /// Whether the run is to begin no further removal.
    #[must_use]
    pub fn gives_way(&self) -> bool {
        self.gives_way.load(Ordering::Relaxed)
    }

    /// Notes that the run has got on: Docker has answered, or a file is removed.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that grows with each step.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}
