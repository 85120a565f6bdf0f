//! The HTTP servers of the node. No server listens unless a flag says so.
//!
//! [`listen`] is the one thread that holds all waiting connections; [`connection`] is one request on a thread of
//! [`pool`]; [`auth`] decides which requests are answered; the endpoints are in [`kubelet`], and other protocols than
//! HTTP in [`stream`]. [`http`] is pure.
//!
//! Never here: anything that holds up a pod. A slow, silent or hostile client costs a descriptor, at most a thread of a
//! bounded pool, and nothing else.

pub mod auth;
pub mod census;
pub mod connection;
mod crowded;
pub mod http;
pub mod kubelet;
pub mod large;
pub mod listen;
pub mod pool;
pub mod relay;
pub mod service;
pub mod stream;
pub mod tls;
mod transport;
mod waiting;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::api_client::Client;
use crate::base::{limits, thread};
use crate::status::task::{Pulses, Task};
use auth::Guard;
use auth::webhook::Webhook;
use kubelet::{Kubelet, Scope};
use listen::{Listen, Patience, Port};
use tls::Certificates;

/// Settings of the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--address`, and `--port` of the kubelet's server; without a port it does not listen.
    pub main: Option<SocketAddr>,
    /// `--address` and `--read-only-port`.
    pub read_only: Option<SocketAddr>,
    /// `--healthz-bind-address` and `--healthz-port`.
    pub healthz: Option<SocketAddr>,
    /// `--address` and `--cadvisor-port`.
    pub cadvisor: Option<SocketAddr>,
    /// Certificates of the kubelet's server.
    pub tls: tls::Settings,
    /// Rules for its clients.
    pub auth: auth::Settings,
    /// The JSON answer to `/configz`.
    pub configz: Arc<str>,
    /// `--enable-debugging-handlers`, `--enable-system-log-handler`.
    pub switches: kubelet::Switches,
}

impl Default for Settings {
    /// Settings without any port.
    fn default() -> Settings {
        Settings {
            main: None,
            read_only: None,
            healthz: None,
            cadvisor: None,
            tls: tls::Settings::default(),
            auth: auth::Settings::default(),
            configz: "{}".into(),
            switches: kubelet::Switches { debugging: true, system_logs: false },
        }
    }
}

impl Settings {
    /// Whether any server listens.
    #[must_use]
    pub fn listens(&self) -> bool {
        [self.main, self.read_only, self.healthz, self.cadvisor].iter().any(Option::is_some)
    }
}

/// The address of a port; `None` for port 0.
#[must_use]
pub fn address(ip: IpAddr, port: u16) -> Option<SocketAddr> {
    (port != 0).then_some(SocketAddr::new(ip, port))
}

/// Makes further ports, on the servers' thread, because it may read a disk.
pub type Others = Box<dyn FnOnce() -> Vec<Port> + Send>;

/// The servers. Dropping it ends them; streams under way end with the process.
#[derive(Debug)]
pub struct Servers {
    end: Option<Sender<()>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Servers {
    /// Starts the servers, also on the ports of `others`; returns `None` when no flag asks for any. `server` is an API
    /// server to ask about clients.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(
        settings: &Settings,
        node: Arc<kubelet::Node>,
        others: Option<Others>,
        server: Option<Client>,
        pulses: &Pulses,
    ) -> io::Result<Option<Servers>> {
        if !settings.listens() && others.is_none() {
            return Ok(None);
        }
        let (woken, wake) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let wake = Arc::new(wake);
        let (end, ended) = bounded(0);
        // There is always room, so a thread of the pool never waits to give a connection back.
        let back = bounded(limits::SERVER_THREADS);
        let (settings, pulses) = (settings.clone(), pulses.clone());
        let of_thread = Arc::clone(&wake);
        let body = move || {
            pulses.join(Task::Servers);
            // Certificates are read on this thread: a disk that hangs keeps no pod from starting.
            let pipe = (woken, of_thread);
            let mut ports = ports(&settings, &node, server);
            ports.extend(others.map(|others| others()).unwrap_or_default());
            Listen::new(ports, back, pipe, ended, Patience::default()).run();
        };
        Ok(Some(Servers {
            end: Some(end),
            wake,
            thread: Some(thread::spawn("pk-server", limits::SERVER_STACK, body)?),
        }))
    }
}

fn ports(settings: &Settings, node: &Arc<kubelet::Node>, server: Option<Client>) -> Vec<Port> {
    let kubelet = |scope| {
        let (node, configz) = (Arc::clone(node), Arc::clone(&settings.configz));
        Kubelet { node, scope, switches: settings.switches, configz }
    };
    let mut ports = Vec::new();
    if let Some(address) = settings.main {
        let certificates = Certificates::open(settings.tls.clone());
        let inner = Arc::new(kubelet(Scope::Main));
        let webhook = server.map(|client| Webhook::new(client, settings.auth.webhook.clone()));
        let (settings, certificates_of) = (settings.auth.clone(), Arc::clone(&certificates));
        let guard = Guard { settings, certificates: certificates_of, webhook, inner };
        let (name, certificates) = ("the kubelet's server", Some(certificates));
        ports.push(Port { name, address, certificates, service: Arc::new(guard) });
    }
    let plain = [
        ("the read-only server", settings.read_only, Scope::ReadOnly),
        ("the server of health checks", settings.healthz, Scope::Healthz),
        ("cAdvisor's server", settings.cadvisor, Scope::Cadvisor),
    ];
    for (name, address, scope) in plain {
        let Some(address) = address else { continue };
        ports.push(Port { name, address, certificates: None, service: Arc::new(kubelet(scope)) });
    }
    ports
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.end = None;
        // A full pipe wakes as well.
        let _ = rustix::io::write(&*self.wake, &[1]);
        if let Some(thread) = self.thread.take() {
            // It waits only for its descriptors.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
