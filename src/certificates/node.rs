//! The steps of one certificate: what is there, who asks for another, and what is done with it when it was signed. It
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

/// What differs between the two certificates.
pub(super) trait Use {
    fn kind(&self) -> Kind;
    /// Where it is kept.
    fn place(&self) -> Place;
    /// What it is to say now; `None` while that is not known.
    fn wanted(&self) -> Option<Wanted>;
    /// What is there at the start.
    fn found(&self) -> Found;
    /// Whether it is renewed in time.
    fn renews(&self) -> bool;
    /// A pair was put into use.
    ///
    /// # Errors
    /// It is not yet, in a sentence that names the file.
    fn put(&self) -> Result<(), String>;
    /// The credentials of who asks, beside the node with its own certificate.
    fn bootstrap(&self) -> Option<&Path>;
    /// When `wanted` is to be looked at again.
    fn looks(&self, now: Mono) -> Option<Mono>;
}

/// What is there at the start.
pub(super) enum Found {
    /// This one, by which the node is known or its server is.
    Held(Held),
    /// None that could be used.
    Nothing,
    /// Credentials that are the operator's own affair.
    Others,
}

/// What came of a step.
enum Came {
    Answered(CertificateNews),
    Signed(Validity),
}

/// One certificate, and how far its renewal is.
pub(super) struct Signed<U> {
    of: U,
    place: Place,
    kind: Kind,
    renewal: Renewal,
    held: Option<Held>,
    has_looked: bool,
    /// With the bootstrap credentials, while they are needed.
    stranger: Option<Server>,
    /// The last answer was that who asked is not known, or may not.
    was_unknown: bool,
    /// What was logged last.
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

    /// Takes one step, and says when the next one is due.
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

    /// Looks what is in use, at the start and when it does not say what it is to say any more.
    fn look(&mut self, wanted: Option<&Wanted>, now: &Now) {
        if !std::mem::replace(&mut self.has_looked, true) {
            match self.of.found() {
                // The clock may be wrong, so the node tries this one too.
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

    /// Asks the server.
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
                        // An answer was lost, or an earlier daemon has asked.
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

    /// Puts what was signed into use.
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

    /// The node itself while it is known by its certificate, and the bearer of the bootstrap credentials else. When one of
    /// them is not known to the server, the other one is tried.
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

    /// The next request is another one, of another key.
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

/// What a certificate does not say, or says otherwise.
fn differs(held: &Held, wanted: &Wanted) -> Option<String> {
    if held.user != wanted.user() {
        return Some(format!("is of {} and not of {}", held.user, wanted.user()));
    }
    let missing = wanted.names.iter().find(|name| !x509::is_for(&held.certificate, name));
    missing.map(|name| format!("is not good for {name}"))
}
