//! Starts the threads that report to an API server, if there is one.

use std::sync::Arc;

use super::{Parts, RunError, no_start_of};
use crate::api_client::Client;
use crate::api_client::pods::ServerPods;
use crate::certificates::{self, Certificates};
use crate::cluster::{self, Cluster};
use crate::daemon::turn::Event;
use crate::recorder::ring::Kept;
use crate::worker::adding::Adder;

impl Parts<'_> {
    /// Starts the thread that requests the node's certificates, if there is a server to sign them.
    pub(super) fn certificates(
        &self,
        server: Option<&(Client, ServerPods)>,
    ) -> Result<Option<Certificates>, RunError> {
        let (Some(settings), Some((client, _))) = (self.config.certificates.clone(), server) else {
            return Ok(None);
        };
        // The bound for other requests does not apply to these.
        let (client, clock, out) = (client.heartbeat(), self.clock, self.events.clone());
        // With new credentials, the API server's source tries again at once.
        let came = Box::new(move || _ = out.send(Event::Rescan));
        Certificates::start(certificates::Parts { settings, client, clock, came }, &self.pulses)
            .map_err(no_start_of("the thread that asks for certificates"))
    }

    /// `server` is the client and the server's pods of this node; `earlier` are the events that an earlier daemon
    /// recorded.
    pub(super) fn cluster(
        &self,
        server: Option<(Client, ServerPods)>,
        earlier: Vec<Arc<Kept>>,
        adder: Adder,
    ) -> Result<Option<Cluster>, RunError> {
        let (Some(settings), Some((client, pods))) = (self.config.cluster.clone(), server) else {
            return Ok(None);
        };
        let (out, of_heart) = (self.events.clone(), self.events.clone());
        let parts = cluster::Parts {
            settings,
            client,
            pods,
            docker: self.docker.clone(),
            clock: self.clock,
            node_ips: self.config.network.node_ips.clone(),
            earlier,
            // Without a main loop events are dropped.
            happened: Arc::new(move |event| _ = out.send(Event::Happened(event))),
            unheard: Arc::new(move |trouble| _ = of_heart.send(Event::Unheard(trouble))),
            adder,
        };
        Cluster::start(parts, &self.pulses).map(Some).map_err(no_start_of("what the API server is told"))
    }
}
