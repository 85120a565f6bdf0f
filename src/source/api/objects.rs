//! The ConfigMaps, Secrets and tokens that the server's pods refer to. Each is requested when a pod that refers to it
//! is new, and again now and then (the kubelet's strategy `Cache`, `pkg/kubelet/util/manager`). So the number of
//! connections does not grow with the number of objects, as it would with watches.
//!
//! Never here: a decision about a pod.

mod fetch;
mod of_services;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use self::fetch::{Answer, Asker, Fetched};
use super::claims;
use super::decode::{self, Token};
use super::services;
use crate::api_client::ApiError;
use crate::api_client::request::encoded;
use crate::base::clock::Mono;
use crate::base::concealed::Concealed;
use crate::base::table::Table;
use crate::base::{limits, order};
use crate::pod::object::{About, Content, LocalObject, ObjectKey, ObjectKind, SecretBytes};
use crate::pod::{Origin, Source};
use crate::source::accept::Acceptor;

/// The last known state of an object.
#[derive(Debug, Clone)]
pub enum Known {
    Found {
        object: Arc<LocalObject>,
        /// The user's part, which is remembered; `None` of a token, which is not.
        text: Option<Concealed<String>>,
    },
    /// The server has no such object, or does not give it to this node.
    Missing,
}

/// All objects of the server's pods.
#[derive(Debug)]
pub struct Objects {
    /// Time before a failed request is repeated.
    again: Duration,
    known: Table<ObjectKey, Known>,
    /// When the server answered for each of them last.
    read: Table<ObjectKey, Mono>,
    /// When each token is renewed.
    tokens_due: Table<ObjectKey, Mono>,
    /// Refusals of an object in a row: right after a pod was bound, the node may not read its objects yet.
    refused: Table<ObjectKey, u32>,
    /// Objects whose last request failed.
    failed: Table<ObjectKey, Failed>,
    /// Service objects that are not complete, with the part that is missing.
    without: Table<ObjectKey, String>,
    /// Objects that do not exist, and claims without a volume: the time of the next request, and the wait before it.
    awaited: Table<ObjectKey, (Mono, Duration)>,
}

/// The reason why a request failed, and when it is repeated.
#[derive(Debug)]
struct Failed {
    why: String,
    again: Mono,
    wait: Duration,
}

impl Objects {
    /// An empty table; failed requests are repeated after `again` at the earliest.
    #[must_use]
    pub fn new(again: Duration) -> Objects {
        Objects {
            again,
            known: Table::new(),
            read: Table::new(),
            tokens_due: Table::new(),
            refused: Table::new(),
            failed: Table::new(),
            without: Table::new(),
            awaited: Table::new(),
        }
    }

    /// All objects that were found.
    pub fn all(&self) -> impl Iterator<Item = &Arc<LocalObject>> {
        self.known.values().filter_map(|known| match known {
            Known::Found { object, .. } => Some(object),
            Known::Missing => None,
        })
    }

