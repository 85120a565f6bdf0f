//! The certificates of a server, and the authorities for client certificates. Files that change are read again; while
//! they cannot be used, the last content stays.
//!
//! Never here: a read on the thread that holds all connections, or a text with a byte of a key.

mod made;
mod verifier;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::pool::Pool;
use crate::base::clock::{Clock as _, System};
use crate::base::limits;
use crate::base::tls::pem;

/// Sources of certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `--tls-cert-file` and `--tls-private-key-file`; `None` for a certificate that is made.
    pub given: Option<(PathBuf, PathBuf)>,
    /// A certificate that an API server signs, key and chain in one file; it is used as soon as it exists.
    pub signed: Option<PathBuf>,
    /// `--cert-dir`: directory of a certificate that is made, as `kubelet.crt` and `kubelet.key`.
    pub directory: PathBuf,
    /// `--client-ca-file`; without it no client certificate is known.
    pub client_ca: Option<PathBuf>,
    /// Names in a certificate that is made: the node's name and addresses.
    pub names: Vec<String>,
}

impl Settings {
    /// The names for a certificate that is made on this node.
    #[must_use]
    pub fn names_of(node: &str, addresses: &[IpAddr]) -> Vec<String> {
        let mut names =
            vec![node.to_owned(), "localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        names.extend(addresses.iter().map(IpAddr::to_string));
        names
    }

    fn files(&self) -> (PathBuf, PathBuf) {
        let made = || (self.directory.join("kubelet.crt"), self.directory.join("kubelet.key"));
        let signed = || self.signed.clone().filter(|path| path.exists()).map(|path| (path.clone(), path));
        self.given.clone().or_else(signed).unwrap_or_else(made)
    }
}

/// Makes the given certificate at each start, retried until it succeeds.
pub struct Make(pub Box<dyn Fn() -> Result<(), String> + Send + Sync>);

impl fmt::Debug for Make {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Make")
    }
}

/// The certificates of a server.
#[derive(Debug)]
pub struct Certificates {
    settings: Settings,
    make: Option<Make>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    config: Option<Arc<ServerConfig>>,
    /// `None` without `--client-ca-file`.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    /// Time of change of each file when it was read.
    stamps: Vec<Option<SystemTime>>,
    looked: Option<Instant>,
    /// [`Make`] has succeeded.
    is_made: bool,
    /// A thread is checking the files.
    is_looking: bool,
    /// The last reported problem.
    problem: Option<String>,
}

impl Certificates {
    /// Reads the files, and makes a certificate if none is given and none was made before. Problems are reported and
    /// retried.
    #[must_use]
    pub fn open(settings: Settings) -> Arc<Certificates> {
        Certificates::open_made(settings, None)
    }

    /// Like [`Certificates::open`], with a given certificate that `make` makes.
    #[must_use]
    pub fn open_made(settings: Settings, make: Option<Make>) -> Arc<Certificates> {
        let certificates = Arc::new(Certificates { settings, make, state: Mutex::default() });
        certificates.look();
        certificates
    }

    /// The configuration for a new connection; `None` while there is no usable certificate. Lets a thread of the pool
    /// check the files now and then.
    pub fn current(self: &Arc<Certificates>, pool: &Pool) -> Option<Arc<ServerConfig>> {
        let mut state = self.state();
        let is_due = state.looked.is_none_or(|looked| looked.elapsed() >= limits::SERVER_CERTIFICATE_LOOK);
        if is_due && !state.is_looking {
            let this = Arc::clone(self);
            // If no thread is free, the next connection tries again.
            state.is_looking = pool.give(Box::new(move || this.look())).is_ok();
        }
        state.config.clone()
    }

    /// Checks that one of the authorities has signed this chain for a client, and that it is valid now.
    ///
    /// # Errors
    /// The reason why not, in the library's words.
    pub fn verify(&self, chain: &[CertificateDer<'static>]) -> Result<(), String> {
        let (client, others) = chain.split_first().ok_or("no certificate was shown")?;
        let Some(verifier) = self.state().clients.clone() else {
            return Err("no authority is known (--client-ca-file)".to_owned());
        };
        let wall = System::start().now().wall.as_duration();
        let now = UnixTime::since_unix_epoch(wall.try_into().unwrap_or_default());
        verifier.verify_client_cert(client, others, now).map(drop).map_err(|error| error.to_string())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each field is consistent after every line that changes it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files if they have changed.
    fn look(&self) {
        let stamps = self.stamps();
        let is_same = {
            let state = self.state();
            state.stamps == stamps && state.problem.is_none()
        };
        let read = if is_same { None } else { Some(self.read()) };
        // Files that were made meanwhile have new times.
        let stamps = if is_same { stamps } else { self.stamps() };
        let mut state = self.state();
        state.looked = Some(Instant::now());
        state.is_looking = false;
        match read {
            None => {}
            Some(Ok((config, clients))) => {
                if state.config.is_some() {
                    log::info!("the servers' certificates have been read again");
                }
                (state.config, state.clients, state.stamps, state.problem) =
                    (Some(config), clients, stamps, None);
            }
            Some(Err(why)) => {
                if state.problem.as_ref() != Some(&why) {
                    let meanwhile = if state.config.is_some() {
                        "those that were read before stay in use"
                    } else {
                        "no connection is taken until then"
                    };
                    log::error!("the servers' certificates cannot be used: {why}; {meanwhile}");
                }
                state.problem = Some(why);
            }
        }
    }

    fn stamps(&self) -> Vec<Option<SystemTime>> {
        let (certificate, key) = self.settings.files();
        let of = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        [Some(&certificate), Some(&key), self.settings.client_ca.as_ref()]
            .into_iter()
            .flatten()
            .map(|path| of(path))
            .collect()
    }

    #[expect(clippy::type_complexity, reason = "the two parts of the state")]
    fn read(&self) -> Result<(Arc<ServerConfig>, Option<Arc<dyn ClientCertVerifier>>), String> {
        let (certificate, key) = self.settings.files();
        if let Some(make) = &self.make
            && !self.state().is_made
        {
            (make.0)()?;
            self.state().is_made = true;
        }
        if self.settings.given.is_none() && !certificate.exists() {
            made::make(&self.settings.directory, &certificate, &key, &self.settings.names)?;
        }
        let chain = pem::certificates(&certificate)?;
        if chain.is_empty() {
            return Err(format!("no certificate in {}", certificate.display()));
        }
        let clients = self.settings.client_ca.as_deref().map(authorities).transpose()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?;
        let builder = match clients {
            Some(_) => builder.with_client_cert_verifier(verifier::proves_only(&provider)),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, pem::private_key(&key)?).map_err(|error| {
            let (certificate, key) = (certificate.display(), key.display());
            format!("the certificate in {certificate} and the key in {key} do not go together: {error}")
        })?;
        // SPDY and WebSocket need HTTP/1.1.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // No sessions are stored for clients that may never come back.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok((Arc::new(config), clients))
    }
}

fn authorities(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(pem::certificates(path)?);
    if usable == 0 {
        return Err(format!("no certificate in {}", path.display()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| format!("the authorities in {} cannot be used: {error}", path.display()))
}

#[cfg(test)]
mod tests;
