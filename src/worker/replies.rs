//! What Docker's answers mean to a worker. An answer is applied to what is known at once; where it leaves
//! a doubt (no answer, a lost one) the worker looks again before it acts: no request is sent twice.

use log::Level;

use super::look::{cannot_run, short};
use super::machine::{Job, Machine, Place, Retry, Token};
use super::start::spec_of;
use super::state::State;
use crate::clock::Now;
use crate::limits;
use crate::plan::backoff;
use crate::plan::{Owned, Role, RunState, StartRef};
use crate::runtime::{ContainerDetail, DockerError, RefusalKind, Reply, labels, observe};

impl Machine {
    /// Takes the answer to a call. Follow with [`Machine::step`].
    pub fn reply(&mut self, token: Token, answer: Result<Reply, DockerError>, now: &Now) {
        let Some(job) = self.in_flight.remove(&token) else { return };
        if let Err(error) = &answer
            && self.docker_is_to_blame(&job, error, now)
        {
            return;
        }
        if answer.is_ok() {
            self.trouble = Retry::default();
        }
        match job {
            Job::List => match answer {
                Ok(Reply::Containers(list)) => self.listed(&list, now),
                other => self.odd(other, "container list", now),
            },
            Job::Inspect { id } => {
                let root = self.settings.map.root_dir.clone();
                let answer = match answer {
                    // Docker never changes labels: an inspection without ours has lost them, and the
                    // container is as alive as before (balena-os/meta-balena#2062).
                    Ok(Reply::Container(detail)) => {
                        observe::from_detail(&detail, &root).map(Some).ok_or_else(|| {
                            DockerError::BadAnswer("its inspection lacks podkeeper's labels".to_owned())
                        })
                    }
                    Err(e) if e.refusal() == Some(&RefusalKind::NoSuchContainer) => Ok(None),
                    Err(error) => Err(error),
                    Ok(_) => Err(DockerError::BadAnswer("inspect".into())),
                };
                self.inspected(&id, answer, now);
            }
            Job::Conflict { name, place } => self.conflict_seen(&name, place, answer, now),
            Job::CreateSandbox { name, attempt } => self.sandbox_made(name, attempt, answer, now),
            Job::Create { name, at, container, attempt, sandbox } => {
                self.container_made(name, at, &container, attempt, sandbox, answer, now);
            }
            Job::Start { id } => self.started(&id, answer, now),
            Job::Kill { id, .. } => self.killed(&id, answer),
            Job::Remove { id } => match answer {
                Ok(_) => self.removed(&id, now),
                Err(error) => match error.refusal() {
                    Some(RefusalKind::NoSuchContainer) => self.vanished(&id, now),
                    // The dead that joined it are kept for their logs, and it is kept with them.
                    Some(RefusalKind::HasDependents) => _ = self.remove_later(&id, now),
                    Some(RefusalKind::RemovalInProgress) => self.removal_failed(&id, "removal goes on", now),
                    Some(RefusalKind::StillRunning) => {
                        self.blind.insert(id.clone());
                        self.removal_failed(&id, "it runs", now);
                    }
                    _ => self.removal_failed(&id, &error.to_string(), now),
                },
            },
            Job::ImageInspect { image_id } => {
                // Asked once for each image: without an answer the status shows the bare id.
                if let Ok(Reply::Image(image)) = answer {
                    let digest = image.digests.into_iter().next();
                    self.digests.extend(digest.map(|digest| (image_id, digest)));
                }
            }
        }
    }

    /// Errors that say nothing about the container, only about Docker. After them the worker looks again.
    fn docker_is_to_blame(&mut self, job: &Job, error: &DockerError, now: &Now) -> bool {
        match (job, error) {
            (_, DockerError::Refused(_)) => false,
            (_, DockerError::Unreachable(_) | DockerError::Version(_)) => {
                self.undo_kill(job);
                self.docker_trouble(error.to_string(), now);
                true
            }
            // One inspect, image look-up or removal that gets no answer is that container's trouble alone.
            (Job::Inspect { .. } | Job::ImageInspect { .. } | Job::Remove { .. }, _) => false,
            (_, DockerError::Timeout(_) | DockerError::Lost(_) | DockerError::BadAnswer(_)) => {
                self.undo_kill(job);
                self.docker_trouble(error.to_string(), now);
                true
            }
        }
    }

