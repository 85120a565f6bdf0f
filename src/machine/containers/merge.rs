//! Merges the results of lists and inspects into the known state: a container that is new, has changed, or is gone.
//! Events of the meantime are emitted.

use log::Level;

use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::machine::calls::{Job, Retry};
use crate::machine::output::Output;
use crate::machine::{FirstList, Machine};
use crate::mapping::observe;
use crate::plan::{self, Exit, Link, Owned, Role, RunState};
use crate::pod::ContainerKind;
use crate::recorder::words;
use crate::runtime::{Call, ContainerSummary, DockerError, KILLED, Resources};

impl Machine {
    /// Takes the answer to a list.
    pub(in crate::machine) fn listed(&mut self, list: &[ContainerSummary], now: &Now) {
        let missing: Vec<(String, bool)> = self
            .containers
            .all()
            .filter(|c| !list.iter().any(|l| l.id == c.id))
            .map(|c| (c.id.clone(), c.state.is_running()))
            .collect();
        for (id, ran) in missing {
            // When Docker starts with a full disk, its list leaves out containers that it found running: only an
            // inspect shows that the container is gone, or its pod would run twice.
            if ran {
                self.doubt(&id);
            } else {
                self.remove_record(&id);
            }
        }
        self.looking.denied.retain(|id, _| list.iter().any(|l| l.id == *id));
        let root_dir = &self.settings.map.root_dir;
        let found = list.iter().filter_map(|c| observe::from_summary(c, root_dir)).collect();
        self.found(found, now);
        self.begin_watching();
    }

    /// Takes the containers of the daemon's own list at the machine's start, in place of a list.
    pub(in crate::machine) fn begin_with(&mut self, listed: FirstList, now: &Now) {
        self.looking.list_needed = matches!(listed, FirstList::Past(_));
        let (FirstList::Whole(found) | FirstList::Past(found)) = listed;
        let earlier: Vec<String> =
            found.iter().filter(|c| plan::is_of_earlier_life(c, &found)).map(|c| c.id.clone()).collect();
        self.found(found, now);
        for owned in earlier.iter().filter_map(|id| self.containers.get(id).cloned()).collect::<Vec<_>>() {
            self.containers.put_earlier(owned);
        }
        // What only the machine's own list shows existed before, too.
        if !self.looking.list_needed {
            self.begin_watching();
        }
    }

    /// Takes the containers of a list that belong to this identity. The list may be older than the known state: each
    /// container that differs is inspected before anything is decided.
    fn found(&mut self, found: Vec<Owned>, now: &Now) {
        for new in found {
            if new.key != self.key {
                continue;
            }
            let known = self.containers.get(&new.id);
            let settled =
                known.is_some_and(|c| same_kind(&c.state, &new.state) && c.state != RunState::Created);
            if settled {
                continue;
            }
            let id = new.id.clone();
            // Of a container that has ended a list may still show that it runs, and only an operator starts it again: an
            // inspect tells. Two sandboxes that seem to run would end the pod.
            let is_back =
                known.is_some_and(|c| matches!(c.state, RunState::Exited(_))) && new.state.is_running();
            if !is_back {
                self.merge(new, self.origin(), now);
            }
            // Also a container that was only made: an inspect alone shows that its start failed.
            self.doubt(&id);
        }
        self.forget_digests();
    }

    pub(in crate::machine) fn inspected(
        &mut self,
        id: &str,
        needed: bool,
        answer: Result<Option<Owned>, DockerError>,
        now: &Now,
    ) {
        match answer {
            Ok(Some(owned)) => match self.containers.record_mut(id) {
                // It was removed in between: the answer is older than that.
                None => self.looking.list_needed = true,
                Some(record) => {
                    record.look_retry = Retry::default();
                    self.want_digest(&owned);
                    self.merge(owned, self.origin(), now);
                }
            },
            // The container does not exist any more, or is no longer ours.
            Ok(None) => {
                self.note_lost(id, now);
                self.vanished(id);
            }
            Err(error) => {
                // A list still shows whether it is alive.
                self.looking.list_needed = true;
                self.ask_again(id, needed);
                let retry = self.containers.record_mut(id).map(|record| &mut record.look_retry);
                let first = retry.as_ref().is_none_or(|retry| !retry.has_failed());
                if let Some(retry) = retry {
                    retry.failed(now);
                }
                if first {
                    let words = words::inspect_failed(short(id), &error.to_string());
                    self.tell_of_any(id, words);
                }
            }
        }
    }

