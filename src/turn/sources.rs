//! What the sources say, as the loop takes it: who is heard, what is told to the operator, and what is
//! older than its source (invariant 2: "I could not read" stops nothing).

use std::sync::Arc;

use super::{Effect, Reading, Turn};
use crate::clock::Now;
use crate::pod::{DesiredPod, Source};
use crate::recorder::{PodEvent, words};
use crate::source::{PodSet, Problem, Refused, Severity, SourceUpdate};

impl Turn {
    /// Every source has said something, if only what it remembers. Before that nobody knows whether a pod that
    /// one of them gives up is another one's by now.
    pub(super) fn all_heard(&self) -> bool {
        self.sources.values().all(|source| source.heard)
    }

    pub(super) fn source(&mut self, source: Source, update: SourceUpdate, now: &Now) {
        // Who is not declared has no say (kubernetes/kubernetes#59275).
        let Some(state) = self.sources.get_mut(&source) else { return };
        let first = !std::mem::replace(&mut state.heard, true);
        // Good news that is no news is not worth writing a status for.
        self.changed |= !matches!(update, SourceUpdate::Same) || state.reading.trouble().is_some();
        match update {
            SourceUpdate::Same => self.read_well(source, now),
            SourceUpdate::Failed(why) => {
                if state.reading.trouble() != Some(&why) {
                    let line = format!("source {source}: {why}; what runs from it stays");
                    state.reading = Reading::Failed(why);
                    self.log(log::Level::Error, line);
                }
            }
            SourceUpdate::Refused { why, problems } => {
                let told = state.reading.trouble() == Some(&why);
                let old =
                    std::mem::replace(&mut state.reading, Reading::Refused(why.clone(), problems.clone()));
                if !told {
                    self.log(
                        log::Level::Error,
                        format!("source {source}: {why}; the last good version stays"),
                    );
                }
                self.tell_new(&problems, old.problems());
            }
            SourceUpdate::Restored(set) => {
                if self.merge.ready(source) {
                    return;
                }
                state.restored = true;
                let line =
                    format!("source {source}: its last good version is restored: {} pods", set.pods.len());
                self.log(log::Level::Info, line);
                self.take(source, &set, now);
                let objects = Arc::clone(self.merge.objects());
                let changes = self.merge.restore(source, &set, now.wall);
                if self.listed {
                    self.apply(changes, now);
                    self.hand_out_objects(&objects);
                }
            }
            SourceUpdate::Full(set) if !self.all_heard() && self.merge.gives_up(source, &set) => {
                _ = self.early.insert(source, set);
            }
            SourceUpdate::Full(set) => {
                let Some(state) = self.sources.get_mut(&source) else { return };
                self.early.remove(&source);
                state.restored = false;
                state.accepted = Some(now.wall);
                self.read_well(source, now);
                self.take(source, &set, now);
                let objects = Arc::clone(self.merge.objects());
                let changes = self.merge.full(source, &set, now.wall);
                if self.listed {
                    self.apply(changes, now);
                    self.hand_out_objects(&objects);
                    self.housekeeping(now);
                }
            }
        }
        if first && self.listed {
            // Whoever waited for this source to say that it knows nothing of them.
            self.housekeeping(now);
        }
        if first && self.all_heard() {
            for (source, set) in std::mem::take(&mut self.early) {
                self.source(source, SourceUpdate::Full(set), now);
            }
        }
    }

    fn read_well(&mut self, source: Source, now: &Now) {
        let Some(state) = self.sources.get_mut(&source) else { return };
        state.last_success = Some(now.wall);
        if std::mem::take(&mut state.reading).trouble().is_some() {
            self.log(log::Level::Info, format!("source {source} can be read again"));
        }
    }

    /// Remembers what a set says beside its pods, and tells what is new of it.
    fn take(&mut self, source: Source, set: &PodSet, now: &Now) {
        let Some(state) = self.sources.get_mut(&source) else { return };
        let problems = std::mem::replace(&mut state.problems, set.problems.clone());
        let refused = std::mem::replace(&mut state.refused, set.refused.clone());
        self.tell_new(&set.problems, &problems);
        for Refused { pod, reason, message } in set.refused.iter().filter(|r| !refused.contains(r)) {
            let kept = set.pods.iter().any(|p| p.key == pod.key);
            let then = if kept { "the version before it stays" } else { "it is not started" };
            let words = words::rejected(reason, &format!("{message} ({}; {then})", pod.origin));
            self.record(PodEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
        }
    }

    /// Logs what is newly wrong with a source's content; what was said before is not repeated.
    fn tell_new(&mut self, problems: &[Problem], old: &[Problem]) {
        for problem in problems.iter().filter(|p| !old.contains(p)) {
            let (level, what) = match problem.severity {
                Severity::Error => (log::Level::Error, "; the last good version stays"),
                Severity::Warning => (log::Level::Warn, ""),
            };
            self.out.push(Effect::Log(level, format!("{problem}{what}")));
        }
    }

    /// The pod in force is not, or may not be, what its source holds now: it came from the store, its file
    /// or answer is not accepted, or its newer version is refused.
    pub(super) fn is_stale(&self, pod: &DesiredPod) -> bool {
        let Some(state) = self.sources.get(&pod.source) else { return false };
        state.restored
            || matches!(state.reading, Reading::Refused(..))
            || state.refused.iter().any(|r| r.pod.key == pod.key)
            || self.merge.is_broken(pod.source, &pod.origin.path)
    }
}
