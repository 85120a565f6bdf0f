//! Reports of the sources: the order in which they are handled, log lines, and which pods are stale
//! (invariant 2: "I could not read" stops no pod).

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Turn;
use super::early::GivesUp;
use crate::base::clock::{Now, Timestamp};
use crate::base::human::{self, many};
use crate::base::order;
use crate::base::table::Set;
use crate::cluster::node::heart::Trouble;
use crate::merge::Change;
use crate::pod::object::Scopes;
use crate::pod::placement::NodeAtServer;
use crate::pod::problem::{Problem, Refused, Severity};
use crate::pod::{DesiredPod, Source};
use crate::recorder::{ObjectEvent, words};
use crate::source::{PodSet, SourceUpdate, Waiting};

/// State of one declared source, apart from the merge's.
#[derive(Debug, Default)]
pub(super) struct SourceState {
    pub(super) reading: Reading,
    /// The source has reported since the daemon started; restored content counts.
    pub(super) heard: bool,
    /// Problems of the content in force.
    pub(super) problems: Vec<Problem>,
    /// When it was last read successfully, wall time: only shown.
    pub(super) last_success: Option<Timestamp>,
    pub(super) content: Content,
    /// Its content is not whole yet.
    pub(super) is_partial: bool,
    /// Pods that the policy refuses.
    pub(super) refused: Vec<Refusal>,
    /// Pods that it does not give yet.
    waiting: Vec<Waiting>,
    /// Why its content could not be stored completely.
    pub(super) store: Option<String>,
    /// Why the source's API server does not hear of this node.
    pub(super) unheard: Option<Unheard>,
    /// The node as the source's API server has it.
    pub(super) node: Option<NodeAtServer>,
}

/// Why an API server does not hear of this node.
#[derive(Debug)]
pub(super) struct Unheard {
    trouble: Trouble,
    /// Since when there is a trouble, wall time: only shown.
    since: Timestamp,
}

impl SourceState {
    /// Why the source's server does not hear of this node: whether it has answered, and the words.
    pub(super) fn unheard(&self) -> Option<(bool, String)> {
        let Unheard { trouble, since } = self.unheard.as_ref()?;
        let since = human::date(Some(&Time(*since)));
        let words = format!("the API server does not hear of this node since {since}: {}", trouble.why);
        Some((trouble.is_answer, words))
    }
}

/// A pod that the policy refuses.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) refused: Refused,
    /// When this pod was first refused, wall time: only shown.
    pub(super) since: Timestamp,
}

/// Where the content in force comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Content {
    /// There is none yet.
    #[default]
    None,
    /// From the store; no content was accepted since the daemon started.
    Remembered,
    /// From the source; when it was accepted, wall time: only shown.
    Accepted(Timestamp),
    /// The accepted content was forgotten by the operator's command, and no content was accepted since.
    Forgotten,
}

impl Content {
    /// When it was accepted, wall time.
    pub(super) fn accepted(self) -> Option<Timestamp> {
        match self {
            Content::Accepted(at) => Some(at),
            Content::None | Content::Remembered | Content::Forgotten => None,
        }
    }
}

/// Result of the last reading of a source.
#[derive(Debug, Default)]
pub(super) enum Reading {
    /// The content was accepted, or the source was not read yet.
    #[default]
    Fine,
    /// The source could not be read.
    Failed(String),
    /// The content was read but not accepted: the content in force is older.
    Refused(String, Vec<Problem>),
}

impl Reading {
    pub(super) fn trouble(&self) -> Option<&str> {
        match self {
            Reading::Fine => None,
            Reading::Failed(why) | Reading::Refused(why, _) => Some(why),
        }
    }

    pub(super) fn problems(&self) -> &[Problem] {
        match self {
            Reading::Refused(_, problems) => problems,
            Reading::Fine | Reading::Failed(_) => &[],
        }
    }
}

impl Turn {
    /// Whether every source has reported; restored content counts. Before that, a pod that one source gives
    /// up may belong to another source.
    pub(super) fn all_heard(&self) -> bool {
        self.sources.values().all(|source| source.heard)
    }

