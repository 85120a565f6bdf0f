//! The in-memory engine's state: containers, timers, and the life of processes. Pure: time is an input as
//! [`Now`], chance a seed; the same calls give the same answers.
//!
//! Calls are in `calls` and `images`, faults in `faults`.

use std::collections::{BTreeMap, VecDeque};

use super::behaviour::{Behaviour, ENV, LABEL, OnTerm, Run};
use super::events::{FakeEvent, Ring};
use super::faults::{FaultPlan, Rng};
use super::hooks::Field;
use super::images::{Image, Pull};
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::limits::FAKE_EXECS;
use crate::base::table::{Set, Table};
use crate::runtime::{
    Call, CreateBody, DockerError, DockerState, KILLED, NetworkDetail, Refusal, RefusalKind, Reply, labels,
};

/// One container, as the engine knows it.
#[derive(Debug, Clone)]
pub struct Container {
    /// 64 hex digits.
    pub id: String,
    /// Without the slash.
    pub name: String,
    /// Configuration it was created with.
    pub body: CreateBody,
    /// Created, running, exited; `Removing` covers Docker's `removing` and `dead`.
    pub state: DockerState,
    /// Number of successful starts: at most 1 for a container that was not restarted.
    pub starts: u32,
    pub(super) image_id: String,
    /// A removal failed half way; false while a removal is in progress.
    pub(super) dead: bool,
    pub(super) exit_code: i64,
    pub(super) oom_killed: bool,
    pub(super) error: String,
    pub(super) created: Timestamp,
    pub(super) started: Option<Now>,
    pub(super) finished: Option<Now>,
    pub(super) behaviour: Behaviour,
    /// Last two bytes of its address in 172.17/16.
    pub(super) ip: Option<u16>,
}

impl Container {
    /// The container whose namespace `mode` (`container:<id>`) joins.
    pub(super) fn joined(mode: &str) -> Option<&str> {
        mode.strip_prefix("container:")
    }

    /// Its address, while it runs on a network of its own.
    pub(super) fn address(&self) -> Option<String> {
        self.ip.map(|n| format!("172.17.{}.{}", n >> 8, n & 255))
    }

    /// Returns false for a container that joined another one's network, and for one that was disconnected.
    pub(super) fn is_on_a_network(&self) -> bool {
        let mode = self.body.host_config.namespaces.network_mode.as_str();
        let own = matches!(mode, "" | "default" | "bridge");
        let cut = own && self.ip.is_none() && self.state == DockerState::Running;
        Container::joined(mode).is_none() && !cut
    }

    /// Protocols, host addresses and ports that it binds: only exposed ports, and only on a network of its
    /// own, as in Docker.
    pub(super) fn ports(&self) -> Vec<(&str, &str, &str)> {
        let host = &self.body.host_config;
        if host.namespaces.network_mode == "host" {
            return Vec::new();
        }
        let exposed = host.port_bindings.iter().filter(|(key, _)| self.body.exposed_ports.contains_key(*key));
        exposed
            .flat_map(|(key, bindings)| {
                let protocol = key.split_once('/').map_or("tcp", |(_, protocol)| protocol);
                bindings.iter().map(move |b| (protocol, b))
            })
            .filter(|(_, b)| !matches!(b.host_port.as_str(), "" | "0"))
            .map(|(protocol, b)| {
                (protocol, if b.host_ip.is_empty() { "0.0.0.0" } else { &b.host_ip }, b.host_port.as_str())
            })
            .collect()
    }

    pub(super) fn event(&self, action: &str, more: &[(&str, String)]) -> FakeEvent {
        let mut labels = self.body.labels.clone();
        labels.insert("image".into(), self.body.image.clone());
        labels.insert("name".into(), self.name.clone());
        labels.extend(more.iter().map(|(key, value)| ((*key).to_string(), value.clone())));
        FakeEvent { id: self.id.clone(), action: action.into(), labels, time_nano: 0 }
    }
}

