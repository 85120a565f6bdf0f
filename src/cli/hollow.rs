//! `hollow`: runs many nodes without machines in this process, to load a control plane.

use super::exit::Exit;
use super::flags::Verb;
use super::given::Parsed;
use super::run::configuration;
use super::{Outcome, say};
use crate::api_client::{Budget, Client};
use crate::base::limits;
use crate::base::logging::{self, one_line};
use crate::daemon::config::ApiSource;
use crate::daemon::hollow;

/// Runs the nodes until a signal comes.
pub fn run(parsed: &Parsed) -> Outcome {
    let options = &parsed.options;
    let flags = &options.hollow;
    let names: Vec<String> = (0..flags.count).map(|n| format!("{}{n}", flags.name_prefix)).collect();
    let first = names.first().map(String::as_str).unwrap_or_default();
    let base = match configuration(Verb::Hollow, parsed, first) {
        Ok(base) => base,
        Err(error) => {
            say(&error.to_string());
            return Ok(error.exit);
        }
    };
    let Some(ApiSource::Cluster(server)) = &base.sources.api else {
        return Err("no API server: give --kubeconfig FILE".to_owned());
    };
    let budget = Budget { qps: flags.qps, burst: flags.qps, calls: limits::HOLLOW_CALLS };
    let client = Client::with(server.kubeconfig.clone(), budget);
    // Before anything is logged: each node would log it, and wait for another file without end.
    if let Err(why) = client.usable() {
        let path = server.kubeconfig.to_string_lossy();
        let of_file = if why.contains(&*path) { String::new() } else { format!("{path}: ") };
        say(&format!("error: --kubeconfig cannot be used: {of_file}{}", one_line(&why)));
        return Ok(Exit::Usage);
    }
    logging::init(options.logging.verbosity);
    log::info!("podkeeper {} starts {} hollow nodes, from {first} on", super::VERSION, flags.count);
    hollow::run(&base, names, &client).map_err(|error| error.to_string())?;
    Ok(Exit::Ok)
}
