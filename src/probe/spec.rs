//! What a manifest asks of a container: probes and hooks as closed types, ports and references resolved
//! (upstream `pkg/apis/core/v1/defaults.go`, `pkg/probe/http/request.go`). Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, HTTPGetAction, LifecycleHandler, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::base::clock::Mono;
use crate::mapping::env;
use crate::pod::object::Objects;

/// Which of a container's probes. In the order of evaluation: startup gates the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Until it passed, the others wait; its failure kills.
    Startup,
    /// Its failure makes the container unready.
    Readiness,
    /// Its failure kills.
    Liveness,
}

impl Kind {
    /// All of them, startup first.
    pub const ALL: [Kind; 3] = [Kind::Startup, Kind::Readiness, Kind::Liveness];

    /// The kubelet's word in its texts.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Readiness => "Readiness",
            Kind::Liveness => "Liveness",
        }
    }
}

/// When a probe is made and what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From the container's start.
    pub initial_delay: Duration,
    /// From attempt to attempt; at least a second.
    pub period: Duration,
    /// For the whole attempt; at least a second.
    pub timeout: Duration,
    /// Successes in a row that make success; at least 1.
    pub successes: u32,
    /// Failures in a row that make failure; at least 1.
    pub failures: u32,
}

/// What one attempt does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Runs this in the container.
    Exec(Vec<String>),
    /// Asks a web server.
    Http(HttpGet),
    /// Connects.
    Tcp {
        /// Instead of the pod's address.
        host: Option<String>,
        /// Number, or why there is none.
        port: Result<u16, String>,
    },
    /// Asks a gRPC server's health service.
    Grpc {
        /// Number.
        port: u16,
        /// Name of the service asked about; empty for the whole server.
        service: String,
    },
}

/// A GET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGet {
    /// `https`, without a certificate check.
    pub tls: bool,
    /// Instead of the pod's address.
    pub host: Option<String>,
    /// Number, or why there is none.
    pub port: Result<u16, String>,
    /// As written; `/` by default.
    pub path: String,
    /// As written, in order; names may repeat.
    pub headers: Vec<(String, String)>,
}

impl Action {
    /// It goes to the pod's own address.
    #[must_use]
    pub fn needs_address(&self) -> bool {
        match self {
            Action::Exec(_) => false,
            Action::Http(HttpGet { host, .. }) | Action::Tcp { host, .. } => host.is_none(),
            Action::Grpc { .. } => true,
        }
    }
}

/// One probe of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probing {
    /// When.
    pub timing: Timing,
    /// What.
    pub action: Action,
}

impl Probing {
    /// Reads a probe of `container`. `None`: it has no handler, and validation has said so.
    #[must_use]
    pub fn of(probe: &Probe, container: &Container) -> Option<Probing> {
        let seconds = |value: Option<i32>, default: u32| {
            let value = value.and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0);
            Duration::from_secs(u64::from(value.unwrap_or(default)))
        };
        let count = |value: Option<i32>, default: u32| {
            value.and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0).unwrap_or(default)
        };
        let timing = Timing {
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            successes: count(probe.success_threshold, 1),
            failures: count(probe.failure_threshold, 3),
        };
        let action = if let Some(exec) = &probe.exec {
            Action::Exec(command(exec.command.as_deref().unwrap_or_default(), container))
        } else if let Some(get) = &probe.http_get {
            Action::Http(http_get(get, container.ports.as_deref().unwrap_or_default()))
        } else if let Some(socket) = &probe.tcp_socket {
            let ports = container.ports.as_deref().unwrap_or_default();
            Action::Tcp { host: host(socket.host.as_deref()), port: resolve(&socket.port, ports) }
        } else if let Some(grpc) = &probe.grpc {
            let port = u16::try_from(grpc.port).ok().filter(|port| *port > 0)?;
            Action::Grpc { port, service: grpc.service.clone().unwrap_or_default() }
        } else {
            return None;
        };
        Some(Probing { timing, action })
    }
}

/// What a hook does (upstream `pkg/kubelet/lifecycle/handlers.go`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAction {
    /// Runs or asks; of an HTTP answer the status does not matter.
    Do(Action),
    /// Waits.
    Sleep(Duration),
    /// tcpSocket, as upstream: accepted, and an error when it comes to it.
    Invalid,
}

