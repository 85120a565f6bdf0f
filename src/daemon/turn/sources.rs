//! Reports of the sources: in which order they are handled, what is logged, and which pods are stale
//! (invariant 2: "I could not read" stops no pod).

use std::sync::Arc;

use super::due::Due;
use super::{Reading, Turn};
use crate::base::clock::Now;
use crate::base::limits;
use crate::pod::problem::Problem;
use crate::pod::problem::Refused;
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, Source};
use crate::recorder::{PodEvent, words};
use crate::source::{FromSource, PodSet, SourceUpdate};

impl Turn {
    /// Every source has reported, if only remembered content. Before that a pod that one source gives up may
    /// belong to another source.
    pub(super) fn all_heard(&self) -> bool {
        self.sources.values().all(|source| source.heard)
    }

    /// Handles a source's report when it is its turn. A pod in two sources must be started from the one that
    /// holds it in the end, so the first report of preceding sources is waited for, up to
    /// `limits::SOURCE_HEAD_START`.
    pub(super) fn hear(&mut self, from: FromSource, now: &Now) {
        let until = *self.parked_until.get_or_insert(now.mono.after(limits::SOURCE_HEAD_START));
        if now.mono < until && !self.precede(from.source) {
            self.due.push(until, Due::Sources);
            self.parked.push(from);
            return;
        }
        self.source(from.source, from.update, now);
        self.unpark(now);
    }

    /// Every source before this one was heard.
    fn precede(&self, source: Source) -> bool {
        self.sources.iter().all(|(other, state)| *other >= source || state.heard)
    }

    /// Handles the parked reports whose turn has come.
    pub(super) fn unpark(&mut self, now: &Now) {
        let over = self.parked_until.is_some_and(|until| until <= now.mono);
        let parked = std::mem::take(&mut self.parked);
        for from in parked {
            if over || self.precede(from.source) {
                self.source(from.source, from.update, now);
            } else {
                self.parked.push(from);
            }
        }
    }

    pub(super) fn source(&mut self, source: Source, update: SourceUpdate, now: &Now) {
        // A source that is not declared is ignored (kubernetes/kubernetes#59275).
        let Some(state) = self.sources.get_mut(&source) else { return };
        if let SourceUpdate::Store(trouble) = update {
            // The store itself writes the log line.
            self.changed |= state.store != trouble;
            state.store = trouble;
            return;
        }
        let first = !std::mem::replace(&mut state.heard, true);
        // The same content after a good reading changes nothing in the status, which is not written then.
        self.changed |= !matches!(update, SourceUpdate::Same) || state.reading.trouble().is_some();
        match update {
            SourceUpdate::Store(_) => {}
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
                    let then = what_stays(self.merge.claims(source) > 0);
                    self.log(log::Level::Error, format!("source {source}: {why}{then}"));
                }
                let new = new_of(&problems, old.problems());
                self.tell(&new, |turn, _| turn.merge.claims(source) > 0);
            }
            SourceUpdate::Restored(set) => {
                if self.merge.ready(source) {
                    return;
                }
                state.restored = true;
                let line =
                    format!("source {source}: its last good version is restored: {} pods", set.pods.len());
                self.log(log::Level::Info, line);
                let new = self.take(source, &set, now);
                let objects = Arc::clone(self.merge.objects());
                let changes = self.merge.restore(source, &set, now.wall);
                self.tell(&new, |turn, path| turn.merge.has_of(source, path));
                if self.listed {
                    self.apply(changes, now);
                    self.send_changed_objects(&objects);
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
                let new = self.take(source, &set, now);
                let objects = Arc::clone(self.merge.objects());
                let crowded = self.merge.crowded(source);
                let changes = self.merge.full(source, &set, now.wall);
                self.tell(&new, |turn, path| turn.merge.has_of(source, path));
                for problem in new_of(&self.merge.crowded(source), &crowded) {
                    self.log(log::Level::Error, problem.to_string());
                }
                if self.listed {
                    self.apply(changes, now);
                    self.send_changed_objects(&objects);
                    self.housekeeping(now);
                }
            }
        }
        if first && self.listed {
            // Orphans may have waited for this source's first report.
            self.housekeeping(now);
        }
        if first && self.all_heard() {
            for (source, set) in std::mem::take(&mut self.early) {
                self.source(source, SourceUpdate::Full(set), now);
            }
        }
    }

    /// Shown with every source: the first claim of a pod of any source may wait for it.
    pub(super) fn claims_told(&mut self, trouble: Option<String>) {
        self.changed = true;
        match &trouble {
            Some(why) => self.log(log::Level::Error, why.clone()),
            None => self.log(log::Level::Info, "all claims are where they belong".to_owned()),
        }
        self.claims = trouble;
    }

    fn read_well(&mut self, source: Source, now: &Now) {
        let Some(state) = self.sources.get_mut(&source) else { return };
        state.last_success = Some(now.wall);
        if std::mem::take(&mut state.reading).trouble().is_some() {
            self.log(log::Level::Info, format!("source {source} can be read again"));
        }
    }

    /// Takes over the problems and refused pods of a set, and records newly refused pods. Returns the new
    /// problems.
    fn take(&mut self, source: Source, set: &PodSet, now: &Now) -> Vec<Problem> {
        let Some(state) = self.sources.get_mut(&source) else { return Vec::new() };
        let problems = std::mem::replace(&mut state.problems, set.problems.clone());
        let refused = std::mem::replace(&mut state.refused, set.refused.clone());
        let new = new_of(&set.problems, &problems);
        for Refused { pod, reason, message } in set.refused.iter().filter(|r| !refused.contains(r)) {
            let kept = set.pods.iter().any(|p| p.key == pod.key);
            let then = if kept { "the version before it stays" } else { "it is not started" };
            let words = words::rejected(reason, &format!("{message} ({}; {then})", pod.origin));
            self.record(PodEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
        }
        new
    }

    /// Logs problems of a source's content and their consequence: `stays` says whether a good version of a
    /// path is in force.
    fn tell(&mut self, problems: &[Problem], stays: impl Fn(&Turn, &str) -> bool) {
        for problem in problems {
            let (level, then) = match problem.severity {
                Severity::Error => (log::Level::Error, what_stays(stays(self, &problem.path))),
                Severity::Warning => (log::Level::Warn, ""),
            };
            self.log(level, format!("{problem}{then}"));
        }
    }

    /// The pod in force may differ from what its source holds now: it came from the store, its file or answer
    /// is not accepted, or its newer version is refused.
    pub(super) fn is_stale(&self, pod: &DesiredPod) -> bool {
        let Some(state) = self.sources.get(&pod.source) else { return false };
        state.restored
            || matches!(state.reading, Reading::Refused(..))
            || state.refused.iter().any(|r| r.pod.key == pod.key)
            || self.merge.is_broken(pod.source, &pod.origin.path)
    }
}

/// The problems that are not in `old`.
fn new_of(problems: &[Problem], old: &[Problem]) -> Vec<Problem> {
    problems.iter().filter(|p| !old.contains(p)).cloned().collect()
}

/// The consequence of content that is not accepted.
fn what_stays(something: bool) -> &'static str {
    if something {
        "; the last good version stays"
    } else {
        "; no good version of it is known: nothing is started from it"
    }
}
