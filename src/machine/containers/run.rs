//! What belongs to one run of a container. It is replaced as a whole when the same container runs again: somebody
//! started it by hand, and nothing that was said of the run before counts for this one.

use crate::base::clock::{Mono, Timestamp};
use crate::base::table::Table;
use crate::machine::running::hooks::Hook;
use crate::machine::running::messages::Message;
use crate::machine::stop::Stop;
use crate::plan::{ProbeVerdict, RunState};
use crate::probe::{HookKind, Kind};

/// Everything known of one run that Docker does not say. Of a container that was only made: of the run to come.
#[derive(Debug, Default)]
pub(in crate::machine) struct Run {
    /// When Docker says it began, by which two runs are told apart; `None` until that is known.
    began: Option<Timestamp>,
    /// It went on already when the daemon began.
    pub adopted: bool,
    /// The kernel killed a process of it for want of memory.
    pub out_of_memory: bool,
    /// What its probes said last, in [`Kind::ALL`]'s order.
    pub verdicts: [Option<ProbeVerdict>; 3],
    /// When this daemon started it; before the answer, when it asked for that.
    pub started: Option<Mono>,
    /// When its probes first saw it: what they say comes with that, for it may be of the run before.
    pub probed_since: Option<Mono>,
    /// How far its stop got.
    pub stop: Option<Box<Stop>>,
    /// How far its hooks are.
    pub hooks: Table<HookKind, Hook>,
    /// What is known of its termination message.
    pub message: Option<Message>,
}

impl Run {
    /// What Docker says now is of another run.
    pub fn is_another(&self, state: &RunState) -> bool {
        self.began.zip(began(state)).is_some_and(|(ours, now)| ours != now)
    }

    /// Docker says this of the container now.
    pub(super) fn goes_on_as(&mut self, state: &RunState) {
        if self.is_another(state) {
            *self = Run::default();
        }
        self.began = self.began.or(began(state));
    }

    /// What a probe of this kind said last.
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