/// A future change.
pub(super) enum Timer {
    /// The main process ends, unless the container was started again since.
    Death { id: String, starts: u32, code: i64, oom: bool },
    /// A call whose caller has given up is carried out.
    Late(Box<Call>),
    /// A slow removal ends; a foreign container is removed by its owner.
    Gone { id: String },
    /// An exec's command ends.
    ExecEnds { id: String, code: i64 },
    /// An event that was overtaken arrives.
    Overtaken,
}

pub(super) struct Exec {
    pub(super) id: String,
    pub(super) container: String,
    pub(super) cmd: Vec<String>,
    pub(super) started: bool,
    /// Exit code; set when the command has ended.
    pub(super) code: Option<i64>,
}

/// The whole state of the engine.
pub struct State {
    /// The planned faults; [`FaultPlan::none`] at first.
    pub faults: FaultPlan,
    pub(super) containers: Vec<Container>,
    pub(super) images: Vec<Image>,
    /// Bytes.
    pub(super) build_cache: u64,
    pub(super) networks: Vec<NetworkDetail>,
    pub(super) pulls: Table<String, Pull>,
    pub(super) execs: VecDeque<Exec>,
    /// Names whose holder is not listed, and the holder's id.
    pub(super) hidden_names: BTreeMap<String, String>,
    pub(super) hung: Set<String>,
    pub(super) undeletable: Set<String>,
    pub(super) dropped: Set<Field>,
    pub(super) behaviours: Table<String, Behaviour>,
    pub(super) down: bool,
    total_starts: u64,
    ids: Rng,
    next_ip: u16,
    pub(super) timers: Table<(Mono, u64), Timer>,
    next_timer: u64,
    pub(super) ring: Ring,
}

