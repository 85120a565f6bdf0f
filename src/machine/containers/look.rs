//! How a machine finds out what exists: one list when it knows nothing, single inspects after hints. An inspect never
//! runs beside a call that changes the same container. `merge` takes the results.

use crate::base::clock::{Mono, Now};
use crate::base::table::Table;
use crate::machine::Machine;
use crate::machine::calls::{Job, Retry};
use crate::machine::containers::merge::mark_out_of_memory;
use crate::machine::containers::{Look, Record};
use crate::plan::{Exit, Owned, RunState};
use crate::runtime::{Call, KILLED, labels};

/// State of looking at Docker as a whole.
#[derive(Debug)]
pub(in crate::machine) struct Looking {
    /// A list is needed before anything is decided.
    pub list_needed: bool,
    /// The first list has been read: ends that are seen from now on happened under this daemon.
    pub watching: bool,
    /// Failures of Docker as a whole, or of its list: until the next try only signals are sent.
    pub trouble: Retry,
    /// Containers that a signal did not find running, by id, as long as lists have them: Docker may contradict itself,
    /// and the next signal waits.
    pub denied: Table<String, Retry>,
}

/// Whether an inspect of this container is worth waiting for. One whose inspect has failed counts as last seen, or as
/// the list shows it: it must not hold up the rest (kubernetes/kubernetes#94829).
fn counts(record: &Record) -> bool {
    !record.look_retry.has_failed()
}

impl Default for Looking {
    /// State of a new machine.
    fn default() -> Looking {
        Looking { list_needed: true, watching: false, trouble: Retry::default(), denied: Table::new() }
    }
}

impl Machine {
    /// Notes the end of a container that only Docker's answer to a signal shows. The exit code is the kubelet's for a
    /// container that it lost.
    pub(in crate::machine) fn lost(&mut self, id: &str, now: &Now) {
        let Some(mut lost) = self.containers.get(id).cloned() else { return };
        lost.state = RunState::Exited(Exit {
            code: KILLED,
            oom_killed: false,
            cannot_run: false,
            message: "Docker does not tell how it ended".to_owned(),
            started: None,
            finished: None,
            seen: Some(now.mono),
        });
        self.merge(lost, self.origin(), now);
        self.looking.list_needed = true;
    }

    /// Notes that everything is known that existed before: what is running is adopted, and what comes from now on is new.
    pub(in crate::machine) fn begin_watching(&mut self) {
        if !self.looking.watching {
            for (_, record) in self.containers.records_mut().filter(|(c, _)| c.state.is_running()) {
                record.run.adopted = true;
            }
        }
        self.looking.watching = true;
    }

    /// Makes the calls for missing facts. Returns false when an answer is needed before anything is decided.
    pub(in crate::machine) fn look(&mut self, now: &Now) -> bool {
        if self.looking.list_needed {
            if !self.calls.is_empty() {
                return false;
            }
            self.looking.list_needed = false;
            let filter = vec![
                format!("{}={}", labels::ROOT_DIR, self.settings.map.root_dir),
                format!("{}={}", labels::POD_NAMESPACE, self.key.namespace),
                format!("{}={}", labels::POD_NAME, self.key.name),
            ];
            self.call(Job::List, Call::List { labels: filter });
            return false;
        }
        if self.calls.is_listing() {
            return false;
        }
        for id in self.containers.ids(|_, record| record.look != Look::Settled) {
            let Some(record) = self.containers.record_mut(&id) else { continue };
            if now.mono < record.look_retry.until {
                self.out.wake_at(record.look_retry.until);
                continue;
            }
            if self.calls.is_busy(&id) || self.calls.is_full() {
                continue;
            }
            // The answer may be older than hints that come from now on: such a hint leads to another inspect.
            let needed = std::mem::take(&mut record.look) == Look::Needed;
            self.call(Job::Inspect { id: id.clone(), needed }, Call::Inspect { id });
        }
        let inside = self.look_inside(now);
        let is_awaited = self.containers.records().any(|(c, record)| {
            let asked = |j: &Job| matches!(j, Job::Inspect { id, needed: true } if *id == c.id);
            counts(record) && (record.look == Look::Needed || self.calls.any(asked))
        });
        inside && !is_awaited
    }

    /// Whether an answer is missing, or about to be asked for, that is worth waiting for.
    pub(in crate::machine) fn is_looking(&self) -> bool {
        let asked = |c: &Owned| self.calls.any(|j| matches!(j, Job::Inspect { id, .. } if *id == c.id));
        self.looking.list_needed
            || self.calls.is_listing()
            || self
                .containers
                .records()
                .any(|(c, record)| counts(record) && (record.look != Look::Settled || asked(c)))
    }

    /// Notes that the known state of this container is not certain.
    pub(in crate::machine) fn doubt(&mut self, id: &str) {
        self.containers.needs(id, Look::Needed);
    }

    /// Notes that an inspect had no answer and is still wanted.
    pub(in crate::machine) fn ask_again(&mut self, id: &str, needed: bool) {
        self.containers.needs(id, if needed { Look::Needed } else { Look::Wanted });
    }

    /// Looks at everything, without waiting for Docker: it is there again, or its list differs.
    pub(in crate::machine) fn look_at_all(&mut self) {
        self.looking.list_needed = true;
        self.looking.trouble = Retry::default();
        for stop in self.containers.records_mut().filter_map(|(_, record)| record.run.stop.as_mut()) {
            stop.again.until = Mono::default();
        }
    }

    /// A container was made, but by no call of this daemon: Docker has carried out an earlier daemon's call late.
    pub(in crate::machine) fn hint_made(&mut self, id: &str) {
        let ours = self.calls.any(|j| matches!(j, Job::Create { .. } | Job::CreateSandbox { .. }));
        if self.containers.get(id).is_none() && !ours {
            self.looking.list_needed = true;
        }
    }

    pub(in crate::machine) fn hint_started(&mut self, id: &str) {
        let known = self.containers.get(id).map(|c| c.state.is_running());
        let ours = self.calls.any(|j| match j {
            Job::Start { id: it } => it == id,
            // Our own create, whose answer is on its way.
            Job::Create { .. } | Job::CreateSandbox { .. } => known.is_none(),
            _ => false,
        });
        match known {
            Some(true) => {}
            _ if ours => {}
            Some(false) => self.doubt(id),
            // Somebody started it: a list shows what it is.
            None => self.looking.list_needed = true,
        }
    }

    /// A container changed. An unknown one that ends needs no look: the list of the safety net finds its remains.
    pub(in crate::machine) fn hint_changed(&mut self, id: &str) {
        if self.containers.get(id).is_some_and(|c| !c.state.is_dead()) {
            self.doubt(id);
        }
    }

    /// The kernel killed a process for lack of memory. When this event comes after the death, as it sometimes does,
    /// Docker does not set its own mark (containerd/containerd#8180): it is noted, and a known end is corrected.
    pub(in crate::machine) fn hint_out_of_memory(&mut self, id: &str) {
        let Some((found, record)) = self.containers.get_mut(id) else { return };
        record.run.out_of_memory = true;
        match &mut found.state {
            RunState::Exited(exit) => mark_out_of_memory(exit),
            _ => record.needs(Look::Needed),
        }
    }

    pub(in crate::machine) fn hint_removed(&mut self, id: &str) {
        let removing = self.calls.any(|j| matches!(j, Job::Remove { id: it } if it == id));
        let dead = self.containers.get(id).map(|c| c.state.is_dead());
        match dead {
            Some(true) if !removing => self.vanished(id),
            Some(false) if !removing => self.doubt(id),
            _ => {}
        }
    }
}
