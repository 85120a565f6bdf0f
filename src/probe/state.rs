//! The counting of one probe of one container instance (upstream `pkg/kubelet/prober/worker.go`). Pure. A new
//! run of a container has a new [`Tracker`], so no count survives a restart (upstream keeps the last run of
//! results, so that a new instance may fail below its threshold).

use super::outcome::Outcome;
use super::spec::{Kind, Timing};
use crate::base::limits;
use crate::plan::ProbeVerdict;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracker {
    kind: Kind,
    adopted: bool,
    stored: Option<ProbeVerdict>,
    last: Option<ProbeVerdict>,
    run: u32,
    errors: u32,
    held: bool,
}

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// The attempt itself failed: repeat it immediately.
    TryAgain,
    /// The attempt itself failed several times in a row: the next one comes at its regular time.
    ThrownAway,
    /// It counts. `Some`: the stored result has changed.
    Counted(Option<ProbeVerdict>),
}

impl Tracker {
    /// The initial results (upstream `pkg/kubelet/prober/worker.go`). A container that ran before the daemon
    /// started counts as ready.
    #[must_use]
    pub fn new(kind: Kind, adopted: bool) -> Tracker {
        let stored = match kind {
            Kind::Startup => None,
            Kind::Readiness if adopted => Some(ProbeVerdict::Success),
            Kind::Readiness => Some(ProbeVerdict::Failure),
            Kind::Liveness => Some(ProbeVerdict::Success),
        };
        Tracker { kind, adopted, stored, last: None, run: 0, errors: 0, held: false }
    }

    /// The stored result; `None` before the first one of a startup probe.
    #[must_use]
    pub fn stored(&self) -> Option<ProbeVerdict> {
        self.stored
    }

    /// Whether this container is no longer probed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Takes the outcome of an attempt.
    pub fn take(&mut self, outcome: &Outcome, timing: &Timing) -> Follow {
        let result = match outcome {
            Outcome::Errored { .. } => {
                self.errors = self.errors.saturating_add(1);
                if self.errors < limits::PROBE_TRIES {
                    return Follow::TryAgain;
                }
                self.errors = 0;
                return Follow::ThrownAway;
            }
            Outcome::Passed | Outcome::Warned(_) => ProbeVerdict::Success,
            Outcome::Failed(_) => ProbeVerdict::Failure,
        };
        self.errors = 0;
        self.run = if self.last == Some(result) { self.run.saturating_add(1) } else { 1 };
        self.last = Some(result);
        let threshold = match result {
            ProbeVerdict::Success => timing.successes,
            ProbeVerdict::Failure => timing.failures,
        };
        if self.run < threshold {
            return Follow::Counted(None);
        }
        // Whether an adopted container had started is unknown, so it is never killed by its startup probe.
        // From here on its liveness probe decides.
        let assumed = self.adopted && self.kind == Kind::Startup;
        let result = if assumed { ProbeVerdict::Success } else { result };
        if self.kind == Kind::Startup || (self.kind == Kind::Liveness && result == ProbeVerdict::Failure) {
            self.held = true;
            self.run = 0;
        }
        let changed = self.stored != Some(result);
        self.stored = Some(result);
        Follow::Counted(changed.then_some(result))
    }
}

#[cfg(test)]
mod tests;
