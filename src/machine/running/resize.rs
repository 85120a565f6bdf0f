//! New resources for running containers: changed in place, or by a restart if the manifest asks for that (upstream
//! `pkg/kubelet/kuberuntime/kuberuntime_manager.go`, `computePodResizeAction`).
//!
//! Labels of a running container cannot change, so the limits that Docker shows are read here, once for each container:
//! after that, the last request counts. A value that an engine leaves out, or shows as 0, counts as no difference: at
//! worst there is one call too many, and never a restart without need.

use crate::base::clock::{Mono, Now};
use crate::machine::Machine;
use crate::machine::calls::Job;
use crate::machine::state::State;
use crate::mapping::resources;
use crate::plan::Owned;
use crate::pod::DesiredPod;
use crate::recorder::words;
use crate::runtime::{Call, DockerError, Resources};
use crate::status::{NO_RESIZE, Resize};
use k8s_openapi::api::core::v1::Container;

/// A running container with other resources than wanted.
struct Change {
    id: String,
    name: String,
    wanted: Resources,
    restart: bool,
}

impl Machine {
    /// The changes that running containers need; the status shows them from now on.
    fn changes(&mut self, pod: &DesiredPod) -> Vec<Change> {
        let mut all = Vec::new();
        for (_, record) in self.containers.records_mut() {
            record.resizing = false;
        }
        for (_, container) in pod.containers() {
            let newest = self.containers.current().newest(&pod.uid, &container.name);
            let Some(owned) = newest.filter(|c| c.state.is_running()) else { continue };
            let wanted = resources::sizes(container);
            let Some(now) = self.size_of(owned) else { continue };
            let id = owned.id.clone();
            let Some(record) = self.containers.record_mut(&id) else { continue };
            if !differs(now, wanted) {
                record.size = Some(wanted);
                continue;
            }
            record.resizing = true;
            let restart = needs_restart(container, now, wanted);
            all.push(Change { id, name: container.name.clone(), wanted, restart });
        }
        all
    }

    /// The containers that are being resized, for the status.
    pub(in crate::machine) fn resize_shown(&self) -> Resize {
        let mut shown = NO_RESIZE;
        for id in self.containers.ids(|_, record| record.resizing) {
            let name = self.containers.get(&id).and_then(Owned::container_name);
            shown.containers.extend(name.map(str::to_owned));
            let failure = self.containers.record(&id).and_then(|record| record.size_failure.as_deref());
            shown.error = shown.error.or_else(|| failure.map(|(_, why)| why.clone()));
        }
        shown
    }

    /// The resources that were last requested for a container; `None` while they are not known.
    fn size_of(&self, owned: &Owned) -> Option<Resources> {
        let seen = Some(owned.resources).filter(|r| *r != Resources::default());
        self.containers.record(&owned.id).and_then(|record| record.size).or(seen)
    }

    /// Resizes running containers. The pod's cgroup grows before that, and shrinks when all is done.
    pub(in crate::machine) fn resize(&mut self, pod: &DesiredPod, now: &Now) {
        let changes = self.changes(pod);
        self.order_cgroup(pod, !changes.is_empty(), now);
        if !self.cgroup_ready(pod) {
            return;
        }
        for Change { id, name, wanted, restart } in changes {
            if restart {
                let why = format!("Container {name} resize requires restart");
                self.note_killed(pod, &|c| c.id == id);
                self.stop_one(&id, None, Some(&pod.spec), Some(&why), now);
                continue;
            }
            let Some(record) = self.containers.record(&id) else { continue };
            let until = record.size_failure.as_ref().map_or(Mono::default(), |failure| failure.0.until);
            if now.mono < until {
                self.out.wake_at(until);
            } else if !self.calls.is_busy(&id) && !self.calls.is_full() && record.run.stop.is_none() {
                let job = Job::Update { id: id.clone(), resources: wanted };
                self.call(job, Call::Update { id, resources: wanted });
            }
        }
    }

    pub(in crate::machine) fn updated(
        &mut self,
        id: &str,
        wanted: Resources,
        answer: Result<(), DockerError>,
        now: &Now,
    ) {
        let Some((owned, record)) = self.containers.current_mut(id) else { return };
        let name = owned.container_name().unwrap_or_default().to_owned();
        match answer {
            Ok(()) => {
                record.size = Some(wanted);
                record.size_failure = None;
                let State::Syncing(pod) = &self.state else { return };
                let requirements = pod.container(&name).and_then(|(_, c)| c.resources.clone());
                let told = words::resize_completed(&name, requirements.as_ref());
                self.tell(None, told);
            }
            Err(error) => {
                let why = error.to_string();
                let (retry, old) = &mut **record.size_failure.get_or_insert_default();
                retry.failed(now);
                if std::mem::replace(old, why.clone()) != why {
                    self.tell(None, words::resize_error(&name, &why));
                }
            }
        }
    }
}

/// Whether a request to Docker could change anything.
fn differs(now: Resources, wanted: Resources) -> bool {
    cpu_differs(now, wanted) || memory_differs(now, wanted)
}

fn cpu_differs(now: Resources, wanted: Resources) -> bool {
    other(now.cpu_shares, wanted.cpu_shares) || other(now.cpu_quota, wanted.cpu_quota)
}

fn memory_differs(now: Resources, wanted: Resources) -> bool {
    other(now.memory, wanted.memory)
}

/// Whether both are known and differ.
fn other(now: Option<i64>, wanted: Option<i64>) -> bool {
    now.zip(wanted).is_some_and(|(now, wanted)| now != wanted)
}

/// Whether the change cannot be made in place.
fn needs_restart(container: &Container, now: Resources, wanted: Resources) -> bool {
    container.resize_policy.iter().flatten().any(|policy| {
        let changes = match policy.resource_name.as_str() {
            "cpu" => cpu_differs(now, wanted),
            "memory" => memory_differs(now, wanted),
            _ => false,
        };
        changes && policy.restart_policy == "RestartContainer"
    })
}
