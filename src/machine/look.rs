//! How a worker finds out what is there: one list when it knows nothing, single inspects after hints.
//! Results are merged into what is known; a look never runs beside a call that changes the same thing.

use log::Level;

use super::Machine;
use super::job::Job;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::order;
use crate::mapping::observe;
use crate::plan::{self, Exit, Link, Owned, Role, RunState};
use crate::pod::ContainerKind;
use crate::recorder::words;
use crate::runtime::{Call, ContainerSummary, DockerError, KILLED, Resources, labels};

impl Machine {
    /// Asks for what is missing. False: something must be known before anything is decided.
    pub(super) fn look(&mut self, now: &Now) -> bool {
        if self.list_needed {
            if !self.in_flight.is_empty() {
                return false;
            }
            self.list_needed = false;
            let filter = vec![
                format!("{}={}", labels::ROOT_DIR, self.settings.map.root_dir),
                format!("{}={}", labels::POD_NAMESPACE, self.key.namespace),
                format!("{}={}", labels::POD_NAME, self.key.name),
            ];
            self.call(Job::List, Call::List { labels: filter });
            return false;
        }
        if self.any_in_flight(|j| matches!(j, Job::List)) {
            return false;
        }
        let wanted: Vec<String> = self.blind.union(&self.stale).cloned().collect();
        for id in wanted {
            let retry = self.inspect_retry.get(&id).map_or(Mono::default(), |r| r.until);
            if now.mono < retry {
                self.wake_at(retry);
                continue;
            }
            if self.busy(&id) || self.is_full() {
                continue;
            }
            // What is told about it from now on, the answer may not know yet: it counts anew.
            let blind = self.blind.remove(&id);
            self.stale.remove(&id);
            self.call(Job::Inspect { id: id.clone(), blind }, Call::Inspect { id });
        }
        let inside = self.look_inside(now);
        let asked = self.any_in_flight(|j| matches!(j, Job::Inspect { id, blind: true } if self.counts(id)));
        inside && !asked && !self.blind.iter().any(|id| self.counts(id))
    }

    /// Something is being looked at, or must be, whose answer is worth waiting for.
    pub(super) fn is_looking(&self) -> bool {
        let asked = |j: &Job| match j {
            Job::List => true,
            Job::Inspect { id, .. } => self.counts(id),
            _ => false,
        };
        self.list_needed
            || self.blind.union(&self.stale).any(|id| self.counts(id))
            || self.any_in_flight(asked)
    }

    /// A look at this one is waited for. A container whose inspect fails is taken as it was last seen, by a list
    /// if that has it: it must not hold up the rest (kubernetes/kubernetes#94829).
    fn counts(&self, id: &str) -> bool {
        !self.inspect_retry.contains_key(id) && self.all_seen().any(|c| c.id == id)
    }

    /// What is believed of this container is not certain.
    pub(super) fn doubt(&mut self, id: &str) {
        if self.all_seen().any(|c| c.id == id) {
            self.blind.insert(id.to_owned());
        }
    }

    /// An inspect that gave no answer is still wanted.
    pub(super) fn ask_again(&mut self, id: &str, blind: bool) {
        if self.all_seen().any(|c| c.id == id) {
            let again = if blind { &mut self.blind } else { &mut self.stale };
            again.insert(id.to_owned());
        }
    }

    pub(super) fn hint_started(&mut self, id: &str) {
        let known = self.all_seen().find(|c| c.id == id).map(|c| c.state.is_running());
        let ours = self.any_in_flight(|j| match j {
            Job::Start { id: it } => it == id,
            // Our own create, whose reply is on its way.
            Job::Create { .. } | Job::CreateSandbox { .. } => known.is_none(),
            _ => false,
        });
        match known {
            Some(true) => {}
            _ if ours => {}
            Some(false) => _ = self.blind.insert(id.to_owned()),
            // Started by somebody: a list shows what it is.
            None => self.list_needed = true,
        }
    }