    /// Removes a container that is gone, and its record.
    pub(in crate::machine) fn vanished(&mut self, id: &str) {
        self.remove_record(id);
        self.forget_digests();
    }

    fn remove_record(&mut self, id: &str) {
        if let Some(gone) = self.containers.remove(id) {
            self.is_still_attached(&gone);
            self.forget_file(&gone);
        }
    }

    /// Forgets the digests of images without a container.
    fn forget_digests(&mut self) {
        let containers = &self.containers;
        self.images.keep_digests(|image| containers.all().any(|c| c.image_id == image));
    }

    /// Whether a container that is new to this machine existed before the machine looked.
    pub(in crate::machine) fn origin(&self) -> Origin {
        if self.looking.watching { Origin::WhileWatching } else { Origin::BeforeUs }
    }

    /// Merges a fresh look at a container. `origin` counts for a new one.
    pub(in crate::machine) fn merge(&mut self, mut new: Owned, origin: Origin, now: &Now) {
        self.fill_start(&mut new, origin, now);
        let is_another =
            self.containers.record(&new.id).is_some_and(|record| record.run.is_another(&new.state));
        self.fill_run(&mut new, is_another, origin, now);
        let known = self.containers.get(&new.id);
        let is_new = known.is_none();
        let of_pod = self.state.pod().is_some_and(|pod| pod.uid == new.uid);
        let change = match known {
            None => first_sight(&new.state, origin, of_pod),
            Some(known) => change(&known.state, &new.state, is_another),
        };
        if is_new {
            self.volumes.may_have(&new.uid);
        }
        match change {
            Change::Ended => {
                let line = format!("pod {}: {}", self.key, death_notice(&new));
                self.out.log(Level::Info, line);
                if new.is_sandbox() {
                    self.cgroups.doubt(&new.uid);
                }
            }
            Change::RunsAgain => {
                let why = "runs again: somebody started it, and its probes begin anew";
                self.out.log(Level::Warn, format!("pod {}: {} {why}", self.key, what(&new)));
                self.out.push(Output::Signalled(new.id.clone(), false));
            }
            Change::Made | Change::MadeAndBegan => self.tell_created(&new),
            Change::Found | Change::Began | Change::Same => {}
        }
        let (id, start_sent) = (new.id.clone(), new.start_sent);
        self.containers.put(new);
        if matches!(change, Change::Began | Change::MadeAndBegan) {
            self.has_begun(&id, now);
        }
        let Some((container, record)) = self.containers.get_mut(&id) else { return };
        if change == Change::Ended {
            record.run.stop = None;
            if record.run.again && !container.killed {
                self.out.push(Output::Signalled(id, false)); // No signal has reached it.
            }
        }
        if !start_sent {
            record.late_start = None;
        } else if is_new {
            record.late_start = Some(now.mono.after(limits::LATE_START));
        }
    }

    /// Fills in what no look shows about a container's start: that it failed, or may still come.
    fn fill_start(&self, new: &mut Owned, origin: Origin, now: &Now) {
        let known = self.containers.get(&new.id);
        let record = self.containers.record(&new.id);
        if let (RunState::Created, Some(message)) = (&new.state, record.and_then(|r| r.start_error.as_ref()))
        {
            // Some engines keep no trace of a failed start; the message is kept here.
            new.state = RunState::Exited(cannot_run(message.clone(), now.mono));
        }
        if new.state == RunState::Removing && known.is_some_and(|c| c.start_sent) {
            // It has never run: until it is gone it does not count as an instance that ended.
            new.state = RunState::Created;
        }
        // An earlier daemon may have started a container that it made. A container that appears later comes from a
        // create whose answer was never read, so no start of it was sent: it can be used, unless the create was an
        // earlier daemon's and the pod has a newer attempt. The command line starts debug containers.
        let foreign = known.is_none() && origin == Origin::BeforeUs && !new.is_kind(ContainerKind::Ephemeral);
        let pod = self.state.pod().filter(|pod| pod.uid == new.uid);
        let is_past =
            || known.is_none() && pod.is_some_and(|pod| plan::is_past(pod, self.containers.current(), new));
        let is_lost = new.state == RunState::Created && (foreign || is_past());
        new.start_sent |= known.map_or(is_lost, |c| c.start_sent);
        new.start_sent &= new.state == RunState::Created;
    }

