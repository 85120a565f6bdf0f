//! An API server's decisions about clients: the user of a bearer token (TokenReview), and the rights of a user
//! (SubjectAccessReview), with the attributes of the kubelet (`pkg/kubelet/server/auth.go`). Answers are cached for a
//! while.
//!
//! Never here: a thread that waits for long. After a failure the server is not asked again for a moment, and only a few
//! threads ask at the same time; all other clients get an error at once. Nor a token in a text: only its digest is
//! kept.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::json::json;
use serde_json::{Map, Value};

use super::User;
use crate::api_client::{ApiError, Client, Method, Request};
use crate::base::table::Table;
use crate::base::{limits, sha256};
use crate::server::pool::Count;

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Settings from the flags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Name of the node that requests are about.
    pub node: String,
    /// `--authentication-token-webhook`: bearer tokens are reviewed.
    pub reviews_tokens: bool,
    /// `--authentication-token-webhook-cache-ttl`.
    pub token_ttl: Duration,
    /// `--authorization-webhook-cache-authorized-ttl`.
    pub allowed_ttl: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`.
    pub denied_ttl: Duration,
}

/// A digest of a question.
type Key = [u8; 32];

/// Asks an API server, with a cache.
pub struct Webhook {
    client: Client,
    settings: Settings,
    state: Mutex<State>,
    asking: Count,
}

#[derive(Default)]
struct State {
    /// Users by token digest; `None` for an invalid token.
    tokens: Kept<Option<User>>,
    access: Kept<bool>,
    /// The server did not answer; it is not asked before this time.
    away_until: Option<Instant>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook of {:?}", self.client)
    }
}

impl Webhook {
    /// A webhook that uses this client.
    #[must_use]
    pub fn new(client: Client, settings: Settings) -> Webhook {
        let asking = Count::new(limits::WEBHOOK_ASKING);
        Webhook { client, settings, state: Mutex::default(), asking }
    }

    /// Whether tokens are reviewed.
    #[must_use]
    pub fn reviews_tokens(&self) -> bool {
        self.settings.reviews_tokens
    }

    /// The user of a token; `None` when it is invalid, or tokens are not reviewed.
    ///
    /// # Errors
    /// The server has not decided.
    pub fn user(&self, token: &str) -> Result<Option<User>, String> {
        if !self.settings.reviews_tokens {
            return Ok(None);
        }
        let key = sha256::hash(token.as_bytes());
        if let Some(user) = self.state().tokens.get(&key, Instant::now()) {
            return Ok(user);
        }
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        });
        let answer = self.ask(TOKENS, &review)?;
        let user = reviewed(&answer)?;
        let until = Instant::now() + self.settings.token_ttl;
        self.state().tokens.put(key, user.clone(), until);
        Ok(user)
    }

    /// Whether a user may do this with one of these subresources of the node.
    ///
    /// # Errors
    /// The server has not decided.
    pub fn allows(&self, user: &User, verb: &str, subresources: &[&str]) -> Result<bool, String> {
        for subresource in subresources {
            if self.allows_one(user, verb, subresource)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn allows_one(&self, user: &User, verb: &str, subresource: &str) -> Result<bool, String> {
        self.may(user, "resourceAttributes", of_node(&self.settings.node, verb, subresource))
    }

    /// Whether a user may do this, in the attributes of a SubjectAccessReview: `resourceAttributes` or
    /// `nonResourceAttributes`.
    ///
    /// # Errors
    /// The server has not decided.
    pub fn may(&self, user: &User, field: &str, attributes: Value) -> Result<bool, String> {
        let review = access_review(user, field, attributes);
        let key = sha256::hash(review.to_string().as_bytes());
        if let Some(allowed) = self.state().access.get(&key, Instant::now()) {
            return Ok(allowed);
        }
        let answer = self.ask(ACCESS, &review)?;
        let allowed = answer.pointer("/status/allowed").and_then(Value::as_bool);
        let allowed = allowed.ok_or("the API server's answer does not say whether it is allowed")?;
        let ttl = if allowed { self.settings.allowed_ttl } else { self.settings.denied_ttl };
        self.state().access.put(key, allowed, Instant::now() + ttl);
        Ok(allowed)
    }

    fn ask(&self, path: &str, review: &Value) -> Result<Value, String> {
        let away = || "the API server did not answer a moment ago".to_owned();
        if self.state().away_until.is_some_and(|until| Instant::now() < until) {
            return Err(away());
        }
        let Some(_place) = self.asking.take() else {
            return Err("too many questions to the API server are under way".to_owned());
        };
        let answer = self.client.call(&Request::with(Method::Post, path, review), limits::WEBHOOK_CALL);
        let is_away = matches!(answer, Err(ApiError::Unreachable(_) | ApiError::BadCredentials(_)));
        self.state().away_until = is_away.then(|| Instant::now() + limits::WEBHOOK_AWAY);
        answer.map_err(|error| error.to_string())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each field is consistent after every line that changes it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The user in a TokenReview's answer; `None` when the token is invalid. Pure.
///
/// # Errors
/// The answer is invalid.
fn reviewed(answer: &Value) -> Result<Option<User>, String> {
    let status = answer.get("status").unwrap_or(&Value::Null);
    if status.get("authenticated").and_then(Value::as_bool) != Some(true) {
        return Ok(None);
    }
    let of = status.get("user").unwrap_or(&Value::Null);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let name = of.get("username").and_then(text).filter(|name| !name.is_empty());
    let name = name.ok_or("the API server's answer names no user")?;
    // The name is printed in the log.
    if name.chars().any(char::is_control) {
        return Err("the API server's answer names a user that is no name".to_owned());
    }
    let groups = of.get("groups").and_then(Value::as_array).into_iter().flatten().filter_map(text).collect();
    let extra = of.get("extra").and_then(Value::as_object).cloned().unwrap_or_default();
    Ok(Some(User {
        name,
        groups,
        uid: of.get("uid").and_then(text).unwrap_or_default(),
        extra,
        by_token: true,
    }))
}

/// The attributes of a subresource of the node. Pure.
fn of_node(node: &str, verb: &str, subresource: &str) -> Value {
    json!({"verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": node})
}

/// A SubjectAccessReview of this user and these attributes. Pure.
fn access_review(user: &User, field: &str, attributes: Value) -> Value {
    let mut spec = Map::new();
    spec.insert("user".to_owned(), user.name.clone().into());
    spec.insert("groups".to_owned(), user.groups.iter().cloned().collect());
    if !user.uid.is_empty() {
        spec.insert("uid".to_owned(), user.uid.clone().into());
    }
    if !user.extra.is_empty() {
        spec.insert("extra".to_owned(), user.extra.clone().into());
    }
    spec.insert(field.to_owned(), attributes);
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
}

/// Answers with their times of expiry.
struct Kept<T>(Table<Key, (Instant, T)>);

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept(Table::new())
    }
}

impl<T: Clone> Kept<T> {
    fn get(&self, key: &Key, now: Instant) -> Option<T> {
        self.0.get(key).filter(|(until, _)| now < *until).map(|(_, answer)| answer.clone())
    }

    fn put(&mut self, key: Key, answer: T, until: Instant) {
        if self.0.len() >= limits::WEBHOOK_KEPT {
            let now = Instant::now();
            self.0.retain(|_, (until, _)| now < *until);
        }
        if self.0.len() >= limits::WEBHOOK_KEPT {
            // The one that expires first is missed least.
            let first = self.0.iter().min_by_key(|(_, (until, _))| *until).map(|(key, _)| *key);
            first.and_then(|first| self.0.remove(&first));
        }
        self.0.insert(key, (until, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_token() {
        let answer = |status: Value| reviewed(&json!({"kind": "TokenReview", "status": status}));
        assert_eq!(answer(json!({})), Ok(None));
        assert_eq!(answer(json!({"authenticated": false, "user": {"username": "a"}})), Ok(None));
        let user = json!({"username": "a", "uid": "u", "groups": ["g", 5], "extra": {"k": ["v"]}});
        let found = answer(json!({"authenticated": true, "user": user})).unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.uid.as_str(), found.groups.len()), ("a", "u", 1));
        assert!(answer(json!({"authenticated": true})).is_err());
        assert!(answer(json!({"authenticated": true, "user": {"username": "a\nb"}})).is_err());
        let review = access_review(&found, "resourceAttributes", of_node("n1", "get", "metrics"));
        assert_eq!(
            review["spec"],
            json!({
                "user": "a", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]},
                "resourceAttributes": {
                    "verb": "get", "version": "v1", "resource": "nodes", "subresource": "metrics", "name": "n1",
                },
            })
        );
    }

    #[test]
    fn answers_are_kept_for_their_time_and_in_a_bounded_number() {
        let mut kept = Kept::default();
        let now = Instant::now();
        let key = |n: usize| sha256::hash(&n.to_be_bytes());
        kept.put(key(0), true, now);
        assert_eq!(kept.get(&key(0), now), None);
        for n in 0..limits::WEBHOOK_KEPT * 2 {
            kept.put(key(n), true, now + Duration::from_secs(100 + n as u64));
        }
        assert_eq!(kept.0.len(), limits::WEBHOOK_KEPT);
        let last = limits::WEBHOOK_KEPT * 2 - 1;
        assert_eq!(kept.get(&key(last), now), Some(true));
        assert_eq!(kept.get(&key(last), now + Duration::from_secs(1_000_000)), None);
        assert_eq!(kept.get(&key(0), now), None);
    }
}
