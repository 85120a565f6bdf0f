//! How the servers are started: the kubelet's, and the API of this node.

use std::sync::Arc;

use super::{Parts, RunError, cannot};
use crate::api;
use crate::api::holdings::{Holdings, Reading};
use crate::api::told::Told;
use crate::api_client::Client;
use crate::daemon::config::ApiSource;
use crate::daemon::turn::Event;
use crate::daemon::watch::MAIN;
use crate::pod::Source;
use crate::probe::Prober;
use crate::server::kubelet;
use crate::server::{Others, Servers};
use crate::status::snapshot::Latest;
use crate::worker::pulls::Pulls;

/// The servers, the thread that reads the API's store, and where the API is told what is new.
type Serving = (Option<Servers>, Option<Reading>, Option<Told>);

impl Parts<'_> {
    pub(super) fn serve(&self, pods: Latest, prober: Prober, pulls: Pulls) -> Result<Serving, RunError> {
        let told = Told::default();
        let (holdings, reading) = self.holdings(&told)?.unzip();
        let servers = self.servers(pods, prober, pulls, told.clone(), holdings)?;
        Ok((servers, reading, self.config.api.is_some().then_some(told)))
    }

    /// What is written over the API, and the thread that reads it.
    fn holdings(&self, told: &Told) -> Result<Option<(Holdings, Reading)>, RunError> {
        let config = self.config;
        match &config.sources.api {
            // Writes go to the cluster then.
            None | Some(ApiSource::Cluster(_)) => return Ok(None),
            Some(ApiSource::Store) => {}
        }
        let out = self.events.clone();
        let send = Arc::new(move |update| out.send(Event::Source(update)).is_ok());
        let mut acceptor = self.acceptor(Source::Api);
        // Who may write is known by its certificate.
        acceptor.verifier = None;
        let key_file = config.sources.last_good_key_file.clone();
        let holdings = Holdings::new(config.root_dir.clone(), key_file, acceptor, told.clone(), send);
        let reading = holdings.read().map_err(cannot("the store of the API could not be read"))?;
        Ok(Some((holdings, reading)))
    }

    fn servers(
        &self,
        pods: Latest,
        prober: Prober,
        pulls: Pulls,
        told: Told,
        holdings: Option<Holdings>,
    ) -> Result<Option<Servers>, RunError> {
        let config = self.config;
        let node = Arc::new(kubelet::Node {
            pods,
            docker: self.docker.clone(),
            pulses: self.pulses.clone(),
            main_loop: MAIN,
            root_dir: config.root_dir.clone(),
            figures: kubelet::figures::Figures::default(),
            prober,
            checks: kubelet::healthz::Counts::default(),
            node_ips: config.network.node_ips.clone(),
        });
        let api = config.api.clone().map(|settings| {
            let parts = api::Parts {
                node: Arc::clone(&node),
                told,
                holdings,
                root_dir: config.root_dir.clone(),
                run_dir: config.run_dir.clone(),
                node_name: config.node_name.clone(),
                node_ips: config.network.node_ips.clone(),
                pulls,
            };
            Box::new(move || vec![api::port(&settings, parts)]) as Others
        });
        // A client of its own: a flood of tokens takes no call from the node's own work.
        let server = match &config.sources.api {
            Some(ApiSource::Cluster(settings)) if config.server.asks() => {
                Some(Client::awaiting(settings.kubeconfig.clone()))
            }
            _ => None,
        };
        Servers::start(&config.server, node, api, server, &self.pulses)
            .map_err(cannot("the servers could not be started"))
    }
}
