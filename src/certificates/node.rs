//! The steps of one certificate: finding the existing one, requesting another, and storing it once signed. This module
//! reads and writes files and calls the server.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

use rcgen::KeyPair;

use super::Wake;
use super::files::{Held, Place};
use super::renewal::{CertificateNews, Next, Renewal};
use super::request::{self, Kind, Verdict, Wanted};
use crate::api_client::{ApiError, Client as Server, Method, Request};
use crate::base::clock::{Clock as _, Mono, Now, System};
use crate::base::limits;
use crate::base::tls::x509::{self, Validity};

/// The differences between the two certificates.
pub(super) trait Use {
    fn kind(&self) -> Kind;
    /// Its files.
    fn place(&self) -> Place;
    /// Its required content; `None` while that is unknown.
    fn wanted(&self) -> Option<Wanted>;
    /// The state at the start.
    fn found(&self) -> Found;
    /// Whether it is renewed in time.
    fn renews(&self) -> bool;
    /// Called when a new pair is in use.
    ///
    /// # Errors
    /// A step failed, in a sentence that names the file.
    fn put(&self) -> Result<(), String>;
    /// The bootstrap credentials, if the node's own certificate is not the only way to ask.
    fn bootstrap(&self) -> Option<&Path>;
    /// When `wanted` has to be called again.
    fn looks(&self, now: Mono) -> Option<Mono>;
}

/// The state at the start.
pub(super) enum Found {
    /// This certificate.
    Held(Held),
    /// There is no usable certificate.
    Nothing,
    /// Credentials that the operator manages.
    Others,
}

/// The result of a step.
enum Came {
    Answered(CertificateNews),
    Signed(Validity),
}

/// One certificate, and the state of its renewal.
pub(super) struct Signed<U> {
    of: U,
    place: Place,
    kind: Kind,
    renewal: Renewal,
    held: Option<Held>,
    has_looked: bool,
    /// The server with the bootstrap credentials, while they are needed.
    stranger: Option<Server>,
    /// The last answer was that the credentials are unknown, or not allowed to ask.
    was_unknown: bool,
    /// The last logged message.
    told: Option<String>,
}

impl<U: Use> Signed<U> {
    pub(super) fn of(of: U) -> Signed<U> {
        let (kind, place) = (of.kind(), of.place());
        let renewal = Renewal::new(RandomState::new().hash_one(place.current()));
        Signed {
            of,
            place,
            kind,
            renewal,
            held: None,
            has_looked: false,
            stranger: None,
            was_unknown: false,
            told: None,
        }
    }

    /// Carries out one step, and returns when the next one is due.
    pub(super) fn step(&mut self, own: &Server, clock: &System) -> Wake {
        let now = clock.now();
        let wanted = self.of.wanted();
        let looks = self.of.looks(now.mono);
        self.look(wanted.as_ref(), &now);
        let Some(wanted) = wanted else { return Wake { mono: looks, wall: None } };
        let next = self.renewal.next(&now);
        let came = match next {
            Next::Wait { mono, wall } => {
                if !self.renewal.is_due(&now) {
                    self.stranger = None;
                }
                let mono = mono.into_iter().chain(looks).min();
                return Wake { mono, wall };
            }
            Next::Create | Next::Read => self.ask(next == Next::Create, &wanted, own, &now),
        };
        let now = clock.now();
        match came {
            Came::Answered(told) => self.renewal.told(told, &now),
            Came::Signed(validity) => self.renewal.signed(validity, self.of.renews(), &now),
        }
        Wake { mono: Some(now.mono), wall: None }
    }

    /// Checks the certificate in use, at the start and when it no longer has the required content.
    fn look(&mut self, wanted: Option<&Wanted>, now: &Now) {
        if !std::mem::replace(&mut self.has_looked, true) {
            match self.of.found() {
                // The clock may be wrong, so the node tries this one, too.
                Found::Held(held) if held.validity.until <= now.wall => {
                    self.held = Some(held);
                    self.renewal.has_none();
                }
                Found::Held(held) => {
                    self.renewal.has(self.of.renews().then_some(held.validity));
                    self.held = Some(held);
                }
                Found::Nothing => self.renewal.has_none(),
                Found::Others => {}
            }
        }
        let (Some(wanted), Some(held)) = (wanted, &self.held) else { return };
        if let Some(why) = differs(held, wanted) {
            log::info!("another {} is asked for: the one that is there {why}", self.kind.words());
            self.held = None;
            self.renewal.has_none();
        }
    }

