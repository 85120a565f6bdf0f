//! Other sizes for containers that run: changed in place, or by a restart where the manifest asks for that
//! (upstream `pkg/kubelet/kuberuntime/kuberuntime_manager.go`, `computePodResizeAction`).
//!
//! Labels cannot be changed on what runs, so what Docker tells of a container's limits is looked at here,
//! once for each container: from then on it is what was asked that counts. What an engine leaves out, or
//! says to be 0, is no difference: at worst one call too many is made, and never a restart for nothing.

use super::Machine;
use super::job::{Job, Retry};
use super::state::State;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::table::Table;
use crate::plan::Owned;
use crate::pod::DesiredPod;
use crate::recorder::words;
use crate::runtime::{Call, DockerError, Reply, Resources, resources};
use crate::status::Resize;
use k8s_openapi::api::core::v1::Container;

/// What was asked of Docker, by container id.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    asked: Table<String, Resources>,
    failed: Table<String, (Retry, String)>,
    /// Names of containers that are being changed.
    changing: Table<String, String>,
}

impl Sizes {
    /// A container was made so.
    pub(super) fn made(&mut self, id: &str, resources: Resources) {
        self.asked.insert(id.to_owned(), resources);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.asked.retain(|id, _| keep(id));
        self.failed.retain(|id, _| keep(id));
        self.changing.retain(|id, _| keep(id));
    }

    /// For the status.
    pub(super) fn shown(&self) -> Resize {
        let error = self.failed.iter().find(|(id, _)| self.changing.contains_key(*id));
        Resize {
            containers: self.changing.values().cloned().collect(),
            error: error.map(|(_, (_, why))| why.clone()),
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.asked.len() + self.failed.len() + self.changing.len()
    }
}

/// A running container that is not as it should be.
struct Change {
    id: String,
    name: String,
    wanted: Resources,
    restart: bool,
}

impl Machine {
    /// What is to be changed of the running containers; from now on the status tells of it.
    fn changes(&mut self, pod: &DesiredPod) -> Vec<Change> {
        let mut all = Vec::new();
        self.sizes.changing.clear();
        for (_, container) in pod.containers() {
            let Some(owned) = self.seen.newest(&pod.uid, &container.name).filter(|c| c.state.is_running())
            else {
                continue;
            };
            let wanted = resources::sizes(container);
            let Some(now) = self.size_of(owned) else { continue };
            let id = owned.id.clone();
            if !differs(now, wanted) {
                self.sizes.asked.insert(id, wanted);
                continue;
            }
            self.sizes.changing.insert(id.clone(), container.name.clone());
            all.push(Change {
                id,
                name: container.name.clone(),
                wanted,
                restart: needs_restart(container, now, wanted),
            });
        }
        all
    }

    /// What a container was last asked to be; `None` while nobody knows.
    fn size_of(&self, owned: &Owned) -> Option<Resources> {
        let seen = Some(owned.resources).filter(|r| *r != Resources::default());
        self.sizes.asked.get(&owned.id).copied().or(seen)
    }

    /// Brings running containers to their sizes. The pod's cgroup grows before, and shrinks when all is done.
    pub(super) fn tend_sizes(&mut self, pod: &DesiredPod, now: &Now) {
        let changes = self.changes(pod);
        self.tend_cgroup(pod, !changes.is_empty(), now);
        if !self.cgroup_ready(pod) {
            return;
        }
        for Change { id, name, wanted, restart } in changes {
            if restart {
                let why = format!("Container {name} resize requires restart");
                self.stop_one(&id, None, Some(&pod.spec), Some(&why), now);
                continue;
            }
            let until = self.sizes.failed.get(&id).map_or(Mono::default(), |(retry, _)| retry.until);
            if now.mono < until {
                self.wake_at(until);
            } else if !self.busy(&id) && !self.is_full() && !self.stops.contains_key(&id) {
                let job = Job::Update { id: id.clone(), resources: wanted };
                self.call(job, Call::Update { id, resources: wanted });
            }
        }
    }

    pub(super) fn updated(
        &mut self,
        id: &str,
        wanted: Resources,
        answer: Result<Reply, DockerError>,
        now: &Now,
    ) {
        let Some(owned) = self.seen.get(id).cloned() else { return };
        let name = owned.container_name().unwrap_or_default().to_owned();
        match answer {
            Ok(_) => {
                self.sizes.asked.insert(id.to_owned(), wanted);
                self.sizes.failed.remove(id);
                let State::Syncing(pod) = &self.state else { return };
                let requirements = pod.container(&name).and_then(|(_, c)| c.resources.clone());
                let told = words::resize_completed(&name, requirements.as_ref());
                self.tell(None, told);
            }
            Err(error) => {
                let why = error.to_string();
                let (retry, old) = self.sizes.failed.get_or_default(id.to_owned());
                retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono);
                if std::mem::replace(old, why.clone()) != why {
                    self.tell(None, words::resize_error(&name, &why));
                }
            }
        }
    }
}

/// Docker can be asked for something that is not so.
fn differs(now: Resources, wanted: Resources) -> bool {
    cpu_differs(now, wanted) || memory_differs(now, wanted)
}

fn cpu_differs(now: Resources, wanted: Resources) -> bool {
    other(now.cpu_shares, wanted.cpu_shares) || other(now.cpu_quota, wanted.cpu_quota)
}

fn memory_differs(now: Resources, wanted: Resources) -> bool {
    other(now.memory, wanted.memory)
}

/// Both are known, and not the same.
fn other(now: Option<i64>, wanted: Option<i64>) -> bool {
    now.zip(wanted).is_some_and(|(now, wanted)| now != wanted)
}

/// What changes is not to be changed in place.
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