    /// Handles one report.
    pub(super) fn update(&mut self, source: Source, update: SourceUpdate, now: &Now) {
        // A source that is not declared is ignored (kubernetes/kubernetes#59275).
        let Some(state) = self.sources.get_mut(&source) else { return };
        let first = match &update {
            // This report contains no pods.
            SourceUpdate::Store(_) => false,
            _ => !std::mem::replace(&mut state.heard, true),
        };
        // An update that changes nothing in the status does not cause a new status file.
        self.changed |= match &update {
            SourceUpdate::Store(trouble) => state.store != *trouble,
            SourceUpdate::Same => state.reading.trouble().is_some(),
            _ => true,
        };
        match update {
            // The store itself writes the log line.
            SourceUpdate::Store(trouble) => state.store = trouble,
            SourceUpdate::Same => self.read_well(source, now),
            SourceUpdate::Failed(why) => self.failed(source, why, now),
            SourceUpdate::Refused { why, problems } => self.content_refused(source, why, problems),
            SourceUpdate::Restored(set) | SourceUpdate::Remembered(set) => self.restored(source, &set, now),
            SourceUpdate::Full(set) if self.is_early(source, &set) => {
                _ = self.early.contents.insert(source, GivesUp::Full(set));
            }
            SourceUpdate::Full(set) => self.full(source, &set, now),
            SourceUpdate::Forgotten if self.is_early(source, &PodSet::default()) => {
                _ = self.early.contents.insert(source, GivesUp::Forgotten);
            }
            SourceUpdate::Forgotten => self.forgotten(source, now),
        }
        if first {
            self.early.remembered.remove(&source);
            self.heard(source, now);
        }
        if first && self.docker.listed {
            // Orphans may have waited for this source's first report.
            self.housekeeping();
        }
        if first && self.all_heard() {
            self.put_contents_in_force(now);
            self.forget_rooms_of_untold();
        }
    }

    /// Whether a set gives up pods while another source may still want them.
    fn is_early(&self, source: Source, set: &PodSet) -> bool {
        !self.all_heard() && !self.early.is_over && self.merge.gives_up(source, set)
    }

    fn failed(&mut self, source: Source, why: String, now: &Now) {
        let Some(state) = self.sources.get_mut(&source) else { return };
        if state.reading.trouble() == Some(why.as_str()) {
            return;
        }
        // A directory or a server that stays the same is watched and not read, so its last reading may be long ago.
        let is_watched = source != Source::Http && state.unheard.is_none();
        if is_watched && state.last_success.is_some() && state.reading.trouble().is_none() {
            state.last_success = Some(now.wall);
        }
        let then = if state.content == Content::Forgotten {
            "nothing runs from it until it can be read"
        } else {
            "what runs from it stays"
        };
        let line = format!("source {source}: {why}; {then}");
        state.reading = Reading::Failed(why);
        self.log(log::Level::Error, line);
    }

    /// Takes why the API server does not hear of this node; `None`: it does again. The heartbeat logs it.
    pub(super) fn unheard(&mut self, trouble: Option<Trouble>, now: &Now) {
        let Some(state) = self.sources.get_mut(&Source::Api) else { return };
        let is_away = trouble.as_ref().is_some_and(|trouble| !trouble.is_answer);
        let was_away = state.unheard.as_ref().is_some_and(|unheard| !unheard.trouble.is_answer);
        if is_away && !was_away && state.last_success.is_some() && state.reading.trouble().is_none() {
            // Its watch was well until then.
            state.last_success = Some(now.wall);
        }
        let since = state.unheard.as_ref().map_or(now.wall, |unheard| unheard.since);
        state.unheard = trouble.map(|trouble| Unheard { trouble, since });
        self.changed = true;
    }

    fn content_refused(&mut self, source: Source, why: String, problems: Vec<Problem>) {
        let Some(state) = self.sources.get_mut(&source) else { return };
        let told = state.reading.trouble() == Some(why.as_str());
        let mut new = new_of(&problems, state.reading.problems());
        let line = format!("source {source}: {why}");
        // The source's own line names the first of them.
        new.retain(|problem| !line.contains(&problem.to_string()));
        state.reading = Reading::Refused(why, problems);
        if !told {
            let then = what_stays(self.merge.claims(source) > 0);
            self.log(log::Level::Error, line + then);
        }
        self.log_problems(&new, |turn, _| turn.merge.claims(source) > 0);
    }

