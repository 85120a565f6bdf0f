//! The client's credentials, kept up to date: the kubeconfig and all files that it names are checked regularly, and
//! read again when one has changed. Unreadable files do not replace credentials that were read before.
//!
//! Never here: a credential in a log or an error, or a check without a call that needs it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustls::ClientConfig;

use super::kubeconfig::{self, Kubeconfig, Pem, Secret};
use super::plugin::{self, Given};
use super::tls::{self, Named};
use crate::base::concealed::Concealed;
use crate::base::{limits, regular, sha256};
use crate::manifest::base64;

/// Settings of connections and requests.
#[derive(Debug, Clone)]
pub struct Access {
    pub config: Arc<Kubeconfig>,
    /// `None` for plain HTTP.
    pub tls: Option<Arc<ClientConfig>>,
    /// The value of `Authorization`.
    pub authorization: Option<Concealed<String>>,
    /// Changes when existing connections may not be used any more.
    pub generation: u64,
}

/// The origin of the kubeconfig.
#[derive(Debug)]
enum Origin {
    File,
    /// The file may be missing: another thread will write it.
    Awaited,
    Given(Box<Kubeconfig>),
}

/// Time and size: at least one of them changes when the file changes.
type Stamp = Option<(SystemTime, u64, u64)>;

/// See the head of this file.
#[derive(Debug)]
pub struct Credentials {
    path: PathBuf,
    origin: Origin,
    access: Option<Access>,
    /// The parts of `access` that connections depend on, to detect changes.
    identity: Vec<Vec<u8>>,
    stamps: Vec<(PathBuf, Stamp)>,
    looked: Option<Instant>,
    given: Option<(Given, Instant)>,
    /// The last logged message.
    trouble: Option<String>,
}

impl Credentials {
    /// Credentials of the kubeconfig at `path`, which is read at the first use.
    #[must_use]
    pub fn new(path: PathBuf) -> Credentials {
        Credentials {
            path,
            origin: Origin::File,
            access: None,
            identity: Vec::new(),
            stamps: Vec::new(),
            looked: None,
            given: None,
            trouble: None,
        }
    }

    /// The same, for a kubeconfig that another thread will write.
    #[must_use]
    pub fn awaited(path: PathBuf) -> Credentials {
        Credentials { origin: Origin::Awaited, ..Credentials::new(path) }
    }

    /// Credentials of a kubeconfig that was read already.
    #[must_use]
    pub fn given(config: Kubeconfig) -> Credentials {
        Credentials { origin: Origin::Given(Box::new(config)), ..Credentials::new(PathBuf::new()) }
    }

    /// The credentials to use now. A plugin may run until `until`.
    ///
    /// # Errors
    /// There are none, and why.
    pub fn current(&mut self, until: Instant) -> Result<Access, String> {
        let now = Instant::now();
        let ended = self.given.as_ref().is_some_and(|(given, at)| {
            given.lasts.is_some_and(|lasts| now.saturating_duration_since(*at) >= lasts)
        });
        let looked =
            self.looked.is_some_and(|at| now.saturating_duration_since(at) < limits::API_CREDENTIALS_LOOK);
        if let Some(access) = self.access.as_ref().filter(|_| looked && !ended) {
            return Ok(access.clone());
        }
        if ended {
            self.given = None;
        }
        self.looked = Some(now);
        let changed = self.stamps.iter().any(|(path, stamp)| stamp_of(path) != *stamp);
        if self.access.is_none() || changed || ended {
            self.read(until.saturating_duration_since(now));
        }
        let why = || self.trouble.clone().unwrap_or_default();
        self.access.clone().ok_or_else(why)
    }

    /// The server has rejected the credentials: they are read again at the next use. Returns false if that was so
    /// before, and nothing more can be done.
    pub fn refused(&mut self) -> bool {
        let can_change = self.given.take().is_some();
        self.looked = None;
        if can_change {
            self.stamps.clear();
            self.access = None;
        }
        can_change || self.stamps.iter().any(|(path, stamp)| stamp_of(path) != *stamp)
    }

    fn read(&mut self, left: Duration) {
        let mut reader = Reader { stamps: Vec::new() };
        let read = self.try_read(&mut reader, left);
        self.stamps = reader.stamps;
        match read {
            Ok((access, identity)) => {
                if self.trouble.take().is_some() {
                    log::info!("the credentials for the API server can be read again");
                }
                let before = self.access.as_ref().map_or(0, |access| access.generation);
                let same = self.access.is_some() && self.identity == identity;
                let generation = if same { before } else { before.wrapping_add(1) };
                self.access = Some(Access { generation, ..access });
                self.identity = identity;
            }
            Err(why) => {
                if self.trouble.as_ref() != Some(&why) {
                    let then = if self.access.is_some() { "; those of before are used on" } else { "" };
                    match self.origin {
                        Origin::Awaited if !self.path.exists() => log::info!("{why}"),
                        _ => log::error!("{why}{then}"),
                    }
                }
                self.trouble = Some(why);
            }
        }
    }

