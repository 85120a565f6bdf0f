//! The answer to a create: a new container, or the reason why there is none.

use k8s_openapi::api::core::v1::Container;

use crate::base::clock::Now;
use crate::base::json;
use crate::base::limits;
use crate::image::failure;
use crate::machine::Machine;
use crate::machine::calls::Place;
use crate::machine::members::{ImageState, Part};
use crate::machine::state::State;
use crate::plan::Way;
use crate::plan::backoff;
use crate::plan::{Manifest, Owned, PreStop, Role, RunState};
use crate::pod::DesiredPod;
use crate::pod::waiting::Reason;
use crate::recorder::words;
use crate::runtime::{DockerError, RefusalKind, Resources};

/// The container of a create.
pub(in crate::machine) struct Made<'a> {
    pub(in crate::machine) name: String,
    pub(in crate::machine) container: &'a str,
    pub(in crate::machine) attempt: u32,
    pub(in crate::machine) never_ran: u32,
    pub(in crate::machine) role: Role,
    pub(in crate::machine) crash_key: String,
    pub(in crate::machine) size: Resources,
}

impl Machine {
    fn note_made(&mut self, pod: &DesiredPod, made: Owned, size: Resources) {
        let id = made.id.clone();
        self.containers.put(made);
        if self.is_judging(pod) {
            // It may have volumes of its image. Earlier ones may have been removed since it was asked for.
            self.volumes.may_have(&pod.uid);
        }
        if let Some(record) = self.containers.record_mut(&id) {
            record.size = Some(size);
        }
    }

    pub(in crate::machine) fn container_made(
        &mut self,
        made: Made<'_>,
        sandbox: &str,
        answer: Result<(String, Vec<String>), DockerError>,
        now: &Now,
    ) {
        let Made { name, container, attempt, never_ran, role, crash_key, size } = made;
        let State::Syncing(pod) = self.state.clone() else {
            self.looking.list_needed = true;
            return;
        };
        let part = Part::container(container);
        match answer {
            Ok((id, warnings)) => {
                self.create_worked(&part, &warnings);
                let member = self.members.get_mut(container);
                member.forget_missing();
                member.image_user = None;
                // A restart counts once its container is made; a failed create does not count.
                let died =
                    self.containers.current().newest(&pod.uid, container).and_then(|c| match &c.state {
                        RunState::Exited(exit) => Some(exit.seen),
                        _ => None,
                    });
                if let Some(seen) = died {
                    self.members.crashes.advance(&crash_key, seen, now.mono);
                }
                if let Some((_, spec)) = pod.container(container) {
                    self.count_loss(spec, now);
                }
                let made = Owned { never_ran, ..self.fresh(id, name, attempt, role) };
                self.tell_created(&made);
                self.note_made(&pod, made, size);
            }
            Err(error) => match error.refusal() {
                Some(RefusalKind::NameInUse(_)) => {
                    self.resolve_conflict(name, Place { part, attempt });
                }
                Some(RefusalKind::NoSuchImage) => {
                    // Unless another image is wanted by now.
                    let wanted = pod.container(container).map(|(_, c)| c);
                    if let Some(spec) = wanted.filter(|c| backoff::crash_key(c) == crash_key) {
                        self.image_missing(spec, now);
                    }
                }
                // The sandbox vanished in between, unless Docker contradicts itself.
                Some(RefusalKind::NoSuchContainer | RefusalKind::SandboxNotRunning) => {
                    self.doubt(sandbox);
                    self.members.create_contradicted(&part, now);
                }
                kind => {
                    let wait = self.retry_later(&part, now);
                    let image = pod.container(container).and_then(|(_, c)| c.image.as_deref());
                    match image.filter(|_| kind == Some(&RefusalKind::BadImageName)) {
                        Some(image) => {
                            let why = error.to_string();
                            let message = failure::invalid_name(image, &why);
                            let bad = words::bad_image_name(image, &why);
                            let told = [bad, words::error(Reason::InvalidImageName.as_str())];
                            self.failed(container, Reason::InvalidImageName, &message, told);
                        }
                        None => {
                            let message = format!("{error}; tried again in {} s", wait.as_secs());
                            let told = [words::error(&error.to_string())];
                            let ours = kind == Some(&RefusalKind::NotSent);
                            let reason = if ours {
                                Reason::CreateContainerConfigError
                            } else {
                                Reason::CreateContainerError
                            };
                            self.failed(container, reason, &message, told);
                        }
                    }
                }
            },
        }
    }

    pub(in crate::machine) fn fresh(
        &self,
        id: String,
        docker_name: String,
        attempt: u32,
        role: Role,
    ) -> Owned {
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
            uid: pod.map(|p| p.uid.clone()).unwrap_or_default(),
            role,
            attempt,
            never_ran: 0,
            state,
            start_sent: false,
            killed: false,
            image: String::new(),
            image_id: String::new(),
            grace: grace.and_then(crate::base::duration::grace),
            manifest: Manifest {
                source: pod.map(|p| p.source),
                origin: pod.map(|p| p.origin.path.clone()),
                written: pod.and_then(|p| p.written.clone()),
                shape: pod.and_then(|p| p.shape.clone()),
            },
            pre_stop,
            message,
            stop_signal: None,
            created: None,
            log_path: String::new(),
            resources: Resources::default(),
        }
    }

    /// Emits the events of a container that was made, with an image that was here.
    pub(in crate::machine) fn tell_created(&mut self, made: &Owned) {
        let Some(name) = made.container_name() else { return };
        let told = ImageState::Ensured { attempt: made.attempt, told: true };
        let pulled = self.members.get(name).image == told;
        let spec = self.state.pod().and_then(|pod| pod.container(name));
        let image = spec.and_then(|(_, c)| c.image.clone()).filter(|_| !pulled);
        if let Some(image) = image {
            self.tell_of(made, words::present(&image));
        }
        self.tell_of(made, words::created());
    }

    /// Notes that Docker made it: earlier failures do not count any more.
    pub(in crate::machine) fn create_worked(&mut self, part: &Part, warnings: &[String]) {
        self.members.create_worked(part);
        for warning in warnings.iter().take(limits::WARNINGS_PER_CREATE) {
            self.tell(part.name(), words::docker_warns(warning));
        }
    }
}

/// The preStop hook of a container that is being made, for its labels.
pub(in crate::machine) fn pre_stop_of(spec: &Container) -> Option<Box<PreStop>> {
    let handler = json::text(spec.lifecycle.as_ref()?.pre_stop.as_ref()?);
    let ports = spec.ports.as_ref().filter(|ports| !ports.is_empty());
    let ports = ports.map(json::text).unwrap_or_default();
    Some(Box::new(PreStop { handler, ports, sealed: true }))
}
