//! Handles Docker's answers (those to a create: `made` and `sandbox`). An answer changes the known state at once. When
//! it leaves a doubt (no answer, a lost one) the machine looks again before it acts: no request is sent twice.

use log::Level;

use super::Machine;
use super::calls::{Job, Retry};
use super::containers::Look;
use super::containers::merge::{cannot_run, what};
use super::members::Part;
use super::output::{Output, Token};
use super::start::made::Made;
use super::state::State;
use super::stop::Signalled;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::mapping::observe;
use crate::plan::{Owned, RunState};
use crate::pod::waiting::Reason;
use crate::recorder::words;
use crate::runtime::{DockerError, RefusalKind, Reply};

impl Machine {
    /// Takes the answer to a call.
    pub(super) fn reply(&mut self, token: Token, answer: Result<Reply, DockerError>, now: &Now) {
        let Some(job) = self.calls.end(token) else { return };
        // An answer of another kind counts as no answer: Docker may have carried out the call.
        let answer = answer.and_then(|reply| job.checked(reply));
        if let Err(error) = &answer
            && self.blame_docker(&job, error, now)
        {
            return;
        }
        match job {
            Job::List => match answer.and_then(Reply::containers) {
                Ok(list) => self.listed(&list, now),
                Err(error) => self.list_trouble(&format!("container list: {error}"), now),
            },
            Job::Inspect { id, needed } => {
                let root = self.settings.map.root_dir.clone();
                let answer = match answer.and_then(Reply::container) {
                    // Docker never changes labels: an inspect without ours has lost them, and the container is as alive
                    // as before (balena-os/meta-balena#2062).
                    Ok(detail) => observe::from_detail(&detail, &root).map(Some).ok_or_else(|| {
                        DockerError::BadAnswer("its inspection lacks podkeeper's labels".to_owned())
                    }),
                    Err(e) if e.refusal() == Some(&RefusalKind::NoSuchContainer) => Ok(None),
                    Err(error) => Err(error),
                };
                self.inspected(&id, needed, answer, now);
            }
            Job::Unlisted { id } => self.unlisted_told(&id, answer.and_then(Reply::container), now),
            Job::Conflict { name, place } => {
                self.conflict_seen(&name, place, answer.and_then(Reply::container), now);
            }
            Job::CreateSandbox { name, attempt, role } => {
                self.sandbox_made(name, attempt, role, answer.and_then(Reply::created), now);
            }
            Job::Create { name, container, attempt, never_ran, sandbox, role, crash_key, size } => {
                let made = Made { name, container: &container, attempt, never_ran, role, crash_key, size };
                self.container_made(made, &sandbox, answer.and_then(Reply::created), now);
            }
            Job::Start { id } => self.started(&id, answer.and_then(Reply::done), now),
            Job::Kill { id } => self.killed(&id, answer.and_then(Reply::done), now),
            Job::Remove { id } => match answer.and_then(Reply::done) {
                Ok(()) => self.removed(&id, now),
                Err(error) => match error.refusal() {
                    Some(RefusalKind::NoSuchContainer) => self.vanished(&id),
                    // Dead containers that joined it are kept for their logs, and it is kept with them.
                    Some(RefusalKind::HasDependents) => _ = self.remove_later(&id, now),
                    Some(RefusalKind::RemovalInProgress) => self.removal_failed(&id, "removal goes on", now),
                    Some(RefusalKind::StillRunning) => self.removal_too_early(&id, now),
                    _ => self.removal_failed(&id, &error.to_string(), now),
                },
            },
            Job::Rename { id, name } => self.renamed(&id, name, answer.and_then(Reply::done), now),
            Job::Log { id } => self.log_read(&id, answer.and_then(Reply::output)),
            Job::Update { id, resources } => {
                self.updated(&id, resources, answer.and_then(Reply::done), now);
            }
            Job::ImageUser { container, image, attempt } => {
                self.image_user(container, &image, attempt, answer.and_then(Reply::image), now);
            }
            // Asked once for each image; without an answer again at the next look at a container of it.
            Job::ImageInspect { image_id } => match answer.and_then(Reply::image) {
                Ok(image) => self.images.digest_is(&image_id, image.digests.into_iter().next()),
                Err(DockerError::Refused(_)) => {}
                Err(_) => self.images.forget_digest(&image_id),
            },
        }
    }

    /// Handles errors that say nothing about the container, only about Docker. The machine looks again after them.
    fn blame_docker(&mut self, job: &Job, error: &DockerError, now: &Now) -> bool {
        match (job, error) {
            (_, DockerError::Refused(_)) => false,
            (_, DockerError::Unreachable(_) | DockerError::Version(_)) => {
                self.undo(job, false, now);
                self.docker_trouble(&error.to_string(), now);
                true
            }
            // A call without an answer affects only its own object.
            (
                _,
                DockerError::Timeout(_)
                | DockerError::Stalled(_)
                | DockerError::Lost(_)
                | DockerError::BadAnswer(_)
                | DockerError::TooLarge(_),
            ) => self.look_after_silence(job, &error.to_string(), now),
        }
    }

