//! Each container call in the in-memory engine: Docker 20.10's checks, in its order, with its words.
//! `tests/it/engine/fake_like_real.rs` compares it with a real Docker. Pure.

use std::time::Duration;

use super::answers::{ALLOCATING, check_name, has_label, name_in_use, name_taken, no_container};
use super::behaviour::{Behaviour, Run};
use super::state::{Container, State, refused};
use crate::base::clock::Now;
use crate::runtime::{
    Call, CreateBody, DockerError, DockerState, Info, RefusalKind as Kind, Reply, Resources,
};

pub(super) type Answer = Result<Reply, DockerError>;

const SHIM: &str = "failed to create shim task: OCI runtime create failed: runc create failed: \
                    unable to start container process: exec:";

impl State {
    /// Carries out a call without faults.
    pub(super) fn carry_out(&mut self, call: &Call, now: Now) -> Answer {
        match call {
            Call::Info => Ok(Reply::Info(Info {
                server_version: "20.10.24-fake".into(),
                cgroup_driver: "cgroupfs".into(),
                cgroup_version: "2".into(),
                architecture: std::env::consts::ARCH.into(),
                kernel_version: "fake".into(),
                root_dir: String::new(),
                logging_driver: "json-file".into(),
                cpus: 4,
                memory: 8 << 30,
            })),
            Call::List { labels } => {
                let wanted = |c: &&Container| labels.iter().all(|filter| has_label(&c.body.labels, filter));
                let list = self.containers.iter().rev().filter(wanted).map(|c| self.summary(c, now));
                Ok(Reply::Containers(list.collect()))
            }
            Call::Inspect { id } => match self.get(id) {
                Some(c) => Ok(Reply::Container(Box::new(self.detail(c)))),
                None => Err(no_container("", id)),
            },
            // It has no files, and its containers write none.
            Call::Files { id, .. } => match self.get(id) {
                Some(_) => Ok(Reply::Files(Box::default())),
                None => Err(no_container("", id)),
            },
            // Its containers have no processes.
            Call::Process { id } => match self.get(id) {
                Some(_) => Ok(Reply::Process(None)),
                None => Err(no_container("", id)),
            },
            Call::Create { name, body } => self.create(name, body, now),
            Call::Start { id } => self.start(id, now),
            Call::Kill { id, signal } => self.kill(id, signal, now),
            Call::Remove { id, force } => self.remove(id, *force, now),
            Call::Update { id, resources } => self.update(id, *resources, now),
            Call::Rename { id, name } => self.rename(id, name, now),
            Call::LogTail { id, lines } => self.log_tail(id, *lines),
            Call::Resize { id, .. } => self.running(id).map(|_| Reply::Done),
            Call::ExecCreate { id, body } => self.exec_create(id, body, now),
            Call::ExecInspect { .. } | Call::ExecResize { .. } => self.exec_call(call),
            Call::NetworkList { .. }
            | Call::NetworkInspect { .. }
            | Call::NetworkCreate { .. }
            | Call::NetworkRemove { .. } => self.network_call(call),
            Call::ImageInspect { .. }
            | Call::ImageList { .. }
            | Call::ImageRemove { .. }
            | Call::ImageTag { .. }
            | Call::DiskUsage
            | Call::BuildPrune => self.image_call(call),
        }
    }