    /// The objects in stored form.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.known.values().filter_map(|known| match known {
            Known::Found { text, .. } => text.as_ref().map(|text| text.as_str()),
            Known::Missing => None,
        })
    }

    /// Whether the object was looked up.
    #[must_use]
    pub fn is_known(&self, key: &ObjectKey) -> bool {
        self.known.contains_key(key)
    }

    /// Whether the server has answered for the object since then.
    #[must_use]
    pub fn is_read_since(&self, key: &ObjectKey, since: Mono) -> bool {
        self.read.get(key).is_some_and(|at| *at >= since)
    }

    /// Forgets the objects that no pod refers to any more.
    pub fn retain(&mut self, wanted: impl Fn(&ObjectKey) -> bool) {
        self.known.retain(|key, _| wanted(key));
        self.read.retain(|key, _| wanted(key));
        self.tokens_due.retain(|key, _| wanted(key));
        self.refused.retain(|key, _| wanted(key));
        self.failed.retain(|key, _| wanted(key));
        self.awaited.retain(|key, _| wanted(key));
        self.without.retain(|key, _| wanted(key));
    }

    /// Whether the object may be requested now: one whose request hangs is tried more and more rarely.
    #[must_use]
    pub fn may_ask(&self, key: &ObjectKey, now: Mono) -> bool {
        self.failed.get(key).is_none_or(|failed| failed.again <= now)
    }

    /// Whether its last request has failed.
    #[must_use]
    pub fn has_failed(&self, key: &ObjectKey) -> bool {
        self.failed.contains_key(key)
    }

    /// How long its request may take. One that hangs keeps others waiting for a short time at first, and one that is slow
    /// gets more each time.
    #[must_use]
    pub fn patience(&self, key: &ObjectKey, most: Duration) -> Duration {
        let before = self.failed.get(key).map_or(Duration::ZERO, |failed| failed.wait);
        before.max(limits::API_OBJECT_FIRST).min(most)
    }

    /// The reason why the object is not known.
    #[must_use]
    pub fn why(&self, key: &ObjectKey) -> Option<&str> {
        self.failed.get(key).map(|failed| failed.why.as_str())
    }

    /// Notes the result of a request.
    pub fn note(&mut self, key: &ObjectKey, result: &Result<(), ApiError>, now: Mono) {
        let before = self.failed.remove(key);
        let Err(error) = result else {
            self.read.insert(key.clone(), now);
            return;
        };
        let wait = before.map_or(self.again, |before| before.wait);
        let (wait, again) = match error {
            ApiError::Unreachable(_) => {
                let wait = wait.saturating_mul(2).min(limits::API_OBJECT_CALL);
                (wait, now.after(wait))
            }
            _ => (wait, now.after(self.again)),
        };
        self.failed.insert(key.clone(), Failed { why: error.to_string(), again, wait });
    }

    /// Allows all requests at once: the server is there again.
    pub fn hope(&mut self) {
        self.failed.clear();
    }

    /// Takes a stored object, which counts until the server answers.
    pub fn remember(&mut self, object: Arc<LocalObject>, text: String) {
        self.known.insert(object.key.clone(), Known::Found { object, text: Some(text.into()) });
    }

    /// Whether one more object of this text can be kept.
    fn fits(&self, key: &ObjectKey, text: &str) -> bool {
        let others = || self.known.iter().filter(|(other, _)| *other != key);
        let bytes = others().map(|(_, known)| match known {
            Known::Found { text: Some(text), .. } => text.len(),
            Known::Found { .. } | Known::Missing => 0,
        });
        let bytes = bytes.fold(text.len(), usize::saturating_add);
        bytes <= limits::API_OBJECTS_TEXT && others().count() < limits::OBJECTS_PER_SOURCE
    }

    /// When the next token is due, or the next object that does not exist yet.
    #[must_use]
    pub fn due(&self) -> Option<Mono> {
        let awaited = self.awaited.values().map(|(due, _)| due);
        self.tokens_due.values().chain(awaited).min().copied()
    }

    /// Whether the object does not exist yet, or is a claim without a volume, and its next request is due.
    #[must_use]
    pub fn is_awaited(&self, key: &ObjectKey, now: Mono) -> bool {
        self.awaited.get(key).is_some_and(|(due, _)| *due <= now)
    }

    /// Notes that an object is being requested: one that does not exist is asked for more and more rarely.
    pub fn begin(&mut self, key: &ObjectKey, now: Mono) {
        if let Some((due, wait)) = self.awaited.get_mut(key) {
            *wait = wait.saturating_mul(2).min(limits::API_BACKOFF_MAX);
            *due = now.after(*wait);
        }
    }

    /// Notes whether the object has to be asked for again until it exists.
    fn awaits(&mut self, key: &ObjectKey, awaits: bool, now: Mono) {
        if awaits {
            self.awaited.get_or_insert(key.clone(), (now.after(self.again), self.again));
        } else {
            self.awaited.remove(key);
        }
    }

    /// Whether a token has to be made or renewed.
    #[must_use]
    pub fn is_due(&self, key: &ObjectKey, now: Mono) -> bool {
        self.tokens_due.get(key).is_none_or(|due| *due <= now)
    }

    /// Whether the object can change.
    #[must_use]
    pub fn can_change(&self, key: &ObjectKey) -> bool {
        !matches!(self.known.get(key), Some(Known::Found { object, .. }) if object.immutable)
    }

    /// Takes the answer to a request. The known object stays when there is none.
    ///
    /// # Errors
    /// No answer, or one that does not decide about the object.
    pub fn take(
        &mut self,
        acceptor: &Acceptor,
        server: &str,
        key: &ObjectKey,
        (token, result): Answer,
        now: Mono,
    ) -> Result<(), ApiError> {
        let asked = match (result, token, services::of(key)) {
            (Ok(Fetched::Nothing), ..) => {
                self.known.insert(key.clone(), Known::Missing);
                return Ok(());
            }
            (Ok(Fetched::Token(made)), Some(token), _) => return self.take_token(server, &token, &made, now),
            (Ok(Fetched::Claim(claim)), ..) => return self.take_claim(key, Ok(*claim), server, now),
            (Err(error), None, _) if key.kind == ObjectKind::PersistentVolumeClaim => {
                return self.take_claim(key, Err(error), server, now);
            }
            (Ok(Fetched::Services(all)), _, Some(wanted)) => self.variables(key, wanted, Ok(all)),
            (Err(error), None, Some(wanted)) => self.variables(key, wanted, Err(error)),
            (Ok(Fetched::Object(value)), ..) => Ok(value),
            (Ok(Fetched::Token(_) | Fetched::Services(_)), ..) => return Ok(()),
            (Err(error), Some(_), _) => return Err(error),
            (Err(error), None, None) => Err(error),
        };
        let awaits = asked.as_ref().is_err_and(ApiError::is_not_found);
        let known = match asked {
            Ok(value) => match decode::object(&value, key.kind, acceptor, server) {
                Ok(object) => {
                    let text = decode::own_object(&value, key.kind).to_string();
                    if !self.fits(key, &text) {
                        return Err(ApiError::BadAnswer(format!(
                            "the objects of this node's pods are more than {}, or than {} MiB",
                            limits::OBJECTS_PER_SOURCE,
                            limits::API_OBJECTS_TEXT >> 20
                        )));
                    }
                    let text = Some(Concealed(text));
                    let same =
                        |known: &&Known| matches!(known, Known::Found { text: old, .. } if *old == text);
                    match self.known.get(key).filter(same) {
                        Some(same) => same.clone(),
                        None => Known::Found { object, text },
                    }
                }
                Err(why) => {
                    log::error!("{key} of the API server is not usable: {why}");
                    Known::Missing
                }
            },
            Err(error) if error.is_not_found() => Known::Missing,
            Err(error) if error.is_forbidden() => {
                self.refuse(key, error)?;
                Known::Missing
            }
            Err(error) => return Err(error),
        };
        self.refused.remove(key);
        self.awaits(key, awaits, now);
        self.known.insert(key.clone(), known);
        Ok(())
    }

    /// Notes that the server does not let this node read an object.
    ///
    /// # Errors
    /// The server has not refused often enough to be believed.
    fn refuse(&mut self, key: &ObjectKey, error: ApiError) -> Result<(), ApiError> {
        let times = self.refused.get_or_default(key.clone());
        *times = times.saturating_add(1);
        if *times < limits::API_REFUSALS {
            return Err(error);
        }
        log::error!("{key}: {error}");
        Ok(())
    }

    /// Takes a claim with its volume. A claim stays bound to its volume as long as a pod uses it.
    fn take_claim(
        &mut self,
        key: &ObjectKey,
        found: Result<Known, ApiError>,
        server: &str,
        now: Mono,
    ) -> Result<(), ApiError> {
        let fresh = match found {
            Err(error) if error.is_not_found() => Known::Missing,
            Err(error) if error.is_forbidden() => {
                let why = format!("failed to fetch PVC from API server: {error}");
                self.refuse(key, error)?;
                let object = claims::object(key, &Value::Null, Err(why), server);
                Known::Found { object, text: None }
            }
            other => other?,
        };
        self.refused.remove(key);
        let is_bound =
            |known: &Known| matches!(known, Known::Found { object, .. } if claims::is_bound(object));
        self.awaits(key, !is_bound(&fresh) && !self.known.get(key).is_some_and(is_bound), now);
        let same = |known: &Known| match (known, &fresh) {
            (Known::Found { object, .. }, Known::Found { object: fresh, .. }) => object == fresh,
            _ => false,
        };
        let stays =
            self.known.get(key).is_some_and(|known| same(known) || is_bound(known) && !is_bound(&fresh));
        if !stays {
            self.known.insert(key.clone(), fresh);
        }
        Ok(())
    }

    /// Notes that a token is being requested: one whose request failed is not due again in each round.
    pub fn begin_token(&mut self, key: &ObjectKey, now: Mono) {
        self.tokens_due.insert(key.clone(), now.after(limits::API_TOKEN_AGAIN));
    }

    /// Takes a token (`pkg/kubelet/token/token_manager.go`). The old token stays when that fails.
    fn take_token(&mut self, server: &str, token: &Token, made: &Value, now: Mono) -> Result<(), ApiError> {
        let text = made.pointer("/status/token").and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            return Err(ApiError::BadAnswer(
                "the server's answer to a request for a token has none".to_owned(),
            ));
        }
        let data = order::map([("token".to_owned(), SecretBytes::new(text.as_bytes().to_vec()))]);
        let object = LocalObject {
            key: token.key.clone(),
            source: Source::Api,
            origin: Origin { path: decode::path_of(server, &token.pod), document: 0 },
            immutable: false,
            content: Content::Secret { type_: "Opaque".to_owned(), data },
            about: About::default(),
        };
        self.known.insert(token.key.clone(), Known::Found { object: Arc::new(object), text: None });
        self.tokens_due.insert(token.key.clone(), now.after(renewal(token.lasts, made)));
        Ok(())
    }
}