    /// Sends a request to the server.
    fn ask(&mut self, creates: bool, wanted: &Wanted, own: &Server, now: &Now) -> Came {
        let key = match self.place.key() {
            Ok(key) => key,
            Err(why) => return self.failed(why),
        };
        let server = self.asker(own, now);
        let answer = match creates {
            false => {
                let path = format!("{}/{}", request::PATH, wanted.name(&key));
                server.call(&Request::get(path), limits::CERTIFICATE_CALL)
            }
            true => match wanted.object(&key) {
                Err(why) => return self.failed(why),
                Ok(object) => {
                    let made = server
                        .call(&Request::with(Method::Post, request::PATH, &object), limits::CERTIFICATE_CALL);
                    match made {
                        // An answer was lost, or an earlier daemon has sent the request.
                        Err(error) if error.is_already_exists() => {
                            return Came::Answered(CertificateNews::Pending);
                        }
                        other => other,
                    }
                }
            },
        };
        match answer {
            Ok(object) => {
                self.was_unknown = false;
                self.judge(request::verdict(&object), wanted, &key, now)
            }
            Err(error) if error.is_not_found() => Came::Answered(CertificateNews::Gone),
            Err(error) => {
                let is_unknown =
                    matches!(error.code(), Some(401 | 403)) || matches!(error, ApiError::BadCredentials(_));
                self.was_unknown = is_unknown && !self.was_unknown;
                self.failed(error.to_string())
            }
        }
    }

    fn judge(&mut self, verdict: Verdict, wanted: &Wanted, key: &KeyPair, now: &Now) -> Came {
        match verdict {
            Verdict::Pending => {
                let (what, name) = (self.kind.words(), wanted.name(key));
                self.say(format!(
                    "the cluster is asked to sign a {what} for this node, and somebody has to approve it where nobody \
                     does so by himself: kubectl certificate approve {name}"
                ));
                Came::Answered(CertificateNews::Pending)
            }
            Verdict::Refused(why) => self.refused(&why),
            Verdict::Signed(chain) => match self.put(&chain, wanted, key, now) {
                Ok(held) => {
                    let validity = held.validity;
                    log::info!(
                        "the cluster has signed a {} for this node, until {}",
                        self.kind.words(),
                        validity.until
                    );
                    (self.held, self.told, self.was_unknown) = (Some(held), None, false);
                    Came::Signed(validity)
                }
                Err(came) => came,
            },
        }
    }

    /// Puts a signed certificate into use.
    fn put(&mut self, chain: &[u8], wanted: &Wanted, key: &KeyPair, now: &Now) -> Result<Held, Came> {
        let read = match chain.len() > limits::CERTIFICATE_BYTES {
            true => Err("is too large".to_owned()),
            false => Held::read(chain).map_err(|why| format!("is {why}")),
        };
        let read = read.and_then(|held| match differs(&held, wanted) {
            _ if !held.is_of(key) => Err("is of another key".to_owned()),
            Some(why) => Err(why),
            None => Ok(held),
        });
        let held = match read {
            Ok(held) => held,
            Err(why) => return Err(self.refused(&format!("the one that it gives {why}"))),
        };
        let done = self.place.put(key, chain, now.wall).and_then(|()| self.of.put());
        if let Err(why) = done {
            return Err(self.failed(why));
        }
        self.place.drop_key();
        Ok(held)
    }

    /// Chooses the credentials: the node's own while its certificate is valid, otherwise the bootstrap credentials. If
    /// the server does not know the chosen ones, the others are tried.
    fn asker(&mut self, own: &Server, now: &Now) -> Server {
        let Some(bootstrap) = self.of.bootstrap() else { return own.clone() };
        let is_known = self.held.as_ref().is_some_and(|held| held.validity.until > now.wall);
        if self.held.is_some() && is_known != self.was_unknown {
            return own.clone();
        }
        self.stranger.get_or_insert_with(|| Server::new(bootstrap.to_owned())).clone()
    }

    fn failed(&mut self, why: String) -> Came {
        let what = self.kind.words();
        self.warn(format!("no {what} for this node could be asked for: {why}; it is tried again"));
        Came::Answered(CertificateNews::Failed)
    }

    /// The next request is a new one, with another key.
    fn refused(&mut self, why: &str) -> Came {
        self.place.drop_key();
        let what = self.kind.words();
        self.warn(format!(
            "the cluster does not sign a {what} for this node: {why}; it is asked again in ten minutes"
        ));
        Came::Answered(CertificateNews::Refused)
    }

    fn say(&mut self, text: String) {
        if self.told.as_ref() != Some(&text) {
            log::info!("{text}");
            self.told = Some(text);
        }
    }

    fn warn(&mut self, text: String) {
        if self.told.as_ref() != Some(&text) {
            log::warn!("{text}");
            self.told = Some(text);
        }
    }
}

/// The first difference between a certificate and the required content.
fn differs(held: &Held, wanted: &Wanted) -> Option<String> {
    if held.user != wanted.user() {
        return Some(format!("is of {} and not of {}", held.user, wanted.user()));
    }
    let missing = wanted.names.iter().find(|name| !x509::is_for(&held.certificate, name));
    missing.map(|name| format!("is not good for {name}"))
}
