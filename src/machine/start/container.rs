//! Making one container of a pod: when it is time, what its create is made of, and what it waits for meanwhile.
//!
//! Never here: which containers are wanted (`plan/`).

use std::path::Path;
use std::sync::Arc;

use super::CONFIG_ERROR;
use crate::base::clock::Now;
use crate::machine::Machine;
use crate::machine::calls::Job;
use crate::machine::network::Environment;
use crate::manifest::hash::container_hash;
use crate::mapping;
use crate::mapping::env;
use crate::mapping::needs::Create;
use crate::plan::backoff::{self, Verdict as Wait};
use crate::plan::{self, Role, RunState, StartRef};
use crate::pod::DesiredPod;
use crate::recorder::words;
use crate::runtime::labels;

impl Machine {
    /// Takes one container a step further. False: it waits for something of its own (not for the
    /// sandbox), and an init container behind it must not overtake it.
    pub(super) fn start_container(
        &mut self,
        pod: &Arc<DesiredPod>,
        at: StartRef,
        sandbox: &str,
        up: bool,
        now: &Now,
    ) -> bool {
        let Some(container) = plan::actions::container_of(pod, at) else { return true };
        let name = container.name.as_str();
        if self.calls.is_making(Some(name)) {
            return true;
        }
        let newest = self.containers.current().newest(&pod.uid, name);
        if self.containers.current().instances(&pod.uid, name).iter().any(|c| c.state.is_running()) {
            // It is being killed, and its end brings another decision. Not only the newest: an older one, whose start
            // came late, may run beside one that is made already.
            return true;
        }
        if let Some(made) = plan::actions::made_for(pod, self.containers.current(), sandbox, at) {
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
                self.out.wake_at(until);
                return false;
            }
        }
        if self.calls.is_full() || self.held_back(name, now) {
            return false;
        }
        let attempt = self.next_attempt(pod, name);
        self.image_ready(pod, container, attempt, now)
            && self.make_container(pod, at, attempt, (sandbox, up), now)
    }

    /// Asks for the create of a container whose image is here. Returns as [`Machine::start_container`].
    fn make_container(
        &mut self,
        pod: &Arc<DesiredPod>,
        at: StartRef,
        attempt: u32,
        (sandbox, up): (&str, bool),
        now: &Now,
    ) -> bool {
        let Some(container) = plan::actions::container_of(pod, at) else { return true };
        let name = container.name.as_str();
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
        let mounts = {
            let map = &self.settings.map;
            let root = Path::new(&map.root_dir);
            mapping::mounts::of(pod, container, &expanded.env, root, &map.policies, &self.objects)
        };
        let mounts = match mounts {
            Ok(mounts) => mounts,
            Err(why) => {
                self.wait_for(name, CONFIG_ERROR, &why, [words::error(&why)]);
                return false;
            }
        };
        let Some(identity) = self.identity_of(pod, container, attempt, now) else { return false };
        let member = self.members.get_mut(name);
        if member.waits_for(CONFIG_ERROR) {
            member.waiting = None;
        }
        let ready = mapping::Ready { expanded, ips: self.pod_ips(sandbox), mounts };
        let made = mapping::container(pod, at, attempt, sandbox, ready, &self.settings.map);
        let Some(Create { name: docker_name, mut body, needs }) = made else { return true };
        body.user = identity.user;
        if let Some(id) = identity.image {
            body.image = id;
        }
        let never_ran = self.never_ran(pod, name);
        if never_ran > 0 {
            body.labels.insert(labels::NEVER_RAN.to_owned(), format!("{never_ran}/{sandbox}"));
        }
        self.network.has_files(&pod.uid);
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
            never_ran,
            sandbox: sandbox.to_owned(),
            role,
            crash_key: backoff::crash_key(container),
            size: body.host_config.resources,
        };
        self.create(job, Create { name: docker_name, body, needs });
        true
    }

    /// How many attempts before the next one of this container never ran: what was only made, and could not be removed,
    /// keeps its number, and is no restart.
    fn never_ran(&self, pod: &DesiredPod, name: &str) -> u32 {
        let seen = self.containers.all().filter(|c| c.uid == pod.uid && c.container_name() == Some(name));
        let newest = seen.max_by_key(|c| c.attempt);
        newest.map_or(0, |c| c.never_ran.saturating_add(u32::from(c.state == RunState::Created)))
    }
}