    fn create(&mut self, name: &str, body: &CreateBody, now: Now) -> Answer {
        let bad = |why: String| Err(refused(Kind::BadRequest, 400, why));
        let host = &body.host_config;
        if Container::joined(&host.namespaces.network_mode).is_some() {
            let conflict = match () {
                () if body.hostname.is_some() => "hostname and the network mode",
                () if !host.port_bindings.is_empty() => "port publishing and the container type network mode",
                () if !body.exposed_ports.is_empty() => "port exposing and the container type network mode",
                () => "",
            };
            if !conflict.is_empty() {
                return bad(format!("conflicting options: {conflict}"));
            }
        }
        if host.resources.memory.is_some_and(|m| (1..6 << 20).contains(&m)) {
            return bad("Minimum memory limit allowed is 6MB".into());
        }
        if matches!((host.resources.memory, host.resources.memory_swap), (Some(m), Some(s)) if s > 0 && s < m)
        {
            return bad("Minimum memoryswap limit should be larger than memory limit, see usage".into());
        }
        if host.resources.cpu_quota.is_some_and(|q| (1..1000).contains(&q)) {
            return bad("CPU cfs quota can not be less than 1ms (i.e. 1000)".into());
        }
        let ports = host.port_bindings.values().flatten().map(|b| &b.host_port);
        if let Some(port) = ports.into_iter().find(|p| !p.is_empty() && p.parse::<u16>().is_err()) {
            return bad(format!("invalid port specification: {port:?}"));
        }
        if let Some(signal) = body.stop_signal.as_ref().filter(|s| signal_number(s).is_none()) {
            return bad(format!("Invalid signal: {signal}"));
        }
        let image = self.image(&body.image).ok_or_else(|| self.no_image("", &body.image));
        let (image_id, has_command) = match image {
            Ok(image) => (image.id.clone(), image.command),
            Err(_) if body.image.is_empty() => return bad("No command specified".into()),
            Err(refusal) => return Err(refusal),
        };
        let asked = |words: &Option<Vec<String>>| words.as_ref().is_some_and(|w| !w.is_empty());
        if !has_command && !asked(&body.entrypoint) && !asked(&body.cmd) {
            return bad("No command specified".into());
        }
        let name = name.strip_prefix('/').unwrap_or(name);
        if let Err(why) = check_name(name, "") {
            return bad(why);
        }
        let hidden = self.hidden_names.get(name);
        if let Some(holder) = hidden.or_else(|| Some(&self.containers.iter().find(|c| c.name == name)?.id)) {
            return Err(name_in_use(name, holder));
        }
        for mode in [&host.namespaces.ipc_mode, &host.namespaces.pid_mode] {
            if let Some(of) = Container::joined(mode).filter(|of| self.get(of).is_none()) {
                return bad(format!("No such container: {of}"));
            }
        }
        if let Err(why) = self.behaviour(name, body) {
            return bad(why);
        }
        let id = self.insert(name, &image_id, body.clone(), now);
        let discarded = host.namespaces.network_mode == "host" && !host.port_bindings.is_empty();
        let warning = "Published ports are discarded when using host network mode";
        Ok(Reply::Created { id, warnings: discarded.then(|| warning.to_string()).into_iter().collect() })
    }

    fn start(&mut self, key: &str, now: Now) -> Answer {
        let c = self.get(key).ok_or_else(|| no_container("", key))?;
        match c.state {
            DockerState::Running => return Ok(Reply::Already),
            DockerState::Removing => {
                let why = "container is marked for removal and cannot be started";
                return Err(refused(Kind::RemovalInProgress, 409, why));
            }
            DockerState::Created | DockerState::Exited => {}
        }
        let id = c.id.clone();
        match self.can_start(c) {
            Ok(behaviour) => {
                self.start_process(&id, behaviour, now);
                Ok(Reply::Done)
            }
            Err(refusal) => {
                let endpoint = self.new_id();
                let refusal = match refusal {
                    DockerError::Refused(mut r) => {
                        r.message = r.message.replace(ENDPOINT, &endpoint);
                        DockerError::Refused(r)
                    }
                    other => other,
                };
                if let Some(c) = self.get_mut(&id) {
                    // A container that ran keeps its code and times; only the error changes.
                    c.exit_code = match (refusal.refusal(), c.exit_code) {
                        (Some(Kind::CannotRun), _) => 127,
                        (_, 0) => 128,
                        (_, code) => code,
                    };
                    c.error = match &refusal {
                        DockerError::Refused(refused) => refused.message.clone(),
                        other => other.to_string(),
                    };
                }
                Err(refusal)
            }
        }
    }

