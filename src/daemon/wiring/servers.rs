//! Starts the servers: the kubelet's server and the API of this node.

use std::sync::Arc;

use super::{
    Parts, RunError, {cannot, no_start_of},
};
use crate::api;
use crate::api::holdings::{Holdings, Reading};
use crate::api::told::ApiBoard;
use crate::api_client::Client;
use crate::api_client::pods::ServerPods;
use crate::daemon::config::ApiSource;
use crate::daemon::turn::Event;
use crate::pod::Source;
use crate::probe::Prober;
use crate::server::kubelet;
use crate::server::large::Large;
use crate::server::{Others, Servers};
use crate::status::snapshot::Latest;
use crate::worker::adding::Adder;
use crate::worker::judged::Judging;
use crate::worker::node::NodeCells;
use crate::worker::pulls::Pulls;

/// The servers, the thread that reads the API's store, and where the API gets new content.
type Serving = (Option<Servers>, Option<Reading>, Option<ApiBoard>);

impl Parts<'_> {
    pub(super) fn adder(&self, pulls: &Pulls, node: &NodeCells) -> Adder {
        Adder {
            docker: self.docker.clone(),
            root_dir: self.config.root_dir.clone(),
            pulls: pulls.clone(),
            judging: Judging::new(node, self.clock),
        }
    }

    /// `server` has the pods of an API server.
    pub(super) fn serve(
        &self,
        pods: Latest,
        server: &Option<(Client, ServerPods)>,
        prober: Prober,
        adder: Adder,
    ) -> Result<Serving, RunError> {
        let told = ApiBoard::default();
        let theirs = server.as_ref().map(|(_, pods)| pods.clone());
        let (holdings, reading) = self.holdings(&told)?.unzip();
        let servers = self.servers((pods, theirs), prober, adder, told.clone(), holdings)?;
        Ok((servers, reading, self.config.api.is_some().then_some(told)))
    }

    /// The store of pods that are written over the API, and the thread that reads it.
    fn holdings(&self, told: &ApiBoard) -> Result<Option<(Holdings, Reading)>, RunError> {
        let config = self.config;
        match &config.sources.api {
            // Writes are stored in the cluster then.
            None | Some(ApiSource::Cluster(_)) => return Ok(None),
            Some(ApiSource::Store) => {}
        }
        let out = self.events.clone();
        let send = Arc::new(move |update| out.send(Event::Source(update)).is_ok());
        let mut acceptor = self.acceptor(Source::Api);
        // The certificate identifies the writer, so manifests need no signature.
        acceptor.verifier = None;
        let key_file = config.sources.last_good_key_file.clone();
        let holdings = Holdings::new(config.root_dir.clone(), key_file, acceptor, told.clone(), send);
        let reading = holdings.read().map_err(cannot("the store of the API could not be read"))?;
        Ok(Some((holdings, reading)))
    }

    fn servers(
        &self,
        (pods, server_pods): (Latest, Option<ServerPods>),
        prober: Prober,
        adder: Adder,
        told: ApiBoard,
        holdings: Option<Holdings>,
    ) -> Result<Option<Servers>, RunError> {
        let config = self.config;
        let node = Arc::new(kubelet::Node {
            large: Large::default(),
            pods,
            server_pods,
            docker: self.docker.clone(),
            pulses: self.pulses.clone(),
            root_dir: config.root_dir.clone(),
            figures: kubelet::figures::Figures::default(),
            prober,
            checks: kubelet::healthz::Counts::default(),
            node_ips: config.network.node_ips.clone(),
        });
        // Separate clients: a flood of tokens takes no capacity from the node's own requests.
        let client = |asks: bool| match &config.sources.api {
            Some(ApiSource::Cluster(settings)) if asks => Some(Client::awaiting(settings.kubeconfig.clone())),
            _ => None,
        };
        let api = config.api.clone().map(|settings| {
            let parts = api::Parts {
                node: Arc::clone(&node),
                told,
                holdings,
                root_dir: config.root_dir.clone(),
                run_dir: config.run_dir.clone(),
                node_name: config.node_name.clone(),
                node_ips: config.network.node_ips.clone(),
                adder,
                server: client(settings.auth.asks()),
            };
            Box::new(move || vec![api::port(&settings, parts)]) as Others
        });
        Servers::start(&config.server, node, api, client(config.server.auth.asks()), &self.pulses)
            .map_err(no_start_of("the servers"))
    }
}
