//! The kubelet's endpoints (upstream `pkg/kubelet/server/server.go`): which path is answered by what, on which port.
//!
//! Never here: who may ask; that is `auth`'s.

mod container_logs;
mod healthz;
mod pods;
mod streams;

use std::net::IpAddr;
use std::sync::Arc;

use super::http::answer::Answer;
use super::http::request::Method;
use super::service::{Asked, Reply, Service};
use crate::base::pulse::Pulses;
use crate::runtime::docker::Docker;
use crate::status::snapshot::Latest;

/// What endpoints look at. Nothing here changes anything but by Docker.
#[derive(Debug)]
pub struct Node {
    /// The node's state as the main loop published it last.
    pub pods: Latest,
    pub docker: Docker,
    /// The threads that are watched.
    pub pulses: Pulses,
    /// What the main loop is called among them.
    pub main_loop: &'static str,
    /// `--node-ip`.
    pub node_ips: Vec<IpAddr>,
}

/// Which endpoints a port has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All.
    Main,
    /// Those that only look.
    ReadOnly,
    /// Health checks.
    Healthz,
}

/// Groups of endpoints that flags turn off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// `--enable-debugging-handlers`: logs of containers, exec, attach, run, port-forward, and what runs.
    pub debugging: bool,
    /// `--enable-system-log-handler`: files below `/var/log`.
    pub system_logs: bool,
}

/// The endpoints of one port.
pub struct Kubelet {
    pub node: Arc<Node>,
    pub scope: Scope,
    pub switches: Switches,
}

impl Service for Kubelet {
    fn answer(&self, asked: &mut Asked<'_>) -> Reply {
        let request = asked.request;
        let is_get = matches!(request.method, Method::Get | Method::Head);
        let is_stream = matches!(request.method, Method::Get | Method::Post);
        let path = request.path.get(1..).unwrap_or_default();
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let is_main = self.scope == Scope::Main;
        if is_main && DEBUGGING.contains(&first) && !self.switches.debugging {
            return Answer::text(405, "Debug endpoints are disabled.").into();
        }
        match (self.scope, first) {
            (_, "healthz") if is_get => healthz::answer(&self.node, request).into(),
            (Scope::Main | Scope::ReadOnly, "pods") if is_get => pods::desired(&self.node).into(),
            (Scope::Main, "containerLogs") if is_get => {
                container_logs::answer(&self.node, rest, &request.query)
            }
            (Scope::Main, "exec") if is_stream => streams::command(&self.node, rest, request, false),
            (Scope::Main, "attach") if is_stream => streams::command(&self.node, rest, request, true),
            (Scope::Main, "portForward") if is_stream => streams::forward(&self.node, rest, request),
            (Scope::Main, "run") if request.method == Method::Post => streams::run(&self.node, rest, request),
            _ => not_found().into(),
        }
    }
}

/// Endpoints that `--enable-debugging-handlers=false` turns off.
const DEBUGGING: &[&str] =
    &["run", "exec", "attach", "portForward", "containerLogs", "runningpods", "debug", "logs"];

/// Go's words for a path that nothing answers.
fn not_found() -> Answer {
    Answer::text(404, "404 page not found")
}
