//! The kubelet's endpoints (upstream `pkg/kubelet/server/server.go`): the handlers of paths, by port.
//!
//! Never here: rights of users; see `auth`.

mod cadvisor;
pub mod container_logs;
pub mod figures;
pub mod healthz;
mod metrics;
mod pods;
pub mod streams;
mod system_logs;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::http::answer::Answer;
use super::http::request::{Method, Request};
use super::large::{Full, Large};
use super::service::{Asked, Reply, Service};
use figures::Figures;

use crate::api_client::pods::ServerPods;
use crate::probe::Prober;
use crate::runtime::docker::Docker;
use crate::status::snapshot::Latest;
use crate::status::task::Pulses;

/// The data of endpoints. They change nothing but through Docker.
#[derive(Debug)]
pub struct Node {
    /// The last published state of the node.
    pub pods: Latest,
    /// The pods of an API server, in its version.
    pub server_pods: Option<ServerPods>,
    pub docker: Docker,
    /// The pulses of watched threads.
    pub pulses: Pulses,
    /// `--root-dir`, absolute.
    pub root_dir: PathBuf,
    /// Results of earlier measurements.
    pub figures: Figures,
    /// Counts the results of probes.
    pub prober: Prober,
    /// Counts of health checks.
    pub checks: healthz::Counts,
    /// `--node-ip`.
    pub node_ips: Vec<IpAddr>,
    /// Large answers under way.
    pub large: Large,
}

/// The set of endpoints of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All endpoints.
    Main,
    /// Endpoints that only show something.
    ReadOnly,
    /// Health checks.
    Healthz,
    /// cAdvisor's own paths.
    Cadvisor,
}

/// Groups of endpoints that flags turn off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// `--enable-debugging-handlers`: logs of containers, exec, attach, run, port-forward, and running pods.
    pub debugging: bool,
    /// `--enable-system-log-handler`: files below `/var/log`.
    pub system_logs: bool,
}

/// The endpoints of one port.
pub struct Kubelet {
    pub node: Arc<Node>,
    pub scope: Scope,
    pub switches: Switches,
    /// The JSON answer to `/configz`.
    pub configz: Arc<str>,
}

impl Service for Kubelet {
    fn answer(&self, asked: &mut Asked<'_>) -> Reply {
        let request = asked.request;
        let path = request.path.get(1..).unwrap_or_default();
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if self.scope == Scope::Main && DEBUGGING.contains(&first) && !self.switches.debugging {
            return Answer::text(405, "Debug endpoints are disabled.").into();
        }
        let is_old = match (first, rest) {
            ("stats", rest) => rest != "summary" && (request.is_get() || request.method == Method::Post),
            _ => false,
        };
        let has_pods = matches!(self.scope, Scope::Main | Scope::ReadOnly);
        if has_pods && request.is_get() && (first, rest) == ("pods", "") {
            return self
                .node
                .large
                .answer(&asked.client, || Ok(pods::desired(&self.node)))
                .unwrap_or_else(busy);
        }
        let looked = match self.scope {
            Scope::Healthz => self.healthz(first, request),
            Scope::Cadvisor => request.is_get().then(|| cadvisor::answer(&self.node, path)),
            Scope::Main | Scope::ReadOnly if is_old => Some(cadvisor::stats(&self.node, rest, asked)),
            Scope::Main | Scope::ReadOnly => self.looks(first, rest, request),
        };
        match looked {
            Some(answer) => self.node.large.made(&asked.client, answer).unwrap_or_else(busy),
            None if self.scope == Scope::Main => self.debugs(first, rest, asked),
            None => not_found().into(),
        }
    }
}

impl Kubelet {
    fn healthz(&self, first: &str, request: &Request) -> Option<Answer> {
        (first == "healthz" && request.is_get()).then(|| healthz::answer(&self.node, request))
    }

    /// Endpoints that only show something; the read-only port has them, too.
    fn looks(&self, first: &str, rest: &str, request: &Request) -> Option<Answer> {
        // The old way to request figures.
        let is_asked = request.is_get() || first == "stats" && request.method == Method::Post;
        match (first, rest) {
            _ if !is_asked => None,
            ("healthz", _) => self.healthz(first, request),
            ("stats", "summary") => Some(figures::summary(&self.node, &request.query)),
            ("spec", "") => Some(cadvisor::machine(&self.node)),
            ("metrics", page) => metrics::answer(&self.node, page),
            _ => None,
        }
    }

    /// Other endpoints, which `--enable-debugging-handlers` turns off.
    fn debugs(&self, first: &str, rest: &str, asked: &Asked<'_>) -> Reply {
        let request = asked.request;
        let is_stream = matches!(request.method, Method::Get | Method::Post);
        match first {
            "exec" if is_stream => streams::command(&self.node, rest, request, false, streams::KUBELET),
            "attach" if is_stream => streams::command(&self.node, rest, request, true, streams::KUBELET),
            "portForward" if is_stream => streams::forward(&self.node, rest, request),
            "run" if request.method == Method::Post => streams::run(&self.node, rest, request),
            _ if !request.is_get() => not_found().into(),
            "containerLogs" => container_logs::answer(&self.node, rest, &request.query),
            // Without the handlers the path does not exist, as in the kubelet.
            "configz" if rest.is_empty() && self.switches.debugging => {
                Answer::new(200, "application/json", self.configz.as_bytes().to_vec()).into()
            }
            "runningpods" if rest.is_empty() => {
                self.node.large.made(&asked.client, pods::running(&self.node)).unwrap_or_else(busy)
            }
            "logs" if !self.switches.system_logs => Answer::text(405, "logs endpoint is disabled.").into(),
            "logs" if request.path == "/logs" => Answer::new(301, "", "").with("Location", "/logs/").into(),
            "logs" => system_logs::answer(rest),
            _ => not_found().into(),
        }
    }
}

/// Endpoints that `--enable-debugging-handlers=false` turns off.
const DEBUGGING: &[&str] =
    &["run", "exec", "attach", "portForward", "containerLogs", "runningpods", "debug", "logs"];

fn busy(_: Full) -> Reply {
    Answer::text(429, Full::WHY).into()
}

/// Go's message for an unknown path.
fn not_found() -> Answer {
    Answer::text(404, "404 page not found")
}
