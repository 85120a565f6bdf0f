//! Reads the rig for tests: calls, containers, statuses, log lines.

use super::*;
use crate::base::table::Set;

impl Rig {
    /// The result of a probe of the present run.
    pub(in crate::machine::tests) fn news(&self, words: &str, kind: Kind, verdict: ProbeVerdict) -> News {
        let id = self.id(words);
        let asked = self.watched.last().and_then(|(_, watch)| watch.targets.iter().find(|t| t.id == id));
        News::Probed { since: asked.map_or(Mono::default(), |t| t.started), id, kind, verdict }
    }

    /// `app#0`, or with another UID than the usual one `uid/app#0`.
    pub(in crate::machine::tests) fn name_of(&mut self, id: &str) -> String {
        if let Some(c) = self.engine.get(id) {
            let words = name_words(&c.name);
            self.wire.names.insert(c.id.clone(), words.clone());
            return words;
        }
        self.wire.names.get(id).cloned().unwrap_or_else(|| name_words(id))
    }

    pub(in crate::machine::tests) fn words(&mut self, call: &Call) -> String {
        match call {
            Call::List { .. } => "list".into(),
            Call::Inspect { id } => format!("inspect {}", self.name_of(id)),
            Call::Create { name, .. } => format!("create {}", name_words(name)),
            Call::Start { id } => format!("start {}", self.name_of(id)),
            Call::Kill { id, signal } => format!("kill {} {signal}", self.name_of(id)),
            Call::Remove { id, force } => {
                format!("remove {}{}", self.name_of(id), if *force { " by force" } else { "" })
            }
            Call::ImageInspect { .. } => "image".into(),
            Call::Update { id, .. } => format!("update {}", self.name_of(id)),
            Call::Rename { id, name } => format!("rename {} {}", self.name_of(id), name_words(name)),
            Call::LogTail { id, lines } => format!("log {} {lines}", self.name_of(id)),
            other => panic!("a worker does not call {other:?}"),
        }
    }

    /// Calls made so far, without looks at images; forgets them.
    pub(in crate::machine::tests) fn take_calls(&mut self) -> Vec<String> {
        let calls = std::mem::take(&mut self.calls);
        calls.into_iter().map(|(_, words)| words).filter(|words| words != "image").collect()
    }

    /// The same, without calls that change nothing.
    pub(in crate::machine::tests) fn take_acts(&mut self) -> Vec<String> {
        let mut calls = self.take_calls();
        calls.retain(|words| !words.starts_with("list") && !words.starts_with("inspect"));
        calls
    }

    /// Times of the calls with these words, in milliseconds.
    pub(in crate::machine::tests) fn times(&self, call: &str) -> Vec<u64> {
        let at = |(at, words): &(Mono, String)| (words == call).then(|| ms_of(*at));
        self.calls.iter().filter_map(at).collect()
    }

    /// Running containers, by name.
    pub(in crate::machine::tests) fn running(&self) -> Set<String> {
        self.in_state(DockerState::Running)
    }

    /// Containers of podkeeper in this state.
    pub(in crate::machine::tests) fn in_state(&self, state: DockerState) -> Set<String> {
        let ours = self.engine.containers().filter(|c| c.body.labels.contains_key(labels::ROOT_DIR));
        ours.filter(|c| c.state == state).map(|c| name_words(&c.name)).collect()
    }

    /// Id of a container by its words.
    pub(in crate::machine::tests) fn id(&self, words: &str) -> String {
        let found = self.engine.containers().find(|c| name_words(&c.name) == words);
        found.unwrap_or_else(|| panic!("no container {words}")).id.clone()
    }

    pub(in crate::machine::tests) fn is(&self, state: &str) -> bool {
        let ours = match self.machine.state() {
            State::Syncing(_) => "syncing",
            State::Terminating { then: None, .. } => "terminating",
            State::Terminating { .. } => "terminating, wanted again",
            State::New => "new",
            State::Terminated => "terminated",
        };
        ours == state
    }

    /// The last reported status: phase, and the state of each container in words.
    pub(in crate::machine::tests) fn status(&self) -> String {
        let last = self.reports.iter().rev().find_map(|r| match r {
            Report::Status { status, .. } => Some(status),
            _ => None,
        });
        let Some(status) = last else { return "none".into() };
        let mut words = status.phase.clone().unwrap_or_default();
        for c in status.container_statuses.iter().flatten() {
            let state = c.state.as_ref().unwrap();
            let state = match (&state.running, &state.waiting, &state.terminated) {
                (Some(_), _, _) => "running".into(),
                (_, Some(w), _) => w.reason.clone().unwrap_or_default(),
                (_, _, Some(t)) => format!("ended {}", t.exit_code),
                _ => "?".into(),
            };
            words += &format!(", {}: {state}", c.name);
        }
        words
    }

    /// The last reported status.
    pub(in crate::machine::tests) fn last_status(&self) -> PodStatus {
        let last = self.reports.iter().rev().find_map(|r| match r {
            Report::Status { status, .. } => Some(PodStatus::clone(status)),
            _ => None,
        });
        last.expect("a status")
    }

    /// The waiting message of a container in the last status.
    pub(in crate::machine::tests) fn waits(&self, container: &str) -> String {
        let last = self.reports.iter().rev().find_map(|r| match r {
            Report::Status { status, .. } => Some(status),
            _ => None,
        });
        let found =
            last.iter().flat_map(|s| s.container_statuses.iter().flatten()).find(|c| c.name == container);
        let waiting = found.and_then(|c| c.state.as_ref()?.waiting.as_ref());
        waiting.map_or(String::new(), |w| {
            format!("{}: {}", w.reason.as_deref().unwrap_or(""), w.message.as_deref().unwrap_or(""))
        })
    }

    /// Log lines of at least this level.
    pub(in crate::machine::tests) fn logged(&self, level: Level) -> Vec<&str> {
        self.log.iter().filter(|(_, l, _)| *l <= level).map(|(_, _, line)| line.as_str()).collect()
    }

    /// Starts the pod from nothing: sandbox and `app` run.
    pub(in crate::machine::tests) fn up(pod: &Arc<DesiredPod>) -> Rig {
        let mut rig = Rig::fresh();
        rig.run(pod);
        rig.pass(s(5));
        rig
    }
}