    /// Handles a call without an answer: Docker may have carried it out, or may still do so, and is asked before
    /// anything is made in its place. Returns false when the job's own handler takes the error.
    fn look_after_silence(&mut self, job: &Job, why: &str, now: &Now) -> bool {
        match job {
            Job::List
            | Job::Inspect { .. }
            | Job::Unlisted { .. }
            | Job::ImageInspect { .. }
            | Job::ImageUser { .. }
            | Job::Log { .. }
            | Job::Rename { .. }
            | Job::Update { .. }
            | Job::Remove { .. } => return false,
            Job::Conflict { place, .. } => {
                self.create_lost(&place.part, why, now);
            }
            Job::CreateSandbox { .. } => self.create_lost(&Part::Sandbox, why, now),
            Job::Create { container, .. } => self.create_lost(&Part::container(container), why, now),
            Job::Start { id } => {
                self.looking.list_needed = true;
                self.containers.start_may_come(id, now.mono.after(limits::LATE_START));
                let Some((owned, record)) = self.containers.get_mut(id) else { return true };
                // The start may happen at any moment: removing the container at once would hide its run.
                record.removal.until = record.removal.until.max(now.mono.after(limits::CALL_RETRY_MIN));
                let part = Part::of(owned);
                if self.members.start_lost(&part, now) {
                    self.tell_lost(&part, "start", why);
                }
            }
            Job::Kill { id } => {
                self.undo(job, true, now);
                self.doubt(id);
                // It may have arrived: what ends now may not have ended by itself, and a job runs at least once.
                if let Some(record) = self.containers.record_mut(id) {
                    record.run.is_signalled = true;
                }
            }
        }
        true
    }

    /// Handles a create without an answer: a list shows whether it was carried out, and the next one waits.
    pub(super) fn create_lost(&mut self, part: &Part, why: &str, now: &Now) {
        self.looking.list_needed = true;
        if !matches!(self.state, State::Syncing(_)) {
            return;
        }
        let member = self.members.part_mut(part);
        let first = member.create_retry.is_none();
        // A much earlier one is of another attempt.
        let is_old = |lost: Mono| now.mono.since(lost) > limits::CREATE_UNFINISHED.saturating_mul(4);
        if member.create_lost.is_none_or(is_old) {
            member.create_lost = Some(now.mono);
        }
        self.retry_later(part, now);
        if first {
            self.tell_lost(part, "create", why);
        }
    }

    fn tell_lost(&mut self, part: &Part, verb: &str, why: &str) {
        self.tell(None, words::sync_failed(&format!("{verb} of {part}: {why}; tried again")));
    }

    /// Takes back the notes about a call that may not have arrived: a signal is sent again if the container still runs,
    /// and a question is asked again. `sent`: whether it may have arrived at all.
    fn undo(&mut self, job: &Job, sent: bool, now: &Now) {
        match job {
            Job::Kill { id } => {
                let Some(record) = self.containers.record_mut(id) else { return };
                let Some(stop) = &mut record.run.stop else { return };
                stop.missed(sent, now);
                if !sent && !record.run.is_signalled {
                    self.out.push(Output::Signalled(id.clone(), false));
                }
            }
            Job::Inspect { id, needed } => self.ask_again(id, *needed),
            Job::Log { id } => {
                if let Some(record) = self.containers.record_mut(id) {
                    record.run.message = None;
                }
            }
            Job::Rename { .. } => _ = self.mark_later(now),
            Job::ImageInspect { image_id } => self.images.forget_digest(image_id),
            // Nothing was noted: the next decision starts from what is known.
            Job::List
            | Job::Unlisted { .. }
            | Job::Conflict { .. }
            | Job::CreateSandbox { .. }
            | Job::Create { .. }
            | Job::Start { .. }
            | Job::Remove { .. }
            | Job::Update { .. }
            | Job::ImageUser { .. } => {}
        }
    }

    fn started(&mut self, id: &str, answer: Result<(), DockerError>, now: &Now) {
        let Some((container, record)) = self.containers.current_mut(id) else {
            self.looking.list_needed = true;
            return;
        };
        let name = container.container_name().map(str::to_owned);
        if let Err(error) = answer {
            return self.start_refused(id, name, &error, now);
        }
        container.state = RunState::Running { started: None };
        record.needs(Look::Wanted);
        self.has_begun(id, now);
    }

