//! Starts the sources of pods.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Parts, RunError, no_start_of};
use crate::api_client::Client;
use crate::api_client::pods::ServerPods;
use crate::certificates::Certificates;
use crate::daemon::config::ApiSource;
use crate::daemon::turn::Event;
use crate::pod::Source;
use crate::source::accept::Acceptor;
use crate::source::api;
use crate::source::file::{FileSource, Sink};
use crate::source::http::{self, HttpSource};
use crate::source::last_good::forget::forget;
use crate::source::last_good::{Board, LastGood, Saver, directory};

/// All sources that are declared. Dropping it ends them.
pub(super) struct Sources {
    file: Option<FileSource>,
    http: Option<HttpSource>,
    /// Fetches the credentials for requests to the API server.
    _certificates: Option<Certificates>,
    api: Option<api::ApiSource>,
    /// The client of the API server, and the server's pods of this node.
    pub(super) server: Option<(Client, ServerPods)>,
}

impl Sources {
    /// Makes each of them look again.
    pub(super) fn rescan(&self) {
        if let Some(file) = &self.file {
            file.rescan();
        }
        if let Some(http) = &self.http {
            http.rescan();
        }
        if let Some(api) = &self.api {
            api.rescan();
        }
    }
}

impl Parts<'_> {
    /// Starts all sources that are declared.
    pub(super) fn sources(&self) -> Result<Sources, RunError> {
        let config = self.config;
        let key_file = config.sources.last_good_key_file.as_deref();
        if !config.declared().is_empty()
            && self.hollow.is_none()
            && let Err(why) = LastGood::prepare(&config.root_dir, key_file)
        {
            log::debug!("what sources say cannot be remembered yet: {why}");
        }
        let board = Board::default();
        let store = |source| {
            let store = LastGood::new(&config.root_dir, key_file, source).seen_by(&board);
            Saver::new(store, self.pulses.clone())
        };
        // Both stores are made before either source starts, because each source checks the other's
        // content.
        let file = config.sources.manifest_path.clone().map(|path| (path, store(Source::File)));
        let http = config.sources.manifest_url.clone().map(|settings| (settings, store(Source::Http)));
        let (api, server) = match &config.sources.api {
            None | Some(ApiSource::Store) => (None, None),
            Some(ApiSource::Cluster(settings)) => {
                let is_awaited = config.certificates.as_ref().is_some_and(|it| it.bootstrap.is_some());
                let new = if is_awaited { Client::awaiting } else { Client::new };
                let client = self.hollow.clone().unwrap_or_else(|| new(settings.kubeconfig.clone()));
                let server = (client, ServerPods::default());
                let store = settings.remembers.then(|| store(Source::Api));
                if store.is_none() && self.hollow.is_none() {
                    forget_stored(&config.root_dir);
                }
                (Some(self.api_source(&server, store)?), Some(server))
            }
        };
        Ok(Sources {
            _certificates: self.certificates(server.as_ref())?,
            api,
            server,
            file: file.map(|(path, store)| self.file_source(path, store)).transpose()?,
            http: http.map(|(settings, store)| self.http_source(settings, store)).transpose()?,
        })
    }

    fn file_source(&self, path: PathBuf, store: Saver) -> Result<FileSource, RunError> {
        let every = self.config.sources.file_check_frequency;
        FileSource::start(path, every, self.acceptor(Source::File), store, self.sink(), self.pulses.clone())
            .map_err(no_start_of("the file source"))
    }

    fn http_source(&self, settings: http::Settings, store: Saver) -> Result<HttpSource, RunError> {
        let acceptor = Acceptor { max_bytes: settings.max_bytes, ..self.acceptor(Source::Http) };
        HttpSource::start(settings, acceptor, store, self.sink(), self.pulses.clone())
            .map_err(no_start_of("the URL source"))
    }

    fn api_source(
        &self,
        (client, pods): &(Client, ServerPods),
        store: Option<Saver>,
    ) -> Result<api::ApiSource, RunError> {
        // The server's answers are not signed; TLS identifies the server.
        let acceptor = Acceptor { verifier: None, ..self.acceptor(Source::Api) };
        let parts = api::Parts {
            client: client.source(),
            acceptor,
            store,
            pods: pods.clone(),
            clock: self.clock,
            patience: api::Patience::default(),
            pulses: self.pulses.clone(),
            out: self.sink(),
        };
        api::ApiSource::start(parts).map_err(no_start_of("the source of the API server"))
    }

    fn sink(&self) -> Sink {
        let out = self.events.clone();
        Box::new(move |update| out.send(Event::Source(update)).is_ok())
    }

    /// The rules by which content of a source is accepted.
    pub(super) fn acceptor(&self, source: Source) -> Acceptor {
        let mut acceptor = Acceptor::new(source, self.config.node_name.clone());
        acceptor.verifier.clone_from(&self.config.sources.verifier);
        acceptor.policy = Arc::clone(&self.config.policy);
        acceptor
    }
}

/// Removes what an earlier daemon has stored of the API server: a later one that stores again, and cannot reach the server,
/// would run pods of long ago, and stop those that have their names by now.
fn forget_stored(root_dir: &Path) {
    match forget(root_dir, Source::Api) {
        Ok(None | Some(0)) => {}
        Ok(Some(_)) => log::info!("what was stored of the API server is removed: --api-last-good is false"),
        Err(error) => log::error!(
            "what was stored of the API server cannot be removed, though --api-last-good is false: {}: {error}",
            directory(root_dir, Source::Api).display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a daemon that stored nothing left what another one had stored, and the next one ran that.
    #[test]
    fn what_was_stored_is_removed_where_nothing_is_to_be() {
        let root = crate::base::testing::scratch("stores-no-more");
        let stored = |source| directory(&root, source);
        for source in [Source::Api, Source::Http] {
            std::fs::create_dir_all(stored(source)).unwrap();
            let name = format!("{}-{}.good", "a".repeat(32), "0".repeat(16));
            std::fs::write(stored(source).join(name), "sealed").unwrap();
        }
        forget_stored(&root);
        let left = std::fs::read_dir(stored(Source::Http)).unwrap().count();
        assert!(!stored(Source::Api).exists() && left == 1, "of another source nothing is removed");
        forget_stored(&root);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
