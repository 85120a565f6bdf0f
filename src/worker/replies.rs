//! What Docker's answers mean to a worker. An answer is applied to what is known at once; where it leaves
//! a doubt (no answer, a lost one) the worker looks again before it acts: no request is sent twice.

use k8s_openapi::api::core::v1::Container;
use log::Level;

use super::job::{Job, Place, Retry};
use super::look::{cannot_run, short};
use super::machine::Machine;
use super::output::Token;
use super::start::CONFIG_ERROR;
use super::state::State;
use crate::clock::Now;
use crate::image::failure;
use crate::json;
use crate::limits;
use crate::plan::backoff;
use crate::plan::{Owned, PreStop, Role, RunState};
use crate::recorder::words;
use crate::runtime::{ContainerDetail, DockerError, RefusalKind, Reply, Resources, labels, observe};
use crate::termination::Way;

impl Machine {
    /// Takes the answer to a call. Follow with [`Machine::step`].
    pub fn reply(&mut self, token: Token, answer: Result<Reply, DockerError>, now: &Now) {
        let Some(job) = self.in_flight.remove(&token) else { return };
        if let Err(error) = &answer
            && self.docker_is_to_blame(&job, error, now)
        {
            return;
        }
        match job {
            Job::List => match answer {
                Ok(Reply::Containers(list)) => self.listed(&list, now),
                other => self.odd(other, "container list", now),
            },
            Job::Inspect { id, blind } => {
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
                self.inspected(&id, blind, answer, now);
            }
            Job::Conflict { name, place } => self.conflict_seen(&name, place, answer, now),
            Job::CreateSandbox { name, attempt, role } => {
                self.sandbox_made(name, attempt, role, answer, now);
            }
            Job::Create { name, container, attempt, sandbox, role, crash_key, size } => {
                let made = Made { name, container: &container, attempt, role, crash_key, size };
                self.container_made(made, &sandbox, answer, now);
            }
            Job::Start { id } => self.started(&id, answer, now),
            Job::Kill { id, .. } => self.killed(&id, answer),
            Job::Remove { id } => match answer {
                Ok(_) => self.removed(&id, now),
                Err(error) => match error.refusal() {
                    Some(RefusalKind::NoSuchContainer) => self.vanished(&id),
                    // The dead that joined it are kept for their logs, and it is kept with them.
                    Some(RefusalKind::HasDependents) => _ = self.remove_later(&id, now),
                    Some(RefusalKind::RemovalInProgress) => self.removal_failed(&id, "removal goes on", now),
                    Some(RefusalKind::StillRunning) => {
                        self.doubt(&id);
                        self.removal_failed(&id, "it runs", now);
                    }
                    _ => self.removal_failed(&id, &error.to_string(), now),
                },
            },
            Job::Rename { id, name } => self.renamed(&id, name, answer, now),
            Job::Log { id } => self.log_read(&id, answer),
            Job::Update { id, resources } => self.updated(&id, resources, answer, now),
            Job::ImageUser { container, image, attempt } => {
                self.image_user(container, &image, attempt, answer, now);
            }
            Job::ImageInspect { image_id } => {
                // Asked once for each image; without an answer again when a container of it is looked at.
                match answer {
                    Ok(Reply::Image(image)) => {
                        let digest = image.digests.into_iter().next();
                        self.digests.extend(digest.map(|digest| (image_id, digest)));
                    }
                    Err(DockerError::Refused(_)) => {}
                    _ => _ = self.digest_asked.remove(&image_id),
                }
            }
        }
    }

    /// Errors that say nothing about the container, only about Docker. After them the worker looks again.
    fn docker_is_to_blame(&mut self, job: &Job, error: &DockerError, now: &Now) -> bool {
        match (job, error) {
            (_, DockerError::Refused(_)) => false,
            (_, DockerError::Unreachable(_) | DockerError::Version(_)) => {
                self.undo(job, now);
                self.docker_trouble(error.to_string(), now);
                true
            }
            // One inspect, image look-up, log or removal that gets no answer is that container's trouble alone.
            (
                Job::Inspect { .. }
                | Job::ImageInspect { .. }
                | Job::ImageUser { .. }
                | Job::Log { .. }
                | Job::Rename { .. }
                | Job::Remove { .. },
                _,
            ) => false,
            (_, DockerError::Timeout(_) | DockerError::Lost(_) | DockerError::BadAnswer(_)) => {
                self.undo(job, now);
                self.docker_trouble(error.to_string(), now);
                true
            }
        }
    }

