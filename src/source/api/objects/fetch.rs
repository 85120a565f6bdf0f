//! Requests for objects, and those that are under way: each in a thread of its own, so that an object whose request hangs
//! keeps neither events nor other objects waiting.
//!
//! Never here: what an answer means for a pod.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde_json::Value;

use super::{Known, claim_of, of_services};
use crate::api_client::request::encoded;
use crate::api_client::{ApiError, Client, Method, Request};
use crate::base::json::json;
use crate::base::table::Set;
use crate::base::{limits, thread};
use crate::pod::object::{ObjectKey, ObjectKind};
use crate::pod::placement::NodeAtServer;
use crate::source::api::decode::Token;
use crate::source::api::{Parts, checks, services};

/// Makes requests for objects.
#[derive(Debug, Clone)]
pub struct Asker {
    client: Client,
    /// Name of this node.
    pub node_name: String,
    /// Address of the server, for paths.
    pub server: String,
    /// Labels and taints of the node at the server.
    pub node: Option<NodeAtServer>,
    /// Limit of one call.
    patience: Duration,
}

impl Asker {
    #[must_use]
    pub fn new(parts: &Parts, server: &str, node: Option<&NodeAtServer>) -> Asker {
        let Parts { client, acceptor, patience, .. } = parts;
        Asker {
            client: client.clone(),
            node_name: acceptor.node_name.clone(),
            server: server.to_owned(),
            node: node.cloned(),
            patience: patience.call,
        }
    }

    /// With another limit of one call.
    #[must_use]
    pub fn within(self, patience: Duration) -> Asker {
        Asker { patience, ..self }
    }

    /// The object at this path.
    ///
    /// # Errors
    /// No answer in time, or an error of the server.
    pub fn get(&self, path: String) -> Result<Value, ApiError> {
        self.client.call(&Request::get(path), self.patience)
    }

    /// The object of this kind and name.
    pub(super) fn object(&self, key: &ObjectKey, kind: &str) -> Result<Value, ApiError> {
        self.get(format!("/api/v1/namespaces/{}/{kind}/{}", encoded(&key.namespace), encoded(&key.name)))
    }

    /// Requests an object, or this token for it.
    ///
    /// # Errors
    /// No answer, or an error of the server.
    fn fetch(&self, key: &ObjectKey, token: Option<&Token>) -> Result<Fetched, ApiError> {
        if let Some(token) = token {
            return self.token(token).map(Fetched::Token);
        }
        // The server is not asked at a path that means something else.
        if services::of(key).is_none() && !checks::is_name(&key.name) {
            return Ok(Fetched::Nothing);
        }
        match (key.kind, services::of(key)) {
            (ObjectKind::PersistentVolumeClaim, _) => {
                claim_of(self, key).map(|claim| Fetched::Claim(Box::new(claim)))
            }
            (_, Some(wanted)) => of_services::services_of(self, key, wanted).map(Fetched::Services),
            (ObjectKind::ConfigMap, None) => self.object(key, "configmaps").map(Fetched::Object),
            (ObjectKind::Secret, None) => self.object(key, "secrets").map(Fetched::Object),
        }
    }

    fn token(&self, token: &Token) -> Result<Value, ApiError> {
        let path = format!(
            "/api/v1/namespaces/{}/serviceaccounts/{}/token",
            encoded(&token.pod.namespace),
            encoded(&token.account)
        );
        let audiences: Vec<&str> =
            Some(token.audience.as_str()).filter(|it| !it.is_empty()).into_iter().collect();
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": audiences,
                "expirationSeconds": token.lasts,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": token.pod.name, "uid": token.uid},
            },
        });
        self.client.call(&Request::with(Method::Post, path, &body), self.patience)
    }
}

/// What the server has answered.
pub enum Fetched {
    /// It was not asked: there can be no such object.
    Nothing,
    Object(Value),
    Services(Vec<Value>),
    Claim(Box<Known>),
    Token(Value),
}

/// The answer to one request.
pub struct Answer {
    pub key: ObjectKey,
    /// The token that was requested for it.
    pub token: Option<Token>,
    pub result: Result<Fetched, ApiError>,
}

/// The requests that are under way.
pub struct UnderWay {
    /// Objects whose answers are wanted.
    keys: Set<ObjectKey>,
    threads: usize,
    out: Sender<Answer>,
    answers: Receiver<Answer>,
}

impl Default for UnderWay {
    fn default() -> UnderWay {
        let (out, answers) = unbounded();
        UnderWay { keys: Set::new(), threads: 0, out, answers }
    }
}

impl UnderWay {
    #[must_use]
    pub fn has(&self, key: &ObjectKey) -> bool {
        self.keys.contains(key)
    }

    /// The objects whose answers are wanted.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.keys.iter()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads == 0
    }

    /// Whether there is no room for another one.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.threads >= limits::API_LOOK_UPS_AT_ONCE
    }

    /// Forgets those that no pod refers to any more. Their requests go on until they end.
    pub fn retain(&mut self, wanted: impl Fn(&ObjectKey) -> bool) {
        self.keys.retain(|key| wanted(key));
    }

    /// Begins a request for an object, or for this token.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(&mut self, asker: Asker, key: &ObjectKey, token: Option<&Token>) -> Result<(), ApiError> {
        let (key, token, out) = (key.clone(), token.cloned(), self.out.clone());
        let of = key.clone();
        let body = move || {
            let result = asker.fetch(&key, token.as_ref());
            // The source has ended.
            _ = out.send(Answer { key, token, result });
        };
        thread::spawn("pk-object", limits::URL_STACK, body)
            .map_err(|error| ApiError::Unreachable(format!("no thread can be started: {error}")))?;
        self.threads = self.threads.saturating_add(1);
        self.keys.insert(of);
        Ok(())
    }

    /// The next answer that is still wanted, if one comes within this time.
    pub fn next(&mut self, wait: Duration) -> Option<Answer> {
        let end = std::time::Instant::now() + wait;
        while !self.is_empty() {
            let left = end.saturating_duration_since(std::time::Instant::now());
            let answer = self.answers.recv_timeout(left).ok()?;
            self.threads = self.threads.saturating_sub(1);
            if self.keys.remove(&answer.key) {
                return Some(answer);
            }
        }
        None
    }
}
