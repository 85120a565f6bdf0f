//! The outputs of a step, in order, and the time of the next one.

use log::Level;

use crate::base::clock::Mono;
use crate::machine::{Output, Step};

/// The result of a step while it grows.
#[derive(Debug, Default)]
pub(in crate::machine) struct Out {
    all: Vec<Output>,
    wake: Option<Mono>,
}

impl Out {
    /// Starts a step: outputs between two steps stay, and the wake-up is decided anew.
    pub fn begin(&mut self) {
        self.wake = None;
    }

    /// Adds an output.
    pub fn push(&mut self, output: Output) {
        self.all.push(output);
    }

    /// Adds a log line for the operator.
    pub fn log(&mut self, level: Level, line: String) {
        self.push(Output::Log(level, line));
    }

    /// Asks for a step at this time; the earliest of several counts.
    pub fn wake_at(&mut self, at: Mono) {
        self.wake = Some(self.wake.map_or(at, |old| old.min(at)));
    }

    /// Ends the step.
    pub fn take(&mut self) -> Step {
        Step { out: std::mem::take(&mut self.all), wake: self.wake }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_earliest_wake_up_counts_and_each_step_decides_its_own() {
        let at = |seconds| Mono(Duration::from_secs(seconds));
        let mut out = Out::default();
        out.push(Output::Network);
        out.begin();
        for seconds in [5, 3, 9] {
            out.wake_at(at(seconds));
        }
        assert_eq!(out.take(), Step { out: vec![Output::Network], wake: Some(at(3)) });
        out.begin();
        assert_eq!(out.take(), Step::default());
    }
}