    /// A signal that may not have arrived is sent again once the container is seen to run still, and what
    /// was asked is asked again. A start may have arrived, and be carried out at any time from now on.
    fn undo(&mut self, job: &Job, now: &Now) {
        match job {
            Job::Start { id } => {
                self.late_starts.insert(id.clone(), now.mono.after(limits::LATE_START));
            }
            Job::Kill { id, .. } => {
                if let Some(stop) = self.stops.get_mut(id) {
                    stop.sent = None;
                }
            }
            Job::Inspect { id, blind } => self.ask_again(id, *blind),
            Job::Log { id } => _ = self.messages.remove(id),
            Job::Rename { .. } => self.mark_later(now),
            Job::ImageInspect { image_id } => _ = self.digest_asked.remove(image_id),
            _ => {}
        }
    }

    fn odd(&mut self, answer: Result<Reply, DockerError>, what: &str, now: &Now) {
        let why = match answer {
            Ok(_) => format!("{what}: an answer of another kind"),
            Err(error) => format!("{what}: {error}"),
        };
        self.docker_trouble(why, now);
    }

    fn sandbox_made(
        &mut self,
        name: String,
        attempt: u32,
        role: Role,
        answer: Result<Reply, DockerError>,
        now: &Now,
    ) {
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
                let mut made = self.fresh(id, name, attempt, role);
                made.uid.clone_from(&pod.uid);
                self.seen.all.push(made);
            }
            Ok(_) => self.odd(answer, "create", now),
            Err(error) => match error.refusal() {
                Some(RefusalKind::NameInUse(_)) => {
                    self.resolve_conflict(name, Place { container: None, attempt })
                }
                Some(RefusalKind::NoSuchImage) => {
                    if self.ensured.remove(labels::SANDBOX_NAME).is_some() {
                        // It was loaded for this very sandbox, and Docker still does not find it.
                        self.retry_later(labels::SANDBOX_NAME, now);
                    }
                    self.fetch_sandbox_image(now);
                }
                _ => {
                    let wait = self.retry_later(labels::SANDBOX_NAME, now);
                    let message =
                        format!("failed to create pod sandbox: {error}; tried again in {} s", wait.as_secs());
                    self.sandbox_problem(&pod, &message);
                    self.tell(None, words::sandbox_failed(&error.to_string()));
                }
            },
        }
    }

    fn container_made(
        &mut self,
        made: Made<'_>,
        sandbox: &str,
        answer: Result<Reply, DockerError>,
        now: &Now,
    ) {
        let Made { name, container, attempt, role, crash_key, size } = made;
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
                self.image_users.remove(container);
                // A restart counts once its container is made; a create that failed was none.
                let died = self.seen.newest(&pod.uid, container).and_then(|c| match &c.state {
                    RunState::Exited(exit) => Some(exit.seen),
                    _ => None,
                });
                if let Some(seen) = died {
                    self.crashes.advance(&crash_key, seen, now.mono);
                }
                let mut made = self.fresh(id, name, attempt, role);
                made.uid.clone_from(&pod.uid);
                self.tell_created(&made);
                self.sizes.made(&made.id, size);
                self.seen.all.push(made);
            }
            Ok(_) => self.odd(answer, "create", now),
            Err(error) => match error.refusal() {
                Some(RefusalKind::NameInUse(_)) => {
                    self.resolve_conflict(name, Place { container: Some(container.to_owned()), attempt });
                }
                Some(RefusalKind::NoSuchImage) => {
                    // Not when another image is wanted by now.
                    let wanted = pod.container(container).map(|(_, c)| c);
                    if let Some(spec) = wanted.filter(|c| backoff::crash_key(c) == crash_key) {
                        self.image_missing(spec, now);
                    }
                }
                // The sandbox vanished under it; unless Docker contradicts itself.
                Some(RefusalKind::NoSuchContainer | RefusalKind::SandboxNotRunning) => {
                    self.doubt(sandbox);
                    self.retry_soon(container, now);
                }
                kind => {
                    let wait = self.retry_later(container, now);
                    let image = pod.container(container).and_then(|(_, c)| c.image.as_deref());
                    match image.filter(|_| kind == Some(&RefusalKind::BadImageName)) {
                        Some(image) => {
                            let why = error.to_string();
                            let message = failure::invalid_name(image, &why);
                            let bad = words::bad_image_name(image, &why);
                            let told = [bad, words::error(failure::INVALID_IMAGE_NAME)];
                            self.failed(container, failure::INVALID_IMAGE_NAME, &message, told);
                        }
                        None => {
                            let message = format!("{error}; tried again in {} s", wait.as_secs());
                            let told = [words::error(&error.to_string())];
                            let ours = kind == Some(&RefusalKind::NotSent);
                            let reason = if ours { CONFIG_ERROR } else { "CreateContainerError" };
                            self.failed(container, reason, &message, told);
                        }
                    }
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
                let told = container.clone();
                self.stale.insert(id.to_owned());
                self.start_retry.remove(id);
                self.late_starts.remove(id);
                self.tell_of(&told, words::started());
                self.begin_post_start(id, now);
                match name {
                    Some(name) => {
                        self.waiting.remove(&name);
                    }
                    None => {
                        self.sandbox_started.insert(id.to_owned(), now.mono);
                        self.sandbox_has_cgroup(&told.uid);
                        // What waited for the sandbox.
                        self.waiting.retain(|_, why| why.reason != "ContainerCreating");
                    }
                }
            }
            Err(error) => self.start_refused(id, name, &error, now),
        }
    }

    fn start_refused(&mut self, id: &str, name: Option<String>, error: &DockerError, now: &Now) {
        self.doubt(id);
        if let Some(RefusalKind::NoSuchContainer | RefusalKind::SandboxNotRunning) = error.refusal() {
            // The sandbox died between; what was made in it is superseded with it. Docker's 404 may be
            // about either of the two.
            if let Some(sandbox) = self.seen.get(id).and_then(Owned::sandbox_id).map(str::to_owned) {
                self.doubt(&sandbox);
            }
            match self.start_retry.get_mut(id) {
                Some(retry) => retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono),
                None => _ = self.start_retry.insert(id.to_owned(), Retry::default()),
            }
            return;
        }
        let may_come = self.late_starts.get(id).is_some_and(|until| now.mono < *until);
        if may_come && error.refusal() != Some(&RefusalKind::CannotRun) {
            // An earlier start of it may yet be carried out: a successor would run beside it. So it is this
            // one that is started again.
            let retry = self.start_retry.entry(id.to_owned()).or_default();
            retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono);
            self.start_problem(name, error);
            return;
        }
        if name.is_none() {
            self.network_may_be_gone(error);
        }
        self.cannot_run.insert(id.to_owned(), error.to_string());
        if let Some(container) = self.seen.all.iter_mut().find(|c| c.id == id) {
            container.state = RunState::Exited(cannot_run(error.to_string(), now.mono));
        }
        self.start_problem(name, error);
    }

    /// The start of a container, or (`None`) of the sandbox, was refused.
    fn start_problem(&mut self, name: Option<String>, error: &DockerError) {
        match name {
            Some(name) => {
                let why = error.to_string();
                self.failed(&name, "RunContainerError", &why, [words::error(&why)]);
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

    fn killed(&mut self, id: &str, answer: Result<Reply, DockerError>) {
        let Err(error) = answer else { return };
        match error.refusal() {
            Some(RefusalKind::NotRunning | RefusalKind::NoSuchContainer) => self.doubt(id),
            kind => {
                let bad_signal = kind == Some(&RefusalKind::BadRequest);
                self.doubt(id);
                let Some(stop) = self.stops.get_mut(id) else { return };
                if bad_signal && !stop.term {
                    (stop.term, stop.sent) = (true, None);
                }
                if !std::mem::replace(&mut stop.told, true) {
                    let name = self.all_seen().find(|c| c.id == id).and_then(Owned::container_name);
                    let what = name.map_or("the sandbox".to_owned(), |name| format!("container {name}"));
                    self.tell(None, words::kill_failed(&format!("{what} could not be signalled: {error}")));
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
                if self.suffixed.insert(what.clone(), suffix_of(name, now)).is_some() {
                    // With another name too: Docker calls every name taken.
                    self.retry_later(&what, now);
                }
                let why = format!(
                    "the name {name} is taken by a container that Docker cannot find; a suffix is added"
                );
                self.create_problem(&what, why);
                return;
            }
            other => return self.odd(other, "inspect", now),
        };
        match self.holder(&detail, &place) {
            Holder::Ours(owned) => self.merge(*owned, now),
            // It should not live; the plan stops it as a stray.
            Holder::Stale(owned) if owned.state.is_running() => self.merge(*owned, now),
            Holder::Stale(owned) => {
                let why =
                    format!("the name {name} is held by an older container of this pod, which is removed");
                self.create_problem(&what, why);
                // The first time nothing is waited for. One that comes back has been forgotten since, for
                // Docker does not list it: its name is given up (kubernetes/kubernetes#40443).
                if self.create_retry.contains_key(&what) {
                    self.suffixed.insert(what.clone(), suffix_of(name, now));
                }
                self.retry_soon(&what, now);
                // As one of the dead of an earlier life it is removed before anything is made; should that
                // fail, it counts as an attempt and the next one has another name (moby/moby#22312).
                self.vanished(&owned.id);
                self.old.all.push(*owned);
            }
            Holder::Foreign => {
                let wait = self.retry_later(&what, now);
                let message = format!(
                    "the container name {name} is held by {}, which podkeeper did not make; tried again in {} s",
                    short(&detail.id),
                    wait.as_secs()
                );
                self.create_problem(&what, message);
            }
        }
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
        let pre_stop = match &role {
            Role::Container { name, .. } => pod.and_then(|p| pre_stop_of(p.container(name)?.1)),
            Role::Sandbox { .. } => None,
        };
        let message = match &role {
            Role::Container { name, .. } => pod.and_then(|p| Some(Way::of_spec(p.container(name)?.1))),
            Role::Sandbox { .. } => None,
        };
        let message = message.unwrap_or_default();
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
            written: pod.and_then(|p| p.written.clone()),
            shape: pod.and_then(|p| p.shape.clone()),
            pre_stop,
            deadline: None,
            message,
            stop_signal: None,
            created: None,
            log_path: String::new(),
            devices: None,
            resources: Resources::default(),
        }
    }

    /// A container of this pod was made, and its image was there.
    pub(super) fn tell_created(&mut self, made: &Owned) {
        let Some(name) = made.container_name() else { return };
        let pulled = self.ensured.get(name).is_some_and(|e| e.attempt == made.attempt && e.told);
        let spec = self.state.pod().and_then(|pod| pod.container(name));
        let image = spec.and_then(|(_, c)| c.image.clone()).filter(|_| !pulled);
        if let Some(image) = image {
            self.tell_of(made, words::present(&image));
        }
        self.tell_of(made, words::created());
    }

    fn warn_all(&mut self, warnings: &[String]) {
        for warning in warnings.iter().take(limits::WARNINGS_PER_CREATE) {
            self.log(Level::Warn, format!("pod {}: Docker warns: {warning}", self.key));
        }
    }
}

/// Its preStop hook, as the labels of a container that is being made say it.
fn pre_stop_of(spec: &Container) -> Option<Box<PreStop>> {
    let handler = json::text(spec.lifecycle.as_ref()?.pre_stop.as_ref()?);
    let ports = spec.ports.as_ref().filter(|ports| !ports.is_empty());
    let ports = ports.map(json::text).unwrap_or_default();
    Some(Box::new(PreStop { handler, ports }))
}

/// A container that was to be made.
struct Made<'a> {
    name: String,
    container: &'a str,
    attempt: u32,
    role: Role,
    crash_key: String,
    size: Resources,
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
