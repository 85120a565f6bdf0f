//! Certificates: those that a server shows, and the authorities by which clients are known. Files that change are read
//! again; while they cannot be used, what was read last stays.
//!
//! Never here: a read on the thread that has all connections, or a text with a byte of a key.

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
use crate::base::{limits, pem};

/// Where certificates come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `--tls-cert-file` and `--tls-private-key-file`; `None` for one that is made.
    pub given: Option<(PathBuf, PathBuf)>,
    /// One that an API server signs, key and chain in one file; it is shown as soon as it is there.
    pub signed: Option<PathBuf>,
    /// `--cert-dir`: where a certificate that was made is kept, as `kubelet.crt` and `kubelet.key`.
    pub directory: PathBuf,
    /// `--client-ca-file`; without one no client certificate is known.
    pub client_ca: Option<PathBuf>,
    /// What a certificate that is made is good for: the node's name and addresses.
    pub names: Vec<String>,
}

impl Settings {
    /// The names of a certificate that is made on this node.
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

/// Makes the certificate that is given, once after each start; as often as it takes.
pub struct Make(pub Box<dyn Fn() -> Result<(), String> + Send + Sync>);

impl fmt::Debug for Make {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Make")
    }
}

/// See the head of this file.
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
    /// When each file was changed, as it was when it was read.
    stamps: Vec<Option<SystemTime>>,
    looked: Option<Instant>,
    /// [`Make`] has done its work.
    is_made: bool,
    /// A thread looks at the files.
    is_looking: bool,
    /// What is wrong, as it was told last.
    problem: Option<String>,
}

impl Certificates {
    /// Reads the files, and makes a certificate where none is given and none was made before. What cannot be used is told
    /// and tried again.
    #[must_use]
    pub fn open(settings: Settings) -> Arc<Certificates> {
        Certificates::open_made(settings, None)
    }

    /// The same, of a certificate that `make` puts at the place of the one that is given.
    #[must_use]
    pub fn open_made(settings: Settings, make: Option<Make>) -> Arc<Certificates> {
        let certificates = Arc::new(Certificates { settings, make, state: Mutex::default() });
        certificates.look();
        certificates
    }

    /// What a new connection is begun with; `None` while there is no usable certificate. Has a thread of the pool look
    /// at the files now and then.
    pub fn current(self: &Arc<Certificates>, pool: &Pool) -> Option<Arc<ServerConfig>> {
        let mut state = self.state();
        let is_due = state.looked.is_none_or(|looked| looked.elapsed() >= limits::SERVER_CERTIFICATE_LOOK);
        if is_due && !state.is_looking {
            let this = Arc::clone(self);
            // Another connection asks again when no thread is free.
            state.is_looking = pool.give(Box::new(move || this.look())).is_ok();
        }
        state.config.clone()
    }

    /// Whether one of the authorities has signed this chain for a client, and it is valid now.
    ///
    /// # Errors
    /// Why not, in the library's words.
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
        // Each field is whole after every line that changes it.
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
        // What was made meanwhile has its stamp.
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
        // Nothing is kept for clients that may never come back.
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
