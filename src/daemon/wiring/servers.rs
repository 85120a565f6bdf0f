//! How the servers are started: the kubelet's, and the API of this node.

use std::sync::Arc;

use super::{Parts, RunError, cannot};
use crate::api;
use crate::api::told::Told;
use crate::daemon::watch::MAIN;
use crate::server::kubelet;
use crate::server::{Others, Servers};
use crate::status::snapshot::Latest;

impl Parts<'_> {
    pub(super) fn servers(&self, pods: Latest, told: Told) -> Result<Option<Servers>, RunError> {
        let config = self.config;
        let node = Arc::new(kubelet::Node {
            pods,
            docker: self.docker.clone(),
            pulses: self.pulses.clone(),
            main_loop: MAIN,
            root_dir: config.root_dir.clone(),
            figures: kubelet::figures::Figures::default(),
            node_ips: config.network.node_ips.clone(),
        });
        let api = config.api.clone().map(|settings| {
            let parts = api::Parts {
                node: Arc::clone(&node),
                told,
                root_dir: config.root_dir.clone(),
                run_dir: config.run_dir.clone(),
                node_name: config.node_name.clone(),
                node_ips: config.network.node_ips.clone(),
            };
            Box::new(move || vec![api::port(&settings, parts)]) as Others
        });
        Servers::start(&config.server, node, api, &self.pulses)
            .map_err(cannot("the servers could not be started"))
    }
}