    fn can_start(&self, c: &Container) -> Result<Behaviour, DockerError> {
        self.network_is_there(c)?;
        let host = &c.body.host_config;
        if let Some(of) = Container::joined(&host.namespaces.network_mode) {
            let donor = self.get(of).ok_or_else(|| no_container("", of))?;
            if donor.state != DockerState::Running {
                let why = format!("cannot join network of a non running container: {}", donor.id);
                return Err(refused(Kind::SandboxNotRunning, 409, why));
            }
        }
        if let Some((protocol, ip, port)) = c.ports().into_iter().find(|p| self.port_holder(*p).is_some()) {
            let same = self.port_holder((protocol, ip, port)) == Some(ip);
            let why = match same {
                true => format!("Bind for {ip}:{port} failed: port is already allocated"),
                false => format!(
                    "Error starting userland proxy: listen {protocol}4 {ip}:{port}: bind: address already in use"
                ),
            };
            let on = format!("driver failed programming external connectivity on endpoint {}", c.name);
            return Err(refused(Kind::PortInUse, 500, format!("{on} ({ENDPOINT}): {why}")));
        }
        if let Some(of) = Container::joined(&host.namespaces.ipc_mode) {
            let shared = |c: &Container| {
                matches!(c.body.host_config.namespaces.ipc_mode.as_str(), "shareable" | "host")
            };
            let (kind, why) = match self.get(of) {
                None => (Kind::Server, format!("No such container: {of}")),
                Some(donor) if donor.state != DockerState::Running => {
                    (Kind::NotRunning, format!("container {} is not running", donor.id))
                }
                Some(donor) if !shared(donor) => {
                    let hint = "non-shareable IPC (hint: use IpcMode:shareable for the donor container)";
                    (Kind::Server, hint.into())
                }
                Some(_) => (Kind::Server, String::new()),
            };
            if !why.is_empty() {
                return Err(refused(kind, 500, format!("can't join IPC of container {of}: {why}")));
            }
        }
        if let Some(of) = Container::joined(&host.namespaces.pid_mode) {
            let donor = self.get(of).ok_or_else(|| no_container("", of))?;
            if donor.state != DockerState::Running {
                return Err(refused(Kind::NotRunning, 500, format!("container {} is not running", donor.id)));
            }
        }
        let behaviour = self.behaviour(&c.name, &c.body).map_err(|why| refused(Kind::Server, 500, why))?;
        if behaviour.run == Run::Missing {
            let program = c.body.entrypoint.iter().chain(&c.body.cmd).flatten().next();
            let program = program.map_or("", String::as_str);
            let why = match program.starts_with('/') {
                true => format!("{SHIM} {program:?}: stat {program}: no such file or directory: unknown"),
                false => format!("{SHIM} {program:?}: executable file not found in $PATH: unknown"),
            };
            return Err(refused(Kind::CannotRun, 400, why));
        }
        Ok(behaviour)
    }

    /// The address on which a running container holds this port.
    fn port_holder(&self, (protocol, ip, port): (&str, &str, &str)) -> Option<&str> {
        let any = "0.0.0.0";
        let running = self.containers.iter().filter(|c| c.state == DockerState::Running);
        running.flat_map(Container::ports).find_map(|(p, i, n)| {
            (p == protocol && n == port && (i == ip || i == any || ip == any)).then_some(i)
        })
    }

    fn kill(&mut self, key: &str, signal: &str, now: Now) -> Answer {
        let Some(number) = signal_number(signal) else {
            return Err(refused(Kind::BadRequest, 400, format!("Invalid signal: {signal}")));
        };
        let c = self.get(key).ok_or_else(|| no_container(&format!("Cannot kill container: {key}: "), key))?;
        if c.state != DockerState::Running {
            let why = format!("Cannot kill container: {key}: Container {} is not running", c.id);
            return Err(refused(Kind::NotRunning, 409, why));
        }
        let image = self.image(&c.image_id).and_then(|i| i.stop_signal.clone());
        let stop = c.body.stop_signal.clone().or(image).and_then(|s| signal_number(&s)).unwrap_or(15);
        self.signal(key, number, number == stop || number == 15, now);
        Ok(Reply::Done)
    }