    fn config(&self, reader: &mut Reader) -> Result<(Vec<u8>, Kubeconfig), String> {
        let path = self.path.display();
        match &self.origin {
            Origin::Given(config) => Ok((Vec::new(), Kubeconfig::clone(config))),
            Origin::Awaited if !self.path.exists() => {
                Err(format!("the node has no credentials for the API server yet: {path} will come"))
            }
            Origin::File | Origin::Awaited => {
                let bytes = reader.file(&self.path, limits::API_KUBECONFIG)?;
                let read = kubeconfig::parse(&bytes, &self.path);
                Ok((bytes, read.map_err(|why| format!("kubeconfig {path}: {why}"))?))
            }
        }
    }

    fn try_read(&mut self, reader: &mut Reader, left: Duration) -> Result<(Access, Vec<Vec<u8>>), String> {
        let (bytes, config) = self.config(reader)?;
        let mut authorization = None;
        let mut certificate = match &config.certificate {
            Some((certificate, key)) => {
                Some((reader.pem(certificate, "client-certificate")?, reader.pem(key, "client-key")?))
            }
            None => None,
        };
        match &config.secret {
            Secret::Nothing => {}
            Secret::Token(token) => authorization = Some(bearer(token)),
            Secret::TokenFile(file) => {
                let bytes = reader.file(file, limits::API_TOKEN)?;
                let token = kubeconfig::token_of(&String::from_utf8_lossy(&bytes))
                    .map_err(|why| format!("{}: {why}", file.display()))?;
                authorization = Some(bearer(&token));
            }
            Secret::Basic(pair) => {
                authorization = Some(Concealed(format!("Basic {}", base64::encode(pair.as_bytes()))));
            }
            Secret::Plugin(it) => {
                let given = match &self.given {
                    Some((given, _)) => given.clone(),
                    None => plugin::ask(it, &config.server, left)?,
                };
                authorization = given.token.as_ref().map(bearer);
                if let Some((pem, key)) = &given.certificate {
                    let place = "the answer of the credential plugin".to_owned();
                    let named =
                        |bytes: &Concealed<Vec<u8>>| Named { place: place.clone(), bytes: bytes.0.clone() };
                    certificate = Some((named(pem), named(key)));
                }
                self.given.get_or_insert((given, Instant::now()));
            }
        }
        let authorities = match (&config.authorities, config.is_insecure, config.server.https) {
            (_, _, false) | (_, true, _) => None,
            (Some(pem), false, true) => Some(reader.pem(pem, "certificate-authority")?),
            (None, false, true) => {
                let path = crate::base::tls::system_authorities().ok_or(
                    "the kubeconfig names no certificate-authority, and the system has no file of them: install \
                     ca-certificates",
                )?;
                Some(Named { place: path.display().to_string(), bytes: reader.file(path, limits::PEM_FILE)? })
            }
        };
        let mut identity = vec![bytes];
        let all = authorities.iter().chain(certificate.iter().flat_map(|(pem, key)| [pem, key]));
        identity.extend(all.map(|named| sha256::hash(&named.bytes).to_vec()));
        if let Some(first) = identity.first_mut() {
            *first = sha256::hash(first).to_vec();
        }
        let tls = match config.server.https {
            false => None,
            true => {
                let client = certificate.as_ref().map(|(pem, key)| (pem, key));
                Some(Arc::new(tls::configure(authorities.as_ref(), client)?))
            }
        };
        Ok((Access { config: Arc::new(config), tls, authorization, generation: 0 }, identity))
    }
}

fn bearer(token: &Concealed<String>) -> Concealed<String> {
    Concealed(format!("Bearer {}", token.0))
}

fn stamp_of(path: &Path) -> Stamp {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len(), meta.ino()))
}

/// Reads files, and records them.
struct Reader {
    stamps: Vec<(PathBuf, Stamp)>,
}

impl Reader {
    fn file(&mut self, path: &Path, limit: usize) -> Result<Vec<u8>, String> {
        // Before reading, so that a change in between is noticed at the next check.
        self.stamps.push((path.to_owned(), stamp_of(path)));
        regular::read(path, limit).map_err(|error| format!("{} cannot be read: {error}", path.display()))
    }

    fn pem(&mut self, pem: &Pem, field: &str) -> Result<Named, String> {
        let bytes = match pem {
            Pem::File(path) => self.file(path, limits::PEM_FILE)?,
            Pem::Data(bytes) => bytes.0.clone(),
        };
        Ok(Named { place: pem.place(field), bytes })
    }
}
