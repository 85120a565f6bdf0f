//! The sandbox of a wanted pod: when another one is made, and the answer to its create.

use std::sync::Arc;

use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::machine::Machine;
use crate::machine::calls::{Job, Place, Retry};
use crate::machine::members::Part;
use crate::machine::state::State;
use crate::mapping;
use crate::mapping::needs::Create;
use crate::plan::{Kept, Link, Owned, Role, RunState};
use crate::pod::DesiredPod;
use crate::recorder::words;
use crate::runtime::{DockerError, RefusalKind, labels};

/// State of the sandboxes of this pod.
#[derive(Debug, Default)]
pub(in crate::machine) struct Sandboxes {
    /// The sandbox whose replacement was reported.
    told: Option<String>,
    /// The sandbox whose early death was counted last.
    counted: Option<String>,
    /// Number of early deaths.
    deaths: Retry,
}

impl Sandboxes {
    /// Forgets early deaths: another life begins, or another spec.
    pub fn forget_deaths(&mut self) {
        self.deaths = Retry::default();
    }
}

impl Machine {
    /// Emits the event of a changed sandbox, once for each sandbox that there was.
    pub(in crate::machine) fn tell_sandbox_change(&mut self, pod: &DesiredPod) {
        let sandboxes = self.containers.current().all.iter().filter(|c| c.is_sandbox() && c.uid == pod.uid);
        let Some(old) = sandboxes.max_by_key(|c| c.attempt).map(|c| c.id.clone()) else { return };
        if self.sandboxes.told.as_ref() != Some(&old) {
            self.sandboxes.told = Some(old);
            let is_asked = self.is_restart_asked(pod);
            self.tell(None, words::sandbox_changed(is_asked));
        }
    }

    pub(in crate::machine) fn create_sandbox(&mut self, pod: &Arc<DesiredPod>, attempt: u32, now: &Now) {
        if self.calls.is_making(&Part::Sandbox)
            || self.calls.is_full()
            || self.await_create(&Part::Sandbox, now)
        {
            return;
        }
        let image = &self.settings.map.infra_image;
        if self.images.is_pulling(image) || self.await_pull_again(pod, None, &image.clone(), now) {
            return;
        }
        if self.report_long_name(pod) || !self.ask_network(pod, now) {
            return;
        }
        // Attempts only grow, also above leftovers of an earlier life.
        let left =
            self.containers.all().filter(|c| c.uid == pod.uid && c.is_sandbox()).map(|c| c.attempt).max();
        let attempt = left.map_or(attempt, |a| attempt.max(a.saturating_add(1)));
        if self.is_restart_asked(pod) {
            self.members.crashes.forgive(now.mono);
            self.sandboxes.forget_deaths();
        } else if let Some(wait) = self.count_sandbox_death(now) {
            self.out.wake_at(wait);
            return;
        }
        let Create { name, mut body, needs } = mapping::sandbox(pod, attempt, &self.settings.map);
        body.labels.extend(self.active_since(pod).map(|since| (labels::ACTIVE_SINCE.to_owned(), since)));
        if self.is_judging(pod)
            && let Err(why) = mapping::record::note(&mut body, 0)
        {
            if self.sandbox_problem(pod, &format!("failed to create pod sandbox: {why}")) {
                self.tell(None, words::sandbox_failed(&why));
            }
            return;
        }
        self.place(&mut body, pod);
        let name = self.with_suffix(&Part::Sandbox, name);
        let cni = body.labels.contains_key(labels::NETWORK);
        let role = Role::Sandbox {
            host_network: pod.host_network(),
            ips: Vec::new(),
            link: Link::Untold,
            kept: Kept { cni, ..Kept::default() },
        };
        let job = Job::CreateSandbox { name: name.clone(), attempt, role };
        self.create(job, Create { name, body, needs });
    }

    /// Whether an operator asked for the end of the newest sandbox.
    fn is_restart_asked(&self, pod: &DesiredPod) -> bool {
        let sandboxes = self.containers.current().all.iter().filter(|c| c.is_sandbox() && c.uid == pod.uid);
        let newest = sandboxes.max_by_key(|c| c.attempt);
        newest.and_then(Owned::kept).is_some_and(|kept| kept.restart)
    }

    /// Counts the early death of the newest sandbox, once: a sandbox that dies early again and again is made more and
    /// more slowly. Returns until when the next one waits.
    fn count_sandbox_death(&mut self, now: &Now) -> Option<Mono> {
        let newest =
            self.containers.current().all.iter().filter(|c| c.is_sandbox()).max_by_key(|c| c.attempt)?;
        let RunState::Exited(exit) = &newest.state else { return None };
        let seen = exit.seen?;
        let started = self.containers.record(&newest.id).and_then(|record| record.run.started);
        let young = match started {
            Some(started) => seen.since(started) < limits::SANDBOX_YOUNG,
            None => exit.cannot_run,
        };
        let Sandboxes { counted, deaths, .. } = &mut self.sandboxes;
        if !young {
            deaths.tries = 0;
            return None;
        }
        // One death is counted once, however often it is seen.
        if counted.as_ref() != Some(&newest.id) {
            deaths.failed(now);
            *counted = Some(newest.id.clone());
        }
        (now.mono < deaths.until).then_some(deaths.until)
    }

    pub(in crate::machine) fn sandbox_made(
        &mut self,
        name: String,
        attempt: u32,
        role: Role,
        answer: Result<(String, Vec<String>), DockerError>,
        now: &Now,
    ) {
        let State::Syncing(pod) = self.state.clone() else {
            // The pod was stopped meanwhile: a look finds the sandbox, which is then removed.
            self.looking.list_needed = true;
            return;
        };
        match answer {
            Ok((id, warnings)) => {
                self.create_worked(&Part::Sandbox, &warnings);
                let made = self.fresh(id, name, attempt, role);
                self.containers.put(made);
            }
            Err(error) => match error.refusal() {
                Some(RefusalKind::NameInUse(_)) => {
                    self.resolve_conflict(name, Place { part: Part::Sandbox, attempt })
                }
                Some(RefusalKind::NoSuchImage) => {
                    if self.members.sandbox.forget_ensured() {
                        // It was loaded for this very sandbox, and Docker still does not find it.
                        self.retry_later(&Part::Sandbox, now);
                    }
                    self.fetch_sandbox_image(now);
                }
                _ => {
                    let wait = self.retry_later(&Part::Sandbox, now);
                    let message =
                        format!("failed to create pod sandbox: {error}; tried again in {} s", wait.as_secs());
                    self.sandbox_problem(&pod, &message);
                    self.tell(None, words::sandbox_failed(&error.to_string()));
                }
            },
        }
    }
}