    /// Fills in what no look shows about a container's run: its log, its resources, its network, the time when its end
    /// was seen, and a kill for lack of memory. `again`: somebody has started it again.
    fn fill_run(&self, new: &mut Owned, again: bool, origin: Origin, now: &Now) {
        let known = self.containers.get(&new.id);
        let record = self.containers.record(&new.id);
        new.killed |= known.is_some_and(|known| known.killed && !again);
        // One that ended before it was signalled has ended by itself: the answer to the signal says so.
        let run = record.map(|record| &record.run).filter(|run| run.again && !again);
        let is_signalled = run.is_some_and(|run| run.is_told_to_end() || self.calls.is_changing(&new.id));
        new.killed |= new.state.is_dead() && is_signalled;
        if let Some(known) = known.filter(|_| new.log_path.is_empty()) {
            new.log_path.clone_from(&known.log_path);
        }
        if let Some(known) = known.filter(|_| new.resources == Resources::default()) {
            new.resources = known.resources;
        }
        // No look shows the addresses of plugins.
        if let (Role::Sandbox { ips, kept, .. }, Some(Role::Sandbox { ips: before, .. })) =
            (&mut new.role, known.map(|c| &c.role))
            && kept.cni
        {
            ips.clone_from(before);
        }
        if new.state.is_running()
            && let Role::Sandbox { link, .. } = &mut new.role
        {
            let before = match known.map(|c| &c.role) {
                Some(Role::Sandbox { link, .. }) => *link,
                _ => Link::Untold,
            };
            *link = match again {
                true => Link::Lost,
                false => link_after(before, *link, record.is_some_and(|r| r.run.started.is_some())),
            };
        }
        if let RunState::Exited(exit) = &mut new.state {
            if record.is_some_and(|r| r.run.out_of_memory && !again) {
                mark_out_of_memory(exit);
            }
            exit.seen = match known.map(|c| &c.state) {
                Some(RunState::Exited(old)) if !again => old.seen,
                Some(_) => Some(now.mono),
                None => (origin == Origin::WhileWatching).then_some(now.mono),
            };
        }
    }

    fn want_digest(&mut self, owned: &Owned) {
        let image = &owned.image_id;
        if owned.is_sandbox() || image.is_empty() || !self.images.ask_digest(image) {
            return;
        }
        self.call(Job::ImageInspect { image_id: image.clone() }, Call::ImageInspect { image: image.clone() });
    }
}

/// Whether the call that made a new container can have been this daemon's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::machine) enum Origin {
    /// The container existed before this daemon looked.
    BeforeUs,
    /// The container appeared later.
    WhileWatching,
}

/// The difference between a look at a container and its known state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It is new, and nothing happened to it under this daemon.
    Found,
    /// A call whose answer never came made it.
    Made,
    /// Calls whose answers never came made and started it.
    MadeAndBegan,
    /// It was only made before, and runs or has run.
    Began,
    /// Somebody started it again, and it runs.
    RunsAgain,
    /// Its run has ended, or another run after it.
    Ended,
    /// The container has not changed.
    Same,
}

/// `of_pod`: it belongs to the pod that is wanted or is being stopped.
fn first_sight(new: &RunState, origin: Origin, of_pod: bool) -> Change {
    match origin {
        Origin::WhileWatching if of_pod && has_run(new) => Change::MadeAndBegan,
        Origin::WhileWatching if of_pod => Change::Made,
        Origin::WhileWatching | Origin::BeforeUs => Change::Found,
    }
}

/// `is_another`: Docker shows another run than the known one.
fn change(known: &RunState, new: &RunState, is_another: bool) -> Change {
    if is_another {
        return if new.is_dead() { Change::Ended } else { Change::RunsAgain };
    }
    match known {
        RunState::Created if has_run(new) => Change::Began,
        RunState::Running { .. } if new.is_dead() => Change::Ended,
        RunState::Created | RunState::Running { .. } | RunState::Exited(_) | RunState::Removing => {
            Change::Same
        }
    }
}

