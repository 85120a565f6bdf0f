//! A container's probes and hooks as closed types, with ports and references resolved (upstream
//! `pkg/apis/core/v1/defaults.go`, `pkg/probe/http/request.go`). Pure.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, ExecAction, HTTPGetAction, LifecycleHandler, Probe,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::base::clock::Mono;
use crate::base::table::Set;
use crate::mapping::env;
use crate::pod::Source;
use crate::pod::object::Objects;

/// Kind of probe, in the order of evaluation: startup holds back the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The others wait until it has passed; its failure kills the container.
    Startup,
    /// Its failure makes the container unready.
    Readiness,
    /// Its failure kills the container.
    Liveness,
}

impl Kind {
    /// All kinds, startup first.
    pub const ALL: [Kind; 3] = [Kind::Startup, Kind::Readiness, Kind::Liveness];

    /// The kubelet's word in messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Readiness => "Readiness",
            Kind::Liveness => "Liveness",
        }
    }
}

/// Times and thresholds of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Counted from the container's start.
    pub initial_delay: Duration,
    /// From attempt to attempt; at least one second.
    pub period: Duration,
    /// For the whole attempt; at least one second.
    pub timeout: Duration,
    /// Successes in a row for a success; at least 1.
    pub successes: u32,
    /// Failures in a row for a failure; at least 1.
    pub failures: u32,
}

/// The action of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Runs this command in the container.
    Exec(Vec<String>),
    /// Sends a GET.
    Http(HttpGet),
    /// Connects to a port.
    Tcp {
        /// Host to use instead of the pod's address.
        host: Option<String>,
        /// The number, or why there is none.
        port: Result<u16, String>,
    },
    /// Asks a gRPC server's health service.
    Grpc {
        /// Port number.
        port: u16,
        /// Name of the service; empty for the whole server.
        service: String,
    },
}

/// An httpGet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGet {
    /// Whether to use `https`, without a certificate check.
    pub tls: bool,
    /// Host to use instead of the pod's address.
    pub host: Option<String>,
    /// The number, or why there is none.
    pub port: Result<u16, String>,
    /// As written; `/` by default.
    pub path: String,
    /// As written, in order; names may repeat.
    pub headers: Vec<(String, String)>,
}

impl Action {
    /// Whether it connects to the pod's own address.
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
    /// Times and thresholds.
    pub timing: Timing,
    pub action: Action,
}

impl Probing {
    /// Reads a probe of `container`. `None` if it has no handler, which validation reports.
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

/// The action of a hook (upstream `pkg/kubelet/lifecycle/handlers.go`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAction {
    /// Runs a command or sends a GET; the status of the HTTP answer does not matter.
    Do(Action),
    /// Waits this long.
    Sleep(Duration),
    /// tcpSocket, or an empty command: accepted as upstream, and an error when it has to run.
    Invalid,
}

impl HookAction {
    /// Reads a handler; `ports` are those of its container.
    #[must_use]
    pub fn of(handler: &LifecycleHandler, ports: &[ContainerPort]) -> HookAction {
        if let Some(exec) = &handler.exec {
            let command = exec.command.clone().filter(|command| !command.is_empty());
            return command.map_or(HookAction::Invalid, |command| HookAction::Do(Action::Exec(command)));
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

/// Replaces `$(NAME)` by values that are in `env` itself (upstream `pkg/kubelet/prober/prober.go`). A value
/// of a local object may be secret: such a reference stays as written, so that no probe holds, compares or
/// prints the value.
fn command(words: &[String], container: &Container) -> Vec<String> {
    let mut elsewhere = Set::new();
    for var in container.env.iter().flatten() {
        // The last one of equal names is used.
        match var.value_from {
            Some(_) => _ = elsewhere.insert(&var.name),
            None => _ = elsewhere.remove(&var.name),
        }
    }
    let here = |var: &&EnvVar| var.value_from.is_none() && !elsewhere.contains(&var.name);
    let env = container.env.iter().flatten().filter(here).cloned().collect();
    let asked = Container { env: Some(env), command: Some(words.to_vec()), ..Container::default() };
    // Without references to objects, no value can be missing.
    env::expand(&asked, "", &Objects::new(), None).ok().and_then(|e| e.command).unwrap_or_default()
}

/// The probe or hook of a container that runs the longest command in it, and the bytes of that, with 16 for each word.
#[must_use]
pub fn longest_command(container: &Container) -> Option<(&'static str, usize)> {
    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    let probes = probes.into_iter().filter_map(|(name, probe)| Some((name, probe.as_ref()?.exec.as_ref()?)));
    let hooks = container
        .lifecycle
        .as_ref()
        .map(|all| [("postStart hook", &all.post_start), ("preStop hook", &all.pre_stop)]);
    let hooks = hooks.into_iter().flatten();
    let hooks = hooks.filter_map(|(name, hook)| Some((name, hook.as_ref()?.exec.as_ref()?)));
    let bytes = |words: &[String]| words.iter().map(|word| word.len().saturating_add(16)).sum();
    let of = |exec: &'_ ExecAction| exec.command.clone().unwrap_or_default();
    // References are replaced in probes alone, as upstream does.
    let probes = probes.map(|(name, exec)| (name, bytes(&command(&of(exec), container))));
    probes.chain(hooks.map(|(name, exec)| (name, bytes(&of(exec))))).max_by_key(|(_, bytes)| *bytes)
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

/// A number, the name of one of these ports, or (upstream's last try) a number in quotes.
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

/// One running container and its probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Container id.
    pub id: String,
    /// Container name, for messages.
    pub container: String,
    /// When it started, or was first seen running. A different time means that the same container runs
    /// again.
    pub started: Mono,
    /// Whether it ran before the daemon started: its earlier state is unknown, and it counts as healthy.
    pub adopted: bool,
    /// The pod's address; `None` while it is unknown.
    pub address: Option<IpAddr>,
    /// In the order of [`Kind::ALL`]; `None` if there is no such probe (any more).
    pub probes: [Option<Arc<Probing>>; 3],
}

impl Target {
    /// Whether both are the same run of the same container, so that counts carry over.
    #[must_use]
    pub fn is_same_run(&self, other: &Target) -> bool {
        (&self.id, self.started) == (&other.id, other.started)
    }

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookKind {
    /// After the start.
    PostStart,
    /// Before the stop signal.
    PreStop,
}

/// What has become of the command of a hook so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookStep {
    /// Docker cannot be reached: nothing of it was sent.
    Waits,
    /// Docker says that it has started it.
    Begun,
}

/// A hook that must run once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookWish {
    /// Container id.
    pub id: String,
    pub kind: HookKind,
    pub action: Action,
    /// The pod's address; `None` when it is unknown.
    pub address: Option<IpAddr>,
}

/// All probes and hooks of one pod's containers. Attempts that are no longer in it are dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// The source of the pod, where there is something to ask.
    pub source: Option<Source>,
    /// Containers with probes.
    pub targets: Vec<Target>,
    /// Hooks in progress.
    pub hooks: Vec<HookWish>,
}

impl Watch {
    /// Whether there is no probe and no hook.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.hooks.is_empty()
    }
}

#[cfg(test)]
mod tests;