impl State {
    /// An engine without containers and images. Ids and faults follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        State {
            faults: FaultPlan::none(),
            containers: Vec::new(),
            images: Vec::new(),
            build_cache: 0,
            networks: Vec::new(),
            pulls: Table::new(),
            execs: VecDeque::new(),
            hidden_names: BTreeMap::new(),
            hung: Set::new(),
            undeletable: Set::new(),
            dropped: Set::new(),
            behaviours: Table::new(),
            down: false,
            total_starts: 0,
            ids: Rng::new(seed),
            next_ip: 2,
            timers: Table::new(),
            next_timer: 0,
            ring: Ring::default(),
        }
    }

    /// Carries out one call, or makes it fail according to the fault plan. Time moves to `now` first.
    ///
    /// # Errors
    /// Docker's refusals, and the faults.
    pub fn perform(&mut self, call: &Call, now: Now) -> Result<Reply, DockerError> {
        self.advance(now);
        self.reachable()?;
        let is_image_hung = matches!(call, Call::ImageInspect { image } if self.hung.contains(image));
        if is_image_hung
            || matches!(call, Call::Inspect { id } if self.get(id).is_some_and(|c| self.hung.contains(&c.id)))
        {
            return Err(DockerError::Timeout("inspect hangs".into()));
        }
        match self.faults.draw(Some(call), now.mono) {
            Some(fault) => self.fail(fault, call, now),
            None => self.carry_out(call, now),
        }
    }

    pub(super) fn reachable(&self) -> Result<(), DockerError> {
        match self.down {
            true => Err(DockerError::Unreachable("fake engine: connection refused".into())),
            false => Ok(()),
        }
    }

    // --- Time ------------------------------------------------------------------------------------

    /// When the next timer is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        self.timers.keys().next().map(|(at, _)| *at)
    }

    /// Runs the timers that are due, in order, each at its own time.
    pub fn advance(&mut self, now: Now) {
        while self.next_due().is_some_and(|at| at <= now.mono) {
            let Some(((at, _), timer)) = self.timers.pop_first() else { return };
            let wall = now.wall.checked_sub(now.mono.since(at)).unwrap_or(now.wall);
            let then = Now { mono: at, wall };
            match timer {
                Timer::Death { id, starts, code, oom } => {
                    if self.get(&id).is_some_and(|c| c.starts == starts) {
                        self.die(&id, code, oom, then);
                    }
                }
                // The caller has given up, so the answer is dropped.
                Timer::Late(call) => drop(self.carry_out(&call, then)),
                Timer::Gone { id } => self.remove_behind_our_back(&id, then),
                Timer::ExecEnds { id, code } => self.exec_ends(&id, code, then),
                Timer::Overtaken => self.deliver_delayed(),
            }
        }
    }

    pub(super) fn schedule(&mut self, at: Mono, timer: Timer) {
        self.timers.insert((at, self.next_timer), timer);
        self.next_timer += 1;
    }

    /// Carries out `call` after its caller has given up.
    pub(super) fn carry_out_late(&mut self, call: &Call, at: Mono) {
        self.schedule(at, Timer::Late(Box::new(call.clone())));
    }

    /// Removes a container at `at`.
    pub(super) fn remove_at(&mut self, id: &str, at: Mono) {
        self.schedule(at, Timer::Gone { id: id.into() });
    }

    // --- Containers ------------------------------------------------------------------------------

    /// All containers, oldest first.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter()
    }

    /// Number of all starts so far; while it is unchanged, no container was started.
    #[must_use]
    pub fn total_starts(&self) -> u64 {
        self.total_starts
    }

    /// A container by id, name, or unique prefix of an id.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Container> {
        self.containers.get(self.position(key)?)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Container> {
        let at = self.position(key)?;
        self.containers.get_mut(at)
    }

    /// Disconnects a container from its network, as `docker network disconnect -f` does.
    pub fn disconnect(&mut self, key: &str) {
        if let Some(c) = self.get_mut(key) {
            c.ip = None;
        }
    }

    pub(super) fn position(&self, key: &str) -> Option<usize> {
        let name = key.strip_prefix('/').unwrap_or(key);
        let exact = |by: fn(&Container) -> &str, it: &str| self.containers.iter().position(|c| by(c) == it);
        exact(|c| &c.id, key).or_else(|| exact(|c| &c.name, name)).or_else(|| {
            let mut found = self.containers.iter().enumerate().filter(|(_, c)| c.id.starts_with(key));
            let first = found.next().filter(|_| !key.is_empty())?;
            found.next().is_none().then_some(first.0)
        })
    }

    /// A new id: 64 hex digits.
    pub(super) fn new_id(&mut self) -> String {
        (0..4).map(|_| format!("{:016x}", self.ids.number())).collect()
    }

    /// The script of a container: a test's script for its name or image, else its own, else a guess.
    ///
    /// # Errors
    /// A script that cannot be read.
    pub(super) fn behaviour(&self, name: &str, body: &CreateBody) -> Result<Behaviour, String> {
        let kube = body.labels.get(labels::CONTAINER_NAME).map_or("", String::as_str);
        if let Some(said) = [name, kube, &body.image].iter().find_map(|key| self.behaviours.get(*key)) {
            return Ok(said.clone());
        }
        let env = body.env.iter().find_map(|e| e.strip_prefix(ENV)?.strip_prefix('='));
        if let Some(script) = env.or(body.labels.get(LABEL).map(String::as_str)) {
            return Behaviour::script(script);
        }
        let words: Vec<String> =
            [&body.entrypoint, &body.cmd].into_iter().flatten().flatten().cloned().collect();
        Ok(Behaviour::command(&words))
    }

    /// Starts the main process: the container runs until a timer or a signal ends it.
    pub(super) fn start_process(&mut self, key: &str, behaviour: Behaviour, now: Now) {
        let ip = self.free_ip();
        let Some(c) = self.get_mut(key) else { return };
        c.state = DockerState::Running;
        (c.exit_code, c.oom_killed) = (0, false);
        c.error.clear();
        c.starts = c.starts.saturating_add(1);
        c.started = Some(now);
        c.ip = matches!(c.body.host_config.namespaces.network_mode.as_str(), "" | "default" | "bridge")
            .then_some(ip);
        let end = match behaviour.run {
            Run::Exit { after, code } => Some((after, code, false)),
            Run::Oom { after } => Some((after, KILLED, true)),
            Run::Forever | Run::Missing => None,
        };
        c.behaviour = behaviour;
        let event = c.event("start", &[]);
        let (id, starts) = (c.id.clone(), c.starts);
        self.total_starts = self.total_starts.saturating_add(1);
        self.publish(event, now);
        if let Some((after, code, oom)) = end {
            self.schedule(now.mono.after(after), Timer::Death { id, starts, code, oom });
        }
    }

    fn free_ip(&mut self) -> u16 {
        while self.containers.iter().any(|c| c.ip == Some(self.next_ip)) {
            self.next_ip = self.next_ip.wrapping_add(1).max(2);
        }
        self.next_ip
    }

    /// Delivers a signal to the main process.
    pub(super) fn signal(&mut self, key: &str, number: u8, stop: bool, now: Now) {
        let Some(c) = self.get(key) else { return };
        let (id, starts, term, kill) = (c.id.clone(), c.starts, c.behaviour.term, c.behaviour.kill);
        let event = c.event("kill", &[("signal", number.to_string())]);
        self.publish(event, now);
        let (after, code) = match (number, term) {
            (9, _) => (kill, KILLED),
            (_, OnTerm::Exit { after, code }) if stop => (after, code),
            _ => return,
        };
        if after.is_zero() {
            self.die(&id, code, false, now);
        } else {
            self.schedule(now.mono.after(after), Timer::Death { id, starts, code, oom: false });
        }
    }

    /// Ends the main process: its ports and address are freed, its execs are forgotten, and containers that
    /// share its process namespace end, too.
    pub(super) fn die(&mut self, key: &str, code: i64, oom: bool, now: Now) {
        let Some(c) = self.get_mut(key).filter(|c| c.state == DockerState::Running) else { return };
        c.state = DockerState::Exited;
        (c.exit_code, c.oom_killed, c.finished, c.ip) = (code, oom, Some(now), None);
        let (id, name) = (c.id.clone(), c.name.clone());
        let oom_event = c.event("oom", &[]);
        let die = c.event("die", &[("exitCode", code.to_string())]);
        // The kernel kills the other processes of the namespace before it reports the end of their PID 1.
        let shares = |c: &&Container| {
            Container::joined(&c.body.host_config.namespaces.pid_mode)
                .is_some_and(|of| id == of || name == of)
        };
        let members: Vec<String> = self.containers.iter().filter(shares).map(|c| c.id.clone()).collect();
        for member in members {
            self.die(&member, KILLED, false, now);
        }
        if oom {
            self.publish(oom_event, now);
        }
        self.publish(die, now);
        self.execs.retain(|e| e.container != id);
    }

    /// Adds a container in state `created`.
    pub(super) fn insert(&mut self, name: &str, image_id: &str, body: CreateBody, now: Now) -> String {
        let container = Container {
            id: self.new_id(),
            name: name.into(),
            body,
            state: DockerState::Created,
            starts: 0,
            image_id: image_id.into(),
            dead: false,
            exit_code: 0,
            oom_killed: false,
            error: String::new(),
            created: now.wall,
            started: None,
            finished: None,
            behaviour: Behaviour::default(),
            ip: None,
        };
        let (id, event) = (container.id.clone(), container.event("create", &[]));
        self.containers.push(container);
        self.publish(event, now);
        id
    }

    /// Remembers an exec; with more than [`FAKE_EXECS`] the oldest one is forgotten, as by Docker's
    /// collector.
    pub(super) fn insert_exec(&mut self, container: &str, cmd: Vec<String>) -> String {
        let id = self.new_id();
        if self.execs.len() >= FAKE_EXECS {
            self.execs.pop_front();
        }
        let (container, started) = (container.to_string(), false);
        self.execs.push_back(Exec { id: id.clone(), container, cmd, started, code: None });
        id
    }
}

pub(super) fn refused(kind: RefusalKind, status: u16, message: impl Into<String>) -> DockerError {
    DockerError::Refused(Refusal { kind, status, message: message.into() })
}
