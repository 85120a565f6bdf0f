//! Requests for the objects of pods.
//!
//! Never here: what an answer means for a pod.

use std::time::Duration;

use serde_json::Value;

use super::{Known, claim_of, of_services};
use crate::api_client::request::encoded;
use crate::api_client::{ApiError, Client, Method, Request};
use crate::base::json::json;
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
    pub fn fetch(&self, key: &ObjectKey, token: Option<&Token>) -> Result<Fetched, ApiError> {
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

/// The answer to one request, and the token that was requested.
pub type Answer = (Option<Token>, Result<Fetched, ApiError>);
