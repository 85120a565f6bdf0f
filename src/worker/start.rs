//! Bringing a wanted pod up: sandbox, images, containers. Which ones is `plan/`'s decision; here it is
//! turned into calls, each as early as what it needs is there (design invariant 1: what ran before is
//! observed dead first).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::deadline::Verdict;
use super::hooks::has_post_start;
use super::images::NEVER_PULL;
use super::job::{Ask, Ensured, Job, Place, Retry};
use super::machine::Machine;
use super::mailbox::{PullOutcome, Pulled};
use super::network::Environment;
use super::output::{Output, PullRequest, Token};
use super::state::State;
use crate::clock::{Mono, Now};
use crate::image::failure;
use crate::limits;
use crate::manifest::hash::container_hash;
use crate::network::hosts::HostsFile;
use crate::plan::backoff::{self, Verdict as Wait};
use crate::plan::{self, Owned, Role, RunState, SandboxAction, StartRef};
use crate::pod::{ContainerKind, DesiredPod};
use crate::recorder::words;
use crate::runtime::{Call, env, labels, map, names};
use k8s_openapi::api::core::v1::Container;

/// Waiting reason (spec/03 section 9): a container cannot be made of what is known now.
pub(super) const CONFIG_ERROR: &str = "CreateContainerConfigError";

impl Machine {
    /// One decision for a wanted pod.
    pub(super) fn sync(&mut self, pod: &Arc<DesiredPod>, now: &Now) {
        if self.stop_the_risen(pod, now) {
            return;
        }
        if self.is_in_the_way(pod, now) {
            self.remove_surplus(Some(pod), now);
            return;
        }
        let past_deadline = match self.deadline(pod, now) {
            Verdict::Marking => return,
            verdict => verdict == Verdict::Passed,
        };
        let probes = self.probes(pod);
        let actions = plan::actions::compute(pod, &self.seen, &probes, now.mono);
        // A pod that has ended stays ended, whatever somebody starts by hand.
        let over =
            self.status.as_ref().is_some_and(|s| matches!(s.phase.as_deref(), Some("Succeeded" | "Failed")));
        let finishes = over || past_deadline || actions.sandbox == SandboxAction::Finish;
        if !finishes {
            self.tend_sizes(pod, now);
        }
        let volumes_ready = !finishes && self.volumes_ready(pod, now);
        self.end_volumes(Some(pod.uid.as_str()).filter(|_| !finishes), now);
        match actions.sandbox {
            _ if over || past_deadline => _ = self.stop_everything(None, Some(&pod.spec), now),
            SandboxAction::Finish => {
                self.waiting.clear();
                _ = self.stop_everything(None, Some(&pod.spec), now);
            }
            SandboxAction::Replace { attempt } => {
                self.tell_sandbox_change(pod);
                if self.stop_everything(None, Some(&pod.spec), now) && volumes_ready {
                    self.create_sandbox(pod, attempt, now);
                }
            }
            SandboxAction::Keep { id, running } => {
                self.stopping = None;
                if !running {
                    self.start(&id, None, now);
                }
                for kill in &actions.kill {
                    let grace = super::probes::grace_of(pod, kill);
                    self.stop_one(&kill.id, grace, Some(&pod.spec), Some(&kill.message), now);
                }
                self.kill_after_post_start(pod, now);
                for at in &actions.start {
                    if self.post_start_runs() || !volumes_ready {
                        break;
                    }
                    let goes_on = self.start_container(pod, *at, &id, running, now);
                    // An init container is not overtaken while it waits, and none is whose postStart will run.
                    let ends =
                        if goes_on { has_post_start(pod, *at) } else { at.kind == ContainerKind::Init };
                    if ends {
                        break;
                    }
                }
            }
        }
        if !self.any_in_flight(|j| {
            matches!(j, Job::CreateSandbox { .. } | Job::Create { .. } | Job::Start { .. })
        }) {
            self.remove_surplus(Some(pod), now);
        }
    }

    /// Once for each sandbox that there was.
    fn tell_sandbox_change(&mut self, pod: &DesiredPod) {
        let sandboxes = self.seen.all.iter().filter(|c| c.is_sandbox() && c.uid == pod.uid);
        let Some(old) = sandboxes.max_by_key(|c| c.attempt).map(|c| c.id.clone()) else { return };
        if self.sandbox_told.as_ref() != Some(&old) {
            self.sandbox_told = Some(old);
            self.tell(None, words::sandbox_changed());
        }
    }

