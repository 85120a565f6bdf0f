//! The hooks with which tests hurt the in-memory engine, and look at it.

use std::collections::BTreeSet;

use super::behaviour::{Behaviour, OnTerm};
use super::state::{KILLED, State, Timer};
use crate::base::clock::Now;
use crate::runtime::{CreateBody, DockerState};

/// How the engine comes to restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// `systemctl restart docker` without live-restore: each container gets its stop signal and, if that
    /// is ignored, KILL.
    Orderly,
    /// The machine went down: whatever ran is found dead with code 255.
    PowerCut,
}

/// Fields that some engine or kernel does not report (balena-os/meta-balena#2062).
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

impl State {
    /// Scripts every container of this Docker name, Kubernetes container name, or image, from its next
    /// start on.
    pub fn behave(&mut self, key: &str, behaviour: Behaviour) {
        self.behaviours.insert(key.into(), behaviour);
    }

    /// The main process ends by itself.
    pub fn crash(&mut self, key: &str, code: i64, now: Now) {
        self.die(key, code, false, now);
    }

    /// The OOM killer strikes.
    pub fn oom(&mut self, key: &str, now: Now) {
        self.die(key, KILLED, true, now);
    }

    /// Somebody else removes the container by force; also the end of a slow removal.
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

    /// Puts a container there that podkeeper did not make, of an image that is added when missing.
    pub fn plant(&mut self, name: &str, labels: &[(&str, &str)], running: bool, now: Now) -> String {
        let image_id = self.add_image("foreign:1", true);
        let labels = labels.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect();
        let body = CreateBody { image: "foreign:1".into(), labels, ..CreateBody::default() };
        let id = self.insert(name, &image_id, body, now);
        if running {
            self.come_up(&id, Behaviour::default(), now);
        }
        id
    }

    /// The engine restarts: nothing runs afterwards (restart policies are `no`), the ring is empty,
    /// removals that went on are stuck, ghosts are gone.
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
        // Owners of foreign containers still come to fetch them.
        let alive: BTreeSet<&str> =
            self.containers.iter().filter(|c| !c.dead).map(|c| c.id.as_str()).collect();
        self.timers.retain(|_, timer| matches!(timer, Timer::Gone { id } if alive.contains(id.as_str())));
        self.execs.clear();
        self.ghosts.clear();
        self.forget_events();
    }

    /// Nothing can be reached (no socket), or again. Containers live on.
    pub fn set_down(&mut self, down: bool) {
        self.down = down;
        self.cut_events();
    }

    /// Inspecting this container never ends (kubernetes/kubernetes#94829).
    pub fn hang_inspect(&mut self, key: &str, hang: bool) {
        if let Some(id) = self.get(key).map(|c| c.id.clone()) {
            match hang {
                true => self.hung.insert(id),
                false => self.hung.remove(&id),
            };
        }
    }

    /// Removing this container fails, for ever or until told otherwise (moby/moby#22312).
    pub fn refuse_removal(&mut self, key: &str, refuse: bool) {
        if let Some(id) = self.get(key).map(|c| c.id.clone()) {
            match refuse {
                true => self.undeletable.insert(id),
                false => self.undeletable.remove(&id),
            };
        }
    }

    /// Docker does not manage to remove this container.
    #[must_use]
    pub fn refuses_removal(&self, key: &str) -> bool {
        self.get(key).is_some_and(|c| self.undeletable.contains(&c.id))
    }

    /// This container bears another label from now on.
    pub fn relabel(&mut self, id: &str, label: &str, value: &str) {
        if let Some(c) = self.get_mut(id) {
            c.body.labels.insert(label.to_owned(), value.to_owned());
        }
    }

    /// Inspect leaves these fields out from now on.
    pub fn drop_inspect_fields(&mut self, fields: &[Field]) {
        self.dropped = fields.iter().copied().collect();
    }
}
