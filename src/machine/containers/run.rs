//! Facts about one run of a container. They are replaced as a whole when the same container runs again: somebody has
//! started it by hand, and facts about the run before do not count for the new one.

use crate::base::clock::{Mono, Timestamp};
use crate::base::table::Table;
use crate::machine::running::hooks::Hook;
use crate::machine::running::messages::Message;
use crate::machine::stop::Stop;
use crate::plan::{ProbeVerdict, RunState};
use crate::probe::{HookKind, Kind};

/// Everything known about one run that Docker does not show; of a container that was only made, about the run to come.
#[derive(Debug, Default)]
pub(in crate::machine) struct Run {
    /// Docker's time of the start, which tells two runs apart; `None` until it is known.
    began: Option<Timestamp>,
    /// It was running when the daemon started.
    pub adopted: bool,
    /// The kernel killed a process of it for lack of memory.
    pub out_of_memory: bool,
    /// Last results of its probes, in [`Kind::ALL`]'s order.
    pub verdicts: [Option<ProbeVerdict>; 3],
    /// When this daemon started it: the time of the request, until the answer comes.
    pub started: Option<Mono>,
    /// When its probes first saw it. Results carry this time, because they may be of the run before.
    pub probed_since: Option<Mono>,
    /// Progress of its stop.
    pub stop: Option<Box<Stop>>,
    /// It is stopped to run again.
    pub again: bool,
    /// Docker has taken a signal for it, or may have.
    pub is_signalled: bool,
    /// Its preStop hook has begun.
    pub has_pre_stop: bool,
    /// When that was, or when the first signal was sent to end it, wall time.
    pub first_told: Option<Timestamp>,
    /// Progress of its hooks.
    pub hooks: Table<HookKind, Hook>,
    /// Progress of its termination message.
    pub message: Option<Message>,
}

impl Run {
    /// Whether it may have been told to end: by a signal, or by its preStop hook.
    pub fn is_told_to_end(&self) -> bool {
        self.is_signalled || self.hooks.get(&HookKind::PreStop).is_some()
    }

    /// Whether Docker's present state is of another run.
    pub fn is_another(&self, state: &RunState) -> bool {
        self.began.zip(began(state)).is_some_and(|(ours, now)| ours != now)
    }

    /// Takes Docker's present state of the container.
    pub(super) fn goes_on_as(&mut self, state: &RunState) {
        if self.is_another(state) {
            *self = Run::default();
        }
        self.began = self.began.or(began(state));
    }

    /// The last result of the probe of this kind.
    pub fn verdict(&mut self, kind: Kind) -> &mut Option<ProbeVerdict> {
        let [startup, readiness, liveness] = &mut self.verdicts;
        match kind {
            Kind::Startup => startup,
            Kind::Readiness => readiness,
            Kind::Liveness => liveness,
        }
    }
}

fn began(state: &RunState) -> Option<Timestamp> {
    match state {
        RunState::Running { started } => *started,
        RunState::Exited(exit) if !exit.cannot_run => exit.started,
        RunState::Exited(_) | RunState::Created | RunState::Removing => None,
    }
}
