//! Makes one container of a pod: decides when, what its create contains, and what it waits for.
//!
//! Never here: which containers are wanted (`plan/`).

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;

use super::Sandbox;
use super::identity::OfImage;
use crate::base::clock::Now;
use crate::base::limits;
use crate::machine::Machine;
use crate::machine::calls::Job;
use crate::machine::members::Part;
use crate::machine::network::Environment;
use crate::manifest::hash::container_hash;
use crate::mapping;
use crate::mapping::env;
use crate::mapping::image_volumes;
use crate::mapping::needs::{Create, Needs};
use crate::plan::backoff;
use crate::plan::{self, Role, RunState, StartRef};
use crate::pod::DesiredPod;
use crate::pod::waiting::Reason;
use crate::probe::spec;
use crate::recorder::words;
use crate::runtime::{CreateBody, labels};

impl Machine {
    /// Takes one container a step further. Returns false if it waits for something of its own (not for the sandbox): an
    /// init container then holds up those behind it.
    pub(super) fn start_container(
        &mut self,
        pod: &Arc<DesiredPod>,
        at: StartRef,
        sandbox: Sandbox<'_>,
        now: &Now,
    ) -> bool {
        let Some(container) = plan::actions::container_of(pod, at) else { return true };
        let name = container.name.as_str();
        if self.calls.is_making(&Part::container(name)) {
            return true;
        }
        let newest = self.containers.current().newest(&pod.uid, name);
        if self.containers.current().instances(&pod.uid, name).iter().any(|c| c.state.is_running()) {
            // It is being killed, and its end leads to another decision. All instances are checked: an older one, whose
            // start came late, may run beside one that is made already.
            return true;
        }
        if let Some(made) = plan::actions::made_for(pod, self.containers.current(), sandbox.id, at) {
            let id = made.id.clone();
            if sandbox.runs && self.network_is_known(pod, sandbox.id) {
                self.start(&id, self.hosts(pod, container, sandbox.id), now);
            }
            return true;
        }
        if let Some(id) = newest.map(|c| c.id.clone())
            && self.wait_after_crash(pod, &id, now)
        {
            return false;
        }
        if self.wait_after_loss(pod, container, now) {
            return false;
        }
        if self.calls.is_full() || self.await_create(&Part::container(name), now) {
            return false;
        }
        let attempt = self.next_attempt(pod, name);
        self.ask_image(pod, container, attempt, now) && self.make_container(pod, at, attempt, sandbox, now)
    }

