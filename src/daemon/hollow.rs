//! Many hollow nodes in one process, to load a control plane without machines, as upstream's kubemark does
//! (`cmd/kubemark`, `pkg/kubemark`). Each node is a daemon: main loop, workers, source and reports to the API server are
//! those of a real one, on a Docker in memory of its own. It has no files, cgroups, servers or probes.
//!
//! All nodes share one client, and so the bounds of its calls. Each node has its own watch of its own pods, although one
//! watch of all pods would cost less: the watches are a large part of the load that real nodes are.
//!
//! Never here: a file, or a decision about a pod. A node that ends by itself ends the process.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, after, bounded, never, select};

use crate::api_client::Client;
use crate::base::{limits, thread};
use crate::daemon::config::{ApiSource, Config};
use crate::daemon::drain::Places;
use crate::daemon::main_loop::run_hollow;
use crate::daemon::reload::Reader;
use crate::daemon::signals::{self, Signal};
use crate::daemon::wiring::{RunError, cannot, no_start_of};
use crate::node::sys;
use crate::runtime::docker::Endpoint;
use crate::server;

/// Label of each node.
const LABEL: &str = "podkeeper.dev/hollow";

/// Nothing can exist below it: a mistake touches no file of the machine. It also marks the containers of a node.
const ROOT: &str = "/proc/hollow";

/// The configuration of the node of this name.
fn node(base: &Config, name: String) -> Config {
    let mut config = base.clone();
    config.node_labels.insert("kubernetes.io/hostname".to_owned(), name.clone());
    config.node_labels.insert(LABEL.to_owned(), "true".to_owned());
    config.docker = Endpoint::Fake;
    config.root_dir = format!("{ROOT}/{name}").into();
    config.run_dir.clone_from(&config.root_dir);
    config.images.preload_dir = None;
    config.server = server::Settings::default();
    config.certificates = None;
    if let Some(ApiSource::Cluster(settings)) = &mut config.sources.api {
        settings.remembers = false;
    }
    if let Some(cluster) = &mut config.cluster {
        cluster.name.clone_from(&name);
        (cluster.port, cluster.is_reached) = (None, false);
    }
    config.node_name = name;
    config
}

/// A running node.
struct Running {
    signals: Sender<Signal>,
    thread: JoinHandle<()>,
}

/// How a node ended: its name, and the error if there was one.
type End = (String, Result<(), RunError>);

fn start(config: Config, client: Client, ends: Sender<End>) -> Result<Running, RunError> {
    let (signal, signals) = bounded(1);
    let name = config.node_name.clone();
    let body = move || {
        let ended = run_hollow(Arc::new(config), signals, client);
        // When all nodes end, no one waits for the reason.
        _ = ends.send((name, ended));
    };
    let thread = thread::spawn("pk-hollow", limits::WORKER_STACK, body)
        .map_err(no_start_of("the main loop of a hollow node"))?;
    Ok(Running { signals: signal, thread })
}

/// Runs nodes with these names until SIGTERM or SIGINT. `base` has their common settings.
///
/// # Errors
/// A thread could not be started, or a node has ended by itself: then all end.
pub fn run(base: &Config, names: Vec<String>, client: &Client) -> Result<(), RunError> {
    sys::raise_open_files();
    let reader = Reader(Box::new(|| None));
    let nowhere = Places { root: ROOT.into(), run: ROOT.into() };
    let signals = signals::catch(nowhere, reader).map_err(cannot("signals cannot be handled"))?;
    let mut nodes = Vec::new();
    let outcome = attend(base, names, client, &signals, &mut nodes);
    for node in &nodes {
        // A full channel holds the same request, and one without a receiver is that of a node that has ended.
        _ = node.signals.try_send(Signal::End(0));
    }
    for node in nodes {
        // In a release a panic has ended the process.
        _ = node.thread.join();
    }
    outcome
}

/// Starts the nodes one by one, and returns when a signal comes, or a node has ended.
fn attend(
    base: &Config,
    names: Vec<String>,
    client: &Client,
    signals: &Receiver<Signal>,
    nodes: &mut Vec<Running>,
) -> Result<(), RunError> {
    let (ends, ended) = bounded(names.len());
    let mut names = names.into_iter().peekable();
    loop {
        let due = if names.peek().is_some() { after(limits::HOLLOW_STEP) } else { never() };
        select! {
            recv(signals) -> signal => match signal {
                Ok(Signal::End(number)) => {
                    log::info!("signal {number}: {} hollow nodes end now", nodes.len());
                    return Ok(());
                }
                // There is nothing to read again.
                Ok(Signal::Rescan(_) | Signal::Reloaded(_) | Signal::Ask) => {}
                Err(_) => return Err(RunError::Panicked),
            },
            recv(ended) -> end => {
                let (name, why): End = end.map_err(|_| RunError::Panicked)?;
                log::error!("hollow node {name} has ended by itself, so all end");
                return Err(why.err().unwrap_or(RunError::Panicked));
            }
            recv(due) -> _ => {
                if let Some(name) = names.next() {
                    nodes.push(start(node(base, name), client.clone(), ends.clone())?);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::config::testing;
    use crate::source::api;

    #[test]
    fn a_hollow_node_has_its_own_name_and_no_place_on_the_disk() {
        let mut base = testing::config("hollow-0", "/r");
        base.docker = Endpoint::default();
        base.images.preload_dir = Some("/images".into());
        let settings = api::Settings { kubeconfig: "/k".into(), remembers: true };
        base.sources.api = Some(ApiSource::Cluster(settings));
        base.cluster = Some(crate::cluster::node::Settings::of("hollow-0"));
        let config = node(&base, "hollow-7".to_owned());
        assert_eq!((config.node_name.as_str(), &config.docker), ("hollow-7", &Endpoint::Fake));
        let told = config.cluster.as_ref().map(|it| (it.name.as_str(), it.port, it.is_reached));
        assert_eq!(told, Some(("hollow-7", None, false)));
        let label = |name: &str| config.node_labels.get(name).map(String::as_str);
        assert_eq!(label("kubernetes.io/hostname"), Some("hollow-7"));
        assert_eq!(label("podkeeper.dev/hollow"), Some("true"));
        assert_eq!(label("kubernetes.io/os"), Some("linux"));
        assert!(config.images.preload_dir.is_none() && config.root_dir.starts_with("/proc"));
        assert!(matches!(config.sources.api, Some(ApiSource::Cluster(it)) if !it.remembers));
    }
}