    /// A signal that may not have arrived is sent again once the container is seen to run still.
    fn undo_kill(&mut self, job: &Job) {
        if let Job::Kill { id, .. } = job
            && let Some(stop) = self.stops.get_mut(id)
        {
            stop.sent = None;
        }
    }

    fn odd(&mut self, answer: Result<Reply, DockerError>, what: &str, now: &Now) {
        let why = match answer {
            Ok(_) => format!("{what}: an answer of another kind"),
            Err(error) => format!("{what}: {error}"),
        };
        self.docker_trouble(why, now);
    }

    fn sandbox_made(&mut self, name: String, attempt: u32, answer: Result<Reply, DockerError>, now: &Now) {
        let State::Syncing(pod) = self.state.clone() else {
            // Stopped meanwhile: what was made is found and removed by a look.
            self.list_needed = true;
            return;
        };
        match answer {
            Ok(Reply::Created { id, warnings }) => {
                self.warn_all(&warnings);
                self.create_retry.remove(labels::SANDBOX_NAME);
                self.suffixed.remove(labels::SANDBOX_NAME);
                let role = Role::Sandbox { host_network: pod.host_network(), ips: Vec::new() };
                let mut made = self.fresh(id, name, attempt, role);
                made.uid.clone_from(&pod.uid);
                self.seen.all.push(made);
            }
            Ok(_) => self.odd(answer, "create", now),
            Err(error) => match error.refusal() {
                Some(RefusalKind::NameInUse(_)) => {
                    self.resolve_conflict(name, Place { container: None, attempt })
                }
                Some(RefusalKind::NoSuchImage) => self.fetch_sandbox_image(),
                _ => {
                    let wait = self.retry_later(labels::SANDBOX_NAME, now);
                    let message =
                        format!("failed to create pod sandbox: {error}; tried again in {} s", wait.as_secs());
                    self.sandbox_problem(&pod, message);
                }
            },
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one job")]
    fn container_made(
        &mut self,
        name: String,
        at: StartRef,
        container: &str,
        attempt: u32,
        sandbox: String,
        answer: Result<Reply, DockerError>,
        now: &Now,
    ) {
        let State::Syncing(pod) = self.state.clone() else {
            self.list_needed = true;
            return;
        };
        match answer {
            Ok(Reply::Created { id, warnings }) => {
                self.warn_all(&warnings);
                self.create_retry.remove(container);
                self.suffixed.remove(container);
                self.missing.remove(container);
                // A restart counts once its container is made; a create that failed was none.
                let died = self.seen.newest(&pod.uid, container).and_then(|c| match &c.state {
                    RunState::Exited(exit) => Some(exit.seen),
                    _ => None,
                });
                if let (Some(seen), Some(spec)) = (died, spec_of(&pod, at)) {
                    self.crashes.advance(&backoff::crash_key(spec), seen, now.mono);
                }
                let hash = spec_of(&pod, at).map(|c| {
                    crate::manifest::hash::container_hash(&c.name, c.image.as_deref().unwrap_or_default())
                });
                let role = Role::Container {
                    name: container.to_owned(),
                    kind: at.kind,
                    index: u32::try_from(at.index).unwrap_or(u32::MAX),
                    sandbox_id: sandbox,
                    hash,
                };
                let mut made = self.fresh(id, name, attempt, role);
                made.uid.clone_from(&pod.uid);
                self.seen.all.push(made);
            }
            Ok(_) => self.odd(answer, "create", now),
            Err(error) => match error.refusal() {
                Some(RefusalKind::NameInUse(_)) => {
                    self.resolve_conflict(name, Place { container: Some(container.to_owned()), attempt });
                }
                Some(RefusalKind::NoSuchImage) => {
                    if let Some(container) = spec_of(&pod, at) {
                        self.image_missing(&container.clone(), now);
                    }
                }
                // The sandbox vanished under it.
                Some(RefusalKind::NoSuchContainer | RefusalKind::SandboxNotRunning) => {
                    self.blind.insert(sandbox);
                }
                kind => {
                    let invalid = kind == Some(&RefusalKind::BadImageName);
                    let reason = if invalid { "InvalidImageName" } else { "CreateContainerError" };
                    let wait = self.retry_later(container, now);
                    let message = format!("{error}; tried again in {} s", wait.as_secs());
                    self.wait_for(container, reason, message);
                }
            },
        }
    }

    fn started(&mut self, id: &str, answer: Result<Reply, DockerError>, now: &Now) {
        let Some(container) = self.seen.all.iter_mut().find(|c| c.id == id) else {
            self.list_needed = true;
            return;
        };
        let name = container.container_name().map(str::to_owned);
        match answer {
            Ok(_) => {
                container.state = RunState::Running { started: None };
                let attempt = container.attempt;
                self.stale.insert(id.to_owned());
                self.create_retry.remove(id);
                match name {
                    Some(name) => {
                        self.waiting.remove(&name);
                        self.log(
                            Level::Info,
                            format!("pod {}: container {name} started (attempt {attempt})", self.key),
                        );
                    }
                    None => {
                        self.sandbox_started.insert(id.to_owned(), now.mono);
                        self.waiting.clear();
                    }
                }
            }
            Err(error) => self.start_refused(id, name, &error, now),
        }
    }

    fn start_refused(&mut self, id: &str, name: Option<String>, error: &DockerError, now: &Now) {
        self.blind.insert(id.to_owned());
        if let Some(RefusalKind::NoSuchContainer | RefusalKind::SandboxNotRunning) = error.refusal() {
            // The sandbox died between; what was made in it is superseded with it. Docker's 404 may be
            // about either of the two.
            let sandbox = self.seen.get(id).and_then(Owned::sandbox_id).map(str::to_owned);
            self.blind.extend(sandbox);
            return;
        }
        self.cannot_run.insert(id.to_owned(), error.to_string());
        if let Some(container) = self.seen.all.iter_mut().find(|c| c.id == id) {
            container.state = RunState::Exited(cannot_run(error.to_string(), now.mono));
        }
        match name {
            Some(name) => self.wait_for(&name, "RunContainerError", error.to_string()),
            None => {
                if let State::Syncing(pod) = self.state.clone() {
                    self.sandbox_problem(&pod, format!("failed to start pod sandbox: {error}"));
                }
            }
        }
    }

    fn killed(&mut self, id: &str, answer: Result<Reply, DockerError>) {
        let Err(error) = answer else { return };
        match error.refusal() {
            Some(RefusalKind::NotRunning | RefusalKind::NoSuchContainer) => {
                _ = self.blind.insert(id.to_owned())
            }
            kind => {
                let bad_signal = kind == Some(&RefusalKind::BadRequest);
                let line =
                    format!("pod {}: container {} could not be signalled: {error}", self.key, short(id));
                self.log(Level::Warn, line);
                self.blind.insert(id.to_owned());
                if bad_signal && let Some(c) = self.seen.all.iter_mut().find(|c| c.id == id) {
                    c.stop_signal = None;
                    self.undo_kill(&Job::Kill { id: id.to_owned(), hard: false });
                }
            }
        }
    }

    /// A name was taken: the four cases of kubernetes/kubernetes#40443.
    fn conflict_seen(&mut self, name: &str, place: Place, answer: Result<Reply, DockerError>, now: &Now) {
        let what = place.container.clone().unwrap_or_else(|| labels::SANDBOX_NAME.to_owned());
        let detail = match answer {
            Ok(Reply::Container(detail)) => detail,
            Err(error) if error.refusal() == Some(&RefusalKind::NoSuchContainer) => {
                return self.add_suffix(what, name, "a container that Docker cannot find", now);
            }
            other => return self.odd(other, "inspect", now),
        };
        match self.holder(&detail, &place) {
            Holder::Ours(owned) => self.merge(*owned, now),
            // It should not live; the plan stops it as a stray.
            Holder::Stale(owned) if owned.state.is_running() => self.merge(*owned, now),
            Holder::Stale(owned) => {
                let line = format!(
                    "pod {}: the name {name} is held by an older container of this pod, which is removed",
                    self.key
                );
                self.log(Level::Warn, line);
                // The first time nothing is waited for. One that comes back has been forgotten since, for
                // Docker does not list it: its name is given up (kubernetes/kubernetes#40443).
                match self.create_retry.get_mut(&what) {
                    Some(retry) => {
                        retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono);
                        self.suffixed.insert(what, suffix_of(name, now));
                    }
                    None => _ = self.create_retry.insert(what, Retry::default()),
                }
                // As one of the dead of an earlier life it is removed before anything is made; should that
                // fail, it counts as an attempt and the next one has another name (moby/moby#22312).
                self.vanished(&owned.id, now);
                self.old.all.push(*owned);
            }
            Holder::Foreign => {
                let wait = self.retry_later(&what, now);
                let message = format!(
                    "the container name {name} is held by {}, which podkeeper did not make; tried again in {} s",
                    short(&detail.id),
                    wait.as_secs()
                );
                self.wait_for(&what, "CreateContainerError", message);
            }
        }
    }

    fn add_suffix(&mut self, what: String, name: &str, holder: &str, now: &Now) {
        let line = format!("pod {}: the name {name} is taken by {holder}; a suffix is added", self.key);
        self.log(Level::Warn, line);
        self.suffixed.insert(what, suffix_of(name, now));
    }

    fn holder(&self, detail: &ContainerDetail, place: &Place) -> Holder {
        let Some(owned) = observe::from_detail(detail, &self.settings.map.root_dir) else {
            return Holder::Foreign;
        };
        let State::Syncing(pod) = &self.state else { return Holder::Stale(Box::new(owned)) };
        let same = owned.key == self.key
            && owned.uid == pod.uid
            && owned.attempt == place.attempt
            && owned.container_name() == place.container.as_deref()
            && !owned.state.is_dead();
        if same { Holder::Ours(Box::new(owned)) } else { Holder::Stale(Box::new(owned)) }
    }

    fn fresh(&self, id: String, docker_name: String, attempt: u32, role: Role) -> Owned {
        let state = RunState::Created;
        let pod = self.state.pod();
        let grace = pod.and_then(|p| p.spec.termination_grace_period_seconds);
        Owned {
            id,
            docker_name,
            key: self.key.clone(),
            uid: String::new(),
            role,
            attempt,
            state,
            image: String::new(),
            image_id: String::new(),
            grace: grace.and_then(|g| u32::try_from(g).ok()),
            source: pod.map(|p| p.source),
            origin: pod.map(|p| p.origin.path.clone()),
            stop_signal: None,
            created: None,
        }
    }

    fn warn_all(&mut self, warnings: &[String]) {
        for warning in warnings.iter().take(limits::WARNINGS_PER_CREATE) {
            self.log(Level::Warn, format!("pod {}: Docker warns: {warning}", self.key));
        }
    }
}

/// Who holds a name that was to be given.
enum Holder {
    /// The very container that was to be made: a create whose reply was lost.
    Ours(Box<Owned>),
    /// One of ours that nobody counts on.
    Stale(Box<Owned>),
    /// Somebody else's.
    Foreign,
}

/// Differs from try to try, so that a second ghost is passed too.
fn suffix_of(name: &str, now: &Now) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in name.bytes().chain(now.mono.0.as_nanos().to_le_bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash
}
