//! Hooks for tests, to disturb and inspect the in-memory engine.

use super::behaviour::{Behaviour, OnTerm};
use super::state::{Container, State, Timer};
use crate::base::clock::Now;
use crate::base::order;
use crate::base::table::Set;
use crate::runtime::{CreateBody, DockerState, KILLED};

/// How the engine restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// `systemctl restart docker` without live-restore: each container gets its stop signal and, if that
    /// is ignored, KILL.
    Orderly,
    /// The machine went down: running containers are found dead with code 255.
    PowerCut,
}

/// Inspect fields that some engine or kernel does not report (balena-os/meta-balena#2062).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "fields of ContainerDetail")]
pub enum Field {
    Created,
    StartedAt,
    FinishedAt,
    Error,
    Image,
    ImageId,
    StopSignal,
    NetworkMode,
    Ips,
    LogPath,
}

impl Container {
    /// The image that it was created from.
    #[must_use]
    pub fn image_id(&self) -> &str {
        &self.image_id
    }
}

impl State {
    /// Scripts every container of this Docker name, Kubernetes container name, or image, from its next start
    /// on.
    pub fn behave(&mut self, key: &str, behaviour: Behaviour) {
        self.behaviours.insert(key.into(), behaviour);
    }

    /// The main process ends by itself.
    pub fn crash(&mut self, key: &str, code: i64, now: Now) {
        self.die(key, code, false, now);
    }

    /// The OOM killer kills the main process.
    pub fn oom(&mut self, key: &str, now: Now) {
        self.die(key, KILLED, true, now);
    }

    /// Another client removes the container by force; also the end of a slow removal.
    pub fn remove_behind_our_back(&mut self, key: &str, now: Now) {
        if self.get(key).is_some_and(|c| c.state == DockerState::Running) {
            self.signal(key, 9, false, now);
            self.die(key, KILLED, false, now);
        }
        if let Some(at) = self.position(key) {
            let event = self.containers.remove(at).event("destroy", &[]);
            self.publish(event, now);
        }
    }

    /// Adds a container that podkeeper did not make, of an image that is added when missing.
    pub fn plant(&mut self, name: &str, labels: &[(&str, &str)], running: bool, now: Now) -> String {
        let image_id = self.add_image("foreign:1", true);
        let labels = order::map(labels.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())));
        let body = CreateBody { image: "foreign:1".into(), labels, ..CreateBody::default() };
        let id = self.insert(name, &image_id, body, now);
        if running {
            self.start_process(&id, Behaviour::default(), now);
        }
        id
    }

    /// Restarts the engine: no container runs afterwards (restart policies are `no`), the event ring is
    /// empty, unfinished removals are stuck, hidden names are free.
    pub fn restart_engine(&mut self, how: Restart, now: Now) {
        self.advance(now);
        let running: Vec<String> = self.containers.iter().map(|c| c.id.clone()).collect();
        for id in running {
            let code = match (how, self.get(&id).map(|c| c.behaviour.term)) {
                (Restart::PowerCut, _) => 255,
                (Restart::Orderly, Some(OnTerm::Exit { code, .. })) => code,
                (Restart::Orderly, _) => KILLED,
            };
            self.die(&id, code, false, now);
        }
        for c in self.containers.iter_mut().filter(|c| c.state == DockerState::Removing) {
            c.dead = true;
        }
        // Foreign containers are still removed by their owners.
        let alive: Set<&str> = self.containers.iter().filter(|c| !c.dead).map(|c| c.id.as_str()).collect();
        self.timers.retain(|_, timer| matches!(timer, Timer::Gone { id } if alive.contains(id.as_str())));
        self.execs.clear();
        self.hidden_names.clear();
        self.forget_events();
    }

    /// Makes the engine unreachable (no socket), or reachable again. Containers keep running.
    pub fn set_down(&mut self, down: bool) {
        self.down = down;
        self.cut_events();
    }

    /// Whether the engine is unreachable.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// Makes inspects of this container hang, or work again (kubernetes/kubernetes#94829).
    pub fn hang_inspect(&mut self, key: &str, hang: bool) {
        if let Some(id) = self.get(key).map(|c| c.id.clone()) {
            match hang {
                true => self.hung.insert(id),
                false => self.hung.remove(&id),
            };
        }
    }

    /// Makes inspects of the image hang that are for this name.
    pub fn hang_image(&mut self, image: &str) {
        self.hung.insert(image.to_owned());
    }

    /// Makes removals of this container fail, or work again (moby/moby#22312).
    pub fn refuse_removal(&mut self, key: &str, refuse: bool) {
        if let Some(id) = self.get(key).map(|c| c.id.clone()) {
            match refuse {
                true => self.undeletable.insert(id),
                false => self.undeletable.remove(&id),
            };
        }
    }

    /// Whether removals of this container fail.
    #[must_use]
    pub fn refuses_removal(&self, key: &str) -> bool {
        self.get(key).is_some_and(|c| self.undeletable.contains(&c.id))
    }

    /// Sets a label of this container.
    pub fn relabel(&mut self, id: &str, label: &str, value: &str) {
        if let Some(c) = self.get_mut(id) {
            c.body.labels.insert(label.to_owned(), value.to_owned());
        }
    }

    /// Leaves these fields out of inspects from now on.
    pub fn drop_inspect_fields(&mut self, fields: &[Field]) {
        self.dropped = fields.iter().copied().collect();
    }
}
