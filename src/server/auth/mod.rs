//! Identifies clients and decides what they may do: the kubelet's rules (`pkg/kubelet/server/auth.go`), with a table by
//! group in place of an API server's decision.
//!
//! Never here: any answer to an unknown client but that it is unknown.

mod rights;
mod subject;
pub mod webhook;

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use serde_json::{Map, Value};

use crate::base::order;
use crate::base::table::Set;

use super::http::answer::{Answer, TEXT};
use super::http::request::Request;
use super::service::{Asked, Reply, Service};
use super::tls::Certificates;
pub use rights::{Right, right, subresources, verb};
use webhook::Webhook;

/// The user who sent a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The common name of the certificate, or `system:anonymous`.
    pub name: String,
    /// The organizations of the certificate, or `system:unauthenticated`.
    pub groups: Set<String>,
    /// UID of the user at the API server; empty for other users.
    pub uid: String,
    /// Extra fields of the user at the API server; empty for other users.
    pub extra: Map<String, Value>,
    /// The API server identified the user by a token.
    pub by_token: bool,
}

/// Rules for what users may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// All identified users may do everything.
    AlwaysAllow,
    /// Members of these groups may do the following.
    Groups {
        /// Everything.
        admin: Set<String>,
        /// Requests that change and run nothing: see [`Right::View`].
        view: Set<String>,
    },
    /// An API server decides.
    Webhook,
}

/// The rules of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--anonymous-auth`: a client without a certificate is `system:anonymous` instead of being refused.
    pub allows_anonymous: bool,
    /// `--authorization-mode` and the groups that go with it.
    pub authorization: Authorization,
    /// Settings of requests to the API server.
    pub webhook: webhook::Settings,
}

impl Default for Settings {
    /// No user may do anything.
    fn default() -> Settings {
        let authorization = Authorization::Groups { admin: Set::new(), view: Set::new() };
        Settings { allows_anonymous: false, authorization, webhook: webhook::Settings::default() }
    }
}

/// A service behind the check of identity and rights.
pub struct Guard {
    pub settings: Settings,
    pub certificates: Arc<Certificates>,
    /// Decides about tokens and rights; `None` without an API server.
    pub webhook: Option<Webhook>,
    pub inner: Arc<dyn Service>,
}

impl Service for Guard {
    fn answer(&self, asked: &mut Asked<'_>) -> Reply {
        let user = match self.user(asked.certificates, asked.request) {
            Ok(user) => user,
            Err(why) => {
                log::debug!("a request of {} is not answered: {why}", asked.peer);
                return Answer::new(401, TEXT, "Unauthorized").into();
            }
        };
        let (verb, subresources) = (verb(asked.request.method), subresources(&asked.request.path));
        let allowed = match (&self.settings.authorization, &self.webhook) {
            (Authorization::Webhook, Some(webhook)) => webhook.allows(&user, verb, &subresources),
            _ => Ok(self.settings.allows(&user, right(asked.request))),
        };
        let of = || {
            let subresources = subresources.join(" ");
            format!("(user={}, verb={verb}, resource=nodes, subresource(s)=[{subresources}])", user.name)
        };
        match allowed {
            Ok(true) => self.inner.answer(asked),
            Ok(false) => {
                let why = format!("Forbidden {}", of());
                log::debug!("a request of {} is not answered: {why}", asked.peer);
                Answer::text(403, &why).into()
            }
            Err(error) => {
                let why = format!("Authorization error {}", of());
                log::debug!("a request of {} is not answered: {why}: {error}", asked.peer);
                Answer::text(500, &why).into()
            }
        }
    }
}

/// The user with these certificates.
///
/// # Errors
/// The reason why the client is unknown.
pub fn known(certificates: &Certificates, chain: &[CertificateDer<'static>]) -> Result<User, String> {
    let Some(certificate) = chain.first() else { return Err("it shows no certificate".to_owned()) };
    certificates.verify(chain)?;
    subject::user(certificate).ok_or_else(|| "its certificate names no user".to_owned())
}

/// The bearer token of a request.
fn bearer(request: &Request) -> Option<&str> {
    let (scheme, token) = request.header("authorization")?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The user who sent a request, by certificates or, if an API server reviews tokens, by bearer token.
///
/// # Errors
/// The reason why the client is unknown.
pub fn identified(
    certificates: &Certificates,
    webhook: Option<&Webhook>,
    chain: &[CertificateDer<'static>],
    request: &Request,
) -> Result<User, String> {
    let by_certificate = known(certificates, chain);
    let webhook = webhook.filter(|webhook| webhook.reviews_tokens());
    let (Err(why), Some(webhook), Some(token)) = (&by_certificate, webhook, bearer(request)) else {
        return by_certificate;
    };
    // A client with an invalid token is not anonymous, as in the kubelet.
    webhook.user(token)?.ok_or_else(|| format!("{why}, and its token is nobody's"))
}

impl Guard {
    /// The user of a request.
    ///
    /// # Errors
    /// The reason why the client is unknown.
    fn user(&self, chain: &[CertificateDer<'static>], request: &Request) -> Result<User, String> {
        let webhook = self.webhook.as_ref();
        let shows_token = webhook.is_some_and(Webhook::reviews_tokens) && bearer(request).is_some();
        if chain.is_empty() && self.settings.allows_anonymous && !shows_token {
            let groups = order::set(["system:unauthenticated".to_owned()]);
            return Ok(User { name: "system:anonymous".to_owned(), groups, ..User::default() });
        }
        identified(&self.certificates, webhook, chain, request)
    }
}

impl Settings {
    /// Whether an API server is asked about clients.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.webhook.reviews_tokens || self.authorization == Authorization::Webhook
    }

    /// Whether this user has this right.
    #[must_use]
    pub fn allows(&self, user: &User, right: Right) -> bool {
        match &self.authorization {
            Authorization::AlwaysAllow => true,
            // Without an API server no user is allowed anything.
            Authorization::Webhook => false,
            Authorization::Groups { admin, view } => {
                let is_of = |groups: &Set<String>| user.groups.iter().any(|group| groups.contains(group));
                is_of(admin) || right == Right::View && is_of(view)
            }
        }
    }
}

#[cfg(test)]
mod tests;
