//! How what goes back to an API server is started, where there is one.

use std::sync::Arc;

use super::{Parts, RunError, cannot};
use crate::api_client::Client;
use crate::api_client::pods::ServerPods;
use crate::cluster::{self, Cluster};
use crate::daemon::turn::Event;
use crate::recorder::ring::Kept;

impl Parts<'_> {
    /// `server` is the client and the server's pods of this node; `earlier` are the events that an earlier daemon told.
    pub(super) fn cluster(
        &self,
        server: Option<(Client, ServerPods)>,
        earlier: Vec<Arc<Kept>>,
    ) -> Result<Option<Cluster>, RunError> {
        let (Some(settings), Some((client, pods))) = (self.config.cluster.clone(), server) else {
            return Ok(None);
        };
        let out = self.events.clone();
        let parts = cluster::Parts {
            settings,
            client,
            pods,
            docker: self.docker.clone(),
            clock: self.clock,
            node_ips: self.config.network.node_ips.clone(),
            earlier,
            // Without a main loop nobody keeps events.
            happened: Arc::new(move |event| _ = out.send(Event::Happened(event))),
        };
        Cluster::start(parts, &self.pulses)
            .map(Some)
            .map_err(cannot("what the API server is told could not be started"))
    }
}
