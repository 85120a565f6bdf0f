//! `hollow`: runs many nodes without machines in this process, to load a control plane.

use super::Outcome;
use super::exit::Exit;
use super::flags::Verb;
use super::given::Parsed;
use super::run::configuration;
use crate::api_client::{Budget, Client};
use crate::base::{limits, logging};
use crate::daemon::config::ApiSource;
use crate::daemon::hollow;

/// Runs the nodes until a signal comes.
pub fn run(parsed: &Parsed) -> Outcome {
    let options = &parsed.options;
    logging::init(options.logging.verbosity);
    let flags = &options.hollow;
    let names: Vec<String> = (0..flags.count).map(|n| format!("{}{n}", flags.name_prefix)).collect();
    let first = names.first().map(String::as_str).unwrap_or_default();
    let base = configuration(Verb::Hollow, parsed, first).map_err(|error| error.to_string())?;
    let Some(ApiSource::Cluster(server)) = &base.sources.api else {
        return Err("no API server: give --kubeconfig FILE".to_owned());
    };
    let budget = Budget { qps: flags.qps, burst: flags.qps, calls: limits::HOLLOW_CALLS };
    let client = Client::with(server.kubeconfig.clone(), budget);
    log::info!("podkeeper {} starts {} hollow nodes, from {first} on", super::VERSION, flags.count);
    hollow::run(&base, names, &client).map_err(|error| error.to_string())?;
    Ok(Exit::Ok)
}