    /// Requests the create of a container whose image is here. Returns like [`Machine::start_container`].
    fn make_container(
        &mut self,
        pod: &Arc<DesiredPod>,
        at: StartRef,
        attempt: u32,
        sandbox: Sandbox<'_>,
        now: &Now,
    ) -> bool {
        let Some(container) = plan::actions::container_of(pod, at) else { return true };
        let name = container.name.as_str();
        let expanded = match self.environment(pod, container, sandbox.id, sandbox.runs) {
            Environment::Ready(expanded) => expanded,
            Environment::Later => return true,
            Environment::Wrong(why) => {
                // New objects lead to the next try; the node's addresses are looked up again by time.
                if env::tells_addresses(container) != (false, false) {
                    self.retry_later(&Part::container(name), now);
                }
                self.wait_for(name, Reason::CreateContainerConfigError, &why, [words::error(&why)]);
                return false;
            }
        };
        let mounts = {
            let map = &self.settings.map;
            let root = Path::new(&map.root_dir);
            mapping::mounts::of(pod, container, &expanded.env, root, &map.policies, &self.objects)
        };
        let mounts = match mounts {
            Ok(mounts) => mounts,
            Err(why) => {
                self.wait_for(name, Reason::CreateContainerConfigError, &why, [words::error(&why)]);
                return false;
            }
        };
        let Some(identity) = self.ask_identity(pod, container, attempt, now) else { return false };
        if let Some(what) = env::services_left_out(container, &pod.key.namespace, &self.objects) {
            self.tell(Some(name), words::services_left_out(&what));
        }
        let member = self.members.get_mut(name);
        if member.waits_for(Reason::CreateContainerConfigError) {
            member.waiting = None;
        }
        let ready = mapping::Ready { expanded, ips: self.pod_ips(sandbox.id), mounts };
        let made = mapping::container(pod, at, attempt, sandbox.id, ready, &self.settings.map);
        let Some(Create { name: docker_name, mut body, mut needs }) = made else { return true };
        if self.is_judging(pod)
            && let Err(why) = self.bounded(pod, container, (&mut body, &mut needs), &identity.of_image)
        {
            self.wait_for(name, Reason::CreateContainerConfigError, &why, [words::error(&why)]);
            return false;
        }
        body.user = identity.user;
        if let Some(id) = identity.image {
            body.image = id;
        }
        let never_ran = self.never_ran(pod, name);
        if never_ran > 0 {
            body.labels.insert(labels::NEVER_RAN.to_owned(), format!("{never_ran}/{}", sandbox.id));
        }
        self.network.has_files(&pod.uid);
        self.place(&mut body, pod);
        let docker_name = self.with_suffix(&Part::container(name), docker_name);
        let job = Job::Create {
            name: docker_name.clone(),
            container: name.to_owned(),
            attempt,
            never_ran,
            sandbox: sandbox.id.to_owned(),
            role: role(container, at, sandbox.id),
            crash_key: backoff::crash_key(container),
            size: body.host_config.resources,
        };
        self.create(job, Create { name: docker_name, body, needs });
        true
    }

    /// Checks what Docker will keep of a container of a source behind others, and notes it.
    ///
    /// # Errors
    /// It is too much.
    fn bounded(
        &mut self,
        pod: &DesiredPod,
        container: &Container,
        (body, needs): (&mut CreateBody, &mut Needs),
        of_image: &OfImage,
    ) -> Result<(), String> {
        let root = Path::new(&self.settings.map.root_dir);
        image_volumes::begin_empty(body, &of_image.volumes, |target| {
            let (mount, name) = image_volumes::of_pod(root, &pod.uid, &container.name, target);
            needs.parts.image_volumes.push(name);
            mount
        })?;
        let runs = spec::longest_command(container);
        if let Some((what, _)) = runs.filter(|_| body.env.len() > limits::EXEC_VARIABLES_BEHIND) {
            return Err(format!(
                "it has {} variables, and Docker keeps them for minutes with each command of its {what}: such a container of a \
                 source behind others gets {}",
                body.env.len(),
                limits::EXEC_VARIABLES_BEHIND
            ));
        }
        if let Some((what, bytes)) = runs.filter(|(_, it)| *it > limits::EXEC_BEHIND) {
            return Err(format!(
                "the command of its {what} takes {bytes} bytes, and Docker keeps each that was run for minutes: a container of \
                 a source behind others gets {}",
                limits::EXEC_BEHIND
            ));
        }
        mapping::record::note(body, of_image.recorded)?;
        if !needs.parts.image_volumes.is_empty() {
            self.volumes.may_have(&pod.uid);
        }
        Ok(())
    }

    /// Number of attempts before the next one of this container that never ran: a container that was only made, and
    /// could not be removed, keeps its number, and is no restart.
    fn never_ran(&self, pod: &DesiredPod, name: &str) -> u32 {
        let seen = self.containers.all().filter(|c| c.uid == pod.uid && c.container_name() == Some(name));
        let newest = seen.max_by_key(|c| c.attempt);
        newest.map_or(0, |c| c.never_ran.saturating_add(u32::from(c.state == RunState::Created)))
    }
}

fn role(container: &Container, at: StartRef, sandbox: &str) -> Role {
    Role::Container {
        name: container.name.clone(),
        kind: at.kind,
        index: u32::try_from(at.index).unwrap_or(u32::MAX),
        sandbox_id: sandbox.to_owned(),
        hash: Some(container_hash(&container.name, container.image.as_deref().unwrap_or_default())),
    }
}