    /// What is not known and ends is no business of ours; the safety net's list finds its remains.
    pub(super) fn hint_changed(&mut self, id: &str) {
        if self.all_seen().any(|c| c.id == id && !c.state.is_dead()) {
            self.blind.insert(id.to_owned());
        }
    }

    /// Docker's own mark of it is not set when this comes after the death, as it does at times
    /// (containerd/containerd#8180): it is remembered, and what ended before it is put right.
    pub(super) fn hint_out_of_memory(&mut self, id: &str) {
        let Some(found) = self.seen.all.iter_mut().chain(&mut self.old.all).find(|c| c.id == id) else {
            return;
        };
        self.out_of_memory.insert(id.to_owned());
        match &mut found.state {
            RunState::Exited(exit) => mark_out_of_memory(exit),
            _ => _ = self.blind.insert(id.to_owned()),
        }
    }

    pub(super) fn hint_removed(&mut self, id: &str) {
        let removing = self.any_in_flight(|j| matches!(j, Job::Remove { id: it } if it == id));
        let dead = self.all_seen().find(|c| c.id == id).map(|c| c.state.is_dead());
        match dead {
            Some(true) if !removing => self.vanished(id),
            Some(false) if !removing => _ = self.blind.insert(id.to_owned()),
            _ => {}
        }
    }

    pub(super) fn listed(&mut self, list: &[ContainerSummary], now: &Now) {
        let mut found: Vec<Owned> = list
            .iter()
            .filter_map(|c| observe::from_summary(c, &self.settings.map.root_dir))
            .filter(|c| c.key == self.key)
            .collect();
        let is_missing = |c: &Owned| !list.iter().any(|l| l.id == c.id);
        // What Docker found running when it began with a full disk it leaves out of its list: only an inspect says
        // that it is gone, or its pod would run twice.
        let (doubted, gone): (Vec<Owned>, Vec<Owned>) =
            self.all_seen().filter(|c| is_missing(c)).cloned().partition(|c| c.state.is_running());
        doubted.iter().for_each(|c| self.doubt(&c.id));
        gone.iter().for_each(|c| self.forget_file(c));
        self.old.all.retain(|c| c.state.is_running() || !is_missing(c));
        self.seen.all.retain(|c| c.state.is_running() || !is_missing(c));
        for new in found.drain(..) {
            let known = self.all_seen().find(|c| c.id == new.id);
            let settled =
                known.is_some_and(|c| same_kind(&c.state, &new.state) && c.state != RunState::Created);
            if settled {
                continue;
            }
            // Also what was only made: that a start failed is seen by an inspect alone.
            self.blind.insert(new.id.clone());
            self.merge(new, now);
        }
        if !self.watching {
            let running = self.all_seen().filter(|c| c.state.is_running());
            let running: Vec<String> = running.map(|c| c.id.clone()).collect();
            running.iter().for_each(|id| self.adopt(id));
        }
        self.watching = true;
        self.forget_vanished();
    }