    fn create_sandbox(&mut self, pod: &Arc<DesiredPod>, attempt: u32, now: &Now) {
        if self.making(None) || self.is_full() || self.held_back(labels::SANDBOX_NAME, now) {
            return;
        }
        let image = &self.settings.map.infra_image;
        if self.pulling.contains_key(image) || self.pull_held_back(pod, None, &image.clone(), now) {
            return;
        }
        // Attempts only grow, also past what an earlier life left behind.
        if self.name_is_too_long(pod) {
            return;
        }
        let left = self.all_seen().filter(|c| c.uid == pod.uid && c.is_sandbox()).map(|c| c.attempt).max();
        let attempt = left.map_or(attempt, |a| attempt.max(a.saturating_add(1)));
        if let Some(wait) = self.sandbox_wait(now) {
            self.wake_at(wait);
            return;
        }
        let (name, mut body) = map::sandbox(pod, attempt, &self.settings.map);
        body.labels.extend(self.active_since(pod).map(|since| (labels::ACTIVE_SINCE.to_owned(), since)));
        self.place(&mut body, pod);
        let name = self.with_suffix(labels::SANDBOX_NAME, name);
        let role = Role::Sandbox { host_network: pod.host_network(), ips: Vec::new() };
        let job = Job::CreateSandbox { name: name.clone(), attempt, role };
        self.call(job, Call::Create { name, body: Box::new(body) });
    }