    /// Puts restored content in force, until the source itself is read.
    fn restored(&mut self, source: Source, set: &PodSet, now: &Now) {
        let is_restored = |state: &SourceState| state.content == Content::Remembered;
        if self.merge.ready(source) || self.sources.get(&source).is_some_and(is_restored) {
            return;
        }
        if let Some(state) = self.sources.get_mut(&source) {
            state.content = Content::Remembered;
        }
        let line =
            format!("source {source}: its last good version is restored: {}", many(set.pods.len(), "pod"));
        self.log(log::Level::Info, line);
        let new = self.take_over(source, set, now);
        let objects = Arc::clone(self.merge.objects());
        let changes = self.merge.change().restore(source, set, now.wall);
        self.log_problems(&new, |turn, path| turn.merge.has_of(source, path));
        self.put_in_force(changes, &objects, now);
    }

    pub(super) fn full(&mut self, source: Source, set: &PodSet, now: &Now) {
        self.early.contents.remove(&source);
        if let Some(state) = self.sources.get_mut(&source) {
            state.content = Content::Accepted(now.wall);
            state.is_partial = set.is_partial;
        }
        self.read_well(source, now);
        self.replace(source, set, now);
    }

    /// The operator has asked for this, so the source's pods are stopped although the source itself has not given
    /// them up.
    pub(super) fn forgotten(&mut self, source: Source, now: &Now) {
        self.early.contents.remove(&source);
        let Some(state) = self.sources.get_mut(&source) else { return };
        state.content = Content::Forgotten;
        let line = format!(
            "source {source}: what was accepted of it is forgotten, as the operator asked, and nothing good is read of \
             it now: its pods stop"
        );
        self.log(log::Level::Warn, line);
        self.replace(source, &PodSet::default(), now);
    }