impl HookAction {
    /// Reads a handler; `ports` are those of its container.
    #[must_use]
    pub fn of(handler: &LifecycleHandler, ports: &[ContainerPort]) -> HookAction {
        if let Some(exec) = &handler.exec {
            return HookAction::Do(Action::Exec(exec.command.clone().unwrap_or_default()));
        }
        if let Some(get) = &handler.http_get {
            return HookAction::Do(Action::Http(http_get(get, ports)));
        }
        match &handler.sleep {
            Some(sleep) => HookAction::Sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))),
            None => HookAction::Invalid,
        }
    }
}

/// `$(NAME)` is replaced from the values that stand in `env` itself (upstream
/// `pkg/kubelet/prober/prober.go`). One that comes from a local object may be secret: it stays as written,
/// so that no probe holds, compares or prints it.
fn command(words: &[String], container: &Container) -> Vec<String> {
    let mut elsewhere = BTreeSet::new();
    for var in container.env.iter().flatten() {
        // Of equal names the last one counts.
        match var.value_from {
            Some(_) => _ = elsewhere.insert(&var.name),
            None => _ = elsewhere.remove(&var.name),
        }
    }
    let here = |var: &&EnvVar| var.value_from.is_none() && !elsewhere.contains(&var.name);
    let env = container.env.iter().flatten().filter(here).cloned().collect();
    let asked = Container { env: Some(env), command: Some(words.to_vec()), ..Container::default() };
    // Without objects to look up nothing can be missing.
    env::expand(&asked, "", &Objects::new(), None).ok().and_then(|e| e.command).unwrap_or_default()
}

fn http_get(get: &HTTPGetAction, ports: &[ContainerPort]) -> HttpGet {
    let headers = get.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone()));
    HttpGet {
        tls: get.scheme.as_deref().is_some_and(|s| s.eq_ignore_ascii_case("https")),
        host: host(get.host.as_deref()),
        port: resolve(&get.port, ports),
        path: get.path.clone().unwrap_or_default(),
        headers: headers.collect(),
    }
}

fn host(host: Option<&str>) -> Option<String> {
    host.filter(|h| !h.is_empty()).map(str::to_owned)
}

/// A number, the name of one of these ports, or (upstream's last effort) a number in quotes.
fn resolve(port: &IntOrString, ports: &[ContainerPort]) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(name) => {
            let named = ports.iter().find(|p| p.name.as_deref() == Some(name));
            match named.map(|p| i64::from(p.container_port)) {
                Some(number) => number,
                None => {
                    name.parse().map_err(|_| format!("strconv.Atoi: parsing {name:?}: invalid syntax"))?
                }
            }
        }
    };
    u16::try_from(number).ok().filter(|n| *n > 0).ok_or_else(|| format!("invalid port number: {number}"))
}

/// One running container and what is to be asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Container id: another id is another life.
    pub id: String,
    /// Container name, for words.
    pub container: String,
    /// When it started, or was first seen running.
    pub started: Mono,
    /// It ran before the daemon began: what it was then is unknown, and it is taken to be well.
    pub adopted: bool,
    /// The pod's address; `None` while it is unknown.
    pub address: Option<IpAddr>,
    /// By [`Kind::ALL`]'s order; absent ones are not made (any more).
    pub probes: [Option<Arc<Probing>>; 3],
}

impl Target {
    /// The probe of a kind.
    #[must_use]
    pub fn probe(&self, kind: Kind) -> Option<&Arc<Probing>> {
        let [startup, readiness, liveness] = &self.probes;
        match kind {
            Kind::Startup => startup.as_ref(),
            Kind::Readiness => readiness.as_ref(),
            Kind::Liveness => liveness.as_ref(),
        }
    }
}

/// Which hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookKind {
    /// Right after the start.
    PostStart,
    /// Before the stop signal.
    PreStop,
}

/// A hook that is to be run once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookWish {
    /// Container id.
    pub id: String,
    /// Which of its hooks.
    pub kind: HookKind,
    /// What it does.
    pub action: Action,
    /// The pod's address; `None` when it is unknown.
    pub address: Option<IpAddr>,
}

/// All that is to be asked of one pod's containers at present. What is no longer in it is given up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// Containers with probes.
    pub targets: Vec<Target>,
    /// Hooks under way.
    pub hooks: Vec<HookWish>,
}

impl Watch {
    /// Nothing is to be asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.hooks.is_empty()
    }
}

#[cfg(test)]
mod tests;