    /// A sandbox that keeps dying young is made again more and more slowly.
    fn sandbox_wait(&mut self, now: &Now) -> Option<Mono> {
        let newest = self.seen.all.iter().filter(|c| c.is_sandbox()).max_by_key(|c| c.attempt)?;
        let RunState::Exited(exit) = &newest.state else { return None };
        let seen = exit.seen?;
        let young = match self.sandbox_started.get(&newest.id) {
            Some(started) => seen.since(*started) < limits::SANDBOX_YOUNG,
            None => exit.cannot_run,
        };
        let id = newest.id.clone();
        let retry = self.create_retry.entry(format!("{}:death", labels::SANDBOX_NAME)).or_default();
        if !young {
            retry.tries = 0;
            return None;
        }
        // One failure is counted once, however often it is looked at: the entry remembers whose.
        if self.sandbox_counted.as_deref() != Some(&id) {
            retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono);
            self.sandbox_counted = Some(id);
        }
        let until = retry.until;
        (now.mono < until).then_some(until)
    }

    fn with_suffix(&self, container: &str, name: String) -> String {
        match self.suffixed.get(container) {
            Some(suffix) => names::with_suffix(&name, *suffix),
            None => name,
        }
    }

    /// Starts one made container, unless that is under way; first its hosts file is brought up to date.
    fn start(&mut self, id: &str, hosts: Option<HostsFile>, now: &Now) {
        let until = self.start_retry.get(id).map_or(Mono::default(), |r| r.until);
        if now.mono < until {
            self.wake_at(until);
            return;
        }
        if self.busy(id) || self.is_full() {
            return;
        }
        self.out.extend(hosts.map(Output::Hosts));
        self.call(Job::Start { id: id.to_owned() }, Call::Start { id: id.to_owned() });
    }

    /// Takes one container a step further. False: it waits for something of its own (not for the
    /// sandbox), and an init container behind it must not overtake it.
    fn start_container(
        &mut self,
        pod: &Arc<DesiredPod>,
        at: StartRef,
        sandbox: &str,
        up: bool,
        now: &Now,
    ) -> bool {
        let Some(container) = plan::actions::container_of(pod, at) else { return true };
        let name = container.name.as_str();
        if self.making(Some(name)) {
            return true;
        }
        let newest = self.seen.newest(&pod.uid, name);
        if self.seen.instances(&pod.uid, name).iter().any(|c| c.state.is_running()) {
            // Being killed; its end brings us here again. Not only the newest: an older one, whose start
            // came late, may run beside one that is made already.
            return true;
        }
        if let Some(made) = plan::actions::made_for(pod, &self.seen, sandbox, at) {
            let id = made.id.clone();
            if up && self.network_is_known(pod, sandbox) {
                self.start(&id, self.hosts(pod, container, sandbox), now);
            }
            return true;
        }
        let died = newest.and_then(|c| match &c.state {
            RunState::Exited(exit) => Some(exit.seen),
            _ => None,
        });
        if let Some(seen) = died {
            let key = backoff::crash_key(container);
            if let Wait::Wait { until, delay } = self.crashes.check(&key, seen, now.mono) {
                let message = backoff::crash_message(delay, name, pod);
                self.wait_for(name, "CrashLoopBackOff", &message, [words::backs_off(name, pod)]);
                self.wake_at(until);
                return false;
            }
        }
        if self.is_full() || self.held_back(name, now) {
            return false;
        }
        let last = self.all_seen().filter(|c| c.uid == pod.uid && c.container_name() == Some(name));
        let attempt = last.map(|c| c.attempt.saturating_add(1)).max().unwrap_or(0);
        if !self.image_ready(pod, container, attempt, now) {
            return false;
        }
        let expanded = match self.environment(pod, container, sandbox, up) {
            Environment::Ready(expanded) => expanded,
            Environment::Later => return true,
            Environment::Wrong(why) => {
                // Other objects bring the next turn, and other addresses of the node are looked for.
                if env::tells_addresses(container) != (false, false) {
                    self.retry_later(name, now);
                }
                self.wait_for(name, CONFIG_ERROR, &why, [words::error(&why)]);
                return false;
            }
        };
        let mounts = map::mounts::of(pod, container, &expanded.env, Path::new(&self.settings.map.root_dir));
        let mounts = match mounts {
            Ok(mounts) => mounts,
            Err(why) => {
                self.wait_for(name, CONFIG_ERROR, &why, [words::error(&why)]);
                return false;
            }
        };
        let Some(user) = self.user_of(pod, container, attempt) else { return false };
        if self.waiting.get(name).is_some_and(|why| why.reason == CONFIG_ERROR) {
            self.waiting.remove(name);
        }
        let ready = map::Ready { expanded, ips: self.pod_ips(sandbox), mounts };
        let made = map::container(pod, at, attempt, sandbox, ready, &self.settings.map);
        let Some((docker_name, mut body)) = made else { return true };
        body.user = user;
        self.has_files(&pod.uid);
        self.place(&mut body, pod);
        let docker_name = self.with_suffix(name, docker_name);
        let role = Role::Container {
            name: name.to_owned(),
            kind: at.kind,
            index: u32::try_from(at.index).unwrap_or(u32::MAX),
            sandbox_id: sandbox.to_owned(),
            hash: Some(container_hash(name, container.image.as_deref().unwrap_or_default())),
        };
        let job = Job::Create {
            name: docker_name.clone(),
            container: name.to_owned(),
            attempt,
            sandbox: sandbox.to_owned(),
            role,
            crash_key: backoff::crash_key(container),
            size: body.host_config.resources(),
        };
        self.call(job, Call::Create { name: docker_name, body: Box::new(body) });
        true
    }

    /// A create was not sent: what it needs on disk cannot be had. Follow with [`Machine::step`].
    pub fn unprepared(&mut self, token: Token, why: &str, now: &Now) {
        let Some(Job::Create { container, .. }) = self.in_flight.remove(&token) else { return };
        self.retry_later(&container, now);
        self.failed(&container, CONFIG_ERROR, why, [words::error(why)]);
    }

    /// What must be gone before anything is made: leftovers of an earlier life that hold names of this one
    /// and would count as its attempts; and what was made and never started, and will not be (of another
    /// life, or of another spec of this one), for a start that a dead daemon sent may still be on its way.
    /// One that cannot be removed holds up nothing, unless a start of it may still come.
    fn is_in_the_way(&self, pod: &DesiredPod, now: &Now) -> bool {
        if self.old.all.is_empty() && !self.seen.all.iter().any(|c| c.state == RunState::Created) {
            return false;
        }
        let surplus = plan::surplus(Some(pod), &self.seen);
        let of_this_name =
            |c: &&Owned| c.uid == pod.uid || names::parse(&c.docker_name).is_some_and(|n| n.uid == pod.uid);
        let never_started =
            |c: &&Owned| c.state == RunState::Created && (c.uid != pod.uid || surplus.contains(&c.id));
        let old = self.old.all.iter().filter(of_this_name);
        let made = self.all_seen().filter(never_started);
        let may_come = |id: &str| self.late_starts.get(id).is_some_and(|until| now.mono < *until);
        let made = made.map(|c| (c, may_come(&c.id)));
        old.map(|c| (c, false)).chain(made).any(|(c, late)| late || !self.removals.contains_key(&c.id))
    }

    /// A create (or the clearing up of its name) for this container is under way; `None`: the sandbox.
    fn making(&self, container: Option<&str>) -> bool {
        self.any_in_flight(|j| match j {
            Job::CreateSandbox { .. } => container.is_none(),
            Job::Create { container: it, .. } => container == Some(it),
            Job::Conflict { place, .. } => place.container.as_deref() == container,
            _ => false,
        })
    }

    /// An earlier failure of this very thing asks for patience.
    fn held_back(&mut self, what: &str, now: &Now) -> bool {
        let until = self.create_retry.get(what).map_or(Mono::default(), |r| r.until);
        if now.mono < until {
            self.wake_at(until);
            return true;
        }
        false
    }

    /// The image of this attempt may be used. Absence is found out by the create itself, so that a start
    /// with the image in place costs no extra call.
    fn image_ready(&mut self, pod: &Arc<DesiredPod>, container: &Container, attempt: u32, now: &Now) -> bool {
        let Some(image) = container.image.as_deref() else { return false };
        if self.pulling.contains_key(image) || self.is_no_image(&container.name, image) {
            return false;
        }
        if self.ensured.get(&container.name).is_some_and(|e| e.attempt == attempt) {
            return true;
        }
        if container.image_pull_policy.as_deref() == Some("Never") {
            // Somebody may bring the image: ask again, ever more rarely.
            return true;
        }
        if self.pull_held_back(pod, Some(&container.name), image, now) {
            return false;
        }
        let always = container.image_pull_policy.as_deref() == Some("Always");
        if !always && !self.missing.contains(&container.name) {
            return true;
        }
        let ask = Ask { container: Some(container.name.clone()), since: now.mono };
        self.pulling.insert(image.to_owned(), ask);
        self.waiting.remove(&container.name);
        let (image, credentials) = (image.to_owned(), self.pull_credentials(pod));
        self.tell(Some(&container.name), words::pulling(&image));
        let request = PullRequest { image, builtin: false, local_copy_will_do: always, credentials };
        self.out.push(Output::Pull(request));
        false
    }

    /// Within the image back-off; says so on the container.
    fn pull_held_back(
        &mut self,
        pod: &Arc<DesiredPod>,
        container: Option<&str>,
        image: &str,
        now: &Now,
    ) -> bool {
        let Some((failed, kind, why)) = self.pull_failures.get(image).cloned() else { return false };
        match self.pulls.check_retry(image, now.mono) {
            Wait::Go => false,
            Wait::Wait { until, delay } => {
                // As with the kubelet, the error itself stands first, and then that it waits.
                let turn = failed.after(delay / 2);
                let (reason, message, backs_off) = if now.mono < turn {
                    self.wake_at(turn);
                    (kind, why, None)
                } else {
                    let message = backoff::pull_message(image, Some((kind, &why)));
                    ("ImagePullBackOff", message, Some(words::pull_backs_off(image)))
                };
                match container {
                    Some(name) => {
                        let told = backs_off.into_iter().chain([words::error(reason)]);
                        self.wait_for(name, reason, &message, told);
                    }
                    None => {
                        let message = format!("sandbox image {image:?}: {message}");
                        if self.sandbox_problem(pod, &message) {
                            self.tell(None, words::sandbox_failed(&message));
                        }
                    }
                }
                self.wake_at(until);
                true
            }
        }
    }

    /// The create of a container, or (`POD`) of the sandbox, does not work.
    pub(super) fn create_problem(&mut self, what: &str, message: String) {
        match self.state.clone() {
            State::Syncing(pod) if what == labels::SANDBOX_NAME => {
                self.sandbox_problem(&pod, &message);
                self.tell(None, words::sandbox_failed(&message));
            }
            _ => self.failed(what, "CreateContainerError", &message, [words::error(&message)]),
        }
    }

    /// The sandbox image is missing: have it loaded or pulled.
    pub(super) fn fetch_sandbox_image(&mut self, now: &Now) {
        let image = self.settings.map.infra_image.clone();
        if !self.pulling.contains_key(&image) {
            self.pulling.insert(image.clone(), Ask { container: None, since: now.mono });
            let builtin = self.settings.builtin_sandbox;
            self.out.push(Output::Pull(PullRequest {
                image,
                builtin,
                local_copy_will_do: false,
                credentials: Vec::new(),
            }));
        }
    }

    pub(super) fn pulled(&mut self, pulled: Pulled, now: &Now) {
        let Pulled { image, outcome, took, size } = pulled;
        let Some(Ask { container, since }) = self.pulling.remove(&image) else { return };
        let container = container.as_deref();
        match outcome {
            PullOutcome::Done | PullOutcome::LocalCopy(_) => {
                if let Some(name) = container {
                    let waited = now.mono.since(since);
                    let told = match &outcome {
                        PullOutcome::LocalCopy(why) => words::local_copy(&image, why),
                        _ => words::pulled(&image, took, waited, size),
                    };
                    self.tell(Some(name), told);
                }
                let told = container.filter(|_| outcome == PullOutcome::Done);
                self.pull_failures.remove(&image);
                self.image_arrived(&image, told);
            }
            PullOutcome::Failed(why) => {
                match container {
                    Some(name) => self.tell(Some(name), words::pull_failed(&image, &why)),
                    None => {
                        let why = format!("failed pulling image {image:?}: {why}");
                        self.tell(None, words::sandbox_failed(&why));
                    }
                }
                // Without a registry somebody may load it by hand: the next create finds out.
                if let State::Syncing(pod) = &self.state {
                    let users = pod.containers().filter(|(_, c)| c.image.as_deref() == Some(&image));
                    for (_, container) in users {
                        self.missing.remove(&container.name);
                    }
                }
                self.pulls.advance(&image, Some(now.mono), now.mono);
                let (reason, message) = failure::explain(&image, &why);
                self.pull_failures.insert(image, (now.mono, reason, message));
            }
        }
    }

    /// Every container of this image may now be made, for its next attempt. It was told for one of them.
    fn image_arrived(&mut self, image: &str, told: Option<&str>) {
        let State::Syncing(pod) = self.state.clone() else { return };
        if image == self.settings.map.infra_image {
            self.ensured.insert(labels::SANDBOX_NAME.to_owned(), Ensured { attempt: 0, told: true });
        }
        for (_, container) in pod.containers().filter(|(_, c)| c.image.as_deref() == Some(image)) {
            let name = &container.name;
            let last = self.all_seen().filter(|c| c.uid == pod.uid && c.container_name() == Some(name));
            let attempt = last.map(|c| c.attempt.saturating_add(1)).max().unwrap_or(0);
            self.ensured.insert(name.clone(), Ensured { attempt, told: told == Some(name) });
            self.missing.remove(name);
            self.waiting.remove(name);
        }
    }

    /// The create of this container was refused for want of its image.
    pub(super) fn image_missing(&mut self, container: &Container, now: &Now) {
        let image = container.image.as_deref().unwrap_or_default();
        if self.ensured.remove(&container.name).is_some() {
            // It was pulled for this very attempt, and Docker still does not find it.
            self.retry_later(&container.name, now);
        }
        if container.image_pull_policy.as_deref() == Some("Never") {
            let message = format!("Container image {image:?} is not present with pull policy of Never");
            let told = [words::never_pulled(&message), words::error(NEVER_PULL)];
            self.failed(&container.name, NEVER_PULL, &message, told);
            self.out.push(Output::Missing(image.to_owned()));
            self.retry_later(&container.name, now);
            return;
        }
        self.missing.insert(container.name.clone());
    }

    /// Counts a failure of this thing.
    pub(super) fn retry_later(&mut self, what: &str, now: &Now) -> Duration {
        let retry = self.create_retry.entry(what.to_owned()).or_default();
        retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono);
        let until = retry.until;
        self.wake_at(until);
        until.since(now.mono)
    }

    /// Counts what may be no failure at all: the first time nothing is waited for.
    pub(super) fn retry_soon(&mut self, what: &str, now: &Now) {
        match self.create_retry.get_mut(what) {
            Some(retry) => retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono),
            None => _ = self.create_retry.insert(what.to_owned(), Retry::default()),
        }
    }

    /// What to look up when a name is taken.
    pub(super) fn resolve_conflict(&mut self, name: String, place: Place) {
        self.call(Job::Conflict { name: name.clone(), place }, Call::Inspect { id: name });
    }
}