/// How long a token is used that was asked for to last so many seconds. The server may grant less.
fn renewal(asked: u64, made: &Value) -> Duration {
    let granted = made.pointer("/spec/expirationSeconds").and_then(Value::as_u64);
    let lasts = Duration::from_secs(granted.map_or(asked, |granted| granted.min(asked)));
    (lasts.saturating_mul(4) / 5).clamp(limits::API_TOKEN_AGAIN, limits::API_TOKEN_MAX)
}

/// A claim with its volume.
fn claim_of(asker: &Asker, key: &ObjectKey) -> Result<Known, ApiError> {
    let claim = asker.object(key, "persistentvolumeclaims")?;
    let unbound = |why: String| {
        let object = claims::object(key, &claim, Err(why), &asker.server);
        Ok(Known::Found { object, text: None })
    };
    let name = match claims::volume_of(&claim) {
        Ok(name) => name,
        Err(why) => return unbound(why),
    };
    let path = format!("/api/v1/persistentvolumes/{}", encoded(name));
    let volume = match asker.get(path) {
        Err(error) if error.is_not_found() => {
            return unbound(format!("failed to fetch PV {name} from API server: {error}"));
        }
        other => other?,
    };
    match claims::reached(&claim, &volume, &asker.node_name, asker.node.as_ref()) {
        Ok(bound) => Ok(Known::Found {
            object: claims::object(key, &claim, Ok(bound), &asker.server),
            text: Some(claims::remembered(&claim, &volume).to_string().into()),
        }),
        Err(why) => unbound(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::json::json;

    /// Where the server shortens them, tokens had expired for hours before they were renewed.
    #[test]
    fn a_token_is_renewed_by_the_time_that_the_server_grants() {
        let granted = |seconds: u64| json!({"spec": {"expirationSeconds": seconds}});
        for (asked, made, wanted) in [
            (3600, granted(3600), 2880),
            (86_400, granted(3600), 2880),
            (3600, json!({}), 2880),
            (3600, granted(u64::MAX), 2880),
            (u64::MAX, granted(u64::MAX), limits::API_TOKEN_MAX.as_secs()),
            (3600, granted(0), limits::API_TOKEN_AGAIN.as_secs()),
        ] {
            assert_eq!(renewal(asked, &made).as_secs(), wanted, "{asked} s, {made}");
        }
    }
}