    /// Why pods that this source no longer wants are stopped.
    pub(super) fn why_gone(&self, source: Source) -> &'static str {
        match self.sources.get(&source) {
            Some(state) if state.content == Content::Forgotten => {
                "its manifest was forgotten, as the operator asked"
            }
            _ => "its manifest is gone",
        }
    }

    /// Puts a whole set of a source in force.
    fn replace(&mut self, source: Source, set: &PodSet, now: &Now) {
        let new = self.take_over(source, set, now);
        let objects = Arc::clone(self.merge.objects());
        let changes = self.merge.change().full(source, set, now.wall);
        self.log_problems(&new, |turn, path| turn.merge.has_of(source, path));
        self.put_in_force(changes, &objects, now);
        if self.docker.listed {
            self.housekeeping();
        }
    }

    /// Before Docker's first list, the running pods are unknown; that list then starts the wanted pods.
    pub(super) fn put_in_force(&mut self, changes: Vec<Change>, objects_before: &Arc<Scopes>, now: &Now) {
        if self.docker.listed {
            self.tell_refused();
            self.go_on_with_told_stops();
            self.apply(changes, now);
            self.send_changed_objects(objects_before);
            return;
        }
        for pod in changes.into_iter().flat_map(|change| change.pods) {
            if pod.metadata.deletion_timestamp.is_some() {
                self.docker.deleted.insert(pod.key.clone(), pod);
            }
        }
    }

    /// Logs, once, the manifests that are not used: those over a bound, and those whose name another manifest holds.
    pub(super) fn tell_refused(&mut self) {
        let mut refused = self.merge.problems();
        refused.retain(|problem| problem.severity == Severity::Error);
        for problem in new_of(&refused, &self.logged.refused) {
            self.log(log::Level::Error, problem.to_string());
        }
        self.logged.refused = refused;
    }

    /// Shown with every source: the first claim of a pod of any source may depend on it.
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
    fn take_over(&mut self, source: Source, set: &PodSet, now: &Now) -> Vec<Problem> {
        let Some(state) = self.sources.get_mut(&source) else { return Vec::new() };
        state.node.clone_from(&set.node);
        let waited = std::mem::replace(&mut state.waiting, set.waiting.clone());
        let problems = std::mem::replace(&mut state.problems, set.problems.clone());
        let before = std::mem::take(&mut state.refused);
        let is = |refused: &Refused, other: &Refused| {
            refused.pod.key == other.pod.key && refused.pod.uid == other.pod.uid
        };
        let since =
            |refused: &Refused| before.iter().find(|b| is(&b.refused, refused)).map_or(now.wall, |b| b.since);
        state.refused = set.refused.iter().map(|r| Refusal { refused: r.clone(), since: since(r) }).collect();
        let both = before.iter().map(|it| &it.refused).chain(&set.refused);
        self.waiting.refused.extend(both.map(|it| it.pod.key.clone()));
        let new = new_of(&set.problems, &problems);
        for path in mended(&problems, &set.problems) {
            self.log(log::Level::Info, format!("{path}: its errors are gone"));
        }
        // Lines that are added above a pod are no news of it.
        let says = |it: &Refused, other: &Refused| {
            it.pod == other.pod && it.reason == other.reason && it.message == other.message
        };
        for Waiting { key, uid, why } in set.waiting.iter().filter(|it| !waited.contains(it)) {
            self.record(ObjectEvent::new(key.clone(), uid.clone(), None, words::sync_failed(why)), now);
        }
        let is_new = |refused: &&Refused| !before.iter().any(|b| says(&b.refused, refused));
        let is_others =
            |refused: &&Refused| self.merge.get(&refused.pod.key).is_some_and(|held| held.source != source);
        // The events of a pod of this name are those of the other source's.
        let told: Vec<Refused> =
            set.refused.iter().filter(is_new).filter(|it| !is_others(it)).cloned().collect();
        for Refused { pod, at, reason, message } in &told {
            let kept = set.pods.iter().any(|p| p.key == pod.key);
            let then = if kept { "the version before it stays" } else { "it is not started" };
            let place = match at {
                Some((line, column)) => format!("{}:{line}:{column}", pod.origin.path),
                None => pod.origin.to_string(),
            };
            let words = words::rejected(reason, &format!("{message} ({place}; {then})"));
            self.record(ObjectEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
        }
        new
    }

    /// Logs problems of a source's content and their consequence: `stays` tells whether a good version of
    /// a path is in force.
    fn log_problems(&mut self, problems: &[Problem], stays: impl Fn(&Turn, &str) -> bool) {
        for problem in problems {
            let (level, then) = match problem.severity {
                Severity::Error => (log::Level::Error, what_stays(stays(self, &problem.path))),
                Severity::Warning => (log::Level::Warn, ""),
            };
            self.log(level, format!("{problem}{then}"));
        }
    }

    /// Whether the pod in force may differ from the source's current content: it came from the store, its
    /// file or answer is not accepted, or its newer version is refused.
    pub(super) fn is_stale(&self, pod: &DesiredPod) -> bool {
        let Some(state) = self.sources.get(&pod.source) else { return false };
        state.content == Content::Remembered
            || matches!(state.reading, Reading::Refused(..))
            || state.refused.iter().any(|r| r.refused.pod.key == pod.key)
            || self.merge.is_broken(pod.source, &pod.origin.path)
    }
}

/// The problems that are missing in `old`.
fn new_of(problems: &[Problem], old: &[Problem]) -> Vec<Problem> {
    problems.iter().filter(|p| !old.contains(p)).cloned().collect()
}

/// The paths that had errors and have none any more.
fn mended<'a>(old: &'a [Problem], new: &[Problem]) -> Set<&'a str> {
    let errors = |of: &'a [Problem]| of.iter().filter(|p| p.severity == Severity::Error);
    let has = |path: &str| new.iter().any(|p| p.severity == Severity::Error && p.path == path);
    order::set(errors(old).map(|p| p.path.as_str()).filter(|path| !has(path)))
}

/// The consequence of content that is not accepted.
fn what_stays(something: bool) -> &'static str {
    if something {
        "; the last good version stays"
    } else {
        "; no good version of it is known: nothing is started from it"
    }
}