    pub(super) fn inspected(
        &mut self,
        id: &str,
        blind: bool,
        answer: Result<Option<Owned>, DockerError>,
        now: &Now,
    ) {
        match answer {
            // It was removed between: the answer is older than that.
            Ok(Some(_)) if !self.all_seen().any(|c| c.id == id) => self.list_needed = true,
            Ok(Some(owned)) => {
                self.inspect_retry.remove(id);
                self.want_digest(&owned);
                self.merge(owned, now);
            }
            // Not there any more, or no longer ours.
            Ok(None) => self.vanished(id),
            Err(error) => {
                self.ask_again(id, blind);
                // Whether it lives can be seen in a list all the same.
                self.list_needed = true;
                let retry = self.inspect_retry.get_or_default(id.to_owned());
                let first = retry.tries == 0;
                retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono);
                if first {
                    let words = words::inspect_failed(short(id), &error.to_string());
                    self.tell_of_any(id, words);
                }
            }
        }
    }

    pub(super) fn vanished(&mut self, id: &str) {
        let gone = self.all_seen().find(|c| c.id == id).cloned();
        if let Some(gone) = gone {
            self.forget_file(&gone);
        }
        self.seen.all.retain(|c| c.id != id);
        self.old.all.retain(|c| c.id != id);
        self.forget_vanished();
    }

    /// It has ended, as Docker's answer to a signal tells, and no inspect says how: the code is the kubelet's for a
    /// container that it lost.
    pub(super) fn lost(&mut self, id: &str, now: &Now) {
        let Some(mut lost) = self.all_seen().find(|c| c.id == id).cloned() else { return };
        lost.state = RunState::Exited(Exit {
            code: KILLED,
            oom_killed: false,
            cannot_run: false,
            message: "Docker does not tell how it ended".to_owned(),
            started: None,
            finished: None,
            seen: Some(now.mono),
        });
        self.merge(lost, now);
        self.list_needed = true;
    }

    fn forget_vanished(&mut self) {
        let ids = order::set(self.all_seen().map(|c| c.id.clone()));
        let images = order::set(self.all_seen().map(|c| c.image_id.clone()));
        self.asked.retain(&ids);
        self.messages.retain(|id, _| ids.contains(id));
        self.digests.retain(|image, _| images.contains(image));
        self.digest_asked.retain(|image| images.contains(image));
        self.blind.retain(|id| ids.contains(id));
        self.stale.retain(|id| ids.contains(id));
        self.inspect_retry.retain(|id, _| ids.contains(id));
        self.stops.retain(|id, _| ids.contains(id));
        self.removals.retain(|id, _| ids.contains(id));
        self.cannot_run.retain(|id, _| ids.contains(id));
        self.start_retry.retain(|id, _| ids.contains(id));
        self.late_starts.retain(|id, _| ids.contains(id));
        self.sizes.retain(|id| ids.contains(id));
        self.sandbox_started.retain(|id, _| ids.contains(id));
        self.out_of_memory.retain(|id| ids.contains(id));
    }

    /// Puts a fresh look into what is known.
    pub(super) fn merge(&mut self, mut new: Owned, now: &Now) {
        if let (RunState::Created, Some(message)) = (&new.state, self.cannot_run.get(&new.id)) {
            // Some engines leave no trace of a failed start; ours is remembered here.
            new.state = RunState::Exited(cannot_run(message.clone(), now.mono));
        }
        let known = self.all_seen().find(|c| c.id == new.id);
        if known.is_none() {
            self.volumes.may_have(&new.uid);
        }
        let known = self.all_seen().find(|c| c.id == new.id);
        if new.state == RunState::Removing && known.is_some_and(|c| c.start_sent) {
            // It has not run, and will not: until it is gone it is no instance that ended.
            new.state = RunState::Created;
        }
        // What an earlier daemon made it may have started too. What comes later was made by a call whose answer
        // nobody has read, so nobody knew what to start: it is of use unless that call was an earlier daemon's, and
        // the pod has gone on without it. Debug containers are started by the command line.
        let foreign = known.is_none() && !self.watching && !new.is_kind(ContainerKind::Ephemeral);
        let pod = self.state.pod().filter(|pod| pod.uid == new.uid);
        let is_past = || known.is_none() && pod.is_some_and(|pod| plan::is_past(pod, &self.seen, &new));
        let is_lost = new.state == RunState::Created && (foreign || is_past());
        new.start_sent |= known.map_or(is_lost, |c| c.start_sent);
        new.start_sent &= new.state == RunState::Created;
        match new.start_sent {
            true if known.is_none() => self.start_may_come(&new.id, now),
            true => {}
            false => _ = self.late_starts.remove(&new.id),
        }
        let known = self.all_seen().find(|c| c.id == new.id);
        if let Some(known) = known.filter(|_| new.log_path.is_empty()) {
            new.log_path.clone_from(&known.log_path);
        }
        if let Some(known) = known.filter(|_| new.resources == Resources::default()) {
            new.resources = known.resources;
        }
        if new.state.is_running()
            && let Role::Sandbox { link, .. } = &mut new.role
        {
            let before = match known.map(|c| &c.role) {
                Some(Role::Sandbox { link, .. }) => *link,
                _ => Link::Untold,
            };
            *link = link_after(before, *link, self.sandbox_started.contains_key(&new.id));
        }
        if let RunState::Exited(exit) = &mut new.state {
            if self.out_of_memory.contains(&new.id) {
                mark_out_of_memory(exit);
            }
            exit.seen = match known.map(|c| &c.state) {
                Some(RunState::Exited(old)) => old.seen,
                Some(_) => Some(now.mono),
                None => self.watching.then_some(now.mono),
            };
        }
        // Made or started by a call whose answer never came.
        let made = known.is_none() && self.watching && self.state.pod().is_some_and(|p| p.uid == new.uid);
        let ran = match &new.state {
            RunState::Running { .. } => true,
            RunState::Exited(exit) => !exit.cannot_run,
            RunState::Created | RunState::Removing => false,
        };
        let started = ran && known.map_or(made, |c| c.state == RunState::Created);
        let died = known.is_some_and(|c| c.state.is_running()) && new.state.is_dead();
        if died {
            self.stops.remove(&new.id);
            let line = format!("pod {}: {}", self.key, death_notice(&new));
            self.log(Level::Info, line);
            if new.is_sandbox() {
                self.doubt_cgroup(&new.uid);
            }
        }
        if made {
            self.tell_created(&new);
        }
        if started {
            self.tell_of(&new, words::started());
        }
        let set = if self.old.all.iter().any(|c| c.id == new.id) { &mut self.old } else { &mut self.seen };
        match set.all.iter_mut().find(|c| c.id == new.id) {
            Some(place) => *place = new,
            None => set.all.push(new),
        }
    }

    fn want_digest(&mut self, owned: &Owned) {
        let image = &owned.image_id;
        if owned.is_sandbox() || image.is_empty() || !self.digest_asked.insert(image.clone()) {
            return;
        }
        self.call(Job::ImageInspect { image_id: image.clone() }, Call::ImageInspect { image: image.clone() });
    }
}