fn has_run(state: &RunState) -> bool {
    match state {
        RunState::Running { .. } => true,
        RunState::Exited(exit) => !exit.cannot_run,
        RunState::Created | RunState::Removing => false,
    }
}

/// The network of a running sandbox after a look. `ours`: this daemon started it. When no address was ever seen, the
/// engine does not report any (Docker reports it before the start is over). A sandbox of an earlier daemon counts as
/// lost only if the engine says explicitly that it is on no network.
fn link_after(before: Link, now: Link, ours: bool) -> Link {
    match (before, now) {
        (Link::Up | Link::Lost, Link::Bare | Link::Cut) => Link::Lost,
        (_, Link::Cut) if !ours => Link::Lost,
        (Link::Lost, _) => Link::Lost,
        (before, Link::Untold) => before,
        (_, now) => now,
    }
}

/// Whether the two states differ at most in details that only an inspect shows.
fn same_kind(a: &RunState, b: &RunState) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Marks an end by KILL as out of memory: after another end the killed process was not the container's first.
pub(in crate::machine) fn mark_out_of_memory(exit: &mut Exit) {
    exit.oom_killed |= exit.code == KILLED;
}

pub(in crate::machine) fn cannot_run(message: String, now: Mono) -> Exit {
    Exit {
        code: 128,
        oom_killed: false,
        cannot_run: true,
        message,
        started: None,
        finished: None,
        seen: Some(now),
    }
}

pub(in crate::machine) fn what(owned: &Owned) -> String {
    match owned.container_name() {
        Some(name) => format!("container {name} (attempt {})", owned.attempt),
        None => format!("sandbox (attempt {})", owned.attempt),
    }
}

fn death_notice(dead: &Owned) -> String {
    let what = what(dead);
    match &dead.state {
        // Docker sets it for the sandbox, too, when a container reached the limit of the pod's cgroup.
        RunState::Exited(exit) if exit.oom_killed && !dead.is_sandbox() => match exit.code {
            KILLED => format!("{what} was killed: out of memory"),
            code => {
                format!(
                    "{what} ended with exit code {code}; a process of it was killed before: out of memory"
                )
            }
        },
        RunState::Exited(exit) => format!("{what} ended with exit code {}", exit.code),
        _ => format!("{what} ended"),
    }
}

/// First 12 digits of an id, as Docker prints it.
pub(in crate::machine) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(word: &str) -> RunState {
        let exit = cannot_run(String::new(), Mono::default());
        match word {
            "created" => RunState::Created,
            "running" => RunState::Running { started: None },
            "exited" => RunState::Exited(Exit { cannot_run: false, ..exit }),
            "cannot run" => RunState::Exited(exit),
            _ => RunState::Removing,
        }
    }

    const STATES: [&str; 5] = ["created", "running", "exited", "cannot run", "removing"];

    #[test]
    fn what_is_new_was_made_by_us_only_where_we_watch_and_it_is_the_pods() {
        use Change::{Found, Made, MadeAndBegan};
        let made = STATES.map(|new| first_sight(&state(new), Origin::WhileWatching, true));
        assert_eq!(made, [Made, MadeAndBegan, MadeAndBegan, Made, Made]);
        for new in STATES {
            assert_eq!(first_sight(&state(new), Origin::WhileWatching, false), Found, "{new}");
            assert_eq!(first_sight(&state(new), Origin::BeforeUs, true), Found, "{new}");
        }
    }

    #[test]
    fn every_state_meets_every_look() {
        use Change::{Began, Ended, RunsAgain, Same};
        let rows = [
            ("created", [Same, Began, Began, Same, Same]),
            ("running", [Same, Same, Ended, Ended, Ended]),
            ("exited", [Same, Same, Same, Same, Same]),
            ("cannot run", [Same, Same, Same, Same, Same]),
            ("removing", [Same, Same, Same, Same, Same]),
        ];
        for (known, changes) in rows {
            for (new, expected) in STATES.into_iter().zip(changes) {
                assert_eq!(change(&state(known), &state(new), false), expected, "{known}, then {new}");
            }
            assert_eq!(change(&state(known), &state("running"), true), RunsAgain, "{known}");
            assert_eq!(change(&state(known), &state("exited"), true), Ended, "{known}");
        }
    }
}