    fn rename(&mut self, key: &str, name: &str, now: Now) -> Answer {
        let c = self.get(key).ok_or_else(|| no_container("", key))?;
        let (id, old) = (c.id.clone(), format!("/{}", c.name));
        if c.name == name {
            let why = "Renaming a container with the same name as its current name";
            return Err(refused(Kind::BadRequest, 400, why));
        }
        check_name(name, "/").map_err(|why| refused(Kind::BadRequest, 400, format!("{ALLOCATING}{why}")))?;
        if let Some(holder) = self.containers.iter().find(|c| c.name == name) {
            let why = name_taken(name, &holder.id);
            return Err(refused(Kind::NameInUse(Some(holder.id.clone())), 409, format!("{ALLOCATING}{why}")));
        }
        if let Some(c) = self.get_mut(&id) {
            c.name = name.to_owned();
        }
        self.publish_of(&id, "rename", &[("oldName", old)], now);
        Ok(Reply::Done)
    }

    fn remove(&mut self, key: &str, force: bool, now: Now) -> Answer {
        let c = self.get(key).ok_or_else(|| no_container("", key))?;
        let id = c.id.clone();
        if c.state == DockerState::Removing && !c.dead {
            let why = format!("removal of container {key} is already in progress");
            return Err(refused(Kind::RemovalInProgress, 409, why));
        }
        if c.state == DockerState::Running {
            if !force {
                let why = format!(
                    "You cannot remove a running container {id}. Stop the container before attempting \
                     removal or force remove"
                );
                return Err(refused(Kind::StillRunning, 409, why));
            }
            self.signal(&id, 9, false, now);
        }
        if self.undeletable.contains(&id) {
            if let Some(c) = self.get_mut(&id) {
                (c.state, c.dead) = (DockerState::Removing, true);
            }
            let why = format!(
                "container {id}: driver \"overlay2\" failed to remove root filesystem: unlinkat \
                 /var/lib/docker/overlay2/{id}/merged: device or resource busy"
            );
            return Err(refused(Kind::Server, 500, why));
        }
        self.remove_behind_our_back(&id, now);
        Ok(Reply::Done)
    }

    /// Begins a removal that takes this long.
    pub(super) fn remove_slowly(&mut self, key: &str, takes: Duration, now: Now) {
        let Some(c) = self.get_mut(key).filter(|c| c.state != DockerState::Running) else { return };
        (c.state, c.dead) = (DockerState::Removing, false);
        let id = c.id.clone();
        self.remove_at(&id, now.mono.after(takes));
    }

    // --- Answers of list and inspect ---------------------------------------------------------------

    fn update(&mut self, key: &str, new: Resources, now: Now) -> Answer {
        let c = self.get_mut(key).ok_or_else(|| no_container("", key))?;
        let host = &mut c.body.host_config;
        let set = |old: &mut Option<i64>, new: Option<i64>| *old = new.or(*old);
        set(&mut host.resources.cpu_shares, new.cpu_shares);
        set(&mut host.resources.cpu_period, new.cpu_period);
        set(&mut host.resources.cpu_quota, new.cpu_quota);
        set(&mut host.resources.memory, new.memory);
        set(&mut host.resources.memory_swap, new.memory_swap);
        let id = c.id.clone();
        self.publish_of(&id, "update", &[], now);
        Ok(Reply::Done)
    }
}

/// Placeholder in a message for the id of the endpoint that could not be made.
const ENDPOINT: &str = "{endpoint}";

/// The number of a signal (`TERM`, `SIGTERM` or `15`); only signals that containers usually get.
fn signal_number(signal: &str) -> Option<u8> {
    if let Ok(number) = signal.parse::<u8>() {
        return (1..=64).contains(&number).then_some(number);
    }
    Some(match signal.strip_prefix("SIG").unwrap_or(signal) {
        "HUP" => 1,
        "INT" => 2,
        "QUIT" => 3,
        "" | "KILL" => 9,
        "USR1" => 10,
        "USR2" => 12,
        "TERM" => 15,
        "WINCH" => 28,
        _ => return None,
    })
}