/// What a look at a running sandbox means after what was known of its network. `ours`: this daemon started it, and
/// no address was ever seen: then the engine reports none (Docker gives it before the start is over). What an
/// earlier daemon started counts as lost only where the engine says in so many words that it is on no network.
fn link_after(before: Link, now: Link, ours: bool) -> Link {
    match (before, now) {
        (Link::Up | Link::Lost, Link::Bare | Link::Cut) => Link::Lost,
        (_, Link::Cut) if !ours => Link::Lost,
        (before, Link::Untold) => before,
        (_, now) => now,
    }
}

/// The two states differ at most in details that only an inspect tells.
fn same_kind(a: &RunState, b: &RunState) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// A process that was not the container's first may have been the one; then the first ended otherwise.
fn mark_out_of_memory(exit: &mut Exit) {
    exit.oom_killed |= exit.code == KILLED;
}

pub(super) fn cannot_run(message: String, now: Mono) -> Exit {
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

fn death_notice(dead: &Owned) -> String {
    let what = match dead.container_name() {
        Some(name) => format!("container {name} (attempt {})", dead.attempt),
        None => format!("sandbox (attempt {})", dead.attempt),
    };
    match &dead.state {
        RunState::Exited(exit) if exit.oom_killed => format!("{what} was killed: out of memory"),
        RunState::Exited(exit) => format!("{what} ended with exit code {}", exit.code),
        _ => format!("{what} ended"),
    }
}

/// First 12 digits of an id, as Docker prints it.
pub(super) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