    /// Notes that a container runs, or ran, that was only made before: Docker answered its start, or a look shows it.
    pub(super) fn has_begun(&mut self, id: &str, now: &Now) {
        let Some((container, record)) = self.containers.get_mut(id) else { return };
        record.start_retry = None;
        self.members.part_mut(&Part::of(container)).start_retry = None;
        let ours = record.run.started.is_some();
        if ours {
            record.run.started = Some(now.mono);
        }
        let told = container.clone();
        self.tell_of(&told, words::started());
        if !told.state.is_running() {
            return;
        }
        // The event is recorded once, and counted from then on.
        if told.attempt > told.never_ran && !told.is_sandbox() {
            self.out.log(Level::Info, format!("pod {}: {} runs", self.key, what(&told)));
        }
        // A start by somebody else does not run the hook.
        if ours {
            self.begin_post_start(id, now);
        }
        match told.container_name() {
            Some(name) => self.members.get_mut(name).waiting = None,
            None => {
                self.sandbox_has_cgroup(&told.uid);
                // Containers were waiting for the sandbox.
                self.members.no_longer_wait(Reason::ContainerCreating);
            }
        }
    }

    fn start_refused(&mut self, id: &str, name: Option<String>, error: &DockerError, now: &Now) {
        if error.refusal() == Some(&RefusalKind::NotSent) {
            // The container stays as it is and waits until its needs can be met.
            if let Some(record) = self.containers.record_mut(id) {
                let retry = record.start_retry.get_or_insert_default();
                retry.failed(now);
            }
            if let Some(name) = name {
                let why = error.to_string();
                self.failed(&name, Reason::CreateContainerConfigError, &why, [words::error(&why)]);
            }
            return;
        }
        self.doubt(id);
        if let Some(RefusalKind::NoSuchContainer | RefusalKind::SandboxNotRunning) = error.refusal() {
            // The sandbox died in between, and its containers are replaced with it. Docker's 404 may be about either of
            // them.
            if let Some(sandbox) = self.containers.get(id).and_then(Owned::sandbox_id).map(str::to_owned) {
                self.doubt(&sandbox);
            }
            if let Some(record) = self.containers.record_mut(id) {
                Retry::forgive_once(&mut record.start_retry, now);
            }
            return;
        }
        if name.is_none() {
            self.network_may_be_gone(error);
        }
        if let Some((container, record)) = self.containers.current_mut(id) {
            record.run.started = None;
            record.start_error = Some(error.to_string());
            container.state = RunState::Exited(cannot_run(error.to_string(), now.mono));
        }
        self.start_problem(name, error);
    }

    /// Reports a refused start of a container, or (`None`) of the sandbox.
    fn start_problem(&mut self, name: Option<String>, error: &DockerError) {
        match name {
            Some(name) => {
                let why = error.to_string();
                self.failed(&name, Reason::RunContainerError, &why, [words::error(&why)]);
            }
            None => {
                if let State::Syncing(pod) = self.state.clone() {
                    self.sandbox_problem(&pod, &format!("failed to start pod sandbox: {error}"));
                    let why = format!("failed to start sandbox container: {error}");
                    self.tell(None, words::sandbox_failed(&why));
                }
            }
        }
    }

    /// Notes that a signal did not find the container running. If lists still have it, the next signal waits.
    fn denied(&mut self, id: &str, now: &Now) {
        let retry = self.looking.denied.get_or_default(id.to_owned());
        retry.failed(now);
    }

    fn killed(&mut self, id: &str, answer: Result<(), DockerError>, now: &Now) {
        if let Some((container, record)) = self.containers.get_mut(id) {
            let refusal = answer.as_ref().err().and_then(DockerError::refusal);
            if !matches!(refusal, Some(RefusalKind::NoSuchContainer | RefusalKind::NotRunning)) {
                record.run.is_signalled = true;
            } else if record.run.again && !record.run.is_told_to_end() {
                (record.run.again, container.killed) = (false, false);
                self.out.push(Output::Signalled(id.to_owned(), false));
            }
        }
        let Err(error) = answer else { return self.signal_arrived(id, now.mono) };
        let bad_signal = match error.refusal() {
            // This counts like the answer of an inspect. If Docker contradicts itself, the list has the container.
            Some(RefusalKind::NoSuchContainer) => {
                self.denied(id, now);
                self.vanished(id);
                self.looking.list_needed = true;
                return;
            }
            Some(RefusalKind::NotRunning) => {
                let unseen = self.containers.record(id).is_some_and(|record| record.look_retry.has_failed());
                if !unseen {
                    return self.doubt(id);
                }
                self.denied(id, now);
                return self.lost(id, now);
            }
            kind => kind == Some(&RefusalKind::BadRequest),
        };
        self.doubt(id);
        let Some((container, record)) = self.containers.get_mut(id) else { return };
        let Some(stop) = &mut record.run.stop else { return };
        if bad_signal && !stop.term && matches!(stop.signalled, Signalled::Asked(_)) {
            (stop.term, stop.signalled) = (true, Signalled::Not);
        } else {
            stop.missed(true, now);
        }
        if !std::mem::replace(&mut stop.told, true) {
            let part = Part::of(container);
            self.tell(None, words::kill_failed(&format!("{part} could not be signalled: {error}")));
        }
    }
}
